"""A user of Airflow's UI, with one DAG. It sends the requests of the UI to Airflow's API server.

`Airflow.settle` does the work of the scheduler and its workers in between.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.airflow import Airflow, DagRun


@dataclass
class Operator:
    """`sites`: the folder of site files, one of which makes the `dag`. `environ`: additional variables of its tasks."""

    airflow: Airflow
    sites: Path
    dag: str
    environ: dict[str, str]

    def parse(self) -> None:
        """Parse the DAG as a DAG processor does."""
        self._api("GET", "", publish=True)

    def details(self) -> Any:
        """Return what the UI shows of the DAG."""
        return self._api("GET", "/details")

    def trigger(self, **conf: Any) -> str:
        """Trigger a run; return its id."""
        return str(self._api("POST", "/dagRuns", {"logical_date": None, "conf": conf})["dag_run_id"])

    def settle(self, run_id: str, before: str | None = None) -> DagRun:
        """Continue a run until it has ended, or until a task is about to start."""
        return self.airflow.settle(self.sites, self.dag, run_id, before, **self.environ)

    def run(self, **conf: Any) -> DagRun:
        """Trigger a run, and complete it."""
        return self.settle(self.trigger(**conf))

    def run_details(self, run_id: str) -> Any:
        """Return what the UI shows of a run."""
        return self._api("GET", f"/dagRuns/{run_id}")

    def clear(self, run_id: str, *tasks: str, downstream: bool = False) -> None:
        """Clear tasks of a run, or all of them if none is named."""
        body: dict[str, Any] = {"dry_run": False, "only_failed": False}
        if tasks:
            body |= {"task_ids": list(tasks), "include_downstream": downstream, "dag_run_id": run_id}
            self._api("POST", "/clearTaskInstances", body)
        else:
            self._api("POST", f"/dagRuns/{run_id}/clear", body)

    def mark(self, run_id: str, state: str, task: str | None = None) -> None:
        """Mark a run, or all instances of one of its tasks that have another state."""
        if task is None:
            self._api("PATCH", f"/dagRuns/{run_id}", {"state": state})
            return
        instances = f"/dagRuns/{run_id}/taskInstances"
        for one in self._api("GET", f"{instances}?task_id={task}")["task_instances"]:
            index = f"/{one['map_index']}" if one["map_index"] >= 0 else ""
            if one["state"] != state:
                self._api("PATCH", f"{instances}/{task}{index}", {"new_state": state})

    def delete(self, run_id: str) -> None:
        """Delete a run."""
        self._api("DELETE", f"/dagRuns/{run_id}")

    def _api(self, method: str, path: str, body: Any = None, *, publish: bool = False) -> Any:
        return self.airflow.call(self.sites, method, f"dags/{self.dag}{path}", body, publish=publish)
