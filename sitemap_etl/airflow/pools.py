"""Detection of missing pools: Airflow never starts tasks whose pool does not exist, and reports nothing.

Only the scheduler can detect this, because tasks and the DAG processor can't read Airflow's database. So a listener in
the scheduler checks the pools when a run starts, and stores the missing ones as an XCom, which `plan` reads. A note or
an added parameter of the run would not work: the API server does not pass them to tasks.
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
"""Task that owns the XCom. It can't be `plan`: a task that starts clears its own XComs."""
MISSING: Final = "missing_pools"
"""Key of the XCom."""


@hookimpl  # type: ignore[untyped-decorator] # Airflow's types are not followed
def on_dag_run_running(dag_run: DagRun) -> None:
    """Store the missing pools of one of our runs. Airflow's scheduler calls this function."""
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
    """Raise `ConfigError` if pools are missing. Tasks would wait for them forever."""
    if missing:
        raise ConfigError(
            f"airflow.pool: Airflow has no pool {', '.join(missing)}, and never starts a task that needs it. Create it "
            f'under Admin, Pools, or with: airflow pools set {missing[0]} 4 "readers of a database". Then clear this '
            "task"
        )
