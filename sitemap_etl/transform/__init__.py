"""Raw rows to an inventory: canonical, checked, with the rows that are not listed set aside.

The order is the site file's: columns, where, hook, rules. After this a row can be lost only as a
duplicate. Every row that comes in goes out once: listed-to-be, excluded or rejected.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from sitemap_etl import robots, urls
from sitemap_etl.arrow import column_of, is_text, mask_of, single
from sitemap_etl.errors import InvalidSource
from sitemap_etl.frames import ASIDE, Tally
from sitemap_etl.transform.batch import Batch, listed
from sitemap_etl.transform.columns import inventory_of
from sitemap_etl.transform.hooks import run_hook, where_mask
from sitemap_etl.transform.rules import CONTRACT, Hook, Rules

__all__ = ["CONTRACT", "Hook", "Outcome", "Rules", "transform"]


@dataclass(frozen=True)
class Outcome:
    """A batch after the rules. `rows` came in; `inventory`, `excluded` and `rejected` add up to it.

    `notes`: values that were dropped from listed rows (a future lastmod, a broken image), by reason.
    `kinds`: the fingerprint's columns and their kinds, where there is one.
    """

    rows: int
    inventory: pa.Table  # columns of frames.INVENTORY that are in use
    excluded: pa.Table  # frames.ASIDE
    rejected: pa.Table  # frames.ASIDE
    notes: Tally
    foreign: Mapping[str, int]  # foreign origins → rows
    kinds: tuple[tuple[str, str], ...] = ()


def transform(raw: pa.Table, rules: Rules, *, read_at: datetime, first_row: int) -> Outcome:
    """One batch of raw rows through the rules of its section.

    `read_at`: when the split was read, for what counts as the future. `first_row`: the batch's first
    row number (split << 40 | position). Raises InvalidSource where a column that a rule names is
    missing or has a type that can't be read, and where a hook breaks its contract.
    """
    rows = raw.num_rows
    raw = _renamed(raw, rules)
    batch = Batch(raw, first_row, rules.section)
    if rules.where:
        keep = where_mask(batch.table, rules)
        batch.set_aside(~keep, "where", batch.excluded)
    if rules.hook:
        run_hook(batch, rules)
    _exclude_column(batch)
    canonical = urls.canonicalize(batch.table.column("loc"), rules.urls)
    loc, reason = single(canonical.loc), canonical.reason
    stay = batch.set_aside(mask_of(pc.is_null(loc)), single(reason), batch.rejected)
    if stay is not None:
        loc = loc.filter(pa.array(stay))
    loc = _exclude_by_rule(batch, loc, rules)
    notes = Tally()
    inventory, kinds = inventory_of(batch, loc, rules, read_at, notes)
    result = Outcome(
        rows,
        inventory,
        _stacked(batch.excluded),
        _stacked(batch.rejected),
        notes,
        dict(canonical.foreign),
        kinds,
    )
    if rows != result.inventory.num_rows + result.excluded.num_rows + result.rejected.num_rows:
        raise AssertionError(f"{rules.section}: rows were lost between the rules")
    return result


def _renamed(raw: pa.Table, rules: Rules) -> pa.Table:
    names = list(raw.column_names)
    for column, source in rules.columns.items():
        if source not in names:
            raise InvalidSource(
                f"section {rules.section}: the source has no column {source!r} (columns: {column}). "
                f"It has: {listed(rules.available or names)}"
            )
        if column in names and column != source:
            raw = raw.drop_columns([column])
            names = list(raw.column_names)
        raw = raw.rename_columns([column if name == source else name for name in names])
        names = list(raw.column_names)
    if "loc" not in names:
        raise InvalidSource(
            f"section {rules.section}: the source yields no column 'loc'. It has: {listed(rules.available or names)}. "
            "Name one `AS loc` in the SELECT, or write `columns: {loc: …}`"
        )
    loc = raw.column("loc")
    if not (is_text(loc.type) or pa.types.is_null(loc.type)):
        raise InvalidSource(f"section {rules.section}: column 'loc' is {loc.type}, text was expected")
    return raw


def _exclude_column(batch: Batch) -> None:
    if "exclude" not in batch.table.column_names:
        return
    column = column_of(batch.table, "exclude")
    if pa.types.is_boolean(column.type):
        out, reason = mask_of(column), pa.array(["excluded by the source"] * len(column))
    else:
        reason = pc.utf8_trim_whitespace(column.cast(pa.string()))
        out = mask_of(pc.not_equal(reason, ""))
    batch.set_aside(out, reason, batch.excluded)


def _exclude_by_rule(batch: Batch, loc: pa.Array, rules: Rules) -> pa.Array:
    if rules.exclude:
        stay = batch.set_aside(mask_of(urls.excluded(loc, rules.exclude)), "urls.exclude", batch.excluded, loc)
        loc = loc if stay is None else loc.filter(pa.array(stay))
    if rules.robots is not None:
        stay = batch.set_aside(mask_of(robots.disallowed(loc, rules.robots)), "robots.txt", batch.excluded, loc)
        loc = loc if stay is None else loc.filter(pa.array(stay))
    return loc


def _stacked(tables: list[pa.Table]) -> pa.Table:
    return pa.concat_tables(tables) if tables else ASIDE.empty_table()
