"""Pending URLs and their order, from the changes of a few runs.

The changes of a run are ordered by kind (removed, added, changed), then by lastmod (newest first, null last), then by
loc. The sent rows of a run are a prefix of that order, so one number records them. Rows that were held back, because
the same URL was sent minutes before, are recorded by their positions. So the state stays small, however many URLs are
pending.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sitemap_etl.arrow import codes_of
from sitemap_etl.hashes import combine, hash64

KINDS: Final = pa.array(["removed", "added", "changed"])
RUNS_WAITING: Final = 7
"""Maximum number of pending runs. Older ones are given up."""

Numbers = npt.NDArray[np.uint32]
Hashes = npt.NDArray[np.uint64]


def _pack(numbers: Numbers | Hashes) -> str:
    """Return integers as text: little-endian, in their own width, base64."""
    return base64.b64encode(numbers.astype(numbers.dtype.newbyteorder("<")).tobytes()).decode()


def _unpack(text: str, width: str) -> npt.NDArray[Any]:
    return np.frombuffer(base64.b64decode(text), width).astype(width[1:])


@dataclass
class Waiting:
    """Rest of a run: the rows from `position` on, and earlier ones that were `held` back."""

    run: str
    position: int = 0
    held: Numbers = field(default_factory=lambda: np.empty(0, np.uint32))
    rows: int = 0
    mark: int | None = None  # of the changes that the positions are in

    @property
    def left(self) -> int:
        """Number of pending rows, including rows that a newer run replaces."""
        return self.rows - self.position + len(self.held)

    def to_json(self) -> dict[str, Any]:
        held = _pack(self.held)
        return {"run": self.run, "position": self.position, "held": held, "rows": self.rows, "mark": self.mark}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        return cls(data["run"], data["position"], _unpack(data["held"], "<u4"), data["rows"], data["mark"])


def ordered(changes: pa.Table) -> pa.Table:
    """Return loc, kind and lastmod of the changes, in order and without repeated locs."""
    rank = pc.fill_null(pc.index_in(changes["kind"], KINDS), len(KINDS))
    table = changes.select(["loc", "kind", "lastmod"]).append_column("rank", rank)
    # Offsets of 64 bits: the locs of many changes together are more than 2 GiB.
    table = table.set_column(0, "loc", table["loc"].cast(pa.large_string()))
    keys = [("rank", "ascending", "at_end"), ("lastmod", "descending", "at_end"), ("loc", "ascending", "at_end")]
    table = table.take(pc.sort_indices(table, sort_keys=keys)).drop_columns("rank")
    if len(np.unique(hash64(table["loc"]))) == table.num_rows:  # equal locs have equal hashes: there are none
        return table
    return table.take(pa.array(np.sort(np.unique(codes_of(table["loc"]), return_index=True)[1])))


def mark_of(table: pa.Table) -> int:
    """Return a number that tells `ordered` changes from others: positions in one mean nothing in another."""
    return int(combine([hash64(table[name]) for name in ("loc", "kind", "lastmod")]).sum(dtype=np.uint64))


def without(waiting: Waiting, changes: pa.Table, gone: npt.NDArray[np.bool_]) -> Waiting:
    """Return the pending rows of a run after the rows of the mask `gone` were removed from its `ordered` changes."""
    stays = ~gone
    before = np.cumsum(stays)  # rows that stay, up to each
    return replace(
        waiting,
        position=int(stays[: waiting.position].sum()),
        held=(before[waiting.held[stays[waiting.held]]] - 1).astype(np.uint32),
        rows=int(stays.sum()),
        mark=mark_of(changes.filter(pa.array(stays))),
    )


def left_of(waiting: Sequence[Waiting], tables: Sequence[pa.Table], scope: str) -> pa.Table:
    """Return the pending rows: loc, kind, lastmod, `run` (index into `waiting`), `position` (in that run's order).

    `waiting` is ordered from the oldest run to the newest. `tables` has the `ordered` changes of each run. If a loc is
    in several runs, only its newest row counts, even if that row was sent already. Rows whose loc does not begin with
    `scope` are left out.
    """
    parts = []
    newer = pa.chunked_array([], pa.large_string())
    for number in range(len(waiting) - 1, -1, -1):
        entry, table = waiting[number], tables[number]
        position = np.arange(table.num_rows, dtype=np.uint32)
        keep = (position >= entry.position) | np.isin(position, entry.held)
        keep &= pc.starts_with(table["loc"], scope).to_numpy()
        if len(newer):
            keep &= ~pc.is_in(table["loc"], value_set=newer).to_numpy()
        rows = table.append_column("run", pa.array(np.full(table.num_rows, number, np.int8)))
        rows = rows.append_column("position", pa.array(position))
        parts.append(rows if keep.all() else rows.filter(pa.array(keep)))
        newer = pa.chunked_array([*newer.chunks, *table["loc"].chunks], pa.large_string())
    parts = [part for part in parts if part.num_rows] or parts[:1]
    if len(parts) == 1:
        return parts[0]
    rows = pa.concat_tables(parts)
    rank = pc.fill_null(pc.index_in(rows["kind"], KINDS), len(KINDS))
    keys = [("rank", "ascending", "at_end"), ("lastmod", "descending", "at_end"), ("loc", "ascending", "at_end")]
    return rows.take(pc.sort_indices(rows.append_column("rank", rank), sort_keys=keys))


def advance(waiting: Sequence[Waiting], sent: pa.Table, held: pa.Table) -> list[Waiting]:
    """Return the pending rows after `sent`. Each run continues after its last sent row and keeps its `held` rows."""
    result = []
    for number, entry in enumerate(waiting):
        gone = sent["position"].filter(pc.equal(sent["run"], number)).to_numpy()
        kept = held["position"].filter(pc.equal(held["run"], number)).to_numpy()
        position = max(entry.position, int(gone.max()) + 1 if len(gone) else 0)
        both = np.union1d(np.setdiff1d(entry.held, gone), kept[kept < position]).astype(np.uint32)
        result.append(replace(entry, position=position, held=both))
    return result


def finish(waiting: Sequence[Waiting], held: pa.Table) -> list[Waiting]:
    """Return the pending rows after all others were sent, replaced by a newer run, or out of scope: the `held` rows."""
    result = []
    for number, entry in enumerate(waiting):
        kept = np.sort(held["position"].filter(pc.equal(held["run"], number)).to_numpy()).astype(np.uint32)
        result.append(replace(entry, position=entry.rows, held=kept))
    return result


class Recent:
    """The URLs of the last minutes, as `hash64` with the time they were sent: eight bytes a URL.

    `answered` is False from before a request until its answer: if that never comes, the URLs may have been taken.
    """

    def __init__(self, data: Sequence[dict[str, Any]], *, now: float, cooldown: float) -> None:
        self._sent = [(float(e["at"]), bool(e["answered"]), _unpack(e["hashes"], "<u8")) for e in data]
        # Neither long ago nor, by a clock that was fast, in the future.
        self._sent = [entry for entry in self._sent if abs(now - entry[0]) < cooldown]

    def has(self, locs: pa.ChunkedArray, *, unanswered: bool = False) -> npt.NDArray[np.bool_]:
        """Return a mask of the locs that were sent; with `unanswered`, of those without an answer."""
        known = [hashes for _, answered, hashes in self._sent if not (unanswered and answered)]
        return np.isin(hash64(locs), np.concatenate([np.empty(0, np.uint64), *known]))

    def unanswered_at(self) -> float:
        """Return the epoch seconds of the last request without a response, or 0."""
        return max((moment for moment, answered, _ in self._sent if not answered), default=0.0)

    def sending(self, locs: pa.ChunkedArray, moment: float) -> None:
        self._sent.append((moment, False, hash64(locs)))

    def taken(self, moment: float) -> None:
        """Record that the last request was accepted at `moment`."""
        self._sent[-1] = (moment, True, self._sent[-1][2])

    def refused(self) -> None:
        """Record that the last request was not accepted."""
        self._sent.pop()

    def to_json(self) -> list[dict[str, Any]]:
        return [{"at": m, "answered": answered, "hashes": _pack(hashes)} for m, answered, hashes in self._sent]
