"""From site files to DAGs: what Airflow makes of a folder, and how errors are reported to it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sitemap_etl.airflow.pools import MISSING, demand_pools
from sitemap_etl.errors import ConfigError
from tests.support.airflow import PROJECT, Airflow
from tests.support.dags import CLUSTERS, STAGES, Shop
from tests.support.engines import Reply, Side


@pytest.fixture
def shop(tmp_path: Path, airflow_process: Airflow) -> Shop:
    return Shop(tmp_path, airflow_process)


def test_each_site_file_at_the_top_of_the_folder_is_one_dag(shop: Shop) -> None:
    shop.site("shop", schedule={"cron": "0 2 * * *", "timezone": "Europe/Berlin"})
    shop.site("blog", extends="_base.yaml", work="../blog")
    (shop.sites / "_base.yaml").write_text("keep: 3\n")
    (shop.sites / "notes.txt").write_text("not a site")
    (shop.sites / "old").mkdir()
    (shop.sites / "old" / "shop.yaml").write_text((shop.sites / "shop.yaml").read_text())
    found = shop.airflow.describe(shop.sites)
    assert found["import_errors"] == {}
    assert sorted(found["dags"]) == ["blog", "shop"]
    one = found["dags"]["shop"]
    assert "0 2 * * *" in one["timetable"]
    assert "Europe/Berlin" in one["timetable"]
    assert "Null" in found["dags"]["blog"]["timetable"]
    assert (one["catchup"], one["max_active_runs"]) == (False, 1)
    assert "If a run fails" in one["doc"]


def test_a_site_is_started_by_an_asset_event_or_by_the_clock(shop: Shop) -> None:
    shop.site(schedule={"assets": ["s3://exports/products", "stock"], "or_cron": "0 4 * * *", "timezone": "Asia/Tokyo"})
    shop.site("waits", work="../waits", schedule={"assets": "x-sitemap://shop"})
    dags = shop.airflow.describe(shop.sites)["dags"]
    both = dags["shop"]["timetable"]
    assert "AssetOrTime" in both
    for part in ("s3://exports/products", "stock", "0 4 * * *", "Asia/Tokyo"):
        assert part in both
    assert "x-sitemap://shop" in dags["waits"]["timetable"]


def test_a_setting_that_airflow_does_not_support_excludes_only_its_site(shop: Shop) -> None:
    shop.site()
    shop.site("lost", work="../lost", airflow={"executor": "LocalExecuter"})
    shop.site("odd", work="../odd", schedule={"assets": ["airflow://x"]})
    found = shop.airflow.describe(shop.sites)
    assert list(found["dags"]) == found["usable"] == ["shop"]
    (error,) = found["import_errors"].values()
    assert str(shop.sites / "lost.yaml") in error
    assert 'no executor "LocalExecuter", it has LocalExecutor; did you mean LocalExecutor?' in error
    assert 'odd.yaml: schedule.assets: Airflow does not take "airflow://x"' in error


def test_a_site_file_without_work_is_an_import_error_with_the_line_to_write(shop: Shop) -> None:
    shop.site()
    shop.site("plain", work=None)
    found = shop.airflow.describe(shop.sites)
    assert list(found["dags"]) == ["shop"]
    (error,) = found["import_errors"].values()
    assert "plain.yaml: work is missing. A DAG has no default for it" in error
    assert "  work: /srv/sitemap-etl" in error


def test_the_tasks_are_the_stages_and_four_of_them_are_mapped(shop: Shop) -> None:
    shop.site()
    rule = {"group": "walk", "hreflang": "lang"}
    shop.site("walks", sections={"walks": {"from": {"csv": "../walks.csv"}, "alternates": rule}})
    dags = shop.airflow.describe(shop.sites)["dags"]
    tasks = dags["shop"]["tasks"]
    assert sorted(tasks) == sorted(STAGES)
    assert [name for name in STAGES if tasks[name]["mapped"]] == ["extract", "retransform", "render", "ping"]
    assert tasks["build"]["upstream"] == tasks["decide"]["upstream"] == ["extract"]
    assert tasks["partition"]["upstream"] == ["decide", "retransform"]
    assert tasks["publish"]["upstream"] == ["build", "render"]
    assert {one["retries"] for one in tasks.values()} == {3}
    assert sorted(dags["walks"]["tasks"]) == sorted(STAGES + CLUSTERS)
    assert dags["walks"]["tasks"]["render"]["upstream"] == ["align", "partition"]


def test_the_site_file_configures_how_airflow_runs_the_tasks(shop: Shop) -> None:
    asked = {"pool": "catalog", "owner": "search", "priority": 7, "timeout": "90m", "queue": "big", "retries": 1}
    shop.site(airflow={**asked, "tags": ["shops"]})
    shop.site("plain", work="../plain")
    dags = shop.airflow.describe(shop.sites)["dags"]
    tasks = dags["shop"]["tasks"]
    assert dags["shop"]["tags"] == ["shops", "sitemap"]
    for key, value in (("owner", "search"), ("priority", 7), ("timeout", 5400), ("queue", "big"), ("retries", 1)):
        assert {task[key] for task in tasks.values()} == {value}
    # Only what reads a source takes a slot of the pool; above all plan does not, which tells that there is none.
    assert [name for name in STAGES if tasks[name]["pool"] == "catalog"] == ["build", "extract"]
    plain = dags["plain"]["tasks"].values()
    assert {(task["pool"], task["priority"], task["timeout"]) for task in plain} == {("default_pool", 1, 21600)}
    assert {task["rule"] for task in tasks.values()} != {task["rule"] for task in plain}


def test_a_pool_that_does_not_exist_is_found_by_the_scheduler_and_reported_by_plan(shop: Shop) -> None:
    shop.site("pooled", airflow={"pool": "nowhere"})

    def missing(*created: str) -> list[str] | None:
        environ = {"SITEMAP_ETL_SITES": str(shop.sites)}
        answer, log = shop.airflow.ask("start", environ, dag="pooled", run_id="tonight", pools=created)
        assert "error" not in answer, log
        return answer.get(MISSING)

    with pytest.raises(ConfigError) as told:
        demand_pools(missing())
    assert "airflow.pool: Airflow has no pool nowhere, and never starts a task that needs it" in str(told.value)
    assert "airflow pools set nowhere 4" in str(told.value)
    demand_pools(missing("nowhere"))  # it was created, and plan was cleared


def test_the_trigger_form_has_typed_parameters(shop: Shop) -> None:
    shop.site()
    one = shop.airflow.describe(shop.sites)["dags"]["shop"]
    assert one["defaults"] == {
        "sections": [],
        "full": False,
        "dry_run": False,
        "ping": True,
        "force": [],
        "reason": None,
        "now": None,
        "moved": False,
    }
    assert one["params"]["sections"]["items"]["enum"] == ["pages"]
    assert "pages.max_drop" in one["params"]["force"]["items"]["enum"]
    for wrong in ({"sections": ["nope"]}, {"full": "yes"}, {"force": "max_drop"}, {"reason": 3}):
        answer, _ = shop.airflow.ask("run", {"SITEMAP_ETL_SITES": str(shop.sites)}, dag="shop", conf=wrong, only=None)
        assert next(iter(wrong)) in answer["error"]


def test_a_broken_site_file_is_an_import_error_and_affects_no_other_dag(shop: Shop) -> None:
    shop.site()
    shop.site("broken", publsh="nowhere")
    (shop.sites / "worse.yaml").write_text("site: [")
    found = shop.airflow.describe(shop.sites)
    (error,) = found["import_errors"].values()
    assert str(shop.sites / "broken.yaml") in error
    assert "publsh" in error
    assert str(shop.sites / "worse.yaml") in error
    assert list(found["shown_errors"].values()) == [error]
    assert found["usable"] == ["shop"]  # in the database too, where a file's error takes its DAGs back
    (shop.sites / "broken.yaml").unlink()
    (shop.sites / "worse.yaml").unlink()
    assert shop.airflow.describe(shop.sites)["shown_errors"] == {}


def test_two_site_files_with_the_same_name_are_both_excluded(shop: Shop) -> None:
    shop.site("shop")
    shop.site("copy", name="shop")
    shop.site("blog", work="../blog")
    found = shop.airflow.describe(shop.sites)
    assert list(found["dags"]) == ["blog"]
    (error,) = found["import_errors"].values()
    assert "copy.yaml" in error
    assert "shop.yaml" in error


def test_a_missing_folder_of_site_files_is_reported(shop: Shop) -> None:
    found = shop.airflow.describe(shop.folder / "sights")
    assert found["dags"] == {}
    assert "sights" in next(iter(found["import_errors"].values()))


_GIVES_UP = """
import runpy, sys
from types import SimpleNamespace
from sitemap_etl.errors import Unavailable
from sitemap_etl.runs import tasks

def abandon(*_given):
    raise Unavailable("the state does not answer")

tasks.abandon = abandon
dag = runpy.run_path(sys.argv[1])["shop"]
for conf in ({}, {"dry_run": True, "sections": ["nope"]}):
    try:
        dag.on_failure_callback({"dag": dag, "run_id": "tonight", "dag_run": SimpleNamespace(conf=conf)})
    except Unavailable as error:
        print(error)
"""


def test_a_failed_run_with_unreachable_state_is_reported_unless_it_is_a_dry_run(shop: Shop) -> None:
    with Side(lambda _request: Reply(200)) as ear:
        shop.site(notify={"webhook": f"{ear.url}/hook"})
        done = subprocess.run(
            [sys.executable, "-c", _GIVES_UP, PROJECT / "dags" / "sitemaps.py"],
            env={**os.environ, **shop.airflow.environ, "SITEMAP_ETL_SITES": str(shop.sites)},
            capture_output=True,
            text=True,
            check=True,
        )
    assert done.stdout.count("the state does not answer") == 2
    (request,) = ear.requests
    assert json.loads(request.body)["status"] == "failed"


def test_parsing_the_dag_file_imports_no_heavy_library(shop: Shop) -> None:
    shop.site()
    script = "import runpy, sys; runpy.run_path(sys.argv[1]); print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script, PROJECT / "dags" / "sitemaps.py"],
        env={**os.environ, **shop.airflow.environ, "SITEMAP_ETL_SITES": str(shop.sites)},
        capture_output=True,
        text=True,
        check=True,
    )
    heavy = {"pandas", "pyarrow", "duckdb", "boto3", "numpy", "lxml", "sitemap_etl.stages"}
    assert heavy & set(done.stdout.split()) == set()
