"""Render the latest changes as RSS 2.0, with Media RSS for videos, or as Atom 1.0 (RFC 4287).

Nothing in a feed comes from the clock, so the same rows have the same bytes. The date of a feed is the date of its
newest item. The identity of an item is its loc. Rows without a lastmod are dropped, because items are ordered by
lastmod, and Atom requires a date for every entry.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from sitemap_etl import limits
from sitemap_etl.escape import escaped
from sitemap_etl.frozen import Frozen

_COLUMNS: Final = ("loc", "lastmod", "title", "videos")
_NO_DATE: Final = "1970-01-01T00:00:00Z"
"""Atom requires a date even for a feed without entries. This one is a placeholder."""
_NS_ATOM: Final = "http://www.w3.org/2005/Atom"
_NS_MEDIA: Final = "http://search.yahoo.com/mrss/"
_NS_TERMS: Final = "http://purl.org/dc/terms/"
_DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


class Feed(Frozen):
    """Settings of a feed.

    address: its own address, for rel=self.
    site: the page that the feed belongs to.
    hubs: WebSub hubs, for rel=hub.
    items: maximum number of items, newest first.
    """

    title: str
    address: str
    site: str
    items: int
    description: str | None = None
    hubs: tuple[str, ...] = ()


def newest(table: pa.Table, items: int) -> pa.Table:
    """Return the rows with the latest lastmod first, then by loc. Rows without a lastmod are dropped."""
    table = table.select([name for name in _COLUMNS if name in table.column_names])
    if "lastmod" not in table.column_names or table.column("lastmod").null_count == table.num_rows:
        return table.slice(0, 0)
    dated = table.filter(pc.is_valid(table.column("lastmod")))
    if dated.num_rows > items > 0:  # filter first, so that a large section isn't sorted for a few rows
        last = pc.sort_indices(dated.column("lastmod"), sort_keys=[("", "descending")])[items - 1]
        least = dated.column("lastmod")[last.as_py()]
        dated = dated.filter(pc.greater_equal(dated.column("lastmod"), least))
    return dated.sort_by([("lastmod", "descending"), ("loc", "ascending")]).slice(0, items)


def rss(feed: Feed, table: pa.Table) -> bytes:
    """Return RSS 2.0 for rows of `frames.SNAPSHOT` (loc, lastmod; title and videos if present).

    Raise ValueError if it exceeds 52,428,800 bytes.
    """
    rows = newest(table, feed.items).to_pylist()
    has_videos = any(row.get("videos") for row in rows)
    namespaces = f' xmlns:media="{_NS_MEDIA}" xmlns:dcterms="{_NS_TERMS}"' if has_videos else ""
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f'<rss version="2.0" xmlns:atom="{_NS_ATOM}"{namespaces}>',
        "<channel>",
        f"<title>{escaped(feed.title)}</title>",
        f"<link>{escaped(feed.site)}</link>",
        f"<description>{escaped(feed.description or feed.title)}</description>",
        f'<atom:link rel="self" type="application/rss+xml" href="{escaped(feed.address)}"/>',
        *(f'<atom:link rel="hub" href="{escaped(hub)}"/>' for hub in feed.hubs),
    ]
    if rows:
        lines.append(f"<lastBuildDate>{_rfc_822(rows[0]['lastmod'])}</lastBuildDate>")
    for row in rows:
        loc = escaped(row["loc"])
        lines += ["<item>", f"<title>{_title(row)}</title>", f"<link>{loc}</link>"]
        lines += [f'<guid isPermaLink="true">{loc}</guid>', f"<pubDate>{_rfc_822(row['lastmod'])}</pubDate>"]
        for video in row.get("videos") or ():
            lines += _media(video)
        lines.append("</item>")
    lines += ["</channel>", "</rss>", ""]
    return _checked(lines)


def atom(feed: Feed, table: pa.Table) -> bytes:
    """Return Atom 1.0 for rows of `frames.SNAPSHOT` (loc, lastmod; title if present).

    Raise ValueError if it exceeds 52,428,800 bytes.
    """
    rows = newest(table, feed.items).to_pylist()
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f'<feed xmlns="{_NS_ATOM}">',
        f"<id>{escaped(feed.address)}</id>",
        f'<title type="text">{escaped(feed.title)}</title>',
        *([f'<subtitle type="text">{escaped(feed.description)}</subtitle>'] if feed.description else []),
        f"<updated>{_instant(rows[0]['lastmod']) if rows else _NO_DATE}</updated>",
        f"<author><name>{escaped(feed.title)}</name></author>",
        f'<link rel="alternate" href="{escaped(feed.site)}"/>',
        f'<link rel="self" type="application/atom+xml" href="{escaped(feed.address)}"/>',
        *(f'<link rel="hub" href="{escaped(hub)}"/>' for hub in feed.hubs),
    ]
    for row in rows:
        loc = escaped(row["loc"])
        lines += ["<entry>", f"<id>{loc}</id>", f'<title type="text">{_title(row)}</title>']
        lines += [f"<updated>{_instant(row['lastmod'])}</updated>", f'<link rel="alternate" href="{loc}"/>', "</entry>"]
    lines += ["</feed>", ""]
    return _checked(lines)


def _title(row: dict[str, Any]) -> str:
    """Return the row's title, or its loc if it has none."""
    return escaped((row.get("title") or "").strip()).strip() or escaped(row["loc"])


def _instant(lastmod: str) -> str:
    """Return a lastmod as RFC 3339 date and time. A date becomes midnight in UTC."""
    return lastmod if "T" in lastmod else f"{lastmod}T00:00:00Z"


def _rfc_822(lastmod: str) -> str:
    """Return a lastmod as RFC 822 date with a four-digit year, in English in any locale."""
    moment = datetime.fromisoformat(_instant(lastmod)).astimezone(UTC)
    day, month = _DAYS[moment.weekday()], _MONTHS[moment.month - 1]
    return f"{day}, {moment.day:02} {month} {moment.year:04} {moment:%H:%M:%S} +0000"


def _media(video: dict[str, Any]) -> Iterator[str]:
    """Yield the elements of a video as Media RSS (https://www.rssboard.org/media-rss), as far as Google reads it."""
    url = f' url="{escaped(video["content_loc"])}"' if video.get("content_loc") else ""
    duration = f' duration="{escaped(video["duration"])}"' if video.get("duration") else ""
    yield f'<media:content{url} medium="video"{duration}>'
    if video.get("player_loc"):
        yield f'<media:player url="{escaped(video["player_loc"])}"/>'
    yield f'<media:title type="plain">{escaped(video["title"])}</media:title>'
    yield f'<media:description type="plain">{escaped(video["description"])}</media:description>'
    yield f'<media:thumbnail url="{escaped(video["thumbnail_loc"])}"/>'
    if video.get("tag"):
        yield f"<media:keywords>{escaped(', '.join(video['tag']))}</media:keywords>"
    if video.get("family_friendly"):
        suits = "nonadult" if video["family_friendly"] == "yes" else "adult"
        yield f'<media:rating scheme="urn:simple">{suits}</media:rating>'
    if video.get("restriction"):
        relationship, codes = (escaped(video["restriction"][name]) for name in ("relationship", "value"))
        yield f'<media:restriction type="country" relationship="{relationship}">{codes}</media:restriction>'
    if video.get("expiration_date"):
        yield f"<dcterms:valid>end={escaped(video['expiration_date'])}; scheme=W3C-DTF</dcterms:valid>"
    yield "</media:content>"


def _checked(lines: list[str]) -> bytes:
    data = "\n".join(lines).encode()
    if len(data) > limits.SITEMAP_BYTES:
        raise ValueError(
            f"the feed has {len(data):,} bytes, but at most {limits.SITEMAP_BYTES:,} are allowed; list fewer items"
        )
    return data
