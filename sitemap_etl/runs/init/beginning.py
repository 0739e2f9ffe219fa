"""Sources for a new site file: exports, lakehouse tables and database tables, each with its first rows."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import field
from datetime import timedelta
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import pyarrow as pa
import pyarrow.types as pt

from sitemap_etl import sources
from sitemap_etl.advice import shell_word
from sitemap_etl.connections import Connection, parse
from sitemap_etl.errors import ConfigError, InvalidSource
from sitemap_etl.extras import installed
from sitemap_etl.frozen import Frozen
from sitemap_etl.runs.init.sample import readable
from sitemap_etl.settings import CsvSource, IcebergSource, TableSource
from sitemap_etl.sources import Session
from sitemap_etl.sources.databases.catalog import LIMITED, Catalog, Indexes, Table
from sitemap_etl.sources.files.files import NothingFound
from sitemap_etl.sources.files.recognition import Recognized, recognize
from sitemap_etl.sources.lake import lake
from sitemap_etl.sources.parameters import quoted
from sitemap_etl.stages.run import Environment

ROWS: Final = 1_000
"""Rows that are examined."""
_SHOWN: Final = 60
"""Maximum characters of a value in a note."""
_SESSION: Final = Session("sitemap_etl init", timeout=timedelta(minutes=5), lock_timeout=timedelta(seconds=30))
_ADDRESS: Final = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://|jdbc:|\{")
_CONNECTION_ID: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_TABLE_NAME: Final = re.compile(r"[\w-]+(\.[\w-]+){2,}")
_EXPORT_NAME: Final = re.compile(r"\.(csv|tsv|txt|jsonl?|ndjson|parquet|pq|gz|bz2|zst|xz|zip)$", re.IGNORECASE)
_DATABASE_NAME: Final = re.compile(r"\.(duckdb|ddb|sqlite3?|db3?)$", re.IGNORECASE)
_VARIABLE: Final = re.compile(r"[A-Za-z0-9_]+")
"""Connection IDs that an environment variable can name."""
_DATABASE_FILES: Final = ((0, b"SQLite format 3\0", "sqlite"), (8, b"DUCK", "duckdb"))
"""Signatures of database files: position, bytes, dialect. https://www.sqlite.org/fileformat.html,
https://duckdb.org/docs/stable/internals/storage
"""


class Beginning(Frozen):
    """Source of a future section. `source`: keys of `from`. `rows`: its first rows. `folders`: partition columns.

    `hints`: comments about a known export. `relation`: the name after FROM, in the syntax of `dialect`. For a database
    table: its `indexes`, and an estimate of its rows.
    """

    name: str
    source: Mapping[str, Any]
    rows: pa.Table
    notes: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()
    relation: str = "source"
    dialect: str = "duckdb"
    indexes: Indexes = field(default_factory=Indexes)
    about: int | None = None


class Database(Frozen):
    """A database with its connection ID, and notes on how to configure that ID."""

    id: str
    connection: Connection
    notes: tuple[str, ...] = field(default=())

    @property
    def catalog(self) -> Catalog:
        """Tables of the database."""
        return Catalog(self.connection, _SESSION, self.id)

    def begin(self, table: Table) -> Beginning:
        """Return a section of one table. Binary columns are skipped, because they can be pictures."""
        dialect = self.connection.dialect
        relation = table.relation(dialect)
        limit = f" LIMIT {ROWS}" if dialect in LIMITED else ""
        every = f"SELECT * FROM {relation}{limit}"  # noqa: S608 - a table of its own
        schema = sources.probe_database(self.connection, every, session=_SESSION, label=self.id)
        schema = pa.schema([entry for entry in schema if not pt.is_binary(entry.type)])
        columns = ", ".join(quoted(name, dialect) for name in schema.names) or "1 AS nothing"
        query = f"SELECT {columns} FROM {relation}{limit}"  # noqa: S608 - as above
        (split,) = sources.plan_database(self.connection, query, session=_SESSION, label=self.id)
        batches = sources.read(split, connection=self.connection, query=query, session=_SESSION, batch_rows=ROWS)
        return Beginning(
            section_name(table.name),
            {"database": self.id},
            _first(batches, schema),
            relation=relation,
            dialect=dialect,
            indexes=self.catalog.indexes(table),
            about=table.rows,
        )


def is_sitemap(text: str) -> bool:
    """Return True if the text is the address of a site or a sitemap."""
    return bool(re.match(r"https?://", text, re.IGNORECASE) or re.search(r"\.(xml|xml\.gz)$", text, re.IGNORECASE))


def find_database(text: str, environment: Environment) -> Database | None:
    """Return the database of a connection ID, an address or a database file, or None if the text is something else.

    Raise ConfigError if the address can't be parsed.
    """
    match = _ADDRESS.match(text)
    if match is not None and (match["scheme"] or "").lower() not in ("s3", "file"):
        try:
            connection = parse(text)
        except ConfigError as error:
            raise ConfigError([f"--from: {problem}" for problem in error.problems]) from None
        return _named(connection, text, environment)
    if match is not None:
        return None
    path = Path(text)
    if path.exists():
        kind = _kind_of_file(path)
        return None if kind is None else _named(parse(f"{kind}:///{quote(str(path.absolute()))}"), None, environment)
    if _CONNECTION_ID.fullmatch(text) and not _EXPORT_NAME.search(text):
        try:
            return Database(text, environment.connection(text))
        except ConfigError:
            if _is_known(text, environment):
                raise
    return None


def _kind_of_file(path: Path) -> str | None:
    if not path.is_file():
        return None
    with path.open("rb") as file:
        first = file.read(16)
    return next((kind for at, mark, kind in _DATABASE_FILES if first[at:].startswith(mark)), None)


def _is_known(connection_id: str, environment: Environment) -> bool:
    return f"AIRFLOW_CONN_{connection_id.upper()}" in environment.environ


def _named(connection: Connection, text: str | None, environment: Environment) -> Database:
    """Return the database with the connection ID that the environment has for it, or a proposed one."""
    if text is None or connection.dialect in ("sqlite", "duckdb"):
        text = f"{connection.dialect}:///{quote(str(Path(connection.schema).absolute()))}"  # from any folder the same
    for variable, value in environment.environ.items():
        if variable.startswith("AIRFLOW_CONN_") and value.strip() == text:
            return Database(variable.removeprefix("AIRFLOW_CONN_").lower(), connection)
    name = section_name(Path(connection.schema).stem, "catalog")
    while _is_known(name, environment):
        name += "_2"
    shown = connection.redact(text)
    secret = "" if shown == text else ", with the password in place of ***"
    note = f"the site file names the connection {name}, which has to be known to runs{secret}"
    return Database(name, connection, (f"{note}: export AIRFLOW_CONN_{name.upper()}={shell_word(shown)}",))


def begin_export(text: str, folder: Path) -> Beginning:
    """Return a section of an export or a lakehouse table. `folder`: folder of the site file, to which paths are
    relative.

    Raise InvalidSource, Refused or Unavailable if the source can't be read.
    """
    source = _recognized(text)
    notes: list[str] = []
    if isinstance(source, TableSource):
        asked = lake.TableSource(source.kind, source.address)
        table = lake.find_table(asked)
        splits = lake.plan_table(table, asked)
    else:
        splits = sources.plan_export(source, note=notes.append)
    if isinstance(source, IcebergSource) and source.iceberg.endswith(".metadata.json"):
        notes.append(
            "iceberg: a metadata file is the table of one moment: once pyiceberg knows its catalog, name the table "
            "(catalog.namespace.table)"
        )
    keys = source.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    keys = {source.kind: keys.pop(source.kind), **keys}
    keys = {key: value[0] if isinstance(value, list) and len(value) == 1 else value for key, value in keys.items()}
    stem = re.sub(r"[*?\[].*$", "", text).rstrip("/").rpartition("/")[2]
    if isinstance(source, IcebergSource) and "/" not in source.iceberg:
        name = stem.rpartition(".")[2]
    else:
        keys[source.kind], name = _relative(keys[source.kind], folder), stem.partition(".")[0]
    rows = _first(sources.read(splits[0], batch_rows=ROWS), sources.columns(splits[0]))
    if isinstance(source, CsvSource) and not source.encoding.startswith("utf"):
        notes.append(f"encoding {source.encoding} is a guess: it is not UTF-8{_beyond_ascii(rows)}")
    if isinstance(source, CsvSource) and source.null is not None:
        notes.append(f"{', '.join(source.null)} are read as missing values: see null:")
    return Beginning(section_name(name), keys, rows, tuple(notes), tuple(splits[0].detail.get("partitions", ())))


def _beyond_ascii(rows: pa.Table) -> str:
    """Return a question with a text that shows if the encoding is right, or "" if all texts are ASCII."""
    texts = (value for row in rows.to_pylist() for value in (*row, *row.values()) if value is not None)
    found = next((text for text in texts if not text.isascii()), None)
    return "" if found is None else f". Is {found[:_SHOWN]!r} right?"


def _recognized(text: str) -> Recognized:
    if not text:
        raise InvalidSource("--from: expected an export, a table, a database or an address, got an empty value")
    try:
        return recognize(text)
    except NothingFound as error:
        if "/" in text or _EXPORT_NAME.search(text) or _DATABASE_NAME.search(text):
            raise
        if _TABLE_NAME.fullmatch(text) and installed("pyiceberg"):
            return IcebergSource(iceberg=text)
        if not _VARIABLE.fullmatch(text):
            raise
        raise InvalidSource(
            f"--from {text}: there is no file or folder of this name, and no connection of this ID: set "
            f"AIRFLOW_CONN_{text.upper()} to its URI, for example postgresql://user:password@host:5432/database"
        ) from error


def _first(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
    """Return the first rows; the rest is not read."""
    found: list[pa.RecordBatch] = []
    with closing(batches):  # type: ignore[type-var]  # always a generator
        for batch in batches:
            found.append(batch)
            if sum(one.num_rows for one in found) >= ROWS:
                break
    return readable((pa.Table.from_batches(found) if found else schema.empty_table()).slice(0, ROWS))


def _relative(address: str, folder: Path) -> str:
    """Return a path relative to the site file if both are below the working folder."""
    path, here = Path(address).absolute(), Path.cwd()
    if "://" in address:
        return address
    near = path.is_relative_to(folder.absolute()) or (
        path.is_relative_to(here) and folder.absolute().is_relative_to(here)
    )
    return os.path.relpath(path, folder.absolute()) if near else str(path)


def section_name(text: str, otherwise: str = "pages") -> str:
    """Return a name for a section or connection: lower-case letters, digits and _."""
    plain = re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")
    return plain if re.match(r"[a-z]", plain) else otherwise


def distinct(names: Sequence[str]) -> list[str]:
    """Return the names, with a number added to repeated ones."""
    found: list[str] = []
    for name in names:
        number, other = 2, name
        while other in found:
            other, number = f"{name}_{number}", number + 1
        found.append(other)
    return found
