"""Texts with several addresses, such as a shop's product images: `https://…/1.jpg, https://…/2.jpg`.

An address ends at a comma, a semicolon, a bar or whitespace if `http://`, `https://`, `data:` or `/` follows. Otherwise
these characters are part of the address. If a text begins with a file name, the name of an image ends there too.
"""

from __future__ import annotations

import re
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sitemap_etl.arrow import bytes_of, mask_of, occurs, offsets_of, over, windows
from sitemap_etl.extensions import nested
from sitemap_etl.extensions.nested import Elements
from sitemap_etl.frozen import Frozen
from sitemap_etl.urls.placeholders import PLACEHOLDERS, find_placeholders

_BLANKS: Final = b" \t\r\n"
_SEPARATORS: Final = b",;|" + _BLANKS
_HTTP, _DATA, _SE64 = (np.frombuffer(word, "<u4")[0] for word in (b"http", b"data", b"se64"))
_LOWER: Final = np.uint32(0x20202020)
_PADDING: Final = 8
"""Bytes after the last row, so that reading ahead stays inside the array."""
_IMAGE: Final = r"\.(?i:jpe?g|jfif|png|apng|gif|webp|avif|heic|jxl|svg|bmp|ico|tiff?)"
_IMAGE_ENDS: Final = rf"{_IMAGE}[,;|\s]+$"
_NAMES: Final = rf"({_IMAGE})\s*[,;|]\s*([^,;|\s])"
_ABOUT: Final = r"\s+(?:!\s+(?i:alt|title|desc|caption)\s*:.*|[0-9.]+[wxh][,;|\s]*)$"
"""Text after an address in some exports: `! alt : …` (WooCommerce's CSV suite), and the width in a `srcset`."""
_ABSOLUTE: Final = r"^[,;|\s]*(?i:https?:/)"
_NAME: Final = rf"{_IMAGE}(?:\s+[0-9.]+[wxh])?$"
_WIDE: Final = "[\u00a0\u2000-\u200b\u202f\u205f\u3000\ufeff]+"
"""Blanks that are not ASCII, among them no-break spaces."""
_WIDE_BYTES: Final = b"\xc2\xe2\xe3\xef"
"""What they begin with in UTF-8."""
_BULLET: Final = "[ \t]*[-*\u2022][ \t]+"
"""What begins an item of a list in YAML and Markdown."""
_WORD: Final = rf"(?i:{'|'.join(re.escape(word) for word in PLACEHOLDERS)})"
_NO_NAME: Final = rf",/((?i:https?://|data:)|/|{_WORD}\s*(?:[,;|]|$))"
_LAST_WORDS: Final = rf"(?P<words>(?:\s*[,;|][,;|\s]*{_WORD})+)[,;|\s]*$"
_FIRST_WORDS: Final = rf"^[,;|\s]*(?P<words>(?:{_WORD}\s*[,;|][,;|\s]*)+)"
"""Words for a missing value at the ends of a text; behind a cut a text has none elsewhere."""
_BEFORE: Final = 32
"""Bytes before a separator in which the name of an image ends, with its width."""
_END, _ROW, _BEGIN = range(3)
"""Events at a position, in order: end of a cut, start of a row, start of a cut."""


class _Bytes(Frozen):
    """The bytes of all texts, some zeros behind them, and where each text begins: int64, one more than texts."""

    data: np.ndarray
    offsets: np.ndarray

    @classmethod
    def of(cls, values: pa.Array) -> _Bytes:
        offsets = offsets_of(values).astype(np.int64)
        return cls(np.concatenate([bytes_of(values), np.zeros(_PADDING, np.uint8)]), offsets - offsets[0])

    def words(self, at: np.ndarray) -> np.ndarray:
        """Return four bytes from each position, letters in lower case: uint32."""
        lower: np.ndarray = windows(self.data, "<u4")[at] | _LOWER
        return lower


class _Cuts(Frozen):
    """Separators to remove: start and end of each run."""

    begins: np.ndarray
    ends: np.ndarray


def separated(found: Elements) -> Elements:
    """Return the elements, with one for each address of those that hold several.

    `found`: text. Nulls, and texts of separators alone, are left out if any text holds a separator.
    """
    values = _with_plain_blanks(found.values)
    if not any(occurs(bytes_of(values), code) for code in _SEPARATORS):
        return found
    found = Elements(found.owner, values, found.rows).where(mask_of(pc.is_valid(values)))
    found = Elements(found.owner, _without_bullets(found.values), found.rows)
    text = _Bytes.of(found.values)
    values = _from_root(found.values, text)
    if values is not found.values:
        found, text = Elements(found.owner, values, found.rows), _Bytes.of(values)
    cuts = _cuts(text, values)
    if len(cuts.begins):
        found = _cut(found, text, cuts)
    is_blank = any(occurs(text.data, code) for code in _BLANKS)
    if is_blank and pc.any(pc.match_substring_regex(found.values, _ABOUT)).as_py():
        found = Elements(found.owner, pc.replace_substring_regex(found.values, _ABOUT, ""), found.rows)
    return _without_words(found)


def _with_plain_blanks(values: pa.Array) -> pa.Array:
    """Return the texts with a plain blank in place of wide ones that are beside a separator or at an end."""
    data = bytes_of(values)
    if not any(occurs(data, code) for code in _WIDE_BYTES) or not _any(values, _WIDE):
        return values
    values = pc.replace_substring_regex(values, rf"([,;|\s]){_WIDE}|{_WIDE}$", r"\1 ")
    return pc.replace_substring_regex(values, rf"{_WIDE}([,;|\s]|[0-9.]+[wxh]$|(?i:https?:/))", r" \1")


def _without_bullets(values: pa.Array) -> pa.Array:
    """Return the texts without what begins the items of a list in YAML."""
    begins = rf"(^|\n){_BULLET}" if occurs(bytes_of(values), ord("\n")) else rf"(^){_BULLET}"
    if not _any(values, begins):
        return values
    for quote in ('"', "'"):
        values = pc.replace_substring_regex(values, rf"{begins}{quote}([^\n]*){quote}[ \t\r]*", r"\1\2")
    return pc.replace_substring_regex(values, begins, r"\1")


def _any(values: pa.Array, pattern: str) -> bool:
    """Return whether a pattern is found in one of the texts."""
    return bool(pc.any(pc.match_substring_regex(values, pattern)).as_py())


def _without_words(found: Elements) -> Elements:
    """Return the elements, with an element of its own for each word for a missing value."""
    if not any(occurs(bytes_of(found.values), code) for code in b",;|"):
        return found
    for pattern in (_LAST_WORDS, _FIRST_WORDS):
        some = mask_of(pc.match_substring_regex(found.values, pattern))
        if some.any():
            mask = pa.array(some)
            cut = found.values.filter(mask)
            rest = pc.replace_with_mask(found.values, mask, pc.replace_substring_regex(cut, pattern, ""))
            lists = pc.split_pattern_regex(pc.struct_field(pc.extract_regex(cut, pattern), "words"), r"[,;|\s]+")
            words = nested.elements(lists)
            words = words.where(mask_of(pc.not_equal(words.values, "")))
            rows = found.owner[some][words.owner]
            found = nested.merged(Elements(found.owner, rest, found.rows), Elements(rows, words.values, found.rows))
    return found


def firsts(values: pa.Array) -> tuple[pa.Array, np.ndarray]:
    """Return the first address of each text, and a mask of the texts that hold several: string, bool."""
    found = separated(Elements(np.arange(len(values)), values, len(values)))
    counts = np.bincount(found.owner, minlength=len(values))
    if (counts > 1).any():  # words for a missing value are not addresses
        words = find_placeholders(
            found.values, np.asarray(pc.binary_length(found.values).fill_null(0)), counts[found.owner] > 1
        )
        found = found.where(~words)
    counts = np.bincount(found.owner, minlength=len(values))
    if (counts == 1).all():
        return found.values, np.zeros(len(values), bool)
    at = np.cumsum(counts) - counts
    return found.values.take(pa.array(at, mask=counts == 0)), counts > 1


def _from_root(values: pa.Array, text: _Bytes) -> pa.Array:
    """Return lists of file names with a slash before all names but the first.

    Names are relative to the root, because the site has no other folder.
    """
    is_name = text.data[text.offsets[:-1]] != ord("/")
    is_name &= text.words(text.offsets[:-1]) != _HTTP
    if not is_name.any():
        return values
    some = pc.replace_substring_regex(values.filter(pa.array(is_name)), _NAMES, r"\1,/\2")
    return pc.replace_with_mask(values, pa.array(is_name), pc.replace_substring_regex(some, _NO_NAME, r",\1"))


def _cuts(text: _Bytes, values: pa.Array) -> _Cuts:
    """Return runs before an address, and runs at the end of texts that have another run or end as an image."""
    data, offsets = text.data, text.offsets
    is_separator = np.zeros(len(data), bool)
    for code in _SEPARATORS:
        if occurs(data, code):
            is_separator |= data == code
    is_end = np.zeros(len(data), bool)
    is_end[offsets[1:]] = True
    at = np.flatnonzero(is_separator)
    last = is_end[at + 1]
    begins = at[np.maximum.accumulate(np.where(np.diff(at, prepend=-2) != 1, np.arange(len(at)), 0))]
    kept = last | is_separator[at + 1] | _begins(text, values, at, begins)
    at, last, begins = at[kept], last[kept], begins[kept]
    cuts = last | ~is_separator[at + 1]
    at, last, begins = at[cuts], last[cuts], begins[cuts]
    row = np.searchsorted(offsets, at, side="right") - 1
    begins = np.maximum(begins, offsets[row])
    if last.any():
        again = np.bincount(row[~last], minlength=len(offsets)) > 0
        ends = mask_of(pc.match_substring_regex(values.take(pa.array(row[last])), _IMAGE_ENDS))
        wanted = ~last
        wanted[last] = ends | again[row[last]]
        at, begins = at[wanted], begins[wanted]
    return _Cuts(begins, at + 1)


def _begins(text: _Bytes, values: pa.Array, at: np.ndarray, begins: np.ndarray) -> np.ndarray:
    """Return a mask of the places behind which an address begins: bool, one a place.

    `begins`: for each place, the start of its run of separators.
    """
    data, word = text.data, text.words(at + 1)
    plain = (data[at + 5] == ord(":")) & (data[at + 6] == ord("/"))
    secure = (data[at + 5] | 0x20 == ord("s")) & (data[at + 6] == ord(":")) & (data[at + 7] == ord("/"))
    found = (word == _HTTP) & (plain | secure) | (word == _DATA) & (data[at + 5] == ord(":"))
    rooted = data[at + 1] == ord("/")
    if rooted.any():  # the data of a picture may begin with a slash
        rooted &= (data[at] != ord(",")) | (text.words(np.maximum(at - 4, 0)) != _SE64)
        rooted[rooted] = _ends(text, values, at[rooted], begins[rooted])
    mask: np.ndarray = found | rooted
    return mask


def _ends(text: _Bytes, values: pa.Array, at: np.ndarray, begins: np.ndarray) -> np.ndarray:
    """Return a mask of the places before a slash at which an address ends: bool, one a place.

    In a text that begins with an absolute URL, it ends at white space and behind the name of an image only.
    """
    rows = np.searchsorted(text.offsets, at, side="right") - 1
    begins = np.maximum(begins, text.offsets[rows])
    ends = ~mask_of(pc.match_substring_regex(values, _ABSOLUTE))[rows]
    blanks = np.concatenate([[0], np.cumsum(np.isin(text.data, list(_BLANKS)))])
    ends |= blanks[at + 1] > blanks[begins]
    left = np.flatnonzero(~ends)
    if len(left):
        padded = np.concatenate([np.zeros(_BEFORE, np.uint8), text.data])
        before = windows(padded, f"S{_BEFORE}")[begins[left]]
        names = pa.Array.from_buffers(pa.binary(_BEFORE), len(left), [None, pa.py_buffer(before)]).cast(pa.binary())
        ends[left] = mask_of(pc.match_substring_regex(names, _NAME))
    return ends


def _cut(found: Elements, text: _Bytes, cuts: _Cuts) -> Elements:
    """Return the elements divided at the cuts, without the separators."""
    places = [cuts.ends * 3 + _END, text.offsets * 3 + _ROW, cuts.begins * 3 + _BEGIN]
    keys = np.sort(np.concatenate(places), kind="stable")
    at, kind = keys // 3, keys % 3
    kept = (kind[:-1] != _BEGIN) & (np.diff(at) > 0)
    owner = found.owner[np.cumsum(kind == _ROW)[:-1][kept] - 1]
    pieces = over(pa.string(), at.astype(np.int32), text.data)
    return Elements(owner, pieces.filter(pa.array(kept)), found.rows)
