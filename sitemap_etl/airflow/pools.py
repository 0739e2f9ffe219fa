"""A pool that does not exist: Airflow never starts the tasks that need it, and says nothing.

Only the scheduler can tell, because neither a task nor the DAG processor reads Airflow's database. So a listener of it
looks when a run starts, before any task of it does, and notes on the run what is missing; `plan` fails with that note.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from airflow.listeners import hookimpl

from sitemap_etl.airflow.links import TAG
from sitemap_etl.errors import ConfigError

if TYPE_CHECKING:
    from airflow.models.dagrun import DagRun

_NOTED: Final = "airflow.pool: "


@hookimpl  # type: ignore[untyped-decorator] # Airflow's types are not followed
def on_dag_run_running(dag_run: DagRun) -> None:
    """Note on a run of ours which pools of its tasks there are not, or that they have come by now."""
    dag = dag_run.get_dag()
    if TAG not in dag.tags:
        return
    missing = _missing({task.pool for task in dag.tasks}, dag_run)
    if missing:
        dag_run.note = (
            f"{_NOTED}Airflow has no pool {', '.join(missing)}, and never starts a task that needs it. Create it under "
            f'Admin, Pools, or with: airflow pools set {missing[0]} 4 "readers of a database". Then clear `plan`'
        )
    elif (dag_run.note or "").startswith(_NOTED):
        dag_run.note = ""


def _missing(pools: set[str], dag_run: DagRun) -> list[str]:
    from airflow.models.pool import Pool
    from sqlalchemy import select
    from sqlalchemy.orm import object_session

    session = object_session(dag_run)  # a session of its own would wait for the scheduler's, in SQLite for ever
    assert session is not None
    return sorted(pools - set(session.scalars(select(Pool.pool).where(Pool.pool.in_(pools)))))


def demand_pools(dag_run: Any) -> None:
    """Raises ConfigError with what the scheduler noted of a run, whose tasks would wait for ever."""
    note = getattr(dag_run, "note", None) or ""
    if note.startswith(_NOTED):
        raise ConfigError(note)
