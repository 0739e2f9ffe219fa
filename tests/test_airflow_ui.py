"""`make airflow`: scheduler, DAG processor and API server as users have them, from their start until Ctrl-C.

All tests share one Airflow, because it takes half a minute to start. The last of them stops it.
"""

from __future__ import annotations

import base64
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import httpx
import psutil
import pytest
import yaml
from playwright.sync_api import Page, expect

from demo.browser import operator
from tests.support.airflow import PROJECT
from tests.support.engines import Reply, Request, Side
from tests.support.operator import Operator
from tests.support.waiting import until


def running(processes: Iterable[psutil.Process]) -> list[psutil.Process]:
    """Return those that still run. A process that has ended counts as such before init has reaped it."""
    found = []
    for process in processes:
        with suppress(psutil.Error):
            if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def running_in(sessions: set[int]) -> list[psutil.Process]:
    """Every process that still runs in one of these sessions."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if os.getsid(process.pid) in sessions:
                found.append(process)
    return running(found)


def on_other_hosts(page: Page, address: str) -> list[str]:
    """The requests to others that a page makes from now on."""
    found: list[str] = []
    mine = (address, f"blob:{address}", "data:")
    page.on("request", lambda request: None if request.url.startswith(mine) else found.append(request.url))
    return found


def write_late_and_waiting(sites: Path, ear: Side) -> tuple[datetime, datetime]:
    """Add two sites to a running Airflow: one whose runs are late in three to four minutes, one that an asset starts.

    Airflow reads the sites every half a minute, and must know a run before it begins. Return when the late run
    begins, and when it is due.
    """
    begins = (datetime.now(UTC) + timedelta(minutes=3)).replace(second=0, microsecond=0)
    due = begins + timedelta(minutes=1)
    section = {"pages": {"from": {"database": "dead", "query": "SELECT loc FROM pages"}}}
    site = {"site": "https://shop.example", "work": "../work", "sections": section}
    late = {
        "publish": "../late",
        "schedule": f"{begins.minute} {begins.hour} * * *",
        "airflow": {"done_by": f"{due:%H:%M}"},
        "notify": {"on": ["late"], "webhook": f"{ear.url}/late"},
    }
    waits = {
        "publish": "../waits",
        "schedule": {"assets": "exports"},
        "airflow": {"pool": "nowhere"},
        "notify": {"on": ["failed"], "webhook": f"{ear.url}/waits"},
    }
    for name, keys in (("late", late), ("waits", waits)):
        (sites / f"{name}.yaml").write_text(yaml.safe_dump(site | keys))
    return begins, due


def said_to(ear: Side, *paths: str) -> list[Request]:
    """Return what was sent to these addresses, and below them."""
    return [request for request in ear.requests if request.path.startswith(paths)]


def last_words(home: Path) -> str:
    """Return what Airflow knows of the late site, and the end of the log of each component."""
    lines = []
    with sqlite3.connect(home / "airflow" / "airflow.db") as known:
        for asked in (
            "SELECT run_id, state, start_date, end_date FROM dag_run WHERE dag_id = 'late'",
            "SELECT task_id, state, try_number, start_date FROM task_instance WHERE dag_id = 'late'",
            "SELECT deadline_time, missed, callback_id FROM deadline",
            "SELECT id, state, trigger_id, output FROM callback",
            "SELECT id, classpath, created_date, triggerer_id FROM trigger",
        ):
            lines += [f"--- {asked}", *map(str, known.execute(asked))]
    for name in ("triggerer", "scheduler", "dag-processor", "api-server"):
        log = (home / "logs" / f"{name}.log").read_text(errors="replace").splitlines()
        said = [line[:200] for line in log if "http_access_log" not in line]
        lines += [f"--- {name}", *said[-12:]]
    return "\n".join(lines)


@dataclass(frozen=True)
class Served:
    """A running Airflow. `ear`: receiver of messages and pings. `begins`, `due`: of the late site."""

    folder: Path
    process: subprocess.Popen[bytes]
    address: str
    password: str
    ear: Side
    begins: datetime
    due: datetime

    @property
    def home(self) -> Path:
        """Return the folder of its files."""
        return self.folder / "demo"

    @property
    def sites(self) -> Path:
        """The folder of the site files."""
        return self.folder / "sites"

    def shown(self) -> str:
        """What `make airflow` printed."""
        return (self.folder / "shown").read_text()

    def client(self) -> httpx.Client:
        """The API, for the administrator."""
        login = {"username": "admin", "password": self.password}
        token = httpx.post(f"{self.address}/auth/token", json=login, timeout=60).json()["access_token"]
        return httpx.Client(
            base_url=f"{self.address}/api/v2/", headers={"Authorization": f"Bearer {token}"}, timeout=120
        )


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, airflow_home: Path) -> Iterator[Served]:
    """Airflow over the sites of the demo and those of the tests."""
    folder = tmp_path_factory.mktemp("live")
    sites = folder / "sites"
    shutil.copytree(PROJECT / "sites", sites)
    shutil.copytree(PROJECT / "sql", folder / "sql")
    home = folder / "demo" / "airflow"
    shutil.copytree(airflow_home, home)
    # Airflow writes this file if there is none. Components that start together would each write a key of their own.
    (home / "airflow.cfg").write_text(f"[core]\nfernet_key = {base64.urlsafe_b64encode(os.urandom(32)).decode()}\n")
    with ExitStack() as stack:
        ear = stack.enter_context(Side(lambda _request: Reply(200)))
        write_demo(sites, ear)
        write_waiting_shop(folder)
        (sites / "broken.yaml").write_text("site: https://shop.example\npublsh: ./public\n")
        environ = {
            "HOME": str(folder),
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "PYTHONPATH": str(folder),
            "SITEMAP_ETL_SITES": str(sites),
        }
        shown = folder / "shown"
        process = subprocess.Popen(
            [sys.executable, "-m", "demo.serve", "--home", str(folder / "demo"), "--port", "0"],
            cwd=PROJECT,
            env=environ,
            stdout=stack.enter_context(shown.open("w")),
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        stack.callback(stop, process)
        until(lambda: "password" in shown.read_text() or process.poll() is not None, 400)
        welcome = shown.read_text()
        address = re.search(r"http://127\.0\.0\.1:\d+(?=/dags)", welcome)
        password = re.search(r"password +(\S+)", welcome)
        assert address is not None, welcome
        assert password is not None, welcome
        begins, due = write_late_and_waiting(sites, ear)
        found = Served(folder, process, address[0], password[1], ear, begins, due)
        with found.client() as api:
            dead = {"connection_id": "dead", "conn_type": "postgres", "host": "127.0.0.1", "port": 1}
            api.post("connections", json=dead).raise_for_status()
            late = until(lambda: (answer := api.get("dags/late")).is_success and answer.json(), 240)
        assert datetime.fromisoformat(late["next_dagrun_run_after"]) == begins, "its file was read after that"
        yield found


def stop(process: subprocess.Popen[bytes]) -> None:
    """Press Ctrl-C, unless it was pressed before."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGINT)
    process.wait(120)


def write_demo(sites: Path, ear: Side) -> None:
    """Reduce the site of the demo: two splits and two sections suffice to show mapped tasks."""
    demo = yaml.safe_load((sites / "demo.yaml").read_text())
    del demo["sections"]["stories"]
    demo["sections"]["places"]["from"]["split"]["parts"] = 2
    half_a_day = (datetime.now(UTC) + timedelta(hours=12)).hour
    demo["schedule"] = f"0 {half_a_day} * * *"  # the clock starts no run meanwhile
    demo["notify"] = {"webhook": f"{ear.url}/hook", "healthcheck": f"{ear.url}/beat", "on": ["published", "failed"]}
    (sites / "demo.yaml").write_text(yaml.safe_dump(demo, sort_keys=False))


def write_waiting_shop(folder: Path) -> None:
    """A site whose only task waits while there is a file `slow`."""
    given = {
        "site": "https://shop.example",
        "publish": {"to": "../public", "at": "https://shop.example/"},
        "work": "../work",
        "urls": {"respect_robots": False},
        "sections": {"pages": {"from": {"csv": "../pages.csv"}, "transform": "waiting_hooks:work"}},
    }
    (folder / "sites" / "shop.yaml").write_text(yaml.safe_dump(given))
    (folder / "waiting_hooks.py").write_text(SLOW)


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
    """Return the API server in the form that `Operator` uses."""

    def __init__(self, client: httpx.Client) -> None:
        self._client = client

    def call(self, _sites: Path, method: str, path: str, body: Any = None, **_how: Any) -> Any:
        answer = self._client.request(method, path, json=body)
        assert answer.status_code < 300, answer.text
        return answer.json() if answer.content else None


class Shop:
    """A site whose only task waits while there is a file `slow`."""

    def __init__(self, served: Served, client: httpx.Client) -> None:
        self.folder = served.folder
        self.desk = Operator(cast("Any", Remote(client)), served.sites, "shop", {})

    def state(self, run_id: str) -> str:
        return str(self.desk.run_details(run_id)["state"])

    def ended(self, run_id: str) -> str:
        """Return how a run ended, once it has."""
        return str(until(lambda: (now := self.state(run_id)) in ("success", "failed") and now, 400))

    def slow(self) -> Path:
        return self.folder / "slow"

    def working(self) -> int:
        """Return the process of the running task, once there is one."""
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
def shop(served: Served) -> Iterator[Shop]:
    with served.client() as client:
        yield Shop(served, client)


@pytest.mark.thorough
@pytest.mark.timeout(1_800)
def test_killed_marked_and_cleared_runs_keep_the_release_and_block_no_later_run(shop: Shop) -> None:
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
    """Return the id of a run once the DAG processor has found the DAG."""
    try:
        return desk.trigger()
    except AssertionError:
        return None


@pytest.mark.thorough
@pytest.mark.timeout(1_200)  # Airflow starts in half a minute on an idle machine
def test_the_dag_runs_under_a_real_scheduler_and_ctrl_c_leaves_nothing_behind(served: Served) -> None:
    ear, address, sites, home = served.ear, served.address, served.sites, served.home
    with served.client() as api:
        try:
            wrong = api.post("/dags/demo/dagRuns", json={"logical_date": None, "conf": {"sections": ["nope"]}})
            assert wrong.status_code == 400
            started = api.post("/dags/demo/dagRuns", json={"logical_date": None})
            assert started.status_code == 200, started.text
            run = f"/dags/demo/dagRuns/{started.json()['dag_run_id']}"
            state = until(lambda: (now := api.get(run).json()["state"]) in ("success", "failed") and now, 240)
            assert state == "success"
            instances = api.get(f"{run}/taskInstances", params={"limit": 100}).json()["task_instances"]
            assert {one["task_id"]: one["state"] for one in instances} == {
                **dict.fromkeys(("plan", "extract", "decide", "partition", "clusters", "collect"), "success"),
                **dict.fromkeys(("align", "render", "publish"), "success"),
                "build": "skipped",
                "retransform": "skipped",
                "ping": "skipped",
            }
            counts = api.get(f"{run}/taskInstances/publish/xcomEntries/counts").json()["value"]
            assert counts["status"] == "published"
            # People are told when the DAG run is over, by the process that runs callbacks.
            until(lambda: len(said_to(ear, "/hook", "/beat")) >= 3, 120)
            assert [request.target for request in said_to(ear, "/hook", "/beat")] == ["/beat/start", "/hook", "/beat"]
            told = said_to(ear, "/hook")[0].json
            assert (told["status"], told["name"]) == ("published", "demo")

            # The event of an export starts a site. Its pool does not exist: that is told at once, and once.
            exports = api.get("/assets", params={"name_pattern": "exports"}).json()["assets"][0]["id"]
            api.post("/assets/events", json={"asset_id": exports}).raise_for_status()
            until(lambda: said_to(ear, "/waits"), 120)
            assert "Airflow has no pool nowhere" in said_to(ear, "/waits")[0].json["reason"]
            (begun,) = api.get("/dags/waits/dagRuns").json()["dag_runs"]
            assert (begun["run_type"], begun["state"]) == ("asset_triggered", "failed")

            # As a person sees it: without a login there is nothing; with one, the report, in its tab and by its link.
            assert httpx.get(f"{address}/sitemaps/demo").status_code == 401
            with operator(address) as someone:
                asked = on_other_hosts(someone.page, address)
                someone.log_in("admin", served.password)
                dry = someone.trigger("demo", {"dry_run": True, "now": "2026-11-22T02:00:00Z", "reason": "a test"})
                someone.page.goto("about:blank")  # or the page draws all the time what goes on
                until(lambda: api.get(f"/dags/demo/dagRuns/{dry}").json()["state"] == "success", 400)
                someone.open(f"/dags/demo/runs/{dry}")
                someone.wait_for_run()
                assert api.get(f"/dags/demo/dagRuns/{dry}").json()["conf"]["dry_run"] is True
                report = someone.tab("Sitemap report")
                report.get_by_role("heading", name="Dry run").wait_for()
                someone.open(f"/dags/demo/runs/{dry}/tasks/publish/details")
                someone.page.get_by_role("link", name="Report", exact=True).click()
                someone.frame("Sitemap report").get_by_role("heading", name="Dry run").wait_for()
                someone.open("/plugin/sitemaps")
                someone.frame("Sitemaps").get_by_role("link", name="demo").click()
                site = someone.frame("Sitemaps")
                site.get_by_role("heading", name="demo: Published").wait_for()
                site.get_by_role("link", name="Latest run").click()
                site.get_by_role("heading", name="Published").wait_for()
                assert asked == []
            with operator(address, look="null") as someone:
                someone.log_in("admin", served.password)
                someone.open("/plugin/sitemaps")
                page = someone.frame("Sitemaps").locator("body")
                for name, color in (("Dark Mode", "rgb(20, 23, 27)"), ("Light Mode", "rgb(255, 255, 255)")):
                    someone.choose_colors(name)
                    expect(page).to_have_css("background-color", color)

            # A broken site file, after more than one look at it: told by file and key, and no other DAG is gone.
            errors = api.get("/importErrors").json()["import_errors"]
            assert len(errors) == 1
            assert str(sites / "broken.yaml") in errors[0]["stack_trace"]
            assert "publsh" in errors[0]["stack_trace"]
            details = api.get("/dags/demo/details").json()
            assert (details["is_stale"], details["has_import_errors"]) == (False, False)
            assert "If a run fails" in details["doc_md"]

            # A run that the clock started, and that waits for a database, is told as late while it goes on.
            patience = (served.due - datetime.now(UTC)).total_seconds() + 300
            until(lambda: said_to(ear, "/late") or served.process.poll() is not None, patience)
            (said,) = said_to(ear, "/late")
            assert (said.json["status"], said.json["name"]) == ("late", "late")
            assert "and is still running" in said.json["reason"]
            assert len(said_to(ear, "/waits")) == 1

            # Ctrl-C in the middle of a run.
            run = (
                f"/dags/demo/dagRuns/{api.post('/dags/demo/dagRuns', json={'logical_date': None}).json()['dag_run_id']}"
            )
            building = {
                "task_id": "build",
                "state": ["running", "success"],
            }  # by now it is known that the site is small
            until(lambda: api.get(f"{run}/taskInstances", params=building).json()["total_entries"], 120)
            family = psutil.Process(served.process.pid).children(recursive=True)
            sessions = {os.getsid(one.pid) for one in family}
            assert len(family) > len(sessions) >= 3
            os.killpg(served.process.pid, signal.SIGINT)
            assert served.process.wait(60) == 0
            assert running(family) == running_in(sessions | {served.process.pid}) == []
            assert (home / "bucket" / "demo-public" / "sitemap-places-00001.xml.gz").is_file()
            assert "Traceback" not in served.shown()
        except Exception as error:
            error.add_note(
                f"make airflow {'still runs' if served.process.poll() is None else 'has ended'}: {served.shown()}"
            )
            error.add_note(last_words(home))
            raise
