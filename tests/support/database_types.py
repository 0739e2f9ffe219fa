"""The tables of docs/reference/databases.md: types of real servers, and the types they become.

.venv/bin/python -m tests.support.database_types docs/reference/databases.md    # rewrites them
"""

from __future__ import annotations

import io
import re
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from sitemap_etl import sources
from sitemap_etl.connections import parse
from tests.support.mariadb import mariadb_server, server_program
from tests.support.postgres import Postgres, running_postgres

BLOCK: Final = re.compile(r"(<!-- types: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)

POSTGRESQL: Final = (
    ("smallint", "1::smallint"), ("integer", "1"), ("bigint", "1::bigint"), ("oid", "4000000000::oid"),
    ("real", "1.5::real"), ("double precision", "1.5::float8"), ("numeric(10,2)", "12.50::numeric(10,2)"),
    ("numeric(40,2)", "12.50::numeric(40,2)"), ("numeric", "12.5::numeric"),
    ("numeric NaN", "'NaN'::numeric(10,2)"), ("money", "'12.50'::money"), ("boolean", "true"),
    ("text, varchar", "'größe'::text"), ("citext", "'größe'::citext"), ("enum", "'groß'::size"),
    ("char(3)", "'x'::char(3)"),
    ("uuid", "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid"), ("json", "'{\"a\": 1}'::json"),
    ("jsonb", "'{\"a\": 1}'::jsonb"), ("bytea", "'\\x00ff'::bytea"), ("date", "date '2026-01-02'"),
    ("timestamp", "timestamp '2026-01-02 03:04:05'"), ("timestamptz", "timestamptz '2026-01-02 03:04:05+01'"),
    ("infinity", "'infinity'::timestamptz"), ("BC", "date '0044-03-15 BC'"), ("time", "time '10:00'"),
    ("timetz", "timetz '10:00+01'"), ("interval", "interval '1 month 2 hours'"), ("inet", "inet '10.0.0.1'"),
    ("bit, varbit", "bit '101'"), ("point", "point '(1,2)'"), ("ranges", "int4range(1, 5)"),
    ("tsvector", "to_tsvector('simple', 'a b')"), ("a domain", "'7'::amount"),
    ("a composite type", "row(1, 'x')::pair"), ("a record", "row(1, 'x')"), ("integer[]", "ARRAY[1, 2]"),
    ("text[]", "ARRAY['a', NULL]"), ("uuid[]", "ARRAY['a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid]"),
    ("jsonb[]", "ARRAY['{\"a\": 1}'::jsonb]"), ("numeric[]", "ARRAY[1.5, 9007199254740993]"),
    ("money[]", "ARRAY['1'::money]"), ("citext[]", "ARRAY['größe'::citext]"), ("enum[]", "ARRAY['groß'::size]"),
    ("a composite type[]", "ARRAY[row(1, 'x')::pair]"),
    ("an array of arrays", "ARRAY[[1, 2], [3, 4]]"), ("NULL", "NULL"),
)  # fmt: skip
POSTGRESQL_TYPES: Final = (
    "CREATE TYPE pair AS (a int, b text)",
    "CREATE DOMAIN amount AS int",
    "CREATE TYPE size AS ENUM ('klein', 'groß')",
    # The server of the tests has no extensions. As a type this is what the extension citext makes: one of its own, with
    # functions of its own names, that goes over the wire as text.
    "CREATE TYPE citext",
    "CREATE FUNCTION citextin(cstring) RETURNS citext AS 'textin' LANGUAGE internal IMMUTABLE STRICT",
    "CREATE FUNCTION citextout(citext) RETURNS cstring AS 'textout' LANGUAGE internal IMMUTABLE STRICT",
    "CREATE FUNCTION citextrecv(internal) RETURNS citext AS 'textrecv' LANGUAGE internal STABLE STRICT",
    "CREATE FUNCTION citextsend(citext) RETURNS bytea AS 'textsend' LANGUAGE internal STABLE STRICT",
    (
        "CREATE TYPE citext (INPUT = citextin, OUTPUT = citextout, RECEIVE = citextrecv, SEND = citextsend, "
        "INTERNALLENGTH = VARIABLE, STORAGE = extended, CATEGORY = 'S', COLLATABLE = true)"
    ),
    "CREATE CAST (citext AS text) WITHOUT FUNCTION AS IMPLICIT",
)
MYSQL: Final = (
    ("TINYINT … BIGINT", "1"), ("BIGINT UNSIGNED", "CAST(18446744073709551615 AS UNSIGNED)"), ("BOOLEAN", "true"),
    ("BIT(10)", "bits"), ("YEAR", "made"), ("DECIMAL(12,2)", "CAST(12.50 AS DECIMAL(12,2))"),
    ("DECIMAL(65,30)", "CAST(-0.5 AS DECIMAL(65,30))"), ("FLOAT", "real_number"), ("DOUBLE", "1.5e0"),
    ("DATE", "CAST('2026-01-02' AS DATE)"), ("a zero date", "zero"),
    ("DATETIME", "CAST('2026-01-02 03:04:05' AS DATETIME)"), ("TIMESTAMP", "seen"),
    ("TIME", "CAST('-10:30:00' AS TIME)"), ("CHAR, VARCHAR, TEXT", "'größe'"), ("ENUM", "size"), ("SET", "tags"),
    ("JSON", "JSON_OBJECT('a', 1)"), ("UUID (MariaDB)", "id"), ("BINARY, VARBINARY, BLOB", "raw"),
    ("POINT", "place"), ("NULL", "NULL"),
)  # fmt: skip
MYSQL_TABLE: Final = (
    "DROP TABLE IF EXISTS types",
    (
        "CREATE TABLE types (bits BIT(10), made YEAR, real_number FLOAT, zero DATE, seen TIMESTAMP, "
        "size ENUM('klein','groß'), tags SET('a','b'), id UUID, raw VARBINARY(9), place POINT)"
    ),
    (
        "INSERT INTO types VALUES (b'101', 2026, 0.1, '0000-00-00', '2026-01-02 03:04:05', 'groß', 'a,b', "
        "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', x'00ff', NULL)"
    ),
)
SQLITE: Final = (
    ("all values whole", "1"), ("real, or real and whole", "1.5"), ("text, or text and others", "'größe'"),
    ("blob", "x'00ff'"), ("only NULL", "NULL"),
)  # fmt: skip
DUCKDB: Final = (
    ("TINYINT … BIGINT", "1::TINYINT"), ("UBIGINT", "18446744073709551615::UBIGINT"),
    ("HUGEINT", "12345678901234567890::HUGEINT"), ("UHUGEINT", "1::UHUGEINT"),
    ("DECIMAL(10,2)", "12.50::DECIMAL(10,2)"), ("FLOAT", "1.5::FLOAT"), ("DOUBLE", "1.5::DOUBLE"),
    ("BOOLEAN", "true"), ("VARCHAR", "'größe'"), ("ENUM", "'ok'::ENUM('ok', 'sad')"),
    ("UUID", "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::UUID"), ("BLOB", "'\\x00\\xFF'::BLOB"), ("BIT", "'101'::BIT"),
    ("DATE", "DATE '2026-01-02'"), ("TIMESTAMP", "TIMESTAMP '2026-01-02 03:04:05'"),
    ("TIMESTAMPTZ", "TIMESTAMPTZ '2026-01-02 03:04:05+01'"), ("infinity", "'infinity'::DATE"),
    ("TIME", "TIME '10:00:00'"), ("TIMETZ", "'10:00:00+01'::TIMETZ"), ("INTERVAL", "INTERVAL '1 month 2 hours'"),
    ("LIST, ARRAY", "[1, 2]"), ("STRUCT", "{'a': 1}"), ("MAP", "MAP {'de': '/de'}"),
    ("UNION", "union_value(n := 2)"), ("NULL", "NULL"),
)  # fmt: skip


def table(uri: str, types: Sequence[tuple[str, str]], more: str = "") -> str:
    """Return the result of a SELECT of all these expressions as rows of Markdown. `more`: appended lines."""
    select = ", ".join(f"{expression} AS c{at}" for at, (_, expression) in enumerate(types))
    connection, query = parse(uri), f"SELECT {select} {more}"
    (split,) = sources.plan_database(connection, query)
    (batch,) = sources.read(split, connection=connection, query=query)
    staged = io.BytesIO()
    pq.write_table(pa.Table.from_batches([batch]), staged)
    assert pq.read_table(staged).equals(pa.Table.from_batches([batch])), "what arrives is staged as it is"
    lines = ["| type | arrives as | value |", "|---|---|---|"]
    for (name, _), column in zip(types, batch.columns, strict=True):
        cells = (name, f"`{column.type}`", f"`{_shown(column)}`")
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def _shown(column: pa.Array) -> str:
    (value,) = column.to_pylist()
    if value is None:
        return "null"
    if pa.types.is_nested(column.type) or isinstance(value, bytes):
        return repr(value)
    return str(column.cast(pa.string())[0])


def postgresql(server: Postgres) -> str:
    """Return the table of PostgreSQL, for a database without user-defined types."""
    server.execute(*POSTGRESQL_TYPES)
    return table(server.uri, POSTGRESQL)


def sqlite(folder: Path) -> str:
    """Return the table of SQLite."""
    (folder / "types.db").touch()
    return table(f"sqlite:///{folder / 'types.db'}", SQLITE)


def duckdb_file(folder: Path) -> str:
    """Return the table of DuckDB."""
    duckdb.connect(str(folder / "types.duckdb")).close()
    return table(f"duckdb:///{folder / 'types.duckdb'}", DUCKDB)


def with_tables(text: str, tables: dict[str, str]) -> str:
    """Return the document with these tables inserted."""
    return BLOCK.sub(lambda found: found[1] + tables.get(found[2], found[0]) + found[3], text)


def main(document: Path) -> None:
    """Rewrite the tables of the document."""
    program = server_program()
    assert program is not None, "MariaDB is not installed (package mariadb-server)"
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        maria = stack.enter_context(mariadb_server(program))
        maria.execute(*MYSQL_TABLE)
        tables = {
            "postgresql": postgresql(stack.enter_context(running_postgres()).database()),
            "mysql": table(maria.uri, MYSQL, "FROM types"),
            "sqlite": sqlite(folder),
            "duckdb": duckdb_file(folder),
        }
    document.write_text(with_tables(document.read_text("utf-8"), tables), "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
