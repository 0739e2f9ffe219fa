"""Rules of a section for lastmod, priority and changefreq.

Each form of a rule is a model with its own `kind`.
"""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, Tag, model_serializer, model_validator

from sitemap_etl import limits
from sitemap_etl.settings.date_format import DateFormat
from sitemap_etl.settings.kinds import (
    Column,
    Flag,
    Number,
    Settings,
    Several,
    Text,
    from_environment,
    one_of,
    short_for,
    unlike,
    wrong,
)
from sitemap_etl.settings.schedule import Timezone
from sitemap_etl.settings.written import scalar

Unit = Literal["s", "ms", "us", "ns"]


class Rule(Settings):
    """Base of all rules."""

    kind: ClassVar[str]

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of the source that the rule reads."""
        return ()

    @property
    def dates(self) -> tuple[str, ...]:
        """Columns of the source that the rule reads as dates."""
        return ()


class NoRule(Rule):
    """`none`: no value, even if a column has the name of the rule."""

    kind: ClassVar[str] = "none"
    timezone: ClassVar[None] = None
    unit: ClassVar[None] = None
    format: ClassVar[None] = None
    until_changed: ClassVar[None] = None
    first_seen: ClassVar[bool] = False

    @model_serializer
    def _to_json(self) -> Any:
        return self.kind if self.kind == "none" else None


class DefaultRule(NoRule):
    """Rule of an absent key: the column with the name of the rule is used, if it exists."""

    kind: ClassVar[str] = "default"


_NONE = Annotated[NoRule, BeforeValidator(lambda _none: {}, json_schema_input_type=str), Tag("<none>")]


class _Dates(Rule):
    timezone: Timezone | None = Field(
        default=None, description="IANA time zone of times that have none.", examples=["Europe/Berlin"]
    )
    unit: Unit | None = Field(default=None, description="Unit of a column of epoch numbers.")
    format: DateFormat | None = Field(
        default=None,
        description="Form of dates that are not ISO 8601, as in `strptime`; `excel`: serial numbers of spreadsheets.",
        examples=["%d.%m.%Y"],
    )

    @property
    def dates(self) -> tuple[str, ...]:
        return self.columns

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        if self.format is not None and self.unit is not None:
            raise wrong("has both `unit:` and `format:`; a column is in one of them")
        return self


class LastmodColumn(_Dates):
    """lastmod from a column."""

    kind: ClassVar[str] = "column"
    until_changed: ClassVar[None] = None
    first_seen: ClassVar[bool] = False

    column: Column = Field(
        description="Column with dates, timestamps, ISO 8601 text, or epoch numbers (with `unit`).",
        examples=["updated_at"],
    )

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column,)


class LastmodNewestOf(_Dates):
    """lastmod from the newest date of several columns."""

    kind: ClassVar[str] = "newest_of"
    until_changed: ClassVar[None] = None
    first_seen: ClassVar[bool] = False

    newest_of: Several[Column] = Field(min_length=1, description="Columns; the newest date of each row is used.")

    @property
    def columns(self) -> tuple[str, ...]:
        return self.newest_of


class LastmodFingerprint(_Dates):
    """lastmod from the run that first saw a change in the content of some columns."""

    kind: ClassVar[str] = "fingerprint"

    fingerprint: Several[Column] = Field(
        min_length=1, description="Columns that make up the content of the page; a different content is a change."
    )
    until_changed: Column | None = Field(
        default=None, description="Column with the date of a page until its content changes for the first time."
    )
    first_seen: Flag = Field(
        default=False,
        description="Use the time of the run as lastmod of pages that appear after the first publish of the section.",
    )

    @property
    def columns(self) -> tuple[str, ...]:
        return self.fingerprint

    @property
    def dates(self) -> tuple[str, ...]:
        return (self.until_changed,) if self.until_changed else ()


Lastmod = Annotated[
    Annotated[LastmodColumn, short_for("column", Column), Tag("<text>")]
    | Annotated[LastmodFingerprint, Tag("<fingerprint>")]
    | Annotated[LastmodNewestOf, Tag("<newest_of>")]
    | Annotated[LastmodColumn, Tag("<column>")]
    | _NONE,
    one_of(
        "a column, {column: …, timezone: …}, {newest_of: […]}, {fingerprint: […]} or none",
        "fingerprint",
        "newest_of",
        "column",
    ),
]


# --- priority --------------------------------------------------------------------------------------------------------


class PriorityConstant(Rule):
    """One priority for all rows."""

    kind: ClassVar[str] = "constant"

    number: Annotated[Number, Field(ge=0, le=1)] = Field(description="A number from 0 to 1.")

    @property
    def tenths(self) -> int:
        """Tenths from 0 to 10, rounded half up."""
        return int((Decimal(repr(self.number)) * 10).to_integral_value(ROUND_HALF_UP))

    @model_serializer
    def _to_json(self) -> Any:
        return self.number


class PriorityColumn(Rule):
    """priority from a column."""

    kind: ClassVar[str] = "column"

    column: Column = Field(description="Column with numbers from 0 to 1.")

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column,)


class PriorityPercentile(Rule):
    """priority from the rank of the row's value among all rows of the section."""

    kind: ClassVar[str] = "percentile_of"

    percentile_of: Column = Field(description="Column with numbers, such as sales or views.", examples=["sales"])

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.percentile_of,)


class PriorityDepth(Rule):
    """priority from the depth of the path."""

    kind: ClassVar[str] = "depth"

    depth: Annotated[Literal[True], BeforeValidator(from_environment)] = Field(description="`true`.")


def _no_number(value: Any) -> Any:
    if isinstance(value, str) and isinstance(scalar(value), int | float):
        raise unlike("a number without quotes; text in quotes is the name of a column ({column: …} accepts any name)")
    return value


Priority = Annotated[
    Annotated[PriorityConstant, short_for("number", Annotated[Number, Field(ge=0, le=1)]), Tag("<number>")]
    | Annotated[
        PriorityColumn,
        short_for("column", Column),
        BeforeValidator(_no_number, json_schema_input_type=Column),
        Tag("<text>"),
    ]
    | Annotated[PriorityPercentile, Tag("<percentile_of>")]
    | Annotated[PriorityDepth, Tag("<depth>")]
    | Annotated[PriorityColumn, Tag("<column>")]
    | _NONE,
    one_of(
        "a number from 0 to 1, a column, {percentile_of: COLUMN}, {depth: true} or none",
        "percentile_of",
        "depth",
        "column",
    ),
]


# --- changefreq ------------------------------------------------------------------------------------------------------


class ChangefreqConstant(Rule):
    """One changefreq for all rows."""

    kind: ClassVar[str] = "constant"

    word: Text = Field(description="A changefreq of the protocol.")

    @model_serializer
    def _to_json(self) -> Any:
        return self.word


class ChangefreqColumn(Rule):
    """changefreq from a column."""

    kind: ClassVar[str] = "column"

    column: Column = Field(description="Column with changefreq values of the protocol.")

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column,)


Changefreq = Annotated[
    Annotated[ChangefreqConstant, short_for("word", Text), Tag("<word>")]
    | Annotated[ChangefreqColumn, short_for("column", Column), Tag("<text>")]
    | Annotated[ChangefreqColumn, Tag("<column>")]
    | _NONE,
    one_of(
        f"one of {', '.join(limits.CHANGEFREQS)}, a column, {{column: …}} or none", "column", words=limits.CHANGEFREQS
    ),
]
