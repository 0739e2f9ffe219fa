"""The command that shows the state of sites: status."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from sitemap_etl.advice import for_file
from sitemap_etl.cli.options import json_option, read_site
from sitemap_etl.cli.output import put, put_json
from sitemap_etl.cli.pages import Page
from sitemap_etl.cli.streams import is_unicode
from sitemap_etl.cli.values import File, Number
from sitemap_etl.errors import ConfigError, SitemapEtlError

if TYPE_CHECKING:
    from sitemap_etl.runs.status import SiteStatus
    from sitemap_etl.state.records import Attempt

MAX_AGE: Final = 36.0
"""Default age limit in hours. A missing nightly run is reported the next morning."""
MOST_AGE: Final = 87_672.0
"""Highest age limit in hours: ten years."""
_BARS: Final = "▁▂▃▄▅▆▇█"
_PLAIN: Final = "_.-=+*#%"
_MORE: Final = 3
"""Lines of a problem after its first: a refusal names the most affected path, and the commands to look and to publish
anyway.
"""
_SHOWN: Final = 3
"""Failed runs that are shown one by one."""


@click.command(cls=Page)
@click.argument(
    "site_files", nargs=-1, required=True, type=File(), metavar="SITE.yaml...", help="Site files, or folders of them."
)
@click.option(
    "--max-age",
    type=Number(0, MOST_AGE),
    default=MAX_AGE,
    metavar="HOURS",
    help="How old the last successful run may be (default: 36; 0: any age).",
)
@json_option
def status(site_files: tuple[Path, ...], max_age: float, as_json: bool) -> None:
    """Show how sites are: the last run, what is published, what failed since, and what is pending.

    Reads the state only. Exit code 1: a site needs attention, which makes this a health check.
    """
    from sitemap_etl.state.codec import encode

    limit = timedelta(hours=max_age) if max_age else None
    found = [each for path in site_files for each in _statuses(path, limit)]
    code = int(not all(one.healthy for _, one in found))
    if as_json:
        bad = [str(path) for path, one in found if not one.healthy]
        error_text = f"needs attention: {', '.join(bad)}" if bad else None
        sites = [{"file": str(path), **encode(one)} for path, one in found]
        put_json({"status": "failed" if code else "done", "error": error_text, "exit": code, "sites": sites})
    else:
        for at, (path, one) in enumerate(found):
            if at:
                put("")
            put(*(for_file(line, str(path)) for line in _lines(one)))
        sys.stdout.flush()
    if code:
        raise click.exceptions.Exit(code)


def _statuses(path: Path, max_age: timedelta | None) -> Iterator[tuple[Path, SiteStatus]]:
    """Yield the status of a site file, or of every site in a folder. An unreadable file needs attention."""
    from sitemap_etl.config import read_folder

    if not path.is_dir():
        yield path, _status(path, max_age)
        return
    folder = read_folder(path, environ=os.environ)
    for file in folder.files.values():
        yield file, _status(file, max_age)
    problems = folder.problems or ([] if folder.files else [f"{path}: the folder has no site files (*.yaml)"])
    if problems:
        yield path, _unreadable(path, problems)


def _status(path: Path, max_age: timedelta | None) -> SiteStatus:
    from sitemap_etl.runs.status import status_of
    from sitemap_etl.stages.run import Environment

    try:
        site = read_site(path)
    except SitemapEtlError as error:
        return _unreadable(path, error.problems if isinstance(error, ConfigError) else [str(error)])
    return status_of(site, Environment(site_file=str(path.absolute())), max_age=max_age)


def _unreadable(path: Path, problems: Sequence[str]) -> SiteStatus:
    from sitemap_etl.runs.status import SiteStatus

    return SiteStatus(path.stem, "", healthy=False, problems=tuple(problems))


def _lines(found: SiteStatus) -> Iterator[str]:
    yield f"{'OK' if found.healthy else 'NEEDS ATTENTION'}  {found.name}  {found.site}".rstrip()
    for problem in found.problems:
        first, *rest = problem.splitlines()
        yield f"  ! {first}"
        yield from (f"    {line.strip()}" for line in rest[:_MORE])
    if not found.read_at:
        return
    if found.running is not None:
        yield f"  running    {found.running}"
    if found.last is not None:
        yield f"  last run   {_told(found.last, found.read_at)}"
        if found.last.report is not None:
            yield f"             {found.last.report}"
    for one in found.failed[1 : 1 + _SHOWN]:
        yield f"             {_told(one, found.read_at)}"
    if len(found.failed) > 1 + _SHOWN:
        yield f"             … {len(found.failed) - 1 - _SHOWN} more failed since the last good run"
    held = found.published
    if held is None and not found.blocked:  # by a record, perhaps, without which it is not known
        yield "  published  nothing yet"
    elif held is not None:
        ago = _ago(held.now, found.read_at)
        yield f"  published  {held.listed:,} URLs in {held.files:,} files, {ago}  {held.run_id}"
    for engine, runs in found.pending.items():
        yield f"  pending    {engine}: {len(runs)} run{'s' if len(runs) > 1 else ''} since {runs[0]}"
    for note in found.notes:
        yield f"  next run   {note}"
    if len(found.trend) > 1:
        ends = f"{found.trend[0]:,} → {found.trend[-1]:,} URLs" if is_unicode() else f"{found.trend[-1]:,} URLs"
        yield f"  trend      {sparkline(found.trend, _BARS if is_unicode() else _PLAIN)}  {ends}"


def _told(one: Attempt, now: str) -> str:
    """Return a line about one run: status, age and changes."""
    total = {what: one.total.of(what) for what in ("added", "changed", "removed")}
    changes = ", ".join(f"{count:,} {what}" for what, count in total.items() if count)
    status_ = one.status.replace("_", " ")
    return f"{status_}, {_ago(one.ended or one.now, now)}  {one.run_id}{f'  ({changes})' if changes else ''}"


def sparkline(values: Sequence[int], bars: str) -> str:
    """Return the values as bars between their minimum and maximum. Equal values have bars of half height."""
    low, high = min(values), max(values)
    if low == high:
        return bars[len(bars) // 2] * len(values)
    return "".join(bars[(value - low) * (len(bars) - 1) // (high - low)] for value in values)


def _ago(then: str, now: str) -> str:
    seconds = (datetime.fromisoformat(now) - datetime.fromisoformat(then)).total_seconds()
    if seconds < 0:
        return f"at {then}"
    for unit, size in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if seconds >= 2 * size or (unit != "minute" and seconds >= size):
            count = int(seconds // size)
            return f"{count:,} {unit}{'s' if count != 1 else ''} ago"
    return "just now"
