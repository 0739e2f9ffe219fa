"""Sources of a section: a database, exports (CSV, JSON lines, Parquet), or tables of a lakehouse."""

from __future__ import annotations

import codecs
from datetime import datetime, timedelta
from typing import Annotated, Any, ClassVar, Final, Literal, Self, cast

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    ModelWrapValidatorHandler,
    Strict,
    Tag,
    field_validator,
    model_validator,
)

from sitemap_etl import limits
from sitemap_etl.settings.kinds import (
    Column,
    ConnectionId,
    Duration,
    Export,
    File,
    Flag,
    Integer,
    Margin,
    OneOrMore,
    OneOrMoreValues,
    Settings,
    Text,
    as_written,
    matching,
    once,
    one_of,
    unlike,
    wrong,
)
from sitemap_etl.settings.secret import Parameter
from sitemap_etl.settings.written import Written

Sql = Annotated[str, AfterValidator(as_written)]
"""A SELECT, whose lines are counted by a database as by the file."""
_BOUND = frozenset({"now", "since", "site", "split_from", "split_to"})


class Split(Settings):
    """Reads the SELECT in parallel, by ranges of a column."""

    column: Column = Field(
        description="Column whose ranges are read in parallel, ideally one with an index. "
        "The SELECT must return it, or use `:split_from` and `:split_to` itself.",
        examples=["id"],
    )
    parts: Integer = Field(
        default=8, ge=1, le=limits.SPLITS_PER_SECTION, description="Number of ranges; each is one extract task."
    )
    bounds_from: Text | None = Field(
        default=None,
        description="Table whose `column` is looked at to find the ranges, so that a heavy SELECT is not run for them.",
        examples=["product", "shop.product"],
    )


class Expect(Settings):
    """Conditions that a source must meet before it is read, and how long a run waits for them."""

    marker: Text | None = Field(
        default=None,
        description="File that its writer puts last: a name in the folder of the export, or a full path.",
        examples=["_SUCCESS"],
    )
    manifest: Text | None = Field(
        default=None,
        description="List of the export's files, as JSON, CSV or text: a name in the folder of the export, or a full "
        "path. Exactly these files are read.",
        examples=["manifest.json"],
    )
    max_age: Duration | None = Field(
        default=None,
        description="Maximum age of the marker, else of the manifest, else of the newest file.",
        examples=["30h"],
    )
    min_rows: Integer | None = Field(
        default=None, ge=0, description="Minimum number of rows that the source yields.", examples=[1_000_000]
    )
    wait: Margin = Field(
        default=timedelta(0),
        description="How long a run waits until all of this holds.",
        examples=["2h"],
    )

    def only(self, *keys: str, of: str) -> Self:
        """Return the settings unchanged. Raise a mistake if a key was written that means nothing for such a source."""
        fields = type(self).model_fields.items()
        other = [name for name, field in fields if name not in keys and getattr(self, name) != field.default]
        if other:
            said = " and ".join(keys)
            raise wrong(f"expect: {of} has no {' and no '.join(other)} (for exports); it takes {said}")
        return self


class Select(Settings):
    """A SELECT, in a file or in the site file, and its parameters."""

    sql: File | None = Field(default=None, description="File with the SELECT.", examples=["../sql/products.sql"])
    params: dict[Text, Parameter] = Field(
        default_factory=dict,
        description="Values for `:name` in the SELECT, in addition to `:now`, `:since` and `:site`.",
    )

    @field_validator("params")
    @classmethod
    def _names(cls, params: dict[str, Any]) -> dict[str, Any]:
        for name in params:
            if not (name.isascii() and name.isidentifier()):
                raise wrong(
                    f'"{name}" can\'t be bound as :{name}; '
                    "a parameter name has letters, digits and _ and begins with a letter"
                )
            if name in _BOUND:
                raise wrong(f"{name} is set by the run itself; rename the parameter")
        return params

    @model_validator(mode="wrap")
    @classmethod
    def _one_select(cls, value: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """Check that one of the two keys is given. With `sql`, `query` is the text of that file."""
        made = handler(value)
        if made.sql is not None and isinstance(value, dict) and isinstance(value.get("query"), Written):
            raise wrong("has both `sql:` (a file) and `query:` (the SELECT itself); use one of them")
        return made


class DatabaseSource(Select):
    """Rows of a SELECT, streamed from a database."""

    kind: ClassVar[str] = "database"

    database: ConnectionId = Field(
        description="Airflow connection ID. Outside Airflow, the environment variable `AIRFLOW_CONN_<ID>` "
        "(URI or JSON).",
        examples=["catalog"],
    )
    query: Sql = Field(default="", description="The SELECT itself, instead of `sql`.")
    split: Split | None = Field(default=None, description="Runs the SELECT in parallel ranges.")
    key: Column | None = Field(
        default=None,
        description="Column that identifies a row. Required if the SELECT uses `:since`.",
        examples=["id"],
    )
    deleted: Column | None = Field(
        default=None,
        description="Column that marks deleted rows (true, not 0, or text other than 0 and false). They are excluded.",
        examples=["deleted_at"],
    )
    full_every: Duration = Field(
        default=timedelta(days=7),
        description="With `:since`: how often all rows are read.",
        examples=["7d"],
    )
    overlap: Margin = Field(
        default=timedelta(hours=1),
        description="With `:since`: how far it goes back before the last read, for rows that become visible late.",
        examples=["1h"],
    )
    timeout: Duration = Field(
        default=timedelta(hours=6),
        description="How long one statement may take, reading its rows included: a split, or the whole SELECT without "
        "`split`. The server ends it, and the run ends if the server does not answer. "
        "A shorter limit of the server holds.",
        examples=["30m"],
    )
    lock_timeout: Duration = Field(
        default=timedelta(minutes=5),
        description="How long a statement may wait for a lock. A shorter limit of the server holds.",
        examples=["30s"],
    )
    max_parallel: Integer | None = Field(
        default=None,
        ge=1,
        description="How many splits are read at once from this connection; the smallest of all its sections holds. "
        "Default: the number of workers (`--jobs`). In Airflow, a pool does this.",
        examples=[2],
    )
    fetch_rows: Integer | None = Field(
        default=None,
        ge=1,
        le=limits.FETCH_ROWS,
        description="How many rows are fetched at a time. Fewer need less memory if rows are wide. "
        "Default: what suits the driver.",
        examples=[5000],
    )

    expect: Expect | None = Field(default=None, description="What must hold before its rows are published: `min_rows`.")

    @field_validator("expect")
    @classmethod
    def _of_rows(cls, expect: Expect | None) -> Expect | None:
        return None if expect is None else expect.only("min_rows", of="a database")

    @model_validator(mode="after")
    def _has_select(self) -> Self:
        if self.sql is None and not self.query:
            raise wrong("needs `sql:` or `query:`: a file with the SELECT, or the SELECT itself", "sql", "query")
        return self


def _character(example: str, *words: str) -> AfterValidator:
    def check(value: str) -> str:
        if value in words:
            return value
        if len(value) != 1 or not value.isascii() or value in "\0\r\n":
            raise unlike(f"one ASCII character, such as {example}")
        return value

    return AfterValidator(check)


_NO_ENCODINGS: Final = frozenset({"idna", "punycode", "raw-unicode-escape", "undefined", "unicode-escape"})
"""Codecs of Python that are for names of hosts or for literals of its own, and can't read a file in pieces."""


def _encoding(value: str) -> str:
    """Return Python's name of the encoding."""
    try:
        "a".encode(value.strip())  # fails for codecs that don't encode text, too
    except (LookupError, ValueError) as error:
        raise unlike("an encoding such as utf-8, cp1252, iso-8859-15 or utf-16") from error
    name = codecs.lookup(value.strip()).name
    if name.replace("_", "-") in _NO_ENCODINGS:
        raise unlike("an encoding of whole texts, such as utf-8, cp1252, iso-8859-15 or utf-16")
    return "utf-8" if name == "utf-8-sig" else name


UNQUOTED_NULL: Final = r"\N"
"""Null as databases write it by default, without quotes (PostgreSQL's COPY, MySQL's OUTFILE, Hive)."""


def _words(value: Any) -> Any:
    """Return the words as a list. In a site file they need quotes, because a plain `NULL` is YAML's null."""
    found = value if isinstance(value, list | tuple) else [value]
    if not found or not all(isinstance(word, str) for word in found):
        raise unlike('words in quotes, such as ["\\\\N", "NULL"]')
    return found


def _names(value: Any) -> Any:
    if not isinstance(value, str | list | tuple) or not value:
        raise unlike("the names of the columns of files without a header, such as [loc, lastmod]")
    return value


def _differ(names: tuple[str, ...]) -> tuple[str, ...]:
    twice = next((name for at, name in enumerate(names) if name in names[:at]), None)
    if twice is not None:
        raise wrong(f"names the column {twice!r} more than once")
    return names


NullWords = Annotated[
    tuple[str, ...],
    Strict(False),
    BeforeValidator(_words, json_schema_input_type=str | list[str]),
    AfterValidator(once),
]
ColumnNames = Annotated[OneOrMore[Column], BeforeValidator(_names), AfterValidator(_differ)]


class CsvFormat(Settings):
    """Syntax of a CSV file."""

    delimiter: Annotated[str, _character('";" or "\\t"')] = Field(
        default=",", description="Character that separates values.", examples=[";"]
    )
    quote: Annotated[str, _character('"\'", or none', "none")] = Field(
        default='"',
        description="Character around values that hold a delimiter or a line break; `none`: there is none.",
        examples=["'"],
    )
    escape: Annotated[str, _character('"\\\\"')] | None = Field(
        default=None,
        description="Character that precedes a quote inside of quotes, and itself, as Spark writes it (`\\`). "
        "With `quote: none`, it precedes delimiters and line breaks, as MySQL and PostgreSQL write them. "
        "Default: a quote inside of quotes is doubled.",
        examples=["\\"],
    )
    encoding: Annotated[str, AfterValidator(_encoding)] = Field(
        default="utf-8", description="Encoding of the text.", examples=["cp1252", "utf-16"]
    )

    null: NullWords | None = Field(
        default=None,
        description="Words that mean null, in quotes or not, and in this case; an empty value always does. "
        "Default: `\\N` without quotes.",
        examples=[["\\N", "NULL"]],
    )
    header: ColumnNames | None = Field(
        default=None,
        description="Names of the columns of files without a header. Default: the first row names them.",
        examples=[["loc", "lastmod"]],
    )

    skip_rows: Annotated[Integer, Field(ge=0, le=1000)] = Field(
        default=0, description="Lines above the header, such as titles, which are not read.", examples=[2]
    )

    @property
    def nulls(self) -> tuple[str, ...]:
        """Values that mean null."""
        return ("", UNQUOTED_NULL) if self.null is None else ("", *self.null)

    @property
    def quoting(self) -> str | None:
        """Quote character, or None if values are never quoted."""
        return None if self.quote == "none" else self.quote

    @property
    def escaping(self) -> str | None:
        """Character that escapes a quote inside a quoted value, or None if quotes are doubled."""
        return None if self.escape == self.quote or self.quoting is None else self.escape

    @property
    def escaping_unquoted(self) -> str | None:
        """Character that escapes delimiters and line breaks in values without quotes, or None."""
        return self.escape if self.quoting is None else None

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        if self.delimiter in (self.quote, self.escape):
            raise wrong(f"delimiter and {'quote' if self.delimiter == self.quote else 'escape'} are the same character")
        return self


class Exported(Settings):
    """Files that contain rows."""

    kind: ClassVar[str]

    requester_pays: Flag = Field(
        default=False, description="Whether we pay for reading, in buckets of S3 whose owner has the readers pay."
    )
    verify: Flag = Field(
        default=True,
        description="Whether the checksums in the files are verified. `false` is for writers whose checksums are "
        "wrong: damage is then published.",
    )

    @property
    def paths(self) -> tuple[str, ...]:
        """Files, folders, globs and addresses."""
        raise NotImplementedError


class CsvExport(CsvFormat, Exported):
    """CSV exports, plain or compressed."""

    kind: ClassVar[str] = "csv"

    csv: OneOrMore[Export] = Field(
        description="File, folder, glob or `s3://…`, or a list of these.", examples=["exports/pages.csv.gz"]
    )

    @property
    def paths(self) -> tuple[str, ...]:
        return self.csv


class JsonlExport(Exported):
    """JSON lines exports, plain or compressed. The keys are the columns."""

    kind: ClassVar[str] = "jsonl"

    jsonl: OneOrMore[Export] = Field(
        description="File, folder, glob or `s3://…`, or a list of these.", examples=["exports/pages.jsonl.gz"]
    )

    @property
    def paths(self) -> tuple[str, ...]:
        return self.jsonl


class ParquetExport(Exported):
    """Parquet exports, which are read in place."""

    kind: ClassVar[str] = "parquet"

    parquet: OneOrMore[Export] = Field(
        description="File, folder, glob or `s3://…`, or a list of these.",
        examples=["s3://exports/articles/*.parquet"],
    )

    @property
    def paths(self) -> tuple[str, ...]:
        return self.parquet


Table = Annotated[
    Annotated[CsvExport, Tag("<csv>")]
    | Annotated[ParquetExport, Tag("<parquet>")]
    | Annotated[JsonlExport, Tag("<jsonl>")],
    one_of("one of {csv: FILE}, {parquet: FILE} and {jsonl: FILE}", "csv", "parquet", "jsonl"),
]
TableName = Annotated[Text, matching("[A-Za-z_][A-Za-z0-9_]*", "a table name such as stock")]
SOURCE: Final = "source"
"""The table that a section's own export is in SQL."""


class ExportSource(Select, Exported):
    """Rows of exports, or of a SELECT over exports."""

    query: Sql | None = Field(default=None, description="The SELECT itself, instead of `sql`.")
    tables: dict[TableName, Table] = Field(
        default_factory=dict,
        description="Other exports that the SELECT reads, by the names that they have in it.",
        examples=["{stock: {csv: exports/stock.csv}}"],
    )
    expect: Expect | None = Field(
        default=None, description="What must hold before it is read: that it is whole, and not old."
    )

    @property
    def all_tables(self) -> dict[str, CsvExport | JsonlExport | ParquetExport]:
        """All tables that the SELECT can read, by name."""
        return {SOURCE: cast("CsvExport | JsonlExport | ParquetExport", self), **self.tables}

    @model_validator(mode="after")
    def _is_selected(self) -> Self:
        known: dict[str, str] = {}
        for name in self.tables:
            if name.casefold() == SOURCE:
                raise wrong(f"tables: {name} is the export itself; use another name")
            other = known.setdefault(name.casefold(), name)
            if other != name:
                raise wrong(f"tables: {other} and {name} are one name in SQL, which ignores case; rename one of them")
        if self.sql is None and self.query is None:
            unread = next((key for key in ("tables", "params") if getattr(self, key)), None)
            if unread is not None:
                raise wrong(f"has `{unread}:`, which only a SELECT reads; add `sql:` or `query:`", "sql", "query")
        return self


class CsvSource(CsvExport, ExportSource):
    """Rows of CSV exports, plain or compressed."""


class JsonlSource(JsonlExport, ExportSource):
    """Rows of JSON lines exports, plain or compressed: one object per line, whose keys are the columns."""


class ParquetSource(ParquetExport, ExportSource):
    """Rows of Parquet exports, which are read in place."""


def _moment(value: str) -> str:
    try:
        known = datetime.fromisoformat(value).tzinfo is not None
    except ValueError:
        known = False
    if not known:
        raise unlike("a time with its zone, such as 2026-11-20T00:00:00Z")
    return value


class _TableSource(Select):
    """Rows of one version of a table."""

    query: Sql | None = Field(default=None, description="The SELECT itself, instead of `sql`.")
    version: Integer | None = Field(
        default=None, description="Version (Delta) or ID of the snapshot (Iceberg) to read. Default: the newest."
    )
    as_of: Annotated[Text, AfterValidator(_moment)] | None = Field(
        default=None,
        description="Reads the table as it was at this time.",
        examples=["2026-11-20T00:00:00Z"],
    )
    filter: dict[Column, OneOrMoreValues] = Field(
        default_factory=dict,
        description="Only rows whose columns have one of these values. Files without such rows are not read.",
        examples=[{"active": True}],
    )
    key: Column | None = Field(
        default=None,
        description="Column that identifies a row. With it, a run reads only what changed since the last one.",
        examples=["id"],
    )
    expect: Expect | None = Field(
        default=None, description="What must hold before its rows are published: `max_age`, `min_rows`; `wait`."
    )

    @field_validator("expect")
    @classmethod
    def _of_versions(cls, expect: Expect | None) -> Expect | None:
        return None if expect is None else expect.only("max_age", "min_rows", "wait", of="a table")

    @model_validator(mode="after")
    def _one_version(self) -> Self:
        if self.sql is None and self.query is None and self.params:
            raise wrong("has `params:`, which only a SELECT reads; add `sql:` or `query:`", "sql", "query")
        if self.version is not None and self.as_of is not None:
            raise wrong("has both `version:` and `as_of:`; use one of them")
        return self


class DeltaSource(_TableSource):
    """Rows of a Delta Lake table."""

    kind: ClassVar[Literal["delta"]] = "delta"

    delta: Export = Field(description="Folder of the table, or `s3://…`.", examples=["s3://lake/products"])

    @property
    def address(self) -> str:
        """Folder or address of the table."""
        return self.delta


class IcebergSource(_TableSource):
    """Rows of an Apache Iceberg table."""

    kind: ClassVar[Literal["iceberg"]] = "iceberg"

    iceberg: Text = Field(
        description="`catalog.namespace.table`, where pyiceberg's configuration describes the catalog; or the table's "
        "metadata file; or its folder, if that has a `version-hint.text`.",
        examples=["lake.shop.products"],
    )

    @property
    def address(self) -> str:
        """Name of the table in its catalog, or its file or folder."""
        return self.iceberg


TableSource = DeltaSource | IcebergSource

Source = Annotated[
    Annotated[DatabaseSource, Tag("<database>")]
    | Annotated[CsvSource, Tag("<csv>")]
    | Annotated[ParquetSource, Tag("<parquet>")]
    | Annotated[JsonlSource, Tag("<jsonl>")]
    | Annotated[DeltaSource, Tag("<delta>")]
    | Annotated[IcebergSource, Tag("<iceberg>")],
    one_of(
        "one of {database: CONNECTION, sql: FILE}, {csv: FILE}, {parquet: FILE}, {jsonl: FILE}, {delta: TABLE} and "
        "{iceberg: TABLE}",
        "database",
        "csv",
        "parquet",
        "jsonl",
        "delta",
        "iceberg",
    ),
]
