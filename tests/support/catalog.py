"""A site over SQLite tables with incremental sections."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from sitemap_etl.state.mirror import read_mirror
from sitemap_etl.state.records import Mirror
from tests.support.sites import TestSite

CHANGED = " WHERE touched >= :since"
SELECT = "SELECT id, loc, lastmod, exclude FROM pages"
SHOP = "https://shop.example"
COLUMNS = (
    "id INTEGER, loc TEXT, lastmod TEXT, exclude TEXT, gone INTEGER, sold REAL, lang TEXT, pair TEXT, touched TEXT"
)


class Catalog(TestSite):
    """A site with tables in SQLite. `read(section, select)` adds a section that reads a table incrementally."""

    def __init__(self, folder: Path, **keys: Any) -> None:
        super().__init__(folder, **keys)
        self.lines: list[str] = []
        uri = f"sqlite:///{folder}/catalog.db"
        environ = {"AIRFLOW_CONN_CATALOG": uri}
        self.environment = replace(self.environment, environ=environ, log=self.lines.append)

    def table(self, name: str, count: int = 0) -> None:
        self.sql(f"CREATE TABLE {name} ({COLUMNS})")
        rows = [(n, f"/{name}/{n:03}", "2026-10-01", None, 0, n, "en", None, "2026-10-01") for n in range(count)]
        with closing(sqlite3.connect(self.folder / "catalog.db")) as database, database:
            database.executemany(f"INSERT INTO {name} VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)

    def sql(self, text: str, *values: Any) -> None:
        with closing(sqlite3.connect(self.folder / "catalog.db")) as database, database:
            database.execute(text, values)

    def read(self, name: str, select: str = SELECT, *, changed: str = CHANGED, **keys: Any) -> None:
        source = {"database": "catalog", "query": select + changed, "key": "id", **keys.pop("source", {})}
        self.keys["sections"][name] = {"from": source, **keys}

    def locs(self) -> set[str]:
        return {loc.removeprefix(SHOP) for loc in self.public().locs()}

    def mirror(self, section: str = "pages") -> Mirror:
        work = self.state().storage
        return read_mirror(work, self.state().current().mirrors[section])


def of_pages(folder: Path) -> Catalog:
    """Return a site whose section `pages` reads a hundred pages."""
    site = Catalog(folder)
    site.table("pages", 100)
    site.read("pages")
    return site
