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
        description="Column whose ranges are read side by side; best one with an index. "
        "The SELECT yields it, or binds `:split_from` and `:split_to` itself.",
        examples=["id"],
    )
    parts: Integer = Field(
        default=8, ge=1, le=limits.SPLITS_PER_SECTION, description="How many ranges: one extract task each."
    )


class _Select(Settings):
    sql: File | None = Field(default=None, description="File that holds the SELECT.", examples=["../sql/products.sql"])

    @model_validator(mode="wrap")
    @classmethod
    def _one_select(cls, value: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """Of a site file, one of the two: beside `sql`, `query` is the text that was read from there."""
        made = handler(value)
        if made.sql is not None and isinstance(value, dict) and isinstance(value.get("query"), Written):
            raise wrong("has both `sql:` (a file) and `query:` (the SELECT itself); keep one of the two")
        return made


class DatabaseSource(_Select):
    """Rows of a SELECT, streamed from a database."""

    kind: ClassVar[str] = "database"

    database: ConnectionId = Field(
        description="Airflow connection id. Outside Airflow, the variable `AIRFLOW_CONN_<ID>` (URI or JSON).",
        examples=["catalog"],
    )
    query: Sql = Field(default="", description="The SELECT itself, in place of `sql`.")
    params: dict[Text, Parameter] = Field(
        default_factory=dict, description="Values for `:name` in the SELECT, beside `:now`, `:since` and `:site`."
    )
    split: Split | None = Field(default=None, description="Reads the SELECT in parallel.")
    key: Text | None = Field(
        default=None,
        description="Column that identifies a row; needed where the SELECT names `:since`.",
        examples=["id"],
    )
    deleted: Text | None = Field(
        default=None,
        description="Column that says that a row is gone: true, not 0, or not empty. Such rows are excluded.",
        examples=["deleted_at"],
    )
    full_every: Duration = Field(
        default=timedelta(days=7),
        description="With `:since`: how often everything is read all the same.",
        examples=["7d"],
    )
    overlap: Margin = Field(
        default=timedelta(hours=1),
        description="With `:since`: how far before the last read it lies, for rows that become visible late.",
        examples=["1h"],
    )

    @field_validator("params")
    @classmethod
    def _names(cls, params: dict[str, Any]) -> dict[str, Any]:
        for name in params:
            if not (name.isascii() and name.isidentifier()):
                raise wrong(f'"{name}" can\'t be bound as :{name}; a parameter is called like a variable')
            if name in _BOUND:
                raise wrong(f"{name} is bound by the run itself; give the parameter another name")
        return params

    @model_validator(mode="after")
    def _has_select(self) -> Self:
        if self.sql is None and not self.query:
            raise wrong("needs `sql:` or `query:`: a file that holds the SELECT, or the SELECT itself", "sql", "query")
        return self


class _Exports(_Select):
    query: Sql | None = Field(default=None, description="The SELECT itself, in place of `sql`.")


class CsvSource(_Exports):
    """Rows of CSV exports in UTF-8, also gzipped; the first line names the columns."""

    kind: ClassVar[str] = "csv"

    csv: OneOrMore[Export] = Field(
        description="File, glob or `s3://…`, or a list of them.", examples=["exports/pages.csv.gz"]
    )
    delimiter: str = Field(default=",", description="The character between two values.", examples=[";"])

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
        description="File, folder, glob or `s3://…`, or a list of them.",
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
