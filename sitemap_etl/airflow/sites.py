"""The page of all sites: a line for each, from the state of its runs, or from Airflow if the state can't be read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sitemap_etl.airflow.known import KnownRun, KnownSite
from sitemap_etl.airflow.stored import NotRead, NotThere
from sitemap_etl.dates import instant
from sitemap_etl.report import SiteLine
from sitemap_etl.state.records import PastRun, PastRuns


def lines(sites: list[KnownSite], stored: Mapping[str, PastRuns | NotRead]) -> Iterator[SiteLine]:
    """Yield a line for each site. `stored`: the record at the address of its place."""
    for site in sites:
        found = None if site.place is None else stored[site.place.address]
        runs = found.runs if isinstance(found, PastRuns) else ()
        last = runs[-1] if runs else None
        status, when, error = _last(site, last)
        yield SiteLine(
            name=site.dag_id,
            site=found.site if isinstance(found, PastRuns) else site.about,
            status=status,
            when=when,
            error=error,
            note=_note(site, found),
            runs=runs,
            next_run="paused" if site.paused else "" if site.next_run is None else instant(site.next_run),
        )


def _note(site: KnownSite, found: PastRuns | NotRead | None) -> str:
    """Return why the records of the site can't be shown, or nothing before its first run has ended."""
    begins = isinstance(found, NotThere) and site.last is not None and site.last.under_way
    return str(found) if isinstance(found, NotRead) and not begins else ""


def _last(site: KnownSite, last: PastRun | None) -> tuple[str, str, str]:
    """Return the last run: its status, its time, and why it failed."""
    known = site.last
    if known is not None and known.under_way:
        return known.state, instant(known.after), ""
    if last is None:
        return ("never run", "", "") if known is None else (known.state, instant(known.after), "")
    if known is not None and _left_nothing(known, last, site.dag_id):
        return known.state, instant(known.after), "It left no word of its end: the log of its tasks says why"
    return last.status, last.now, last.error


def _left_nothing(known: KnownRun, last: PastRun, dag_id: str) -> bool:
    """Return True if a DAG run failed after the last run that is known under `work`, and is another run."""
    return (
        known.state == "failed"
        and last.owner != f"{dag_id}/{known.run_id}"
        and known.ended is not None
        and instant(known.ended) > last.ended
    )
