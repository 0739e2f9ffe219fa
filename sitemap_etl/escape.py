"""Escape text for XML 1.0, as whole columns or single strings.

The sitemap protocol requires five escaped characters in every value, also `'` and `"`, which XML allows in text
(https://www.sitemaps.org/protocol.html#escaping). Characters that XML 1.0 forbids can't be written in any form, so they
are dropped (section 2.2: C0 controls except tab, LF and CR; U+FFFE, U+FFFF; surrogates). Parsers read CR as LF (section
2.11), so CR is written as a reference. LF is too, to keep each entry on one line.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from sitemap_etl.arrow import bytes_of, occurs, occurs_below

FORBIDDEN = r"[\x00-\x08\x0b\x0c\x0e-\x1f\x{fffe}\x{ffff}]"
"""Characters that XML 1.0 (section 2.2) can't hold in any form; UTF-8 has no surrogates anyway."""
_REFERENCES: Final = (
    ("&", "&amp;"),  # first: the others bring new ampersands
    ("'", "&apos;"),
    ('"', "&quot;"),
    ("<", "&lt;"),
    (">", "&gt;"),  # makes `]]>` safe too
    ("\r", "&#13;"),
    ("\n", "&#10;"),
)
_TABLE: Final = str.maketrans(
    dict(_REFERENCES)
    | {chr(code): None for code in (*range(0x09), 0x0B, 0x0C, *range(0x0E, 0x20), 0xFFFE, 0xFFFF)}
    | {chr(code): None for code in range(0xD800, 0xE000)}
)


def escaped(text: str) -> str:
    """Return a string for the text of an element or a quoted attribute, without forbidden characters."""
    return text.translate(_TABLE)


def escaped_urls(values: pa.Array) -> pa.Array:
    """Return canonical URLs for XML. Of the five characters, only `&` and `'` can occur."""
    data = bytes_of(values)
    for character, reference in _REFERENCES[:2]:
        if occurs(data, ord(character)):
            values = pc.replace_substring(values, character, reference)
    return values


def escaped_texts(values: pa.Array) -> pa.Array:
    """Return texts for XML, equal to `escaped` of each row. Nulls stay null."""
    data = bytes_of(values)
    controls = occurs_below(data, 0x20)
    if controls or occurs(data, 0xEF):  # 0xEF begins the UTF-8 of U+FFFE and U+FFFF
        values = pc.replace_substring_regex(values, FORBIDDEN, "")
    for character, reference in _REFERENCES:
        if (controls or ord(character) >= 0x20) and occurs(data, ord(character)):
            values = pc.replace_substring(values, character, reference)
    return values
