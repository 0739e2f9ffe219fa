"""The table of database kinds: all modules ask it, so a new kind is one row and the module that reads it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest

import sitemap_etl
from sitemap_etl.dialects import DIALECTS, DUCKDB, dialect_of, dialect_of_file
from sitemap_etl.runs.validate import problems_of
from tests.support import shelf
from tests.support.beginnings import runs, started
from tests.support.sites import FIRST_NIGHT, TestSite

PACKAGE = Path(sitemap_etl.__file__).parent
SELECT = "SELECT id, path AS loc, changed AS lastmod FROM pages"


def kinds_named(path: Path) -> Iterator[str]:
    """Yield the strings of a module that are names of kinds, but for names of extras."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    demands = [call for call in calls if isinstance(call.func, ast.Name) and call.func.id == "demand"]
    extras = {argument for call in demands for argument in call.args}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and node.value in DIALECTS and node not in extras:
            yield f"{path.relative_to(PACKAGE)}:{node.lineno} {node.value}"


def test_kinds_are_named_in_the_table_only() -> None:
    table, extras = PACKAGE / "dialects.py", PACKAGE / "extras.py"
    assert len(list(kinds_named(table))) > len({row.name for row in DIALECTS.values()})
    others = [path for path in PACKAGE.rglob("*.py") if path not in (table, extras)]
    assert [found for path in others for found in kinds_named(path)] == []


@pytest.mark.parametrize(
    ("scheme", "kind"),
    [
        ("postgres", "postgresql"),
        ("mariadb", "mysql"),
        ("mysql+pymysql", "mysql"),
        ("grpc+tls", "grpc"),
        ("db2", "db2"),
    ],
)
def test_a_scheme_names_its_kind(scheme: str, kind: str) -> None:
    assert dialect_of(scheme).name == kind


def test_a_file_has_the_kind_that_its_first_bytes_name(tmp_path: Path) -> None:
    duckdb.connect(str(tmp_path / "a.db")).close()
    assert dialect_of_file((tmp_path / "a.db").read_bytes()[:16]) is DUCKDB
    assert dialect_of_file(b"id,loc\n1,/a\n") is None


# --- a kind that only this test has ----------------------------------------------------------------------


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Path]:
    """A database of the kind `shelf` with 500 pages."""
    DIALECTS["shelf"] = DIALECTS["bookshelf"] = shelf.SHELF
    shelf.ASKED.clear()
    path = tmp_path / "shop.shelf"
    write(path)
    yield path
    del DIALECTS["shelf"], DIALECTS["bookshelf"]


def write(path: Path, *changes: str) -> None:
    table = "CREATE TABLE pages (id INTEGER PRIMARY KEY, path VARCHAR, changed TIMESTAMPTZ)"
    dates = "TIMESTAMPTZ '2026-10-01 00:00:00+00' + to_minutes(i)"
    shelf.write(path, table, f"INSERT INTO pages SELECT i, '/p/' || i, {dates} FROM range(500) t(i)", *changes)


def site_over(catalog: Path, select: str, **source: object) -> TestSite:
    site = TestSite(catalog.parent / "site")
    site.environment = replace(site.environment, environ={"AIRFLOW_CONN_CATALOG": f"bookshelf:///{catalog}"})
    site.keys["sections"]["pages"] = {"from": {"database": "catalog", "query": select, **source}}
    return site


def test_a_new_kind_passes_validate_and_is_read_in_splits(catalog: Path) -> None:
    site = site_over(catalog, SELECT, split={"column": "id", "parts": 3})
    lines: list[str] = []
    environment = replace(site.at(FIRST_NIGHT), log=lines.append)
    assert problems_of(site.load(), connect=True, environment=environment) == []
    assert not [line for line in lines if "warning" in line]
    done = site.night(1)
    assert done.summary.warnings == ()
    assert len(site.public().locs()) == 500
    assert sum("shelf_chance()" in text for text in shelf.ASKED) >= 1
    assert sum("$split_from" in text for text in shelf.ASKED) >= 2
    assert site.night(2).summary.status == "unchanged"


def test_a_second_run_reads_what_changed_by_the_clock_of_a_new_kind(catalog: Path) -> None:
    site = site_over(catalog, f"{SELECT} WHERE changed >= :since", key="id")
    site.night(1)
    write(catalog, "UPDATE pages SET path = '/new', changed = TIMESTAMPTZ '2026-11-01 01:30:00+00' WHERE id = 7")
    counts = site.night(2).summary.sections["pages"]
    assert (counts.extracted, counts.carried, counts.listed) == (1, 499, 500)
    assert f"{site.origin}/new" in site.public().locs()
    assert "SELECT shelf_time() AS now" in shelf.ASKED


def test_the_words_for_the_time_are_those_of_the_kind(catalog: Path) -> None:
    site = site_over(catalog, f"{SELECT} WHERE changed >= :since AND id < 9 OR changed > shelf_time()", key="id")
    site.night(1)
    (warning,) = [text for text in site.night(2).summary.warnings if "names the time" in text]
    assert "(shelf_time)" in warning


def test_init_proposes_a_site_over_a_new_kind(catalog: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AIRFLOW_CONN_SHOP", f"shelf:///{catalog}")
    site = started(catalog, "--site", "https://shop.example")
    assert site["sections"]["pages"]["from"]["key"] == "id"
    runs(500)
