"""`make demo`: the catalogue, the bucket, one run of the DAG through Airflow, and what it made."""

from __future__ import annotations

import argparse
import contextlib
import gzip
import json
import re
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from rich.console import Console

from demo.bucket import PRIVATE, PUBLIC, Bucket, embedded
from demo.catalogue import make
from demo.surroundings import AIRFLOW, DAG, PROJECT, Home
from sitemap_etl.cli.show import show_summary
from sitemap_etl.runs.stages import STAGES
from sitemap_etl.state.codec import decode
from sitemap_etl.state.records import Summary

STATE = "sitemaps/demo"
SITE = "sites/demo.yaml"
_ENDED = re.compile(r"\[DAG TEST\] end task task_id=(\w+)")
console = Console(highlight=False, soft_wrap=True, width=max(100, Console().width))


def main() -> int:
    """Run the demo; gives the exit code."""
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument("--home", type=Path, default=PROJECT / ".demo", help="where everything is kept")
    parser.add_argument("--day", type=int, default=1, help="2 and later: the catalogue as it changed since")
    options = parser.parse_args()
    home = Home(options.home.resolve())
    with home.locked():
        started = time.monotonic()
        with _airflow(home) as airflow:  # it migrates its database meanwhile
            rows = make(home.catalogue, options.day)
            counts = ", ".join(f"{name} {count:,}" for name, count in rows.items())
            _step(f"Catalogue   {_shown(home.catalogue)}: {sum(rows.values()):,} rows ({counts})")
            with embedded(home.bucket) as bucket:
                where = f"at {bucket.endpoint}, kept in {_shown(home.bucket)}"
                _step(f"Bucket      s3://{PUBLIC} and s3://{PRIVATE} {where}")
                code = _run_dag(home, airflow, bucket)
                if code:
                    return code
                summary = _newest_summary(bucket)
                _show(home, bucket, summary, options.day, time.monotonic() - started)
    return 0


def _step(line: str) -> None:
    console.print(line, markup=False)


def _shown(path: Path) -> str:
    return str(path.relative_to(PROJECT)) if path.is_relative_to(PROJECT) else str(path)


def _airflow(home: Home) -> subprocess.Popen[str]:
    """Start the process in which Airflow runs the DAG; it waits for the bucket's address."""
    return subprocess.Popen(  # noqa: S603 - our own
        DAG,
        cwd=PROJECT,
        env=home.environ() | {"SITEMAP_ETL_SITES": str(PROJECT / "sites")},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )


def _run_dag(home: Home, airflow: subprocess.Popen[str], bucket: Bucket) -> int:
    """Run the DAG, its log in a file; gives the exit code."""
    log = home.folder / "airflow.log"
    _step(f"Airflow     one run of the DAG of {SITE} (log: {_shown(log)})")
    assert airflow.stdin is not None
    assert airflow.stdout is not None
    with contextlib.suppress(BrokenPipeError):  # it failed before, and its output says why
        airflow.stdin.write(json.dumps(bucket.env) + "\n")
        airflow.stdin.close()  # not later, when nothing catches what a pipe without a reader raises
    done: Counter[str] = Counter()
    with log.open("w") as out:
        last = ""
        for line in airflow.stdout:
            out.write(line)
            ended = _ENDED.search(line)
            if ended:
                if last and ended[1] != last:
                    _tell_stage(last, done[last])
                last = ended[1]
                done[last] += 1
        if last:
            _tell_stage(last, done[last])
    code = airflow.wait()
    return _fail(log, code) if code else 0


def _tell_stage(name: str, count: int) -> None:
    _step(f"  {name:<{max(map(len, STAGES))}} {count} task{'s' if count > 1 else ''}")


def _fail(log: Path, code: int) -> int:
    """Show the end of the log."""
    lines = log.read_text(errors="replace").splitlines()
    console.print("\n".join(lines[-60:]), markup=False)
    console.print(f"\nThe demo failed (exit {code}). The whole log: {_shown(log)}", markup=False)
    return code or 1


def _newest_summary(bucket: Bucket) -> Summary:
    key = max(key for key, _ in bucket.keys(PRIVATE, f"{STATE}/reports/") if key.endswith("/summary.json"))
    return decode(Summary, json.loads(bucket.get(PRIVATE, key)), key)


def _show(home: Home, bucket: Bucket, summary: Summary, day: int, seconds: float) -> None:
    _title("The bucket")
    _step(f"  s3://{PUBLIC}")
    for key, size in bucket.keys(PUBLIC):
        _step(f"    {key:<32}{size:>12,} bytes{_lines_of(bucket, key)}")
    _step(f"  s3://{PRIVATE}")
    for folder, sizes in _folders(bucket.keys(PRIVATE)).items():
        _step(f"    {folder:<32}{sum(sizes):>12,} bytes{len(sizes):>9,} object{'s' if len(sizes) > 1 else ''}")
    sitemap = next(key for key, _ in bucket.keys(PUBLIC) if key.startswith("sitemap-places"))
    _title(f"The first lines of {sitemap}")
    _step(_head(gzip.decompress(bucket.get(PUBLIC, sitemap)).decode(), 6))
    _title("robots.txt: what was there, and our block")
    _step("  " + bucket.get(PUBLIC, "robots.txt").decode().rstrip().replace("\n", "\n  "))
    _title(f"The run ({seconds:.0f} s)")
    show_summary(summary, SITE)
    _title("How to look further")
    public = _shown(home.bucket / PUBLIC)
    reports = _shown(home.bucket / PRIVATE / STATE / "reports" / str(summary.run_id))
    python = _shown(Path(sys.executable))
    for what, command in (
        ("the buckets, as files", f"ls -R {_shown(home.bucket)}"),
        ("all of a sitemap", f"gunzip -c {public}/{sitemap} | less"),
        ("is it valid?", f"{_shown(Path(AIRFLOW).with_name('sitemap-etl'))} check {public}"),
        (
            "the rejected rows",
            f"{python} -c \"import pandas; print(pandas.read_parquet('{reports}/rejected.parquet'))\"",
        ),
        ("again: nothing changes", "make demo" + (f" DAY={day}" if day > 1 else "")),
        ("the catalogue a day later", f"make demo DAY={day + 1}"),
        ("the DAG in Airflow's UI", "make airflow"),
        ("a site of your own", "README.md"),
    ):
        _step(f"  {what:<26}{command}")


def _title(text: str) -> None:
    console.print(f"\n[bold]{text}[/bold]")


def _lines_of(bucket: Bucket, key: str) -> str:
    """How many URLs a sitemap has, or sitemaps an index."""
    if not key.endswith((".xml", ".xml.gz")):
        return ""
    data = bucket.get(PUBLIC, key)
    text = gzip.decompress(data) if key.endswith(".gz") else data
    return f"{text.count(b'<url>'):>9,} URLs" if b"<url>" in text else f"{text.count(b'<sitemap>'):>9,} sitemaps"


def _folders(keys: list[tuple[str, int]]) -> dict[str, list[int]]:
    """The sizes of the objects in each folder of the state."""
    found: dict[str, list[int]] = {}
    for key, size in keys:
        found.setdefault("/".join(key.split("/")[:3]) + "/", []).append(size)
    return found


def _head(text: str, lines: int) -> str:
    """The first lines."""
    return "\n".join(f"  {line}" for line in [*text.splitlines()[:lines], "…"])


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
