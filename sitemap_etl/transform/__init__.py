"""Raw rows to an inventory: canonical, checked, with the rows that are not listed set aside.

The order is the site file's: deleted rows, columns, where, hook, rules. After this a row can be lost only as a
duplicate. Every row that comes in goes out once: listed-to-be, excluded or rejected.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from sitemap_etl import lastmod, robots, urls
from sitemap_etl.arrow import column_of, is_text, mask_of, nulls_in, single
from sitemap_etl.errors import InvalidSource, it_has
from sitemap_etl.frames import ASIDE, EXAMPLES, INVENTORY, Tally
from sitemap_etl.frozen import Frozen
from sitemap_etl.lastmod.dates import FUTURE
from sitemap_etl.transform.batch import DELETED, Batch, as_text, is_number, says_deleted, says_yes
from sitemap_etl.transform.columns import count_beyond, inventory_of, of_calendar, source_dates
from sitemap_etl.transform.hooks import is_repeatable, run_hook, where_mask
from sitemap_etl.transform.rules import Clock, Hook, Rules

__all__ = ["DELETED", "Clock", "Hook", "Outcome", "Rules", "dates_of", "says_deleted", "transform"]

_NO_ROWS: Final = pa.schema([INVENTORY.field("loc"), INVENTORY.field("row")]).empty_table()


class Outcome(Frozen):
    """A batch after the rules. `rows` came in; `inventory`, `excluded` and `rejected` add up to it.

    `notes`: values that were dropped from listed rows (a future lastmod, a broken image), by reason. `kinds`: the
    fingerprint's columns and their kinds, if there is one. `bare`: number of addresses without a leading slash, and an
    example. `repeatable`: a later run gets the same result from the same rows.
    """

    rows: int
    inventory: pa.Table  # columns of frames.INVENTORY that are in use
    excluded: pa.Table  # frames.ASIDE
    rejected: pa.Table  # frames.ASIDE
    notes: Tally
    foreign: Mapping[str, int]  # foreign origins → rows
    kinds: tuple[tuple[str, str], ...] = ()
    bare: tuple[int, str] = (0, "")
    repeatable: bool = False


def transform(raw: pa.Table, rules: Rules, *, read_at: datetime, row: pa.Array, key: pa.Array | None = None) -> Outcome:
    """Return one batch of raw rows through the rules of its section.

    `read_at`: when the split was read, for what counts as the future. `row`: the number of each row (int64, split << 40
    | position); `key`: the key of each row as text, if there is one. Raise InvalidSource if a column that a rule names
    is missing or has a type that can't be read, or if a hook breaks its contract.
    """
    rows = raw.num_rows
    rules = replace(rules, clock=rules.clock.at(read_at))
    batch = Batch(_renamed(raw, rules), row, key, rules.section)
    if rules.deleted is not None:
        batch.drop(says_deleted(raw, rules.deleted), DELETED, batch.excluded)
    if rules.settings.where:
        keep = where_mask(of_calendar(batch.table, rules), rules)
        batch.drop(~keep, "where", batch.excluded)
    notes = Tally()
    if rules.hook:
        count_beyond(batch.table, rules, notes)
        batch.table = of_calendar(batch.table, rules)
        run_hook(batch, rules)
        if not batch.table.num_rows:  # nothing has made the columns that the rules name
            return Outcome(rows, _NO_ROWS, _stacked(batch.excluded), ASIDE.empty_table(), Tally(), {})
    _exclude_column(batch)
    canonical = urls.canonicalize(batch.table.column("loc"), rules.urls, rules.settings.columns.get("loc", "loc"))
    loc, reason = single(canonical.loc), canonical.reason
    stay = batch.drop(nulls_in(loc), single(reason), batch.rejected)
    if stay is not None:
        loc = loc.filter(pa.array(stay))
    loc = _exclude_by_rule(batch, loc, rules)
    _note_addresses(batch, loc, rules, notes)
    inventory, kinds = inventory_of(batch, loc, rules, notes)
    result = Outcome(
        rows,
        inventory,
        _stacked(batch.excluded),
        _stacked(batch.rejected),
        notes,
        dict(canonical.foreign),
        kinds,
        canonical.bare,
        is_repeatable(rules) and FUTURE not in notes.counts and not rules.clock.asked,
    )
    if rows != result.inventory.num_rows + result.excluded.num_rows + result.rejected.num_rows:
        raise AssertionError(f"{rules.section}: rows were lost between the rules")
    return result


def dates_of(raw: pa.Table, rules: Rules, *, read_at: datetime) -> list[str | None]:
    """Return the lastmod of each raw row as its source has it. Raises as `transform`."""
    rules = replace(rules, clock=rules.clock.at(read_at))
    found = source_dates(_renamed(raw, rules), rules, Tally())
    return [None] * raw.num_rows if found is None else lastmod.texts(found).to_pylist()


def _renamed(raw: pa.Table, rules: Rules) -> pa.Table:
    """Return the table with the names of the contract: all columns are renamed at once, so that two can change places.

    What no rule needs may not have been read; it is not missing.
    """
    names = list(raw.column_names)
    for column, source in rules.settings.columns.items():
        if source not in (rules.available or names):
            raise InvalidSource(
                f"section {rules.section}: columns.{column}: {rules.settings.place} has no column {source!r}. "
                f"{it_has(rules.available or names, source)}"
            )
    columns = {column: source for column, source in rules.settings.columns.items() if source in names}
    stays = [name for name in names if name not in columns and name not in columns.values()]
    order = {**dict.fromkeys(stays), **columns}
    renamed = pa.table([raw.column(source or column) for column, source in order.items()], names=list(order))
    if "loc" not in order:
        raise InvalidSource(
            f"section {rules.section}: {rules.settings.place} has no column 'loc'. "
            f"{it_has(rules.available or names, 'loc', 'Use `AS loc` in the SELECT, or set `columns: {loc: …}`')}"
        )
    loc = renamed.column("loc")
    if not (is_text(loc.type) or pa.types.is_null(loc.type)):
        hint = "; convert its bytes to text in the SELECT" if pa.types.is_binary(loc.type) else ""
        raise InvalidSource(f"section {rules.section}: the column 'loc' has type {loc.type}, expected text{hint}")
    return renamed


def _exclude_column(batch: Batch) -> None:
    if "exclude" not in batch.table.column_names:
        return
    column = column_of(batch.table, "exclude")
    if pa.types.is_boolean(column.type) or is_number(column.type):
        out, reason = says_yes(column), pa.array(["excluded by the source"] * len(column))
    else:
        reason = pc.utf8_trim_whitespace(as_text(column, "exclude", batch.section))
        out = mask_of(pc.not_equal(reason, ""))
    batch.drop(out, reason, batch.excluded)


def _exclude_by_rule(batch: Batch, loc: pa.Array, rules: Rules) -> pa.Array:
    if rules.exclude:
        stay = batch.drop(mask_of(urls.excluded(loc, rules.exclude)), "urls.exclude", batch.excluded, loc)
        loc = loc if stay is None else loc.filter(pa.array(stay))
    if rules.robots is not None:
        stay = batch.drop(mask_of(robots.disallowed(loc, rules.robots)), "robots.txt", batch.excluded, loc)
        loc = loc if stay is None else loc.filter(pa.array(stay))
    return loc


def _note_addresses(batch: Batch, loc: pa.Array, rules: Rules, notes: Tally) -> None:
    """Count addresses that are probably mistakes. Examples are the values of the source."""
    if not len(loc):
        return
    raw = batch.table.column("loc")
    for note, mask in urls.noted(loc, raw, rules.urls):
        some = pc.filter(raw, pa.array(mask)).slice(0, EXAMPLES)
        notes.add(note, int(mask.sum()), as_text(some, "loc", rules.section).to_pylist())


def _stacked(tables: list[pa.Table]) -> pa.Table:
    return pa.concat_tables(tables) if tables else ASIDE.empty_table()
