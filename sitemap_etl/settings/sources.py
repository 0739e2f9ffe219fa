"""Where the rows of a section come from: a database, or exports in CSV or Parquet."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any, ClassVar, Self

from pydantic import AfterValidator, Field, ModelWrapValidatorHandler, Tag, field_validator, model_validator

from sitemap_etl import limits
from sitemap_etl.settings.kinds import (
    ConnectionId,
    Duration,
    Export,
    File,
    Integer,
    Margin,
    OneOrMore,
    Settings,
    Text,
    nonempty,
    one_of,
    unlike,
    wrong,
)
from sitemap_etl.settings.secret import Parameter
from sitemap_etl.settings.written import Written


def _sql(value: str) -> str:
    """The text as it stands, so that the lines that a database counts are those of the file."""
    nonempty(value)
    return value


Sql = Annotated[str, AfterValidator(_sql)]
_BOUND = frozenset({"now", "since", "site", "split_from", "split_to"})


class Split(Settings):
    """Reads the SELECT in parallel, by ranges of a column."""

    column: Text = Field(
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


class _Select(Settings):
    sql: File | None = Field(default=None, description="File with the SELECT.", examples=["../sql/products.sql"])

    @model_validator(mode="wrap")
    @classmethod
    def _one_select(cls, value: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """Of a site file, one of the two: beside `sql`, `query` is the text that was read from there."""
        made = handler(value)
        if made.sql is not None and isinstance(value, dict) and isinstance(value.get("query"), Written):
            raise wrong("has both `sql:` (a file) and `query:` (the SELECT itself); use one of them")
        return made


class DatabaseSource(_Select):
    """Rows of a SELECT, streamed from a database."""

    kind: ClassVar[str] = "database"

    database: ConnectionId = Field(
        description="Airflow connection ID. Outside Airflow, the environment variable `AIRFLOW_CONN_<ID>` "
        "(URI or JSON).",
        examples=["catalog"],
    )
    query: Sql = Field(default="", description="The SELECT itself, instead of `sql`.")
    params: dict[Text, Parameter] = Field(
        default_factory=dict,
        description="Values for `:name` in the SELECT, in addition to `:now`, `:since` and `:site`.",
    )
    split: Split | None = Field(default=None, description="Runs the SELECT in parallel ranges.")
    key: Text | None = Field(
        default=None,
        description="Column that identifies a row. Required if the SELECT uses `:since`.",
        examples=["id"],
    )
    deleted: Text | None = Field(
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
        le=limits.BATCH_ROWS,
        description="How many rows are fetched at a time. Fewer need less memory if rows are wide. "
        "Default: what suits the driver.",
        examples=[5000],
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

    @model_validator(mode="after")
    def _has_select(self) -> Self:
        if self.sql is None and not self.query:
            raise wrong("needs `sql:` or `query:`: a file with the SELECT, or the SELECT itself", "sql", "query")
        return self


class _Exports(_Select):
    query: Sql | None = Field(default=None, description="The SELECT itself, instead of `sql`.")


class CsvSource(_Exports):
    """Rows of CSV exports in UTF-8, also gzipped; the first line names the columns."""

    kind: ClassVar[str] = "csv"

    csv: OneOrMore[Export] = Field(
        description="File, glob or `s3://…`, or a list of these.", examples=["exports/pages.csv.gz"]
    )
    delimiter: str = Field(default=",", description="Character that separates values.", examples=[";"])

    @field_validator("delimiter")
    @classmethod
    def _one_character(cls, value: str) -> str:
        if len(value) != 1 or not value.isascii() or value in '"\r\n':
            raise unlike('one ASCII character, such as ";" or "\\t"')
        return value


class ParquetSource(_Exports):
    """Rows of Parquet exports: read where they are, not copied."""

    kind: ClassVar[str] = "parquet"

    parquet: OneOrMore[Export] = Field(
        description="File, folder, glob or `s3://…`, or a list of these.",
        examples=["s3://exports/articles/*.parquet"],
    )


Source = Annotated[
    Annotated[DatabaseSource, Tag("<database>")]
    | Annotated[CsvSource, Tag("<csv>")]
    | Annotated[ParquetSource, Tag("<parquet>")],
    one_of(
        "one of {database: CONNECTION, sql: FILE}, {csv: FILE} and {parquet: FILE}",
        "database",
        "csv",
        "parquet",
    ),
]
