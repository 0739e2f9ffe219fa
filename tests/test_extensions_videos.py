"""Videos: each value is validated; an invalid required one drops the video, an optional one only itself."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from sitemap_etl.extensions import mobile, videos
from sitemap_etl.frames import VIDEO, VIDEOS, Tally
from sitemap_etl.urls import UrlRules
from tests.support.rendered import document, faults_by_lxml, rows

SITE = "https://shop.example"
PAGE = f"{SITE}/page"
LEAST = {"thumbnail_loc": "/t.jpg", "title": "T", "description": "D", "content_loc": "https://v.example/1.mp4"}
PUBLISHED = LEAST | {"thumbnail_loc": f"{SITE}/t.jpg"}


def read(column, timezone=None) -> tuple[list, dict[str, int]]:
    """Return the videos of each row without nulls, and the counts."""
    tally = Tally()
    column = column if isinstance(column, pa.Array) else pa.array(column)
    loc = pa.array([PAGE] * len(column))
    result = videos(column, loc, tally, rules=UrlRules(SITE), timezone=timezone)
    assert result.type == VIDEOS
    result.validate(full=True)
    found = [
        None if row is None else [{k: v for k, v in video.items() if v is not None} for video in row]
        for row in result.to_pylist()
    ]
    return found, tally.counts


def one(**values) -> tuple[dict | None, dict[str, int]]:
    """Return the result for one video, native and as JSON: both must be equal."""
    given = LEAST | values
    native = read([[given]])
    plain = json.loads(json.dumps(given, default=str))
    assert read([json.dumps([plain])])[0] == native[0]
    return (native[0][0] or [None])[0], native[1]


def test_a_video_with_everything_is_published_and_validates():
    video, counts = one(
        player_loc="https://v.example/player?v=1&w=2",
        duration=600,
        expiration_date="2030-01-01",
        rating=4.25,
        view_count=12345,
        publication_date="2026-01-02T03:04:05+02:00",
        tag=["steak", "grill"],
        family_friendly=True,
        restriction={"relationship": "allow", "value": "IE GB"},
        requires_subscription="no",
        uploader={"name": "Grilly", "info": "https://www.shop.example/grilly"},
        platform={"relationship": "deny", "value": "tv"},
        live="No",
    )
    assert counts == {}
    assert video == PUBLISHED | {
        "player_loc": "https://v.example/player?v=1&w=2",
        "duration": "600",
        "expiration_date": "2030-01-01",
        "rating": "4.25",
        "view_count": "12345",
        "publication_date": "2026-01-02T01:04:05Z",
        "tag": ["steak", "grill"],
        "family_friendly": "yes",
        "restriction": {"relationship": "allow", "value": "IE GB"},
        "requires_subscription": "no",
        "uploader": "Grilly",
        "uploader_info": "https://www.shop.example/grilly",
        "platform": {"relationship": "deny", "value": "tv"},
        "live": "no",
    }
    assert set(video) == {entry.name for entry in VIDEO}
    assert faults_by_lxml(document(rows({"videos": [video]})), "all.xsd") == []


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"title": None}, "video: title is missing"),
        ({"title": " \x00 "}, "video: title is missing"),
        ({"title": "é" * 101}, "video: title has more than 100 characters"),
        ({"description": ""}, "video: description is missing"),
        ({"description": "x" * 2_049}, "video: description has more than 2,048 characters"),
        ({"thumbnail_loc": None}, "video: thumbnail_loc is missing"),
        ({"thumbnail_loc": "mailto:x"}, "video: thumbnail_loc: not http or https"),
        ({"content_loc": None}, "video: neither content_loc nor player_loc"),
    ],
)
def test_an_invalid_required_value_drops_the_video(values, reason):
    assert one(**values) == (None, {reason: 1})


def test_lengths_count_characters_and_the_limits_are_allowed():
    video, counts = one(title="é" * 100, description="😀" * 2_048)
    assert counts == {}
    assert video["title"] == "é" * 100


def test_a_video_may_have_only_a_player():
    assert one(content_loc=None, player_loc="/player") == (
        {name: value for name, value in PUBLISHED.items() if name != "content_loc"} | {"player_loc": f"{SITE}/player"},
        {},
    )


def test_the_url_of_content_or_player_must_not_be_the_page():
    assert one(player_loc="/page") == (PUBLISHED, {"video player_loc: is the page itself": 1})
    assert one(content_loc=PAGE) == (
        None,
        {"video content_loc: is the page itself": 1, "video: neither content_loc nor player_loc": 1},
    )


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("duration", 1, "1"),
        ("duration", 28_800, "28800"),
        ("duration", 600.0, "600"),
        ("duration", "0600", "600"),
        ("duration", Decimal("600.00"), "600"),
        ("duration", 0, None),
        ("duration", 28_801, None),
        ("duration", 1.5, None),
        ("duration", -5, None),
        ("duration", "PT2M", None),
        ("duration", True, None),
        ("rating", 0, "0"),
        ("rating", 5, "5"),
        ("rating", "4.999", "5"),
        ("rating", 0.0000001, "0"),
        ("rating", 5.01, None),
        ("rating", -1, None),
        ("rating", "good", None),
        ("view_count", 0, "0"),
        ("view_count", 3_000_000_000_000, "3000000000000"),
        ("view_count", 3e15, "3000000000000000"),
        ("view_count", -1, None),
        ("view_count", 0.5, None),
        ("family_friendly", True, "yes"),
        ("family_friendly", False, "no"),
        ("family_friendly", 1, "yes"),
        ("family_friendly", "NO", "no"),
        ("family_friendly", "maybe", None),
        ("live", "yes", "yes"),
        ("requires_subscription", "x", None),
        ("expiration_date", "2026-02-28", "2026-02-28"),
        ("expiration_date", "2028-02-29T23:59Z", "2028-02-29T23:59:00Z"),
        ("expiration_date", "2026-02-29", None),
        ("expiration_date", "2026-01-02T24:00:00Z", None),
        ("expiration_date", "2026", None),
        ("expiration_date", 20260102, None),
        ("publication_date", "2026-01-02 03:04:05.678+05:30", "2026-01-01T21:34:05Z"),
        ("publication_date", "2026-01-01T00:30:00+0100", "2025-12-31T23:30:00Z"),
        ("uploader", "x" * 255, "x" * 255),
        ("uploader", "x" * 256, None),
    ],
)
def test_an_optional_value_is_normalized_or_dropped_alone(name, value, text):
    video, counts = one(**{name: value})
    assert video == PUBLISHED | ({name: text} if text else {})
    assert len(counts) == (text is None)
    assert all(reason.startswith(f"video {name}: ") for reason in counts)


@pytest.mark.parametrize("blank", [None, "", "  "])
def test_a_blank_optional_value_is_not_invalid(blank):
    names = [name for name in (entry.name for entry in VIDEO) if name not in LEAST]
    assert one(**dict.fromkeys(names, blank)) == (PUBLISHED, {})


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("restriction", "allow IE GB", "allow:IE GB"),
        ("restriction", "deny: de, at, de", "deny:DE AT"),
        ("restriction", {"relationship": "Deny", "value": "DE"}, "deny:DE"),
        ("restriction", {"countries": ["ie", "GB"], "relationship": "allow"}, "allow:IE GB"),
        ("restriction", {"relationship": "allow", "value": "UK"}, None),
        ("restriction", {"relationship": "allow", "value": "DE EU"}, None),
        ("restriction", {"relationship": None, "value": "DE"}, None),
        ("restriction", "DE", None),
        ("restriction", "allow", None),
        ("platform", "allow web mobile", "allow:web mobile"),
        ("platform", {"relationship": "deny", "platforms": ["TV"]}, "deny:tv"),
        ("platform", "allow phone", None),
    ],
)
def test_restriction_and_platform_need_a_relationship_and_known_codes(name, value, expected):
    video, counts = one(**{name: value})
    if expected is None:
        assert (video, [reason.split(":")[0] for reason in counts]) == (PUBLISHED, [f"video {name}"])
    else:
        relationship, codes = expected.split(":")
        assert (video[name], counts) == ({"relationship": relationship, "value": codes}, {})


def test_tags_after_the_thirty_second_are_dropped():
    video, counts = one(tag=[f"tag {n}" for n in range(34)])
    assert video["tag"] == [f"tag {n}" for n in range(32)]
    assert counts == {"video tag: more than 32 of a video": 2}
    assert one(tag="one, and only")[0]["tag"] == ["one, and only"]
    assert one(tag=["a", None, " ", "b"])[0]["tag"] == ["a", "b"]
    assert one(tag=[]) == (PUBLISHED, {})


@pytest.mark.parametrize(
    ("info", "kept"),
    [
        ("https://shop.example/u", True),
        ("https://users.shop.example/u", True),
        ("/u", True),
        ("https://other.example/u", False),
        ("https://notshop.example/u", False),
        ("mailto:u@shop.example", False),
    ],
)
def test_the_uploader_info_must_be_on_the_domain_of_the_page(info, kept):
    for given in ({"uploader": "Me", "uploader_info": info}, {"uploader": {"name": "Me", "info": info}}):
        video, counts = one(**given)
        assert video["uploader"] == "Me"
        assert ("uploader_info" in video, len(counts)) == (kept, not kept)


def test_uploader_info_without_an_uploader_is_dropped():
    assert one(uploader_info="https://shop.example/u") == (PUBLISHED, {})


def test_native_dates_and_times_are_read():
    when = [("publication_date", pa.timestamp("us", "Europe/Berlin")), ("expiration_date", pa.date32())]
    kind = pa.struct([*((name, pa.string()) for name in LEAST), *when])
    given = LEAST | {"publication_date": datetime(2026, 7, 1, tzinfo=UTC), "expiration_date": date(2030, 1, 2)}
    found, counts = read(pa.array([[given]], pa.list_(kind)))
    assert counts == {}
    assert found[0][0] | PUBLISHED == found[0][0]
    assert (found[0][0]["publication_date"], found[0][0]["expiration_date"]) == ("2026-07-01T00:00:00Z", "2030-01-02")


def test_a_time_without_a_timezone_is_read_in_the_given_one_or_dropped():
    given = [[LEAST | {"publication_date": "2026-07-01 00:00:00"}]]
    assert read(given) == ([[PUBLISHED]], {"video publication_date: a time without a time zone": 1})
    assert read(given, "Europe/Berlin") == ([[PUBLISHED | {"publication_date": "2026-06-30T22:00:00Z"}]], {})
    native = [[LEAST | {"publication_date": datetime(2026, 7, 1)}]]  # noqa: DTZ001 - the naive one is meant
    assert read(native, "Europe/Berlin") == read(given, "Europe/Berlin")


def test_videos_keep_their_order_and_page():
    second = LEAST | {"title": "Second"}
    broken = LEAST | {"title": None}
    found, counts = read([[LEAST, broken, second], None, [], [broken], [second, None]])
    assert found == [[PUBLISHED, PUBLISHED | {"title": "Second"}], None, None, None, [PUBLISHED | {"title": "Second"}]]
    assert counts == {"video: title is missing": 2}


def test_elements_that_google_no_longer_reads_are_left_out_and_counted():
    assert one(category="Cooking", price="1.99") == (
        PUBLISHED,
        {
            "video category: not an element that Google reads": 1,
            "video price: not an element that Google reads": 1,
        },
    )


def test_examples_of_dropped_values_name_page_and_value():
    tally = Tally()
    videos(pa.array([[LEAST | {"rating": 9}]]), pa.array([PAGE]), tally, rules=UrlRules(SITE))
    assert tally.examples == {"video rating: not a number from 0.0 to 5.0": [f"{PAGE}: 9"]}


def test_json_values_of_mixed_kinds_are_read():
    given = [
        [LEAST | {"duration": "60", "tag": "one", "uploader": "A", "live": True}],
        [LEAST | {"duration": 60, "tag": ["one"], "uploader": {"name": "A"}, "live": "yes"}],
        LEAST | {"duration": 60.0, "tag": ["one"], "uploader": {"value": "A"}, "live": 1},
    ]
    expected = [PUBLISHED | {"duration": "60", "tag": ["one"], "uploader": "A", "live": "yes"}]
    assert read([json.dumps(row) for row in given]) == ([expected] * 3, {})


@pytest.mark.parametrize("text", ["{broken", '"text"', "3", "[[]]", '["x"]'])
def test_invalid_json_drops_only_the_videos_of_its_row(text):
    assert read([json.dumps(LEAST), text, None]) == (
        [[PUBLISHED], None, None],
        {"videos: neither a list of structs nor JSON of one": 1},
    )


def test_hostile_json_text_is_harmless():
    given = LEAST | {"title": "a\ud83d\x00b", "view_count": 10**30, "extra\ud83d": 1}
    found, counts = read([json.dumps(given)])
    assert found == [[PUBLISHED | {"title": "ab"}]]
    assert counts == {
        "video view_count: not a whole number": 1,
        "video extra: not an element that Google reads": 1,
    }


@pytest.mark.parametrize("column", [pa.array([1, 2, None]), pa.array([["a"], ["b"], None])])
def test_an_unsuitable_column_type_of_videos_is_counted(column):
    assert read(column) == ([None] * 3, {"videos: neither a list of structs nor JSON of one": 2})


def test_columns_without_rows_or_values_have_no_videos():
    assert read(pa.nulls(2)) == ([None, None], {})
    assert read(pa.array([], VIDEOS)) == ([], {})
    assert read(pa.array(["{}", "[]"])) == ([None, None], {"video: title is missing": 1})


@pytest.mark.parametrize(
    ("column", "expected", "bad"),
    [
        (pa.array([True, False, None]), [True, False, None], 0),
        (pa.array([1, 0, 7]), [True, False, None], 1),
        (pa.array(["yes", " False ", ""]), [True, False, None], 0),
        (pa.array(["t", "maybe", "n"]), [True, None, False], 1),
        (pa.nulls(2), [None, None], 0),
        (pa.array([], pa.bool_()), [], 0),
    ],
)
def test_mobile_is_read_as_a_boolean(column, expected, bad):
    tally = Tally()
    result = mobile(column, tally)
    assert (result.type, result.to_pylist(), tally.total) == (pa.bool_(), expected, bad)
