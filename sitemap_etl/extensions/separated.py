"""Texts with several addresses, as shops export the images of a product: `https://…/1.jpg, https://…/2.jpg`.

An address ends at a comma, a semicolon, a bar or a blank if `http://`, `https://`, `data:` or `/` follows. Other such
characters are part of it. If a text begins with the name of a file, the name of an image ends there too.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sitemap_etl.arrow import bytes_of, mask_of, occurs, offsets_of, over, windows
from sitemap_etl.extensions.nested import Elements
from sitemap_etl.frozen import Frozen

_BLANKS: Final = b" \t\r\n"
_SEPARATORS: Final = b",;|" + _BLANKS
_HTTP, _DATA, _SE64 = (np.frombuffer(word, "<u4")[0] for word in (b"http", b"data", b"se64"))
_LOWER: Final = np.uint32(0x20202020)
_PADDING: Final = 8
"""Bytes behind the last row, so that a look ahead never leaves the array."""
_IMAGE: Final = r"\.(?i:jpe?g|png|gif|webp|avif|svg|bmp|tiff?)"
_IMAGE_ENDS: Final = rf"{_IMAGE}[,;|\s]+$"
_NAMES: Final = rf"({_IMAGE})\s*[,;|]\s*([^,;|\s])"
_BEGINNINGS: Final = r",/((?i:https?://|data:)|/)"
_ABOUT: Final = r"\s+(?:!\s+(?i:alt|title|desc|caption)\s*:.*|[0-9.]+[wxh])$"
"""What follows an address in some exports: `! alt : …` (WooCommerce's CSV suite), and the width in a `srcset`."""
_END, _ROW, _BEGIN = range(3)
"""What begins at a place: the text behind a cut, a row, a cut. At one place they are in this order."""


class _Bytes(Frozen):
    """The bytes of all texts, some zeros behind them, and where each text begins: int64, one more than texts."""

    data: np.ndarray
    offsets: np.ndarray

    @classmethod
    def of(cls, values: pa.Array) -> _Bytes:
        offsets = offsets_of(values).astype(np.int64)
        return cls(np.concatenate([bytes_of(values), np.zeros(_PADDING, np.uint8)]), offsets - offsets[0])

    def words(self, at: np.ndarray) -> np.ndarray:
        """Return the four bytes from each place on, letters in lower case: uint32."""
        lower: np.ndarray = windows(self.data, "<u4")[at] | _LOWER
        return lower


class _Cuts(Frozen):
    """Runs of separators that are left out: where each begins and ends."""

    begins: np.ndarray
    ends: np.ndarray


def separated(found: Elements) -> Elements:
    """Return the elements, with one for each address of those that hold several.

    `found`: text. Nulls, and texts of separators alone, are left out if any text holds a separator.
    """
    if not any(occurs(bytes_of(found.values), code) for code in _SEPARATORS):
        return found
    found = found.where(mask_of(pc.is_valid(found.values)))
    text = _Bytes.of(found.values)
    values = _from_root(found.values, text)
    if values is not found.values:
        found, text = Elements(found.owner, values, found.rows), _Bytes.of(values)
    cuts = _cuts(text, values)
    if len(cuts.begins):
        found = _cut(found, text, cuts)
    is_blank = any(occurs(text.data, code) for code in _BLANKS)
    if is_blank and pc.any(pc.match_substring_regex(found.values, _ABOUT)).as_py():
        return Elements(found.owner, pc.replace_substring_regex(found.values, _ABOUT, ""), found.rows)
    return found


def firsts(values: pa.Array) -> tuple[pa.Array, np.ndarray]:
    """Return the first address of each text, and a mask of the texts that hold several: string, bool."""
    found = separated(Elements(np.arange(len(values)), values, len(values)))
    counts = np.bincount(found.owner, minlength=len(values))
    if (counts == 1).all():
        return found.values, np.zeros(len(values), bool)
    at = np.cumsum(counts) - counts
    return found.values.take(pa.array(at, mask=counts == 0)), counts > 1


def _from_root(values: pa.Array, text: _Bytes) -> pa.Array:
    """Return lists of file names with a slash before all but the first name: a site has no other folder."""
    is_name = text.data[text.offsets[:-1]] != ord("/")
    is_name &= text.words(text.offsets[:-1]) != _HTTP
    if not is_name.any():
        return values
    some = pc.replace_substring_regex(values.filter(pa.array(is_name)), _NAMES, r"\1,/\2")
    return pc.replace_with_mask(values, pa.array(is_name), pc.replace_substring_regex(some, _BEGINNINGS, r",\1"))


def _cuts(text: _Bytes, values: pa.Array) -> _Cuts:
    """Return the runs before an address; and those at the end of a text, if it has another one or ends as an image."""
    data, offsets = text.data, text.offsets
    is_separator = np.zeros(len(data), bool)
    for code in _SEPARATORS:
        if occurs(data, code):
            is_separator |= data == code
    is_end = np.zeros(len(data), bool)
    is_end[offsets[1:]] = True
    at = np.flatnonzero(is_separator)
    last = is_end[at + 1]
    kept = last | is_separator[at + 1] | _begins(text, at)
    at, last = at[kept], last[kept]
    begins = at[np.maximum.accumulate(np.where(np.diff(at, prepend=-2) != 1, np.arange(len(at)), 0))]
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


def _begins(text: _Bytes, at: np.ndarray) -> np.ndarray:
    """Return a mask of the places behind which an address begins: bool, one a place."""
    data, word = text.data, text.words(at + 1)
    plain = (data[at + 5] == ord(":")) & (data[at + 6] == ord("/"))
    secure = (data[at + 5] | 0x20 == ord("s")) & (data[at + 6] == ord(":")) & (data[at + 7] == ord("/"))
    found = (word == _HTTP) & (plain | secure) | (word == _DATA) & (data[at + 5] == ord(":"))
    rooted = data[at + 1] == ord("/")
    if rooted.any():  # the data of a picture may begin with a slash
        rooted &= (data[at] != ord(",")) | (text.words(np.maximum(at - 4, 0)) != _SE64)
    mask: np.ndarray = found | rooted
    return mask


def _cut(found: Elements, text: _Bytes, cuts: _Cuts) -> Elements:
    """Return the elements without the cuts, each of which ends one."""
    places = [cuts.ends * 3 + _END, text.offsets * 3 + _ROW, cuts.begins * 3 + _BEGIN]
    keys = np.sort(np.concatenate(places), kind="stable")
    at, kind = keys // 3, keys % 3
    kept = (kind[:-1] != _BEGIN) & (np.diff(at) > 0)
    owner = found.owner[np.cumsum(kind == _ROW)[:-1][kept] - 1]
    pieces = over(pa.string(), at.astype(np.int32), text.data)
    return Elements(owner, pieces.filter(pa.array(kept)), found.rows)
