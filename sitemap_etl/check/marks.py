"""The marks that stand in a document for what would disturb its columns, and the texts read back from it.

Comments, CDATA and ">" inside a value are overwritten by marks of equal length, so that every offset
and line stays true:

    0x01 stands for ">"   0x02 for nothing   0x03 for "<"   0x04 for "&"

No well-formed XML 1.0 document can hold these bytes.
"""

from __future__ import annotations

import re
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

GT, NOTHING, LT, AMP = b"\x01", b"\x02", b"\x03", b"\x04"

_MARKUP: Final = ((b"<!--", b"-->"), (b"<![CDATA[", b"]]>"), (b"<?", b"?>"))
_DOCTYPE: Final = re.compile(rb"<!DOCTYPE[^\[>]*(?:\[.*?\]\s*)?>", re.DOTALL)
_ENTITY: Final = re.compile("&(?:#([0-9]+)|#x([0-9A-Fa-f]+)|([a-z]+));")
_NAMED: Final = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}


def marked(data: bytes) -> bytes:
    """The document with comments, CDATA and processing instructions turned into marks."""
    found = _markup(data)
    if not found:
        return data
    mended = bytearray(data)
    for begin, stop in found:
        if data.startswith(b"<![CDATA[", begin):
            text = data[begin + 9 : stop - 3].replace(b"<", LT).replace(b">", GT).replace(b"&", AMP)
            mended[begin:stop] = NOTHING * 9 + text + NOTHING * 3
        else:
            mended[begin:stop] = NOTHING * (stop - begin)
    return bytes(mended)


def _markup(data: bytes) -> list[tuple[int, int]]:
    """Begin and end of all that is neither element nor text."""
    bytes_ = np.frombuffer(data, np.uint8)
    opening = np.flatnonzero(bytes_[:-1] == ord("<"))
    second = bytes_[opening + 1]
    found: list[tuple[int, int]] = []
    stop = 0
    for begin in opening[(second == ord("!")) | (second == ord("?"))].tolist():
        if begin >= stop:  # else it stands in a comment or CDATA
            stop = _end(data, begin)
            found.append((begin, stop))
    return found


def _end(data: bytes, begin: int) -> int:
    """Where markup that begins here ends; the document is well-formed."""
    for opening, closing in _MARKUP:
        if data.startswith(opening, begin):
            return data.index(closing, begin + len(opening)) + len(closing)
    doctype = _DOCTYPE.match(data, begin)
    assert doctype is not None
    return doctype.end()


def resolved(texts: Any) -> Any:
    """The texts with entities and marks resolved; only rows that hold one are looked at."""
    care = pc.match_substring_regex(texts, "[&\x01-\x04]")
    if not pc.any(care).as_py():
        return texts
    rows = texts.filter(care)
    for mark, character in (("\x02", ""), ("\x01", ">"), ("\x03", "<")):
        rows = pc.replace_substring(rows, mark, character)
    numeric = pc.match_substring_regex(rows, "&#|\x04")
    if pc.any(numeric).as_py():
        mended = pa.array(
            [unescaped(text).replace("\x04", "&") for text in rows.filter(numeric).to_pylist()], pa.string()
        )
        rows = pc.replace_with_mask(_named(rows), numeric, mended)
    else:
        rows = _named(rows)
    return pc.replace_with_mask(texts, care, rows)


def _named(texts: Any) -> Any:
    for name, character in _NAMED.items():
        if name != "amp":
            texts = pc.replace_substring(texts, f"&{name};", character)
    return pc.replace_substring(texts, "&amp;", "&")


def unescaped(text: str) -> str:
    """One text with its entities resolved; an unknown one stays."""

    def character(found: re.Match[str]) -> str:
        decimal, hexadecimal, name = found.groups()
        if name:
            return _NAMED.get(name, found[0])
        code = int(decimal) if decimal else int(hexadecimal, 16)
        return chr(code) if code <= 0x10FFFF and not 0xD800 <= code <= 0xDFFF else found[0]

    return _ENTITY.sub(character, text)


def resolved_text(text: str) -> str:
    """One text with entities and CDATA resolved, blanks around it taken off."""
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL).strip()
    if text.startswith("<![CDATA["):
        return text[9:].partition("]]>")[0].strip()
    return unescaped(text).strip()
