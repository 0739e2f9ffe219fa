"""Order the writes of changed files so that a URL which moves between files is listed at all times."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Set
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from sitemap_etl.arrow import column_of
from sitemap_etl.frozen import Frozen
from sitemap_etl.publish.actual import Actual, Object
from sitemap_etl.publish.plan import Desired
from sitemap_etl.stages.run import Run
from sitemap_etl.state.records import Entry

_LEFT: Final = pa.schema([("loc", pa.string()), ("key", pa.string())])


class Order(Frozen):
    """Return the order of changed files: first those that give no row away, then receivers before givers.

    `givers`: files that give rows to other changed files. In a circle of files that give rows to each other, one is
    written before its receivers. The rows that it gives are in no file until the receivers are written.
    """

    keys: tuple[str, ...]
    givers: frozenset[str]


def with_actual_rows(
    run: Run, moves_to: Mapping[str, frozenset[str]], desired: Desired, changed: Mapping[str, Object], actual: Actual
) -> dict[str, frozenset[str]]:
    """Return `moves_to` (public key → keys of the files that list its URLs now) corrected for an interrupted publish.

    It was found by comparing with the last manifest. If a suspect object is about to be replaced (`changed`, by
    key), its rows count as they are there. Memory holds those that the new file under the key does not have, which are
    few: an object holds what was published under its key, or what was to be.
    """
    result: dict[str, set[str]] = defaultdict(set, {key: set(receivers) for key, receivers in moves_to.items()})
    suspect = [key for key in changed if key in actual.suspect]
    if not suspect:
        return {key: frozenset(receivers) for key, receivers in result.items()}
    receivers = [entry for entry in desired.entries if entry.file.key in desired.files and not _is_view(run, entry)]
    own = {entry.file.key: entry for entry in receivers}
    left = [_LEFT.empty_table()]
    for key in suspect:
        result.pop(key, None)
        there = pa.array(actual.locs(key), pa.string())
        if key in own:
            there = there.filter(pc.invert(pc.is_in(there, _locs(run, own[key]))))
        left.append(pa.table({"loc": there, "key": pa.repeat(pa.scalar(key), len(there))}, schema=_LEFT))
    rows = pa.concat_tables(left).combine_chunks().sort_by("loc")
    locs = column_of(rows, "loc")
    for entry in receivers:
        begin = pc.search_sorted(locs, entry.first, side="left").as_py()
        end = pc.search_sorted(locs, entry.last, side="right").as_py()
        if begin == end:
            continue
        near = rows.slice(begin, end - begin)
        taken = near.filter(pc.is_in(near.column("loc"), _locs(run, entry)))
        for giver in pc.unique(taken.column("key")).to_pylist():  # one a suspect file
            if giver != entry.file.key:
                result[giver].add(entry.file.key)
    return {key: frozenset(receivers) for key, receivers in result.items()}


def _is_view(run: Run, entry: Entry) -> bool:
    """Return True if a file shows pages that others list, as files without a section in the site file do."""
    section = run.site.sections.get(entry.section)
    return section is None or section.view


def _locs(run: Run, entry: Entry) -> pa.Array:
    return column_of(run.state.snapshot(entry.snapshot, ["loc"]), "loc")


def receivers_first(changed: Iterable[str], moves_to: Mapping[str, frozenset[str]]) -> Order:
    """Return the order of changed files. `moves_to`: key → keys of the files that now list URLs it listed."""
    keys = sorted(changed)
    inside = {key: moves_to.get(key, frozenset()) & frozenset(keys) - {key} for key in keys}
    done: list[str] = []
    written: set[str] = set()
    waiting = dict(inside)
    while waiting:
        ready = [key for key, receivers in waiting.items() if receivers <= written]
        if not ready:
            circle = _circle({key: receivers - written for key, receivers in waiting.items()})
            ready = [min(circle, key=lambda key: (len(waiting[key] - written), key))]
        for key in ready:
            done.append(key)
            written.add(key)
            del waiting[key]
    return Order(tuple(done), frozenset(key for key, receivers in inside.items() if receivers))


def _circle(gives: Mapping[str, frozenset[str]]) -> set[str]:
    """Return files that exchange rows only with each other. All files in `gives` have receivers."""
    takes: dict[str, set[str]] = defaultdict(set)
    for giver, receivers in gives.items():
        for receiver in receivers:
            takes[receiver].add(giver)
    key = min(gives)
    while True:
        ahead, behind = _reached(key, gives), _reached(key, takes)
        if ahead <= behind:
            return ahead
        key = min(ahead - behind)


def _reached(key: str, edges: Mapping[str, Set[str]]) -> set[str]:
    """Return the keys that can be reached from a key along edges."""
    found: set[str] = set()
    waiting = [key]
    while waiting:
        new = edges.get(waiting.pop(), frozenset()) - found
        found |= new
        waiting += new
    return found
