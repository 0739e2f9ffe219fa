"""Tasks whose work is done by another interpreter (`airflow.python`)."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import tomllib
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from sitemap_etl.airflow import remote, world
from sitemap_etl.errors import ConfigError, Refused, Unavailable
from tests.support.airflow import PROJECT, Airflow
from tests.support.dags import Shop

THIN = {"ada-url", "pydantic", "pyyaml"}
"""What docs/reference/airflow-versions.md says that Airflow's environment needs beside Airflow."""
OF_AIRFLOW = {"click", "httpcore", "httpx", "jinja2", "rich", "shellingham"}
"""Dependencies of ours that Airflow itself imports. Nothing of ours needs them there."""


@pytest.fixture
def shop(tmp_path: Path, airflow_process: Airflow) -> Shop:
    return Shop(tmp_path, airflow_process)


@pytest.mark.thorough  # a whole Airflow, and an interpreter for each task
@pytest.mark.parametrize("small", [2_000_000, 0], ids=["in one task", "in many tasks"])
def test_a_run_in_another_interpreter_publishes_and_uses_airflows_connections(shop: Shop, small: int) -> None:
    path = shop.folder / "shop.sqlite"
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE cats (loc TEXT)")
        database.executemany("INSERT INTO cats VALUES (?)", [(f"/cats/{n}",) for n in range(10)])
    shop.airflow.ask("connect", {}, id=f"only_airflow_has_it_{small}", uri=f"sqlite:///{path}")
    shop.pages(30)
    cats = {"from": {"database": f"only_airflow_has_it_{small}", "query": "SELECT loc FROM cats"}}
    sections = {"pages": {"from": {"csv": "../pages.csv"}}, "cats": cats}
    shop.site(sections=sections, airflow={"small": small, "python": sys.executable})
    run = shop.run()
    assert run.state == "success"
    assert run.xcom("publish", "counts")["total"]["listed"] == 40
    assert len(run.events) == 1
    assert run.labels("render") == ([None] if small else ["pages 1 of 1", "cats 1 of 1"])
    assert "sections: 2" in run.log


@pytest.mark.thorough
def test_errors_in_another_interpreter_fail_and_retry_the_task_as_usual(shop: Shop) -> None:
    shop.environ = {"AIRFLOW_CONN_CATALOG": "postgresql://reader:hunter2-secret@127.0.0.1:1/catalog"}
    cats = {"from": {"database": "catalog", "query": "SELECT loc FROM cats"}}
    shop.site(sections={"cats": cats}, airflow={"python": sys.executable, "retries": 1})
    run = shop.run()
    assert run.state == "failed"
    assert run.tries("build") == [2]
    assert "catalog: the database did not answer" in run.log
    assert "hunter2" not in run.log
    shop.pages(30)
    shop.site(airflow={"python": sys.executable})
    (shop.folder / "pages.csv").write_text("url\n/pages/1\n")
    broken = shop.run()
    assert [one["tries"] for one in broken.tasks if one["state"] == "failed"] == [1]
    assert f"section pages: the source ({shop.folder / 'pages.csv'}) has no column 'loc'" in broken.log
    assert not shop.lease().exists()


def perform(python: Path | str, site_file: Path) -> Any:
    return remote.perform(str(python), site_file, "abandon", {"owner": "shop/tonight"})


def interpreter(folder: Path, script: str) -> Path:
    """Return an interpreter that runs this shell script instead."""
    path = folder / "python"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def test_a_missing_interpreter_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"airflow\.python: /no/such/python can't be started"):
        perform("/no/such/python", tmp_path / "shop.yaml")


def test_a_process_that_ends_without_a_result_can_be_retried(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="ended with 7 before it had a result"):
        perform(interpreter(tmp_path, "exit 7"), tmp_path / "shop.yaml")


def test_another_version_of_the_package_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "__version__", "0.0.1")
    with pytest.raises(ConfigError, match=r"and Airflow has 0\.0\.1: install the same version in both"):
        perform(sys.executable, tmp_path / "shop.yaml")


def test_the_other_interpreter_gets_errors_of_airflows_side_as_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered = tmp_path / "answered"
    script = f"""read request
echo '{{"ask": "connection", "arguments": {{"connection_id": "nowhere"}}}}'
read answer; echo "$answer" > {answered}
echo '{{"failed": "no", "code": 1, "again": false}}'"""

    def unknown(_name: str) -> str:
        raise ConfigError("connection 'nowhere' is not known")

    monkeypatch.setattr(world, "connection_of", unknown)
    with pytest.raises(Refused, match="no"):
        perform(interpreter(tmp_path, script), tmp_path / "shop.yaml")
    assert "is not known" in answered.read_text()


_MISSING = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in set(sys.argv[2].split()):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Missing())
"""
_WITHOUT = f"""{_MISSING}
from sitemap_etl.airflow import raise_site_errors, site_dags
from sitemap_etl.airflow import deadlines, notifiers, plugin, waiting
raise_site_errors(sys.argv[1])
print(*site_dags(sys.argv[1]))
"""


def test_airflows_environment_needs_only_the_libraries_that_read_site_files(shop: Shop) -> None:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    named = {line.split(">")[0].split("=")[0].split("<")[0].strip() for line in project["dependencies"]}
    assert named >= THIN | OF_AIRFLOW
    absent = {name.replace("-", "_") for name in named - THIN - OF_AIRFLOW} | {"pandas"}
    wait = {"csv": "../pages.csv", "expect": {"marker": "_SUCCESS", "wait": "1m"}}
    given = {"python": "/opt/sitemap/bin/python", "done_by": "05:00"}
    hook = {"webhook": "https://hooks.example/1"}
    shop.site(schedule="0 2 * * *", sections={"pages": {"from": wait}}, airflow=given, notify=hook)
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT, str(shop.sites), " ".join(absent)],
        cwd=PROJECT,
        env={**os.environ, **shop.airflow.environ},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[-1] == "shop"
    text = (PROJECT / "docs" / "reference" / "airflow-versions.md").read_text()
    assert all(f"`{name}" in text for name in THIN)


_PLANNED = f"""{_MISSING}
from sitemap_etl.airflow import site_dags
from sitemap_etl.airflow.loaded import site_of
from sitemap_etl.airflow.performing import perform
from sitemap_etl.errors import ConfigError
options = dict.fromkeys(["sections", "force", "reason", "now"])
options |= dict.fromkeys(["full", "dry_run", "ping", "moved"], False)
asked = {{"fields": options, "conf": None, "owner": "shop/1", "made": None, "final": True, "problem": None}}
(name,) = site_dags(sys.argv[1])
try:
    key = perform(site_of(name), "plan", {{**asked, "most": 9, "parts": 0}})["key"]
    perform(site_of(name), "build", {{"key": key, "final": True}})
except ConfigError as error:
    print(error)
"""


@pytest.mark.parametrize("library", ["isal", "duckdb"])
def test_a_library_missing_in_airflows_environment_is_named_with_the_key_to_set(shop: Shop, library: str) -> None:
    shop.pages(3)
    shop.site(sections={"pages": {"from": {"csv": "../pages.csv"}, "where": "loc <> ''"}})
    done = subprocess.run(
        [sys.executable, "-c", _PLANNED, str(shop.sites), library],
        cwd=PROJECT,
        env={**os.environ, **shop.airflow.environ},
        capture_output=True,
        text=True,
        check=False,
    )
    assert f"has no module {library}, which this run needs" in done.stdout, done.stderr
    assert "airflow: {python:" in done.stdout
