"""A pool that does not exist: Airflow never starts the tasks that need it, and says nothing.

Only the scheduler can tell, because neither a task nor the DAG processor reads Airflow's database. So a listener of it
looks when a run starts, before any task of it does, and leaves what is missing as an XCom that `plan` reads. (The API
server gives tasks neither the note of a run nor what a listener adds to its parameters.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from sitemap_etl.airflow.compat import hookimpl
from sitemap_etl.airflow.links import TAG
from sitemap_etl.errors import ConfigError

if TYPE_CHECKING:
    from sitemap_etl.airflow.compat import DagRun

KEPT_BY: Final = "publish"
"""The task that the XCom is of: `plan` begins by clearing its own."""
MISSING: Final = "missing_pools"
"""The XCom's key."""


@hookimpl  # type: ignore[untyped-decorator] # Airflow's types are not followed
def on_dag_run_running(dag_run: DagRun) -> None:
    """Leave word of the pools that tasks of a run of ours need and that there are not."""
    dag = dag_run.get_dag()
    if TAG not in dag.tags:
        return
    from sqlalchemy import delete, select
    from sqlalchemy.orm import object_session

    from sitemap_etl.airflow.compat import Pool, XComModel

    session = object_session(dag_run)  # a session of its own would wait for the scheduler's, in SQLite for ever
    assert session is not None
    needed = {task.pool for task in dag.tasks}
    missing = sorted(needed - set(session.scalars(select(Pool.pool).where(Pool.pool.in_(needed)))))
    if missing:
        where = {"dag_id": dag_run.dag_id, "task_id": KEPT_BY, "run_id": dag_run.run_id}
        XComModel.set(MISSING, missing, **where, serialize=False, session=session)  # as the API server stores it
    else:  # they may have been missing when the run was started before
        session.execute(delete(XComModel).where(XComModel.dag_run_id == dag_run.id, XComModel.key == MISSING))


def demand_pools(missing: Sequence[str] | None) -> None:
    """Raises ConfigError where pools are missing, because tasks would wait for them for ever."""
    if missing:
        raise ConfigError(
            f"airflow.pool: Airflow has no pool {', '.join(missing)}, and never starts a task that needs it. Create it "
            f'under Admin, Pools, or with: airflow pools set {missing[0]} 4 "readers of a database". Then clear this '
            "task"
        )
