"""Lakehouse tables for tests, written by the libraries of the formats: Delta Lake, and Iceberg in a SQL catalog."""

from __future__ import annotations

import json
import shutil
import struct
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

ROWS = pa.schema([("id", pa.int64()), ("loc", pa.string()), ("lastmod", pa.string()), ("wide", pa.string())])


def rows(first: int, last: int) -> pa.Table:
    """Return rows `first` to `last - 1`: id, loc /p/<id>, lastmod, and a column that no rule needs."""
    numbers = range(first, last)
    columns = [
        list(numbers),
        [f"/p/{n}" for n in numbers],
        ["2026-10-01"] * len(numbers),
        ["x" * 50] * len(numbers),
    ]
    return pa.table(columns, schema=ROWS)


class Written(Protocol):
    """A table and the operations of its owner."""

    source: dict[str, Any]
    environ: dict[str, str]

    def append(self, table: pa.Table) -> None: ...
    def delete(self, where: str) -> None: ...
    def update(self, number: int, loc: str) -> None: ...
    def version(self) -> int: ...
    def expire(self) -> None: ...
    def make_anew(self, table: pa.Table) -> None: ...


class Delta:
    """A Delta Lake table. `feed`: with a change data feed."""

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

    def make_anew(self, table: pa.Table) -> None:
        shutil.rmtree(self.address)
        self.append(table)

    def mask(self, *places: int) -> None:
        """Delete rows of the table's only file by a deletion vector, as Spark does; delta-rs writes none itself.

        https://github.com/delta-io/delta/blob/master/PROTOCOL.md#deletion-vector-format: a 64-bit roaring bitmap of one
        32-bit one, which has one array of 16-bit places.
        """
        log = Path(self.address) / "_delta_log"
        files = {action["path"]: action for action in _actions(log, "add")}
        (add,) = (files[path] for path in files.keys() - {action["path"] for action in _actions(log, "remove")})
        container = struct.pack("<IIHHI", 12346, 1, 0, len(places) - 1, 16) + struct.pack(f"<{len(places)}H", *places)
        vector = struct.pack("<IqI", 1681511377, 1, 0) + container
        inline = _z85(vector + bytes(-len(vector) % 4))
        descriptor = {
            "storageType": "i",
            "pathOrInlineDv": inline,
            "sizeInBytes": len(vector),
            "cardinality": len(places),
        }
        named = ["deletionVectors", "timestampNtz"]
        features = {"readerFeatures": named, "writerFeatures": named}
        now = int(time.time() * 1000)
        actions = [
            {"commitInfo": {"timestamp": now, "operation": "DELETE"}},
            {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **features}},
            {"remove": {"path": add["path"], "dataChange": True, "deletionTimestamp": now}},
            {"add": {**add, "deletionVector": descriptor, "dataChange": True}},
        ]
        text = "".join(f"{json.dumps(action)}\n" for action in actions)
        (log / f"{self.version() + 1:020}.json").write_text(text)


def _actions(log: Path, kind: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for file in sorted(log.glob("*.json")) for line in file.read_text().splitlines()]
    return [line[kind] for line in lines if kind in line]


_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


def _z85(data: bytes) -> str:
    """ZeroMQ's base 85: https://rfc.zeromq.org/spec/32/."""
    numbers = struct.unpack(f">{len(data) // 4}I", data)
    return "".join(_DIGITS[number // 85**power % 85] for number in numbers for power in (4, 3, 2, 1, 0))


class Iceberg:
    """The Iceberg table lake.shop.products in a catalog on SQLite."""

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

    def mask(self, *places: int, equality: bool = False) -> None:
        """Delete rows of the first file with a delete file, as Flink and Trino do; pyiceberg writes none itself.

        `equality`: by their ids instead of their positions.
        """
        from pyiceberg.manifest import (
            DataFile,
            DataFileContent,
            FileFormat,
            ManifestContent,
            ManifestEntry,
            ManifestEntryStatus,
            ManifestWriterV2,
            write_manifest_list,
        )
        from pyiceberg.table.snapshots import Operation, Snapshot, Summary
        from pyiceberg.table.update import AddSnapshotUpdate, SetSnapshotRefUpdate
        from pyiceberg.typedef import Record

        class Deletes(ManifestWriterV2):
            def content(self) -> ManifestContent:
                return ManifestContent.DELETES

        table = self.table()
        snapshot, folder = table.current_snapshot(), table.location()
        data = min(task.file.file_path for task in table.scan().plan_files())
        path = f"{folder}/data/{uuid.uuid4()}-deletes.parquet"
        written = pa.table(
            {"id": list(places)} if equality else {"file_path": [data] * len(places), "pos": list(places)}
        )
        with table.io.new_output(path).create() as out:
            pq.write_table(written, out)
        own = {"equality_ids": [1]} if equality else {}
        file = DataFile.from_args(
            content=DataFileContent.EQUALITY_DELETES if equality else DataFileContent.POSITION_DELETES,
            file_path=path,
            file_format=FileFormat.PARQUET,
            partition=Record(),
            record_count=len(places),
            file_size_in_bytes=len(table.io.new_input(path)),
            **own,
        )
        number, sequence = snapshot.snapshot_id + 1, table.metadata.last_sequence_number + 1
        output = table.io.new_output(f"{folder}/metadata/{uuid.uuid4()}-m0.avro")
        with Deletes(table.spec(), table.schema(), output, number, "deflate") as manifest:
            manifest.add_entry(
                ManifestEntry.from_args(
                    status=ManifestEntryStatus.ADDED,
                    snapshot_id=number,
                    sequence_number=sequence,
                    file_sequence_number=sequence,
                    data_file=file,
                )
            )
        listed = f"{folder}/metadata/snap-{number}.avro"
        with write_manifest_list(
            2, table.io.new_output(listed), number, snapshot.snapshot_id, sequence, "deflate"
        ) as manifests:
            manifests.add_manifests([*snapshot.manifests(table.io), manifest.to_manifest_file()])
        new = Snapshot(
            snapshot_id=number,
            parent_snapshot_id=snapshot.snapshot_id,
            sequence_number=sequence,
            timestamp_ms=snapshot.timestamp_ms + 1,
            manifest_list=listed,
            summary=Summary(Operation.DELETE),
            schema_id=table.metadata.current_schema_id,
        )
        transaction = table.transaction()
        transaction._apply(
            (AddSnapshotUpdate(snapshot=new), SetSnapshotRefUpdate(ref_name="main", type="branch", snapshot_id=number))
        )
        transaction.commit_transaction()

    def expire(self) -> None:
        table = self.table()
        old = [one.snapshot_id for one in table.metadata.snapshots if one.snapshot_id != self.version()]
        table.maintenance.expire_snapshots().by_ids(old).commit()

    def make_anew(self, table: pa.Table) -> None:
        self.catalog.drop_table("shop.products")
        self.catalog.create_table("shop.products", schema=ROWS)
        self.append(table)
