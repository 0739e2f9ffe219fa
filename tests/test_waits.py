"""A first Ctrl-C or SIGTERM ends any wait: for a store, a database, an engine or a site that does not answer.

No test checks a duration: an uninterrupted wait would take at least half a minute, which is far more than the tests
allow. The processes are the command as a user starts it.
"""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from sitemap_etl.state.lease import take_lease
from tests.support.command import process
from tests.support.engines import Reply, Request, Side
from tests.support.s3 import CREDENTIALS
from tests.support.sites import TestSite, pages
from tests.support.slow import slow

PATIENCE = 15
"""Seconds in which the process must have ended: ten times what it takes on a machine that has nothing else to do."""
BOTH = pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.thorough)])


HEADERS = b"HTTP/1.1 200 OK\r\nContent-Type: application/xml\r\n" + b"X-Pad: " + b"x" * 600
BODY = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 600\r\n\r\n" + b"x" * 600


def interrupted(running: subprocess.Popen[str], waits: Callable[[], bool], number: int) -> dict[str, Any]:
    """Interrupt the process once it waits; return its JSON output."""
    until = time.monotonic() + 60
    while not waits() and running.poll() is None and time.monotonic() < until:
        time.sleep(0.02)
    time.sleep(0.3)  # from the request to the wait
    assert running.poll() is None, running.communicate()
    running.send_signal(number)
    out, err = running.communicate(timeout=PATIENCE)
    assert running.returncode == 130, err
    assert "Traceback" not in err
    assert "Interrupted. The published files are valid" in err
    told: dict[str, Any] = json.loads(out)
    assert told["kind"] == "interrupted"
    return told


def started(site: TestSite, *arguments: object, **environ: str) -> subprocess.Popen[str]:
    return process("run", site.path, "--json", *arguments, cwd=site.folder, **environ)


@pytest.fixture
def site(tmp_path: Path) -> TestSite:
    return TestSite(tmp_path, urls={"respect_robots": False}).section("p", pages(30))


@BOTH
@pytest.mark.parametrize(
    "said",
    [b"", pytest.param(HEADERS, marks=pytest.mark.thorough), pytest.param(BODY, marks=pytest.mark.thorough)],
    ids=["nothing", "headers", "body"],
)
def test_a_wait_for_a_slow_store_can_be_interrupted(site: TestSite, said: bytes, number: int) -> None:
    site.keys["work"] = "s3://bucket/work"
    with slow(said) as server:
        environ = {**CREDENTIALS, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.port}"}
        interrupted(started(site, **environ), server.asked.is_set, number)


@BOTH
def test_a_wait_for_a_source_in_an_unreachable_store_can_be_interrupted(site: TestSite, number: int) -> None:
    site.keys["sections"]["p"] = {"from": {"parquet": "s3://bucket/exports/*.parquet"}}
    with slow() as server:
        environ = {**CREDENTIALS, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.port}"}
        interrupted(started(site, **environ), server.asked.is_set, number)


@BOTH
@pytest.mark.parametrize("kind", ["postgresql", "mysql"])
def test_a_wait_for_an_unreachable_database_can_be_interrupted(site: TestSite, kind: str, number: int) -> None:
    site.keys["sections"]["p"] = {"from": {"database": "shop", "query": "SELECT loc FROM pages"}}
    with slow() as server:
        uri = f"{kind}://reader:secret@127.0.0.1:{server.port}/shop"
        interrupted(started(site, AIRFLOW_CONN_SHOP=uri), server.asked.is_set, number)


@pytest.mark.thorough
@BOTH
def test_a_wait_for_a_slow_query_can_be_interrupted(site: TestSite, number: int, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "shop.db")) as database:
        database.execute("CREATE TABLE pages (loc TEXT)")
    lock = sqlite3.connect(tmp_path / "shop.db", isolation_level=None)
    site.keys["sections"]["p"] = {"from": {"database": "shop", "query": "SELECT loc FROM pages"}}
    with closing(lock):
        lock.execute("PRAGMA locking_mode = EXCLUSIVE")
        lock.execute("BEGIN EXCLUSIVE")
        lock.execute("INSERT INTO pages VALUES ('/a')")
        running = started(site, AIRFLOW_CONN_SHOP=f"sqlite:///{tmp_path / 'shop.db'}")
        until = time.monotonic() + 5
        while running.poll() is None and time.monotonic() < until:
            time.sleep(0.05)
        if running.poll() is None:
            interrupted(running, lambda: True, number)
        else:
            assert running.returncode in (1, 2, 3)  # it does not wait for a lock at all


@BOTH
def test_a_wait_for_a_slow_robots_txt_can_be_interrupted(tmp_path: Path, number: int) -> None:
    with slow(BODY) as server:
        site = TestSite(tmp_path, site=f"http://127.0.0.1:{server.port}").section("p", pages(30))
        site.keys["publish"] = {"to": "./public", "at": f"http://127.0.0.1:{server.port}/maps/"}
        interrupted(started(site), server.asked.is_set, number)


@BOTH
def test_a_wait_for_a_busy_engine_can_be_interrupted(tmp_path: Path, number: int) -> None:
    asked = threading.Event()

    def answer(request: Request) -> Reply:
        if request.method != "POST":
            return Reply(404)
        asked.set()
        return Reply(503, headers={"Retry-After": "40"})

    with Side(answer) as side:
        site = TestSite(tmp_path, site=side.url).section("p", pages(30))
        site.keys["ping"] = {"bing": {"key": "k", "endpoint": f"{side.url}/bing", "patience": 120}}
        interrupted(started(site), asked.is_set, number)
        assert site.manifest().listed == 30


@BOTH
def test_a_sleeping_hook_can_be_interrupted(site: TestSite, number: int) -> None:
    """The rules of a section can be user code."""
    (site.folder / "hooks.py").write_text(
        "import time\nfrom pathlib import Path\n\ndef wait(frame):\n    Path('waiting').touch()\n    time.sleep(60)\n"
    )
    site.section("p", transform="hooks:wait")
    interrupted(started(site), (site.folder / "waiting").exists, number)


def test_a_lease_of_another_run_is_not_waited_for(site: TestSite) -> None:
    site.night(1)
    take_lease(site.state().storage, "20261101T030000Z-ffff", pid=os.getppid() or 1)
    running = started(site)
    out, _ = running.communicate(timeout=60)
    assert (running.returncode, json.loads(out)["kind"]) == (1, "refused")


@pytest.mark.thorough
def test_an_interrupted_computation_ends_gracefully(site: TestSite) -> None:
    """A process that is computing is not killed: it releases its lease."""
    (site.folder / "hooks.py").write_text(
        "import time\nfrom pathlib import Path\n\ndef work(frame):\n    Path('working').touch()\n"
        "    until = time.process_time() + 3\n    while time.process_time() < until:\n        pass\n    return frame\n"
    )
    site.section("p", transform="hooks:work")
    running = started(site)
    interrupted(running, (site.folder / "working").exists, signal.SIGINT)
    assert site.state().storage.get("state/lease.json") is None
