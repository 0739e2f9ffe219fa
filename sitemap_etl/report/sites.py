"""The page of many sites, and pages with one message."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final
from urllib.parse import quote

from markupsafe import Markup

from sitemap_etl import __version__
from sitemap_etl.frozen import Frozen
from sitemap_etl.report.charts import Point, line
from sitemap_etl.report.nights import tone_of
from sitemap_etl.report.paper import moment, several, template
from sitemap_etl.state.records import PastRun

_URGENT: Final = {"bad": 0, "attention": 1, "good": 2}
_PUBLIC: Final = ("published", "unchanged", "partial")
"""Statuses of runs whose counts describe the public release."""


class SiteLine(Frozen):
    """A row of the page. `status`, `when`, `error`: of the last run. `note`: why the site's record is not shown.

    `next_run`: a time, a word, or "". `runs`: the last runs, oldest first. `href`: relative address of the site's page.
    """

    name: str
    site: str
    status: str
    when: str = ""
    error: str = ""
    note: str = ""
    runs: Sequence[PastRun] = ()
    next_run: str = ""


def render_sites(sites: Iterable[SiteLine]) -> str:
    """Return the HTML page of all sites, or of one DAG's sites. Sites that need attention come first.

    `of`: the id of the DAG, or "" for all sites.
    """
    shown = sorted(sites, key=lambda one: (_URGENT[_tone(one)], one.name))
    tones = [_tone(one) for one in shown]
    bad, partial = tones.count("bad"), tones.count("attention")
    notes = {note: [one.name for one in shown if one.note == note] for note in dict.fromkeys(o.note for o in shown)}
    notes.pop("", None)
    return template("sites.html.jinja").render(
        title="Sitemaps",
        headline=f"{several(bad + partial, 'site')} of {len(shown):,} {_needs(bad + partial)}"
        if bad + partial
        else "All sites are well"
        if shown
        else "No sites",
        lead=f"{several(len(shown), 'site')}, {several(sum(_listed(one) or 0 for one in shown), 'URL')} listed."
        if shown
        else "There is no DAG of a site that you may read.",
        tone="bad" if bad else "attention" if partial else "good",
        facts=[],
        sites=[_row(one) for one in shown],
        notes=notes,
        version=__version__,
    )


def render_note(name: str, headline: str, say: str) -> str:
    """Return a page that says one thing about a site."""
    return template("note.html.jinja").render(
        title=f"{name}: {headline}",
        headline=headline,
        lead=name,
        tone="attention",
        facts=[],
        say=say,
        version=__version__,
    )


def _needs(count: int) -> str:
    return "needs a look" if count == 1 else "need a look"


def _tone(one: SiteLine) -> str:
    return tone_of(one.status)


def _listed(one: SiteLine) -> int | None:
    return next((run.listed for run in reversed(one.runs) if run.status in _PUBLIC), None)


def _row(one: SiteLine) -> dict[str, Any]:
    last = one.runs[-1] if one.runs and one.runs[-1].status in _PUBLIC else None
    return {
        "name": one.name,
        "href": quote(one.name),
        "site": one.site,
        "status": one.status.replace("_", " "),
        "tone": _tone(one),
        "when": moment(one.when),
        "error": one.error.removeprefix("Refused: "),
        "unread": bool(one.note),
        "listed": _listed(one),
        "change": None if last is None else (("+", last.added), ("~", last.changed), ("−", last.removed)),
        "next": moment(one.next_run),
        "trend": _trend(one) if len(one.runs) > 1 else "",
    }


def _trend(one: SiteLine) -> Markup:
    points = [
        Point(
            run.listed if run.status in _PUBLIC else None,
            f"{moment(run.now)}: {f'{run.listed:,}' if run.status in _PUBLIC else run.status}",
            tone_of(run.status),
        )
        for run in one.runs
    ]
    return line(points, f"URLs of the last {len(points)} runs of {one.name}")
