"""The extension elements of an entry: a nested column → one string a row, empty if there is nothing.

A list is rendered as one long column of its elements. The elements of a row are neighbors, so the row's text is the
same bytes with fewer offsets, without a copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sitemap_etl.arrow import data_of, lengths_of, offsets_of, over
from sitemap_etl.render.escape import escaped_texts, escaped_urls

_URL_FIELDS: Final = frozenset({"thumbnail_loc", "content_loc", "player_loc", "uploader_info"})


def joined(parts: Sequence[pa.Array | str]) -> pa.Array:
    """Join the parts of each row. A null is an empty text. At least one part is an array."""
    fewer: list[pa.Array | str] = []
    for part in parts:  # join neighboring constants first: the kernel's time grows with the number of parts
        if isinstance(part, str) and fewer and isinstance(fewer[-1], str):
            fewer[-1] += part
        else:
            fewer.append(part)
    return pc.binary_join_element_wise(*fewer, "", null_handling="replace", null_replacement="")


def wrapped(before: str, values: pa.Array, after: str) -> pa.Array:
    """Return each value between two texts. Null stays null."""
    return _whole([before, values, after])


def _whole(parts: Sequence[pa.Array | str]) -> pa.Array:
    """Join the parts of each row. If one of them is null, the result is null."""
    return pc.binary_join_element_wise(*parts, "", null_handling="emit_null")


def is_used(column: pa.Array) -> bool:
    """Return True if any row has a value to render: a list with an element, a struct, a true."""
    if pa.types.is_boolean(column.type):
        return bool(pc.any(column).as_py())
    if pa.types.is_struct(column.type):
        return bool(column.null_count < len(column))
    return bool(pc.sum(pc.list_value_length(column)).as_py())


def _rows_of(column: pa.Array, rendered: pa.Array) -> pa.Array:
    """Return the text of each row, given the rendered elements of a list column. The bytes are shared."""
    ends = np.zeros(len(column) + 1, np.int64)
    np.cumsum(lengths_of(column), out=ends[1:])
    return over(rendered.type, np.ascontiguousarray(offsets_of(rendered)[ends]), data_of(rendered))


def images(column: pa.Array) -> pa.Array:
    """Return `frames.IMAGES` as `image:image` elements."""
    urls = escaped_urls(column.flatten())
    return _rows_of(column, wrapped("<image:image><image:loc>", urls, "</image:loc></image:image>"))


def alternates(column: pa.Array) -> pa.Array:
    """Return `frames.ALTERNATES` as `xhtml:link` elements."""
    links = column.flatten()
    inside = [
        '<xhtml:link rel="alternate" hreflang="',
        _field(links, "hreflang"),
        '" href="',
        escaped_urls(_field(links, "href")),
        '"/>',
    ]
    return _rows_of(column, _whole(inside))


def mobile(column: pa.Array) -> pa.Array:
    """Render a bool: the empty `mobile:mobile` element if it is true."""
    return pc.if_else(column, "<mobile:mobile/>", "")


def news(column: pa.Array) -> pa.Array:
    """Return `frames.NEWS` as `news:news` elements, empty for nulls."""
    inside = [
        "<news:news><news:publication><news:name>",
        escaped_texts(_field(column, "name")),
        "</news:name><news:language>",
        _field(column, "language"),
        "</news:language></news:publication><news:publication_date>",
        _field(column, "publication_date"),
        "</news:publication_date><news:title>",
        escaped_texts(_field(column, "title")),
        "</news:title></news:news>",
    ]
    return _whole(inside)


def videos(column: pa.Array) -> pa.Array:
    """Return `frames.VIDEOS` as `video:video` elements, with children in the order of the XSD."""
    rows = column.flatten()
    inside: list[pa.Array | str] = [pc.if_else(pc.is_valid(rows), "<video:video>", pa.scalar(None, pa.string()))]
    for entry in rows.type:
        name = entry.name
        values = _field(rows, name)
        if name == "uploader_info" or values.null_count == len(values):
            continue  # the former is an attribute of uploader
        if name == "tag":
            inside.append(_rows_of(values, wrapped("<video:tag>", escaped_texts(values.flatten()), "</video:tag>")))
        elif name == "uploader":
            information = wrapped(' info="', escaped_urls(_field(rows, "uploader_info")), '"')
            opening = joined(["<video:uploader", information, ">"])
            inside.append(_whole([opening, escaped_texts(values), "</video:uploader>"]))
        elif pa.types.is_struct(entry.type):
            opening = wrapped(f'<video:{name} relationship="', _field(values, "relationship"), '">')
            inside.append(_whole([opening, escaped_texts(_field(values, "value")), f"</video:{name}>"]))
        else:
            escape = escaped_urls if name in _URL_FIELDS else escaped_texts
            inside.append(wrapped(f"<video:{name}>", escape(values), f"</video:{name}>"))
    inside.append(pc.if_else(pc.is_valid(rows), "</video:video>", pa.scalar(None, pa.string())))
    return _rows_of(column, joined(inside))


def _field(values: pa.Array, name: str) -> pa.Array:
    """Return a field of a struct array, null if the struct is null."""
    return pc.struct_field(values, name)
