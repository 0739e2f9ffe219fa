"""News articles (Google news sitemaps): rows that are news now, and their elements."""

from __future__ import annotations

from datetime import datetime
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sitemap_etl import limits
from sitemap_etl.arrow import mask_of, numbers_of, plain
from sitemap_etl.errors import InvalidSource
from sitemap_etl.extensions import texts
from sitemap_etl.extensions.codes import LANGUAGES
from sitemap_etl.extensions.dates import Dates, dates
from sitemap_etl.extensions.pages import Pages
from sitemap_etl.frames import NEWS, Tally

_TRADITIONAL: Final = frozenset({"hant", "tw", "hk", "mo"})
_SIMPLIFIED: Final = frozenset({"hans", "cn", "sg", "my"})
_DAY: Final = 86_400
_WINDOW: Final = limits.NEWS_HOURS * 3_600
NOT_NEWS: Final = "not news: older than 48 hours, or without what news needs"
"""Reason why a row of a news section is not listed there."""


def language(text: str) -> str:
    """Return the publication's language in a form that the XSD accepts: `zh-cn`, `zh-tw`, or two or three lower-case
    letters.

    Script and country are removed (`en-US` → `en`), but decide for Chinese (`zh-Hant-HK` → `zh-tw`). Raise ValueError
    if the text isn't a language.
    """
    first, *rest = text.strip().lower().replace("_", "-").split("-")
    if first == "zh" and rest:
        if _TRADITIONAL.intersection(rest):
            return "zh-tw"
        if _SIMPLIFIED.intersection(rest):
            return "zh-cn"
    is_code = first in LANGUAGES or (len(first) == 3 and first.isascii() and first.isalpha())
    if not is_code or not all(part.isascii() and part.isalnum() for part in rest):
        raise ValueError(f"{text!r} is not a language for news; expected an ISO 639 code such as en, zh-cn or zh-tw")
    return first


def news(
    title: pa.Array | pa.ChunkedArray,
    publication_date: pa.Array | pa.ChunkedArray,
    *,
    name: str,
    language: str,
    now: datetime,
    tally: Tally,
    timezone: str | None = None,
    loc: pa.Array | pa.ChunkedArray | None = None,
) -> pa.Array:
    """Return `elements.NEWS`, null for rows that aren't news at `now`. These are counted with a reason.

    News was published at most 48 hours before `now`, to the second, and not after it. A date without a time counts from
    its midnight in `timezone`. Without `timezone`, midnight UTC counts, and the date can be one day ahead. `name` and
    `language` belong to the publication.

    Raise InvalidSource if a time has no zone and `timezone` is None; ValueError if `language` is invalid, `name` is
    blank or `now` has no zone.
    """
    if now.tzinfo is None:
        raise ValueError("`now` needs a time zone")
    publication = texts.cleaned(pa.array([name]))[0]
    if not publication.is_valid:
        raise ValueError("news needs the name of the publication")
    code = _language(language)
    pages = Pages.of(loc, tally)
    raw = plain(publication_date)
    titles = texts.cleaned(title)
    published = dates(raw, timezone)
    if published.naive.any():
        example = texts.readable(raw)[int(np.flatnonzero(published.naive)[0])].as_py()
        raise InvalidSource(
            f"publication_date has times without a time zone, such as {example!r}. "
            "Set it: lastmod: {column: publication_date, timezone: Europe/Berlin}"
        )
    rows = np.arange(len(raw))
    valid = mask_of(pc.is_valid(published.text))
    moment = int(now.timestamp())
    age = moment - numbers_of(published.seconds)
    ahead = _ahead(published, moment, timezone)
    given = mask_of(pc.is_valid(texts.cleaned(raw)))
    left = np.ones(len(raw), bool)
    for reason, bad in (
        ("news: publication_date is missing", ~given),
        ("news: publication_date is no date", ~valid),
        ("news: older than 48 hours", age > _WINDOW),
        ("news: publication_date in the future", -age > ahead),
        ("news: title is missing", mask_of(pc.is_null(titles))),
    ):
        pages.count(reason, left & bad, raw, rows)
        left &= ~bad
    return pa.StructArray.from_arrays(
        [pa.repeat(publication, len(raw)), pa.repeat(code, len(raw)), published.text, titles],
        fields=list(NEWS),
        mask=pa.array(~left),
    )


_language = language


def _ahead(published: Dates, moment: int, timezone: str | None) -> np.ndarray:
    """Return the seconds that each date can be ahead of `moment`. A date without a time is valid until its end."""
    end_of_day = moment // _DAY * _DAY + _DAY
    return np.where(published.is_date & (timezone is None), end_of_day - moment, 0)


def still_news(published: pa.StructArray, now: datetime, timezone: str | None = None) -> np.ndarray:
    """Return a mask of published rows that are news at `now`.

    `published`: `elements.NEWS`. A row without it was not published as news, and stays. Dates count as in `news`: an
    article that a fast clock published too early is not news yet.
    """
    found = dates(pc.struct_field(published, "publication_date"), timezone)
    moment = int(now.timestamp())
    age = moment - numbers_of(found.seconds)
    is_news: np.ndarray = (age <= _WINDOW) & (-age <= _ahead(found, moment, timezone))
    is_news |= mask_of(pc.is_null(found.seconds))
    return is_news
