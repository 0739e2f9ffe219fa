"""What a run costs under Airflow: processor time of a DAG run, as a ratio to the command over the same rows.

    python bench/airflow.py [ROWS] [--rounds 3] [--no-scheduler]

command     `sitemap-etl run`, a process with its imports
dag test    `airflow dags test`, one process: Airflow's imports and its API server, and the tasks one after the other;
            of `nothing`, a DAG of one empty task, it is what Airflow takes for itself
tasks       under a real scheduler with LocalExecutor: its workers, and the tasks that they fork
everything  the same with the scheduler, API server and DAG processor over SQLite, from the trigger to the end of the
            run; with what they take when nothing runs, which grows with the time that a busy machine needs

Each is a first night over the same Parquet export, with the site as one task (`build`) and as tasks of every stage
(`airflow: {small: 0}`). Processor time is that of whole process trees; the least of the rounds, which are interleaved.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import secrets
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

PROJECT = Path(__file__).resolve().parents[1]
BIN = Path(sys.executable).parent
COMPONENTS = ("api-server", "scheduler", "dag-processor")
NOTHING = """
from airflow.sdk import dag, task

@dag(dag_id="nothing", schedule=None)
def nothing():
    @task
    def rest():
        pass

    rest()

nothing()
"""
FORMS = {"one_task": 2_000_000, "all_tasks": 0}
SITE = """
site: https://www.shop.example
work: ../work-{name}
publish: ../public-{name}
airflow: {{small: {small}}}
sections:
  products:
    from: {{parquet: ../export.parquet}}
    lastmod: {{column: lastmod}}
"""
READY_SECONDS, RUN_SECONDS = 300, 600  # of a busy machine
SETTLE_SECONDS = 5
"""How long a scheduler is let alone before it is taken to be idle."""


def export(path: Path, rows: int) -> None:
    numbers = pa.array(np.random.default_rng(1).permutation(rows)).cast(pa.string())
    loc = pc.binary_join_element_wise(
        "https://www.shop.example/products/some-category/item-name-", pc.utf8_lpad(numbers, 9, "0"), ""
    )
    days = pa.array(np.random.default_rng(2).integers(14_000, 20_000, rows).astype(np.int32)).cast(pa.date32())
    pq.write_table(pa.table({"loc": loc, "lastmod": days}), path)


def forget(folder: Path, name: str) -> None:
    """Make the next night a first one."""
    for kept in (f"work-{name}", f"public-{name}"):
        shutil.rmtree(folder / kept, ignore_errors=True)


def spent(command: list[str | Path], environ: Mapping[str, str]) -> float:
    """Processor time of a command and all it starts, in seconds."""
    before = os.times()
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    after = os.times()
    if done.returncode:
        sys.exit(done.stdout[-3_000:] + done.stderr[-3_000:])
    return after.children_user + after.children_system - before.children_user - before.children_system


def environment(folder: Path, home: Path) -> dict[str, str]:
    """An Airflow of its own, over the sites of the folder."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    mine = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")}
    return mine | {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__API__HOST": "127.0.0.1",
        "AIRFLOW__API__PORT": str(port),
        "AIRFLOW__API__SECRET_KEY": secrets.token_hex(32),
        "AIRFLOW__API__WORKERS": "1",
        "AIRFLOW__API_AUTH__JWT_SECRET": secrets.token_hex(64),
        "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
        "AIRFLOW__CORE__DAGS_FOLDER": str(folder / "dags"),
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"http://127.0.0.1:{port}/execution/",
        "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__PARALLELISM": "2",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home / 'airflow.db'}",
        "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
        "SITEMAP_ETL_SITES": str(folder / "sites"),
    }


class Scheduler:
    """Airflow as it runs all day, until the end of the block."""

    def __init__(self, environ: Mapping[str, str], processes: dict[str, subprocess.Popen[bytes]]) -> None:
        self.environ = environ
        self.database = Path(environ["AIRFLOW_HOME"]) / "airflow.db"
        self.processes = processes

    def ask(self, sql: str, *values: str) -> str | None:
        with contextlib.closing(sqlite3.connect(f"file:{self.database}?mode=ro", uri=True, timeout=30)) as database:
            row = database.execute(sql, values).fetchone()
        return None if row is None else str(row[0])

    def wait_for(self, sql: str, value: str, answers: tuple[str, ...], seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while (found := self.ask(sql, value)) not in answers:
            if found == "failed" or time.monotonic() > deadline:
                sys.exit(f"{value}: {found} after {seconds} s; the logs are in {self.database.parent}")
            time.sleep(0.2)

    def burnt(self) -> np.ndarray:
        """Processor time until now, with that of processes that ended: of the workers and tasks, and of everything."""
        tasks = everything = 0.0
        for name, process in self.processes.items():
            component = psutil.Process(process.pid)
            below = sum(_time(one) for one in component.children(recursive=True))
            tasks += below if name == "scheduler" else 0
            everything += below + _time(component)
        return np.array([tasks, everything])

    def night(self, name: str, number: int) -> np.ndarray:
        """Processor time of a DAG run: of its tasks, and of everything."""
        run_id = f"bench-{number}"
        trigger = [BIN / "airflow", "dags", "trigger", name, "--run-id", run_id]
        before = self.burnt()
        subprocess.run(trigger, env=self.environ, capture_output=True, check=True)
        answer = "SELECT state FROM dag_run WHERE dag_id || '/' || run_id = ?"
        self.wait_for(answer, f"{name}/{run_id}", ("success",), RUN_SECONDS)
        return self.burnt() - before


def _time(process: psutil.Process) -> float:
    """Of a process and its children that ended, as user and in the system."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return float(sum(process.cpu_times()[:4]))
    return 0.0


@contextlib.contextmanager
def scheduler(environ: Mapping[str, str]) -> Iterator[Scheduler]:
    processes = {}
    try:
        for name in COMPONENTS:
            with (Path(environ["AIRFLOW_HOME"]) / f"{name}.log").open("wb") as log:
                command = [BIN / "airflow", name]
                processes[name] = subprocess.Popen(command, env=environ, stdout=log, stderr=log, start_new_session=True)
        found = Scheduler(environ, processes)
        for form in FORMS:
            found.wait_for("SELECT is_stale FROM dag WHERE dag_id = ?", form, ("0",), READY_SECONDS)
        time.sleep(SETTLE_SECONDS)
        yield found
    finally:
        for process in processes.values():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
        for process in processes.values():
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="?", type=int, default=720_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scheduler", action=argparse.BooleanOptionalAction, default=True)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="sitemap_etl-bench-") as scratch:
        measure(Path(scratch), options.rows, options.rounds, with_scheduler=options.scheduler)


def measure(folder: Path, rows: int, rounds: int, *, with_scheduler: bool) -> None:
    alone, served = (environment(folder, folder / home) for home in ("alone", "served"))  # each with its database
    (folder / "sites").mkdir()
    (folder / "dags").mkdir()
    shutil.copy(PROJECT / "dags" / "sitemaps.py", folder / "dags")
    (folder / "dags" / "nothing.py").write_text(NOTHING)
    export(folder / "export.parquet", rows)
    for name, small in FORMS.items():
        (folder / "sites" / f"{name}.yaml").write_text(SITE.format(name=name, small=small))
    for environ in (alone, served):
        spent([BIN / "airflow", "db", "migrate"], environ)
    found: dict[str, list[float]] = {}
    with scheduler(served) if with_scheduler else contextlib.nullcontext() as running:
        for number in range(rounds):
            forget(folder, "one_task")
            command = [BIN / "sitemap-etl", "run", folder / "sites" / "one_task.yaml", "--quiet"]
            found.setdefault("command", []).append(spent(command, alone))
            tested = spent([BIN / "airflow", "dags", "test", "nothing"], alone)
            found.setdefault("dag test, nothing", []).append(tested)
            for name in FORMS:
                forget(folder, name)
                tested = spent([BIN / "airflow", "dags", "test", name], alone)
                found.setdefault(f"dag test, {name}", []).append(tested)
                if running is not None:
                    forget(folder, name)
                    for what, burnt in zip(("tasks", "everything"), running.night(name, number), strict=True):
                        found.setdefault(f"{what}, {name}", []).append(float(burnt))
    least = min(found["command"])
    for what, seconds in found.items():
        print(f"{what:<24} {min(seconds):6.1f} s of processor, {min(seconds) / least:4.1f} times the command")


if __name__ == "__main__":
    main()
