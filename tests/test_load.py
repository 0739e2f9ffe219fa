# ruff: noqa: F811 - fixtures are imported and asked for by name
"""The load on a database: time limits and locks, concurrent reads, and what is left at the end.

The servers are real. PostgreSQL's log shows whether a statement was cancelled: nothing else could have cancelled it.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pymysql
import pytest

from sitemap_etl import sources
from sitemap_etl.connections import parse
from sitemap_etl.errors import InvalidSource, Unavailable
from sitemap_etl.runs import tasks
from sitemap_etl.sources.databases.session import Statement, Stopped, attended
from sitemap_etl.state.records import Options
from tests.support.command import process
from tests.support.mariadb import MariaDB, mariadb  # noqa: F401 - a fixture
from tests.support.postgres import Postgres
from tests.support.sites import TestSite

TABLE = "CREATE TABLE products AS SELECT i AS id, '/p/' || i AS loc FROM generate_series(1, 400) i"
SECOND = timedelta(seconds=1)
CANCELLED = "canceling statement due to user request"


def rows(uri: str, query: str, session: sources.Session | None = None) -> pa.Table:
    (split,) = sources.plan_database(parse(uri), query, label="catalog", session=session)
    return pa.Table.from_batches(list(sources.read(split, connection=parse(uri), query=query, session=session)))


def shop(folder: Path, uri: str, query: str, **source: Any) -> TestSite:
    site = TestSite(folder, urls={"respect_robots": False})
    site.environment = replace(site.environment, environ={"AIRFLOW_CONN_CATALOG": uri})
    site.keys["sections"]["products"] = {"from": {"database": "catalog", "query": query, **source}}
    return site


def until(done: Callable[[], object]) -> None:
    """Wait for what another process does."""
    late = time.monotonic() + 60
    while not done():
        assert time.monotonic() < late
        time.sleep(0.05)


@contextmanager
def locked(postgres: Postgres) -> Iterator[None]:
    """The table `products`, locked by another session."""
    with psycopg.connect(postgres.uri) as other:
        other.execute("LOCK TABLE products IN ACCESS EXCLUSIVE MODE")
        yield


def at_work(postgres: Postgres, name: str = "sitemap_etl%", seconds: int = 1) -> list[int]:
    """Return the processes of statements that have run for this long, in sessions of this name."""
    asked = (
        "SELECT pid FROM pg_stat_activity WHERE application_name LIKE %s AND state = 'active' "
        "AND datname = current_database() AND clock_timestamp() > query_start + %s * interval '1 second'"
    )
    with psycopg.connect(postgres.uri) as other:
        return [pid for (pid,) in other.execute(asked, (name, seconds)).fetchall()]


def cancelled(postgres: Postgres) -> int:
    return (postgres.data / "log").read_text(errors="replace").count(CANCELLED)


# --- time limits --------------------------------------------------------------------------------------


def test_a_locked_table_is_waited_for_up_to_the_limit_of_the_source(postgres: Postgres) -> None:
    postgres.execute(TABLE)
    told = r"catalog: the database did not get a lock: .* \(lock_timeout of the source is 1s, .*Another session holds"
    with locked(postgres), pytest.raises(Unavailable, match=told):
        rows(postgres.uri, "SELECT * FROM products", sources.Session(lock_timeout=SECOND))


def test_a_statement_ends_at_its_timeout_even_after_rows_arrived(postgres: Postgres) -> None:
    query = "SELECT i, CASE WHEN i > 400000 THEN pg_sleep(1)::text END FROM generate_series(1, 500000) i"
    with pytest.raises(Unavailable, match=r"cancelled the query: .* \(timeout of the source is 1s, .*in more splits"):
        rows(postgres.uri, query, sources.Session(timeout=SECOND))


def test_the_shorter_timeout_of_server_and_source_applies(postgres: Postgres) -> None:
    query = (
        "SELECT current_setting('statement_timeout') AS statement, current_setting('lock_timeout') AS lock, "
        "current_setting('client_connection_check_interval') AS looks, current_setting('TimeZone') AS zone, "
        "current_setting('transaction_read_only') AS read_only"
    )
    session = sources.Session(timeout=timedelta(minutes=30), lock_timeout=timedelta(minutes=5))
    strict = f"{postgres.uri}&options=-c%20statement_timeout%3D7s%20-c%20lock_timeout%3D1h"
    always = {"looks": "10s", "zone": "UTC", "read_only": "on"}
    assert rows(postgres.uri, query, session).to_pylist() == [{"statement": "30min", "lock": "5min", **always}]
    assert rows(strict, query, session).to_pylist() == [{"statement": "7s", "lock": "5min", **always}]
    assert rows(strict, query).to_pylist() == [{"statement": "7s", "lock": "1h", **always}]


@pytest.mark.thorough
def test_a_server_that_stops_answering_is_reported(postgres: Postgres) -> None:
    """The process of its session cannot be cancelled."""
    stopped: list[int] = []

    def stop() -> None:
        until(lambda: stopped.extend(at_work(postgres, "a sleeper", 0)) or stopped)
        os.kill(stopped[0], signal.SIGSTOP)

    stopping = threading.Thread(target=stop)
    stopping.start()
    try:
        with pytest.raises(Unavailable, match="the database did not answer within 3s, the timeout of the source"):
            rows(postgres.uri, "SELECT pg_sleep(60)", sources.Session("a sleeper", timeout=3 * SECOND))
    finally:
        stopping.join()
        os.kill(stopped[0], signal.SIGCONT)
    until(lambda: not at_work(postgres, "a sleeper", 0))


@pytest.mark.parametrize("kind", ["postgresql", "mysql"])
def test_an_unknown_host_is_retried_whatever_its_name(kind: str) -> None:
    with pytest.raises(Unavailable, match=r"catalog: the database did not answer: .*is-invalid\.invalid"):
        rows(f"{kind}://u:hush@is-invalid.invalid/d", "SELECT 1 AS n")


# --- who reads, and how many ----------------------------------------------------------------------------


def test_a_database_session_names_the_section_and_split_it_reads(postgres: Postgres, tmp_path: Path) -> None:
    postgres.execute(TABLE)
    query = "SELECT id, loc || '/' || replace(current_setting('application_name'), ' ', '.') AS loc FROM products"
    site = shop(tmp_path, postgres.uri, query, split={"column": "id", "parts": 4})
    site.night(1)
    names = {loc.partition("/p/")[2].partition("/")[2] for loc in site.public().locs()}
    assert names == {f"sitemap_etl.shop.products.{n}/4" for n in range(1, 5)}


@pytest.mark.thorough
@pytest.mark.parametrize(("limit", "alone"), [({}, False), ({"max_parallel": 1}, True)])
def test_concurrent_splits_are_limited_by_the_connection(
    postgres: Postgres, tmp_path: Path, limit: dict[str, int], alone: bool
) -> None:
    """Each split takes a lock for its session; a concurrent second session would not get it."""
    postgres.execute(TABLE)
    site = shop(
        tmp_path,
        postgres.uri,
        "SELECT id, loc, CASE WHEN NOT pg_try_advisory_lock(7) THEN 'not alone' END AS exclude FROM products "
        "WHERE id % 100 <> 0 OR pg_sleep(0.3) IS NOT NULL",
        split={"column": "id", "parts": 4, "bounds_from": "products"},
    )
    other = {**site.keys["sections"]["products"]["from"], **limit}
    other["query"] = other["query"].replace("loc,", "'/o' || loc AS loc,")
    site.keys["sections"]["others"] = {"from": other}
    done = site.night(1, jobs=4)
    assert (sum(counts.excluded for counts in done.summary.sections.values()) == 0) is alone


def test_the_source_can_limit_the_rows_of_a_fetch(postgres: Postgres, tmp_path: Path, mariadb: MariaDB) -> None:
    query = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 900) SELECT i FROM n"
    path = tmp_path / "a.db"
    path.touch()
    for uri in (postgres.uri, f"sqlite:///{path}", mariadb.uri):
        session = sources.Session(fetch_rows=250)
        (split,) = sources.plan_database(parse(uri), query, session=session)
        found = [b.num_rows for b in sources.read(split, connection=parse(uri), query=query, session=session)]
        assert sum(found) == 900
        assert max(found) <= 250


# --- what is left when it ends ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "source", "name"),
    [
        (signal.SIGINT, {}, "sitemap_etl shop products 1/1"),
        (signal.SIGTERM, {"split": {"column": "id", "parts": 2}}, "sitemap_etl shop products plan"),
    ],
    ids=["extract", "plan"],
)
def test_a_first_signal_cancels_the_statement_on_the_server(
    postgres: Postgres, tmp_path: Path, number: int, source: dict[str, Any], name: str
) -> None:
    postgres.execute(TABLE)
    before = cancelled(postgres)
    site = shop(tmp_path, postgres.uri, "SELECT id, loc FROM products WHERE pg_sleep(60) IS NOT NULL", **source)
    running = process("run", site.path, cwd=site.folder, AIRFLOW_CONN_CATALOG=postgres.uri)
    until(lambda: at_work(postgres, name) or running.poll() is not None)
    running.send_signal(number)
    _, err = running.communicate(timeout=60)
    assert (running.returncode, at_work(postgres), cancelled(postgres)) == (130, [], before + 1), err


def test_a_task_stopped_by_the_scheduler_cancels_its_statement(postgres: Postgres, tmp_path: Path) -> None:
    """Airflow sends SIGTERM, which it handles itself, and some seconds later SIGKILL."""
    postgres.execute(TABLE)
    before, answered = cancelled(postgres), threading.Event()
    site = shop(tmp_path, postgres.uri, "SELECT id, loc FROM products WHERE pg_sleep(60) IS NOT NULL")
    key = tasks.start(site.load(), Options(), site.environment, owner="a").key

    def end() -> None:
        until(lambda: at_work(postgres, "sitemap_etl shop products 1/1"))
        os.kill(os.getpid(), signal.SIGTERM)

    ending = threading.Thread(target=end)
    earlier = signal.signal(signal.SIGTERM, lambda *_: answered.set())
    try:
        ending.start()
        with pytest.raises(KeyboardInterrupt):
            tasks.extract(key, (0, 1), site.environment)
        ending.join()
    finally:
        signal.signal(signal.SIGTERM, earlier)
    assert answered.is_set()
    assert (at_work(postgres), cancelled(postgres)) == ([], before + 1)


def test_a_statement_that_starts_during_cancellation_is_cancelled() -> None:
    """A server ignores a cancellation between two statements of a session."""
    session = sources.Session()
    ends: list[str] = []

    def read(statement: Statement) -> Iterator[int]:
        begun, cancelled = threading.Event(), threading.Event()
        with statement.cancelled_by(lambda: cancelled.set() if begun.is_set() else begun.set()):
            yield 1
            begun.wait()
            ends.append("cancelled" if cancelled.wait(60) else "left")
            yield 2

    reader = attended(read, session, label="catalog")
    assert next(reader) == 1
    session.stopping.set()
    with pytest.raises(Stopped):
        next(reader)
    until(lambda: ends)
    assert ends == ["cancelled"]


def test_a_failed_split_cancels_the_statements_of_the_others(postgres: Postgres, tmp_path: Path) -> None:
    postgres.execute(TABLE)
    before = cancelled(postgres)
    site = shop(tmp_path, postgres.uri, "SELECT id, loc FROM products WHERE pg_sleep(60) IS NOT NULL")
    wrong = "SELECT loc, CASE WHEN pg_sleep(1) IS NOT NULL THEN 1 / (id - id) END AS broken FROM products"
    site.keys["sections"]["wrong"] = {"from": {"database": "catalog", "query": wrong}}
    with pytest.raises(InvalidSource, match="section wrong: "):
        site.night(1, jobs=2)
    assert (at_work(postgres), cancelled(postgres)) == ([], before + 1)


@pytest.mark.thorough
def test_a_killed_worker_leaves_no_running_statement(postgres: Postgres, tmp_path: Path) -> None:
    site = shop(tmp_path, postgres.uri, "SELECT pg_sleep(300)::text AS loc")
    running = process("run", site.path, cwd=site.folder, AIRFLOW_CONN_CATALOG=postgres.uri)
    until(lambda: at_work(postgres))
    running.kill()
    running.communicate()
    until(lambda: not at_work(postgres))


# --- MySQL and MariaDB ----------------------------------------------------------------------------------


@pytest.fixture
def maria(mariadb: MariaDB) -> MariaDB:
    mariadb.execute(
        "DROP TABLE IF EXISTS products",
        "CREATE TABLE products AS SELECT seq AS id, CONCAT('/p/', seq) AS loc FROM seq_1_to_400",
    )
    return mariadb


def working(server: MariaDB) -> list[tuple[int, str]]:
    """Return the number of working sessions of `reader`, and their statement."""
    with pymysql.connect(host="127.0.0.1", port=server.port, user="admin", password="admin") as other:
        cursor = other.cursor()
        cursor.execute("SELECT id, info FROM information_schema.processlist WHERE user = 'reader' AND info <> ''")
        return list(cursor.fetchall())


def test_a_locked_table_of_mysql_is_waited_for_up_to_the_limit_of_the_source(maria: MariaDB) -> None:
    with pymysql.connect(host="127.0.0.1", port=maria.port, user="admin", password="admin", database="shop") as other:
        other.cursor().execute("LOCK TABLES products WRITE")
        with pytest.raises(
            Unavailable, match=r"catalog: .*Lock wait timeout exceeded.* \(lock_timeout of the source is 1s"
        ):
            rows(maria.uri, "SELECT * FROM products", sources.Session(lock_timeout=SECOND))


def test_the_shorter_timeout_applies_in_mysql(maria: MariaDB) -> None:
    query = "SELECT @@max_statement_time + 0 AS statement, @@lock_wait_timeout AS locks, @@time_zone AS zone"
    session = sources.Session(timeout=timedelta(minutes=30), lock_timeout=timedelta(minutes=5))
    (found,) = rows(maria.uri, query, session).to_pylist()
    assert (found["statement"], found["locks"], found["zone"]) == (1800, 300, "+00:00")
    maria.execute("SET GLOBAL max_statement_time = 7")
    try:
        assert rows(maria.uri, query, session)["statement"].to_pylist() == [7]
        assert rows(maria.uri, query)["statement"].to_pylist() == [7]
    finally:
        maria.execute("SET GLOBAL max_statement_time = 0")
    with pytest.raises(Unavailable, match=r"max_statement_time.* \(timeout of the source is 1s"):
        rows(maria.uri, "SELECT count(*) AS n FROM products a, products b, products c", sources.Session(timeout=SECOND))


def test_a_first_signal_cancels_the_statement_on_mysql(maria: MariaDB, tmp_path: Path) -> None:
    """The statement is recognized by its comment; it would run for hours."""
    site = shop(tmp_path, maria.uri, "SELECT id, loc FROM products WHERE sleep(60) = 0")
    running = process("run", site.path, cwd=site.folder, AIRFLOW_CONN_CATALOG=maria.uri)
    until(lambda: any("sleep" in text for _, text in working(maria)) or running.poll() is not None)
    ((_, text),) = working(maria)
    assert text.startswith("/* sitemap_etl shop products 1/1 */ SELECT")
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=60)
    assert (running.returncode, working(maria)) == (130, []), err
