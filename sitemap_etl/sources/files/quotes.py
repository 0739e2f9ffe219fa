"""Check the quotes of a CSV in its bytes: a quote that is never closed turns many rows into one value.

A parser accepts such a value, and loses its rows without an error. So the bytes are checked before parsing, in whole
buffers. If every opening quote follows a delimiter or a line break, and every closing quote precedes one, counting is
enough. Quotes inside unquoted values (`5" pipe`) are text, for the parser too; `find_turns` distinguishes them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sitemap_etl.frozen import Frozen
from sitemap_etl.limits import CSV_LINE_BYTES, CSV_VALUE_LINES

_LF, _CR = b"\n\r"
_BOM: Final = b"\xef\xbb\xbf"
_PIECE_BYTES: Final = 256 * 1024
"""Bytes examined at a time, so that temporaries stay in the processor's cache."""
LONG_LINE: Final = (
    f"a line is longer than {CSV_LINE_BYTES:,} characters: a row can have up to {CSV_LINE_BYTES // 2:,} bytes"
)


class WatchedQuotes:
    """A stream for a parser, which ends at an invalid quote: `fault` has the reason, `at` the position of the quote.

    It ends at the start of a row that is too long for the parser, too. `read`: the stream's method. Memory: bytes of
    incomplete rows, at most as much as the parser needs itself.
    """

    def __init__(self, read: Callable[[int], bytes], delimiter: str, quote: str) -> None:
        self.fault: str | None = None
        self.at = 0
        self.closed = False
        self._read = read
        self._delimiter, self._quote = ord(delimiter), ord(quote)
        self._boundaries = boundaries(delimiter)
        self._rest = b""  # from the beginning of a row
        self._start = 0  # its position in the stream

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes, or none at the end of the stream or at an invalid quote."""
        if self.fault is not None:
            return b""
        data = self._read(size)
        if not data:
            self._finish()
            return b""
        start = 0
        while start < len(data) and self.fault is None:
            # A long row is examined again when it has doubled, so that time stays linear.
            end = start + max(_PIECE_BYTES, len(self._rest))
            self._look(self._rest + data[start:end])
            start = end
            if self.fault is None and len(self._rest) > CSV_LINE_BYTES:
                self.at, self.fault = self._start, LONG_LINE
        return data if self.fault is None else b""

    def close(self) -> None:
        """Mark the stream as closed. The underlying stream is left open for its owner."""
        self.closed = True

    def _look(self, data: bytes) -> None:
        """Remove the complete rows from `data`, and keep the rest."""
        if not self._start and data.startswith(_BOM):
            self._start, data = len(_BOM), data[len(_BOM) :]
        if self._quote not in data:
            self._keep(data, max(data.rfind(b"\n"), data.rfind(b"\r")) + 1)
            return
        found = np.frombuffer(data, np.uint8)
        quotes = np.flatnonzero(found == self._quote)
        if not self._regular(found, quotes):
            self._take_apart(data)
            return
        breaks = _breaks(found)
        # A line break after an odd number of quotes is part of a value. A value with too many line breaks includes two
        # adjacent ones of the sample; then all are examined.
        tried = np.searchsorted(quotes, breaks[:: CSV_VALUE_LINES // 2]) % 2
        if (tried[1:] & tried[:-1]).any():
            outside = np.flatnonzero(np.searchsorted(quotes, breaks) % 2 == 0)
            if np.diff(outside, prepend=-1, append=len(breaks)).max() > CSV_VALUE_LINES + 1:
                self._take_apart(data)
                return
        for last in breaks[: -CSV_VALUE_LINES - 2 : -1]:
            if np.searchsorted(quotes, last) % 2 == 0:
                self._keep(data, int(last) + 1)
                return
        self._take_apart(data)

    def _regular(self, found: NDArray[np.uint8], quotes: NDArray[np.intp]) -> bool:
        """Return True if every quote is at the start or end of a value, or doubled."""
        ends = self._boundaries.copy()
        ends[self._quote] = True
        opening, closing = quotes[0::2], quotes[1::2]
        if opening[0] == 0:
            opening = opening[1:]
        if len(closing) and closing[-1] == len(found) - 1:
            closing = closing[:-1]
        return bool(ends[found[opening - 1]].all() and ends[found[closing + 1]].all())

    def _take_apart(self, data: bytes, *, last: bool = False) -> None:
        """Do the same as `_look` value by value, because some quotes are text or a value has very many lines.

        `last`: the data ends with the last row of the stream.
        """
        found = np.frombuffer(data, np.uint8)
        quotes, breaks = np.flatnonzero(found == self._quote), _breaks(found)
        turns = find_turns(quotes, found, self._boundaries)
        was_open = np.append(False, turns.opened[:-1])
        opens = turns.first[turns.opened & ~was_open]
        closes = turns.last[was_open & ~turns.opened]
        # Nothing is known about a value that reaches the end: more quotes, or text, may follow.
        closed = closes[closes < len(data) - 1]
        until = np.append(closed, np.full(len(opens) - len(closed), len(data)))
        lines = np.searchsorted(breaks, until) - np.searchsorted(breaks, opens)
        wrong = lines > CSV_VALUE_LINES
        # Text between a closing quote and a delimiter is part of the value. After several lines it shows that the
        # quote was meant to open another value.
        wrong[: len(closed)] |= (lines[: len(closed)] > 0) & ~self._boundaries[found[closed + 1]]
        if wrong.any():
            at = int(wrong.argmax())
            count = int(lines[at])
            if at < len(closed):
                self._stop(int(opens[at]), f"is closed only {count:,} line{'' if count == 1 else 's'} further on")
            else:
                self._stop(int(opens[at]), f"is not closed within {CSV_VALUE_LINES:,} lines")
        elif last and len(closed) < len(opens):
            self._stop(int(opens[-1]), "is never closed")
        else:
            value = np.searchsorted(opens, breaks) - 1  # the last one that opens before each line break; -1: none
            outside = breaks[breaks > np.append(until, -1)[value]]
            self._keep(data, int(outside[-1]) + 1 if len(outside) else 0)

    def _finish(self) -> None:
        """Check the end of the stream: the rest must be a complete row."""
        if self._quote in self._rest:
            self._take_apart(self._rest + b"\n", last=True)

    def _keep(self, data: bytes, start: int) -> None:
        self._start += start
        self._rest = data[start:]

    def _stop(self, at: int, what: str) -> None:
        self.at = self._start + at
        self.fault = f"the quote that opens a value here {what}: is a closing quote missing?"


class Turns(Frozen):
    """Runs of quotes that can open or close a value, in order.

    `first`, `last`: positions of the first and last quote of each run (int64). `opened`: mask of runs after which a
    value is open (bool).
    """

    first: NDArray[np.intp]
    last: NDArray[np.intp]
    opened: NDArray[np.bool_]


def boundaries(delimiter: str) -> NDArray[np.bool_]:
    """Return a table of 256 flags: bytes next to which a value begins or ends."""
    table = np.zeros(256, bool)
    table[[ord(delimiter), _LF, _CR]] = True
    return table


def find_turns(
    quotes: NDArray[np.intp],
    found: NDArray[np.uint8],
    starts_value: NDArray[np.bool_],
    *,
    before: int = _LF,
    inside: bool = False,
) -> Turns:
    """Return the runs of quotes that can open or close a value.

    An even number of adjacent quotes is text within a value, or an empty value. An odd number opens or closes a value
    if it follows a boundary; elsewhere, no value is open after it. `quotes`: ascending positions in `found` of the
    quotes that are not escaped. `starts_value`: see `boundaries`. `before`: the byte before the first one. `inside`: a
    value is open there.
    """
    first = np.flatnonzero(np.diff(quotes, prepend=-2) != 1)
    length = np.diff(first, append=len(quotes))
    odd = length % 2 == 1
    begins = quotes[first[odd]]
    previous = found[begins - 1]
    if len(begins) and begins[0] == 0:
        previous[0] = before
    toggles = starts_value[previous]
    count = np.cumsum(toggles)
    reset = np.maximum.accumulate(np.where(toggles, -1, np.arange(len(begins))))
    since = count - np.where(reset >= 0, count[reset], 0) + ((reset < 0) & inside)
    return Turns(begins, begins + length[odd] - 1, since % 2 == 1)


def line_breaks(data: bytes, start: int, end: int) -> int:
    """Return the number of line breaks, all of one kind."""
    found = np.frombuffer(data, np.uint8)[start:end]  # five times as fast as `bytes.count`
    return int(np.count_nonzero(found == _LF) or np.count_nonzero(found == _CR))


def _breaks(found: NDArray[np.uint8]) -> NDArray[np.intp]:
    """Return the positions of line breaks, of CR and LF together that of LF. Values can have breaks of another kind."""
    breaks = np.flatnonzero(found == _LF)
    returns = np.flatnonzero(found == _CR)
    if not len(returns) or not len(breaks):
        return breaks if len(breaks) else returns
    alone = returns[found[np.minimum(returns + 1, len(found) - 1)] != _LF]
    return np.sort(np.concatenate([breaks, alone])) if len(alone) else breaks
