"""Written dates: what each text means, which formats accept it, and that all readers agree."""

from __future__ import annotations

import itertools
from datetime import UTC, date, datetime, timedelta, timezone

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from sitemap_etl import dates, lastmod
from sitemap_etl.dates import COARSE, DATABASES, DATE, INSTANT, LOCAL, OTHER, RFC822, RFC3339, W3C, XSD
from sitemap_etl.extensions import news, videos
from sitemap_etl.frames import Tally
from sitemap_etl.urls import UrlRules

DAY = int(np.datetime64("2026-01-02", "D").astype(int))
MIDNIGHT = DAY * 86_400
ALL = W3C | XSD | RFC3339 | DATABASES

FORMS: list[tuple[str, int, int, int]] = [
    # text, kind, value, who takes it
    ("2026-01-02", DATE, DAY, W3C | XSD | DATABASES),
    ("2026-01-02Z", DATE, DAY, XSD),
    ("2026-01-02+14:00", DATE, DAY, XSD),
    ("2026-01-02-14:01", OTHER, 0, 0),
    ("2026-01-02z", OTHER, 0, 0),
    ("2026", COARSE, 0, W3C),
    ("2026-01", COARSE, 0, W3C),
    ("2026-01-02T03:04Z", INSTANT, MIDNIGHT + 11_040, W3C | DATABASES),
    ("2026-01-02T03:04+01:00", INSTANT, MIDNIGHT + 7_440, W3C | DATABASES),
    ("2026-01-02T03:04", LOCAL, MIDNIGHT + 11_040, DATABASES),
    ("2026-01-02T03:04:05Z", INSTANT, MIDNIGHT + 11_045, ALL),
    ("2026-01-02T03:04:05.678-01:00", INSTANT, MIDNIGHT + 14_645, ALL),
    ("2026-01-02T03:04:05+14:00", INSTANT, MIDNIGHT - 39_355, ALL),
    ("2026-01-02T03:04:05+14:01", INSTANT, MIDNIGHT - 39_415, ALL & ~XSD),
    ("2026-01-02T03:04:05+15:59", INSTANT, MIDNIGHT - 46_495, ALL & ~XSD),
    ("2026-01-02T03:04:05+16:00", OTHER, 0, 0),
    ("2026-01-02T03:04:05", LOCAL, MIDNIGHT + 11_045, XSD | DATABASES),
    ("2026-01-02t03:04:05z", INSTANT, MIDNIGHT + 11_045, RFC3339 | DATABASES),
    ("2026-01-02T03:04:05z", INSTANT, MIDNIGHT + 11_045, RFC3339 | DATABASES),
    ("2026-01-02t03:04:05", LOCAL, MIDNIGHT + 11_045, DATABASES),
    ("2026-01-02 03:04:05", LOCAL, MIDNIGHT + 11_045, DATABASES),
    ("2026-01-02 03:04:05 GMT", INSTANT, MIDNIGHT + 11_045, DATABASES),
    ("2026-01-02T03:04:05,6Z", INSTANT, MIDNIGHT + 11_045, DATABASES),
    ("2026-01-02T03:04:05+0100", INSTANT, MIDNIGHT + 7_445, DATABASES),
    ("2026-01-02T03:04:05+01", INSTANT, MIDNIGHT + 7_445, DATABASES),
    ("2026-01-02T03:04:05 Z", INSTANT, MIDNIGHT + 11_045, DATABASES),
    ("2026-01-02T24:00:00Z", INSTANT, MIDNIGHT + 86_400, XSD),
    ("2026-01-02T24:00:00", LOCAL, MIDNIGHT + 86_400, XSD),
    ("2026-01-02T24:00:01Z", OTHER, 0, 0),
    ("2026-01-02T24:00Z", OTHER, 0, 0),
    ("2026-01-02 24:00:00", OTHER, 0, 0),
    ("2026-01-02T23:59:60Z", OTHER, 0, 0),
    ("2026-02-30", OTHER, 0, 0),
    ("0000-01-01", OTHER, 0, 0),
    ("02.01.2026", OTHER, 0, 0),
    ("Fri, 02 Jan 2026 03:04:05 GMT", INSTANT, MIDNIGHT + 11_045, RFC822),
    ("2 Jan 26 03:04 +0100", INSTANT, MIDNIGHT + 7_440, RFC822),
    ("Fri, 32 Jan 2026 03:04:05 GMT", OTHER, 0, 0),
]


@pytest.mark.parametrize(("text", "kind", "value", "forms"), FORMS)
def test_each_text_has_one_date_and_is_accepted_by_the_formats_of_the_table(
    text: str, kind: int, value: int, forms: int
) -> None:
    found = dates.read(pa.array([f" {text}\n"]), 0xFF)
    assert (int(found.kind[0]), int(found.forms[0])) == (kind, forms)
    if kind in (DATE, LOCAL, INSTANT):
        assert int(found.value[0]) == value


def test_all_date_formats_can_be_in_one_column() -> None:
    """Blocks, lengths and timezones are read together; none may affect its neighbors."""
    rows = (FORMS * 2_000)[::-1]
    column = pa.array([None, *(text for text, *_ in rows), ""])
    found = dates.read(column.slice(1), 0xFF)
    assert found.kind.tolist() == [*(kind for _, kind, _, _ in rows), dates.BLANK]
    assert found.forms.tolist() == [*(forms for *_, forms in rows), 0]


@pytest.mark.parametrize("accepted", [W3C, XSD, RFC3339, RFC822, DATABASES, W3C | XSD])
def test_a_text_that_is_not_accepted_is_not_a_date(accepted: int) -> None:
    found = dates.read(pa.array([text for text, *_ in FORMS]), accepted)
    for kind, (text, whole, _, forms) in zip(found.kind.tolist(), FORMS, strict=True):
        taken = bool(forms & accepted) or whole == COARSE
        assert kind == (whole if taken else OTHER), text


XSD_DATE = etree.XMLSchema(
    etree.fromstring(
        '<schema xmlns="http://www.w3.org/2001/XMLSchema"><element name="d"><simpleType>'
        '<union memberTypes="date dateTime"/></simpleType></element></schema>'
    )
)


def test_the_xsd_format_accepts_the_same_dates_as_the_schema_library() -> None:
    parts = [
        ["2026-01-02", "2024-02-29", "2023-02-29", "0001-01-01", "9999-12-31", "2026-1-2"],
        ["", "T", "t", " "],
        ["", "00:00", "03:04:05", "23:59:59", "24:00:00", "24:00:01", "23:60:00", "23:59:60"],
        ["", ".5", ".000", ".123456789012345", ",5", "."],
        ["", "Z", "z", "+00:00", "-14:00", "+14:01", "+0100", "+01", " UTC"],
    ]
    texts = ["".join(chosen) for chosen in itertools.product(*parts)]
    element = etree.Element("d")
    wanted = []
    for text in texts:
        element.text = text
        wanted.append(XSD_DATE.validate(element))
    taken = (dates.read(pa.array(texts), XSD).forms & XSD) != 0
    assert [text for text, one, other in zip(texts, wanted, taken.tolist(), strict=True) if one is not other] == []
    assert sum(wanted) > 100


@given(st.datetimes(min_value=datetime(1, 1, 2), max_value=datetime(9999, 12, 30)), st.integers(-15 * 60, 15 * 60))  # noqa: DTZ001 - hypothesis wants naive bounds
def test_an_instant_is_the_same_in_every_format(moment: datetime, minutes: int) -> None:
    zoned = moment.replace(microsecond=0, tzinfo=timezone(timedelta(minutes=minutes)))
    iso = zoned.isoformat()
    texts = [iso, iso.replace("T", " "), iso.replace("T", "t"), iso[:-3] + iso[-2:], f"{iso[:19]}.123{iso[19:]}"]
    found = dates.read(pa.array(texts))
    seconds = int((zoned - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds())
    assert (found.kind.tolist(), found.value.tolist()) == ([INSTANT] * 5, [seconds] * 5)


# --- all readers agree ---

VIDEO = {"thumbnail_loc": "/t.jpg", "title": "T", "description": "D", "content_loc": "/v.mp4"}
SOURCE_FORMS = [text for text, kind, _, forms in FORMS if forms & DATABASES and kind != COARSE]


@pytest.mark.parametrize("text", [text for text, *_ in FORMS])
@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
def test_videos_and_news_accept_the_same_dates_as_lastmod(text: str, zone: str | None) -> None:
    now = datetime(2026, 1, 3, 2, tzinfo=UTC)
    column = pa.array([text])
    local = zone is None and dates.read(column).kind[0] == LOCAL  # an error there, so it is left out here
    as_lastmod = [None] if local else from_source(column, zone)
    page = pa.array(["https://shop.example/a"])
    video = pa.array([[VIDEO | {"publication_date": text}]])
    found = videos(video, page, Tally(), rules=UrlRules("https://shop.example"), timezone=zone)
    assert [found.to_pylist()[0][0]["publication_date"]] == as_lastmod
    if not local:
        article = news(
            pa.array(["T"]), column, name="N", language="en", now=now, tally=Tally(), timezone=zone
        ).to_pylist()[0]
        assert [article and article["publication_date"]] == as_lastmod
    assert (as_lastmod != [None]) is (text in SOURCE_FORMS and not local)


def from_source(column: pa.Array, zone: str | None) -> list[str | None]:
    read_at = datetime(2026, 1, 20, tzinfo=UTC)
    return lastmod.texts(lastmod.moments(column, name="c", timezone=zone, read_at=read_at, tally=Tally())).to_pylist()


def test_a_time_in_a_skipped_or_repeated_hour_is_read_alike_for_lastmod_and_videos() -> None:
    for text, moment in (
        ("2025-03-30 02:30:00", "2025-03-30T01:00:00Z"),
        ("2025-10-26 02:30:00", "2025-10-26T00:30:00Z"),
    ):
        assert from_source(pa.array([text]), "Europe/Berlin") == [moment]
        video = pa.array([[VIDEO | {"publication_date": text}]])
        found = videos(
            video,
            pa.array(["https://shop.example/a"]),
            Tally(),
            rules=UrlRules("https://shop.example"),
            timezone="Europe/Berlin",
        )
        assert found.to_pylist()[0][0]["publication_date"] == moment


def test_native_dates_and_times_are_accepted_unchanged() -> None:
    moment = datetime(2026, 1, 2, 3, 4, 5, 900_000, tzinfo=UTC)
    for column, kind, value in (
        (pa.array([date(2026, 1, 2), None]), DATE, DAY),
        (pa.array([date(2026, 1, 2), None], pa.date64()), DATE, DAY),
        (pa.array([moment, None], pa.timestamp("ns", "Asia/Tokyo")), INSTANT, MIDNIGHT + 11_045),
        (pa.array([moment.replace(tzinfo=None), None], pa.timestamp("ms")), LOCAL, MIDNIGHT + 11_045),
        (
            pa.array([datetime(1969, 12, 31, 23, 59, 59, 500_000, tzinfo=UTC), None], pa.timestamp("us", "UTC")),
            INSTANT,
            -1,
        ),
    ):
        found = dates.read(column)
        assert found.kind.tolist() == [kind, dates.BLANK]
        assert int(found.value[0]) == value
