"""Resolve the entities of texts and attributes, and the marks of a scanned document."""

from __future__ import annotations

import re
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

_ENTITY: Final = re.compile("&(?:#([0-9]+)|#x([0-9A-Fa-f]+)|([a-z]+));")
_NAMED: Final = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}


def resolved(texts: Any) -> Any:
    """Return the texts with entities and marks resolved; only rows with an entity are examined."""
    care = pc.match_substring_regex(texts, "[&\x01-\x04]")
    if not pc.any(care).as_py():
        return texts
    rows = texts.filter(care)
    for mark, character in (("\x02", ""), ("\x01", ">"), ("\x03", "<")):
        rows = pc.replace_substring(rows, mark, character)
    numeric = pc.match_substring_regex(rows, "&#|\x04")
    if pc.any(numeric).as_py():
        resolved_rows = pa.array(
            [unescaped(text).replace("\x04", "&") for text in rows.filter(numeric).to_pylist()], pa.string()
        )
        rows = pc.replace_with_mask(_named(rows), numeric, resolved_rows)
    else:
        rows = _named(rows)
    return pc.replace_with_mask(texts, care, rows)


def _named(texts: Any) -> Any:
    for name, character in _NAMED.items():
        if name != "amp":
            texts = pc.replace_substring(texts, f"&{name};", character)
    return pc.replace_substring(texts, "&amp;", "&")


def unescaped(text: str) -> str:
    """Return a text with resolved entities. Unknown entities stay."""

    def character(found: re.Match[str]) -> str:
        decimal, hexadecimal, name = found.groups()
        if name:
            return _NAMED.get(name, found[0])
        code = int(decimal) if decimal else int(hexadecimal, 16)
        return chr(code) if code <= 0x10FFFF and not 0xD800 <= code <= 0xDFFF else found[0]

    return _ENTITY.sub(character, text)


def resolved_text(text: str) -> str:
    """Return a text with resolved entities and CDATA, without surrounding whitespace."""
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL).strip()
    if text.startswith("<![CDATA["):
        return text[9:].partition("]]>")[0].strip()
    return unescaped(text).strip()
