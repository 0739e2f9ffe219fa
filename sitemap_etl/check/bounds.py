"""Bounds on what one document holds, so that the memory to check it depends on its size alone.

A file of 50 MB can have 13 million elements, ten million of which have a name of their own. No sitemap is near such
numbers, so only the part before them is checked.
"""

from __future__ import annotations

import re
from typing import Final

import numpy as np

from sitemap_etl.check.report import Faults
from sitemap_etl.limits import SITEMAP_ROWS

ROWS: Final = 4 * SITEMAP_ROWS
"""Entries of one file that are checked."""

_BLOCK: Final = 1 << 16
_ENOUGH: Final = 1 << 16
"""Tags, attributes or lines that any document can have."""
_BYTES_OF_A_TAG: Final = 25
_BYTES_OF_A_LINE: Final = 40
_NAMES: Final = 10_000
"""Different names of elements and different namespaces. Parsers keep each name until they end, and longer."""
_NAME: Final = re.compile(rb"<([^\s/>!]+)")
_DECLARATION: Final = re.compile(rb"xmlns[^\"'<>]{0,200}[\"'][^\"'<>]{0,200}")


def part_of_xml(data: bytes, max_bytes: int) -> tuple[bytes, str]:
    """Return the part of a document that can be checked, and what the whole document has too much of, or "".

    max_bytes: maximum size of a file. It may have a tag and an attribute for each 25 bytes of it.
    """
    limit = max(_ENOUGH, max_bytes // _BYTES_OF_A_TAG)
    rare = data.count(b"<") <= max(_ENOUGH, limit // 8) and data.count(b"xmlns") <= _NAMES
    opening = closing = quotes = 0
    names: set[bytes] = set()
    for at in range(0, len(data), _BLOCK):
        stop = at + _BLOCK
        opening += data.count(b"<", at, stop)
        closing += data.count(b">", at, stop)
        quotes += data.count(b'"', at, stop) + data.count(b"'", at, stop)
        if not rare:
            names.update(_NAME.findall(data, at, stop), _DECLARATION.findall(data, at, stop))
        for number, most, what in (
            (min(stop, len(data)), max(_ENOUGH, max_bytes), "bytes in UTF-8"),
            (max(opening, closing), limit, "tags"),
            (quotes, 2 * limit, "quotation marks"),
            (len(names), _NAMES, "different names"),
        ):
            if number > most:
                return data[:at], f"more than {most:,} {what}"
    return data, ""


def part_of_rows(at: np.ndarray, faults: Faults) -> int:
    """Return how many entries can be checked, and report if there are more. `at`: the position of each entry."""
    if len(at) > ROWS:
        faults.add("partly-read", at=int(at[ROWS]), detail=f"it has more than {ROWS:,} entries")
    return min(len(at), ROWS)


def part_of_text(data: bytes, max_bytes: int) -> tuple[bytes, str]:
    """Return the lines of a text that can be checked, and what the whole text has too much of, or "".

    max_bytes: maximum size of a file. It may have a line for each 40 bytes of it.
    """
    limit = max(_ENOUGH, max_bytes // _BYTES_OF_A_LINE)
    lines = 0
    for at in range(0, len(data), _BLOCK):
        stop = min(at + _BLOCK, len(data))
        lines += data.count(b"\n", at, stop)
        for number, most, what in ((stop, max(_ENOUGH, max_bytes), "bytes in UTF-8"), (lines, limit, "lines")):
            if number > most:
                return data[: data.rfind(b"\n", 0, at) + 1], f"more than {most:,} {what}"
    return data, ""
