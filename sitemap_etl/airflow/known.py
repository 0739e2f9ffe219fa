"""Facts of Airflow about the sites: their DAGs, the last run of each, and the folder of that run."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import func, select

from sitemap_etl.airflow.compat import DagModel, DagRun, DagTag, XComModel
from sitemap_etl.airflow.links import PLAN, RUN, TAG
from sitemap_etl.frozen import Frozen
from sitemap_etl.state import layout

if TYPE_CHECKING:
    from sqlalchemy.orm import Session


class Place(Frozen):
    """Location of a site's state and reports. `run_id`: our run; `dag_run`: Airflow's name for it."""

    address: str
    run_id: str
    dag_run: str


class KnownRun(Frozen):
    """A DAG run. `state`: queued, running, success or failed."""

    run_id: str
    state: str
    after: datetime
    ended: datetime | None

    @property
    def under_way(self) -> bool:
        return self.state in ("queued", "running")


class KnownSite(Frozen):
    """The DAG of a site. `place`: None if none of its runs has got that far."""

    dag_id: str
    about: str
    paused: bool
    next_run: datetime | None
    last: KnownRun | None
    place: Place | None


def known_sites(session: Session, allowed: Collection[str]) -> list[KnownSite]:
    """Return the sites among these DAGs, by name."""
    tagged = select(DagTag.dag_id).where(DagTag.name == TAG)
    models = session.scalars(select(DagModel).where(DagModel.dag_id.in_(tagged), ~DagModel.is_stale)).all()
    newest = select(func.max(DagRun.id)).where(DagRun.dag_id.in_(tagged)).group_by(DagRun.dag_id)
    runs = {run.dag_id: run for run in session.scalars(select(DagRun).where(DagRun.id.in_(newest)))}
    last = select(func.max(XComModel.dag_run_id)).where(_says_place(), XComModel.dag_id.in_(tagged))
    found = select(XComModel).where(_says_place(), XComModel.dag_run_id.in_(last.group_by(XComModel.dag_id)))
    places = {row.dag_id: _place(row) for row in session.scalars(found)}
    return [
        KnownSite(
            dag_id=model.dag_id,
            about=model.description or "",
            paused=model.is_paused,
            next_run=model.next_dagrun_create_after,
            last=_run(runs[model.dag_id]) if model.dag_id in runs else None,
            place=places.get(model.dag_id),
        )
        for model in sorted(models, key=lambda model: model.dag_id)
        if model.dag_id in allowed
    ]


def is_site(session: Session, dag_id: str) -> bool:
    """Return True if a DAG is one of ours."""
    return session.scalar(select(DagTag.dag_id).where(DagTag.name == TAG, DagTag.dag_id == dag_id)) is not None


def place_of(session: Session, dag_id: str, run_id: str | None = None) -> Place | None:
    """Return the place of the reports of a DAG run, or None. `run_id`: None for the last run that has one."""
    found = select(XComModel).where(_says_place(), XComModel.dag_id == dag_id)
    if run_id is not None:
        found = found.where(XComModel.run_id == run_id)
    row = session.scalar(found.order_by(XComModel.dag_run_id.desc()).limit(1))
    return None if row is None else _place(row)


def run_of(session: Session, dag_id: str, run_id: str) -> KnownRun | None:
    """Return a DAG run, or None if no run has this name."""
    row = session.scalar(select(DagRun).where(DagRun.dag_id == dag_id, DagRun.run_id == run_id))
    return None if row is None else _run(row)


def _says_place() -> Any:
    return (XComModel.task_id == PLAN) & (XComModel.key == RUN)


def _place(row: XComModel) -> Place | None:
    """Return the place that an XCom names. Whoever may write XComs of a DAG can lead to no other site's folder."""
    value = XComModel.deserialize_value(row)
    if not isinstance(value, str):
        return None
    address, run_id = layout.place_of_run(value)
    mine = address.rpartition("/")[2] == row.dag_id and layout.is_run_id(run_id)
    return Place(address, run_id, row.run_id) if mine else None


def _run(row: DagRun) -> KnownRun:
    return KnownRun(row.run_id, str(row.state), row.run_after, row.end_date)
