"""Secrets: planted in every setting that may have one, and searched in all files and outputs of a run."""

from __future__ import annotations

import json
import re
import sqlite3
import traceback
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from sitemap_etl.config.tree import later_paths
from sitemap_etl.errors import InvalidSource, Refused, SitemapEtlError
from sitemap_etl.runs import tasks
from sitemap_etl.settings import DatabaseSource, Site
from sitemap_etl.stages.extract import extract_split
from sitemap_etl.stages.parameters import params_digest
from sitemap_etl.stages.plan import start_run
from sitemap_etl.stages.run import Environment, open_run
from sitemap_etl.state.records import Options
from tests.support.command import call
from tests.support.engines import Reply, Request, Side
from tests.support.postgres import Postgres
from tests.support.sites import FIRST_NIGHT, TestSite, pages
from tests.support.storages import Died

FORMS = {
    "ping.http_ping.url": "{side}/hook?token=${{{name}}}&sitemap={{sitemap}}",
    "notify.webhook": "{side}/hook/${{{name}}}",
    "notify.slack": "{side}/hook/${{{name}}}",
    "notify.healthcheck": "{side}/hook/${{{name}}}",
}
"""What a key demands besides the variable."""
PASSWORD = "planted-password-of-the-connection"


def variable_of(path: tuple[Any, ...]) -> str:
    return "PLANTED_" + re.sub(r"\W+", "_", ".".join(map(str, path))).upper()


def planted(folder: Path, side: str) -> tuple[TestSite, dict[str, str]]:
    """Return a site with a marker in every key with late variables, and the environment with the markers.

    New keys are included automatically; if they need other keys, add those here.
    """
    site = TestSite(folder, site=side, to="./public")
    site.keys["ping"] = {
        "indexnow": {"endpoint": f"{side}/indexnow"},
        "search_console": {"property": side, "endpoint": f"{side}/console"},
        "bing": {"endpoint": f"{side}/bing"},
        "websub": {"hub": f"{side}/hub", "login": "me"},
        "http_ping": {"login": "me"},
    }
    site.keys["notify"] = {"on": ["published", "unchanged", "partial", "refused", "failed"]}
    site.keys["notify"]["airflow"] = {"catalog": {"class": "tests.no.Notifier", "args": {}}}  # heard of by the DAG only
    for engine in site.keys["ping"].values():
        engine["patience"] = 0
    site.section("news", pages(30, lastmod="2026-10-01"), feed={"title": "News"})
    query = "SELECT id, loc, lastmod, touched FROM pages WHERE (:x <> loc) AND touched >= :since"
    site.keys["sections"]["catalog"] = {"from": {"database": "catalog", "query": query, "key": "id", "params": {}}}
    environ = {}
    for path in sorted(later_paths(Site), key=str):
        name = variable_of(path)
        environ[name] = f"planted-{re.sub('[^a-z]', '', name.lower())}-4711"
        below: Any = site.keys
        for part in path[:-1]:
            below = below["catalog" if part == "*" else part]
        form = FORMS.get(".".join(map(str, path)), "${{{name}}}")
        below["x" if path[-1] == "*" else path[-1]] = form.format(name=name, side=side)
    with closing(sqlite3.connect(folder / "catalog.db")) as database, database:
        database.execute("CREATE TABLE pages (id INTEGER, loc TEXT, lastmod TEXT, touched TEXT)")
        rows = [(n, f"/c/{n}", "2026-10-01", "2026-10-01") for n in range(30)]
        database.executemany("INSERT INTO pages VALUES (?, ?, ?, ?)", rows)
    environ["AIRFLOW_CONN_CATALOG"] = f"sqlite:///{folder / 'catalog.db'}?secret={PASSWORD}"
    return site, environ


def echo(request: Request) -> Reply:
    """An engine that refuses, and echoes everything it was sent."""
    return Reply(404 if request.method == "GET" and "hook" not in request.path else 403, f"no: {request}")


@pytest.fixture
def side() -> Iterator[Side]:
    with Side(echo) as found:
        yield found


def left(folder: Path, *, but: str = "") -> dict[str, bytes]:
    """Return everything on disk except the public key file, the source and the site file."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for part in ("work", "public")
        for path in (folder / part).rglob("*")
        if path.is_file() and not (but and path.name == f"{but}.txt")
    }


def assert_unspoken(site: TestSite, environ: dict[str, str], said: str) -> None:
    markers = {name: value for name, value in environ.items() if name.startswith("PLANTED")} | {"db": PASSWORD}
    assert len(markers) >= 8
    key = environ[variable_of(("ping", "indexnow", "key"))]  # it is published, as a file
    found = left(site.folder, but=key)
    assert any("/runs/" in name for name in found)
    for name, marker in markers.items():
        assert marker not in said, name
        assert [file for file, data in found.items() if marker.encode() in data] == [], name
        assert [file for file in found if marker in file] == [], name


def test_no_run_stores_or_prints_a_secret_whatever_its_outcome(tmp_path: Path, side: Side) -> None:
    site, environ = planted(tmp_path, side.url)
    said: list[str] = []
    site.environment = replace(site.environment, environ=environ, log=said.append)
    for night, rows in ((1, 30), (2, 33), (3, 34)):
        site.export("news", pages(rows, lastmod="2026-10-01"))
        unit = by_tasks(site, night, said) if night == 2 else locally(site, night, said)
        assert_unspoken(site, environ, "\n".join(said))
        assert unit
    assert any("403" in line for line in said), "the engines were asked"
    site.export("news", pages(1))
    assert site.night(4).published.error is not None
    site.export("news", [{"url": "/no-loc"}])
    with pytest.raises(InvalidSource) as failed:
        site.night(5)
    said.append(str(failed.value))
    site.export("news", pages(36, lastmod="2026-10-02"))
    for writes in range(1, 40, 4):
        site.store.die(writes)
        with pytest.raises(Died):
            site.night(6)
        site.store.revive()
        (tmp_path / "work" / "shop" / "state" / "lease.json").unlink(missing_ok=True)
        assert_unspoken(site, environ, "\n".join(said))


def locally(site: TestSite, night: int, said: list[str]) -> object:
    from sitemap_etl.runs.local import ping_locally

    done = site.night(night)
    said.append(repr(ping_locally(done, site.environment)))
    return done.published.status == "published"


def by_tasks(site: TestSite, night: int, said: list[str]) -> object:
    """Run the site as a scheduler does; return what tasks pass on."""
    now = site.store.time = FIRST_NIGHT + timedelta(days=night - 1)
    environment = site.store.around(site.environment)
    site.keys["airflow"] = {"small": 0}
    started = tasks.start(site.load(), Options(), environment, now=now)
    key = started.key
    given: list[Any] = [key, started.bundles]
    given += [tasks.extract(key, part, environment) for part in started.bundles]
    given += [tasks.merge(key, part, environment) for part in tasks.buckets(key, environment)]
    given += [tasks.render(key, part, environment) for part in tasks.partition(key, environment)]
    given.append(tasks.publish(key, environment))
    for part in tasks.engines(key, environment):
        try:
            given.append(tasks.ping(key, part, environment))
        except SitemapEtlError as error:
            given.append(str(error))
    said.append(json.dumps(given))
    return started


def test_the_command_prints_no_secret(tmp_path: Path, side: Side, monkeypatch: pytest.MonkeyPatch) -> None:
    site, environ = planted(tmp_path, side.url)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    said = ""
    for arguments in (
        ("validate", site.path, "--connect"),
        ("run", site.path),
        ("run", site.path, "--json", "--full", "--dry-run"),
        ("history", site.path, "--json"),
        ("explain", site.path, "/c/1", "--json"),
        ("ping", site.path, "--all", "--json"),
        ("rollback", site.path),
        ("state", "verify", site.path, "--json"),
    ):
        done = call(*arguments)
        assert done.code in (0, 1, 2, 3), done
        said += done.out + done.err
    assert_unspoken(site, environ, said)


# --- parameters ----------------------------------------------------------------------------------------


def with_token(folder: Path, uri: str, query: str) -> TestSite:
    site = TestSite(folder)
    source = {"database": "catalog", "query": query, "params": {"token": "${TOKEN}", "lang": "en"}}
    site.keys["sections"]["pages"] = {"from": source}
    site.environment = replace(site.environment, environ={"AIRFLOW_CONN_CATALOG": uri, "TOKEN": "planted-4711"})
    return site


def sqlite_of(folder: Path) -> str:
    with closing(sqlite3.connect(folder / "catalog.db")) as database, database:
        database.execute("CREATE TABLE pages AS SELECT 1 AS id, '/a' AS loc, '2026-10-01' AS touched")
    return f"sqlite:///{folder / 'catalog.db'}"


def with_environ(environment: Environment, **more: str) -> Environment:
    return replace(environment, environ={**environment.environ, **more})


def test_a_task_with_another_secret_parameter_than_planned_is_refused_without_showing_it(tmp_path: Path) -> None:
    site = with_token(tmp_path, sqlite_of(tmp_path), "SELECT loc FROM pages WHERE :token <> :lang")
    run = start_run(site.load(), Options(), site.environment)
    other = with_environ(site.environment, TOKEN="planted-4712")
    with pytest.raises(Refused, match=r"section pages: params\.token \(\$\{TOKEN\}\): .*start a new run") as refused:
        extract_split(open_run(run.staging.url, other, staging=run.staging), 0)
    assert "planted" not in str(refused.value)
    assert extract_split(open_run(run.staging.url, site.environment, staging=run.staging), 0).rows == 1


def test_a_secret_parameter_can_change_between_runs(tmp_path: Path) -> None:
    site = with_token(tmp_path, sqlite_of(tmp_path), "SELECT loc FROM pages WHERE :token <> :lang")
    site.night(1)
    site.environment = with_environ(site.environment, TOKEN="planted-4712")
    assert site.night(2).published.status == "unchanged"


def test_only_a_changed_secret_parameter_causes_a_full_read(tmp_path: Path) -> None:
    query = "SELECT id, loc FROM pages WHERE :token <> :lang AND touched >= :since"
    site = with_token(tmp_path, sqlite_of(tmp_path), query)
    site.keys["sections"]["pages"]["from"]["key"] = "id"
    site.night(1)
    assert site.night(2).run.plan.readings["pages"].because is None
    site.environment = with_environ(site.environment, TOKEN="planted-4712")
    assert site.night(3).run.plan.readings["pages"].because == "the params of its SELECT are others"
    site.keys["sections"]["pages"]["from"]["params"]["lang"] = "de"
    assert site.night(4).run.plan.readings["pages"].because == "the params of its SELECT are others"


def test_the_stored_digest_of_a_secret_parameter_is_too_short_to_confirm_a_guess(tmp_path: Path) -> None:
    """Sixteen bits: a guess can't be confirmed, and two sites with the same secret have different digests."""
    site = with_token(tmp_path, "sqlite://", "SELECT loc FROM pages WHERE :token <> :lang").load()
    source = site.sections["pages"].source
    assert isinstance(source, DatabaseSource)
    environment = Environment(environ={"TOKEN": "planted-4711"})
    digest = params_digest("pages", source, site, environment)
    plain, _, hidden = digest.partition(":")
    assert len(hidden) == 4
    assert params_digest("pages", source, site, environment) == digest
    elsewhere = params_digest("pages", source, site.model_copy(update={"name": "other"}), environment)
    assert elsewhere.partition(":")[0] == plain
    assert elsewhere != digest


def test_secret_parameters_are_masked_in_messages_of_a_database(tmp_path: Path, postgres: Postgres) -> None:
    site = with_token(tmp_path, postgres.uri, "SELECT '/a' AS loc WHERE CAST(:token AS text)::int = 1")
    with pytest.raises(SitemapEtlError, match="•••") as failed:
        site.night(1)
    assert "planted" not in "".join(traceback.format_exception(failed.value))
