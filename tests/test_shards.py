"""From the rows of a run to files: which stay, which are written, where they are split and merged."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sitemap_etl.arrow import column_of
from sitemap_etl.diff import Dating, compare, places
from sitemap_etl.frames import SNAPSHOT, conform
from sitemap_etl.render import urlset
from sitemap_etl.render.shards import Published, Shard, shards
from sitemap_etl.settings import Shards

DATING = Dating(
    now="2026-11-01T02:00:00Z",
    epoch=1_793_498_400,
    dated=True,
    fingerprint=False,
    reset=False,
    first_seen=False,
    first_publish=False,
    back=False,
)
ENTRY = len("<url><loc>https://a.example/0000</loc><lastmod>2026-01-01</lastmod></url>\n")


def rows(numbers: Iterable[int], **columns: object) -> pa.Table:
    """Return pages /0000 … with equal entries; `columns`: number → value (None elsewhere), or one value for all."""
    numbers = sorted(numbers)
    given = {"lastmod": "2026-01-01"} | columns
    table = {name: [v.get(n) if isinstance(v, dict) else v for n in numbers] for name, v in given.items()}
    dates = [date or "2026-01-01" for date in table.pop("lastmod")]
    data = {"loc": [page(n) for n in numbers], "lastmod": dates, **table}
    return conform(pa.table({name: pa.array(v, SNAPSHOT.field(name).type) for name, v in data.items()}), SNAPSHOT)


def page(number: int) -> str:
    return f"https://a.example/{number:04}"


def bounds(limit: int, *, entries: float = 1_000_000, fill: float = 1.0) -> Shards:
    """Return limits of this many rows, and of the bytes of this many entries."""
    return Shards.model_construct(rows=limit, bytes=int(entries * ENTRY) + urlset.WRAPPER_BYTES, fill=fill)


@dataclass
class Section:
    """The published files of a section; `night` publishes again, and returns what it did to each file.

    A file is its number and its pages, and "reused", "renewed" or "written".
    """

    bounds: Shards
    view: bool = False
    known: pa.Table = field(default_factory=SNAPSHOT.empty_table)
    ranges: tuple[Published, ...] = ()
    next: int = 1
    stripped: tuple[str, ...] = ()

    def listed(self) -> pa.Table:
        """Return the published rows, without the time of their addition."""
        return conform(self.known.drop_columns(["since"]), SNAPSHOT)

    def made(self, table: pa.Table, low: str = "", high: str | None = None) -> list[Shard]:
        """Return the shards of a window; the known rows are those of the window."""
        locs = self.known.column("loc").to_pylist()
        inside = pa.array([low <= loc and (high is None or loc < high) for loc in locs], pa.bool_())
        known = self.known.filter(inside).combine_chunks()
        around = [r for r in self.ranges if (high is None or r.low < high) and (r.high is None or r.high > low)]
        at = places(column_of(table, "loc"), column_of(known, "loc"))
        compared = compare(table, known, at, DATING, SNAPSHOT.empty_table())
        made, stripped = shards(compared, known, around, low=low, high=high, bounds=self.bounds, view=self.view)
        self.stripped = tuple(stripped)
        return made

    def night(self, table: pa.Table) -> list[tuple[int, str, list[int]]]:
        made = self.made(table)
        found, ranges = [], []
        for at, shard in enumerate(made):
            number = at + 1 if self.view else shard.parent
            if number is None:
                number, self.next = self.next, self.next + 1
            self.next = max(self.next, number + 1)
            old = {r.number: r for r in self.ranges}.get(number)
            size = old.bytes if shard.reused and old else int(shard.entries.sizes.sum())
            locs = shard.rows.column("loc").to_pylist()
            high = made[at + 1].low if at + 1 < len(made) else None
            ranges.append(Published(number, "" if at == 0 else shard.low, high, locs[-1], len(locs), size))
            said = "renewed" if shard.renewed else "reused" if shard.reused else "written"
            found.append((number, said, [int(loc[-4:]) for loc in locs]))
            assert shard.reused == (shard.entries is None)
            if shard.entries is not None:
                assert shard.entries.joined().equals(urlset.entries(shard.rows).joined())
        assert [shard.place for shard in made] == [sum(r.rows for r in ranges[:at]) for at in range(len(ranges))]
        self.ranges = tuple(ranges)
        self.known = pa.concat_tables([shard.rows for shard in made] or [self.known.slice(0, 0)]).combine_chunks()
        return found


def published(limit: int, *files: Iterable[int], entries: float = 1_000_000, fill: float = 1.0) -> Section:
    """A section with these files."""
    section = Section(bounds(limit, entries=entries, fill=fill))
    tables = [rows(numbers) for numbers in files]
    for at, table in enumerate(tables):
        low = "" if at == 0 else table.column("loc")[0].as_py()
        high = tables[at + 1].column("loc")[0].as_py() if at + 1 < len(tables) else None
        last = table.column("loc")[-1].as_py()
        one = Published(at + 1, low, high, last, table.num_rows, table.num_rows * ENTRY)
        section.ranges += (one,)
    section.known = pa.concat_tables(tables).combine_chunks()
    section.next = len(tables) + 1
    return section


def states(found: list[tuple[int, str, list[int]]]) -> list[tuple[int, str, int]]:
    return [(number, said, len(pages)) for number, said, pages in found]


def test_a_first_release_is_divided_into_equal_files() -> None:
    section = Section(bounds(10, fill=0.8))
    assert states(section.night(rows(range(25)))) == [
        (1, "written", 6),
        (2, "written", 6),
        (3, "written", 6),
        (4, "written", 7),
    ]
    assert [shard.low for shard in Section(bounds(10, fill=0.8)).made(rows(range(25)))] == ["", *map(page, (6, 12, 18))]


def test_a_section_without_rows_has_no_files() -> None:
    assert Section(bounds(10)).made(rows([])) == []
    assert published(10, range(5), range(5, 9)).made(rows([])) == []


def test_a_file_with_unchanged_pages_is_reused() -> None:
    section = published(10, range(5), range(5, 9), range(20, 25))
    assert states(section.night(rows([*range(9), *range(20, 25)]))) == [
        (1, "reused", 5),
        (2, "reused", 4),
        (3, "reused", 5),
    ]


@pytest.mark.parametrize(
    ("numbers", "dates"),
    [
        ([*range(9), *range(20, 25)], {6: "2026-10-31"}),
        ([*range(5), 5, 6, 8, *range(20, 25)], {}),
        ([*range(5), *range(6, 9), *range(20, 25)], {}),
        ([*range(5), 5, 6, 7, *range(20, 25)], {}),
        ([*range(10), *range(20, 25)], {}),
        ([*range(9), 19, *range(20, 25)], {}),
    ],
    ids=["changed", "gone", "first gone", "last gone", "appended", "far behind"],
)
def test_only_files_with_added_changed_or_removed_pages_are_written(numbers: list[int], dates: dict[int, str]) -> None:
    section = published(10, range(5), range(5, 9), range(20, 25))
    found = section.night(rows(numbers, lastmod=dates))
    assert [(number, said) for number, said, _ in found] == [(1, "reused"), (2, "written"), (3, "reused")]
    assert [n for _, _, pages in found for n in pages] == sorted(numbers)
    assert [r.low for r in section.ranges] == ["", page(5), page(20)]


def test_the_range_of_a_file_without_pages_goes_to_the_file_before_it() -> None:
    section = published(10, range(5), range(5, 9), range(20, 25))
    found = section.night(rows([*range(5), *range(20, 25)]))
    assert states(found) == [(1, "reused", 5), (3, "reused", 5)]
    assert states(section.night(rows([*range(6), *range(20, 25)]))) == [(1, "written", 6), (3, "reused", 5)]


def test_changed_priority_or_changefreq_alone_writes_no_file() -> None:
    section = published(10, range(5), range(5, 9))
    both = {"priority": 9, "changefreq": "daily"}
    assert states(section.night(rows(range(9), **both))) == [(1, "reused", 5), (2, "reused", 4)]
    assert section.listed().equals(rows(range(9)))
    found = section.night(rows(range(9), lastmod={6: "2026-10-31"}, **both))
    assert states(found) == [(1, "reused", 5), (2, "written", 4)]
    assert section.known.column("priority").to_pylist() == [None] * 5 + [9] * 4


def test_a_changed_title_renews_the_snapshot_of_a_file_that_stays() -> None:
    section = published(10, range(5), range(5, 9))
    assert states(section.night(rows(range(9), title={6: "new"}))) == [(1, "reused", 5), (2, "renewed", 4)]
    assert states(section.night(rows(range(9), title={8: "new"}))) == [(1, "reused", 5), (2, "renewed", 4)]
    assert section.known.column("title").to_pylist() == [None] * 8 + ["new"]


def test_a_file_over_its_limit_is_split_and_its_first_part_keeps_the_number() -> None:
    section = published(10, range(0, 20, 2), range(20, 25))
    found = section.night(rows([*range(0, 20, 2), 3, 5, *range(20, 25)]))
    assert states(found) == [(1, "written", 6), (3, "written", 6), (2, "reused", 5)]
    assert [r.low for r in section.ranges] == ["", page(8), page(20)]


def test_pages_after_the_last_one_of_a_full_file_get_new_files() -> None:
    section = published(10, range(5), range(5, 15))
    found = section.night(rows(range(17)))
    assert states(found) == [(1, "reused", 5), (2, "reused", 10), (3, "written", 2)]
    assert section.ranges[2].low == page(15)
    assert states(section.night(rows(range(18)))) == [(1, "reused", 5), (2, "reused", 10), (3, "written", 3)]


def test_a_full_file_with_a_change_keeps_its_range_when_pages_are_appended() -> None:
    section = published(10, range(5), range(5, 15))
    found = section.night(rows(range(17), lastmod={5: "2026-10-31"}))
    assert states(found) == [(1, "reused", 5), (2, "written", 10), (3, "written", 2)]


def test_a_full_file_that_lost_a_page_is_written_when_pages_are_appended() -> None:
    section = published(10, range(5), range(5, 15))
    found = section.night(rows([*range(5), *range(6, 18)]))
    assert states(found) == [(1, "reused", 5), (2, "written", 9), (3, "written", 3)]


def test_an_unchanged_file_over_a_lowered_limit_is_split() -> None:
    section = published(10, range(10), range(10, 14))
    section.bounds = bounds(9)
    assert states(section.night(rows(range(14)))) == [(1, "written", 5), (3, "written", 5), (2, "reused", 4)]
    section = published(10, range(10), range(10, 14))
    section.bounds = bounds(10, entries=9)
    assert states(section.night(rows(range(14)))) == [(1, "written", 5), (3, "written", 5), (2, "reused", 4)]
    section = published(10, range(10), range(10, 14))
    section.bounds = bounds(10, entries=10)
    assert states(section.night(rows(range(14)))) == [(1, "reused", 10), (2, "reused", 4)]


# --- merges ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("left", "rest", "right", "merged"),
    [
        (61, 9, 90, "left"),
        (62, 9, 90, ""),
        (62, 8, 90, "left"),
        (62, 9, 61, "right"),
        (62, 9, 62, ""),
        (61, 9, 61, "left"),
        (61, 10, 61, ""),
        (20, 1, 20, "left"),
    ],
)
@pytest.mark.parametrize("by", ["rows", "bytes"])
def test_a_nearly_empty_file_that_is_written_is_merged_with_a_neighbor(
    left: int, rest: int, right: int, merged: str, by: str
) -> None:
    """Under a tenth of both limits, into one that both then fill to seven tenths at most."""
    files = range(left), range(1_000, 1_095), range(2_000, 2_000 + right)
    section = published(100, *files) if by == "rows" else published(10_000, *files, entries=100)
    found = states(section.night(rows([*range(left), *range(1_000, 1_000 + rest), *range(2_000, 2_000 + right)])))
    if merged == "left":
        assert found == [(1, "written", left + rest), (3, "reused", right)]
        assert [r.low for r in section.ranges] == ["", page(2_000)]
    elif merged == "right":
        assert found == [(1, "reused", left), (3, "written", rest + right)]
        assert [r.low for r in section.ranges] == ["", page(1_000)]
    else:
        assert found == [(1, "reused", left), (2, "written", rest), (3, "reused", right)]
    again = section.night(conform(section.known, SNAPSHOT))
    assert {said for _, said, _ in again} == {"reused"}


def test_a_nearly_empty_unchanged_file_stays() -> None:
    section = published(100, range(20), range(1_000, 1_003), range(2_000, 2_020))
    numbers = [*range(20), *range(1_000, 1_003), *range(2_000, 2_020)]
    assert states(section.night(rows(numbers))) == [(1, "reused", 20), (2, "reused", 3), (3, "reused", 20)]
    changed = rows(numbers, lastmod={3: "2026-10-31", 2_003: "2026-10-31"})
    assert states(section.night(changed)) == [(1, "written", 20), (2, "reused", 3), (3, "written", 20)]


def test_adjacent_nearly_empty_files_are_merged() -> None:
    section = published(100, range(50), range(1_000, 1_050), range(2_000, 2_050))
    assert states(section.night(rows([1, 1_001, 1_002, 2_001]))) == [(3, "written", 4)]
    section = published(100, range(50), range(1_000, 1_050))
    assert states(section.night(rows([1_001, 1_002]))) == [(2, "written", 2)]
    assert section.listed().equals(rows([1_001, 1_002]))


def test_a_nearly_empty_file_among_many_is_merged_with_an_adjacent_one() -> None:
    files = range(20), range(1_000, 1_030), range(2_000, 2_095), range(3_000, 3_040), range(4_000, 4_050)
    section = published(100, *files)
    left = [*range(2_000, 2_005)]
    found = section.night(rows(n for numbers in (files[0], files[1], left, files[3], files[4]) for n in numbers))
    assert states(found) == [(1, "reused", 20), (2, "written", 35), (4, "reused", 40), (5, "reused", 50)]
    files = range(70), range(1_000, 1_070), range(2_000, 2_095), range(3_000, 3_040), range(4_000, 4_050)
    section = published(100, *files)
    found = section.night(rows(n for numbers in (files[0], files[1], left, files[3], files[4]) for n in numbers))
    assert states(found) == [(1, "reused", 70), (2, "reused", 70), (4, "written", 45), (5, "reused", 50)]
    assert section.ranges[2].low == page(2_000)


def test_a_merged_file_has_the_entries_of_both() -> None:
    section = published(100, range(20), range(1_000, 1_050), range(2_000, 2_095))
    section.night(rows([*range(20), *range(1_000, 1_005), *range(2_000, 2_095)]))
    assert section.listed().equals(rows([*range(20), *range(1_000, 1_005), *range(2_000, 2_095)]))
    assert section.ranges[0].bytes == 25 * ENTRY
    # The size of a merged file counts when the next one is joined to it.
    section = published(10_000, range(30), range(1_000, 1_050), range(2_000, 2_050), entries=100)
    found = section.night(rows([*range(30), *range(1_000, 1_009), *range(2_000, 2_009)]))
    assert states(found) == [(1, "written", 48)]
    assert section.ranges[0].bytes == 48 * ENTRY


# --- windows -----------------------------------------------------------------------------------------


def test_a_range_divided_between_windows_is_written_by_both_and_its_number_stays_in_the_first() -> None:
    section = published(10, range(4), range(4, 12), range(20, 24))
    table = rows([*range(12), *range(20, 24)])
    one = section.made(table.slice(0, 8), high=page(8))
    other = section.made(table.slice(8), low=page(8))
    assert [(s.parent, s.reused, s.low, s.rows.num_rows) for s in one] == [
        (1, True, "", 4),
        (2, False, page(4), 4),
    ]
    assert [(s.parent, s.reused, s.low, s.rows.num_rows) for s in other] == [
        (None, False, page(8), 4),
        (3, True, page(20), 4),
    ]


def test_a_window_of_complete_ranges_keeps_them() -> None:
    section = published(10, range(4), range(4, 12), range(20, 24))
    table = rows([*range(12), *range(20, 24)])
    assert [(s.parent, s.reused) for s in section.made(table.slice(0, 4), high=page(4))] == [(1, True)]
    assert [(s.parent, s.reused) for s in section.made(table.slice(4, 8), low=page(4), high=page(20))] == [(2, True)]
    assert [(s.parent, s.reused) for s in section.made(table.slice(12), low=page(20))] == [(3, True)]


def test_rows_beyond_the_ranges_of_a_window_belong_to_its_first_and_last_range() -> None:
    section = published(10, range(4), range(4, 12), range(20, 24))
    section.ranges = section.ranges[1:]  # a window begins where no range does
    section.known = section.known.slice(4)
    found = section.made(rows([2, *range(4, 12), *range(20, 25)]), low=page(1))
    assert [(s.parent, s.reused, s.rows.num_rows) for s in found] == [(2, False, 9), (3, False, 5)]
    assert found[0].low == page(4)


# --- rows that no file could hold --------------------------------------------------------------------


def test_a_row_larger_than_a_file_is_listed_without_extensions_and_reported() -> None:
    large = [f"https://a.example/{'i' * 50}{n}.jpg" for n in range(20)]
    section = Section(bounds(10, entries=12))
    found = section.night(rows(range(4), images={1: large, 2: large[:1]}))
    assert [n for _, _, pages in found for n in pages] == [0, 1, 2, 3]
    assert section.stripped == (page(1),)
    assert section.known.column("images").to_pylist() == [None, None, large[:1], None]
    assert section.listed().drop_columns(["images"]).equals(rows(range(4)).drop_columns(["images"]))


def test_dropping_the_extensions_of_a_row_does_not_change_other_rows() -> None:
    large = [f"https://a.example/{'i' * 50}{n}.jpg" for n in range(20)]
    section = published(10, range(5), range(5, 8), range(20, 25), entries=12)
    numbers = [*range(5), *range(5, 9), *range(20, 25)]
    found = section.night(rows(numbers, images={8: large}))
    assert states(found) == [(1, "reused", 5), (2, "written", 4), (3, "reused", 5)]
    assert section.stripped == (page(8),)
    assert section.listed().equals(rows(numbers))


def test_a_row_that_just_fills_a_file_keeps_its_extensions() -> None:
    table = rows(range(3), images={1: ["https://a.example/i.jpg"]})
    size = int(np.max(urlset.entries(table).sizes))
    for spare, stripped in ((0, ()), (-1, (page(1),))):
        section = Section(replace_bytes(bounds(10), size + spare))
        section.night(table)
        assert section.stripped == stripped


def replace_bytes(limits: Shards, size: int) -> Shards:
    return limits.model_copy(update={"bytes": size + urlset.WRAPPER_BYTES})


# --- views -------------------------------------------------------------------------------------------


def test_a_file_of_a_view_with_the_same_pages_keeps_its_priorities() -> None:
    view = Section(bounds(4), view=True)
    view.night(rows(range(8), priority=5))
    assert states(view.night(rows(range(8), priority=9))) == [(1, "written", 4), (2, "written", 4)]
    assert view.known.column("priority").to_pylist() == [5] * 8
    view.night(rows(range(8), priority=9, lastmod={6: "2026-10-31"}))
    assert view.known.column("priority").to_pylist() == [5] * 4 + [9] * 4


@pytest.mark.parametrize(
    ("numbers", "kept"),
    [
        ([0, 1, 2, 3, 4, 5, 6, 7, 8], 0),  # three files of three
        ([0, 1, 2, 3, 5, 6, 7, 8], 4),
        ([0, 1, 3, 4, 5, 6, 7], 4),
        ([0, 1, 2, 3, 4, 6, 7], 0),  # as many pages up to the same one, and others
        ([1, 2, 3, 4], 0),
        ([0, 1, 2, 3], 4),
        ([1, 2, 3, 4, 5, 6, 7], 4),
    ],
)
def test_a_file_of_a_view_with_other_pages_has_the_new_priorities(numbers: list[int], kept: int) -> None:
    view = Section(bounds(4), view=True)
    view.night(rows(range(8), priority=5))
    view.night(rows(numbers, priority=9))
    assert view.known.column("priority").to_pylist().count(5) == kept


# --- random nights -----------------------------------------------------------------------------------


def nights() -> st.SearchStrategy[list[dict[int, int]]]:
    """The pages of a section run by run: number → how often it has changed."""
    return st.lists(st.dictionaries(st.integers(0, 60), st.integers(0, 1), max_size=40), min_size=2, max_size=5)


@given(nights(), st.integers(3, 12), st.sampled_from([4.0, 7.0, 1_000.0]), st.sampled_from([0.5, 0.8, 1.0]))
def test_after_any_runs_every_row_is_in_one_file_and_no_file_exceeds_a_limit(
    listed: list[dict[int, int]], limit: int, entries: float, fill: float
) -> None:
    section = Section(bounds(limit, entries=entries, fill=fill))
    for versions in listed:
        before = {r.number: (r.rows, r.bytes) for r in section.ranges}
        known = section.listed()
        table = rows(versions, lastmod={n: f"2026-01-{v + 1:02}" for n, v in versions.items()})
        found = section.night(table)
        assert section.listed().equals(table)
        assert len({number for number, _, _ in found}) == len(found)
        for one, (number, said, pages) in zip(section.ranges, found, strict=True):
            assert len(pages) <= limit
            assert one.bytes <= entries * ENTRY
            if said != "written" and pages:
                assert (one.rows, one.bytes) == before[number]
                assert rows_of(known, pages).equals(rows_of(table, pages))


def rows_of(table: pa.Table, pages: list[int]) -> pa.Table:
    return table.filter(pa.array([int(loc[-4:]) in pages for loc in table.column("loc").to_pylist()], pa.bool_()))
