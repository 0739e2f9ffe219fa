"""Divide the rows of a window into shards: decide which files are reused, which are written, and their ranges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sitemap_etl.arrow import column_of
from sitemap_etl.columns import STICKY
from sitemap_etl.diff import Compared, with_columns
from sitemap_etl.frozen import Frozen
from sitemap_etl.partition.cut import absorbs, cut, mergeable
from sitemap_etl.render import urlset
from sitemap_etl.settings import Shards


class Published(Frozen):
    """Published shard whose range overlaps the window. `bytes` counts its entries, without the wrapper."""

    number: int
    low: str
    high: str | None  # `low` of the next range; None: the end
    last: str
    rows: int
    bytes: int


class Shard(Frozen):
    """Rows of one file.

    parent: the number of the published shard that this one continues; None if it is new.
    reused: the published file stays.
    renewed: the published file stays, but other columns of the snapshot changed.
    rows: `frames.SNAPSHOT`, as published.
    entries: rendered rows of a shard that is written, else None.
    place: first row in the window.
    """

    low: str
    parent: int | None
    place: int
    rows: pa.Table
    reused: bool
    renewed: bool = False
    entries: urlset.Entries | None = None


@dataclass
class _Piece:
    start: int
    stop: int
    low: str
    parent: int | None
    bytes: int
    written: bool
    entries: urlset.Entries | None = None


def shards(
    compared: Compared,
    known: pa.Table,
    ranges: Sequence[Published],
    *,
    low: str,
    high: str | None,
    bounds: Shards,
    view: bool,
) -> tuple[list[Shard], list[str]]:
    """Return the shards of the window from `low` to `high`, in order, and the locs of rows that lost their extensions.

    A row loses its extensions if it alone exceeds the size limit of a file.

    compared: the window's rows compared with `known`, the published rows of the same range.
    ranges: the published shards that overlap the window, in order. Empty on a first publish.
    view: cut the rows into new shards each time. A file with unchanged pages keeps their priorities.
    bounds: limits; `bounds.bytes` counts whole files.
    """
    bounds = bounds.inside(urlset.WRAPPER_BYTES)
    window = _Window(compared, known, bounds)
    pieces: list[_Piece] = []
    if view or not ranges:
        pieces = window.cut(0, compared.rows.num_rows, low, None, None)
    for at, published in enumerate(() if view else ranges):
        start, stop = window.stretch(published, first=at == 0)
        whole = published.low >= low and (high is None or (published.high is not None and published.high <= high))
        if whole and window.untouched(published, start, stop):
            pieces.append(_Piece(start, stop, published.low, published.number, published.bytes, written=False))
        else:
            parent = published.number if published.low >= low else None
            parts = window.cut(start, stop, max(published.low, low), parent, published.last)
            alone = bool(parts) and parts[0].stop - start == published.rows
            if whole and alone and window.untouched(published, start, parts[0].stop):
                # Only what sorts behind its last loc is new.
                parts[0] = _Piece(start, parts[0].stop, published.low, published.number, published.bytes, written=False)
            pieces += parts
    pieces = _merged(pieces, bounds)
    again = [view and at < len(ranges) and window.same(piece, ranges[at]) for at, piece in enumerate(pieces)]
    made = [window.shard(piece, again=same) for piece, same in zip(pieces, again, strict=True)]
    return made, window.stripped


class _Window:
    """Rows of a window, with the values that are needed several times."""

    def __init__(self, compared: Compared, known: pa.Table, bounds: Shards) -> None:
        self.compared = compared
        self.known = known
        self.bounds = bounds
        self.locs: pa.Array = column_of(compared.rows, "loc")
        self.known_locs: pa.Array = column_of(known, "loc")
        self.gone = np.zeros(known.num_rows, bool)
        self.gone[compared.gone] = True
        self.stale = compared.differs | compared.added
        self.stripped: list[str] = []

    def stretch(self, published: Published, *, first: bool) -> tuple[int, int]:
        start = 0 if first else _place(self.locs, published.low)
        stop = len(self.locs) if published.high is None else _place(self.locs, published.high)
        return start, stop

    def untouched(self, published: Published, start: int, stop: int) -> bool:
        if self.stale[start:stop].any() or not self.bounds.hold(published.rows, published.bytes):
            return False
        begin = _place(self.known_locs, published.low)
        end = len(self.known_locs) if published.high is None else _place(self.known_locs, published.high)
        return not self.gone[begin:end].any()

    def cut(self, start: int, stop: int, low: str, parent: int | None, last: str | None) -> list[_Piece]:
        """Return the pieces of a range that must be written."""
        if stop <= start:
            return []
        entries = self.rendered(start, stop)
        sizes = entries.sizes
        upto = None if last is None else _place(self.locs.slice(start, stop - start), last, side="right")
        starts = cut(sizes, self.bounds, upto)
        ends = [*starts[1:], stop - start]
        return [
            _Piece(
                start + begin,
                start + end,
                low if at == 0 else self.locs[start + begin].as_py(),
                parent if at == 0 else None,
                int(sizes[begin:end].sum()),
                written=True,
                entries=entries.slice(begin, end),
            )
            for at, (begin, end) in enumerate(zip(starts, ends, strict=True))
        ]

    def rendered(self, start: int, stop: int) -> urlset.Entries:
        """Return the entries of a range. A row that exceeds the size of a file loses its extensions."""
        rows = self.compared.rows.slice(start, stop - start)
        entries = urlset.entries(rows)
        over = entries.sizes > self.bounds.bytes
        if over.any():
            self.stripped += rows.column("loc").filter(pa.array(over)).to_pylist()
            table = self.compared.rows
            bare = urlset.without_extensions(rows, pa.array(over))
            self.compared = replace(
                self.compared,
                rows=pa.concat_tables([table.slice(0, start), bare, table.slice(stop)]).combine_chunks(),
            )
            entries = urlset.entries(bare)
        return entries

    def same(self, piece: _Piece, published: Published) -> bool:
        """Return True if a piece has exactly the pages of a published file, unchanged."""
        if piece.stop - piece.start != published.rows or self.stale[piece.start : piece.stop].any():
            return False
        at = self.compared.at[piece.start : piece.stop]
        return bool(at[-1] - at[0] == len(at) - 1) and self.locs[piece.stop - 1].as_py() == published.last

    def shard(self, piece: _Piece, *, again: bool) -> Shard:
        """Return the shard of a piece. `again`: its published rows are written again."""
        rows = self.compared.rows.slice(piece.start, piece.stop - piece.start)
        if again:
            rows = with_columns(rows, self._published(piece), STICKY)
            return Shard(piece.low, piece.parent, piece.start, rows, reused=False, entries=urlset.entries(rows))
        if piece.written:
            entries = piece.entries
            if entries is None:  # a merged one
                entries = self.rendered(piece.start, piece.stop)
            return Shard(piece.low, piece.parent, piece.start, rows, reused=False, entries=entries)
        renewed = bool(self.compared.beside[piece.start : piece.stop].any())
        rows = with_columns(rows, self._published(piece), STICKY)
        return Shard(piece.low, piece.parent, piece.start, rows, reused=True, renewed=renewed)

    def _published(self, piece: _Piece) -> pa.Table:
        """Return the published rows of a piece that has only published rows."""
        return self.known.slice(int(self.compared.at[piece.start]), piece.stop - piece.start)


def _place(locs: pa.Array, loc: str, side: str = "left") -> int:
    return int(pc.search_sorted(locs, pa.scalar(loc, locs.type), side=side).as_py()) if len(locs) else 0


def _merged(pieces: list[_Piece], bounds: Shards) -> list[_Piece]:
    """Join nearly empty pieces that are written anyway to a neighbor, which keeps its number."""
    result: list[_Piece] = []
    waiting = list(pieces)
    while waiting:
        piece = waiting.pop(0)
        rows = piece.stop - piece.start
        if piece.written and mergeable(rows, piece.bytes, bounds):
            left = result[-1] if result else None
            if left is not None and absorbs(left.stop - left.start + rows, left.bytes + piece.bytes, bounds):
                result[-1] = _Piece(
                    left.start, piece.stop, left.low, left.parent, left.bytes + piece.bytes, written=True
                )
                continue
            right = waiting[0] if waiting else None
            if right is not None and absorbs(right.stop - right.start + rows, right.bytes + piece.bytes, bounds):
                waiting[0] = _Piece(
                    piece.start, right.stop, piece.low, right.parent, right.bytes + piece.bytes, written=True
                )
                continue
        result.append(piece)
    return result
