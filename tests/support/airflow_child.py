"""A process with a real Airflow: reads one request per line, runs DAGs, and answers with one line each.

Requests are `{"do": …, "environ": {...}, ...}`; `KINDS` lists the values of `do`. Airflow's output goes to the log file
of the request.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any, TextIO

DAGS = Path(__file__).resolve().parents[2] / "dags"
IDLE = 20
"""So often nothing may be ready in a row."""


def migrate(_request: dict[str, Any]) -> dict[str, Any]:
    """Make the database as `airflow db migrate` does, but in this process."""
    from airflow.utils.db import initdb

    initdb()
    return {}


def bag() -> Any:
    from airflow.dag_processing.dagbag import DagBag

    return DagBag(str(DAGS), bundle_path=DAGS, bundle_name="dags-folder")


def hurry(task: Any) -> None:
    """Retry at once: waiting is Airflow's part."""
    values = {"retry_delay": timedelta(0), "retry_exponential_backoff": 0}
    if hasattr(task, "partial_kwargs"):
        task.partial_kwargs.update(values)
    else:
        for name, value in values.items():
            setattr(task, name, value)


def run(request: dict[str, Any]) -> dict[str, Any]:
    """Run a DAG without a logical date, as REST starts it."""
    dag = bag().dags[request["dag"]]
    if request["only"] is not None:
        dag = dag.partial_subset(request["only"], include_upstream=False)
    for task in dag.tasks:
        hurry(task)
    dag_run = dag.test(logical_date=None, run_conf=request["conf"])
    return ended(dag_run)


def ended(dag_run: Any) -> dict[str, Any]:
    """Return the state of a run so far."""
    from airflow.models.asset import AssetEvent, AssetModel
    from airflow.models.taskinstancehistory import TaskInstanceHistory
    from airflow.models.xcom import XComModel
    from airflow.utils.session import create_session
    from sqlalchemy import select

    tasks = [
        {
            "task": one.task_id,
            "index": one.map_index,
            "state": str(one.state),
            "tries": one.try_number,
            "label": one.rendered_map_index,
        }
        for one in dag_run.get_task_instances()
    ]
    with create_session() as session:
        rows = session.scalars(select(XComModel).where(XComModel.run_id == dag_run.run_id)).all()
        retried = select(TaskInstanceHistory).where(TaskInstanceHistory.run_id == dag_run.run_id)
        reasons = [[row.task_id, row.retry_reason] for row in session.scalars(retried)]
        told = select(AssetModel.uri, AssetEvent).join(AssetEvent, AssetEvent.asset_id == AssetModel.id)
        events = [
            [uri, event.extra] for uri, event in session.execute(told.where(AssetEvent.source_run_id == dag_run.run_id))
        ]
        xcoms = [[row.task_id, row.map_index, row.key, XComModel.deserialize_value(row)] for row in rows]
    return {
        "state": str(dag_run.state),
        "tasks": tasks,
        "xcoms": xcoms,
        "reasons": reasons,
        "events": events,
        "run_id": dag_run.run_id,
    }


def describe(_request: dict[str, Any]) -> dict[str, Any]:
    """Return what a DAG processor finds, and what it stores in the database."""
    from airflow.models.dag import DagModel
    from airflow.models.errors import ParseImportError
    from airflow.utils.session import create_session
    from sqlalchemy import select

    found = publish_dags()
    with create_session() as session:
        models = session.scalars(select(DagModel)).all()
        usable = [model.dag_id for model in models if not model.is_stale and not model.has_import_errors]
        shown = {error.filename: error.stacktrace for error in session.scalars(select(ParseImportError))}
    return {
        "dags": {
            name: {
                "tasks": {
                    task.task_id: {
                        "mapped": hasattr(task, "partial_kwargs"),
                        "upstream": sorted(task.upstream_task_ids),
                        "retries": task.retries,
                        "pool": task.pool,
                        "owner": task.owner,
                        "priority": task.priority_weight,
                        "rule": str(task.weight_rule),
                        "timeout": task.execution_timeout and task.execution_timeout.total_seconds(),
                        "queue": task.queue,
                        "doc": task.doc_md,
                    }
                    for task in dag.tasks
                },
                "tags": sorted(dag.tags),
                "catchup": dag.catchup,
                "max_active_runs": dag.max_active_runs,
                "timetable": repr(dag.timetable),
                "doc": dag.doc_md,
                "params": {key: dag.params.get_param(key).schema for key in dag.params},
                "defaults": dag.params.dump(),
            }
            for name, dag in found.dags.items()
        },
        "import_errors": found.import_errors,
        "usable": [name for name in usable if name in found.dags],
        "shown_errors": shown,
    }


def publish_dags() -> Any:
    """Store the DAGs in the database as a DAG processor does, and return them."""
    from airflow.dag_processing.bundles.manager import DagBundlesManager
    from airflow.dag_processing.dagbag import sync_bag_to_db

    found = bag()
    DagBundlesManager().sync_bundles_to_db()  # a DAG belongs to a bundle that the database knows
    sync_bag_to_db(found, "dags-folder", None)
    return found


@cache
def token() -> str:
    """Return a token with all permissions, for an Airflow without logins."""
    return str(server().get("/auth/token").json()["access_token"])


def call(request: dict[str, Any]) -> dict[str, Any]:
    """Send a request to the API server."""
    if request["publish"]:
        publish_dags()
    path, headers = f"/api/v2/{request['path']}", {"Authorization": f"Bearer {token()}"}
    answer = server().request(request["method"], path, json=request["body"], headers=headers)
    return {"code": answer.status_code, "body": answer.json() if answer.content else None}


def settle(request: dict[str, Any]) -> dict[str, Any]:
    """Do the work of a scheduler and its workers until a run has ended, or `before` the first instance of a task.

    It is the loop of `dag.test()`, for an existing run.
    """
    from airflow.models.dagrun import DagRun
    from airflow.sdk.definitions.dag import _run_task
    from airflow.serialization.serialized_objects import DagSerialization
    from airflow.utils.session import create_session
    from airflow.utils.state import DagRunState, TaskInstanceState
    from sqlalchemy import select

    dag = bag().dags[request["dag"]]
    for task in dag.tasks:
        hurry(task)
    scheduled = DagSerialization.deserialize_dag(DagSerialization.serialize_dag(dag))
    scheduled.on_success_callback = dag.on_success_callback
    scheduled.on_failure_callback = dag.on_failure_callback
    with create_session() as session:
        dag_run = session.scalars(select(DagRun).where(DagRun.run_id == request["run_id"])).one()
        if dag_run.state == DagRunState.QUEUED:
            dag_run.state = DagRunState.RUNNING
        idle = 0
        while dag_run.state == DagRunState.RUNNING:
            session.expire_all()
            dag_run.dag = scheduled
            ready, _ = dag_run.update_state(session=session)
            if any(one.task_id == request["before"] for one in ready):
                break
            idle = 0 if ready else idle + 1
            assert idle < IDLE, f"nothing can run: {ended(dag_run)}"
            for one in ready:
                one.try_number += 1
                one.state = TaskInstanceState.SCHEDULED
            session.commit()
            for one in ready:
                _run_task(ti=one, task=dag.task_dict[one.task_id])
        session.commit()
        return ended(dag_run)


def connect(request: dict[str, Any]) -> dict[str, Any]:
    """Add a connection to Airflow's database."""
    from airflow.models import Connection
    from airflow.utils.session import create_session

    with create_session() as session:
        session.add(Connection(conn_id=request["id"], uri=request["uri"]))
    return {}


def start(request: dict[str, Any]) -> dict[str, Any]:
    """Start a run as the scheduler does, with listeners; return the XComs that it has then.

    `pools`: pools to create first.
    """
    from airflow.models import DagRun, Pool
    from airflow.models.serialized_dag import SerializedDagModel
    from airflow.models.xcom import XComModel
    from airflow.utils.session import create_session
    from airflow.utils.state import DagRunState
    from airflow.utils.types import DagRunTriggeredByType, DagRunType
    from sqlalchemy import select

    describe(request)
    with create_session() as session:
        session.add_all(Pool(pool=name, slots=2, description="", include_deferred=False) for name in request["pools"])
        session.flush()  # Airflow's sessions don't do it by themselves
        dag = SerializedDagModel.get_dag(request["dag"], session=session)
        which = select(DagRun).filter_by(dag_id=request["dag"], run_id=request["run_id"])
        dag_run = session.scalar(which) or dag.create_dagrun(
            run_id=request["run_id"],
            run_after=datetime.now(UTC),
            run_type=DagRunType.MANUAL,
            triggered_by=DagRunTriggeredByType.TEST,
            state=DagRunState.RUNNING,
            session=session,
        )
        dag_run.dag = dag
        dag_run.notify_dagrun_state_changed("started")
        session.flush()
        rows = session.scalars(select(XComModel).where(XComModel.dag_run_id == dag_run.id))
        return {row.key: row.value for row in rows}  # as the API server gives them to a task


@cache
def server() -> Any:
    """Return the API server with the installed plugins."""
    from airflow.api_fastapi.app import create_app
    from starlette.testclient import TestClient

    return TestClient(create_app("core"), follow_redirects=False)


def get(request: dict[str, Any]) -> dict[str, Any]:
    """Request a page of the API server as the browser of a logged-in user does."""
    client = server()
    client.cookies.clear()
    if request["user"]:
        login = {"username": request["user"], "password": request["password"]}
        client.cookies.set("_token", client.post("/auth/token", json=login).raise_for_status().json()["access_token"])
    found = client.get(request["path"])
    return {"status": found.status_code, "headers": dict(found.headers), "text": found.text}


def belong(request: dict[str, Any]) -> dict[str, Any]:
    """Assign all DAGs to a team; another team has none."""
    from airflow.dag_processing.bundles.manager import DagBundlesManager
    from airflow.models.team import Team
    from airflow.utils.session import create_session

    with create_session() as session:
        session.add_all(Team(name=name) for name in request["teams"])
    DagBundlesManager().sync_bundles_to_db()
    return {}


def say(request: dict[str, Any]) -> dict[str, Any]:
    """Change an XCom of a task as a user can in the UI; return its former value."""
    from airflow.models.xcom import XComModel
    from airflow.utils.session import create_session
    from sqlalchemy import select

    where = {name: request[name] for name in ("dag_id", "run_id", "task_id", "key")}
    with create_session() as session:
        row = session.scalars(select(XComModel).filter_by(**where)).one()
        before = XComModel.deserialize_value(row)
        row.value = XComModel.serialize_value(request["value"])
    return {"before": before}


KINDS = {
    "migrate": migrate,
    "run": run,
    "bag": describe,
    "start": start,
    "connect": connect,
    "call": call,
    "settle": settle,
    "get": get,
    "belong": belong,
    "say": say,
}


def answer(request: dict[str, Any]) -> dict[str, Any]:
    os.environ.clear()
    os.environ.update(request["environ"])
    try:
        return KINDS[request["do"]](request)
    except Exception as error:  # noqa: BLE001 - the test is told of it
        traceback.print_exc()
        return {"error": f"{type(error).__name__}: {error}"}


def main() -> None:
    answers: TextIO = os.fdopen(os.dup(1), "w")
    for line in sys.stdin:
        request = json.loads(line)
        log = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.close(log)
        answers.write(json.dumps(answer(request), default=str) + "\n")
        sys.stdout.flush()
        sys.stderr.flush()
        answers.flush()
    os._exit(0)  # Airflow takes its time to end, and there is nothing to save


if __name__ == "__main__":
    main()
