"""`make airflow`: scheduler, DAG processor and API server as users have them, until Ctrl-C."""

from __future__ import annotations

import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import psutil
import pytest
import yaml
from playwright.sync_api import Page

from demo.browser import operator
from tests.support.airflow import PROJECT
from tests.support.engines import Reply, Request, Side
from tests.support.waiting import until


def running(processes: Iterable[psutil.Process]) -> list[psutil.Process]:
    """Those that still run: one that has ended and that the machine's init did not fetch yet does not."""
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
    """Two more sites: one whose runs are late from six minutes from now on, one that an asset starts.

    By the time that a run begins its file must have been read, which a busy machine takes minutes for.
    Returns when the run that will be late begins, and when it is due.
    """
    begins = datetime.now(UTC) + timedelta(minutes=5)
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
    return begins.replace(second=0, microsecond=0), due.replace(second=0, microsecond=0)


def said_to(ear: Side, *paths: str) -> list[Request]:
    """What was sent to these addresses, and below them."""
    return [request for request in ear.requests if request.path.startswith(paths)]


def last_words(home: Path) -> str:
    """What Airflow knows of the site that is late, and how the log of each of its components ends."""
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


@pytest.fixture
def ear() -> Iterator[Side]:
    """Where people and monitors listen."""
    with Side(lambda _request: Reply(200)) as found:
        yield found


@pytest.mark.thorough
@pytest.mark.timeout(1_200)  # Airflow starts in half a minute on an idle machine
def test_the_dag_runs_under_a_real_scheduler_and_ctrl_c_leaves_nothing_behind(tmp_path: Path, ear: Side) -> None:
    sites = tmp_path / "sites"
    shutil.copytree(PROJECT / "sites", sites)
    shutil.copytree(PROJECT / "sql", tmp_path / "sql")
    # Two splits and two sections show that tasks are mapped; all of the demo is run by `make demo` in test_demo.
    demo = yaml.safe_load((sites / "demo.yaml").read_text())
    del demo["sections"]["stories"]
    demo["sections"]["places"]["from"]["split"]["parts"] = 2
    demo["notify"] = {"webhook": f"{ear.url}/hook", "healthcheck": f"{ear.url}/beat", "on": ["published", "failed"]}
    (sites / "demo.yaml").write_text(yaml.safe_dump(demo, sort_keys=False))
    (sites / "broken.yaml").write_text("site: https://shop.example\npublsh: ./public\n")
    home = tmp_path / "demo"
    bare = {
        "HOME": str(tmp_path),
        "PATH": os.environ["PATH"],
        "LANG": "C.UTF-8",
        "SITEMAP_ETL_SITES": str(sites),
    }
    shown = tmp_path / "shown"
    with shown.open("w") as out:
        served = subprocess.Popen(
            [sys.executable, "-m", "demo.serve", "--home", str(home), "--port", "0"],
            cwd=PROJECT,
            env=bare,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        until(lambda: "password" in shown.read_text() or served.poll() is not None, 240)
        welcome = shown.read_text()
        address = re.search(r"http://127\.0\.0\.1:\d+(?=/dags)", welcome)[0]
        login = {"username": "admin", "password": re.search(r"password +(\S+)", welcome)[1]}
        token = httpx.post(f"{address}/auth/token", json=login).json()["access_token"]
        api = httpx.Client(base_url=f"{address}/api/v2", headers={"Authorization": f"Bearer {token}"}, timeout=120)

        dead = {"connection_id": "dead", "conn_type": "postgres", "host": "127.0.0.1", "port": 1}
        api.post("/connections", json=dead).raise_for_status()
        begins, due = write_late_and_waiting(sites, ear)
        wrong = api.post("/dags/demo/dagRuns", json={"logical_date": None, "conf": {"sections": ["nope"]}})
        assert wrong.status_code == 400
        started = api.post("/dags/demo/dagRuns", json={"logical_date": None})
        assert started.status_code == 200, started.text
        run = f"/dags/demo/dagRuns/{started.json()['dag_run_id']}"
        state = until(lambda: (now := api.get(run).json()["state"]) in ("success", "failed") and now, 240)
        assert state == "success"
        instances = api.get(f"{run}/taskInstances", params={"limit": 100}).json()["task_instances"]
        assert {one["task_id"]: one["state"] for one in instances} == {
            **dict.fromkeys(("plan", "extract", "partition", "clusters", "collect"), "success"),
            **dict.fromkeys(("align", "render", "publish"), "success"),
            "build": "skipped",
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
        next_of_late = datetime.fromisoformat(api.get("/dags/late").json()["next_dagrun_run_after"])
        assert next_of_late == begins, "its file was read after that: it needs to be written longer before"

        # As a person sees it: without a login there is nothing; with one, the report, in its tab and by its link.
        assert httpx.get(f"{address}/sitemaps/demo").status_code == 401
        with operator(address) as someone:
            asked = on_other_hosts(someone.page, address)
            someone.log_in("admin", login["password"])
            dry = someone.trigger("demo", {"dry_run": True, "now": "2026-11-22T02:00:00Z", "reason": "a test"})
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

        # A broken site file, after more than one look at it: told by file and key, and no other DAG is gone.
        errors = api.get("/importErrors").json()["import_errors"]
        assert len(errors) == 1
        assert str(sites / "broken.yaml") in errors[0]["stack_trace"]
        assert "publsh" in errors[0]["stack_trace"]
        details = api.get("/dags/demo/details").json()
        assert (details["is_stale"], details["has_import_errors"]) == (False, False)
        assert "When it fails" in details["doc_md"]

        # A run that the clock started, and that waits for a database, is told as late while it goes on.
        patience = (due - datetime.now(UTC)).total_seconds() + 300
        until(lambda: said_to(ear, "/late") or served.poll() is not None, patience)
        (said,) = said_to(ear, "/late")
        assert (said.json["status"], said.json["name"]) == ("late", "late")
        assert "and is still running" in said.json["reason"]
        assert len(said_to(ear, "/waits")) == 1

        # Ctrl-C in the middle of a run.
        run = f"/dags/demo/dagRuns/{api.post('/dags/demo/dagRuns', json={'logical_date': None}).json()['dag_run_id']}"
        building = {"task_id": "build", "state": ["running", "success"]}  # by now it is known that the site is small
        until(lambda: api.get(f"{run}/taskInstances", params=building).json()["total_entries"], 120)
        family = psutil.Process(served.pid).children(recursive=True)
        sessions = {os.getsid(one.pid) for one in family}
        assert len(family) > len(sessions) >= 3
        os.killpg(served.pid, signal.SIGINT)
        assert served.wait(60) == 0
        assert running(family) == running_in(sessions | {served.pid}) == []
        assert (home / "bucket" / "demo-public" / "sitemap-places-00001.xml.gz").is_file()
        assert "Traceback" not in shown.read_text()
    except Exception as error:
        error.add_note(f"make airflow {'still runs' if served.poll() is None else 'has ended'}: {shown.read_text()}")
        error.add_note(last_words(home))
        raise
    finally:
        with suppress(ProcessLookupError):
            served.terminate()
            served.wait(60)
