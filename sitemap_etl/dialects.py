"""Facts about each kind of database: one row per kind, which all other modules ask.

To add a kind, add its row here and the module that reads it (`driver`). A kind without a row is read through an ADBC or
SQLAlchemy driver, with the defaults.
"""

from __future__ import annotations

from typing import Final, Literal

from sitemap_etl.frozen import Frozen

KeyKind = Literal["int", "date", "timestamp", "timestamptz", "uuid", "text", "bytes"]
"""Kinds of split columns."""
ONE_IN: Final = 64
"""A sample has one row in this many."""

_COMMON: Final = (r"--[^\n]*", r"::", r'"(?:[^"]|"")*"')
_STANDARD_TEXT: Final = r"'(?:[^']|'')*'"
_ESCAPED_TEXT: Final = r"'(?:[^'\\]|\\.|'')*'"
_DOLLAR_TEXT: Final = r"(?<!\w)\$(?P<tag>\w*)\$.*?\$(?P=tag)\$"
_POSTGRES_SYNTAX: Final = (r"(?<!\w)[eE]" + _ESCAPED_TEXT, _STANDARD_TEXT, *_COMMON, _DOLLAR_TEXT)
_TIME_CALLS: Final = r"now|sysdate|getdate|curdate|curtime|unix_timestamp|utc_\w+|\w+_timestamp"


class Dialect(Frozen):
    """One kind of database. The defaults are for kinds without a row."""

    name: str
    aliases: tuple[str, ...] = ()
    """Other schemes of its connections."""
    driver: str = "sitemap_etl.sources.databases.adbc_drivers"
    """Module that reads it."""
    adbc: str | None = None
    """Name of its ADBC driver, if it is another name."""
    sqlalchemy: str = "the SQLAlchemy dialect and driver of that database"
    """Package that SQLAlchemy needs for it."""
    address: Literal["url", "libpq", "file", "account", "project", "host"] = "url"
    """Format of its driver's address. `account`, `project`, `host`: formats of ADBC drivers."""
    suffixes: tuple[str, ...] = ()
    """Endings of its files' names."""
    signature: tuple[int, bytes] | None = None
    """Position and bytes that its files have."""

    syntax: tuple[str, ...] = (_STANDARD_TEXT, *_COMMON)
    """Patterns of quoted text, line comments and casts."""
    nested_comments: bool = False
    quote: str = '"'
    """Mark around names. SQLite reads an unknown name in double quotes as text."""
    lower_case: bool = False
    """A name without quotes stays in lower case."""
    limit: bool = False
    """LIMIT is supported. For other kinds, reading stops early."""
    concat: str = "{} || {}"
    ltrim: str = "ltrim({}, '/')"
    from_hex: str = "unhex({})"

    clock: str = "SELECT current_timestamp AS now"
    time_calls: str = _TIME_CALLS
    """Pattern of the functions that return the time."""

    types: Literal["columns", "values", "rows"] = "rows"
    """Owner of a type: a column as declared, each value by itself, or the first rows of a result."""
    snapshots: bool = False
    """Several connections can read one snapshot."""
    chance: str | None = None
    """Condition that is true for one row in `ONE_IN`. Without it, splits have equal widths."""
    blocks: str | None = None
    """A sample of a table's blocks, after FROM."""
    trials: tuple[KeyKind, ...] = ("int", "date")
    """Kinds of keys with bounds beyond every value. In SQLite, text has such bounds, because it is ordered by bytes."""
    text_type: str | None = None
    """SELECT of the declared type `k` of a text column."""
    ordered_texts: tuple[str, ...] = ()
    """Such types whose comparison with a bound matches their order."""

    tables: str | None = None
    """Tables and views with estimated row counts."""
    last_row: str | None = None
    """SELECT of the number `n` of a table's last row, for databases without estimates."""
    indexes: str | None = None
    """First column of each index. `is_unique`: the index is unique, has only this column, and it is never null."""
    columns: str | None = None
    """Columns of the name `:split_column`, each with its table."""

    @property
    def time(self) -> str:
        """Pattern of the time at which a statement runs, as its SQL names it."""
        words = r"current_(?:timestamp|date|time)|localtime(?:stamp)?|sysdate|systimestamp"
        return rf"\b(?:{self.time_calls})[ \t]*\(|\b(?:{words})\b|'now'"

    def quoted(self, *names: str) -> str:
        """Return the quoted name of a column or table, whatever characters it has; with several names, `"a"."b"`."""
        mark = self.quote
        return ".".join(mark + name.replace(mark, mark * 2) + mark for name in names)


POSTGRESQL: Final = Dialect(
    "postgresql",
    aliases=("postgres",),
    driver="sitemap_etl.sources.databases.postgres",
    address="libpq",
    syntax=_POSTGRES_SYNTAX,
    nested_comments=True,
    lower_case=True,
    limit=True,
    from_hex="decode({}, 'hex')",
    types="columns",
    snapshots=True,
    time_calls=r"now|(?:transaction|statement|clock)_timestamp|timeofday|getdate|sysdate",  # the last two in Redshift
    chance=f"random() < {1 / ONE_IN}",
    blocks=f"{{}} TABLESAMPLE SYSTEM ({100 / ONE_IN})",
    trials=("int", "date", "uuid"),
    # Without a row, the type of an expression is all that is looked at.
    text_type="SELECT pg_typeof((SELECT {} FROM {} LIMIT 0))::text AS k",
    # A citext, an enum or a char(n) is ordered in another way than the text it is compared with.
    ordered_texts=("text", "character varying", "uuid"),
    tables="""
        SELECT CASE WHEN n.nspname = current_schema() THEN '' ELSE n.nspname::text END AS place,
            c.relname::text AS name, c.relkind IN ('v', 'm') AS is_view,
            CASE WHEN c.reltuples >= 0 AND c.relkind <> 'v' THEN c.reltuples::bigint END AS rows_about
        FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
        WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND NOT c.relispartition
            AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')
            AND has_table_privilege(c.oid, 'SELECT')""",
    indexes="""
        SELECT a.attname::text AS name, i.indisprimary AS is_primary,
            i.indisunique AND i.indnkeyatts = 1 AND a.attnotnull AS is_unique
        FROM pg_catalog.pg_index i
        JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
        WHERE i.indrelid = to_regclass(:relation) AND i.indisvalid AND i.indpred IS NULL""",
    columns="""
        SELECT n.nspname::text AS place, c.relname::text AS name, NOT a.attnotnull AS nullable,
            EXISTS (SELECT 1 FROM pg_catalog.pg_index i
                    WHERE i.indrelid = c.oid AND i.indisprimary AND i.indkey::text = a.attnum::text) AS is_primary
        FROM pg_catalog.pg_attribute a
        JOIN pg_catalog.pg_class c ON c.oid = a.attrelid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
        WHERE a.attname = :split_column AND a.attnum > 0 AND NOT a.attisdropped AND c.relkind IN ('r', 'p')""",
)
MYSQL: Final = Dialect(
    "mysql",
    aliases=("mariadb",),
    driver="sitemap_etl.sources.databases.mysql",
    syntax=(_ESCAPED_TEXT, r"#[^\n]*", r"--[^\n]*", r'"(?:[^"\\]|\\.|"")*"', r"`[^`]*`"),
    quote="`",
    lower_case=True,
    limit=True,
    concat="concat({}, {})",
    ltrim="trim(LEADING '/' FROM {})",
    clock="SELECT utc_timestamp(6) AS now",
    types="columns",
    chance=f"rand() < {1 / ONE_IN}",
    tables="""
        SELECT CASE WHEN table_schema = database() THEN '' ELSE table_schema END AS place, table_name AS name,
            table_rows AS rows_about, table_type LIKE '%VIEW%' AS is_view
        FROM information_schema.tables
        WHERE table_schema = coalesce(database(), table_schema)
            AND table_schema NOT IN ('information_schema', 'mysql', 'performance_schema', 'sys')""",
    indexes="""
        SELECT s.column_name AS name, s.index_name = 'PRIMARY' AS is_primary,
            s.non_unique = 0 AND s.nullable <> 'YES' AND 1 = (
                SELECT count(*) FROM information_schema.statistics o WHERE o.table_schema = s.table_schema
                AND o.table_name = s.table_name AND o.index_name = s.index_name) AS is_unique
        FROM information_schema.statistics s WHERE s.seq_in_index = 1
            AND s.table_schema = coalesce(nullif(:place, ''), database()) AND s.table_name = :name""",
    columns="""
        SELECT c.table_schema AS place, c.table_name AS name, c.is_nullable = 'YES' AS nullable,
            c.column_key = 'PRI' AND 1 = (
                SELECT count(*) FROM information_schema.columns o WHERE o.table_schema = c.table_schema
                AND o.table_name = c.table_name AND o.column_key = 'PRI') AS is_primary
        FROM information_schema.columns c
        WHERE c.column_name = :split_column AND c.table_schema = database()""",
)
SQLITE: Final = Dialect(
    "sqlite",
    driver="sitemap_etl.sources.databases.sqlite",
    address="file",
    suffixes=(".sqlite", ".sqlite3", ".db", ".db3"),
    signature=(0, b"SQLite format 3\0"),  # https://www.sqlite.org/fileformat.html
    syntax=(_STANDARD_TEXT, *_COMMON, r"`[^`]*`", r"\[[^\]]*\]"),
    quote="`",
    lower_case=True,
    limit=True,
    clock="SELECT strftime('%Y-%m-%dT%H:%M:%fZ', 'now') AS now",
    types="values",
    chance=f"random() % {ONE_IN} = 0",
    trials=("int", "text"),
    tables="""
        SELECT '' AS place, name, NULL AS rows_about, type = 'view' AS is_view
        FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'""",
    last_row="SELECT max(_rowid_) AS n FROM {}",
    indexes="""
        SELECT c.name AS name, true AS is_primary, (SELECT max(pk) FROM pragma_table_info(:name)) = 1 AS is_unique
        FROM pragma_table_info(:name) c WHERE c.pk = 1
        UNION ALL SELECT i.name, false,
            l."unique" AND t."notnull" AND (SELECT count(*) FROM pragma_index_info(l.name)) = 1
        FROM pragma_index_list(:name) l JOIN pragma_index_info(l.name) i JOIN pragma_table_info(:name) t
        WHERE i.seqno = 0 AND t.name = i.name AND NOT l.partial AND l.origin <> 'pk'""",
    columns="""
        SELECT '' AS place, t.name AS name, c."notnull" = 0 AND c.pk = 0 AS nullable,
            c.pk = 1 AND (SELECT max(o.pk) FROM pragma_table_info(t.name) o) = 1 AS is_primary
        FROM sqlite_master t JOIN pragma_table_info(t.name) c
        WHERE c.name = :split_column AND t.type = 'table'""",
)
DUCKDB: Final = Dialect(
    "duckdb",
    driver="sitemap_etl.sources.databases.duckdb_file",
    address="file",
    suffixes=(".duckdb", ".ddb"),
    signature=(8, b"DUCK"),  # https://duckdb.org/docs/stable/internals/storage
    syntax=_POSTGRES_SYNTAX,
    lower_case=True,
    limit=True,
    time_calls=r"now|today|ago|transaction_timestamp|(?:get_)?current_(?:date|time\w*|local\w+)|localtime\w*",
    types="columns",
    chance=f"random() < {1 / ONE_IN}",
    tables="""
        SELECT CASE WHEN schema_name = current_schema() THEN '' ELSE schema_name END AS place, table_name AS name,
            estimated_size AS rows_about, false AS is_view FROM duckdb_tables() WHERE NOT internal
        UNION ALL SELECT CASE WHEN schema_name = current_schema() THEN '' ELSE schema_name END, view_name, NULL, true
        FROM duckdb_views() WHERE NOT internal""",
    indexes="""
        SELECT constraint_column_names[1] AS name, constraint_type = 'PRIMARY KEY' AS is_primary,
            len(constraint_column_names) = 1 AND constraint_type = 'PRIMARY KEY' AS is_unique
        FROM duckdb_constraints() WHERE constraint_type IN ('PRIMARY KEY', 'UNIQUE')
            AND schema_name = coalesce(nullif(:place, ''), current_schema()) AND table_name = :name""",
    columns="""
        SELECT c.schema_name AS place, c.table_name AS name, c.is_nullable AS nullable, EXISTS (
            SELECT 1 FROM duckdb_constraints() k WHERE k.table_oid = c.table_oid
            AND k.constraint_type = 'PRIMARY KEY' AND k.constraint_column_names = [c.column_name]) AS is_primary
        FROM duckdb_columns() c WHERE c.column_name = :split_column AND NOT c.internal""",
)
GRPC: Final = Dialect("grpc", adbc="flightsql", address="host")
"""Flight SQL, also with +tls, +tcp or +unix behind its scheme."""
_ROWS: Final = (
    POSTGRESQL,
    MYSQL,
    SQLITE,
    DUCKDB,
    Dialect("mssql", sqlalchemy="pyodbc", time_calls=_TIME_CALLS + r"|sysdatetime\w*|sysutcdatetime|getutcdate"),
    Dialect("oracle", sqlalchemy="oracledb"),
    Dialect("snowflake", sqlalchemy="snowflake-sqlalchemy", address="account"),
    Dialect("bigquery", sqlalchemy="sqlalchemy-bigquery", address="project"),
    Dialect("redshift", sqlalchemy="sqlalchemy-redshift"),
    Dialect("trino", sqlalchemy="trino[sqlalchemy]"),
    Dialect("databricks", sqlalchemy="databricks-sqlalchemy"),
    Dialect("clickhouse", sqlalchemy="clickhouse-sqlalchemy", time_calls=_TIME_CALLS + "|now64|today|yesterday"),
    GRPC,
    Dialect("flightsql", address="host"),
)
DIALECTS: Final = {name: row for row in _ROWS for name in (row.name, *row.aliases)}
"""The rows by the schemes of connections."""


def dialect_of(scheme: str) -> Dialect:
    """Return the kind of a database by its connection's scheme, such as `postgres` or `mysql+pymysql`."""
    kind = scheme.partition("+")[0]
    return DIALECTS.get(kind) or Dialect(kind)


def dialect_of_file(first: bytes) -> Dialect | None:
    """Return the kind of a database file by its first 16 bytes, or None if it is another file."""
    for row in DIALECTS.values():
        if row.signature is not None and first[row.signature[0] :].startswith(row.signature[1]):
            return row
    return None


def database_suffixes() -> tuple[str, ...]:
    """Return the endings of the names of database files."""
    return tuple(suffix for row in DIALECTS.values() for suffix in row.suffixes)
