"""Reports in the formats of CI systems: SARIF 2.1.0, JUnit XML, GitHub Actions and GitLab Code Quality.

Names of files and examples are untrusted. Invisible characters are written as escapes first. Then each format escapes
the text by its own rules.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import quote
from xml.etree import ElementTree as ET

from sitemap_etl import __version__
from sitemap_etl.check.baseline import TRANSIENT, key_of
from sitemap_etl.check.codes import CODES, SEVERITIES, Severity
from sitemap_etl.check.explanations import explanations
from sitemap_etl.check.report import Finding, Report, place_of
from sitemap_etl.visible import visible

FailOn = Literal["error", "warning"]
_SARIF: Final = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/os/schemas/sarif-schema-2.1.0.json"
_LEVELS: Final[dict[Severity, str]] = {"error": "error", "warning": "warning", "info": "note"}
_ANNOTATIONS: Final[dict[Severity, str]] = {"error": "error", "warning": "warning", "info": "notice"}
_SHOWN: Final = 100
"""Maximum number of examples of a finding. JSON has all of them."""
_GITLAB: Final[dict[Severity, str]] = {"error": "major", "warning": "minor", "info": "info"}
_URI: Final = "/:?#[]@!$&'()*+,;=%~"
"""Characters of an address besides letters and digits (RFC 3986, section 2)."""


def said(finding: Finding) -> str:
    """Return a finding in a sentence: its title, how often it occurs, its detail and its examples."""
    text = finding.title[:1].upper() + finding.title[1:]
    if finding.count > 1:
        text += f" ({finding.count:,} times{f', {finding.known:,} of them known' if finding.known else ''})"
    if finding.detail:
        text += f": {visible(finding.detail)}"
    examples = [visible(example.text) for example in finding.examples[:_SHOWN] if example.text]
    if examples:
        text += f". Example{'s' if len(examples) > 1 else ''}: {' , '.join(examples)}"
    return text


# --- SARIF ---


def sarif(report: Report, exit_code: int, *, compared: bool) -> dict[str, Any]:
    """Return a SARIF log with one run. With a baseline (`compared`), each result says if it is new.

    A result is a finding, with its occurrences as `occurrenceCount`. Columns count bytes, as in findings, so they are
    too high after characters other than ASCII.
    """
    codes = list(dict.fromkeys(finding.code for finding in report.findings))
    return {
        "$schema": _SARIF,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": {"name": "sitemap-etl", "version": __version__, "rules": [_rule(c) for c in codes]}},
                "invocations": [{"executionSuccessful": exit_code in (0, 1), "exitCode": exit_code}],
                "columnKind": "unicodeCodePoints",
                "results": [_result(finding, codes, compared=compared) for finding in report.findings],
            }
        ],
    }


def _rule(code: str) -> dict[str, Any]:
    known, explanation = CODES[code], explanations()[code]
    return {
        "id": code,
        "shortDescription": {"text": f"{known.title[:1].upper()}{known.title[1:]}."},
        "fullDescription": {"text": explanation.reason},
        "help": {"text": known.fix},
        "helpUri": explanation.source,
        "defaultConfiguration": {"level": _LEVELS[known.severity]},
    }


def _result(finding: Finding, codes: list[str], *, compared: bool) -> dict[str, Any]:
    place: dict[str, Any] = {"artifactLocation": {"uri": _uri(finding.file)}}
    if finding.line:
        column = {} if finding.column is None else {"startColumn": finding.column}
        place["region"] = {"startLine": finding.line, **column}
    result: dict[str, Any] = {
        "ruleId": finding.code,
        "ruleIndex": codes.index(finding.code),
        "level": _LEVELS[finding.severity],
        "message": {"text": f"{said(finding)}. {finding.fix}"},
        "locations": [{"physicalLocation": place}],
        "occurrenceCount": finding.count,
        "partialFingerprints": {"sitemapEtlFinding/v1": _fingerprint(finding)},
    }
    if compared:
        result["baselineState"] = "unchanged" if finding.is_known else "updated" if finding.known else "new"
    return result


def _fingerprint(finding: Finding) -> str:
    """Return a hash of a finding that does not change with its line."""
    key = "\0".join(key_of(finding, Path())).encode("utf-8", "replace")
    return hashlib.sha256(key).hexdigest()[:32]


def _uri(file: str) -> str:
    """Return the address of a file, relative if it is below the working directory, as GitHub and editors need it."""
    if "://" in file:
        return quote(file, safe=_URI, errors="replace")
    path = Path(file)
    if path.is_absolute() and not path.is_relative_to(Path.cwd()):
        return path.as_uri()
    return quote(_near(file).encode("utf-8", "surrogateescape"), safe="/~")


def _near(file: str) -> str:
    """Return a path relative to the working directory if it is below it."""
    path = Path(file)
    if path.is_absolute() and path.is_relative_to(Path.cwd()):
        path = path.relative_to(Path.cwd())
    return path.as_posix()


# --- JUnit ---


def junit(report: Report, fail_on: FailOn) -> str:
    """Return JUnit XML: a suite for each file, with a case for each finding, or one case that passes.

    Findings less severe than `fail_on` pass, with their text in the output of the case. Known findings are skipped. A
    file without an answer is an error. The text is ASCII, so it is the same on any stream.
    """
    failing = SEVERITIES[: SEVERITIES.index(fail_on) + 1]
    of_file: dict[str, list[Finding]] = {stats.file: [] for stats in report.files}
    for finding in report.findings:
        of_file.setdefault(finding.file, []).append(finding)
    root = ET.Element("testsuites", name="sitemap-etl check", time=f"{report.seconds:.3f}")
    for file, findings in of_file.items():
        suite = ET.SubElement(root, "testsuite", name=visible(file))
        for finding in findings:
            _case(suite, finding, failing)
        if not findings:
            ET.SubElement(suite, "testcase", name="no problems found", classname=visible(file))
        _count(suite, [suite])
    _count(root, list(root))
    del root.attrib["skipped"]  # Jenkins' schema allows it only for suites
    ET.indent(root)
    written: bytes = ET.tostring(root, "us-ascii", xml_declaration=True)
    return written.decode("ascii").replace("us-ascii", "UTF-8", 1)


def _case(suite: ET.Element, finding: Finding, failing: tuple[Severity, ...]) -> None:
    name = finding.code if not finding.line else f"{finding.code} (line {finding.line})"
    case = ET.SubElement(suite, "testcase", name=name, classname=visible(finding.file))
    said_ = said(finding)
    text = f"{place_of(finding.file, finding)}\n{said_}\n{finding.fix}"
    if finding.is_known:
        ET.SubElement(case, "skipped", message="known: it is in the baseline")
    elif finding.severity in failing:
        kind = "error" if finding.code in TRANSIENT else "failure"
        ET.SubElement(case, kind, type=finding.code, message=said_).text = text
    else:
        ET.SubElement(case, "system-out").text = f"{finding.severity}: {text}"


def _count(element: ET.Element, suites: list[ET.Element]) -> None:
    """Write the numbers of cases into a suite, or into the root."""
    for attribute, tag in (("tests", "testcase"), ("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        element.set(attribute, str(sum(len(list(suite.iter(tag))) for suite in suites)))


# --- GitHub Actions ---


def github(report: Report) -> Iterator[str]:
    """Yield lines that GitHub Actions shows as annotations, without known findings. The last line is a summary.

    GitHub shows ten errors and ten warnings of a step, so the worst come first.
    """
    for finding in report.new:
        properties = {"title": finding.code}
        place = ""
        if "://" in finding.file:
            place = f"{place_of(finding.file, finding)}: "
        else:
            properties["file"] = _near(finding.file)
            if finding.line:
                properties["line"] = str(finding.line)
            if finding.column:
                properties["col"] = str(finding.column)
        written = ",".join(f"{name}={_property(text)}" for name, text in properties.items())
        yield f"::{_ANNOTATIONS[finding.severity]} {written}::{_data(f'{place}{said(finding)}. {finding.fix}')}"
    counts = report.counts
    known = len(report.findings) - len(report.new)
    yield (
        f"sitemap-etl check: errors: {counts['error']:,}, warnings: {counts['warning']:,}, info: {counts['info']:,}, "
        f"known: {known:,}; files: {len(report.files):,}, URLs: {report.urls:,}"
    )


def _data(text: str) -> str:
    """Return text after the second `::` of a workflow command."""
    return visible(text.replace("%", "%25"))


def _property(text: str) -> str:
    """Return the value of a property of a workflow command."""
    return _data(text).replace(":", "%3A").replace(",", "%2C")


# --- GitLab ---


def gitlab(report: Report) -> list[dict[str, Any]]:
    """Return a Code Quality report of GitLab, without known findings. Files on the web keep their addresses."""
    return [
        {
            "description": f"{said(finding)}. {finding.fix}",
            "check_name": finding.code,
            "fingerprint": _fingerprint(finding),
            "severity": _GITLAB[finding.severity],
            "location": {
                "path": visible(finding.file) if "://" in finding.file else visible(_near(finding.file)),
                "lines": {"begin": finding.line or 1},
            },
        }
        for finding in report.new
    ]
