"""The pages in Airflow's API server. Each asks for Airflow's login, and for the right to read the DAG that it is about.

They take no input but names in their address, change nothing, run no scripts and load nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final
from urllib.parse import quote

from fastapi import Depends, FastAPI, Path, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from sitemap_etl.airflow.compat import GetUserDep, create_session, get_auth_manager, requires_access_dag
from sitemap_etl.airflow.known import Place, is_site, known_sites, place_of, run_of
from sitemap_etl.airflow.sites import lines
from sitemap_etl.airflow.stored import read_page, read_past_runs
from sitemap_etl.report import render_note, render_sites
from sitemap_etl.state import layout
from sitemap_etl.state.records import PastRuns

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'self'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
"""A page holds names and URLs of a catalogue, and whoever may write to `work` may put anything there."""
_READS: Final = Depends(requires_access_dag("GET"))
_Name = Annotated[str, Path(max_length=250)]


class NotShown(Exception):
    """There is no page to show. `headline` and the text say why; `status` is that of the answer."""

    def __init__(self, headline: str, say: str, *, status: int = 200) -> None:
        super().__init__(say)
        self.headline = headline
        self.status = status


def make_pages() -> FastAPI:
    """Return the application that Airflow mounts."""
    app = FastAPI(title="sitemap_etl", openapi_url=None, docs_url=None, redoc_url=None)
    app.add_api_route("/", all_sites)
    app.add_api_route("/{dag_id}", site_tab, dependencies=[_READS])
    app.add_api_route("/{dag_id}/runs/{run_id}", run_tab, dependencies=[_READS])
    app.add_api_route("/{dag_id}/reports/{page}", overview, dependencies=[_READS])
    app.add_api_route("/{dag_id}/reports/{report_id}/report.html", report, dependencies=[_READS])
    app.add_exception_handler(NotShown, not_shown)
    return app


def not_shown(request: Request, why: Exception) -> Response:
    """Return the page with the reason for which there is nothing to show."""
    assert isinstance(why, NotShown)
    return _html(render_note(request.path_params["dag_id"], why.headline, str(why)), why.status)


def all_sites(user: GetUserDep) -> Response:
    """Return the sites whose DAGs the user may read."""
    with create_session() as session:
        allowed = get_auth_manager().get_authorized_dag_ids(user=user, session=session)
        sites = known_sites(session, allowed)
    stored = read_past_runs({site.place.address for site in sites if site.place is not None})
    return _html(render_sites(list(lines(sites, stored))))


def site_tab(dag_id: _Name) -> Response:
    """Return all runs of a site."""
    with create_session() as session:
        _demand_site(session, dag_id)
        place = place_of(session, dag_id)
        known = None if place is None else run_of(session, dag_id, place.dag_run)
    _read(_begun(place), layout.INDEX, under_way=known is not None and known.under_way)
    return RedirectResponse(f"{quote(dag_id)}/{layout.INDEX}", headers=_HEADERS)


def run_tab(dag_id: _Name, run_id: _Name) -> Response:
    """Return the report of a DAG run."""
    with create_session() as session:
        _demand_site(session, dag_id)
        known, place = run_of(session, dag_id, run_id), place_of(session, dag_id, run_id)
    if known is None:
        raise NotShown("No such run", f"Airflow knows no run {run_id} of this DAG.", status=404)
    if place is None and known.under_way:
        raise NotShown("No report yet", "The run has not been planned so far.")
    if place is None:
        raise NotShown("No report", _unplanned(dag_id, run_id))
    key = layout.report(place.run_id)
    _read(place, key, under_way=known.under_way)
    return RedirectResponse(f"../{key}", headers=_HEADERS)


def overview(dag_id: _Name, page: str) -> Response:
    """Return the page of all runs, or of the last."""
    key = f"{layout.REPORTS}{page}"
    if key not in (layout.INDEX, layout.LATEST):
        raise NotShown("No such page", "There is no page of this name.", status=404)
    return _html(_read(_newest(dag_id), key))


def report(dag_id: _Name, report_id: str) -> Response:
    """Return the page of a run."""
    if not layout.is_run_id(report_id):
        raise NotShown("No such run", "This is not the id of a run.", status=404)
    return _html(_read(_newest(dag_id), layout.report(report_id)))


def _newest(dag_id: str) -> Place:
    """Return the place of the reports of a site. Raise NotShown if there are none."""
    with create_session() as session:
        _demand_site(session, dag_id)
        return _begun(place_of(session, dag_id))


def _begun(place: Place | None) -> Place:
    if place is None:
        raise NotShown("No run yet", "No run of this DAG has begun so far. Trigger one, or wait for the next.")
    return place


def _demand_site(session: Session, dag_id: str) -> None:
    if not is_site(session, dag_id):
        raise NotShown("This DAG makes no sitemaps", "There is nothing to show here.")


def _read(place: Place, key: str, *, under_way: bool = False) -> str:
    """Return a page of the reports. `under_way`: its run has not come to its end. Raise NotShown."""
    found = read_page(place.address, key)
    if isinstance(found, bytes):
        return found.decode("utf-8", "replace")
    if found is None and under_way:
        raise NotShown("No report yet", "A run has its report when it comes to its end.")
    if found is None:
        raise NotShown(
            "The report is not here",
            f"{place.address}/{key} does not exist. Either this machine does not have that folder, or the report was "
            "removed: those of old runs are. A run that was ended by force leaves none.",
            status=404,
        )
    raise NotShown(
        "The report can't be read from here",
        f"{found}. To show reports, the API server must be able to read them under `work`; the runs do not need that. "
        "The log of the task publish has the counts.",
    )


def _unplanned(dag_id: str, run_id: str) -> str:
    """Return the reason why a DAG run has no folder, from the record of the site if it can be read."""
    with create_session() as session:
        newest = place_of(session, dag_id)
    found = None if newest is None else read_past_runs([newest.address])[newest.address]
    runs = found.runs if isinstance(found, PastRuns) else ()
    why = next((run.error for run in reversed(runs) if run.owner == f"{dag_id}/{run_id}"), "")
    return why or "The run ended before it was planned: the log of its first task, plan, says why."


def _html(page: str, status: int = 200) -> Response:
    return HTMLResponse(page, status, _HEADERS)
