"""Find the report page of a run, and bring it to this machine."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Final

from sitemap_etl.config import Site
from sitemap_etl.errors import ConfigError
from sitemap_etl.frozen import Frozen
from sitemap_etl.stages.run import Environment, open_work
from sitemap_etl.state import layout
from sitemap_etl.state.attempts import read_attempts
from sitemap_etl.storage import Storage

_NAMED: Final = 5
"""Runs that a message names."""
_SEARCHED: Final = 60
"""Runs among which the last report is searched for: runs that failed have none."""


class Report(Frozen):
    """Report page of a run. `address`: its place in the state. `path`: a file on this machine."""

    run_id: str
    address: str
    path: Path


def find_report(site: Site, environment: Environment, run_id: str | None = None) -> Report:
    """Return the report of a run, by default of the last run that has one, dry runs included.

    A report in a bucket is downloaded into a new temporary folder. Raise ConfigError if there is no such report.
    """
    work = open_work(site, environment)
    if run_id is not None and not layout.is_run_id(run_id):
        raise ConfigError(f"{run_id}: expected the id of a run, such as 20261120T020000Z-7f3a")
    found = _last(work) if run_id is None else run_id
    stored = None if found is None else work.get(layout.report(found))
    if found is None or stored is None:
        kept = sorted({layout.run_of(stat.key) for stat in work.list(layout.REPORTS)} - {""}, reverse=True)
        there = f"The last reports are of {', '.join(kept[:_NAMED])}" if kept else "There are no reports yet"
        lacks = "no run has a report" if run_id is None else f"run {run_id} has no report"
        raise ConfigError(f"{site.name}: {lacks}. {there}")
    address = work.url_of(layout.report(found))
    if not address.startswith("s3://"):
        return Report(found, address, Path(address))
    path = Path(tempfile.mkdtemp(prefix="sitemap-etl-")) / f"{site.name}-{found}.html"
    path.write_bytes(stored.data)
    return Report(found, address, path)


def _last(work: Storage) -> str | None:
    """Return the newest run whose report is still there, or None."""
    with_page = (attempt.run_id for attempt in read_attempts(work, _SEARCHED) if attempt.report is not None)
    return next((run_id for run_id in with_page if work.stat(layout.report(run_id)) is not None), None)
