"""Complete hreflang clusters: every page of a group links to all pages of the group, itself included."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sitemap_etl.arrow import codes_of, column_of
from sitemap_etl.elements import ALTERNATES
from sitemap_etl.frames import Tally
from sitemap_etl.frozen import Frozen

MEMBERS: Final = pa.schema(
    [
        ("group", pa.string()),  # cluster name and group, so that equal groups of two clusters stay apart
        ("loc", pa.string()),
        ("hreflang", pa.string()),
        ("section", pa.int16()),
        ("x_default", pa.string()),
    ]
)
"""One row for each page, language and section with the page. Views and news repeat pages of other sections."""

TWO_PAGES: Final = "cluster: two pages for one language, the first by loc is linked"
ALONE: Final = "cluster: a single page, which needs no links"
NO_DEFAULT: Final = "cluster: no page for the language that x_default names"


class Closed(Frozen):
    """Completed clusters.

    rows: loc, section, alternates; one row for each section of a page with links.
    pages: number of these pages.
    notes: decisions, counted.
    """

    rows: pa.Table
    pages: int
    notes: Tally


def close(members: pa.Table) -> Closed:
    """Return the links of every page in `members` (`MEMBERS`, in any order; whole groups).

    If two pages of a group have the same language, the first by loc is linked. A page that is then linked for no
    language leaves the group. A group of one page has no links. If no page is x-default itself, the page for the
    language `x_default` is. Links are ordered by hreflang.
    """
    notes = Tally()
    if not members.num_rows:
        return Closed(_empty(), 0, notes)
    keys = ("group", "hreflang", "loc", "x_default")
    table = members.sort_by([(key, "ascending") for key in keys]).combine_chunks()
    group, page = codes_of(table.column("group")), codes_of(table.column("loc"))
    listings = pa.table({"group": group, "page": page, "section": table.column("section")})
    table = table.drop_columns("section").append_column("page", pa.array(page))
    tag = codes_of(table.column("hreflang"))
    again = np.zeros(table.num_rows, bool)
    again[1:] = (group[1:] == group[:-1]) & (tag[1:] == tag[:-1])
    other = again.copy()
    other[1:] &= page[1:] != page[:-1]
    _note(notes, TWO_PAGES, column_of(table, "loc"), other)
    table, group = table.filter(pa.array(~again)).combine_chunks(), group[~again]
    table, group = _with_default(table, group, notes)
    loc, page = column_of(table, "loc"), table.column("page").to_numpy()
    # Pages of a group: distinct (group, page) pairs.
    order = np.lexsort((page, group))
    first = np.ones(len(order), bool)
    first[1:] = (group[order][1:] != group[order][:-1]) | (page[order][1:] != page[order][:-1])
    of_page = np.sort(order[first])
    alone = np.bincount(group[of_page])[group[of_page]] < 2
    _note(notes, ALONE, loc.take(pa.array(of_page)), alone)
    of_page = of_page[~alone]
    sizes = np.bincount(group)
    begins = np.concatenate(([0], np.cumsum(sizes)))[:-1]
    lengths = sizes[group[of_page]]
    ends = np.cumsum(lengths)
    links = np.arange(int(ends[-1]) if len(ends) else 0) - np.repeat(ends - lengths, lengths)
    links += np.repeat(begins[group[of_page]], lengths)
    take = pa.array(links)
    values = pa.StructArray.from_arrays(
        [column_of(table, "hreflang").take(take), loc.take(take)], fields=list(ALTERNATES.value_type)
    )
    alternates = pa.ListArray.from_arrays(pa.array(np.concatenate(([0], ends)), pa.int32()), values)
    pages = pa.table({"group": group[of_page], "page": page[of_page], "at": np.arange(len(of_page))})
    shown = pages.join(_distinct(listings), ["group", "page"], join_type="inner", use_threads=False)
    rows = pa.table(
        {
            "loc": loc.take(pa.array(of_page)).take(shown.column("at").combine_chunks()),
            "section": shown.column("section"),
            "alternates": alternates.cast(ALTERNATES).take(shown.column("at").combine_chunks()),
        }
    )
    return Closed(rows, len(of_page), notes)


def _distinct(rows: pa.Table) -> pa.Table:
    return rows.group_by(rows.column_names, use_threads=False).aggregate([])


def _with_default(table: pa.Table, group: np.ndarray, notes: Tally) -> tuple[pa.Table, np.ndarray]:
    """Add a row for each group's x-default. Rows stay ordered by group and hreflang."""
    tags = table.column("hreflang")
    has = np.zeros(int(group.max()) + 1, bool)
    has[group[pc.equal(tags, "x-default").to_numpy()]] = True
    wants = np.zeros(len(has), bool)
    wants[group[pc.is_valid(table.column("x_default")).to_numpy()]] = True
    named = pc.fill_null(pc.equal(tags, table.column("x_default")), False).to_numpy().astype(bool)
    chosen = np.flatnonzero(named & ~has[group])
    chosen = chosen[np.unique(group[chosen], return_index=True)[1]]
    filled = has.copy()
    filled[group[chosen]] = True
    lacking = np.flatnonzero(wants & ~filled)
    _note(notes, NO_DEFAULT, column_of(table, "loc"), np.isin(group, lacking) & _firsts(group))
    if len(chosen):
        extra = table.take(pa.array(chosen))
        at = extra.schema.get_field_index("hreflang")
        extra = extra.set_column(at, extra.schema.field(at), pa.repeat(pa.scalar("x-default"), len(chosen)))
        table = pa.concat_tables([table, extra]).combine_chunks()
        group = np.concatenate((group, group[chosen]))
        order = pa.array(np.lexsort((_ranks(table.column("hreflang")), group)))
        table, group = table.take(order).combine_chunks(), group[order.to_numpy()]
    return table, group


def _ranks(column: pa.ChunkedArray) -> np.ndarray:
    ranks: np.ndarray = pc.rank(column, tiebreaker="dense").to_numpy()
    return ranks


def _firsts(group: np.ndarray) -> np.ndarray:
    first = np.ones(len(group), bool)
    first[1:] = group[1:] != group[:-1]
    return first


def _note(notes: Tally, reason: str, loc: pa.Array, mask: np.ndarray) -> None:
    count = int(mask.sum())
    if count:
        notes.add(reason, count, loc.filter(pa.array(mask)).slice(0, 3).to_pylist())


def _empty() -> pa.Table:
    return pa.schema([("loc", pa.string()), ("section", pa.int16()), ("alternates", ALTERNATES)]).empty_table()
