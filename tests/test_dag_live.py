"""Runs that are killed, marked and cleared under a real scheduler, whose tasks are processes that it has to stop."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import httpx
import pytest
import yaml

from tests.support.airflow import PROJECT
from tests.support.operator import Operator
from tests.support.waiting import until

SLOW = """
import os
import time
from pathlib import Path

HERE = Path(__file__).parent

def work(frame):
    (HERE / "pid").write_text(str(os.getpid()))
    while (HERE / "slow").exists():
        time.sleep(0.2)
    return frame
"""
"""The rules of a section are somebody else's code, which may take its time."""


class Remote:
    """The API server of a running Airflow."""

    def __init__(self, address: str, password: str) -> None:
        login = {"username": "admin", "password": password}
        token = httpx.post(f"{address}/auth/token", json=login, timeout=60).json()["access_token"]
        headers = {"Authorization": f"Bearer {token}"}
        self._client = httpx.Client(base_url=f"{address}/api/v2/", headers=headers, timeout=60)

    def call(self, _sites: Path, method: str, path: str, body: Any = None, **_how: Any) -> Any:
        answer = self._client.request(method, path, json=body)
        assert answer.status_code < 300, answer.text
        return answer.json() if answer.content else None


class Shop:
    """A site whose only task waits while there is a file `slow`."""

    def __init__(self, folder: Path, address: str, password: str) -> None:
        self.folder = folder
        self.desk = Operator(cast("Any", Remote(address, password)), folder / "sites", "shop", {})

    def state(self, run_id: str) -> str:
        return str(self.desk.run_details(run_id)["state"])

    def ended(self, run_id: str) -> str:
        """How a run ended, once it has."""
        return str(until(lambda: (now := self.state(run_id)) in ("success", "failed") and now, 400))

    def slow(self) -> Path:
        return self.folder / "slow"

    def working(self) -> int:
        """The process of the task at work, once there is one."""
        pid = self.folder / "pid"
        until(lambda: pid.exists() and pid.read_text(), 200)
        number = int(pid.read_text())
        pid.unlink()
        return number

    def pages(self, count: int) -> None:
        lines = [f"/p/{n},2026-01-01" for n in range(count)]
        (self.folder / "pages.csv").write_text("\n".join(["loc,lastmod", *lines, ""]))

    def files(self) -> dict[str, int]:
        return {path.name: path.stat().st_mtime_ns for path in (self.folder / "public").iterdir()}


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    (tmp_path / "sites").mkdir()
    given = {
        "site": "https://shop.example",
        "publish": {"to": "../public", "at": "https://shop.example/"},
        "work": "../work",
        "urls": {"respect_robots": False},
        "sections": {"pages": {"from": {"csv": "../pages.csv"}, "transform": "waiting_hooks:work"}},
    }
    (tmp_path / "sites" / "shop.yaml").write_text(yaml.safe_dump(given))
    (tmp_path / "waiting_hooks.py").write_text(SLOW)
    environ = {
        "HOME": str(tmp_path),
        "PATH": os.environ["PATH"],
        "LANG": "C.UTF-8",
        "PYTHONPATH": str(tmp_path),
        "SITEMAP_ETL_SITES": str(tmp_path / "sites"),
        "AIRFLOW__WORKERS__MIN_HEARTBEAT_INTERVAL": "1",
    }
    shown = tmp_path / "shown"
    with shown.open("w") as out:
        served = subprocess.Popen(
            [sys.executable, "-m", "demo.serve", "--home", str(tmp_path / "home"), "--port", "0"],
            cwd=PROJECT,
            env=environ,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        until(lambda: "password" in shown.read_text() or served.poll() is not None, 400)
        welcome = shown.read_text()
        address = re.search(r"http://127\.0\.0\.1:\d+(?=/dags)", welcome)
        password = re.search(r"password +(\S+)", welcome)
        assert address is not None, welcome
        assert password is not None, welcome
        yield Shop(tmp_path, address[0], password[1])
    finally:
        with suppress(ProcessLookupError):
            os.killpg(served.pid, signal.SIGINT)
            served.wait(120)


@pytest.mark.thorough
@pytest.mark.timeout(1_800)
def test_killed_marked_and_cleared_runs_leave_the_set_as_it_is_and_the_way_free(shop: Shop) -> None:
    desk = shop.desk
    shop.pages(100)

    # Its process is killed in the middle: the scheduler tries the task again, and the run is published.
    shop.slow().touch()
    killed = until(lambda: _triggered(desk), 200)
    os.kill(shop.working(), signal.SIGKILL)
    shop.slow().unlink()
    assert shop.ended(killed) == "success"
    before = shop.files()

    # All of it is cleared, after the source has changed: nothing is read or written.
    shop.pages(105)
    desk.clear(killed)
    until(lambda: shop.state(killed) != "success", 60)
    assert shop.ended(killed) == "success"
    assert shop.files() == before

    # Marked while its task is at work, with the next one triggered at once.
    shop.slow().touch()
    (shop.folder / "pid").unlink(missing_ok=True)
    marked = desk.trigger()
    shop.working()
    desk.mark(marked, "failed")
    after = desk.trigger()
    shop.working()
    shop.slow().unlink()
    assert shop.ended(after) == "success"
    assert shop.state(marked) == "failed"
    changed = shop.files()
    assert changed != before

    # Marked and deleted while its task is at work.
    shop.slow().touch()
    deleted = desk.trigger()
    shop.working()
    desk.mark(deleted, "success")
    desk.delete(deleted)
    shop.slow().unlink()
    assert shop.ended(desk.trigger()) == "success"
    assert shop.files() == changed


def _triggered(desk: Operator) -> str | None:
    """The id of a run, as soon as the DAG processor has found the DAG."""
    try:
        return desk.trigger()
    except AssertionError:
        return None
