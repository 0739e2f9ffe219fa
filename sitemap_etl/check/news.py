"""What can be wrong with news elements (Google: news sitemaps; order and language: the XSD)."""

from __future__ import annotations

from datetime import datetime
from typing import Final

import numpy as np
import pyarrow.compute as pc

from sitemap_etl.check.dates import in_future
from sitemap_etl.check.report import Faults
from sitemap_etl.check.scan import Scan
from sitemap_etl.check.urlset import Entries, check_order, check_strangers, column
from sitemap_etl.dates import COARSE, DATE, W3C, read
from sitemap_etl.limits import NEWS_HOURS, NEWS_ROWS, NS_NEWS

_ORDER: Final = ("publication", "access", "genres", "publication_date", "title", "keywords", "stock_tickers")
_REQUIRED: Final = ("publication", "publication_date", "title")
_OBSOLETE: Final = ("access", "genres", "keywords", "stock_tickers")
_LANGUAGE: Final = r"^(?:zh-cn|zh-tw|[a-z]{2,3})$"


def check_news(scan: Scan, found: Entries, faults: Faults, now: datetime) -> int:
    """Report faults of the news of all entries; how many there are."""
    ids = scan.ids(NS_NEWS)
    if not len(ids):
        return 0
    elements, page = scan.children(found.elements, ids)
    is_news = np.isin(scan.name[elements], scan.ids(NS_NEWS, "news"))
    check_strangers(scan, elements[~is_news], faults)
    news, page = elements[is_news], page[is_news]
    if not len(news):
        return 0
    if len(news) > NEWS_ROWS:
        faults.add("news-too-many", at=int(scan.start[news[NEWS_ROWS]]), detail=f"{len(news):,} articles")
    again = np.append([False], page[1:] == page[:-1])
    faults.rows("element-repeated", again, None, scan.start[news], detail="news:news")
    _parts(scan, news, faults, now)
    return len(news)


def _parts(scan: Scan, news: np.ndarray, faults: Faults, now: datetime) -> None:
    parts, owner = scan.children(news)
    rank = np.full(len(scan.names), -1, np.int64)
    for place, local in enumerate(_ORDER):
        rank[scan.ids(NS_NEWS, local)] = place
    ranks = rank[scan.name[parts]]
    check_strangers(scan, parts[ranks < 0], faults)
    parts, owner, ranks = parts[ranks >= 0], owner[ranks >= 0], ranks[ranks >= 0]
    check_order(scan, parts, owner, ranks, faults)
    for place, local in enumerate(_ORDER):
        chosen = parts[ranks == place]
        if local in _OBSOLETE and len(chosen):
            faults.add("news-obsolete", at=int(scan.start[chosen[0]]), count=len(chosen), detail=local)
        if local in _REQUIRED:
            lacking = np.ones(len(news), bool)
            lacking[owner[ranks == place]] = False
            faults.rows("news-incomplete", lacking, None, scan.start[news], detail=f"no {local}")
    titles, at = column(scan, news, parts, owner, ranks == _ORDER.index("title"))
    faults.rows("news-incomplete", pc.equal(pc.utf8_trim_whitespace(titles), ""), None, at, detail="an empty title")
    _publication(scan, parts[ranks == 0], faults)
    _dates(scan, parts[ranks == _ORDER.index("publication_date")], faults, now)


def _publication(scan: Scan, publications: np.ndarray, faults: Faults) -> None:
    below, owner = scan.children(publications)
    ranks = np.select(
        [np.isin(scan.name[below], scan.ids(NS_NEWS, local)) for local in ("name", "language")], [0, 1], default=-1
    )
    check_strangers(scan, below[ranks < 0], faults)
    below, owner, ranks = below[ranks >= 0], owner[ranks >= 0], ranks[ranks >= 0]
    check_order(scan, below, owner, ranks, faults)
    for place, local in enumerate(("name", "language")):
        texts, at = column(scan, publications, below, owner, ranks == place)
        blank = pc.equal(pc.utf8_trim_whitespace(pc.fill_null(texts, "")), "")
        faults.rows("news-incomplete", blank, None, at, detail=f"no {local} of the publication")
        if local == "language":
            odd = pc.and_not(pc.invert(pc.match_substring_regex(texts, _LANGUAGE)), blank)
            faults.rows("news-language", odd, texts, at)


def _dates(scan: Scan, elements: np.ndarray, faults: Faults, now: datetime) -> None:
    texts = pc.utf8_trim_whitespace(scan.text(elements))
    dates = read(texts, W3C)  # Google's page takes hh:mm, which the XSD doesn't
    known = ((dates.forms & W3C) != 0) & (dates.kind != COARSE)
    at = scan.start[elements]
    faults.rows("news-date", ~known, texts, at)
    faults.rows("news-date", known & in_future(dates, now), texts, at, detail="in the future")
    # A day lasts until its end, and ends last twelve hours behind UTC.
    end = dates.seconds + np.where(dates.kind == DATE, 36 * 3600, 0)
    faults.rows("news-too-old", known & (end < int(now.timestamp()) - NEWS_HOURS * 3600), texts, at)
