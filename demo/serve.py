"""`make airflow`: Airflow with its UI over the demo's DAG and bucket, until Ctrl-C.

Each component runs in a session of its own, so that Ctrl-C reaches this process only, and this one
stops them all: in order, then whatever is left of their sessions.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType

from demo.api import wait_ready
from demo.bucket import Bucket, embedded
from demo.catalogue import make
from demo.processes import Command, Processes, ended, running
from demo.surroundings import AIRFLOW, DAG, PROJECT, Home, free_port

COMPONENTS = ("api-server", "scheduler", "dag-processor", "triggerer")
READY_SECONDS = 180


class Stop(BaseException):
    """Ctrl-C, SIGTERM, SIGHUP, or the end of who started this."""


def main() -> int:
    """Serve until told to stop; gives the exit code."""
    parser = argparse.ArgumentParser(prog="make airflow", description=__doc__)
    parser.add_argument("--home", type=Path, default=PROJECT / ".demo", help="where everything is kept")
    parser.add_argument("--port", type=int, default=8080, help="of the UI, if it is free")
    options = parser.parse_args()
    home = Home(options.home.resolve())
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _stop)
    with contextlib.suppress(Stop), home.locked():
        return _serve(home, free_port(options.port))
    return 0


def _stop(_number: int, _frame: FrameType | None) -> None:
    raise Stop


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _serve(home: Home, port: int) -> int:
    address = f"http://127.0.0.1:{port}"
    _say("Starting the embedded bucket and Airflow (about half a minute) …")
    make(home.catalogue, None)
    password = home.password()
    with embedded(home.bucket) as bucket:
        environ = home.environ() | bucket.env
        environ |= {
            "SITEMAP_ETL_SITES": os.environ.get("SITEMAP_ETL_SITES") or str(PROJECT / "sites"),
            "AIRFLOW__API__PORT": str(port),
            "AIRFLOW__API__HOST": "127.0.0.1",
            "AIRFLOW__API__WORKERS": "1",
            "AIRFLOW__API__BASE_URL": address,
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{address}/execution/",
        }
        logs = home.folder / "logs"
        logs.mkdir(exist_ok=True)
        with (logs / "migrate.log").open("ab") as out:
            migrated = subprocess.run(  # noqa: S603 - our own
                DAG, cwd=PROJECT, env=environ, stdin=subprocess.DEVNULL, stdout=out, stderr=out, check=False
            )
        if migrated.returncode:
            return _failed("The migration of Airflow's database", logs / "migrate.log")
        commands = {name: Command([AIRFLOW, name], environ, PROJECT) for name in COMPONENTS}
        try:
            with running(commands, logs) as processes:
                try:
                    return _watch(processes, address, password, home, bucket, logs)
                finally:
                    _say("Stopping Airflow …")
        finally:
            _say("Stopped.")


def _watch(processes: Processes, address: str, password: str, home: Home, bucket: Bucket, logs: Path) -> int:
    """Wait until Airflow is there, say so, and wait on until it is not."""
    if (late := wait_ready(address, password, processes, READY_SECONDS)) is not None:
        return _failed(f"airflow {late}", logs / f"{late}.log")
    _say(_WELCOME.format(address=address, password=password, endpoint=bucket.endpoint, folder=home.folder))
    parent = os.getppid()
    while (gone := ended(processes)) is None:
        time.sleep(0.5)
        if os.getppid() != parent:
            raise Stop
    return _failed(f"airflow {gone}", logs / f"{gone}.log")


_WELCOME = """
  Airflow   {address}/dags/demo
  login     admin
  password  {password}

  The DAG demo makes the sitemaps of sites/demo.yaml: press Trigger.
  Its bucket is {endpoint} (s3://demo-public, s3://demo-private), kept in {folder}/bucket.
  Logs are in {folder}/logs. Ctrl-C stops everything.
"""


def _failed(what: str, log: Path) -> int:
    tail = "\n".join(log.read_text(errors="replace").splitlines()[-40:])
    _say(f"{tail}\n\n{what} ended by itself. The whole log: {log}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
