"""Which columns `init` recognizes, by their values."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from sitemap_etl.runs.init.columns import find

NOW = datetime(2026, 11, 1, tzinfo=UTC)


def table(count: int = 40, **columns: Any) -> pa.Table:
    """Return a table with a column for each list, or function of a row's number."""
    values = {name.replace("_", " "): column for name, column in columns.items()}
    return pa.table({k: [v(n) for n in range(count)] if callable(v) else v for k, v in values.items()})


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"id": str, "Adresse": lambda n: f"https://a.example/{n}"}, ("Adresse", "url")),
        ({"x": lambda n: f"/p/{n}", "y": lambda n: f"/c/{n % 3}"}, ("x", "path")),
        ({"url": lambda n: f"https://brand{n}.example/", "y": lambda n: f"https://a.example/{n}"}, ("y", "url")),
        ({"image url": lambda n: f"https://a.example/{n}.jpg", "y": lambda n: f"/{n}"}, ("y", "path")),
        ({"amp url": lambda n: f"https://a.example/a/{n}", "y": lambda n: f"https://a.example/{n}"}, ("y", "url")),
        ({"mobil": lambda n: f"https://a.example/m/{n}", "loc": lambda n: f"https://a.example/{n}"}, ("loc", "url")),
        ({"sku": lambda n: f"AB{n}", "seo": lambda n: f"rote-lampe-{n}"}, ("seo", "slug")),
        ({"page": lambda n: f"www.a.example/{n}"}, ("page", "bare")),
        ({"name": lambda n: f"Lamp {n}", "path": lambda n: f"C:/files/{n} b.pdf"}, None),
        ({"url": lambda n: None if n % 2 else f"/p/{n}", "y": lambda n: f"/q/{n}"}, ("y", "path")),
    ],
)
def test_the_column_of_urls_is_found(columns: dict[str, Any], expected: tuple[str, str] | None) -> None:
    found = find(table(**columns), NOW).address
    assert (None if found is None else (found.column, found.form)) == expected


def test_of_two_url_columns_the_one_on_a_single_host_is_chosen() -> None:
    rows = table(a=lambda n: f"https://a.example/{n}", b=lambda n: f"https://{'bc'[n % 2]}.example/{n}")
    one = find(rows, NOW).address
    assert one is not None
    assert (one.column, one.origins) == ("a", {"https://a.example": 40})


@pytest.mark.parametrize(
    ("values", "rule"),
    [
        (["28.09.2026 10:00"], {"format": "%d.%m.%Y %H:%M", "timezone": "UTC"}),
        (["28/09/2026", "01/02/2026"], {"format": "%d/%m/%Y"}),
        (["09/28/2026", "01/02/2026"], {"format": "%m/%d/%Y"}),
        (["09/28/2026 1:30 PM"], {"format": "%m/%d/%Y %I:%M %p", "timezone": "UTC"}),
        (["20260928", "20260102"], {"format": "%Y%m%d"}),
        ([20260928, 20260102], {"format": "%Y%m%d"}),
        (["Mon, 28 Sep 2026 10:00:00 +0200"], {"format": "%a, %d %b %Y %H:%M:%S %z"}),
        (["Mon, 28 Sep 2026 10:00:00 GMT"], {"format": "%a, %d %b %Y %H:%M:%S GMT", "timezone": "UTC"}),
        (["28 Sep 2026", "1 Jan 2026"], {"format": "%d %b %Y"}),
        (["2026-09-28T10:00:00+02:00", "2026-09-28"], {}),
        (["2026-09-28 10:00:00"], {"timezone": "UTC"}),
        ([datetime(2026, 9, 28, tzinfo=UTC).replace(tzinfo=None)], {"timezone": "UTC"}),
        ([datetime(2026, 9, 28, tzinfo=UTC)], {}),
        ([1_790_000_000, 1_790_086_400], {"unit": "s"}),
        ([1_790_000_000_000], {"unit": "ms"}),
        ([46_265.5, 46_264.25], {"format": "excel", "timezone": "UTC"}),
        (["2099-09-28", "2098-01-01"], None),
        ([1, 2, 3], None),
        ([4711.5, 812.0], None),
        (["2026", "2025"], None),
    ],
)
def test_the_column_of_dates_is_found(values: list[Any], rule: dict[str, str] | None) -> None:
    name = "datum" if isinstance(values[0], float) and values[0] > 40_000 else "d"
    found = find(table(**{name: values}), NOW).dates
    assert (None if found is None else found.rule) == rule


def test_the_date_of_the_last_change_is_no_earlier_than_the_others() -> None:
    day = datetime(2026, 1, 1, tzinfo=UTC)
    rows = table(
        angelegt=lambda n: day + timedelta(days=n),
        stand=lambda n: day + timedelta(days=2 * n),
        exportiert=lambda _n: datetime(2026, 10, 31, tzinfo=UTC),
        geloescht=lambda n: day + timedelta(days=3 * n) if n == 7 else None,
        gueltig_bis=lambda _n: datetime(2030, 1, 1, tzinfo=UTC),
    )
    found = find(rows, NOW).dates
    assert found is not None
    assert found.column == "stand"


def test_of_equal_date_columns_the_name_decides() -> None:
    rows = table(created=lambda n: f"2026-01-{n % 28 + 1:02}", updated=lambda n: f"2026-01-{n % 28 + 1:02}")
    found = find(rows, NOW).dates
    assert found is not None
    assert found.column == "updated"


def test_one_date_in_all_rows_is_recognized_as_the_date_of_the_export() -> None:
    found = find(table(lastmod=lambda _n: "2026-10-09"), NOW)
    assert (found.dates, found.same_date) == (None, "lastmod")
    few = find(table(3, lastmod=lambda _n: "2026-10-09"), NOW)
    assert few.dates is not None


def test_dates_with_ambiguous_day_and_month_are_marked_as_uncertain() -> None:
    sure, doubtful = (find(table(d=values), NOW).dates for values in (["13/02/2026"], ["01/02/2026"]))
    assert sure is not None
    assert doubtful is not None
    assert (sure.doubtful, doubtful.doubtful) == (False, True)


def test_columns_of_images_titles_keys_and_flags_are_found() -> None:
    rows = table(
        nr=lambda n: n,
        path=lambda n: f"/{n}",
        Bilder=lambda n: f'["https://c.example/{n}.jpg?w=1", "/i/{n}.webp"]',
        Text=lambda n: f"Rote Lampe {n}",
        Datei=lambda n: f"{n}.jpg",
        aktiv=lambda n: n % 2 == 0,
        status=lambda n: ("draft", "published")[n % 2],
        farbe=lambda n: ("rot", "blau")[n % 2],
    )
    found = find(rows, NOW)
    assert (found.images, found.title) == ("Bilder", "Text")
    assert found.keys == ("nr", "Datei")
    assert found.flags == ("aktiv", "status")


@pytest.mark.parametrize(
    "text", ["Tue, {:02} Sep 2031 10:00:00 EST", "{} September 2031", "Sept. {}, 2031", "Sep {:02} 10:00:00 2031"]
)
def test_dates_in_words_are_not_titles(text: str) -> None:
    rows = table(url=lambda n: f"/{n}", until=lambda n: text.format(n % 28 + 1))
    assert find(rows, NOW).title is None
    named = table(url=lambda n: f"/{n}", until=lambda n: f"May {n} be with you")
    assert find(named, NOW).title == "until"


def test_columns_of_every_type_are_examined_without_errors() -> None:
    rows = pa.table(
        {
            "struct": [{"a": 1}, {"a": 2}],
            "list": [["https://c.example/1.png"], []],
            "map": pa.array([[("a", 1)], []], pa.map_(pa.string(), pa.int64())),
            "time": pa.array([1, 2], pa.time32("s")),
            "decimal": pa.array([1, None], pa.decimal128(20, 3)),
            "bytes": [b"\xff\x00", b""],
            "uuid": pa.array([b"0" * 16, b"1" * 16], pa.uuid()),
            "dictionary": pa.array(["/a", "/b"]).dictionary_encode(),
            "nothing": pa.nulls(2),
            "long": ["a" * 100_000, "a." * 50_000],
        }
    )
    found = find(rows, NOW)
    assert found.images == "list"
    assert found.address is not None
    assert found.address.column == "dictionary"


def test_without_rows_only_the_column_named_loc_is_recognized() -> None:
    found = find(pa.table({"loc": pa.array([], pa.string()), "url": pa.array([], pa.string())}), NOW)
    assert found.address is not None
    assert found.address.column == "loc"
    assert find(pa.table({"url": pa.array([], pa.string())}), NOW).address is None
