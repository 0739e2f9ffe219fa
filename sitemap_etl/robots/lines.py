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
_SHOWN: Final = 60
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


_JOINED: Final = re.compile(
    rb"(?:[\s,;]|\\[nr]|[\x80-\xff])(?:user-?agent|disallow|allow|crawl-delay|sitemap)[ \t]*:", re.IGNORECASE
)
"""A line within another one, behind a blank, an escaped line break, or a line break of another kind."""
_COMPRESSED: Final = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"PK\x03\x04": "ZIP", b"BZh": "bzip2"}


def find_unreadable(robots_txt: bytes) -> str | None:
    """Return why crawlers can't read a robots.txt, or a line of it, as its author means it; None if they can."""
    text = _without_mark(robots_txt)
    packed = next((name for begin, name in _COMPRESSED.items() if text.startswith(begin)), None)
    if packed is not None:
        return f"it is compressed ({packed}), and no header says so"
    if text.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or text[:_LINE_BYTES].count(0) * 4 > len(
        text[:_LINE_BYTES]
    ):
        return "it is UTF-16 or UTF-32, and crawlers read UTF-8"
    for number, line in enumerate(_END.split(text), 1):
        found = _read(line)
        alone = number == 1 and line == text  # a comment that is all there is
        within = found.value if found is not None else line if alone else b""
        if _JOINED.search(within) is not None:
            return f"line {number} has several rules in it, and crawlers read one a line"
    written = [line for line in _END.split(text) if line.partition(b"#")[0].strip(_BLANKS)]
    if written and not any(map(_read, written)):
        return f"none of its lines is a rule (e.g. {written[0][:_SHOWN].decode('utf-8', 'replace')!r})"
    return None


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
