"""Apache Iceberg tables through pyiceberg (the extra `iceberg`).

The format: https://iceberg.apache.org/spec/. A table is named as in its catalog (`catalog.namespace.table`; pyiceberg's
configuration has the catalog), by its metadata file, or by its folder if that has a `version-hint.text`. Rows in
position deletes and deletion vectors are skipped. pyiceberg can't read equality deletes, so tables with these are
refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any, Final

import pyarrow as pa

from sitemap_etl.errors import ConfigError, Denied, InvalidSource, SitemapEtlError, Unavailable, it_has
from sitemap_etl.extras import demand
from sitemap_etl.sources.batches import plain_schema
from sitemap_etl.sources.files.files import S3
from sitemap_etl.sources.lake.lake_table import Batch, DataFile, Values

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NONE: Final = "none"
"""Snapshot ID of a table that never had rows."""


def open_table(address: str, version: int | None, as_of: datetime | None) -> IcebergTable:
    """Open the table at a snapshot, at a time, or the newest one. Raises as `lake.find_table`."""
    with _errors(address):
        table = _load(address)
        if version is None and as_of is None:
            return IcebergTable(address, table, table.metadata.current_snapshot_id, table.metadata.current_schema_id)
        if version is not None:
            snapshot = table.snapshot_by_id(version)
            if snapshot is None:
                raise InvalidSource(
                    f"{address} has no snapshot {version}, or it has expired. Its newest are: "
                    f"{_shown(table.metadata.snapshots)}"
                )
        else:
            assert as_of is not None
            snapshot = table.snapshot_as_of_timestamp(int(as_of.timestamp() * 1000))
            if snapshot is None:
                raise InvalidSource(
                    f"{address} has no snapshot of {as_of.isoformat()}: it is younger, or that has expired"
                )
        return IcebergTable(address, table, snapshot.snapshot_id, snapshot.schema_id)


def open_pinned(address: str, version: str) -> IcebergTable:
    """Open the table at a version that was found before. Raises as `lake.find_table`."""
    snapshot, _, schema = version.partition("/")
    with _errors(address):
        table = _load(address)
        if snapshot != _NONE and table.snapshot_by_id(int(snapshot)) is None:
            raise InvalidSource(f"{address}: snapshot {snapshot} has expired, so that its files may be gone")
        return IcebergTable(address, table, None if snapshot == _NONE else int(snapshot), int(schema))


def _load(address: str) -> Any:
    demand("iceberg", f"reading the Iceberg table {address}")
    from pyiceberg.catalog import load_catalog
    from pyiceberg.io import load_file_io
    from pyiceberg.table import StaticTable
    from pyiceberg.utils.config import Config

    if "/" in address:
        return StaticTable.from_metadata(address, _store(address))
    catalog, _, name = address.partition(".")
    described: Any = Config().get_catalog_config(catalog) or {}  # current: pyiceberg reads it once per process
    reached = _store(str(described.get("warehouse", "")))
    table = load_catalog(catalog, **{**reached, **described}).load_table(name)
    location = table.metadata.location
    table.io = load_file_io({**_store(location), **table.io.properties}, location=location)
    return table


class IcebergTable:
    """One snapshot of an Iceberg table under one schema; see `lake_table.Table`."""

    def __init__(self, address: str, table: Any, snapshot: int | None, schema: int | None) -> None:
        self._address = address
        self._snapshot = snapshot
        metadata = table.metadata
        schema = metadata.current_schema_id if schema is None else schema
        # Under an earlier schema, names have their earlier meaning, even in filters.
        self._metadata = metadata.model_copy(update={"current_schema_id": schema})
        table.metadata = self._metadata
        self._table = table
        self.identity = str(metadata.table_uuid)
        self.version = f"{_NONE if snapshot is None else snapshot}/{schema}"
        found = None if snapshot is None else metadata.snapshot_by_id(snapshot)
        milliseconds = metadata.last_updated_ms if found is None else found.timestamp_ms
        self.moment = _EPOCH + timedelta(milliseconds=milliseconds)
        self.schema = plain_schema(table.schema().as_arrow(), label=address)

    def files(self, filter_: Values) -> list[DataFile] | None:
        return [
            DataFile(
                task.file.file_path,
                task.file.file_size_in_bytes,
                task.file.record_count,
                "".join(sorted(f"{one.file_path}:{one.record_count}" for one in task.delete_files)),
            )
            for task in self._tasks(filter_)
        ]

    def rows(self, names: Sequence[str] | None, columns: Sequence[str], filter_: Values) -> Iterator[pa.RecordBatch]:
        from pyiceberg.io.pyarrow import ArrowScan

        wanted = None if names is None else frozenset(names)
        with _errors(self._address, self.version):
            scan = ArrowScan(
                self._metadata, self._table.io, self._table.schema().select(*columns), self._expression(filter_)
            )
            # One file at a time, because pyiceberg keeps all rows of its files in memory.
            for task in self._tasks(filter_):
                if wanted is None or task.file.file_path in wanted:
                    yield from scan.to_record_batches([task])

    def lost(self, names: Sequence[str]) -> str | None:
        del names  # files are removed with their snapshot, which `open_pinned` checks
        return None

    def feed(self, since: str) -> str | None:
        return f"Iceberg has no feed of changed rows since {since}"

    def changes(self, since: str, columns: Sequence[str], filter_: Values) -> Iterator[Batch]:
        raise NotImplementedError(self.feed(since), columns, filter_)

    def _tasks(self, filter_: Values) -> list[Any]:
        key = repr(sorted((name, list(values)) for name, values in filter_.items()))
        if key not in self._planned:
            with _errors(self._address, self.version):
                scan = self._table.scan(row_filter=self._expression(filter_), snapshot_id=self._snapshot)
                found = [] if self._snapshot is None else list(scan.plan_files())
                self._planned[key] = sorted(found, key=lambda task: task.file.file_path)
        return self._planned[key]

    @cached_property
    def _planned(self) -> dict[str, list[Any]]:
        """Files by filter, because many splits read one version."""
        return {}

    def _expression(self, filter_: Values) -> Any:
        from pyiceberg import expressions

        one_of: Any = expressions.In  # mypy's pydantic plugin misreads the call
        expression: Any = expressions.AlwaysTrue()
        for name, values in filter_.items():
            if name not in self.schema.names:
                raise InvalidSource(
                    f"filter: {self._address} has no column {name!r}. {it_has(self.schema.names, name)}"
                )
            expression = expressions.And(expression, one_of(name, set(values)))
        return expression


def _store(location: str) -> dict[str, str]:
    """Return pyiceberg's options for the storage, unless its catalog has them, with this package's usual access."""
    if not location.startswith(S3):
        return {}
    from sitemap_etl.s3 import S3Client

    access = S3Client().access()
    known = {
        "s3.access-key-id": access.key,
        "s3.secret-access-key": access.secret,
        "s3.session-token": access.token,
        "s3.region": access.region,
        "s3.endpoint": access.endpoint,
        "s3.anonymous": None if access.key else "true",
        "s3.connect-timeout": str(access.connect_timeout),
        "s3.request-timeout": str(access.timeout),
    }
    return {name: value for name, value in known.items() if value is not None}


def _shown(snapshots: Sequence[Any]) -> str:
    return ", ".join(str(snapshot.snapshot_id) for snapshot in snapshots[-3:]) or "none"


@contextmanager
def _errors(address: str, version: str = "") -> Iterator[None]:
    """Translate errors of pyiceberg, and of Arrow over its files."""
    demand("iceberg", f"reading the Iceberg table {address}")
    from pyiceberg import exceptions

    try:
        yield
    except SitemapEtlError:
        raise
    except (exceptions.NoSuchTableError, exceptions.NoSuchNamespaceError, exceptions.NoSuchIdentifierError) as error:
        raise InvalidSource(f"there is no Iceberg table {address}: {_first(error)}") from error
    except (exceptions.ForbiddenError, exceptions.UnauthorizedError, PermissionError) as error:
        raise Denied(f"{address} may not be read: {_first(error)}") from error
    except exceptions.RESTError as error:
        raise Unavailable(f"the catalog of {address} did not answer: {_first(error)}") from error
    except FileNotFoundError as error:
        where = f" at snapshot {version}: it has expired, or its files were removed" if version else ""
        raise InvalidSource(f"there is no Iceberg table {address}{where} ({_first(error)})") from error
    except (NotImplementedError, ValueError, TypeError, pa.ArrowException) as error:
        raise _translated(error, address) from error
    except OSError as error:
        raise Unavailable(f"{address} can't be read now: {_first(error)}") from error


def _translated(error: Exception, address: str) -> SitemapEtlError:
    text = _first(error)
    if "equality deletes" in text:
        return InvalidSource(
            f"{address} has equality deletes, which pyiceberg can't read, so that deleted rows would be listed: "
            "compact the table (rewrite_data_files), or have its writer use position deletes or copy-on-write"
        )
    if "catalog" in text.lower():
        catalog = address.partition(".")[0]
        return ConfigError(
            f"the catalog {catalog} of {address} is not known: set PYICEBERG_CATALOG__{catalog.upper()}__URI, or "
            f"describe it in ~/.pyiceberg.yaml ({text})"
        )
    return InvalidSource(f"{address} can't be read: {text}")


def _first(error: Exception) -> str:
    return str(error).strip().partition("\n")[0][:300]
