"""The keys below `sections.<name>.from`, as one writes them: what each takes, its default, its meaning."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any, Self

from pydantic import Field, Tag, field_validator, model_validator

from sitemap_etl import limits
from sitemap_etl.config.kinds import Connection, Duration, Integer, Keys, Scalar, Text, Texts, one_of, unlike, wrong

_BOUND = frozenset({"now", "since", "site", "split_from", "split_to"})


class SplitKeys(Keys):
    """Reads the SELECT in parallel, by ranges of a column."""

    column: Text = Field(
        description="Column whose ranges are read side by side; best one with an index. "
        "The SELECT yields it, or binds `:split_from` and `:split_to` itself.",
        examples=["id"],
    )
    parts: Integer = Field(
        default=8, ge=1, le=limits.SPLITS_PER_SECTION, description="How many ranges: one extract task each."
    )


class _Select(Keys):
    sql: Text | None = Field(default=None, description="File that holds the SELECT.", examples=["../sql/products.sql"])
    query: Text | None = Field(default=None, description="The SELECT itself, in place of `sql`.")

    @model_validator(mode="after")
    def _one_select(self) -> Self:
        if self.sql is not None and self.query is not None:
            raise wrong("has both sql (a file) and query (the SELECT itself); keep one of the two")
        return self


class DatabaseKeys(_Select):
    """Rows of a SELECT, streamed from a database."""

    database: Connection = Field(
        description="Airflow connection id. Outside Airflow, the variable `AIRFLOW_CONN_<ID>` (URI or JSON).",
        examples=["catalog"],
    )
    params: dict[Text, Scalar] = Field(
        default_factory=dict, description="Values for `:name` in the SELECT, beside `:now`, `:since` and `:site`."
    )
    split: SplitKeys | None = Field(default=None, description="Reads the SELECT in parallel.")
    key: Text | None = Field(
        default=None,
        description="Column that identifies a row; needed where the SELECT names `:since`.",
        examples=["id"],
    )
    deleted: Text | None = Field(
        default=None,
        description="Column that says that a row is gone: true, not 0, or not empty. With `key`.",
        examples=["deleted_at"],
    )
    full_every: Duration = Field(
        default=timedelta(days=7),
        description="With `:since`: how often everything is read all the same.",
        examples=["7d"],
    )
    overlap: Duration = Field(
        default=timedelta(hours=1),
        description="With `:since`: how far before the last read it lies.",
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
        if self.sql is None and self.query is None:
            raise wrong("lacks the SELECT: write sql (a file) or query (the SELECT itself)", "sql", "query")
        return self


class CsvKeys(_Select):
    """Rows of CSV exports in UTF-8, also gzipped; the first line names the columns."""

    csv: Texts = Field(description="File, glob or `s3://…`, or a list of them.", examples=["exports/pages.csv.gz"])
    delimiter: str = Field(default=",", description="The character between two values.", examples=[";"])

    @field_validator("delimiter")
    @classmethod
    def _one_character(cls, value: str) -> str:
        if len(value) != 1 or not value.isascii() or value in '"\r\n':
            raise unlike('one ASCII character, such as ";" or "\\t"')
        return value


class ParquetKeys(_Select):
    """Rows of Parquet exports: read where they are, not copied."""

    parquet: Texts = Field(
        description="File, folder, glob or `s3://…`, or a list of them.",
        examples=["s3://exports/articles/*.parquet"],
    )


FROM_FORMS = ("database", "csv", "parquet")
FromKeys = Annotated[
    Annotated[DatabaseKeys, Tag("<database>")]
    | Annotated[CsvKeys, Tag("<csv>")]
    | Annotated[ParquetKeys, Tag("<parquet>")],
    one_of(
        "one of {database: CONNECTION, sql: FILE}, {csv: FILE} and {parquet: FILE}",
        *FROM_FORMS,
    ),
]
