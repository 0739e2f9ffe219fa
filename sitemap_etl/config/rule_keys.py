"""The keys of a section's lastmod, priority and changefreq, as one writes them: what each takes, its meaning."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, Tag

from sitemap_etl import limits
from sitemap_etl.config.kinds import Flag, Keys, Number, Text, one_of, unlike
from sitemap_etl.config.reader import scalar
from sitemap_etl.config.timing import check_timezone

Timezone = Annotated[Text, AfterValidator(check_timezone)]


class _DateKeys(Keys):
    timezone: Timezone | None = Field(
        default=None, description="IANA time zone of dates and times that name none.", examples=["Europe/Berlin"]
    )
    unit: Literal["s", "ms", "us", "ns"] | None = Field(default=None, description="Unit of a column of epoch numbers.")


class LastmodColumn(_DateKeys):
    """lastmod is a column."""

    column: Text = Field(description="Date, timestamp, ISO text, or epoch number with `unit`.", examples=["updated_at"])


class LastmodNewestOf(_DateKeys):
    """lastmod is the newest of several columns."""

    newest_of: list[Text] = Field(min_length=1, description="Columns; the newest date of the row counts.")


class LastmodFingerprint(_DateKeys):
    """lastmod is when the content of some columns changed, as far as the runs saw it."""

    fingerprint: list[Text] = Field(
        min_length=1, description="Columns that make up the page's content; another content is a change."
    )
    until_changed: Text | None = Field(
        default=None, description="Column that dates a page until its content changes for the first time."
    )
    first_seen: Flag = Field(
        default=False,
        description="Dates pages that appear after the section's first publish with the run that first saw them.",
    )


LastmodKeys = Annotated[
    Annotated[Text, Tag("<text>")]
    | Annotated[LastmodFingerprint, Tag("<fingerprint>")]
    | Annotated[LastmodNewestOf, Tag("<newest_of>")]
    | Annotated[LastmodColumn, Tag("<column>")],
    one_of(
        "a column, {column: …, timezone: …}, {newest_of: […]}, {fingerprint: […]} or none",
        "fingerprint",
        "newest_of",
        "column",
    ),
]


class PriorityColumn(Keys):
    """priority is a column."""

    column: Text = Field(description="Numbers of 0 to 1.")


class PriorityPercentile(Keys):
    """priority is the rank of the row's value among all rows of the section."""

    percentile_of: Text = Field(description="Column of numbers, such as sales or views.", examples=["sales"])


class PriorityDepth(Keys):
    """priority follows from how deep the path is."""

    depth: Literal[True] = Field(description="`true`.")


def _no_number(value: str) -> str:
    if isinstance(scalar(value), int | float):
        raise unlike("a number without quotes; in quotes it is the name of a column ({column: …} takes any name)")
    return value


PriorityKeys = Annotated[
    Annotated[Number, Field(ge=0, le=1), Tag("<number>")]
    | Annotated[Text, AfterValidator(_no_number), Tag("<text>")]
    | Annotated[PriorityPercentile, Tag("<percentile_of>")]
    | Annotated[PriorityDepth, Tag("<depth>")]
    | Annotated[PriorityColumn, Tag("<column>")],
    one_of(
        "a number of 0 to 1, a column, {percentile_of: COLUMN}, {depth: true} or none",
        "percentile_of",
        "depth",
        "column",
    ),
]


class ChangefreqColumn(Keys):
    """changefreq is a column."""

    column: Text = Field(description="Words of the protocol.")


ChangefreqKeys = Annotated[
    Annotated[Text, Tag("<text>")] | Annotated[ChangefreqColumn, Tag("<column>")],
    one_of(f"one of {', '.join(limits.CHANGEFREQS)}, a column, {{column: …}} or none", "column"),
]
