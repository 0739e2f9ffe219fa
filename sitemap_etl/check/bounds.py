"""Limits of the parts of a file, so that the memory of a check depends on the size of the file alone.

A file of 50 MB can have 13 million elements, each with its own name. A sitemap that is valid reaches none of the
limits. If a file does, the part before it is checked, and the report says so.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import Final

from sitemap_etl.limits import SITEMAP_ROWS

ROWS: Final = 4 * SITEMAP_ROWS
"""Entries or lines of a file that are checked."""
HOSTS: Final = SITEMAP_ROWS
"""Hosts of a file's URLs, images or alternates that are checked."""

_BLOCK: Final = 1 << 16
_ELEMENT_BYTES: Final = 24
"""Bytes of the largest file for each element. An image with a URL of 14 bytes has two elements in 48 bytes."""
_ELEMENTS: Final = 1 << 15
"""Elements that a file can have, however small files must be."""
_NAMES: Final = 10_000
"""Different names and namespaces, and attributes of one element. Parsers keep them until the end of the file."""
_FEW: Final = 1 << 18
"""Tags or attributes whose names need not be counted."""
_ELEMENT: Final = re.compile(rb"<([^\s/>!?]+)")
_ATTRIBUTE: Final = re.compile(rb"\s([^\s/<>=\"']{1,200})\s*=\s*[\"']")
_NAMESPACE: Final = re.compile(rb"xmlns(?::[^\s:=\"'<>]{1,200})?\s{0,200}=\s{0,200}[\"']([^\"'<>]{0,200})")


def part_of_xml(data: bytes, max_bytes: int) -> tuple[bytes, str]:
    """Return the part of a document that can be checked, and the limit that the whole document exceeds, or "".

    `max_bytes`: the maximum size of a file, which limits the number of elements.
    """
    most = max(_ELEMENTS, max_bytes // _ELEMENT_BYTES)
    few = data.count(b"<") <= _FEW and _quotes(data, 0, len(data)) <= 2 * _FEW
    elements = ends = quotes = 0
    names: set[bytes] = set()
    for at in range(0, len(data), _BLOCK):
        stop = at + _BLOCK
        elements += data.count(b"<", at, stop) - data.count(b"</", at, stop) - data.count(b"<!", at, stop)
        ends += data.count(b">", at, stop)
        last = data.rfind(b"<", at, stop)  # quotation marks are counted from there on
        quotes = (quotes if last < 0 else 0) + _quotes(data, max(at, last), stop)
        if not few:
            for pattern in (_ELEMENT, _ATTRIBUTE, _NAMESPACE):
                names.update(pattern.findall(data, at, stop))
        if max(elements, ends // 4) > most:
            return data[:at], f"more than {most:,} elements"
        if quotes > 2 * _NAMES:
            return data[:at], f"an element with more than {_NAMES:,} attributes"
        if len(names) > _NAMES:
            return data[:at], f"more than {_NAMES:,} different names"
    return data, ""


def _quotes(data: bytes, start: int, stop: int) -> int:
    return data.count(b'"', start, stop) + data.count(b"'", start, stop)


def part_of_text(data: bytes) -> tuple[bytes, str]:
    """Return the lines of a text that can be checked, and the limit that the whole text exceeds, or ""."""
    last = next(islice(re.finditer(b"\n", data), ROWS - 1, None), None)
    if last is None or last.end() == len(data):
        return data, ""
    return data[: last.end()], f"more than {ROWS:,} lines"
