"""The page of all runs of a site."""

from __future__ import annotations

from collections.abc import Sequence

from sitemap_etl import __version__
from sitemap_etl.report.nights import SHOWN, counted, engines, figures, nights, reasons, tone_of
from sitemap_etl.report.paper import moment, several, template
from sitemap_etl.state.records import Attempt

_SAID = {
    "published": "Published",
    "unchanged": "Nothing changed",
    "partial": "Partly published",
    "refused": "Refused",
    "failed": "Failed",
    "interrupted": "Interrupted",
    "running": "Running",
}


def render_index(name: str, site: str, runs: Sequence[Attempt], kept: Sequence[str]) -> str:
    """Return the page of all runs. `runs`: at least one, oldest first. `kept`: IDs of the runs that have a page."""
    last = runs[-1]
    good = next((run for run in reversed(runs) if run.good), None)
    shown = runs[-SHOWN:]
    facts = [("Site", f"{name} ({site})"), ("Last run", f"{moment(last.now)}, {last.run_id}")]
    if good is not None and good is not last:
        facts.append(("Last good run", f"{moment(good.now)}, {good.run_id}"))
    rows = nights(runs, None, "")
    return template("index.html.jinja").render(
        title=f"{name}: {_SAID.get(last.status, last.status)}",
        headline=f"{name}: {_SAID.get(last.status, last.status)}",
        lead=(last.error or "").partition("\n")[0] or f"{several(last.listed, 'URL')} listed.",
        tone=tone_of(last.status),
        facts=facts,
        links=[("Latest run", "latest.html")] if any(row.report for row in rows) else [],
        figures=figures(shown, None) if len(shown) > 1 else [],
        over_time=reasons(shown, None) if len(shown) > 1 else [],
        asked=list(engines(shown, None)) if len(shown) > 1 else [],
        nights=rows,
        kept=set(kept),
        columns=counted(runs),
        version=__version__,
    )
