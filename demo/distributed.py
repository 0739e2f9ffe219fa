"""`make distributed`: a site on two Celery workers that share nothing but a bucket, each of which is killed on the way.

Redis, PostgreSQL, an S3 server and Airflow start on this machine. Each worker has a host name, a home, a scratch folder
and a checkout of the DAG and the site file of its own. One is killed while it renders and one while it publishes, as
if its machine had gone down. Then every public file, inflated, must equal that of a run without Airflow, but for the
comment that marks what a second try of a publish puts again.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from itertools import zip_longest
from pathlib import Path
from types import FrameType
from typing import Any
from urllib.parse import quote

import pandas as pd
import psycopg
import yaml

from demo.api import Api, wait_ready
from demo.bucket import PRIVATE, PUBLIC, ROBOTS, Bucket, embedded
from demo.postgres import postgres_server
from demo.processes import Command, Processes, kill, running, start
from demo.surroundings import AIRFLOW, PROJECT, Home, free_port

SITE = "https://spread.example"
NAME = "spread"
SECTIONS = 2
"""A group of render each."""
ROWS = 120_000
FILE_ROWS = 1_000
"""So many files that a publish takes seconds, and can be killed between two of them."""
FILES_BEFORE = 20
"""Public files after which the machine that publishes goes down."""
NOW = "2026-11-22T02:00:00Z"
READY_SECONDS, RUN_SECONDS = 300, 900
_LOST = 30
"""Seconds without a sign after which Airflow gives a task up: 300 unless it is told."""
_FORGOTTEN = 45
"""Seconds after which a task is queued again that a machine took and never began: 600 likewise."""


def main() -> int:
    """Run it; gives the exit code."""
    parser = argparse.ArgumentParser(prog="make distributed", description=__doc__)
    parser.add_argument("--keep", type=Path, help="a folder for the logs, which are removed otherwise")
    keep = parser.parse_args().keep
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _stop)
    scratch = Path(tempfile.mkdtemp(prefix="spread-"))
    try:
        return _scenario(scratch)
    finally:
        if keep is not None:
            shutil.copytree(scratch / "logs", keep, dirs_exist_ok=True)
        shutil.rmtree(scratch, ignore_errors=True)


def _stop(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _say(text: str) -> None:
    sys.stdout.write(f"{time.strftime('%H:%M:%S')}  {text}\n")
    sys.stdout.flush()


def _scenario(scratch: Path) -> int:
    home = Home(scratch)
    logs = scratch / "logs"
    logs.mkdir()
    with embedded(home.bucket) as bucket, _postgres(scratch / "postgres") as database:
        _put_exports(bucket)
        cluster = Cluster(home, bucket, database)
        _say("PostgreSQL and the bucket run; Airflow's database is made …")
        with (logs / "migrate.log").open("wb") as out:
            command = [AIRFLOW, "db", "migrate"]
            subprocess.run(command, env=cluster.environ("control"), stdout=out, stderr=out, check=True)  # noqa: S603 - our own
        with running(cluster.commands(), logs) as processes:
            late = wait_ready(cluster.address, cluster.password, processes, READY_SECONDS)
            if late is not None:
                raise RuntimeError(f"{late} did not come up:\n{(logs / f'{late}.log').read_text()[-3000:]}")
            _run(cluster, processes, logs)
        return _compare(scratch, bucket)


class Cluster:
    """Which machines there are, and what each of them runs."""

    def __init__(self, home: Home, bucket: Bucket, database: str) -> None:
        self.home = home
        self.bucket = bucket
        self.password = home.password()
        port, self.redis = free_port(0), free_port(0)
        self.address = f"http://127.0.0.1:{port}"
        self._shared = home.environ() | bucket.env
        self._shared |= {
            "PYTHONPATH": str(PROJECT),  # where the function for the host name is
            "AIRFLOW__CORE__HOSTNAME_CALLABLE": "demo.surroundings.host_name",
            "AIRFLOW__CORE__EXECUTOR": "CeleryExecutor",
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{self.address}/execution/",
            "AIRFLOW__CELERY__BROKER_URL": f"redis://127.0.0.1:{self.redis}/0",
            "AIRFLOW__CELERY__RESULT_BACKEND": database.replace("postgresql://", "db+postgresql://"),
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": database.replace("postgresql://", "postgresql+psycopg2://"),
            "AIRFLOW__API__PORT": str(port),
            "AIRFLOW__API__HOST": "127.0.0.1",
            "AIRFLOW__API__WORKERS": "1",
            "AIRFLOW__API__BASE_URL": self.address,
            "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": str(_LOST),
            "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "5",
            "AIRFLOW__SCHEDULER__TASK_QUEUED_TIMEOUT": str(_FORGOTTEN),
            "AIRFLOW__SCHEDULER__TASK_QUEUED_TIMEOUT_CHECK_INTERVAL": "5",
        }

    def environ(self, host: str) -> dict[str, str]:
        """The environment of a machine, which is made when it is first asked for: folders of its own."""
        folder = self.home.folder / host
        if not folder.is_dir():
            for name in ("home", "tmp", "airflow", "checkout/sites"):
                (folder / name).mkdir(parents=True)
            shutil.copytree(PROJECT / "dags", folder / "checkout/dags", ignore=shutil.ignore_patterns("__pycache__"))
            (folder / f"checkout/sites/{NAME}.yaml").write_text(yaml.safe_dump(_site(), sort_keys=False))
        bundle = {
            "name": "sitemaps",
            "classpath": "airflow.dag_processing.bundles.local.LocalDagBundle",
            "kwargs": {"path": str(folder / "checkout/dags")},
        }
        return self._shared | {
            "DEMO_HOST": host,
            "HOME": str(folder / "home"),
            "TMPDIR": str(folder / "tmp"),
            "AIRFLOW_HOME": str(folder / "airflow"),
            "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": json.dumps([bundle]),
        }

    def commands(self) -> dict[str, Command]:
        """Redis, Airflow's own components, and two workers."""
        control = self.environ("control")
        redis = ["redis-server", "--port", str(self.redis), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        found = {"redis": Command(redis, control, Path(control["TMPDIR"]))}
        for name in ("api-server", "scheduler", "dag-processor"):
            found[name] = Command([AIRFLOW, name], control, Path(control["HOME"]))
        return found | {host: self.worker(host) for host in ("worker-a", "worker-b")}

    def worker(self, host: str) -> Command:
        """The worker of a machine."""
        environ = self.environ(host)
        command = [AIRFLOW, "celery", "worker", "--skip-serve-logs", "--concurrency", "2"]
        return Command([*command, "--celery-hostname", f"celery@{host}"], environ, Path(environ["HOME"]))


def _run(cluster: Cluster, processes: Processes, logs: Path) -> None:
    """One run of the DAG, in which two machines go down."""
    api = Api(cluster.address, cluster.password)
    started = api.post(f"/dags/{NAME}/dagRuns", {"logical_date": None, "conf": {"now": NOW, "reason": "a trial"}})
    run = f"/dags/{NAME}/dagRuns/{quote(started['dag_run_id'])}"
    _say(f"{NAME} runs on worker-a and worker-b")
    for task, spare in (("render", "worker-c"), ("publish", "worker-d")):
        host = _until(partial(_host_of, api, run, task), f"a task {task} runs")
        if task == "publish":
            _until(lambda: "yes" if len(cluster.bucket.keys(PUBLIC)) > FILES_BEFORE else None, "files are public")
        kill(processes.pop(host))
        _say(f"{host} went down in {task}, with {len(cluster.bucket.keys(PUBLIC))} public files; {spare} comes up")
        processes[spare] = start(cluster.worker(spare), logs / f"{spare}.log")
    state = _until(lambda: _ended(api, run), "the run ends")
    tasks = _instances(api, run)
    _say(f"the run ended: {state}; tasks on {', '.join(sorted({one['hostname'] for one in tasks if one['hostname']}))}")
    again = {one["task_id"] for one in tasks if one["try_number"] > 1}
    _say(f"tried again: {', '.join(sorted(again)) or 'none'}")
    if state != "success" or not again >= {"publish", "render"}:
        raise RuntimeError(f"expected success, with render and publish tried again: {state}, {tasks}")


def _host_of(api: Api, run: str, task: str) -> str | None:
    """The machine on which a task of this name runs."""
    if _ended(api, run):
        raise RuntimeError(f"the run ended before a task {task} was seen")
    busy = (one for one in _instances(api, run) if one["task_id"] == task and one["state"] == "running")
    return next((one["hostname"] for one in busy if one["hostname"]), None)


def _instances(api: Api, run: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = api.get(f"{run}/taskInstances?limit=100")["task_instances"]
    return found


def _ended(api: Api, run: str) -> str | None:
    state: str = api.get(run)["state"]
    return state if state in ("success", "failed") else None


def _until(what: Callable[[], str | None], told: str) -> str:
    """What `what` gives, as soon as it gives something. A server that is too busy to answer is asked again."""
    deadline = time.monotonic() + RUN_SECONDS
    while time.monotonic() < deadline:
        with suppress(OSError):
            if (found := what()) is not None:
                return found
        time.sleep(0.5)
    raise RuntimeError(f"{told}: not within {RUN_SECONDS} s")


def _site() -> dict[str, Any]:
    shards = {"rows": FILE_ROWS, "fill": 1.0}
    sections = {
        f"part{n}": {"from": {"parquet": f"s3://{PRIVATE}/exports/{n}.parquet"}, "shards": shards}
        for n in range(SECTIONS)
    }
    publish = {"to": f"s3://{PUBLIC}", "at": f"{SITE}/"}
    work, divided = f"s3://{PRIVATE}/sitemaps", {"small": 0}  # or one task would build it all
    return {"site": SITE, "work": work, "publish": publish, "airflow": divided, "sections": sections}


def _put_exports(bucket: Bucket) -> None:
    client = bucket.client()
    for n in range(SECTIONS):
        locs = pd.Series(range(ROWS)).map(lambda at, n=n: f"/{n}/{at * 7919 % ROWS}-{at}")
        frame = pd.DataFrame({"loc": locs, "lastmod": pd.Timestamp("2026-01-01", tz="UTC")})
        client.put_object(Bucket=PRIVATE, Key=f"exports/{n}.parquet", Body=frame.to_parquet())


def _compare(scratch: Path, bucket: Bucket) -> int:
    """Whether every public file equals that of a run of the command on this machine. Gives the exit code."""
    public = scratch / "alone/public"
    public.mkdir(parents=True)
    (public / "robots.txt").write_bytes(ROBOTS)
    site = _site() | {"work": "./work", "publish": {"to": "./public", "at": f"{SITE}/"}}
    (scratch / f"alone/{NAME}.yaml").write_text(yaml.safe_dump(site))
    command = [sys.executable, "-m", "sitemap_etl", "run", f"{NAME}.yaml", "--now", NOW, "--reason", "a trial"]
    subprocess.run(command, cwd=scratch / "alone", env=os.environ | bucket.env, check=True, capture_output=True)  # noqa: S603 - our own
    mine = {path.name: _inflated(path.name, path.read_bytes()) for path in public.iterdir()}
    theirs = {key: _inflated(key, bucket.get(PUBLIC, key)) for key, _ in bucket.keys(PUBLIC)}
    differing = sorted(name for name in {*mine, *theirs} if mine.get(name) != theirs.get(name))
    if differing:
        _say(f"These public files differ from those of a local run: {', '.join(differing)}")
        for name in differing:
            found = zip_longest(*(side.get(name, b"").splitlines() for side in (mine, theirs)), fillvalue=b"")
            _say(f"{name}: alone {{!r}}, distributed {{!r}}".format(*next(pair for pair in found if len({*pair}) > 1)))
        return 1
    _say(f"All {len(theirs)} public files equal those of a local run, inflated")
    return 0


_FENCE = re.compile(rb"^(<!-- [0-9]{8}T[0-9]{6}Z-[0-9a-f]{4}[-0-9]* -->|# written by run .*)\n", re.MULTILINE)


def _inflated(name: str, data: bytes) -> bytes:
    """What a file says: uncompressed, without the fence of a second try (docs/explanation/publishing.md)."""
    return _FENCE.sub(b"", gzip.decompress(data) if name.endswith(".gz") else data)


@contextmanager
def _postgres(folder: Path) -> Iterator[str]:
    """Run a PostgreSQL server with a database for Airflow, and yield the address of that database."""
    folder.mkdir(parents=True)
    with postgres_server(folder) as address:
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute("CREATE DATABASE airflow")
        yield address.replace("/postgres?", "/airflow?")


if __name__ == "__main__":
    sys.exit(main())
