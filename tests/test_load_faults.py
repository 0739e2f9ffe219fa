# ruff: noqa: F811 - fixtures are imported and asked for by name
"""Faults while a database is read, on the real servers.

After another attempt the release is the one of an undisturbed run, without duplicates or gaps.
"""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psycopg
import pymysql
import pytest

from sitemap_etl.errors import Unavailable
from sitemap_etl.runs import tasks
from sitemap_etl.stages.run import Environment
from sitemap_etl.state.records import Options
from tests.support.command import process
from tests.support.mariadb import MariaDB, mariadb  # noqa: F401 - a fixture
from tests.support.postgres import Postgres
from tests.support.sites import TestSite
from tests.support.waiting import until

ROWS = 400


@dataclass
class Server:
    """A database with the table `products`. `tempo` makes reading it slow."""

    uri: str
    query: str
    execute: Callable[..., None]
    sessions: Callable[[], list[int]]
    """The sessions that read a split."""
    end: str
    """The statement that ends one."""

    def tempo(self, width: int, sleeps: int = 0) -> None:
        """Give rows this many bytes from now on; one in the middle of the first split takes this many seconds."""
        self.execute("DELETE FROM tempo", f"INSERT INTO tempo VALUES ({width}, {sleeps})")

    def end_sessions(self) -> None:
        self.execute(*(self.end.format(number) for number in self.sessions()))


@pytest.fixture
def on_postgres(postgres: Postgres) -> Server:
    postgres.execute(
        "CREATE TABLE tempo (width int, sleeps int)",
        "CREATE TABLE products AS SELECT i AS id, '/p/' || i AS loc, timestamptz '2026-01-01' + i * interval '1 hour' "
        f"AS updated FROM generate_series(1, {ROWS}) i",
    )
    query = (
        "SELECT id, loc, updated, repeat('x', (SELECT width FROM tempo)) AS title, CASE WHEN id = 100 THEN "
        "pg_sleep((SELECT sleeps FROM tempo))::text END AS slept FROM products"
    )

    def sessions() -> list[int]:
        asked = "SELECT pid FROM pg_stat_activity WHERE application_name LIKE '%/2' AND state = 'active'"
        with psycopg.connect(postgres.uri) as other:
            return [pid for (pid,) in other.execute(asked).fetchall()]

    return Server(postgres.uri, query, postgres.execute, sessions, "SELECT pg_terminate_backend({})")


@pytest.fixture
def on_mariadb(mariadb: MariaDB) -> Server:
    mariadb.execute(
        "DROP TABLE IF EXISTS products, tempo",
        "CREATE TABLE tempo (width INT, sleeps INT)",
        "CREATE TABLE products AS SELECT seq AS id, CONCAT('/p/', seq) AS loc, "
        f"CAST('2026-01-01' AS DATETIME) + INTERVAL seq HOUR AS updated FROM seq_1_to_{ROWS}",
    )
    query = (
        "SELECT id, loc, updated, repeat('x', (SELECT width FROM tempo)) AS title, "
        "IF(id = 100, sleep((SELECT sleeps FROM tempo)), 0) AS slept FROM products"
    )

    def sessions() -> list[int]:
        asked = "SELECT id FROM information_schema.processlist WHERE user = 'reader' AND info LIKE '%/2 */%'"
        with pymysql.connect(host="127.0.0.1", port=mariadb.port, user="admin", password="admin") as other:
            cursor = other.cursor()
            cursor.execute(asked)
            return [number for (number,) in cursor.fetchall()]

    return Server(mariadb.uri, query, mariadb.execute, sessions, "KILL {}")


@pytest.fixture(params=["on_postgres", pytest.param("on_mariadb", marks=pytest.mark.thorough)])
def server(request: pytest.FixtureRequest) -> Server:
    """Either server; the second repeats the tests of the first."""
    found: Server = request.getfixturevalue(request.param)
    return found


def shop(folder: Path, server: Server, **source: Any) -> TestSite:
    """A site over the table in two splits, with batches of ten rows."""
    site = TestSite(folder, urls={"respect_robots": False})
    site.environment = replace(site.environment, environ={"AIRFLOW_CONN_CATALOG": server.uri})
    split = {"column": "id", "parts": 2, "bounds_from": "products"}
    given = {"database": "catalog", "query": server.query, "split": split, "fetch_rows": 10, **source}
    site.keys["sections"]["products"] = {"from": given, "lastmod": {"column": "updated", "timezone": "UTC"}}
    return site


def listed(site: TestSite) -> list[tuple[str, str | None]]:
    """Return all published URLs, including repeated ones."""
    return sorted((entry.loc, entry.lastmod) for entry in site.public().entries())


def undisturbed(folder: Path, server: Server) -> list[tuple[str, str | None]]:
    """Return what an undisturbed run publishes."""
    server.tempo(1)
    site = shop(folder / "undisturbed", server)
    site.night(1)
    found = listed(site)
    assert len(found) == ROWS
    assert all(lastmod for _, lastmod in found)
    return found


class Tasks:
    """A scheduler run whose first split meets a fault after its first rows."""

    def __init__(self, site: TestSite) -> None:
        self.site = site
        self.fault: Callable[[], object] | None = None
        self.environment = replace(site.environment, advance=self._advance)
        self.key = tasks.start(site.load(), Options(), self.environment, owner="a").key

    def _advance(self, stage: str, _done: int, total: int) -> None:
        if stage == "extract" and not total and self.fault is not None:
            fault, self.fault = self.fault, None
            fault()

    def extract(self) -> None:
        """Read every split again, as a scheduler retries failed ones."""
        for n in range(2):
            tasks.extract(self.key, (n, n + 1), self.environment)

    def published(self) -> list[tuple[str, str | None]]:
        """Return what is published once the splits were read and all other stages are done."""
        self.extract()
        for part in tasks.partition(self.key, self.environment):
            tasks.render(self.key, part, self.environment)
        assert tasks.publish(self.key, self.environment)["status"] == "published"
        return listed(self.site)


WIDE = 300_000
"""Bytes of a row: a split is more than the driver and the network hold between the server and its first rows."""


@pytest.mark.parametrize("kind", ["on_postgres", "on_mariadb"])
def test_after_a_lost_connection_the_next_attempt_publishes_all_rows_once(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    server: Server = request.getfixturevalue(kind)
    expected = undisturbed(tmp_path, server)
    run = Tasks(shop(tmp_path / "shop", server))
    server.tempo(WIDE)
    run.fault = server.end_sessions
    with pytest.raises(Unavailable, match=r"catalog, id … to \d+: the database (stopped answering|did not answer)"):
        run.extract()
    server.tempo(1)
    assert run.published() == expected


def test_after_a_timeout_among_the_rows_the_next_attempt_publishes_all_rows_once(
    server: Server, tmp_path: Path
) -> None:
    expected = undisturbed(tmp_path, server)
    run = Tasks(shop(tmp_path / "shop", server, timeout="1s"))
    server.tempo(1, sleeps=60)
    with pytest.raises(Unavailable, match=r"catalog, id … to \d+: .*\(timeout of the source is 1s"):
        run.extract()
    server.tempo(1)
    assert run.published() == expected


def test_after_a_full_disk_in_staging_the_next_attempt_publishes_all_rows_once(server: Server, tmp_path: Path) -> None:
    expected = undisturbed(tmp_path, server)
    run = Tasks(shop(tmp_path / "shop", server))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, before[1]))
        with pytest.raises(Unavailable, match=r"(?s)rows can't be staged in .*File too large.*Make room there"):
            run.extract()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert run.published() == expected


def killed_in_mid_read(run: Tasks) -> None:
    """Read the first split in a process that kills itself after its first rows."""
    environ = {**os.environ, **run.environment.environ}
    ended = subprocess.run([sys.executable, "-m", "tests.test_load_faults", run.key], env=environ, check=False)
    assert ended.returncode == -signal.SIGKILL


@pytest.mark.thorough
def test_after_a_worker_killed_while_reading_the_next_attempt_publishes_all_rows_once(
    server: Server, tmp_path: Path
) -> None:
    expected = undisturbed(tmp_path, server)
    run = Tasks(shop(tmp_path / "shop", server))
    killed_in_mid_read(run)
    assert run.published() == expected


@pytest.mark.thorough
def test_after_a_run_killed_while_reading_the_next_run_publishes_all_rows_once(server: Server, tmp_path: Path) -> None:
    """Its lease says that it is running, and its process is gone."""
    expected = undisturbed(tmp_path, server)
    site = shop(tmp_path / "shop", server)
    server.tempo(1, sleeps=600)
    running = process("run", site.path, cwd=site.folder, AIRFLOW_CONN_CATALOG=server.uri)
    until(server.sessions, 60)
    running.kill()
    running.communicate()
    server.end_sessions()
    server.tempo(1)
    site.night(1)
    assert listed(site) == expected


if __name__ == "__main__":
    key = sys.argv[1]
    dying = Environment(environ=os.environ, advance=lambda *_: os.kill(os.getpid(), signal.SIGKILL))
    tasks.extract(key, (0, 1), dying)
