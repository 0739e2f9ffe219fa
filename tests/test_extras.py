"""A missing extra is asked for by name before anything is published, if it is needed."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from sitemap_etl import extras

ROOT = Path(__file__).parent.parent
PACKAGES = {
    "mysql": {"pymysql"},
    "delta": {"deltalake"},
    "iceberg": {"pyiceberg"},
    "google": {"google", "cryptography"},
    "pandas": {"pandas"},
}
"""The top modules of what each extra brings."""

PROGRAM = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {absent}:
            raise ModuleNotFoundError("No module named " + repr(name), name=name)

sys.meta_path.insert(0, Absent())
from sitemap_etl.cli import main
main(sys.argv[1:])
"""

CSV = "from: {csv: pages.csv}"
SITE = "site: https://shop.example\npublish: ./public\nsections:\n  pages:\n    {source}\n{more}"


def without(modules: set[str], folder: Path, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Call the command without these modules."""
    return subprocess.run(
        [sys.executable, "-c", PROGRAM.replace("{absent}", repr(modules)), *arguments],
        cwd=folder,
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "pages.csv").write_text("loc\n/a\n/b\n")
    return tmp_path


def write(folder: Path, source: str, more: str = "") -> None:
    (folder / "shop.yaml").write_text(SITE.format(source=source, more=more))


@pytest.mark.thorough
def test_a_site_of_exports_needs_no_extra(folder: Path) -> None:
    write(folder, CSV)
    done = without(set().union(*PACKAGES.values()) | {"airflow"}, folder, "run", "shop.yaml")
    assert done.returncode == 0, done.stderr
    assert (folder / "public" / "sitemap.xml").exists()


@pytest.mark.thorough
@pytest.mark.parametrize("command", [["run"], ["validate", "--connect"]], ids=lambda command: command[0])
def test_a_mysql_source_without_its_extra_is_reported_with_the_extra(folder: Path, command: list[str]) -> None:
    write(folder, "from: {database: catalog, query: SELECT loc FROM page}")
    uri = "mysql://reader:hidden@127.0.0.1:1/shop"
    done = without({"pymysql"}, folder, *command, "shop.yaml", AIRFLOW_CONN_CATALOG=uri)
    assert done.returncode == 2, done.stderr
    said = done.stdout + done.stderr
    assert "no module pymysql" in said
    assert "install sitemap_etl[mysql]" in said
    assert "hidden" not in said
    assert "Traceback" not in said
    assert not (folder / "public").exists()


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("extra", "source"), [("delta", "delta: ./products"), ("iceberg", "iceberg: lake.shop.products")]
)
@pytest.mark.parametrize("command", [["run"], ["validate", "--connect"]], ids=lambda command: command[0])
def test_a_lakehouse_table_without_its_extra_is_reported_with_the_extra(
    folder: Path, extra: str, source: str, command: list[str]
) -> None:
    write(folder, f"from: {{{source}}}")
    done = without(PACKAGES[extra], folder, *command, "shop.yaml")
    assert done.returncode == 2, done.stderr
    assert f"install sitemap_etl[{extra}]" in done.stdout + done.stderr
    assert not (folder / "public").exists()


@pytest.mark.parametrize("command", [["run"], ["validate"]], ids=lambda command: command[0])
def test_a_transform_function_without_pandas_is_reported_with_the_extra(folder: Path, command: list[str]) -> None:
    (folder / "own.py").write_text("import pandas as pd\n\ndef change(frame):\n    return frame\n")
    write(folder, "{from: {csv: pages.csv}, transform: 'own:change'}")
    done = without({"pandas"}, folder, *command, "shop.yaml")
    assert done.returncode == 2, done.stderr
    said = done.stdout + done.stderr
    assert "sections.pages.transform needs the extra pandas" in said
    assert "install sitemap_etl[pandas]" in said
    assert not (folder / "public").exists()


def test_a_database_without_an_extra_is_reported_with_its_packages(folder: Path) -> None:
    write(folder, "from: {database: catalog, query: SELECT loc FROM page}")
    done = without({"sqlalchemy"}, folder, "run", "shop.yaml", AIRFLOW_CONN_CATALOG="oracle://u:p@127.0.0.1:1/shop")
    assert done.returncode == 2, done.stderr
    assert "no driver for oracle databases: install its ADBC driver, or sqlalchemy and oracledb" in done.stderr


SEARCH_CONSOLE = "ping:\n  search_console: {key: ./key.json, property: 'sc-domain:shop.example'}\n"


@pytest.mark.thorough
@pytest.mark.parametrize("absent", ["google", "cryptography"])
def test_a_run_that_cannot_notify_google_fails_before_publishing(folder: Path, absent: str) -> None:
    write(folder, CSV, SEARCH_CONSOLE)
    done = without({absent}, folder, "run", "shop.yaml")
    assert done.returncode == 2, done.stderr
    assert "ping.search_console" in done.stderr
    assert "install sitemap_etl[google]" in done.stderr
    assert not (folder / "public").exists()


def test_validate_finds_that_google_could_not_be_notified(folder: Path) -> None:
    write(folder, CSV, SEARCH_CONSOLE)
    done = without({"google"}, folder, "validate", "--connect", "shop.yaml")
    assert done.returncode == 2, done.stderr
    assert "install sitemap_etl[google]" in done.stdout + done.stderr


@pytest.mark.thorough
@pytest.mark.parametrize("option", ["--no-ping", "--dry-run"])
def test_a_run_that_notifies_nobody_needs_no_engine(folder: Path, option: str) -> None:
    write(folder, CSV, SEARCH_CONSOLE)
    assert without({"google"}, folder, "run", "shop.yaml", option).returncode == 0


@pytest.mark.parametrize("extra", PACKAGES)
def test_every_named_extra_exists_and_is_installed_for_tests(extra: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert extra in project["optional-dependencies"]
    extras.demand(extra, "this test")
