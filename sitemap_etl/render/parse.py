"""The way back: the rows that a sitemap of ours was rendered from, as far as it shows them.

For the rare case in which only the published file is left. Titles for feeds, fingerprints and clusters are not in it.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
from lxml import etree

from sitemap_etl import limits
from sitemap_etl.elements import VIDEO
from sitemap_etl.frames import SNAPSHOT

_ENTRY: Final = f"{{{limits.NS_SITEMAP}}}url"
_XHTML: Final = f"{{{limits.NS_XHTML}}}link"
_IMAGE: Final = f"{{{limits.NS_IMAGE}}}image"
_VIDEO: Final = f"{{{limits.NS_VIDEO}}}"
_NEWS: Final = f"{{{limits.NS_NEWS}}}"
_MOBILE: Final = f"{{{limits.NS_MOBILE}}}mobile"


def rows_of(data: bytes) -> pa.Table:
    """Return the rows of an uncompressed sitemap (frames.SNAPSHOT), in its order; columns that it does not show are
    null.

    Raise ValueError if sitemap_etl did not write the sitemap.
    """
    try:
        root = etree.fromstring(data, etree.XMLParser(resolve_entities=False, no_network=True, huge_tree=True))
    except etree.XMLSyntaxError as error:
        raise ValueError("it is not well-formed XML") from error
    return pa.Table.from_pylist([_row(entry) for entry in root.iterchildren(_ENTRY)], schema=SNAPSHOT)


def _row(entry: Any) -> dict[str, Any]:
    row: dict[str, Any] = {name: _text(entry, limits.NS_SITEMAP, name) for name in ("loc", "lastmod", "changefreq")}
    priority = _text(entry, limits.NS_SITEMAP, "priority")
    row["priority"] = None if priority is None else int(Decimal(priority) * 10)
    row["images"] = [_text(image, limits.NS_IMAGE, "loc") for image in entry.iterchildren(_IMAGE)] or None
    row["videos"] = [_video(video) for video in entry.iterchildren(f"{_VIDEO}video")] or None
    row["alternates"] = [dict(link.attrib) for link in entry.iterchildren(_XHTML)] or None
    row["news"] = next((_news(news) for news in entry.iterchildren(f"{_NEWS}news")), None)
    row["mobile"] = True if entry.find(_MOBILE) is not None else None
    return row


def _text(parent: Any, namespace: str, name: str) -> str | None:
    found = parent.find(f"{{{namespace}}}{name}")
    return None if found is None else found.text or ""


def _video(video: Any) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for entry in VIDEO:
        found = video.find(f"{_VIDEO}{entry.name}")
        if found is None:
            continue
        if entry.name == "tag":
            row["tag"] = [tag.text or "" for tag in video.iterchildren(f"{_VIDEO}tag")]
        elif pa.types.is_struct(entry.type):
            row[entry.name] = {"relationship": found.get("relationship"), "value": found.text or ""}
        else:
            row[entry.name] = found.text or ""
            if entry.name == "uploader":
                row["uploader_info"] = found.get("info")
    return row


def _news(news: Any) -> dict[str, Any]:
    publication = news.find(f"{_NEWS}publication")
    return {
        "name": _text(publication, limits.NS_NEWS, "name"),
        "language": _text(publication, limits.NS_NEWS, "language"),
        "publication_date": _text(news, limits.NS_NEWS, "publication_date"),
        "title": _text(news, limits.NS_NEWS, "title"),
    }
