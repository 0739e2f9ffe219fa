"""Check images, videos and news with one table of their structure, and a few rules outside the table.

Required and allowed elements are Google's (image, video and news sitemaps). The order is the XSDs'.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sitemap_etl.arrow import mask_of, numbers_of, single
from sitemap_etl.check.locs import check_addresses
from sitemap_etl.check.report import Faults
from sitemap_etl.check.scan import Scan
from sitemap_etl.check.urlset import ABSOLUTE, Entries, check_order, fits_both, in_future
from sitemap_etl.dates import COARSE, DATE, W3C, Written, read
from sitemap_etl.extensions import escaped_twice
from sitemap_etl.extensions.codes import is_language
from sitemap_etl.frozen import Frozen
from sitemap_etl.limits import (
    IMAGES_PER_PAGE,
    NEWS_HOURS,
    NEWS_ROWS,
    NS_IMAGE,
    NS_NEWS,
    NS_VIDEO,
    VIDEO_DESCRIPTION,
    VIDEO_DURATION,
    VIDEO_TAGS,
    VIDEO_TITLE,
    VIDEO_UPLOADER,
)
from sitemap_etl.urls import suspected

Fits = Callable[[Any], np.ndarray]
"""Returns which texts of a string array, without surrounding whitespace, are allowed."""
Parts = dict[str, tuple[np.ndarray, np.ndarray]]
"""Local name → elements, and the index of each one's parent."""


class Part(Frozen):
    """An element inside of another.

    `blank`: it counts as missing if it has no text. `wanted`: what `fits` asks for. `code`: of a value that does not
    fit; the shape's by default. `tag`: a pattern that its tag must match, and what that asks for. `attributes`: those
    it may have.
    """

    name: str
    required: bool = False
    repeats: bool = False
    obsolete: bool = False
    blank: bool = False
    fits: Fits | None = None
    wanted: str = ""
    code: str = ""
    tag: tuple[str, str] = ("", "")
    attributes: str = ""


class Shape(Frozen):
    """The parts of an element, in their order, and the codes of their possible mistakes.

    `whose` is added to the name of a part that is missing. `loose`: obsolete parts follow the others in any order.
    `last`: parts that may as well follow all others, in this order, as Google's page has it.
    """

    uri: str
    name: str
    parts: tuple[Part, ...]
    incomplete: str
    value: str
    obsolete: str = ""
    whose: str = ""
    loose: bool = False
    last: tuple[str, ...] = ()


def _pattern(pattern: str) -> Fits:
    return lambda texts: mask_of(pc.match_substring_regex(texts, pattern))


def _length(longest: int) -> Fits:
    def fits(texts: Any) -> np.ndarray:
        lengths = numbers_of(pc.utf8_length(texts))
        return (lengths > 0) & (lengths <= longest)

    return fits


def _between(pattern: str, kind: pa.DataType, low: float, high: float) -> Fits:
    """Return a rule for a number of type `kind` in the format of `pattern`."""

    def fits(texts: Any) -> np.ndarray:
        good = pc.match_substring_regex(texts, pattern)
        numbers = pc.cast(pc.if_else(good, pc.utf8_ltrim(texts, "+"), None), kind)
        return mask_of(pc.and_(pc.greater_equal(numbers, low), pc.less_equal(numbers, high)))

    return fits


def _date(texts: Any) -> np.ndarray:
    return fits_both(read(texts))


def _language(texts: Any) -> np.ndarray:
    encoded = texts.dictionary_encode()
    known = [text in {"zh-cn", "zh-tw"} or is_language(text) for text in encoded.dictionary.to_pylist()]
    fits: np.ndarray = np.array(known, bool)[numbers_of(encoded.indices)]
    return fits


_URL: Final = _pattern(r"^(?i)(?:https?|ftp)://[^/?#\s\p{Z}][^\s\p{Z}]*$")
_YES_NO: Final = _pattern(r"^(?i)(?:yes|no)$")
_WHOLE: Final = r"^\+?\d{1,18}$"
_DECIMAL: Final = r"^\+?(?:\d+(?:\.\d*)?|\.\d+)$"
_RELATION: Final = (
    r"\srelationship\s*=\s*[\"'](?:allow|deny)[\"']",
    "expected allow or deny in the attribute relationship",
)

_IMAGE: Final = Shape(
    NS_IMAGE,
    "image",
    (
        Part("loc", required=True),
        *(Part(name, obsolete=True, repeats=True) for name in ("caption", "geo_location", "title", "license")),
    ),
    incomplete="image-no-loc",
    value="image-loc",
    obsolete="image-obsolete",
    loose=True,
)
_VIDEO: Final = Shape(
    NS_VIDEO,
    "video",
    (
        Part("thumbnail_loc", required=True, fits=_URL, wanted="a full URL"),
        Part("title", required=True, fits=_length(VIDEO_TITLE), wanted=f"1 to {VIDEO_TITLE} characters"),
        Part(
            "description",
            required=True,
            fits=_length(VIDEO_DESCRIPTION),
            wanted=f"1 to {VIDEO_DESCRIPTION:,} characters",
        ),
        Part("content_loc", fits=_URL, wanted="a full URL"),
        Part("player_loc", fits=_URL, wanted="a full URL", attributes="allow_embed autoplay"),
        Part(
            "duration", fits=_between(_WHOLE, pa.int64(), 1, VIDEO_DURATION), wanted=f"1 to {VIDEO_DURATION:,} seconds"
        ),
        Part("expiration_date", fits=_date, wanted="a date"),
        Part("rating", fits=_between(_DECIMAL, pa.float64(), 0, 5), wanted="0.0 to 5.0"),
        Part("content_segment_loc", obsolete=True, repeats=True, attributes="duration"),
        Part("view_count", fits=_pattern(_WHOLE), wanted="a whole number"),
        Part("publication_date", fits=_date, wanted="a date"),
        Part("tag", repeats=True),
        Part("category", obsolete=True),
        Part("family_friendly", fits=_YES_NO, wanted="yes or no"),
        Part(
            "restriction",
            fits=_pattern(r"^[A-Z]{2}(?: +[A-Z]{2})*$"),
            wanted="country codes separated by spaces",
            tag=_RELATION,
            attributes="relationship",
        ),
        Part("gallery_loc", obsolete=True, attributes="title"),
        Part("price", obsolete=True, repeats=True, attributes="currency type resolution"),
        Part("requires_subscription", fits=_YES_NO, wanted="yes or no"),
        Part("uploader", fits=_length(VIDEO_UPLOADER), wanted=f"1 to {VIDEO_UPLOADER} characters", attributes="info"),
        Part("tvshow", obsolete=True),
        Part(
            "platform",
            fits=_pattern(r"^(?:web|mobile|tv)(?: +(?:web|mobile|tv))*$"),
            wanted="one or more of web, mobile, tv",
            tag=_RELATION,
            attributes="relationship",
        ),
        Part("live", fits=_YES_NO, wanted="yes or no"),
        Part("id", obsolete=True, repeats=True, attributes="type"),
    ),
    incomplete="video-incomplete",
    value="video-value",
    obsolete="video-obsolete",
    last=("requires_subscription", "uploader", "live", "tag"),
)
_NEWS: Final = Shape(
    NS_NEWS,
    "news",
    (
        Part("publication", required=True),
        Part("access", obsolete=True),
        Part("genres", obsolete=True),
        Part("publication_date", required=True),
        Part("title", required=True, blank=True),
        Part("keywords", obsolete=True),
        Part("stock_tickers", obsolete=True),
    ),
    incomplete="news-incomplete",
    value="news-incomplete",
    obsolete="news-obsolete",
)
_PUBLICATION: Final = Shape(
    NS_NEWS,
    "publication",
    (
        Part("name", required=True, blank=True),
        Part(
            "language",
            required=True,
            blank=True,
            fits=_language,
            code="news-language",
        ),
    ),
    incomplete="news-incomplete",
    value="news-incomplete",
    whose=" of the publication",
)


SHAPES: Final = (_IMAGE, _VIDEO, _NEWS, _PUBLICATION)


def check_images(scan: Scan, found: Entries, faults: Faults) -> None:
    """Report faults of the images of all entries."""
    images, page = scan.children(found.elements, scan.ids(NS_IMAGE, "image"))
    if not len(images):
        return
    many = np.bincount(page, minlength=len(found.elements)) > IMAGES_PER_PAGE
    faults.rows("image-too-many", many, found.loc, found.at)
    elements, _ = _check(scan, _IMAGE, images, faults)["loc"]
    texts, at = _texts(scan, elements), scan.start[elements]
    absolute = mask_of(pc.match_substring_regex(texts, ABSOLUTE))
    faults.rows("image-loc", ~absolute, texts, at)
    if not absolute.all():
        texts, at = texts.filter(pa.array(absolute)), at[absolute]
    check_addresses("image-url", texts, at, faults, unlikely="image-unlikely")


def check_videos(scan: Scan, found: Entries, faults: Faults, now: datetime) -> None:
    """Report faults of the videos of all entries."""
    videos, page = scan.children(found.elements, scan.ids(NS_VIDEO, "video"))
    if not len(videos):
        return
    of = _check(scan, _VIDEO, videos, faults)
    without = np.ones(len(videos), bool)
    for name in ("content_loc", "player_loc"):
        elements, owner = of[name]
        without[owner] = False
        texts = _texts(scan, elements)
        same = pc.equal(texts, pc.utf8_trim_whitespace(found.loc).take(pa.array(page[owner])))
        faults.rows("video-is-page", same, texts, scan.start[elements], detail=name)
    faults.rows("video-no-content", without, None, scan.start[videos])
    for name in ("thumbnail_loc", "content_loc", "player_loc"):
        elements, _ = of[name]
        _suspected(_texts(scan, elements), scan.start[elements], faults, name)
    for name in ("title", "description"):
        _escaped_twice(scan, of[name][0], faults, "video-unlikely", detail=f"{name}: escaped twice")
    players, _ = of["player_loc"]
    tags = scan.tag(players)
    old = pc.match_substring_regex(tags, r"\s(?:allow_embed|autoplay)\s*=")
    faults.rows("video-obsolete", old, tags, scan.start[players], detail="player_loc's attributes")
    ends, _ = of["expiration_date"]
    if len(ends):
        texts = _texts(scan, ends)
        dates = read(texts, W3C)
        faults.rows("video-expired", has_passed(dates, now), texts, scan.start[ends])
    many = np.bincount(of["tag"][1], minlength=len(videos)) > VIDEO_TAGS
    faults.rows("video-value", many, None, scan.start[videos], detail=f"tag: at most {VIDEO_TAGS} are allowed")


def check_news(scan: Scan, found: Entries, faults: Faults, now: datetime) -> int:
    """Report faults of the news of all entries, and return their number."""
    news, page = scan.children(found.elements, scan.ids(NS_NEWS, "news"))
    if not len(news):
        return 0
    if len(news) > NEWS_ROWS:
        faults.add("news-too-many", at=int(scan.start[news[NEWS_ROWS]]), detail=f"{len(news):,} articles")
    again = np.append([False], page[1:] == page[:-1])
    faults.rows("element-repeated", again, None, scan.start[news], detail="news:news")
    of = _check(scan, _NEWS, news, faults)
    _check(scan, _PUBLICATION, of["publication"][0], faults)
    _escaped_twice(scan, of["title"][0], faults, "news-title-escaped")
    elements, _ = of["publication_date"]
    texts, at = _texts(scan, elements), scan.start[elements]
    dates = read(texts, W3C)  # Google's page takes hh:mm, which the XSD doesn't
    known = ((dates.forms & W3C) != 0) & (dates.kind != COARSE)
    faults.rows("news-date", ~known, texts, at)
    faults.rows("news-date", known & in_future(dates, now), texts, at, detail="in the future")
    faults.rows("news-too-old", known & has_passed(dates, now - timedelta(hours=NEWS_HOURS)), texts, at)
    return len(news)


def _suspected(urls: Any, at: np.ndarray, faults: Faults, name: str) -> None:
    for note, mask in suspected(single(urls), None):
        faults.rows("video-unlikely", mask, urls, at, detail=f"{name}: {note.removeprefix('loc ')}")


def _escaped_twice(scan: Scan, elements: np.ndarray, faults: Faults, code: str, detail: str = "") -> None:
    texts = _texts(scan, elements)
    faults.rows(code, escaped_twice(single(texts)), texts, scan.start[elements], detail=detail)


def has_passed(dates: Written, now: datetime) -> np.ndarray:
    """Return which dates are over in every time zone (boolean). A day lasts until its end twelve hours behind UTC."""
    end = dates.seconds + np.where(dates.kind == DATE, 36 * 3600, 0)
    over: np.ndarray = ((dates.forms & W3C) != 0) & (dates.kind != COARSE) & (end < int(now.timestamp()))
    return over


def _texts(scan: Scan, elements: np.ndarray) -> Any:
    return pc.utf8_trim_whitespace(scan.text(elements))


def _check(scan: Scan, shape: Shape, above: np.ndarray, faults: Faults) -> Parts:
    """Report faults of the parts of the elements `above`, and return all parts by name."""
    if not len(above):
        return {}
    elements, owner = scan.children(above)
    rank = np.full(len(scan.names), -1, np.int64)
    for place, part in enumerate(shape.parts):
        rank[scan.ids(shape.uri, part.name)] = place
    ranks = rank[scan.name[elements]]
    elements, owner, ranks = elements[ranks >= 0], owner[ranks >= 0], ranks[ranks >= 0]
    last = len(shape.parts)
    order = np.array([last if shape.loose and part.obsolete else n for n, part in enumerate(shape.parts)])
    repeatable = (last, *(place for place, part in enumerate(shape.parts) if part.repeats))
    late = {name: last + 1 + n for n, name in enumerate(shape.last)}
    other = np.array([late.get(part.name, order[n]) for n, part in enumerate(shape.parts)])
    check_order(scan, elements, owner, order[ranks], faults, repeatable=repeatable, other=other[ranks])
    of = {part.name: (elements[ranks == place], owner[ranks == place]) for place, part in enumerate(shape.parts)}
    named = sum(not part.obsolete for part in shape.parts) > 1  # else the code says it all
    for part in shape.parts:
        if part.required or len(of[part.name][0]):
            _check_part(scan, shape, part, above, of[part.name], faults, named=named)
    return of


def _check_part(
    scan: Scan,
    shape: Shape,
    part: Part,
    above: np.ndarray,
    found: tuple[np.ndarray, np.ndarray],
    faults: Faults,
    *,
    named: bool,
) -> None:
    elements, owner = found
    at = scan.start[elements]
    if part.obsolete:
        written = scan.names[scan.name[elements[0]]].written
        faults.add(shape.obsolete, at=int(at[0]), example=f"<{written}>", count=len(elements), detail=part.name)
    texts = _texts(scan, elements) if part.blank or part.fits is not None else None
    blank = mask_of(pc.equal(texts, "")) if part.blank else np.zeros(len(elements), bool)
    if part.required:
        lacking = np.ones(len(above), bool)
        lacking[owner[~blank]] = False
        detail = f"{part.name}{shape.whose} is missing" if named else ""
        faults.rows(shape.incomplete, lacking, None, scan.start[above], detail=detail)
    if part.fits is not None:
        detail = f"{part.name}: expected {part.wanted}" if part.wanted else ""
        faults.rows(part.code or shape.value, ~part.fits(texts) & ~blank, texts, at, detail=detail)
    if part.tag[0]:
        tags = scan.tag(elements)
        bare = pc.invert(pc.match_substring_regex(tags, part.tag[0]))
        faults.rows(shape.value, bare, tags, at, detail=f"{part.name}: {part.tag[1]}")
