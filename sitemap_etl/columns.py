"""Columns of a row, each stated once: name, type, role, XML and weight. `frames` derives its schemas from them."""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

import pyarrow as pa

from sitemap_etl import elements, limits
from sitemap_etl.elements import Element
from sitemap_etl.escape import escaped_urls
from sitemap_etl.frozen import Frozen


class Role(Enum):
    """Purpose of a column. It decides which tables have the column, and the effect of a different value."""

    LOC = auto()
    """The page."""
    DATE = auto()
    """Shown in the sitemap. Another value rewrites the file, and is a change of the page. Render sets it."""
    STICKY = auto()
    """Shown in the sitemap. Another value alone rewrites no file."""
    CONTENT = auto()
    """Shown in the sitemap. Another value rewrites the file. It is a change of the page in sections without dates."""
    STORED = auto()
    """Kept in the snapshot, not shown in the sitemap. Another value rewrites the snapshot alone."""
    HISTORY = auto()
    """Kept in the snapshot. The comparison with the last release sets it."""
    PASSING = auto()
    """Used from transform to render."""
    ORIGIN = auto()
    """Identifies the source row. It is not part of the page."""


class Column(Frozen):
    """A column of a row. `element`: its XML, if the sitemap shows it.

    `weight`: estimated bytes of memory for each element of a list, or for each byte of a text.
    """

    name: str
    type: pa.DataType
    role: Role
    element: Element | None = None
    weight: int = 0


_IMAGE: Final = Element(elements.images, tags=60, prefix="image", namespace=limits.NS_IMAGE)
_VIDEO: Final = Element(elements.videos, tags=2_000, prefix="video", namespace=limits.NS_VIDEO)
_NEWS: Final = Element(elements.news, tags=300, prefix="news", namespace=limits.NS_NEWS)
_LINK: Final = Element(elements.alternates, tags=60, prefix="xhtml", namespace=limits.NS_XHTML)
_MOBILE: Final = Element(elements.mobile, tags=20, prefix="mobile", namespace=limits.NS_MOBILE)

COLUMNS: Final = (
    Column("loc", pa.string(), Role.LOC, Element(escaped_urls, around="loc"), weight=1),  # canonical ASCII, not null
    Column("lastmod", pa.string(), Role.DATE, Element(elements.as_is, "lastmod")),  # YYYY-MM-DD[Thh:mm:ssZ]
    Column("changefreq", pa.string(), Role.STICKY, Element(elements.as_is, "changefreq")),
    Column("priority", pa.int8(), Role.STICKY, Element(elements.priorities)),  # tenths, 0 to 10
    Column("images", elements.IMAGES, Role.CONTENT, _IMAGE, weight=120),
    Column("videos", elements.VIDEOS, Role.CONTENT, _VIDEO, weight=1_500),
    Column("news", elements.NEWS, Role.CONTENT, _NEWS),
    Column("alternates", elements.ALTERNATES, Role.CONTENT, _LINK, weight=160),
    Column("mobile", pa.bool_(), Role.CONTENT, _MOBILE),
    Column("title", pa.string(), Role.STORED, weight=1),  # read by feeds only
    Column("moment", pa.int64(), Role.PASSING),  # the lastmod as a number (`lastmod.moments`)
    Column("fingerprint", pa.uint64(), Role.STORED),  # of the rule's columns
    Column("signal", pa.uint16(), Role.PASSING),  # bin of the `percentile_of` column
    Column("cluster", pa.string(), Role.STORED),  # the hreflang group
    Column("hreflang", pa.list_(pa.string()), Role.STORED),  # this row's languages in its cluster
    Column("since", pa.int64(), Role.HISTORY),  # epoch seconds of the run that added or last changed it; null: first
    Column("row", pa.int64(), Role.ORIGIN),  # split << 40 | position in the split (of CSV: its line)
    Column("key", pa.string(), Role.ORIGIN),  # identifies the row, in a section that keeps a mirror
)
"""All columns, in the order of an entry's elements. Snapshots are named by a hash of their bytes, so the order of
existing columns never changes.
"""


def _names(role: Role) -> tuple[str, ...]:
    return tuple(column.name for column in COLUMNS if column.role is role)


ELEMENTS: Final = {column.name: column.element for column in COLUMNS if column.element is not None}
STICKY: Final = _names(Role.STICKY)
CONTENT: Final = _names(Role.CONTENT)
STORED: Final = _names(Role.STORED)
ORIGIN: Final = _names(Role.ORIGIN)
