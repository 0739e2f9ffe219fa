"""Tables of a lakehouse for tests, written by the formats' own libraries: Delta Lake, and Iceberg in a SQL catalog."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

ROWS = pa.schema([("id", pa.int64()), ("loc", pa.string()), ("lastmod", pa.string()), ("wide", pa.string())])


def rows(first: int, last: int) -> pa.Table:
    """Rows first … last - 1: id, loc /p/<id>, lastmod, and a column that no rule needs."""
    numbers = range(first, last)
    columns = [
        list(numbers),
        [f"/p/{n}" for n in numbers],
        ["2026-10-01"] * len(numbers),
        ["x" * 50] * len(numbers),
    ]
    return pa.table(columns, schema=ROWS)


class Written(Protocol):
    """A table as its owner changes it."""

    source: dict[str, Any]
    environ: dict[str, str]

    def append(self, table: pa.Table) -> None: ...
    def delete(self, where: str) -> None: ...
    def update(self, number: int, loc: str) -> None: ...
    def version(self) -> int: ...
    def expire(self) -> None: ...


class Delta:
    """A table of Delta Lake. `feed`: it keeps a feed of its changed rows."""

    def __init__(self, address: str, *, feed: bool = False, options: Mapping[str, str] | None = None) -> None:
        self.address = address
        self.source: dict[str, Any] = {"delta": address}
        self.environ: dict[str, str] = {}
        self.options = dict(options or {})
        self.settings = {"delta.enableChangeDataFeed": "true"} if feed else {}

    def table(self) -> Any:
        from deltalake import DeltaTable

        return DeltaTable(self.address, storage_options=self.options)

    def append(self, table: pa.Table, **more: Any) -> None:
        from deltalake import write_deltalake

        more = {"mode": "append", "schema_mode": "merge", **more}
        write_deltalake(self.address, table, configuration=self.settings, storage_options=self.options, **more)

    def delete(self, where: str) -> None:
        self.table().delete(where)

    def update(self, number: int, loc: str) -> None:
        self.table().update(predicate=f"id = {number}", updates={"loc": f"'{loc}'"})

    def version(self) -> int:
        return int(self.table().version())

    def expire(self) -> None:
        self.table().vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)


class Iceberg:
    """A table of Iceberg: lake.shop.products, in a catalog on SQLite."""

    def __init__(self, folder: Path, warehouse: str = "", **properties: str) -> None:
        from pyiceberg.catalog import load_catalog

        folder.mkdir(parents=True, exist_ok=True)
        settings = {
            "type": "sql",
            "uri": f"sqlite:///{folder}/catalog.db",
            "warehouse": warehouse or f"file://{folder}",
        }
        self.catalog = load_catalog("lake", **settings, **properties)
        self.catalog.create_namespace("shop")
        self.catalog.create_table("shop.products", schema=ROWS)
        self.source: dict[str, Any] = {"iceberg": "lake.shop.products"}
        self.environ = {f"PYICEBERG_CATALOG__LAKE__{name.upper()}": value for name, value in settings.items()}

    def table(self) -> Any:
        return self.catalog.load_table("shop.products")

    def append(self, table: pa.Table) -> None:
        self.table().append(table)

    def delete(self, where: str) -> None:
        self.table().delete(where)

    def update(self, number: int, loc: str) -> None:
        row = rows(number, number + 1).set_column(1, "loc", pa.array([loc]))
        self.table().overwrite(row, overwrite_filter=f"id = {number}")

    def version(self) -> int:
        return int(self.table().current_snapshot().snapshot_id)

    def expire(self) -> None:
        table = self.table()
        old = [one.snapshot_id for one in table.metadata.snapshots if one.snapshot_id != self.version()]
        table.maintenance.expire_snapshots().by_ids(old).commit()
