"""The XML of an entry: each function renders a column as one string for each row. Also the types of nested columns.

A list column is rendered as one long column of its elements. The elements of a row are neighbors, so the row's text is
the same bytes with fewer offsets, without a copy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sitemap_etl.arrow import data_of, is_list, lengths_of, offsets_of, over
from sitemap_etl.escape import escaped_texts, escaped_urls
from sitemap_etl.frozen import Frozen

IMAGES: Final = pa.list_(pa.string())
"""Absolute canonical URLs."""

RELATION: Final = pa.struct([("relationship", pa.string()), ("value", pa.string())])
"""`relationship` is allow or deny; `value` the codes, space-separated."""

VIDEO: Final = pa.struct(
    [
        ("thumbnail_loc", pa.string()),
        ("title", pa.string()),
        ("description", pa.string()),
        ("content_loc", pa.string()),
        ("player_loc", pa.string()),
        ("duration", pa.string()),
        ("expiration_date", pa.string()),
        ("rating", pa.string()),
        ("view_count", pa.string()),
        ("publication_date", pa.string()),
        ("tag", pa.list_(pa.string())),
        ("family_friendly", pa.string()),
        ("restriction", RELATION),
        ("requires_subscription", pa.string()),
        ("uploader", pa.string()),
        ("uploader_info", pa.string()),
        ("platform", RELATION),
        ("live", pa.string()),
    ]
)
"""Google's video elements in the order of the XSD, each in the text form that is published."""

VIDEOS: Final = pa.list_(VIDEO)
NEWS: Final = pa.struct(
    [("name", pa.string()), ("language", pa.string()), ("publication_date", pa.string()), ("title", pa.string())]
)
ALTERNATES: Final = pa.list_(pa.struct([("hreflang", pa.string()), ("href", pa.string())]))

_URL_FIELDS: Final = frozenset({"thumbnail_loc", "content_loc", "player_loc", "uploader_info"})
_PRIORITIES: Final = pa.array([f"<priority>{tenths // 10}.{tenths % 10}</priority>" for tenths in range(11)])


class Element(Frozen):
    """XML of a column in an entry. `render`: returns the text of each value.

    `around`: name of an element around each text. `tags`: the most bytes of tags around one element (a video can have
    17 elements and 32 tags). `prefix`, `namespace`: of an extension.
    """

    render: Callable[[pa.Array], pa.Array]
    around: str = ""
    tags: int = 0
    prefix: str = ""
    namespace: str = ""


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
    """Return True if any row has a value to render. Nulls, empty lists and False render nothing."""
    if pa.types.is_boolean(column.type):
        return bool(pc.any(column).as_py())
    if is_list(column.type):
        return bool(pc.sum(pc.list_value_length(column)).as_py())
    return bool(column.null_count < len(column))


def _rows_of(column: pa.Array, rendered: pa.Array) -> pa.Array:
    """Return the text of each row, given the rendered elements of a list column. The bytes are shared."""
    ends = np.zeros(len(column) + 1, np.int64)
    np.cumsum(lengths_of(column), out=ends[1:])
    return over(rendered.type, np.ascontiguousarray(offsets_of(rendered)[ends]), data_of(rendered))


def as_is(column: pa.Array) -> pa.Array:
    """Return values that need no escaping."""
    return column


def priorities(column: pa.Array) -> pa.Array:
    """Render tenths as a dictionary. Raise ValueError if one is outside 0 to 10."""
    bounds = pc.min_max(column).as_py()
    if bounds["min"] < 0 or bounds["max"] > 10:
        raise ValueError(f"priorities are tenths from 0 to 10, not {bounds['min']} to {bounds['max']}")
    return pa.DictionaryArray.from_arrays(column, _PRIORITIES)


def images(column: pa.Array) -> pa.Array:
    """Return `IMAGES` as `image:image` elements."""
    urls = escaped_urls(column.flatten())
    return _rows_of(column, wrapped("<image:image><image:loc>", urls, "</image:loc></image:image>"))


def alternates(column: pa.Array) -> pa.Array:
    """Return `ALTERNATES` as `xhtml:link` elements."""
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
    """Return `NEWS` as `news:news` elements, empty for nulls."""
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
    """Return `VIDEOS` as `video:video` elements, with children in the order of the XSD."""
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
