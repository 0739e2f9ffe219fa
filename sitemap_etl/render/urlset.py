"""Render whole columns as `<url>` entries, and cut sitemaps from them.

The order of elements is the XSD's: loc, lastmod, changefreq, priority, then the extensions. A file declares only the
namespaces that it uses.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sitemap_etl import kernels, limits
from sitemap_etl.arrow import bytes_of, data_of, is_list, numbers_of, offsets_of, plain, single
from sitemap_etl.frozen import Frozen
from sitemap_etl.render import elements
from sitemap_etl.render.escape import escaped_urls
from sitemap_etl.render.fence import FENCE_BYTES

_NAMESPACES: Final = {
    "image": limits.NS_IMAGE,
    "video": limits.NS_VIDEO,
    "news": limits.NS_NEWS,
    "xhtml": limits.NS_XHTML,
    "mobile": limits.NS_MOBILE,
}
_EXTENSIONS: Final[dict[str, tuple[str, Callable[[pa.Array], pa.Array], int]]] = {
    "images": ("image", elements.images, 60),
    "videos": ("video", elements.videos, 2_000),
    "news": ("news", elements.news, 300),
    "alternates": ("xhtml", elements.alternates, 60),
    "mobile": ("mobile", elements.mobile, 20),
}
"""Column → its prefix, what renders it, and the bytes of the tags around one element, at most (a video may have 17
elements and 32 tags); in the order they stand in an entry.
"""
_PRIORITIES: Final = pa.array([f"<priority>{tenths // 10}.{tenths % 10}</priority>" for tenths in range(11)])
_FOOTER: Final = b"</urlset>\n"
_STRING_BYTES: Final = 2**31 - 1
"""Maximum bytes of a column with Arrow's 32-bit offsets."""
_CHUNK_ROWS: Final = 8_192
"""Rows whose entries are rendered at a time. The output of gzip depends on its cuts, so this never changes."""
_LONGEST_REFERENCE: Final = len("&quot;")


def _column(table: pa.Table, name: str) -> pa.Array | None:
    """Return the column as one array, or None if it is missing or has only nulls."""
    at = table.schema.get_field_index(name)
    if at < 0:
        return None
    column = table.column(at)
    return None if column.null_count == len(column) else single(column)


Part: TypeAlias = str | pa.Array | pa.ChunkedArray
"""Text for all rows, or a column of texts: strings or a dictionary of strings. A null is an empty text."""


class Entries(Frozen):
    """Entries of rows, each one a complete `<url>…</url>` with a line feed, in parts.

    The parts of a file are joined while it is written, in memory that is reused for the next file. `sizes` are the
    bytes of each entry in its file, int64.
    """

    parts: tuple[Part, ...]
    sizes: np.ndarray

    def __len__(self) -> int:
        return len(self.sizes)

    def slice(self, start: int, stop: int) -> Entries:
        """Return the entries of the rows from `start` to before `stop`."""
        parts = (part if isinstance(part, str) else part.slice(start, stop - start) for part in self.parts)
        return Entries(tuple(parts), self.sizes[start:stop])

    def chunks(self) -> Iterator[memoryview]:
        """Yield the bytes of all entries, a few rows at a time, so that they are hashed and compressed in cache."""
        if kernels.compiled is not None:
            parts = [part.encode() if isinstance(part, str) else _memory_of(part) for part in self.parts]
            yield from kernels.compiled.joined(parts, self.sizes, _CHUNK_ROWS)
            return
        for start in range(0, len(self), _CHUNK_ROWS):
            yield bytes_of(self.slice(start, min(start + _CHUNK_ROWS, len(self))).joined()).data

    def joined(self) -> pa.Array:
        """Return one text for each row, in one contiguous array: string."""
        if not len(self):
            return pa.array([], pa.string())
        return elements.joined([part if isinstance(part, str) else plain(part) for part in self.parts])


def _memory_of(part: pa.Array | pa.ChunkedArray) -> kernels.Part:
    """Return the memory of a part's texts. A null is an empty text."""
    array = single(part)
    if not pa.types.is_dictionary(array.type):
        filled = pc.fill_null(array, "") if array.null_count else array
        return (offsets_of(filled), data_of(filled)), None
    words = pa.concat_arrays([array.dictionary, pa.array([""])])
    numbers = numbers_of(array.indices.cast(pa.int32()), len(array.dictionary))
    return (offsets_of(words), data_of(words)), numbers


def _folded(parts: Iterable[Part]) -> list[Part]:
    """Merge constant texts into the words of a neighboring dictionary, so that fewer parts are joined."""
    found: list[Part] = []
    for part in parts:
        last = found[-1] if found else None
        if isinstance(part, str):
            if isinstance(last, str):
                found[-1] = last + part
                continue
            if last is not None and _is_word(last):
                found[-1] = _with(last, "", part)
                continue
        elif isinstance(last, str) and _is_word(part):
            found[-1] = _with(part, last, "")
            continue
        found.append(part)
    return found


def _is_word(part: Part) -> bool:
    """Return True if every row has a word of a dictionary."""
    return isinstance(part, pa.DictionaryArray) and not part.null_count


def _with(words: pa.DictionaryArray, before: str, after: str) -> pa.DictionaryArray:
    """Return the dictionary with a text before and after each word."""
    return pa.DictionaryArray.from_arrays(words.indices, elements.wrapped(before, words.dictionary, after))


def entries(table: pa.Table, *, largest: int = _STRING_BYTES) -> Entries:
    """Return the entries of a table's rows.

    `table` has columns of `frames.PUBLISHED`; missing ones count as null. A column that can make more than `largest`
    bytes is rendered in halves. Raise ValueError if a loc is null or a priority outside 0 to 10.
    """
    if table.num_rows == 0:
        return Entries((), np.empty(0, np.int64))
    loc = _column(table, "loc")
    if loc is None or loc.null_count:
        raise ValueError("a row without a loc can't be rendered")
    parts: list[Part] = ["<url><loc>", _in_halves(escaped_urls, loc, 0, largest), "</loc>"]
    for name in ("lastmod", "changefreq"):
        column = _column(table, name)
        if column is None:
            continue
        if column.null_count == 0:
            parts += [f"<{name}>", column, f"</{name}>"]
        else:
            parts.append(elements.wrapped(f"<{name}>", column, f"</{name}>"))
    priority = _column(table, "priority")
    if priority is not None:
        bounds = pc.min_max(priority).as_py()
        if bounds["min"] < 0 or bounds["max"] > 10:
            raise ValueError(f"priorities are tenths from 0 to 10, not {bounds['min']} to {bounds['max']}")
        parts.append(pa.DictionaryArray.from_arrays(priority, _PRIORITIES))
    for name, (_, render, tags) in _EXTENSIONS.items():
        column = _column(table, name)
        if column is not None:
            parts.append(_in_halves(render, column, tags, largest))
    parts.append("</url>\n")
    parts = _folded(parts)
    sizes = np.zeros(table.num_rows, np.int64)
    for part in parts:
        sizes += len(part) if isinstance(part, str) else _lengths(part)
    return Entries(tuple(parts), sizes)


def _in_halves(
    render: Callable[[pa.Array], pa.Array], column: pa.Array, tags: int, largest: int
) -> pa.Array | pa.ChunkedArray:
    """Return the rendered column, in several chunks if it can have more than `largest` bytes."""
    if len(column) < 2 or _most_bytes(column, tags) <= largest:
        return render(column)
    middle = len(column) // 2
    halves = [_in_halves(render, half, tags, largest) for half in (column.slice(0, middle), column.slice(middle))]
    chunks = [half.chunks if isinstance(half, pa.ChunkedArray) else [half] for half in halves]
    return pa.chunked_array([*chunks[0], *chunks[1]])


def _most_bytes(column: pa.Array, tags: int) -> int:
    """Return an upper bound of a column's bytes: every byte escaped to the longest reference, every element present."""
    count = len(column)
    if is_list(column.type):
        count += int(pc.sum(pc.list_value_length(column)).as_py() or 0)
    return int(column.nbytes) * _LONGEST_REFERENCE + count * tags


def _lengths(part: pa.Array | pa.ChunkedArray) -> np.ndarray:
    """Return the bytes that each row has of a part."""
    if pa.types.is_dictionary(part.type):
        sizes = pc.binary_length(part.dictionary).take(part.indices)
    else:
        sizes = pc.binary_length(part)
    return numbers_of(sizes)


def namespaces(table: pa.Table) -> tuple[str, ...]:
    """Return the prefixes that these rows use, of image, video, news, xhtml and mobile, in this order."""
    found = []
    for name, (prefix, _, _) in _EXTENSIONS.items():
        column = _column(table, name)
        if column is not None and elements.is_used(column):
            found.append(prefix)
    return tuple(found)


def wrapper(prefixes: tuple[str, ...]) -> tuple[bytes, bytes]:
    """Return the bytes before and after the entries of a file with these prefixes."""
    declared = "".join(f' xmlns:{prefix}="{_NAMESPACES[prefix]}"' for prefix in _NAMESPACES if prefix in prefixes)
    header = f'<?xml version="1.0" encoding="UTF-8"?>\n<urlset xmlns="{limits.NS_SITEMAP}"{declared}>\n'
    return header.encode(), _FOOTER


WRAPPER_BYTES: Final = sum(map(len, wrapper(tuple(_NAMESPACES)))) + FENCE_BYTES
"""Bytes of the longest header, the footer and a fence."""


def document(rendered: Entries, prefixes: tuple[str, ...]) -> Iterator[bytes | memoryview]:
    """Yield a sitemap in parts: header, bytes of the entries, footer.

    Raise ValueError if the sitemap would be invalid: no entry or more than 50,000, or more than 52,428,800 bytes.
    """
    if not 0 < len(rendered) <= limits.SITEMAP_ROWS:
        raise ValueError(f"a sitemap takes 1 to {limits.SITEMAP_ROWS:,} entries, not {len(rendered):,}")
    header, footer = wrapper(prefixes)
    total = len(header) + int(rendered.sizes.sum()) + len(footer)
    if total > limits.SITEMAP_BYTES:
        raise ValueError(f"a sitemap takes {limits.SITEMAP_BYTES:,} bytes, not {total:,}")
    return itertools.chain([header], rendered.chunks(), [footer])


def without_extensions(table: pa.Table, row_mask: pa.Array) -> pa.Table:
    """Return the table without the extensions of the rows in the mask. They exceed the byte limit."""
    for at, entry in enumerate(table.schema):
        if entry.name in _EXTENSIONS:
            column = pc.if_else(row_mask, pa.scalar(None, entry.type), table.column(at))
            table = table.set_column(at, entry, column)
    return table
