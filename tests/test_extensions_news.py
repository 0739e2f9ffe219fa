"""News: articles of the last 48 hours, to the second."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sitemap_etl.errors import InvalidSource
from sitemap_etl.extensions import language, news, still_news
from sitemap_etl.frames import NEWS, Tally
from tests.support.examples import examples
from tests.support.rendered import document, faults_by_lxml, rows

NOW = datetime(2026, 11, 20, 12, 0, 0, tzinfo=UTC)


def read(dates, titles=None, **more) -> tuple[list, dict[str, int]]:
    """Return which rows are news (their publication date) and the counts."""
    tally = Tally()
    dates = dates if isinstance(dates, pa.Array) else pa.array(dates)
    title = pa.array(["Title"] * len(dates)) if titles is None else pa.array(titles)
    arguments = {"name": "The Times", "language": "en", "now": NOW, "tally": tally} | more
    result = news(title, dates, **arguments)
    assert result.type == NEWS
    result.validate(full=True)
    return [row and row["publication_date"] for row in result.to_pylist()], tally.counts


def test_an_article_has_its_publication_and_is_valid():
    tally = Tally()
    result = news(
        pa.array([" A & B \x00"]), pa.array([NOW]), name=" The Times ", language="en-GB", now=NOW, tally=tally
    ).to_pylist()
    assert result == [
        {"name": "The Times", "language": "en", "publication_date": "2026-11-20T12:00:00Z", "title": "A & B"}
    ]
    assert faults_by_lxml(document(rows({"news": result[0]})), "all.xsd") == []


def test_the_window_is_48_hours_to_the_second():
    edge = NOW - timedelta(hours=48)
    given = [edge - timedelta(seconds=1), edge, edge + timedelta(seconds=1), NOW, NOW + timedelta(seconds=1)]
    expected = [None, "2026-11-18T12:00:00Z", "2026-11-18T12:00:01Z", "2026-11-20T12:00:00Z", None]
    counts = {"news: older than 48 hours": 1, "news: publication_date in the future": 1}
    assert read(given) == (expected, counts)
    assert read([moment.isoformat() for moment in given]) == (expected, counts)


@settings(max_examples=examples(200))
@given(st.integers(-200_000, 200_000), st.integers(-14 * 60, 14 * 60))
def test_an_article_is_news_for_48_hours_in_any_timezone(age, offset):
    moment = (NOW - timedelta(seconds=age)).astimezone(timezone(timedelta(minutes=offset)))
    published, counts = read([moment.isoformat()])
    assert (published[0] is not None) == (0 <= age <= 172_800)
    assert sum(counts.values()) == (published[0] is None)


@pytest.mark.parametrize(
    "dates",
    [
        pa.array([datetime(2026, 11, 20, 11, tzinfo=UTC)]),
        pa.array([datetime(2026, 11, 20, 11, tzinfo=UTC)], pa.timestamp("ns", "Asia/Tokyo")),
        pa.array(["2026-11-20T12:00:00+01:00"]),
        pa.array(["2026-11-20 11:00:00+00"]),
        pa.array(["2026-11-20T11:00Z"]),
        pa.array(["2026-11-20T11:00:00.999999Z"]),
        pa.array(["2026-11-20t11:00:00z"]),
        pa.array(["2026-11-20 11:00:00 UTC"]),
        pa.array(["2026-11-20 06:00:00-0500"]).dictionary_encode(),
    ],
)
def test_every_date_format_is_published_in_a_format_that_all_readers_accept(dates):
    assert read(dates) == (["2026-11-20T11:00:00Z"], {})


def test_a_date_without_time_counts_from_midnight_in_the_given_timezone():
    given = pa.array([date(2026, 11, day) for day in (18, 19, 20, 21, 22)])

    def days(**more) -> list[int]:
        return [int(published[-2:]) for published in read(given, **more)[0] if published]

    assert days() == [19, 20, 21], "without a zone in UTC, where a date may be a day ahead"
    assert days(timezone="UTC") == [19, 20]
    assert days(timezone="America/New_York") == [19, 20]
    assert days(timezone="Pacific/Auckland") == [20, 21], "there the 21st has begun an hour ago, the 19th 49 hours ago"
    assert days(timezone="Pacific/Auckland", now=NOW.replace(hour=10)) == [19, 20]


def test_a_time_without_a_timezone_is_refused_with_the_setting_to_add():
    with pytest.raises(InvalidSource, match=r"'2026-11-20 11:00:00'.*timezone: Europe/Berlin"):
        read(["2026-11-20 11:00:00"])
    assert read(["2026-11-20 11:00:00"], timezone="Europe/Berlin")[0] == ["2026-11-20T10:00:00Z"]
    naive = pa.array([datetime(2026, 11, 20, 11)])  # noqa: DTZ001 - the naive one is meant
    with pytest.raises(InvalidSource, match="time zone"):
        read(naive)
    assert read(naive, timezone="Europe/Berlin")[0] == ["2026-11-20T10:00:00Z"]


def test_missing_required_values_of_news_are_counted():
    good = "2026-11-20T11:00:00Z"
    given = [good, None, "", "yesterday", "2026-02-30", good, good]
    titles = ["T", "T", "T", "T", "T", None, " \x00 "]
    assert read(given, titles) == (
        [good, None, None, None, None, None, None],
        {
            "news: publication_date is missing": 2,
            "news: publication_date is no date": 2,
            "news: title is missing": 2,
        },
    )


def test_an_example_of_rejected_news_names_the_page():
    tally = Tally()
    news(
        pa.array(["T"]), pa.array(["2020-01-01"]), name="N", language="en", now=NOW, tally=tally,
        loc=pa.array(["https://shop.example/a"]),
    )  # fmt: skip
    assert tally.examples == {"news: older than 48 hours": ["https://shop.example/a: 2020-01-01"]}


def test_columns_without_rows_or_values_have_no_news():
    assert read(pa.array([], pa.string())) == ([], {})
    assert read(pa.nulls(2)) == ([None, None], {"news: publication_date is missing": 2})


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("en", "en"),
        ("en-US", "en"),
        ("pt_BR", "pt"),
        ("fil", "fil"),
        ("zh-CN", "zh-cn"),
        ("zh-tw", "zh-tw"),
        ("zh-Hant-HK", "zh-tw"),
        ("zh-Hans", "zh-cn"),
        ("zh", "zh"),
    ],
)
def test_the_language_is_converted_to_the_format_of_the_xsd(text, code):
    assert language(text) == code
    item = {"name": "N", "language": code, "publication_date": "2026-01-01", "title": "T"}
    assert faults_by_lxml(document(rows({"news": item})), "all.xsd") == []


@pytest.mark.parametrize("text", ["", "english", "xx", "e", "en-", "12", "zh_", "日本"])
def test_an_invalid_language_is_refused(text):
    with pytest.raises(ValueError, match="not a language"):
        language(text)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"language": "klingon!"}, "not a language"),
        ({"name": " "}, "name of the publication"),
        ({"now": datetime(2026, 1, 1)}, "time zone"),  # noqa: DTZ001 - the naive one is meant
        ({"timezone": "Mars/Base"}, "Mars/Base"),
    ],
)
def test_invalid_news_settings_are_refused(wrong, said):
    with pytest.raises(ValueError, match=said):
        read(["2026-11-20"], **wrong)


@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
def test_published_articles_expire_at_the_same_time_as_rows(zone: str | None) -> None:
    """An article that a fast clock published too early is not news yet."""
    now = datetime(2026, 11, 25, 23, 30, tzinfo=UTC)
    given = [
        "2026-11-25T23:30:00Z",
        "2026-11-25T23:31:00Z",
        "2026-11-23T23:30:00Z",
        "2026-11-23T23:29:59Z",
        *(f"2026-11-{day}" for day in (23, 24, 25, 26)),
    ]
    titles = pa.array(["A"] * len(given))
    rule = {"name": "The Times", "language": "en", "timezone": zone}
    as_published = pa.StructArray.from_arrays([titles, titles, pa.array(given), titles], fields=list(NEWS))
    read = news(titles, pa.array(given), now=now, tally=Tally(), **rule)
    assert still_news(as_published, now, zone).tolist() == pc.is_valid(read).to_pylist()
    assert still_news(pa.nulls(2, NEWS), now, zone).tolist() == [True, True], "never published as news"
