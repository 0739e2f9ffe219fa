"""Columns with names that SQL misreads without quotes: spaces, dots, quotes, upper case, reserved words."""

from __future__ import annotations

import csv
import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sitemap_etl.sources.parameters import quoted
from tests.support.lake import Delta
from tests.support.postgres import Postgres
from tests.support.sites import TestSite

NAMES = ["order", "SELECT updatedAt", "größe a.b", 'a"b`c', "%s:since"]
SECTIONS = {f"s{number}": name for number, name in enumerate(NAMES)}
COUNT = 6


def table(section: str, first: int = 0, last: int = COUNT) -> pa.Table:
    """Return rows of a section: a number, an address, a date and a reason, in columns with odd names."""
    name = SECTIONS[section]
    numbers = range(first, last)
    return pa.table(
        {
            name: pa.array(numbers, pa.int64()),
            f"{name} L": [f"/{section}/{number}" for number in numbers],
            f"{name} D": [f"2026-10-0{number % 9 + 1}" for number in numbers],
            "exclude": pa.array(["no" if number == 3 else None for number in numbers], pa.string()),
        }
    )


def rules(section: str) -> dict[str, Any]:
    """Return the rules of a section, which name each of its columns. The pages 3 and 4 are excluded."""
    name = SECTIONS[section]
    return {
        "columns": {"loc": f"{name} L"},
        "lastmod": {"column": f"{name} D"},
        "where": f"CAST({quoted(name, 'duckdb')} AS int) <> 4",
    }


def sites(folder: Path, source: Callable[[str], dict[str, Any]], **more: Any) -> TestSite:
    site = TestSite(folder / "site")
    for section in SECTIONS:
        site.keys["sections"][section] = {"from": source(section), **rules(section), **more}
    return site


def check(site: TestSite, pages: dict[int, str] | None = None) -> None:
    """Assert that every section lists its pages, with the dates of their rows."""
    pages = pages or {number: str(number) for number in (0, 1, 2, 5)}
    wanted = {
        f"{site.origin}/{section}/{name}": f"2026-10-0{number % 9 + 1}"
        for section in SECTIONS
        for number, name in pages.items()
    }
    assert {entry.loc: entry.lastmod for entry in site.public().entries()} == wanted


def select(section: str, dialect: str) -> str:
    names = ", ".join(quoted(name, dialect) for name in table(section).column_names)
    return f"SELECT {names} FROM "


@pytest.mark.parametrize("selected", [False, True], ids=["plain", "sql"])
@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_odd_column_names_work_in_exports(kind: str, selected: bool, tmp_path: Path) -> None:
    for section in SECTIONS:
        rows, path = table(section), tmp_path / f"{section}.{kind}"
        if kind == "parquet":
            pq.write_table(rows, path)
        elif kind == "jsonl":
            path.write_text("".join(json.dumps(row) + "\n" for row in rows.to_pylist()))
        else:
            with path.open("w", newline="") as file:
                writer = csv.DictWriter(file, rows.column_names)
                writer.writeheader()
                writer.writerows(rows.to_pylist())
    more = (lambda section: {"query": select(section, "duckdb") + "source"}) if selected else (lambda _section: {})
    site = sites(tmp_path, lambda section: {kind: str(tmp_path / f"{section}.{kind}"), **more(section)})
    site.night(1)
    check(site)


@pytest.mark.parametrize("selected", [False, True], ids=["plain", "sql"])
@pytest.mark.parametrize("kind", ["delta", "feed", "iceberg"])
def test_odd_column_names_work_in_lakehouse_tables(
    kind: str, selected: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lakes: dict[str, Any] = {}
    if kind == "iceberg":
        from pyiceberg.catalog import load_catalog

        settings = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}"}
        for name, value in settings.items():
            monkeypatch.setenv(f"PYICEBERG_CATALOG__LAKE__{name.upper()}", value)
        catalog = load_catalog("lake", **settings)
        catalog.create_namespace("shop")
        for section in SECTIONS:
            lakes[section] = catalog.create_table(f"shop.{section}", schema=table(section).schema)
    else:
        lakes = {section: Delta(str(tmp_path / section), feed=kind == "feed") for section in SECTIONS}
    for section, lake in lakes.items():
        lake.append(table(section, 0, 3))
        lake.append(table(section, 3))

    def source(section: str) -> dict[str, Any]:
        address = {"iceberg": f"lake.shop.{section}"} if kind == "iceberg" else {"delta": str(tmp_path / section)}
        more = {"query": select(section, "duckdb") + "source"} if selected else {}
        return {**address, **more, "key": SECTIONS[section], "filter": {SECTIONS[section]: list(range(9))}}

    site = sites(tmp_path, source)
    site.night(1)
    check(site)
    for section, lake in lakes.items():
        lake.append(table(section, 6, 8))
    done = site.night(2)
    check(site, {number: str(number) for number in (0, 1, 2, 5, 6, 7)})
    assert {counts.extracted for counts in done.summary.sections.values()} == {2}


def fill(
    section: str, dialect: str, execute: Callable[..., Any], first: int = 0, last: int = COUNT, mark: str = "?"
) -> None:
    rows = table(section, first, last)
    names = [quoted(name, dialect) for name in rows.column_names]
    if not first:
        kinds = ["bigint", *["varchar(50)"] * 3]
        columns = ", ".join(f"{name} {kind}" for name, kind in zip(names, kinds, strict=True))
        execute(f"CREATE TABLE {section} ({columns})")
    for row in rows.to_pylist():
        execute(f"INSERT INTO {section} VALUES ({', '.join([mark] * 4)})", list(row.values()))


@pytest.mark.parametrize("kind", ["sqlite", "duckdb", "postgresql"])
def test_odd_column_names_work_in_databases(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """The SELECT is split by a column with an odd name; another one reads changes by a key with such a name."""
    if kind == "postgresql":
        server: Postgres = request.getfixturevalue("postgres").database()
        uri, mark = server.uri, "%s"
        connect: Callable[[], Any] = lambda: psycopg.connect(uri, autocommit=True)  # noqa: E731 - one of three
    elif kind == "duckdb":
        uri, mark = f"duckdb:///{tmp_path}/catalog.duckdb", "?"
        connect = lambda: duckdb.connect(str(tmp_path / "catalog.duckdb"))  # noqa: E731 - one of three
    else:
        uri, mark = f"sqlite:///{tmp_path}/catalog.db", "?"
        connect = lambda: sqlite3.connect(tmp_path / "catalog.db", isolation_level=None)  # noqa: E731 - one of three
    with closing(connect()) as database:
        for section in SECTIONS:
            fill(section, kind, database.execute, mark=mark)
    changed = " WHERE '2026-10-31' >= :since OR {} >= 6"

    def source(section: str) -> dict[str, Any]:
        name = SECTIONS[section]
        text = select(section, kind) + section + changed.format(quoted(name, kind))
        if kind == "postgresql":
            text = text.replace("'2026-10-31'", "timestamptz '2026-10-31'")
        if kind == "duckdb":
            text = text.replace("'2026-10-31'", "TIMESTAMPTZ '2026-10-31'")
        return {"database": "catalog", "query": text, "key": name, "split": {"column": name, "parts": 2}}

    site = sites(tmp_path, source)
    site.environment = replace(site.environment, environ={"AIRFLOW_CONN_CATALOG": uri})
    site.night(1)
    check(site)
    with closing(connect()) as database:
        for section in SECTIONS:
            fill(section, kind, database.execute, 6, 8, mark=mark)
    done = site.night(2)
    check(site, {number: str(number) for number in (0, 1, 2, 5, 6, 7)})
    assert {counts.extracted for counts in done.summary.sections.values()} == {2}
