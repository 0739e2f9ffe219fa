"""The lines of a robots.txt as Google's parser reads them: https://github.com/google/robotstxt."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from enum import Enum
from typing import Final

from sitemap_etl import limits
from sitemap_etl.frozen import Frozen

LINE: Final = re.compile(rb"[^\r\n]*(?:\r\n|\n|\r|\Z)")
"""A line and its end: CR, LF or both, and nothing else (RFC 9309, 2.2)."""
_END: Final = re.compile(rb"\r\n|\n|\r")
_BLANKS: Final = b" \t\n\v\f\r"
_LINE_BYTES: Final = 2083 * 8 - 1
"""Google's parser ignores the rest of a longer line."""


class Field(Enum):
    """A kind of line. Its value: the beginnings of the names, in lower case, that Google's parser accepts for it."""

    AGENT = (b"user-agent", b"useragent", b"user agent")
    ALLOW = (b"allow",)
    DISALLOW = (b"disallow", b"dissallow", b"dissalow", b"disalow", b"diasllow", b"disallaw")
    SITEMAP = (b"sitemap", b"site-map")
    DELAY = (b"crawl-delay", b"crawl delay")


class Line(Frozen):
    """A line with a known field. `value`: without comment and surrounding blanks, otherwise unchanged."""

    field: Field
    value: bytes


def lines_of(robots_txt: bytes) -> list[str]:
    """Return the lines of a robots.txt as text, without their ends."""
    return robots_txt.decode("utf-8-sig", "replace").replace("\r\n", "\n").replace("\r", "\n").split("\n")


def read_part(robots_txt: bytes) -> bytes:
    """Return the whole lines within the 500 KiB that crawlers read. The last one may lack its end."""
    if len(robots_txt) <= limits.ROBOTS_BYTES:
        return robots_txt
    read = robots_txt[: limits.ROBOTS_BYTES]
    if robots_txt[limits.ROBOTS_BYTES : limits.ROBOTS_BYTES + 1] in (b"\r", b"\n"):
        return read
    return read[: max(read.rfind(b"\n"), read.rfind(b"\r")) + 1]


def read_lines(robots_txt: bytes) -> Iterator[Line]:
    """Yield the lines that are group members, agents or sitemaps, in their order."""
    for line in _END.split(_without_mark(robots_txt)):
        found = _read(line)
        if found is not None:
            yield found


def _without_mark(robots_txt: bytes) -> bytes:
    """Return the file without a byte order mark. Google's parser also skips the beginning of one."""
    for length in (3, 2, 1):
        if robots_txt.startswith(codecs.BOM_UTF8[:length]):
            return robots_txt[length:]
    return robots_txt


def _read(line: bytes) -> Line | None:
    """Return the field and value of a line, or None for comments and unknown fields."""
    text = line[:_LINE_BYTES].partition(b"\0")[0].partition(b"#")[0].strip(_BLANKS)
    name, colon, value = text.partition(b":")
    if not colon:
        words = re.split(rb"[ \t]+", text)
        if len(words) != 2:  # a missing colon is accepted only if its position is clear
            return None
        name, value = words
    name = name.strip(_BLANKS).lower()
    field = next((field for field in Field if name.startswith(field.value)), None)
    return None if field is None else Line(field, value.strip(_BLANKS))


def sitemaps(robots_txt: bytes) -> list[str]:
    """Return the addresses of the `Sitemap:` lines, in their order, whoever wrote them."""
    found = (line.value for line in read_lines(robots_txt) if line.field is Field.SITEMAP)
    return [value.decode("utf-8", "replace") for value in found if value]
