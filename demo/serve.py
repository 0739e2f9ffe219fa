"""`make airflow`: Airflow with its UI over the demo's DAG and bucket, until Ctrl-C.

Each component runs in a session of its own, so that Ctrl-C reaches this process only, and this one
stops them all: in order, then whatever is left of their sessions.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import psutil

from demo.bucket import embedded
from demo.catalogue import make
from demo.surroundings import AIRFLOW, PROJECT, Home, free_port

COMPONENTS = ("api-server", "scheduler", "dag-processor")
READY_SECONDS, STOP_SECONDS = 180, 20
_PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h


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
    _adopt()
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
        try:
            home.migrate(environ, logs / "migrate.log")
        except subprocess.CalledProcessError:
            return _failed("airflow db migrate", logs / "migrate.log")
        with _running(environ, logs) as processes:
            if (late := _wait_ready(address, password, processes)) is not None:
                return _failed(f"airflow {late}", logs / f"{late}.log")
            _say(_WELCOME.format(address=address, password=password, endpoint=bucket.endpoint, folder=home.folder))
            parent = os.getppid()
            while (ended := _ended(processes)) is None:
                time.sleep(0.5)
                if os.getppid() != parent:
                    raise Stop
            return _failed(f"airflow {ended}", logs / f"{ended}.log")


_WELCOME = """
  Airflow   {address}/dags/demo
  login     admin
  password  {password}

  The DAG demo makes the sitemaps of sites/demo.yaml: press Trigger.
  Its bucket is {endpoint} (s3://demo-public, s3://demo-private), kept in {folder}/bucket.
  Logs are in {folder}/logs. Ctrl-C stops everything.
"""


@contextmanager
def _running(environ: dict[str, str], logs: Path) -> Iterator[dict[str, subprocess.Popen[bytes]]]:
    """The components, each in a session of its own; all of it is gone at the end of the block."""
    processes: dict[str, subprocess.Popen[bytes]] = {}
    try:
        for name in COMPONENTS:
            with (logs / f"{name}.log").open("wb") as log:
                processes[name] = subprocess.Popen(  # noqa: S603 - our own
                    [AIRFLOW, name],
                    env=environ,
                    cwd=PROJECT,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
        yield processes
    finally:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)  # once is enough; a second Ctrl-C must leave nothing behind
        _say("Stopping Airflow …")
        _end(list(processes.values()))
        _say("Stopped.")


def _wait_ready(address: str, password: str, processes: dict[str, subprocess.Popen[bytes]]) -> str | None:
    """Wait until the DAG can be triggered; gives the component that did not come up."""
    deadline = time.monotonic() + READY_SECONDS
    while time.monotonic() < deadline:
        if (ended := _ended(processes)) is not None:
            return ended
        with contextlib.suppress(OSError, ValueError, KeyError):
            login = json.dumps({"username": "admin", "password": password}).encode()
            token = _ask(f"{address}/auth/token", login)["access_token"]
            health = _ask(f"{address}/api/v2/monitor/health")
            parsed = _ask(f"{address}/api/v2/dags?limit=1", token=token)["total_entries"]
            if parsed and health["scheduler"]["status"] == health["dag_processor"]["status"] == "healthy":
                return None
        time.sleep(0.5)
    return COMPONENTS[-1]


def _ask(url: str, body: bytes | None = None, token: str | None = None) -> dict:
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
    request = urllib.request.Request(url, body, headers)  # noqa: S310 - our own server on the loopback
    with urllib.request.urlopen(request, timeout=5) as answer:  # noqa: S310 - as above
        return json.load(answer)


def _ended(processes: dict[str, subprocess.Popen[bytes]]) -> str | None:
    """A component that ended by itself."""
    return next((name for name, process in processes.items() if process.poll() is not None), None)


def _failed(what: str, log: Path) -> int:
    tail = "\n".join(log.read_text(errors="replace").splitlines()[-40:])
    _say(f"{tail}\n\n{what} ended by itself. The whole log: {log}")
    return 1


def _end(processes: list[subprocess.Popen[bytes]]) -> None:
    """End the components and all that ran under them: first kindly, then for good."""
    sessions = {process.pid for process in processes}
    known: dict[int, psutil.Process] = {}
    _find(sessions, known)  # while all parents are there to be asked for their children
    for process in reversed(processes):
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
    deadline = time.monotonic() + STOP_SECONDS
    while left := _left(sessions, known):
        if time.monotonic() > deadline:
            for one in left:
                with contextlib.suppress(psutil.NoSuchProcess):
                    one.kill()
        time.sleep(0.1)


def _adopt() -> None:
    """Become the parent of whatever loses its own below here, so that it can be reaped. Linux only; else init does."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _reap() -> None:
    """Take note of every child that ended, adopted ones too."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _left(sessions: set[int], known: dict[int, psutil.Process]) -> list[psutil.Process]:
    """What still runs of the sessions, and of what was ever seen below them in sessions of its own."""
    _reap()
    _find(sessions, known)
    return [one for one in known.values() if _runs(one)]


def _runs(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _find(sessions: set[int], known: dict[int, psutil.Process]) -> None:
    """Add the processes of the sessions, and what runs below them, to the known ones."""
    for pid in psutil.pids():
        with contextlib.suppress(OSError, psutil.Error):
            if os.getsid(pid) in sessions:
                for process in (one := psutil.Process(pid), *one.children(recursive=True)):
                    known.setdefault(process.pid, process)


if __name__ == "__main__":
    sys.exit(main())
