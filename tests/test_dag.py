"""The DAGs, run by a real Airflow over real site files."""

from __future__ import annotations

import gzip
import json
import shutil
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.airflow import Airflow
from tests.support.dags import SITE, Shop
from tests.support.engines import Reply, Request, Side
from tests.support.operator import Operator
from tests.support.s3 import S3Server, s3_server

pytestmark = pytest.mark.thorough  # a whole Airflow; tests/test_dag_files.py has the parts

MANY = {"small": 0}
"""`airflow:` of a site that is not to run in one task, however small."""
DEAD = "postgresql://reader:hunter2-secret@127.0.0.1:1/catalog"
"""A database that nobody serves."""


@pytest.fixture
def shop(tmp_path: Path, airflow_process: Airflow) -> Shop:
    return Shop(tmp_path, airflow_process)


@pytest.mark.thorough
def test_a_run_publishes_to_s3_and_the_next_one_writes_nothing(shop: Shop) -> None:
    with s3_server() as server:
        public, private = server.bucket(), server.bucket()
        shop.environ = server.env
        shop.pages(300)
        shop.site(publish={"to": f"s3://{public}", "at": f"{SITE}/"}, work=f"s3://{private}/sitemaps")
        first = shop.run()
        before = objects(server, public)
        second = shop.run()
        after = objects(server, public)
        sitemap = server.client().get_object(Bucket=public, Key="sitemap-pages-00001.xml.gz")["Body"].read()
    assert first.state == second.state == "success"
    assert sorted(before) == ["robots.txt", "sitemap-pages-00001.xml.gz", "sitemap.xml"]
    assert gzip.decompress(sitemap).count(b"<url>") == 300
    assert first.xcom("publish", "counts")["status"] == "published"
    assert second.xcom("publish", "counts")["status"] == "unchanged"
    assert after == before
    assert first.states("ping") == ["skipped"]  # no engine is named
    # Who waits for the set hears of it once, and only where it has changed.
    ((asset, said),) = first.events
    assert asset == "x-sitemap://shop"
    assert (said["listed"], said["added"], said["removed"], said["status"]) == (300, 300, 0, "published")
    assert said["index"] == [f"{SITE}/sitemap.xml"]
    assert said["report"].endswith(f"{said['run_id']}/report.html")
    assert second.events == []


def objects(server: S3Server, bucket: str) -> dict[str, Any]:
    found = server.client().list_objects_v2(Bucket=bucket)["Contents"]
    return {one["Key"]: (one["ETag"], one["LastModified"]) for one in found}


@pytest.mark.thorough
def test_xcoms_contain_only_keys_and_counts(shop: Shop) -> None:
    shop.pages(30)
    shop.site(airflow=MANY)
    run = shop.run()
    assert run.xcom("plan") == run.xcom("partition") == [[0, 1]]
    assert run.xcom("plan", "run").startswith(str(shop.folder / "work" / "shop" / "runs"))
    assert run.xcom("extract") == {"rows": 30, "inventory": 30, "excluded": 0, "rejected": 0}
    assert all(isinstance(count, int) for count in run.xcom("render").values())
    assert len(json.dumps(run.xcoms)) < 4_000
    assert "Returned value was" not in run.log


def test_a_small_site_has_four_tasks(shop: Shop) -> None:
    shop.pages(30)
    shop.site()
    run = shop.run()
    assert run.state == "success"
    assert [run.states(task) for task in ("plan", "build", "publish")] == [["success"]] * 3
    assert [run.states(task) for task in ("extract", "partition", "render", "ping")] == [["skipped"]] * 4
    assert run.xcom("build") == {"rows": 30, "inventory": 30, "excluded": 0, "rejected": 0}
    assert run.xcom("publish", "counts")["status"] == "published"


@pytest.mark.thorough
def test_unchanged_splits_of_a_changed_section_are_mapped_tasks(shop: Shop) -> None:
    path = shop.folder / "catalog.db"
    shop.environ["AIRFLOW_CONN_CATALOG"] = f"sqlite:///{path}"
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE cats (id INTEGER, loc TEXT, lastmod TEXT)")
        database.executemany("INSERT INTO cats VALUES (?, ?, '2026-01-01')", [(n, f"/cats/{n}") for n in range(30)])
    source = {"database": "catalog", "query": "SELECT * FROM cats", "split": {"column": "id", "parts": 3}}
    shop.site(sections={"cats": {"from": source}}, airflow=MANY)
    shop.run()
    run = shop.run()
    assert (run.states("decide"), run.states("retransform")) == (["success"], ["skipped"])
    assert run.xcom("publish", "counts")["status"] == "unchanged"
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("UPDATE cats SET lastmod = '2026-02-02' WHERE id = 29")
    run = shop.run()
    assert (run.state, run.states("retransform")) == ("success", ["success"] * 2)
    assert run.xcom("publish", "counts")["sections"]["cats"]["changed"] == 1


@pytest.mark.thorough
def test_more_splits_than_airflow_can_map_run_in_bundles(shop: Shop) -> None:
    exports = shop.folder / "exports"
    exports.mkdir()
    for n in range(12):
        table = pa.table({"loc": [f"/pages/{n}"]})
        pq.write_table(table, exports / f"{n:02}.parquet")
    sections = {f"pages{n}": {"from": {"parquet": f"../exports/{n:02}.parquet"}} for n in range(12)}
    shop.site(sections=sections, airflow=MANY)
    shop.environ = {"AIRFLOW__CORE__MAX_MAP_LENGTH": "4"}
    run = shop.run()
    assert run.state == "success"
    assert len(run.of("extract")) == len(run.of("render")) == 4
    assert run.labels("render")[0] == "pages0 1 of 1, pages1 1 of 1, pages2 1 of 1"
    assert run.xcom("publish", "counts")["total"]["listed"] == 12


@pytest.mark.thorough
def test_mapped_tasks_are_named_after_what_they_read_and_write(shop: Shop) -> None:
    shop.pages(5)
    shop.pages(5, "posts")
    sections = {name: {"from": {"csv": f"../{name}.csv"}} for name in ("pages", "posts")}
    shop.site(sections=sections, airflow=MANY)
    run = shop.run()
    assert [label.split(":")[0] for label in run.labels("extract")] == ["pages", "posts"]
    assert run.labels("render") == ["pages 1 of 1", "posts 1 of 1"]


@pytest.mark.thorough
def test_the_dag_has_a_task_for_clusters_if_a_section_has_them(shop: Shop) -> None:
    (shop.folder / "walks.csv").write_text("loc,walk,lang\n/en/1,1,en\n/de/1,1,de\n/en/2,2,en\n")
    rule = {"group": "walk", "hreflang": "lang"}
    shop.site(sections={"walks": {"from": {"csv": "../walks.csv"}, "alternates": rule}}, airflow=MANY)
    run = shop.run()
    assert run.state == "success"
    assert run.xcom("align") == {"aligned": 2}
    text = gzip.decompress((shop.public / "sitemap-walks-00001.xml.gz").read_bytes()).decode()
    assert text.count('hreflang="de"') == 2


@pytest.mark.thorough
def test_a_section_with_a_broken_source_is_kept_at_once_if_on_error_is_keep(shop: Shop) -> None:
    shop.pages(30)
    shop.pages(30, "posts")
    kept = {"from": {"csv": "../posts.csv"}, "on_error": "keep"}
    shop.site(sections={"pages": {"from": {"csv": "../pages.csv"}}, "posts": kept}, airflow=MANY)
    shop.publish()
    before = shop.files()
    shop.pages(30, day=2)
    (shop.folder / "posts.csv").write_text('loc,lastmod\n/posts/1,2026-01-01\n"/posts/2,2026')
    run = shop.run()
    after = shop.files()
    assert run.state == "success"
    assert run.tries("extract") == [1, 1]
    assert shop.summary()["status"] == "partial"
    assert list(shop.summary()["kept"]) == ["posts"]
    assert "section posts stays as published" in run.log
    assert after["sitemap-posts-00001.xml.gz"] == before["sitemap-posts-00001.xml.gz"]
    assert after["sitemap-pages-00001.xml.gz"] != before["sitemap-pages-00001.xml.gz"]


@pytest.mark.thorough
def test_a_section_with_an_unreachable_source_is_kept_only_after_the_last_try(shop: Shop) -> None:
    shop.environ = {"AIRFLOW_CONN_CATALOG": DEAD}
    shop.pages(30)
    cats = {"from": {"database": "catalog", "query": "SELECT loc FROM cats"}, "on_error": "keep"}
    shop.site(sections={"pages": {"from": {"csv": "../pages.csv"}}, "cats": cats}, airflow=MANY)
    run = shop.run()
    assert run.state == "success"
    assert run.tries("extract") == [1, 4]
    assert list(shop.summary()["kept"]) == ["cats"]
    assert "hunter2" not in run.log


@pytest.mark.thorough
def test_the_single_task_of_a_small_site_keeps_a_section_only_after_its_last_try(shop: Shop) -> None:
    path = shop.folder / "shop.sqlite"
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE cats (loc TEXT)")
        database.executemany("INSERT INTO cats VALUES (?)", [(f"/cats/{n}",) for n in range(10)])
    shop.pages(30)
    cats = {"from": {"database": "catalog", "query": "SELECT loc FROM cats"}, "on_error": "keep"}
    shop.site(sections={"pages": {"from": {"csv": "../pages.csv"}}, "cats": cats})
    shop.environ = {"AIRFLOW_CONN_CATALOG": f"sqlite:///{path}"}
    first = shop.run()
    shop.environ = {"AIRFLOW_CONN_CATALOG": DEAD}
    shop.pages(30, day=2)
    second = shop.run()
    assert first.states("build") == ["success"]
    assert (second.states("build"), second.tries("build")) == (["success"], [4])
    counts = second.xcom("publish", "counts")
    assert (counts["status"], counts["sections"]["pages"]["changed"]) == ("partial", 30)
    assert list(shop.summary()["kept"]) == ["cats"]
    assert "section cats stays as published" in second.log


@pytest.mark.thorough
@pytest.mark.parametrize("airflow", [{}, MANY], ids=["in one task", "in many tasks"])
def test_a_run_whose_sections_are_all_kept_publishes_nothing(shop: Shop, airflow: dict[str, int]) -> None:
    shop.pages(30)
    shop.site(sections={"pages": {"from": {"csv": "../pages.csv"}, "on_error": "keep"}}, airflow=airflow)
    shop.publish()
    before = shop.files()
    (shop.folder / "pages.csv").write_text('loc,lastmod\n/pages/1,2026-01-01\n"/pages/2,2026')
    run = shop.run()
    assert run.state == "success"
    assert list(shop.summary()["kept"]) == ["pages"]
    (shop.folder / "pages.csv").unlink()
    again = shop.run()
    assert again.state == "success"
    assert list(shop.summary()["kept"]) == ["pages"]
    assert shop.files() == before


@pytest.mark.thorough
def test_an_unreachable_source_is_tried_four_times_before_the_run_fails(shop: Shop) -> None:
    shop.environ = {"AIRFLOW_CONN_CATALOG": DEAD}
    cats = {"from": {"database": "catalog", "query": "SELECT loc FROM cats"}}
    shop.site(sections={"cats": cats}, airflow=MANY)
    run = shop.run()
    assert run.state == "failed"
    assert (run.states("extract"), run.tries("extract")) == (["failed"], [4])
    assert run.states("publish") == ["upstream_failed"]
    reasons = run.retry_reasons("extract")
    assert len(reasons) == 3
    assert all(reason.startswith("catalog: the database did not answer") for reason in reasons)
    assert run.log.count("catalog: the database did not answer") >= 4
    assert "hunter2" not in run.log
    assert not shop.public.exists()
    assert not shop.lease().exists()


def test_a_broken_source_fails_at_once_and_the_log_ends_with_its_message_without_a_traceback(shop: Shop) -> None:
    shop.pages(30)
    shop.site()
    shop.publish()
    before = shop.files()
    (shop.folder / "pages.csv").write_text("url,lastmod\n/pages/1,2026-01-01\n")
    run = shop.run()
    assert run.state == "failed"
    failed = [one for one in run.tasks if one["state"] == "failed"]
    assert [one["tries"] for one in failed] == [1]
    _, _, after = run.log.partition(f"section pages: the source ({shop.folder / 'pages.csv'}) has no column 'loc'")
    assert after
    assert "trying again can't help" in after
    assert "Traceback" not in run.log
    assert shop.files() == before
    assert not shop.lease().exists()


@pytest.mark.thorough
def test_a_refusing_gate_is_not_retried_and_nothing_is_published_until_it_is_forced(shop: Shop) -> None:
    shop.pages(100)
    told = shop.folder / "told"
    notifier = {"class": "tests.support.notifier.FileNotifier", "args": {"path": str(told), "channel": "#${TEAM}"}}
    broken = {"class": "tests.support.notifier.FileNotifier", "args": {"path": "x", "broken": True}}
    lost = {"class": "tests.support.notifier.FileNotifyer"}
    shop.environ = {"TEAM": "seo"}
    shop.site(notify={"airflow": {"team": notifier, "broken": broken, "lost": lost}})
    shop.publish()
    before = shop.files()
    shop.pages(50)
    refused = shop.run()
    assert refused.state == "failed"
    assert (refused.states("publish"), refused.tries("publish")) == (["failed"], [1])
    assert refused.states("ping") == ["upstream_failed"]
    assert refused.events == []
    assert "pages would drop 50 of 100 URLs" in refused.log
    assert shop.files() == before
    assert not shop.lease().exists()
    unexplained = shop.run({"force": ["max_drop", "pages.max_drop"]})
    assert (unexplained.states("plan"), unexplained.tries("plan")) == (["failed"], [1])
    forced = shop.run({"force": ["max_drop", "pages.max_drop"], "reason": "the shop closed its second floor"})
    assert forced.state == "success"
    assert forced.xcom("publish", "counts")["sections"]["pages"]["removed"] == 50
    # Airflow's notifiers say each of what went wrong once, and nothing of the run that went well.
    first, second = [json.loads(line) for line in told.read_text().splitlines()]
    assert "shop (https://shop.example): the run was refused" in first["message"]
    assert "pages would drop 50 of 100 URLs" in first["message"]
    assert "--force pages.max_drop" in first["message"]
    assert f"report: {first['report']}" in first["message"]
    assert first["channel"] == "#seo"
    assert "the run failed" in second["message"]
    assert "Its log says why" in second["message"]  # a mistake in the form leaves no trace in the state
    assert "FileNotifier raised RuntimeError" in refused.log
    assert "notify.airflow.lost: the message was not sent: tests.support.notifier.FileNotifyer" in refused.log


@pytest.mark.thorough
def test_a_move_to_another_place_is_refused_until_it_is_confirmed(shop: Shop) -> None:
    shop.pages(30)
    shop.site()
    shop.publish()
    shop.site(publish={"to": "../elsewhere", "at": f"{SITE}/"})
    refused = shop.run()
    assert (refused.states("plan"), refused.tries("plan")) == (["failed"], [1])
    for shown in (str(shop.public), str(shop.folder / "elsewhere"), str(shop.sites / "shop.yaml"), "`moved`"):
        assert shown in refused.log
    assert not (shop.folder / "elsewhere").exists()
    assert shop.run({"moved": True}).xcom("publish", "counts")["status"] == "published"
    assert shop.run().xcom("publish", "counts")["status"] == "unchanged"


def test_a_dry_run_of_the_dag_writes_nothing_public(shop: Shop) -> None:
    shop.pages(30)
    shop.site()
    run = shop.run({"dry_run": True})
    assert run.state == "success"
    assert run.xcom("publish", "counts")["status"] == "dry_run"
    assert run.events == []
    assert not shop.public.exists()


def test_a_run_planned_by_another_version_fails_with_what_to_do(shop: Shop) -> None:
    shop.pages(30)
    shop.site()
    run = shop.airflow.run(shop.sites, "shop", only="publish")  # there is no XCom that says where the run is
    assert (run.states("publish"), run.tries("publish")) == (["failed"], [1])
    assert "This run was planned by another version of sitemap_etl" in run.log
    assert "Trigger a new run" in run.log
    assert not shop.public.exists()


@pytest.mark.thorough
def test_a_misspelt_key_of_a_triggered_run_fails_its_plan_and_nothing_is_written(shop: Shop) -> None:
    shop.pages(30)
    shop.site()
    run = shop.run({"dryrun": True})
    assert (run.state, run.states("plan"), run.tries("plan")) == ("failed", ["failed"], [1])
    assert "conf: dryrun: unknown key; did you mean dry_run?" in run.log
    assert not shop.public.exists()
    assert not (shop.folder / "work").exists()


@pytest.mark.thorough
def test_a_run_at_a_given_time_can_be_repeated(shop: Shop) -> None:
    lastmod = {"fingerprint": ["title"], "until_changed": "touched", "first_seen": True}
    shop.site(sections={"pages": {"from": {"csv": "../pages.csv"}, "lastmod": lastmod}})
    at = datetime.now(UTC).replace(microsecond=0) - timedelta(minutes=5)
    later = (at + timedelta(minutes=2)).isoformat()  # no page can have changed after the run
    (shop.folder / "pages.csv").write_text(f"loc,title,touched\n/a,A,2026-01-01T00:00:00Z\n/b,B,{later}\n")
    sets = []
    for _ in range(2):
        assert shop.run({"now": at.isoformat()}).state == "success"
        sets.append({name: data for name, (data, _) in shop.files().items()})
        for folder in (shop.public, shop.folder / "work"):
            shutil.rmtree(folder)
    assert sets[0] == sets[1]
    text = gzip.decompress(sets[0]["sitemap-pages-00001.xml.gz"]).decode()
    assert later[:16] not in text


@pytest.mark.thorough
def test_clearing_a_published_run_does_nothing_and_marking_one_does_not_block_the_next(shop: Shop) -> None:
    """All other actions are in test_dag_actions.py."""
    shop.pages(30)
    shop.site(schedule="0 2 * * *")
    desk = Operator(shop.airflow, shop.sites, "shop", shop.environ)
    desk.parse()
    run = desk.run()
    before = shop.files()
    shop.pages(40)
    for cleared, downstream in (("build", True), ("publish", False), (None, False)):
        desk.clear(run.run_id, *([] if cleared is None else [cleared]), downstream=downstream)
        again = desk.settle(run.run_id)
        assert (again.state, shop.files(), again.events) == ("success", before, run.events)
        assert again.xcom("publish", "counts") == run.xcom("publish", "counts")
        assert "was published already" in again.log
    under_way = desk.trigger()
    desk.settle(under_way, "publish")
    assert shop.lease().exists()
    desk.mark(under_way, "failed")
    after = desk.run()
    assert (after.state, after.xcom("publish", "counts")["total"]["listed"]) == ("success", 40)
    assert not shop.lease().exists()
    assert desk.details()["is_backfillable"] is False


@pytest.mark.thorough
def test_a_run_of_one_section_keeps_the_others_as_published(shop: Shop) -> None:
    shop.pages(30)
    shop.pages(30, "posts")
    sections = {name: {"from": {"csv": f"../{name}.csv"}} for name in ("pages", "posts")}
    shop.site(sections=sections, airflow=MANY)
    shop.publish()
    shop.pages(30, day=2)
    shop.pages(30, "posts", day=2)
    run = shop.run({"sections": ["posts"]})
    assert len(run.of("extract")) == 1
    counts = run.xcom("publish", "counts")["sections"]
    assert (counts["posts"]["changed"], counts["pages"]["changed"]) == (30, 0)


@pytest.mark.thorough
def test_engines_are_sent_changes_and_a_refusal_fails_only_the_task_of_that_engine(shop: Shop) -> None:
    key = "0123456789abcdef0123456789abcdef"

    def answer(request: Request) -> Reply:
        if request.method == "GET":  # the site itself
            return Reply(200, key) if request.path == f"/{key}.txt" else Reply(404)
        return Reply(status)

    status = 200
    with Side(answer) as side:
        shop.pages(100)
        where = {"site": side.url, "publish": {"to": "../public", "at": f"{side.url}/"}}
        shop.site(**where, ping={"indexnow": {"key": key, "endpoint": f"{side.url}/indexnow"}})
        shop.publish()
        shop.pages(105)
        told = shop.run()
        quiet = shop.run({"ping": False})
        urls = [url for request in side.asked("POST") for url in request.json["urlList"]]
        status = 403
        shop.pages(110)
        refused = shop.run()
        expected = [f"{side.url}/pages/{n}" for n in range(100, 105)]
    assert told.state == "success"
    assert (told.states("ping"), told.labels("ping")) == (["success"], ["indexnow"])
    assert sorted(urls) == expected
    assert quiet.states("ping") == ["skipped"]
    assert refused.states("publish") == ["success"]
    assert (refused.states("ping"), refused.tries("ping")) == (["failed"], [1])


def test_an_engine_without_its_key_fails_its_own_task_and_is_in_the_summary(shop: Shop) -> None:
    shop.pages(30)
    shop.site(site="http://127.0.0.1:1", publish="../public", ping={"indexnow": {"key": "${NO_SUCH_KEY}"}})
    run = shop.run()
    assert run.states("publish") == ["success"]
    assert (run.states("ping"), run.tries("ping")) == (["failed"], [1])
    assert "indexnow: ping.indexnow.key: the environment variable NO_SUCH_KEY is not set" in run.log
    assert shop.summary()["status"] == "partial"
    assert shop.summary()["engines"]["indexnow"]["status"] == "failed"


@pytest.mark.thorough
def test_no_secret_reaches_logs_xcoms_state_or_airflow_s_database_when_engines_fail(shop: Shop) -> None:
    key, bing, token = "fedcba9876543210fedcba9876543210", "bing-secret-4711", "hook-token-0815"
    shop.environ = {"THE_KEY": key, "BING_KEY": bing, "TOKEN": token}
    with Side(lambda request: Reply(403 if request.method == "POST" else 404, "no")) as side:
        shop.pages(100)
        engines = {
            "indexnow": {"key": "${THE_KEY}", "endpoint": f"{side.url}/indexnow"},
            "bing": {"key": "${BING_KEY}", "endpoint": f"{side.url}/bing"},
            "http_ping": {"url": f"{side.url}/hook?token=${{TOKEN}}&sitemap={{sitemap}}"},
        }
        shop.site(site=side.url, publish={"to": "../public", "at": f"{side.url}/"}, ping=engines)
        shop.run()
        shop.pages(105)
        failed = shop.run()
    assert failed.states("publish") == ["success"]
    assert failed.states("ping") == ["failed"]
    told = failed.log + json.dumps(failed.xcoms)
    files = [path for path in (shop.folder / "work").rglob("*") if path.is_file()]
    files += [path for path in shop.airflow.home.rglob("*") if path.is_file()]
    for secret in (key, bing, token):
        assert secret not in told
        assert not [path for path in files if secret.encode() in path.read_bytes()]


def test_a_source_can_use_a_connection_defined_only_in_airflow(shop: Shop) -> None:
    path = shop.folder / "shop ü.sqlite"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE cats (loc TEXT)")
        database.executemany("INSERT INTO cats VALUES (?)", [(f"/cats/{n}",) for n in range(10)])
    shop.airflow.ask("connect", {}, id="only_here", uri=f"sqlite:///{path}")
    shop.site(sections={"cats": {"from": {"database": "only_here", "query": "SELECT loc FROM cats"}}})
    assert shop.run().xcom("publish", "counts")["sections"]["cats"]["listed"] == 10


@pytest.mark.thorough
def test_an_incremental_section_is_merged_with_its_mirror(shop: Shop) -> None:
    path = shop.folder / "shop.sqlite"
    shop.environ = {"AIRFLOW_CONN_CATALOG": f"sqlite:///{path}"}
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE cats (id INTEGER, loc TEXT, touched TEXT)")
        database.executemany("INSERT INTO cats VALUES (?, ?, '2020-01-01')", [(n, f"/cats/{n}") for n in range(40)])
    query = "SELECT id, loc FROM cats WHERE touched >= :since"
    source = {"database": "catalog", "query": query, "key": "id"}
    shop.pages(30)
    sections = {"pages": {"from": {"csv": "../pages.csv"}}, "cats": {"from": source}}
    shop.site(sections=sections, airflow=MANY)
    first = shop.run()
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("UPDATE cats SET loc = '/cats/renamed', touched = datetime('now') WHERE id = 7")
    shop.site(sections=sections)  # the second night in one task
    second = shop.run()
    assert (first.state, second.state) == ("success", "success")
    assert first.labels("merge") == ["cats 1 of 1"]
    assert second.states("build") == ["success"]
    counts = second.xcom("publish", "counts")["sections"]["cats"]
    assert (counts["extracted"], counts["carried"], counts["listed"]) == (1, 39, 40)
    text = gzip.decompress((shop.public / "sitemap-cats-00001.xml.gz").read_bytes()).decode()
    assert "/cats/renamed<" in text
    assert "/cats/7<" not in text


@pytest.mark.thorough
def test_an_unknown_connection_says_how_to_make_it(shop: Shop) -> None:
    shop.site(sections={"cats": {"from": {"database": "nowhere", "query": "SELECT loc FROM cats"}}})
    run = shop.run()
    assert (run.states("plan"), run.tries("plan")) == (["failed"], [1])
    assert "AIRFLOW_CONN_NOWHERE" in run.log


@pytest.mark.thorough  # a minute passes; test_airflow_waiting.py has the parts
def test_a_section_is_kept_if_its_export_does_not_arrive_in_time(shop: Shop) -> None:
    shop.pages(30)
    shop.pages(30, "posts")
    expected = {"csv": "../posts/*.csv", "expect": {"marker": "_SUCCESS", "wait": "8s"}}
    sections = {"pages": {"from": {"csv": "../pages.csv"}}, "posts": {"from": expected, "on_error": "keep"}}
    shop.site(sections=sections)
    (shop.folder / "posts").mkdir()
    (shop.folder / "posts.csv").rename(shop.folder / "posts" / "1.csv")
    shop.site("plain", work="../plain")
    tasks = shop.airflow.describe(shop.sites)["dags"]
    assert tasks["shop"]["tasks"]["plan"]["upstream"] == ["wait"]
    assert "wait" not in tasks["plain"]["tasks"]
    (shop.folder / "posts" / "_SUCCESS").touch()
    shop.publish()
    (shop.folder / "posts" / "_SUCCESS").unlink()
    run = shop.run()
    assert run.state == "success"
    assert run.states("wait") == ["success"]
    assert "section posts: waiting for its source until" in run.log
    assert list(shop.summary()["kept"]) == ["posts"]
