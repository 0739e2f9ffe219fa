"""Delta Lake tables through delta-rs (the extra `delta`).

The protocol: https://github.com/delta-io/delta/blob/master/PROTOCOL.md. Plain tables are read file by file. delta-rs
itself reads tables with deletion vectors, mapped columns or other features that Arrow doesn't support, and skips the
deleted rows.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset
import pyarrow.parquet as pq

from sitemap_etl import limits
from sitemap_etl.errors import Denied, InvalidSource, SitemapEtlError, Unavailable, it_has
from sitemap_etl.extras import demand
from sitemap_etl.sources.batches import conform, plain_schema
from sitemap_etl.sources.files import int96
from sitemap_etl.sources.files.files import S3, each, look_at
from sitemap_etl.sources.lake.lake_table import Batch, DataFile, Values

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FEED: Final = "delta.enableChangeDataFeed"
_GONE: Final = ("delete", "update_preimage")
_OWN: Final = ("_change_type", "_commit_version")
_REFUSED: Final = re.compile(r"access ?denied|forbidden|unauthorized|permission denied|\b40[13]\b", re.IGNORECASE)
_AWAY: Final = re.compile(
    r"error sending request|timed? ?out|connect|dns|temporarily|slow ?down|too many requests|\b(429|5\d\d)\b",
    re.IGNORECASE,
)
_MISSING: Final = re.compile(r"not found|no such file|nosuchkey|\b404\b", re.IGNORECASE)


def open_table(address: str, version: int | None, as_of: datetime | None) -> DeltaTable:
    """Open the table at a version, at a time, or the newest one. Raises as `lake.find_table`."""
    demand("delta", f"reading the Delta table {address}")
    import deltalake

    with _errors(address):
        newest = deltalake.DeltaTable(address, storage_options=store_options(address))
        last = newest.version()
        if version is not None and version > last:
            raise InvalidSource(f"{address} has no version {version}: its newest is {last}")
        table = newest
        if as_of is not None or (version is not None and version != last):
            table = deltalake.DeltaTable(address, storage_options=store_options(address))
            try:
                table.load_as_version(as_of or version or 0)
            except deltalake.exceptions.DeltaError as error:
                asked = version if as_of is None else f"of {as_of.isoformat()}"
                raise InvalidSource(
                    f"{address} has no version {asked} any more: its log was cleaned up. Its newest is {last}"
                ) from error
        # Of an earlier version delta-rs numbers the commits wrongly; those of the newest are right.
        commits = newest.history(last - table.version() + 1)
        moment = _EPOCH + timedelta(milliseconds=commits[-1].get("timestamp", 0)) if commits else _newest_file(table)
        if as_of is not None and moment > as_of:
            raise InvalidSource(f"{address} has no version of {as_of.isoformat()}: it begins {moment.isoformat()}")
        return DeltaTable(address, table, moment)


class DeltaTable:
    """One version of a Delta table; see `lake_table.Table`."""

    def __init__(self, address: str, table: Any, moment: datetime) -> None:
        self._address = address
        self._table = table
        self.identity = str(table.metadata().id)
        self.version = str(table.version())
        self.moment = moment
        self.schema = plain_schema(pa.schema(table.schema().to_arrow()), label=address)
        self._dataset = self._readable()

    def _readable(self) -> Any:
        """Return the version as Arrow's dataset, or None if Arrow would read deleted rows or miss columns."""
        from deltalake.exceptions import DeltaProtocolError

        try:
            # Spark can have written INT96, which Arrow would read in nanoseconds, limited to 1677–2262.
            return self._table.to_pyarrow_dataset(
                parquet_read_options=pyarrow.dataset.ParquetReadOptions(coerce_int96_timestamp_unit=int96.UNIT)
            )
        except DeltaProtocolError:
            return None

    def files(self, filter_: Values) -> list[DataFile] | None:
        if self._dataset is None:
            return None
        with _errors(self._address):
            known = {
                file["path"]: file for file in pa.table(self._table.get_add_actions()).select(_SHOWN).to_pylist()
            }  # one per file
            found = []
            for path in self._with_rows_of(filter_):
                file = known.get(path, {})
                found.append(DataFile(path, file.get("size_bytes") or 0, file.get("num_records")))
            return found

    def _with_rows_of(self, filter_: Values) -> list[str]:
        """Return the paths of the files that can have matching rows, in the table's order.

        After a DELETE or UPDATE, delta-rs returns text bounds in a type that Arrow can't compare with text. Such a
        column skips no files; the rows are filtered when they are read.
        """
        found = [one.path for one in self._dataset.get_fragments()]
        for name, values in filter_.items():
            asked = self._expression({name: values})
            with suppress(pa.ArrowNotImplementedError):
                may = {one.path for one in self._dataset.get_fragments(asked)}
                found = [path for path in found if path in may]
        return found

    def rows(self, names: Sequence[str] | None, columns: Sequence[str], filter_: Values) -> Iterator[pa.RecordBatch]:
        with _errors(self._address, self.version):
            if self._dataset is None:
                yield from pa.RecordBatchReader.from_stream(self._selected(columns, filter_))
                return
            wanted = None if names is None else frozenset(names)
            fragments = [one for one in self._dataset.get_fragments() if wanted is None or one.path in wanted]
            if not fragments:
                return
            some = pa.dataset.FileSystemDataset(
                fragments, self._dataset.schema, self._dataset.format, self._dataset.filesystem
            )
            expected = self._expression(filter_)
            batches = some.to_batches(
                columns=list(dict.fromkeys([*columns, *filter_])),
                batch_size=limits.BATCH_ROWS // 4,
                batch_readahead=1,
                fragment_readahead=1,
            )
            for batch in batches:
                table = pa.Table.from_batches([batch])
                yield from (table if expected is None else table.filter(expected)).select(list(columns)).to_batches()

    def _selected(self, columns: Sequence[str], filter_: Values) -> Any:
        """Return a stream of rows from delta-rs. Its `scan` wraps INT96 outside 1677–2262."""
        from deltalake import QueryBuilder

        database = QueryBuilder(session_config={"datafusion.execution.parquet.coerce_int96": int96.UNIT})
        database.register("rows", self._table)
        names = ", ".join(map(_quoted, columns))
        where = "" if not filter_ else f" WHERE {_predicate(filter_)}"
        return database.execute(f"SELECT {names} FROM rows{where}")  # noqa: S608 - names and literals are quoted

    def lost(self, names: Sequence[str]) -> str | None:
        there = each(lambda name: look_at(f"{self._address}/{name}"), names)
        return next((name for name, file in zip(names, there, strict=True) if file is None), None)

    def feed(self, since: str) -> str | None:
        if self._table.metadata().configuration.get(_FEED) != "true":
            return f"it has no change data feed ({_FEED})"
        if self._dataset is None:
            return "it has deletion vectors or mapped columns"
        if int(since) > int(self.version):
            return f"version {since} is newer"
        return self._lost_since(int(since))

    def _lost_since(self, since: int) -> str | None:
        """Return the reason why the change feed after a version can't be read, or None if it can.

        A commit names the files of its changes (`cdc`), or the added and removed files; see the protocol.
        """
        problems: dict[int, str] = {}

        def changed(version: int) -> list[str]:
            try:
                with self._dataset.filesystem.open_input_file(f"_delta_log/{version:020}.json") as file:
                    actions = [json.loads(line) for line in file.read().splitlines() if line.strip()]
            except FileNotFoundError:
                problems[version] = f"commit {version} of its log was removed"
                return []
            settings = [action["metaData"].get("configuration", {}) for action in actions if "metaData" in action]
            if any(one.get(_FEED) != "true" for one in settings):
                problems[version] = f"its change data feed was off at version {version}"
            own = [action["cdc"]["path"] for action in actions if "cdc" in action]
            escaped = next((path for path in own if unquote(path) != path), None)
            if escaped is not None:  # delta-rs escapes names of folders twice
                problems[version] = f"delta-rs can't read the changes in {escaped}"
            other = [action[kind] for action in actions for kind in ("add", "remove") if kind in action]
            return [unquote(path) for path in own or (one["path"] for one in other if one.get("dataChange", True))]

        with _errors(self._address):
            commits = each(changed, range(since + 1, int(self.version) + 1))
            if problems:
                return problems[min(problems)]
            changed_files = [path for paths in commits for path in paths]
            lost = self.lost(changed_files)
            if lost is not None:
                return f"{lost} was removed"
            return self._wrapped_in(changed_files)

    def _wrapped_in(self, paths: Sequence[str]) -> str | None:
        """Return the reason why the feed over these files has wrong times, or None if it doesn't.

        The feed of delta-rs wraps INT96 outside 1677–2262, and has no setting for it.
        """
        if not any(pa.types.is_timestamp(entry.type) for entry in self.schema):
            return None

        def has_int96(path: str) -> bool:
            with self._dataset.filesystem.open_input_file(path) as file:
                return bool(int96.int96_columns(pq.read_metadata(file)))

        found = next((path for path, is_so in zip(paths, each(has_int96, paths), strict=True) if is_so), None)
        return None if found is None else f"{found} has times in INT96, which delta-rs reads wrongly in its feed"

    def changes(self, since: str, columns: Sequence[str], filter_: Values) -> Iterator[Batch]:
        with _errors(self._address, since):
            reader = pa.RecordBatchReader.from_stream(
                self._table.load_cdf(
                    starting_version=int(since) + 1,
                    ending_version=int(self.version),
                    columns=[*map(_quoted, columns), *_OWN],
                    predicate=_predicate(filter_),
                )
            )
            plain = plain_schema(reader.schema, label=self._address)
            for batch in reader:
                yield from _by_commit(pa.Table.from_batches([conform(batch, plain)]))

    def _expression(self, filter_: Values) -> Any:
        expression = None
        for name, values in filter_.items():
            if name not in self.schema.names:
                raise InvalidSource(
                    f"filter: {self._address} has no column {name!r}. {it_has(self.schema.names, name)}"
                )
            kind = self.schema.field(name).type
            try:
                typed = pa.array(list(values)).cast(kind)
            except pa.ArrowException as error:
                raise InvalidSource(f"filter: {name} is {kind}, which {list(values)!r} are not: {error}") from error
            one = pc.field(name).isin(typed)
            expression = one if expression is None else expression & one
        return expression


def _newest_file(table: Any) -> datetime:
    """Return the time of the table's newest file. Its log can be cleaned up to the last commit."""
    files = pa.table(table.get_add_actions()).column("modification_time")
    newest = pc.max(files.cast(pa.timestamp("ms", "UTC"))).as_py()
    return _EPOCH if newest is None else newest


_SHOWN: Final = ["path", "size_bytes", "num_records"]


def _by_commit(rows: pa.Table) -> Iterator[Batch]:
    """Yield the rows of a batch of the feed, grouped by version and by deletion."""
    names = [name for name in rows.column_names if name not in _OWN]
    kinds = pc.is_in(rows.column("_change_type"), pa.array(_GONE))
    for version in pc.unique(rows.column("_commit_version")).to_pylist():  # one a commit
        mine = pc.equal(rows.column("_commit_version"), version)
        for gone in (True, False):
            some = rows.filter(pc.and_(mine, kinds if gone else pc.invert(kinds))).select(names)
            for batch in some.to_batches():
                yield Batch(batch, gone, version)


def _predicate(filter_: Values) -> str | None:
    """Return the filter in the syntax of delta-rs."""
    if not filter_:
        return None
    parts = []
    for name, values in filter_.items():
        parts.append(f"{_quoted(name)} IN ({', '.join(map(_literal, values))})")
    return " AND ".join(parts)


def _quoted(name: str) -> str:
    """Return a column's name in the syntax of DataFusion."""
    return '"' + name.replace('"', '""') + '"'


def _literal(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return str(value)
    return "'" + str(value).replace("'", "''") + "'"


def store_options(address: str) -> dict[str, str]:
    """Return delta-rs's options for the storage, with the same access as the rest of this package."""
    if not address.startswith(S3):
        return {}
    from sitemap_etl.s3 import S3Client

    access = S3Client().access()
    known = {
        "aws_access_key_id": access.key,
        "aws_secret_access_key": access.secret,
        "aws_session_token": access.token,
        "aws_region": access.region or "us-east-1",
        "aws_endpoint_url": access.endpoint,
        "aws_skip_signature": None if access.key else "true",
        "allow_http": "true" if (access.endpoint or "").startswith("http://") else None,
        "timeout": f"{access.timeout:.0f}s",
        "connect_timeout": f"{access.connect_timeout:.0f}s",
        "max_retries": str(access.attempts - 1),
        "retry_timeout": f"{access.timeout:.0f}s",
    }
    return {name: value for name, value in known.items() if value is not None}


@contextmanager
def _errors(address: str, version: str = "") -> Iterator[None]:
    """Translate errors of delta-rs, and of Arrow over its files."""
    from deltalake.exceptions import DeltaError, TableNotFoundError

    try:
        yield
    except SitemapEtlError:
        raise
    except TableNotFoundError as error:
        raise InvalidSource(f"there is no Delta table at {address}") from error
    except (DeltaError, pa.ArrowException, OSError, ValueError) as error:
        raise _translated(error, address, version) from error


def _translated(error: Exception, address: str, version: str) -> SitemapEtlError:
    text = " ".join(re.sub(r"\x1b\[[0-9;]*m|↳", "", str(error)).split())[:400]
    if _REFUSED.search(text):
        return Denied(f"{address} may not be read: {text}")
    if version and _MISSING.search(text):
        return InvalidSource(
            f"{address}: a file of version {version} or later is gone, which VACUUM has probably removed: {text}. Name "
            "a newer version; a section with key: is read again with --full"
        )
    if _AWAY.search(text):
        return Unavailable(f"{address} did not answer: {text}")
    if _MISSING.search(text):
        return InvalidSource(f"there is no Delta table at {address}: {text}")
    return InvalidSource(f"{address} can't be read: {text}")
