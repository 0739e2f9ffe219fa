"""Escapes in CSV without quotes, as MySQL (`INTO OUTFILE`, `--batch`) and PostgreSQL (`COPY`) write them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

NULL: Final = "\0"
"""The value that `\\N` alone becomes. Another text with a NUL is never published."""
_WRITTEN: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "v": "\v", "f": "\f", "0": "\0", "Z": "\x1a"}
_MEANT: Final = np.arange(256, dtype=np.uint8)
for _letter, _character in _WRITTEN.items():
    _MEANT[ord(_letter)] = ord(_character)
LETTERS: Final = frozenset(_WRITTEN)
"""Letters that stand for a control character after an escape."""
_N, _LF, _CR = b"N\n\r"
_KEPT: Final = 2
"""Bytes at the end of a block that are kept for the next one: `\\N` is null only before the end of its value."""


class Escapes:
    r"""A text in which every escape precedes the character that it stands for: `\n` becomes `\` and a line break.

    Parsers take a character after an escape as it is, and don't know letters. `\N` alone becomes an escaped `NULL`. The
    text keeps its length.
    """

    def __init__(self, read: Callable[[int], bytes], escape: str, delimiter: str) -> None:
        self._read = read
        self._escape = ord(escape)
        self._ends = np.zeros(256, np.bool_)
        self._ends[[ord(delimiter), _LF, _CR]] = True
        self._before = _LF
        self._held = b""

    def read(self, size: int) -> bytes:
        """Return the next bytes, or none at the end."""
        escape = bytes([self._escape])
        while data := self._read(size):
            text = self._held + data
            cut = max(0, len(text) - _KEPT)
            run = cut - len(text[:cut].rstrip(escape))
            cut -= run % 2
            self._held = text[cut:]
            if cut:
                return self._meant(text[:cut], text[cut])
        text, self._held = self._held, b""
        if (len(text) - len(text.rstrip(escape))) % 2:
            text = text[:-1]  # it precedes nothing
        return self._meant(text, _LF) if text else b""

    def _meant(self, text: bytes, after: int) -> bytes:
        """Convert a block that does not end between an escape and its character. `after`: the byte behind it."""
        found = np.frombuffer(text, np.uint8)
        before, self._before = self._before, text[-1]
        at = leading_of(np.flatnonzero(found == self._escape))
        if not len(at):
            return text
        codes = found[at + 1]
        out = found.copy()
        out[at + 1] = _MEANT[codes]
        around = np.concatenate([[before], found, [after]])
        alone = at[(codes == _N) & self._ends[around[at]] & self._ends[around[at + 3]]]
        out[alone[~np.isin(alone - 2, at)] + 1] = ord(NULL)
        return out.tobytes()


def leading_of(escapes: np.ndarray) -> np.ndarray:
    """Return the positions of escapes that are not escaped themselves: in a run, every second one is."""
    number = np.arange(len(escapes))
    begins = np.maximum.accumulate(np.where(np.diff(escapes, prepend=-2) != 1, number, 0))
    leading: np.ndarray = escapes[(number - begins) % 2 == 0]
    return leading
