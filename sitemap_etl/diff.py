"""Compare this run's rows with the published ones: added, changed and removed rows, and the values to publish."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sitemap_etl import kernels, lastmod
from sitemap_etl.arrow import column_of, data_of, mask_of, nulls, offsets_of
from sitemap_etl.frames import SNAPSHOT, conform, filled, with_column
from sitemap_etl.frozen import Frozen
from sitemap_etl.hashes import hash_column

STICKY: Final = ("changefreq", "priority")
"""They alone never rewrite a file."""
EXTENSIONS: Final = ("images", "videos", "news", "alternates", "mobile")
BESIDE: Final = ("fingerprint", "cluster", "hreflang", "title")
"""Kept in the snapshot, not shown in the sitemap."""


class Dating(Frozen):
    """Settings for the lastmods of a section.

    `dated`: the section has a lastmod rule; without one, a change of an extension counts. `fingerprint`: dates come
    from fingerprints. `reset`: the published fingerprints have another definition. `first_seen`: later new pages are
    dated. `first_publish`: the section was never published. `back`: the release is from after `now`, by a fast clock.
    """

    now: str  # YYYY-MM-DDThh:mm:ssZ
    epoch: int  # the same, in seconds
    dated: bool
    fingerprint: bool
    reset: bool
    first_seen: bool
    first_publish: bool
    back: bool


class Compared(Frozen):
    """Result of a comparison for `rows`, in their order by loc. Masks have one value per row.

    `at`: index of the row's loc in the published rows, or -1. `moved`: rows from another section, with which `changed`
    compares. `differs`: the file's bytes change, ignoring priority and changefreq. `beside`: only values of the
    snapshot change. `dated`: the page was published with a lastmod in any section, future ones excluded. `gone`:
    indexes of published rows that no longer exist.
    """

    rows: pa.Table  # frames.SNAPSHOT
    at: np.ndarray
    added: np.ndarray
    moved: np.ndarray
    changed: np.ndarray
    differs: np.ndarray
    beside: np.ndarray
    dated: np.ndarray
    gone: np.ndarray


def places(locs: pa.Array, among: pa.Array) -> np.ndarray:
    """Return the position of each loc in `among` (both sorted, `among` without duplicates), or -1: int64."""
    count = len(among)
    if count == 0:
        return np.full(len(locs), -1, np.int64)
    if kernels.compiled is not None and locs.type == among.type == pa.string():
        return kernels.compiled.places((offsets_of(locs), data_of(locs)), (offsets_of(among), data_of(among)))
    at = np.minimum(pc.search_sorted(among, locs, side="left").to_numpy().astype(np.int64), count - 1)
    return np.where(mask_of(pc.equal(among.take(pa.array(at)), locs)), at, -1)


def compare(
    rows: pa.Table,
    known: pa.Table,
    at: np.ndarray,
    dating: Dating,
    moved: pa.Table,
    elsewhere: pa.Table | None = None,
) -> Compared:
    """Join this run's `rows` with the published ones by loc, and decide the values to publish.

    `rows`: columns of `frames.INVENTORY` with a lastmod, sorted by loc, without repetitions. `known`: sorted
    `frames.SNAPSHOT` rows of the same range. `at`: positions of the rows in `known`. `moved`: published rows of
    pages that come from another section. `elsewhere`: these and recently removed rows, with columns loc, lastmod and
    fingerprint (null if it can't be compared), sorted. Their dates are kept.
    """
    locs = column_of(rows, "loc")
    found = at >= 0
    whole = len(at) == known.num_rows and bool(np.all(at == np.arange(len(at))))
    old = known if whole else _taken(known, at, locs)
    fresh = conform(rows.drop_columns(["since"]) if "since" in rows.column_names else rows, SNAPSHOT)
    if dating.fingerprint:
        fresh = with_column(fresh, "lastmod", _dated(fresh, old, found, dating, elsewhere))
    there = places(locs, column_of(moved, "loc"))
    came = there >= 0
    if came.any():
        before = _taken(moved, there, locs)
        old_or_moved = pa.table(
            [pc.if_else(pa.array(came), column_of(before, name), column_of(old, name)) for name in SNAPSHOT.names],
            schema=SNAPSHOT,
        )
    else:
        old_or_moved = old
    if not (found.any() or came.any()):
        return _all_new(fresh, at, known.num_rows, dating)
    lastmod_differs, extension_differs = _differences(fresh, old_or_moved)
    changed = (found | came) & (lastmod_differs if dating.dated else extension_differs)
    since = _since(old_or_moved, found | came, changed, dating)
    both = came & found
    if both.any():
        lastmod_differs, extension_differs = _differences(fresh, old)
    differs = (lastmod_differs | extension_differs) & found
    beside = np.zeros(len(at), bool)
    for name in BESIDE:
        beside |= _unlike(fresh, old, name) & found
    if both.any():
        beside |= both & mask_of(pc.fill_null(pc.not_equal(since, old.column("since")), fill_value=True))
    if dating.back:
        beside |= found & mask_of(pc.fill_null(pc.greater(old.column("since"), dating.epoch), False))
    taken = np.zeros(known.num_rows, bool)
    taken[at[found]] = True
    fresh = with_column(fresh, "since", since)
    dates = old_or_moved.column("lastmod")
    dated = (found | came) & mask_of(pc.is_valid(lastmod.until(dates, dating.now) if dating.back else dates))
    return Compared(fresh, at, ~found, came, changed, differs, beside & ~differs, dated, np.flatnonzero(~taken))


def _all_new(fresh: pa.Table, at: np.ndarray, known: int, dating: Dating) -> Compared:
    """Return the result if none of the rows was published before. `known`: number of published rows."""
    moved, changed, differs, beside, dated = (np.zeros(len(at), bool) for _ in range(5))
    since = pa.repeat(pa.scalar(None if dating.first_publish else dating.epoch, pa.int64()), len(at))
    fresh = with_column(fresh, "since", since)
    return Compared(fresh, at, np.ones(len(at), bool), moved, changed, differs, beside, dated, np.arange(known))


def _taken(rows: pa.Table, at: np.ndarray, locs: pa.Array) -> pa.Table:
    """Return the rows at these indexes with these locs, nulls for -1: frames.SNAPSHOT."""
    columns = [name for name in filled(rows) if name != "loc"] if (at >= 0).any() else []
    if not columns:
        return pa.table([nulls(len(at), entry.type) for entry in SNAPSHOT], schema=SNAPSHOT)
    taken = rows.select(columns).take(pa.array(at, pa.int64(), mask=at < 0))
    return conform(taken.append_column("loc", locs), SNAPSHOT)


def _dated(fresh: pa.Table, old: pa.Table, found: np.ndarray, dating: Dating, elsewhere: pa.Table | None) -> pa.Array:
    """Return the lastmods of a section with a fingerprint rule."""
    prints = column_of(fresh, "fingerprint")
    old_prints, old_dates = old.column("fingerprint"), old.column("lastmod")
    if dating.reset:
        old_prints = pa.chunked_array([prints])
    if elsewhere is not None and elsewhere.num_rows:
        there = places(column_of(fresh, "loc"), column_of(elsewhere, "loc"))
        take = pa.array(there, pa.int64(), mask=there < 0)
        theirs = elsewhere.column("fingerprint").take(take)
        # A page that is as it was there has the date it had there: it moved, came back, or was rolled back over.
        again = (there >= 0) & (~found | pc.fill_null(pc.equal(theirs, prints), False).to_numpy())
        mask = pa.array(again)
        old_prints = pc.if_else(mask, theirs, old_prints)
        old_dates = pc.if_else(mask, elsewhere.column("lastmod").take(take), old_dates)
        found = found | again
    dates, _ = lastmod.resolve(
        prints,
        fresh.column("lastmod"),
        old_prints,
        lastmod.until(old_dates, dating.now),
        pa.array(found),
        now_text=dating.now,
        reset=dating.reset,
        first_seen=dating.first_seen,
        first_publish=dating.first_publish,
    )
    return dates


def _since(old: pa.Table, found: np.ndarray, changed: np.ndarray, dating: Dating) -> pa.Array:
    """Return the time at which each row was added or last changed, null for rows of a section's first publish."""
    new = pa.scalar(None if dating.first_publish else dating.epoch, pa.int64())
    kept = column_of(old, "since")
    if dating.back:
        kept = pc.if_else(pc.greater(kept, dating.epoch), dating.epoch, kept)
    return pc.if_else(pa.array(found & ~changed), kept, new)


def _differences(one: pa.Table, other: pa.Table) -> tuple[np.ndarray, np.ndarray]:
    """Return masks of rows whose lastmods differ, and whose other extensions differ."""
    extensions = np.zeros(one.num_rows, bool)
    for name in EXTENSIONS:
        extensions |= _unlike(one, other, name)
    return _unlike(one, other, "lastmod"), extensions


def _unlike(one: pa.Table, other: pa.Table, name: str) -> np.ndarray:
    """Return a mask of differing values. Null equals null and False, because neither is shown."""
    left, right = one.column(name), other.column(name)
    if pa.types.is_boolean(left.type):
        left, right = pc.fill_null(left, False), pc.fill_null(right, False)
    if left.null_count == len(left) and right.null_count == len(right):
        return np.zeros(len(left), bool)
    if pa.types.is_nested(left.type):
        unlike: np.ndarray = hash_column(left) != hash_column(right)
        return unlike
    same = pc.fill_null(pc.equal(left, right), False)
    both_null = pc.and_(pc.is_null(left), pc.is_null(right))
    alike: np.ndarray = pc.or_(same, both_null).to_numpy().astype(bool)
    return ~alike


def with_columns(table: pa.Table, other: pa.Table, names: Sequence[str]) -> pa.Table:
    """Return `table` with the named columns replaced by those of `other`, row by row."""
    for name in names:
        table = with_column(table, name, other.column(name))
    return table
