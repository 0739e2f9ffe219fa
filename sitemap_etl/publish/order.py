"""In which order changed files are written, so that rows which move from one to another are never nowhere."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Set

import pyarrow as pa
import pyarrow.compute as pc

from sitemap_etl.arrow import column_of
from sitemap_etl.frozen import Frozen
from sitemap_etl.publish.actual import Actual, Object
from sitemap_etl.publish.plan import Desired
from sitemap_etl.stages.run import Run


class Order(Frozen):
    """In which order changed files are written: those that give no row away, then receivers before givers.

    `givers`: those that give rows to others of them. `bridged`: a giver out of every circle of files that give rows to
    each other: it is written before its receivers, so its rows must be listed elsewhere meanwhile.
    """

    keys: tuple[str, ...]
    givers: frozenset[str]
    bridged: tuple[str, ...]


def with_actual_rows(
    run: Run, moves_to: Mapping[str, frozenset[str]], desired: Desired, changed: Mapping[str, Object], actual: Actual
) -> dict[str, frozenset[str]]:
    """`moves_to` (public key → keys of the files that list its URLs now), right also after an interrupted publish.

    It was found by comparing with the last manifest. Where a suspect object is about to be replaced (`changed`, by
    key), its rows count as they are there. Memory holds the rows that leave such objects.
    """
    result: dict[str, set[str]] = defaultdict(set, {key: set(receivers) for key, receivers in moves_to.items()})
    suspect = [key for key in changed if key in actual.suspect]
    if not suspect:
        return {key: frozenset(receivers) for key, receivers in result.items()}
    locs, keys = [], []
    for key in suspect:
        result.pop(key, None)
        found = actual.locs(key)
        locs.append(pa.array(found, pa.string()))
        keys.append(pa.repeat(pa.scalar(key), len(found)))
    rows = pa.table({"loc": pa.chunked_array(locs, pa.string()), "key": pa.chunked_array(keys, pa.string())})
    for entry in desired.entries:
        section = run.site.sections.get(entry.section)
        receiver = entry.file.key
        if receiver not in desired.files or section is None or section.view:
            continue
        arrived = column_of(run.state.snapshot(entry.snapshot, ["loc"]), "loc")
        taken = rows.filter(pc.is_in(rows.column("loc"), arrived))
        for giver in pc.unique(taken.column("key")).to_pylist():  # one a suspect file
            if giver != receiver:
                result[giver].add(receiver)
    return {key: frozenset(receivers) for key, receivers in result.items()}


def receivers_first(changed: Iterable[str], moves_to: Mapping[str, frozenset[str]]) -> Order:
    """The order of changed files. `moves_to`: key → keys of the files that now list URLs it listed."""
    keys = sorted(changed)
    inside = {key: moves_to.get(key, frozenset()) & frozenset(keys) - {key} for key in keys}
    done: list[str] = []
    bridged: list[str] = []
    written: set[str] = set()
    waiting = dict(inside)
    while waiting:
        ready = [key for key, receivers in waiting.items() if receivers <= written]
        if not ready:
            circle = _circle({key: receivers - written for key, receivers in waiting.items()})
            ready = [min(circle, key=lambda key: (len(waiting[key] - written), key))]
            bridged += ready
        for key in ready:
            done.append(key)
            written.add(key)
            del waiting[key]
    return Order(tuple(done), frozenset(key for key, receivers in inside.items() if receivers), tuple(bridged))


def _circle(gives: Mapping[str, frozenset[str]]) -> set[str]:
    """Files that give rows to each other and to no others, where every file gives some."""
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
    """The keys that edges lead to from a key."""
    found: set[str] = set()
    waiting = [key]
    while waiting:
        new = edges.get(waiting.pop(), frozenset()) - found
        found |= new
        waiting += new
    return found
