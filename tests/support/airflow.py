"""A real Airflow for tests: a home with an SQLite database, and one process that runs DAGs."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.support.once import made_once

PROJECT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class DagRun:
    """Result of a DAG run. `events`: the extra data of each asset event of the run, by the address of the asset."""

    state: str
    tasks: list[dict[str, Any]]
    xcoms: list[list[Any]]
    reasons: list[list[str]]
    events: list[list[Any]]
    log: str
    run_id: str

    def of(self, task: str) -> list[dict[str, Any]]:
        """Return the instances of a task in the order of their map index."""
        return sorted((one for one in self.tasks if one["task"] == task), key=lambda one: one["index"])

    def states(self, task: str) -> list[str]:
        return [one["state"] for one in self.of(task)]

    def tries(self, task: str) -> list[int]:
        return [one["tries"] for one in self.of(task)]

    def labels(self, task: str) -> list[str]:
        return [one["label"] for one in self.of(task)]

    def retry_reasons(self, task: str) -> list[str]:
        """Return the reasons that Airflow recorded for retries: one for each try of a task except the last."""
        return [reason for name, reason in self.reasons if name == task]

    def xcom(self, task: str, key: str = "return_value") -> Any:
        (value,) = [value for name, _, found, value in self.xcoms if (name, found) == (task, key)]
        return value


class Airflow:
    """The process. `environ` applies to every request that does not set its own."""

    def __init__(self, home: Path, environ: Mapping[str, str]) -> None:
        self.home = home
        self.environ = dict(environ)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.airflow_child"],
            cwd=PROJECT,
            env=self.environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=(home / "child.log").open("wb"),
            text=True,
        )
        self._asked = 0

    def ask(self, do: str, environ: Mapping[str, str], **values: Any) -> tuple[dict[str, Any], str]:
        """Send a request. Return the answer and what Airflow logged meanwhile."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._asked += 1
        log = self.home / f"{self._asked:03}-{do}.log"
        request = {"do": do, "environ": {**self.environ, **environ}, "log": str(log), **values}
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        text = log.read_text(errors="replace") if log.is_file() else ""
        assert line, f"Airflow's process ended:\n{text[-4000:]}"
        return json.loads(line), text

    def run(
        self, sites: Path, dag: str, conf: dict[str, Any] | None = None, *, only: str | None = None, **environ: str
    ) -> DagRun:
        """Run a DAG of a folder of site files to its end. `only`: run only this task, without those before it."""
        answer, log = self.ask("run", {"SITEMAP_ETL_SITES": str(sites), **environ}, dag=dag, conf=conf or {}, only=only)
        assert "error" not in answer, f"{answer['error']}\n{log[-4000:]}"
        return DagRun(**answer, log=log)

    def call(self, sites: Path, method: str, path: str, body: Any = None, *, publish: bool = False) -> Any:
        """Send a request to the API server as its UI does, and return the answer. `publish`: parse the DAGs first."""
        world = {"SITEMAP_ETL_SITES": str(sites)}
        answer, log = self.ask("call", world, method=method, path=path, body=body, publish=publish)
        assert answer.get("code", 500) < 300, f"{answer}\n{log[-4000:]}"
        return answer["body"]

    def settle(self, sites: Path, dag: str, run_id: str, before: str | None = None, **environ: str) -> DagRun:
        """Continue a run until it has ended, or until a task is about to start."""
        world = {"SITEMAP_ETL_SITES": str(sites), **environ}
        answer, log = self.ask("settle", world, dag=dag, run_id=run_id, before=before)
        assert "error" not in answer, f"{answer['error']}\n{log[-4000:]}"
        return DagRun(**answer, log=log)

    def describe(self, sites: Path) -> dict[str, Any]:
        """Return what Airflow makes of a folder of site files."""
        answer, log = self.ask("bag", {"SITEMAP_ETL_SITES": str(sites)})
        assert "error" not in answer, f"{answer['error']}\n{log[-4000:]}"
        return answer

    def stop(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(30)


@contextmanager
def airflow(home: Path, *, like: Path | None = None) -> Iterator[Airflow]:
    """Run Airflow in `home` until the end of the block, with a new database or a copy of that of the home `like`."""
    if like is not None:
        shutil.copytree(like, home, dirs_exist_ok=True)
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "SITEMAP_ETL"))}
    environ |= {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__DAGS_FOLDER": str(PROJECT / "dags"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
        "AIRFLOW__CORE__UNIT_TEST_MODE": "False",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home / 'airflow.db'}?timeout=60",
        "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
    }
    running = Airflow(home, environ)
    try:
        if like is None:
            answer, log = running.ask("migrate", {})
            assert "error" not in answer, f"{answer['error']}\n{log[-4000:]}"
        yield running
    finally:
        running.stop()


@pytest.fixture(scope="session")
def airflow_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with a new database, made once for all processes of a session. Copy it to change it."""
    if find_spec("airflow") is None:
        pytest.skip("Airflow is not installed")

    def make(folder: Path) -> None:
        with airflow(tmp_path_factory.mktemp("airflow")) as running:
            pass
        with closing(sqlite3.connect(running.home / "airflow.db")) as database:  # part of it may be in its log
            database.execute("VACUUM INTO ?", (str(folder / "airflow.db"),))
        # `make demo` and `make airflow` look for the version that made the database.
        (folder / "migrated").write_text(version("apache-airflow"))

    return made_once(tmp_path_factory, "airflow-home", make)


@pytest.fixture(scope="module")
def airflow_process(tmp_path_factory: pytest.TempPathFactory, airflow_home: Path) -> Iterator[Airflow]:
    """Airflow in a home that only this test file uses. Skips the test if Airflow isn't installed."""
    with airflow(tmp_path_factory.mktemp("airflow"), like=airflow_home) as running:
        yield running
