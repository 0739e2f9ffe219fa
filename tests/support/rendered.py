"""Rows to render, and two independent readers of the output."""

from __future__ import annotations

import os
import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path

import lxml.etree
import pyarrow as pa
import pytest

from sitemap_etl import frames, limits
from sitemap_etl.render import urlset

PREFIXES = {
    "s": limits.NS_SITEMAP,
    "image": limits.NS_IMAGE,
    "video": limits.NS_VIDEO,
    "news": limits.NS_NEWS,
    "xhtml": limits.NS_XHTML,
    "mobile": limits.NS_MOBILE,
}
VIDEO = {
    "thumbnail_loc": "https://img.shop.example/t.jpg?a=1&b=2",
    "title": "Grilling & <smoking>",
    "description": "How to 'grill' \"everything\"",
    "content_loc": "https://video.shop.example/v.mp4",
    "player_loc": "https://video.shop.example/player?v=1&x='2'",
    "duration": "600",
    "expiration_date": "2030-01-01",
    "rating": "4.2",
    "view_count": "12345",
    "publication_date": "2026-01-02T03:04:05Z",
    "tag": ["steak", "fire & smoke"],
    "family_friendly": "yes",
    "restriction": {"relationship": "allow", "value": "DE GB"},
    "requires_subscription": "no",
    "uploader": "Grilly <McGrillface>",
    "uploader_info": "https://shop.example/users/grilly?a&b",
    "platform": {"relationship": "deny", "value": "tv mobile"},
    "live": "no",
}
"""Every element that Google reads."""


def rows(*given: dict) -> pa.Table:
    """Return rows of `frames.PUBLISHED`; missing values are null."""
    return pa.Table.from_pylist(
        [{"loc": f"https://shop.example/{n}", **row} for n, row in enumerate(given)], frames.PUBLISHED
    )


def everything() -> pa.Table:
    """Return one row of each kind, and one with all extensions at once."""
    news = {"name": "The <Times>", "language": "en", "publication_date": "2026-01-02T03:04:05Z", "title": "A & B"}
    links = [
        {"hreflang": "de", "href": "https://shop.example/de?a&b"},
        {"hreflang": "x-default", "href": "https://shop.example/0"},
    ]
    full = {
        "lastmod": "2026-01-02T03:04:05Z",
        "changefreq": "daily",
        "priority": 10,
        "images": ["https://img.shop.example/1.jpg?a&b='c'", "https://img.shop.example/2.jpg"],
        "videos": [VIDEO, {name: VIDEO[name] for name in ("thumbnail_loc", "title", "description", "player_loc")}],
        "news": news,
        "alternates": links,
        "mobile": True,
    }
    single = [{name: value} for name, value in full.items()]
    return rows(
        {}, *single, full, {"lastmod": "2026-01-02", "priority": 0, "images": [], "videos": [], "mobile": False}
    )


def document(table: pa.Table) -> bytes:
    """Return one sitemap of all rows."""
    return b"".join(urlset.document(urlset.entries(table), urlset.namespaces(table)))


def by_lxml(data: bytes) -> lxml.etree._Element:
    """Read by libxml2, strictly."""
    return lxml.etree.fromstring(data, lxml.etree.XMLParser(resolve_entities=False, huge_tree=True))


def by_expat(data: bytes) -> ET.Element:
    """Read by expat."""
    return ET.fromstring(data)


def values(tree: lxml.etree._Element | ET.Element, path: str) -> list[str]:
    """Return the texts at a path of prefixed names."""
    return [element.text or "" for element in tree.findall(path, PREFIXES)]


def schema_folder() -> Path:
    """Return the folder of the XSDs. Skips if the machine has none."""
    folder = os.environ.get("SITEMAP_ETL_XSD")
    if not folder:
        pytest.skip("SITEMAP_ETL_XSD names no folder of XSDs")
    return Path(folder)


def faults_by_lxml(data: bytes, schema: str) -> list[str]:
    """Return the errors of lxml for an XSD of the folder."""
    checked = lxml.etree.XMLSchema(lxml.etree.parse(schema_folder() / schema))
    checked.validate(by_lxml(data))
    return [str(entry) for entry in checked.error_log]


def fault_by_xmllint(data: bytes, schema: str, folder: Path) -> str:
    """Return the error of the xmllint command, or an empty text if there is none."""
    file = folder / "document.xml"
    file.write_bytes(data)
    call = ["xmllint", "--nonet", "--noout", "--huge", "--schema", str(schema_folder() / schema), str(file)]
    done = subprocess.run(call, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stderr
