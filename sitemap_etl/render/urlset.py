"""`<url>` entries of whole columns, and sitemaps cut out of them without a copy.

Element order is the XSD's: loc, lastmod, changefreq, priority, then the extensions. A namespace is
declared only in the files that use it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from sitemap_etl import limits
from sitemap_etl.arrow import bytes_of, offsets_of, single
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
_EXTENSIONS: Final[dict[str, tuple[str, Callable[[pa.Array], pa.Array]]]] = {
    "images": ("image", elements.images),
    "videos": ("video", elements.videos),
    "news": ("news", elements.news),
    "alternates": ("xhtml", elements.alternates),
    "mobile": ("mobile", elements.mobile),
}
"""Column → its prefix and what renders it, in the order they stand in an entry."""
_PRIORITIES: Final = pa.array([f"<priority>{tenths // 10}.{tenths % 10}</priority>" for tenths in range(11)])
_FOOTER: Final = b"</urlset>\n"
_STRING_BYTES: Final = 2**31 - 1
"""What Arrow's 32-bit offsets reach."""
_LONGEST_REFERENCE: Final = len("&quot;")
_ENTRY_TAGS: Final = 500
"""Bytes of the tags around one row's plain values and news, at most."""
_ELEMENT_TAGS: Final = {"images": 60, "videos": 2_000, "alternates": 60}
"""Bytes of the tags around one element, at most: a video may have 17 elements and 32 tags."""


def _column(table: pa.Table, name: str) -> pa.Array | None:
    """The column as one array; None where it is missing or null throughout."""
    at = table.schema.get_field_index(name)
    if at < 0:
        return None
    column = table.column(at)
    return None if column.null_count == len(column) else single(column)


def entries(table: pa.Table, *, largest: int = _STRING_BYTES) -> pa.Array:
    """One complete `<url>…</url>` and a line feed a row, in one contiguous array.

    `table` has columns of `frames.PUBLISHED`; those it lacks are taken for null. Row i has exactly
    `offsets[i + 1] - offsets[i]` bytes in its file (`sizes`). The type is string; it is large_string where
    the entries might exceed `largest` bytes, which are then rendered in halves. Raises ValueError where a
    loc is null or a priority outside 0 to 10.
    """
    if table.num_rows < 2 or _most_bytes(table) <= largest:
        return _entries(table)
    middle = table.num_rows // 2
    halves = [entries(part, largest=largest) for part in (table.slice(0, middle), table.slice(middle))]
    return pa.concat_arrays([half.cast(pa.large_string()) for half in halves])


def _most_bytes(table: pa.Table) -> int:
    """More than the entries can take: every byte escaped to the longest reference, every element there."""
    total: int = table.nbytes * _LONGEST_REFERENCE + table.num_rows * _ENTRY_TAGS
    for name in ("images", "videos", "alternates"):
        column = _column(table, name)
        if column is not None:
            total += int(pc.sum(pc.list_value_length(column)).as_py() or 0) * _ELEMENT_TAGS[name]
    return total


def _entries(table: pa.Table) -> pa.Array:
    loc = _column(table, "loc")
    if table.num_rows == 0:
        return pa.array([], pa.string())
    if loc is None or loc.null_count:
        raise ValueError("a row without a loc can't be rendered")
    parts: list[pa.Array | str] = ["<url><loc>", escaped_urls(loc), "</loc>"]
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
        parts.append(_PRIORITIES.take(priority))
    for name, (_, render) in _EXTENSIONS.items():
        column = _column(table, name)
        if column is not None:
            parts.append(render(column))
    parts.append("</url>\n")
    return elements.joined(parts)


def sizes(rendered: pa.Array) -> pa.Array:
    """The bytes of each entry: int32, or int64 for a large_string array."""
    return pc.binary_length(rendered)


def namespaces(table: pa.Table) -> tuple[str, ...]:
    """The prefixes that these rows use, of image, video, news, xhtml and mobile, in this order."""
    found = []
    for name, (prefix, _) in _EXTENSIONS.items():
        column = _column(table, name)
        if column is not None and elements.is_used(column):
            found.append(prefix)
    return tuple(found)


def wrapper(prefixes: tuple[str, ...]) -> tuple[bytes, bytes]:
    """What stands before and after the entries of a file that uses these prefixes."""
    declared = "".join(f' xmlns:{prefix}="{_NAMESPACES[prefix]}"' for prefix in _NAMESPACES if prefix in prefixes)
    header = f'<?xml version="1.0" encoding="UTF-8"?>\n<urlset xmlns="{limits.NS_SITEMAP}"{declared}>\n'
    return header.encode(), _FOOTER


WRAPPER_BYTES: Final = sum(map(len, wrapper(tuple(_NAMESPACES)))) + FENCE_BYTES
"""Bytes of the longest header, the footer and a fence."""


def document(rendered: pa.Array, start: int, stop: int, prefixes: tuple[str, ...]) -> list[bytes | memoryview]:
    """A sitemap of the entries from `start` to before `stop`: header, their bytes as they lie in memory, footer.

    Raises ValueError where it would be no valid sitemap: no entry, more than 50,000, or more than
    52,428,800 bytes.
    """
    rows = stop - start
    if not 0 < rows <= limits.SITEMAP_ROWS:
        raise ValueError(f"a sitemap takes 1 to {limits.SITEMAP_ROWS:,} entries, not {rows:,}")
    header, footer = wrapper(prefixes)
    offsets = offsets_of(rendered)
    first = int(offsets[0])
    body = bytes_of(rendered).data[int(offsets[start]) - first : int(offsets[stop]) - first]
    total = len(header) + len(body) + len(footer)
    if total > limits.SITEMAP_BYTES:
        raise ValueError(f"a sitemap takes {limits.SITEMAP_BYTES:,} bytes, not {total:,}")
    return [header, body, footer]


def without_extensions(table: pa.Table, row_mask: pa.Array) -> pa.Table:
    """The table where the rows of the mask have lost their extensions: what is done with a row over the byte limit."""
    for at, entry in enumerate(table.schema):
        if entry.name in _EXTENSIONS:
            column = pc.if_else(row_mask, pa.scalar(None, entry.type), table.column(at))
            table = table.set_column(at, entry, column)
    return table
