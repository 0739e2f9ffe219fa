"""The quotes of a CSV as its bytes go by: one that is opened and never closed makes one value of many rows.

A parser takes such a value for what it is, and the rows in it are lost without a word. So the bytes are looked at
before they are parsed, as whole buffers: where every opening quote follows a delimiter or a line break, and every
closing one precedes one, nothing more is asked. Quotes inside unquoted values (`5" pipe`) are text, as they are to
the parser; buffers that hold such are taken apart by a regular expression.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sitemap_etl.limits import CSV_VALUE_LINES

_LF, _CR = b"\n\r"
_BOM: Final = b"\xef\xbb\xbf"
_PIECE_BYTES: Final = 256 * 1024
"""Bytes looked at in one go: what is made of them stays in the processor's cache."""


class WatchedQuotes:
    """A stream for a parser, which ends where the quotes go wrong: `fault` says how, of the quote at byte `at`.

    `read` is that of the stream. Memory: what is not known to be whole rows yet, at most what the parser holds itself.
    """

    def __init__(self, read: Callable[[int], bytes], delimiter: str, quote: str) -> None:
        self.fault: str | None = None
        self.at = 0
        self.closed = False
        self._read = read
        self._delimiter, self._quote = ord(delimiter), ord(quote)
        mark, q = re.escape(delimiter.encode()), re.escape(quote.encode())
        text, end = rb"(?:[^%b\r\n]|%b%b)*+" % (q, q, q), rb"(?:\r\n|\n|\r)"
        quoted = rb"%b%b(?:%b%b){0,%d}+%b(?=[%b\r\n])" % (q, text, end, text, CSV_VALUE_LINES, q, mark)
        # What follows a closing quote is part of the value, to the parser too: fine within a line. In a value of
        # several lines it is the sign that the quote was to open another one.
        careless = rb"%b%b%b[^%b\r\n]*+" % (q, text, q, mark)
        plain = rb"[^%b%b\r\n][^%b\r\n]*+|%b" % (q, mark, mark, mark)
        fields = rb"(?:%b|%b|%b)*+" % (quoted, careless, plain)
        self._fields = re.compile(fields)
        self._rows = re.compile(rb"(?:%b[\r\n])*+" % fields)
        self._value = re.compile(rb"%b(?:[^%b]|%b%b)*+%b?+" % (q, q, q, q, q))
        self._rest = b""  # from the beginning of a row
        self._start = 0  # the byte of the stream at which that is

    def read(self, size: int = -1) -> bytes:
        """The next bytes; none where the stream ends or its quotes go wrong."""
        if self.fault is not None:
            return b""
        data = self._read(size)
        if not data:
            self._finish()
            return b""
        for start in range(0, len(data), _PIECE_BYTES):
            if self.fault is None:
                self._look(self._rest + data[start : start + _PIECE_BYTES])
        return data if self.fault is None else b""

    def close(self) -> None:
        """Nothing: the stream is its owner's to close."""
        self.closed = True

    def _look(self, data: bytes) -> None:
        """Take the rows that are whole off `data`, and keep the rest."""
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
        # A line break with an odd number of quotes before it is part of a value. Too many of them hold two neighbours
        # of those that are tried; then all are.
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
        """Whether every quote stands where a value begins or ends, or is one of two."""
        ends = np.zeros(256, bool)
        ends[[self._quote, _LF, _CR, self._delimiter]] = True
        opening, closing = quotes[0::2], quotes[1::2]
        if opening[0] == 0:
            opening = opening[1:]
        if len(closing) and closing[-1] == len(found) - 1:
            closing = closing[:-1]
        return bool(ends[found[opening - 1]].all() and ends[found[closing + 1]].all())

    def _take_apart(self, data: bytes) -> None:
        """As `_look`, value by value: quotes may be text here, or a value has very many lines."""
        end = _end(self._rows, data)
        at = _end(self._fields, data, end)
        value = self._value.match(data, at)
        if value is not None:
            lines = line_breaks(data, *value.span())
            if value.end() == len(data) and lines > CSV_VALUE_LINES:
                self._stop(at, f"is not closed within {CSV_VALUE_LINES:,} lines")
            elif value.end() < len(data) and lines:
                self._stop(at, f"is closed only {lines:,} line{'' if lines == 1 else 's'} further on")
        if self.fault is None:
            self._keep(data, end)

    def _finish(self) -> None:
        """The end of the stream: what is left must be a whole row."""
        if self._quote not in self._rest:
            return
        self._take_apart(self._rest + b"\n")
        if self.fault is None and self._rest:
            self._stop(_end(self._fields, self._rest), "is never closed")

    def _keep(self, data: bytes, start: int) -> None:
        self._start += start
        self._rest = data[start:]

    def _stop(self, at: int, what: str) -> None:
        self.at = self._start + at
        self.fault = f"the quote that opens a value here {what}: is a closing quote missing?"


def _end(pattern: re.Pattern[bytes], data: bytes, start: int = 0) -> int:
    """Where the match of a pattern that matches nothing, too, ends."""
    found = pattern.match(data, start)
    assert found is not None
    return found.end()


def line_breaks(data: bytes, start: int, end: int) -> int:
    """Line breaks, of one kind."""
    found = np.frombuffer(data, np.uint8)[start:end]  # five times as fast as `bytes.count`
    return int(np.count_nonzero(found == _LF) or np.count_nonzero(found == _CR))


def _breaks(found: NDArray[np.uint8]) -> NDArray[np.intp]:
    breaks = np.flatnonzero(found == _LF)
    return breaks if len(breaks) else np.flatnonzero(found == _CR)
