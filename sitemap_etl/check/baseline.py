"""Known findings, in a file that a team keeps beside its code, so that only new findings fail.

A finding is identified by its code, its file and its detail without numbers. Lines can change. The file has the number
of occurrences. If there are more, the finding is new.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from sitemap_etl.check.codes import CODES
from sitemap_etl.check.policy import Policy
from sitemap_etl.check.report import STDIN, Finding, Gone, Report
from sitemap_etl.errors import ConfigError

FORMAT: Final = 1
_NUMBER: Final = re.compile(r"[0-9]+(?:[.,:][0-9]+)*")
TRANSIENT: Final = frozenset({"unreachable", "not-asked", "partly-read", "not-finished", "defect"})
"""Codes that mean an incomplete check. A baseline never has them."""


class Key(NamedTuple):
    """Identity of a finding. Local files are relative to the folder of the baseline."""

    file: str
    code: str
    detail: str


def read_baseline(path: Path) -> Counter[Key]:
    """Return the occurrences of each known finding. Raise ConfigError if the file can't be read."""
    try:
        data = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise ConfigError(f"{path}: there is no such baseline; create it with --write-baseline") from None
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: the baseline can't be read: {error}") from error
    if isinstance(data, dict) and isinstance(data.get("format"), int) and data["format"] > FORMAT:
        raise ConfigError(
            f"{path}: the baseline has format {data['format']}, and this version reads up to {FORMAT}; "
            "update sitemap-etl, or write the baseline again with --write-baseline"
        )
    try:
        return Counter(
            {Key(str(f["file"]), str(f["code"]), str(f["detail"])): _count(f["count"]) for f in data["findings"]}
        )
    except (LookupError, TypeError, ValueError) as error:
        raise ConfigError(f"{path}: this is not a baseline; write it again with --write-baseline") from error


def _count(value: Any) -> int:
    if type(value) is not int or value < 1:
        raise ValueError(f"{value!r} is no count")
    return value


def write_baseline(path: Path, report: Report) -> int:
    """Write all findings of a report in one step, and return their number. Raise OSError."""
    counted: Counter[Key] = Counter()
    for finding in report.findings:
        if finding.code not in TRANSIENT:
            counted[key_of(finding, path.parent)] += finding.count
    rows = [{**key._asdict(), "count": counted[key]} for key in sorted(counted)]
    lines = ",".join(f"\n    {json.dumps(row, ensure_ascii=False)}" for row in rows)
    text = f'{{\n  "format": {FORMAT},\n  "findings": [{lines}\n  ]\n}}\n'
    new = path.with_name(f".{path.name}.new")
    new.write_text(text, "utf-8", "surrogatepass")
    new.replace(path)
    return len(rows)


def apply_baseline(known: Counter[Key], folder: Path, report: Report, policy: Policy) -> None:
    """Mark the known findings of a report, and list the findings that are gone. `folder` contains the baseline.

    Findings that the policy hides are not gone. Findings about pages are not gone if no pages were visited. After a
    check that ended early, it is unknown which are gone.
    """
    left = Counter(known)
    found = Counter[Key]()
    for finding in report.findings:
        found[key_of(finding, folder)] += finding.count
    marked: list[Finding] = []
    for finding in report.findings:
        key = key_of(finding, folder)
        # All occurrences of a finding are new, or none: it is unknown which of five were the three known ones.
        mark = finding.count if found[key] <= known[key] else min(known[key], finding.count - 1)
        marked.append(replace(finding, known=mark) if known[key] else finding)
        left[key] -= finding.count
    report.findings = marked
    checked = {_place(stats.file, folder) for stats in report.files if stats.kind != "unread"}
    report.gone = [
        Gone(key.code, key.file, key.detail, count, key.file in checked and not report.ended)
        for key, count in sorted(left.items())
        if count > 0 and key.code in CODES and policy.severity_of(key.code) is not None
        if report.pages.sampled or not key.code.startswith("page-")
    ]


def key_of(finding: Finding, folder: Path) -> Key:
    """Return the identity of a finding in a baseline in `folder`."""
    return Key(_place(finding.file, folder), finding.code, _NUMBER.sub("#", finding.detail))


def _place(file: str, folder: Path) -> str:
    """Return the name of a file independent of the project's location."""
    if "://" in file or file == STDIN:
        return file
    try:
        return Path(os.path.relpath(file, folder)).as_posix()
    except ValueError:  # on another drive
        return Path(file).as_posix()
