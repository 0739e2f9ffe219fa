"""Write report pages and metrics: a page per run, a page of all runs, the latest page, and the metrics file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from sitemap_etl.errors import DamagedState, Refused
from sitemap_etl.state import layout
from sitemap_etl.state.attempts import last_good, read_attempts
from sitemap_etl.state.records import Attempt, PastRun, PastRuns, Summary
from sitemap_etl.state.store import put_document, read_document
from sitemap_etl.storage import Storage

if TYPE_CHECKING:
    from sitemap_etl.report import Around

_BESIDE: Final = 30
"""Earlier runs that a page compares with."""
_LISTED: Final = 100
"""Runs on the page of all runs."""
_ERROR: Final = 500
"""Characters of an error in the short entries of runs."""
_HTML: Final = "text/html; charset=utf-8"
_TYPE: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"


def put_report(work: Storage, summary: Summary) -> list[Attempt]:
    """Write a run's page and return the last runs. The page of the previous run gets a link to it."""
    runs = _runs(work)
    _put_page(work, summary, runs)
    at = next((at for at, run in enumerate(runs) if run.run_id == summary.run_id), len(runs))
    before = _with_page(runs[:at])
    earlier = None if before is None else _summary(work, before)
    if earlier is not None:
        _put_page(work, earlier, runs)
    return runs


def put_overview(
    work: Storage, name: str, site: str, ended: Attempt | None = None, *, among: Sequence[Attempt] | None = None
) -> None:
    """Write the page of all runs, the last runs as a record, the page of the last run, and the metrics of the run that
    `ended`.

    `among`: the last runs, if they were read.
    """
    from sitemap_etl import report  # a DAG file is parsed without it

    runs = [run for run in (_runs(work) if among is None else among) if not run.dry_run]
    if not runs:
        return
    kept = {run for stat in work.list(layout.REPORTS) if stat.key == layout.report(run := layout.run_of(stat.key))}
    page = report.render_index(name, site, runs, sorted(kept))
    work.put(layout.INDEX, page.encode("utf-8", "replace"), content_type=_HTML)
    put_document(work, layout.PAST_RUNS, PastRuns(name, site, tuple(_past(run) for run in runs[-_BESIDE:])))
    newest = _with_page(runs)
    summary = None if newest is None else _summary(work, newest)
    if summary is not None:
        page = report.render(summary, _around(runs, summary.run_id, ""))
        work.put(layout.LATEST, page.encode("utf-8", "replace"), content_type=_HTML)
    if ended is not None and not ended.dry_run:
        work.put(layout.METRICS, metrics_of(work, name, ended).encode(), content_type=_TYPE)


def _past(run: Attempt) -> PastRun:
    """Return the short entry of a run."""
    counts = run.total
    return PastRun(
        run_id=run.run_id,
        now=run.now,
        status=run.status,
        ended=run.ended,
        owner=run.owner,
        error=(run.error or "").partition("\n")[0][:_ERROR],
        listed=counts.listed,
        added=counts.added,
        changed=counts.changed,
        removed=counts.removed,
    )


def metrics_of(work: Storage, name: str, ended: Attempt) -> str:
    """Return the metrics of a site whose last run is `ended`."""
    from sitemap_etl.report.metrics import metrics

    return metrics(name, ended, ended if ended.good else last_good(read_attempts(work, _LISTED)))


def put_page(work: Storage, summary: Summary) -> None:
    """Write a run's page again from its current summary."""
    _put_page(work, summary, _runs(work))


def _put_page(work: Storage, summary: Summary, runs: Sequence[Attempt]) -> None:
    from sitemap_etl import report

    assert summary.run_id is not None
    page = report.render(summary, _around(runs, summary.run_id, "../"))
    work.put(layout.report(summary.run_id), page.encode("utf-8", "replace"), content_type=_HTML)


def _around(runs: Sequence[Attempt], own: str | None, root: str) -> Around:
    """Return the context of a run's page: earlier runs, and links to the pages before and after it."""
    from sitemap_etl.report import Around

    seen = [run for run in runs if not run.dry_run or run.run_id == own]
    at = next((at for at, run in enumerate(seen) if run.run_id == own), len(seen) - 1)
    earlier, later = _with_page(seen[:at]), _with_page(seen[:at:-1])
    return Around(
        runs=seen[max(0, at + 1 - _BESIDE) : at + 1],
        root=root,
        earlier=None if earlier is None else earlier.run_id,
        later=None if later is None else later.run_id,
    )


def _with_page(runs: Sequence[Attempt]) -> Attempt | None:
    """Return the last of the runs that has a page, or None."""
    return next((run for run in reversed(runs) if run.report is not None), None)


def _runs(work: Storage) -> list[Attempt]:
    """Return the last finished runs, oldest first."""
    return [run for run in reversed(read_attempts(work, _LISTED)) if run.status != "running"]


def _summary(work: Storage, run: Attempt) -> Summary | None:
    try:
        found = read_document(work, layout.summary(run.run_id), Summary)
    except (DamagedState, Refused):
        return None
    return None if found is None else found[0]
