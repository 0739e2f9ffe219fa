"""What can be wrong with video elements (Google: video sitemaps; order and title's length: the XSD)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pyarrow.compute as pc

from sitemap_etl.check.dates import fits_both
from sitemap_etl.check.report import Faults
from sitemap_etl.check.scan import Scan
from sitemap_etl.check.urlset import Entries, check_order, check_strangers, column
from sitemap_etl.dates import read
from sitemap_etl.limits import (
    NS_VIDEO,
    VIDEO_DESCRIPTION,
    VIDEO_DURATION,
    VIDEO_TAGS,
    VIDEO_TITLE,
    VIDEO_UPLOADER,
)

_ORDER: Final = (
    *("thumbnail_loc", "title", "description", "content_loc", "player_loc", "duration", "expiration_date", "rating"),
    *("content_segment_loc", "view_count", "publication_date", "tag", "category", "family_friendly", "restriction"),
    *("gallery_loc", "price", "requires_subscription", "uploader", "tvshow", "platform", "live", "id"),
)
_REPEATABLE: Final = ("tag", "content_segment_loc", "price", "id")
_REMOVED: Final = ("category", "gallery_loc", "price", "tvshow", "content_segment_loc", "id")
_REQUIRED: Final = ("thumbnail_loc", "title", "description")
_URL: Final = re.compile(r"(?:https?|ftp)://[^/?#\s][^\s]*", re.IGNORECASE)
_COUNTRIES: Final = re.compile(r"[A-Z]{2}( +[A-Z]{2})*")
_PLATFORMS: Final = re.compile(r"(?:web|mobile|tv)( +(?:web|mobile|tv))*")
_RELATION: Final = r"\srelationship\s*=\s*[\"'](?:allow|deny)[\"']"


def _number(low: float, high: float) -> Callable[[str], bool]:
    def fits(text: str) -> bool:
        return re.fullmatch(r"\+?\d+(\.\d*)?|\+?\.\d+", text, re.ASCII) is not None and low <= float(text) <= high

    return fits


def _whole(low: int, high: int) -> Callable[[str], bool]:
    return lambda text: re.fullmatch(r"\+?\d{1,18}", text, re.ASCII) is not None and low <= int(text) <= high


def _yes_no(text: str) -> bool:
    return text.lower() in {"yes", "no"}


_VALUES: Final[dict[str, tuple[Callable[[str], bool], str]]] = {
    "thumbnail_loc": (lambda t: _URL.fullmatch(t) is not None, "a full URL"),
    "content_loc": (lambda t: _URL.fullmatch(t) is not None, "a full URL"),
    "player_loc": (lambda t: _URL.fullmatch(t) is not None, "a full URL"),
    "title": (lambda t: 0 < len(t) <= VIDEO_TITLE, f"1 to {VIDEO_TITLE} characters"),
    "description": (lambda t: 0 < len(t) <= VIDEO_DESCRIPTION, f"1 to {VIDEO_DESCRIPTION:,} characters"),
    "duration": (_whole(1, VIDEO_DURATION), f"1 to {VIDEO_DURATION:,} seconds"),
    "rating": (_number(0, 5), "0.0 to 5.0"),
    "view_count": (_whole(0, 10**18), "a whole number"),
    "family_friendly": (_yes_no, "yes or no"),
    "requires_subscription": (_yes_no, "yes or no"),
    "live": (_yes_no, "yes or no"),
    "uploader": (lambda t: 0 < len(t) <= VIDEO_UPLOADER, f"1 to {VIDEO_UPLOADER} characters"),
    "restriction": (lambda t: _COUNTRIES.fullmatch(t) is not None, "country codes with a space between"),
    "platform": (lambda t: _PLATFORMS.fullmatch(t) is not None, "of web, mobile, tv"),
}
"""For each element what its text must be; looked at once for each distinct text."""


def check_videos(scan: Scan, found: Entries, faults: Faults) -> None:
    """Report faults of the videos of all entries."""
    ids = scan.ids(NS_VIDEO)
    if not len(ids):
        return
    elements, page = scan.children(found.elements, ids)
    is_video = np.isin(scan.name[elements], scan.ids(NS_VIDEO, "video"))
    check_strangers(scan, elements[~is_video], faults)
    videos, page = elements[is_video], page[is_video]
    parts, owner = scan.children(videos)
    rank = np.full(len(scan.names), -1, np.int64)
    for place, local in enumerate(_ORDER):
        rank[scan.ids(NS_VIDEO, local)] = place
    ranks = rank[scan.name[parts]]
    check_strangers(scan, parts[ranks < 0], faults)
    parts, owner, ranks = parts[ranks >= 0], owner[ranks >= 0], ranks[ranks >= 0]
    check_order(scan, parts, owner, ranks, faults, repeatable=tuple(_ORDER.index(n) for n in _REPEATABLE))
    of = {
        local: (parts[ranks == place], owner[ranks == place])
        for place, local in enumerate(_ORDER)
        if (ranks == place).any()
    }
    _required(scan, videos, of, faults)
    _addresses(scan, found, videos, page, parts=(parts, owner, ranks), faults=faults)
    for local, (fits, wanted) in _VALUES.items():
        if local in of:
            _values(scan, of[local][0], local, faults, fits=fits, wanted=wanted)
    for local in ("publication_date", "expiration_date"):
        if local in of:
            texts = pc.utf8_trim_whitespace(scan.text(of[local][0]))
            faults.rows(
                "video-value", ~fits_both(read(texts)), texts, scan.start[of[local][0]], detail=f"{local}: a date"
            )
    _relations(scan, of, faults)
    if "tag" in of:
        many = np.bincount(of["tag"][1], minlength=len(videos)) > VIDEO_TAGS
        faults.rows("video-value", many, None, scan.start[videos], detail=f"tag: at most {VIDEO_TAGS}")


def _required(scan: Scan, videos: np.ndarray, of: dict[str, Any], faults: Faults) -> None:
    """Report videos that lack what they must have, and elements that Google removed."""
    for local in _REQUIRED:
        faults.rows("video-incomplete", _lacking(videos, of, local), None, scan.start[videos], detail=f"no {local}")
    none = _lacking(videos, of, "content_loc") & _lacking(videos, of, "player_loc")
    faults.rows("video-no-content", none, None, scan.start[videos])
    for local in _REMOVED:
        if local in of:
            chosen = of[local][0]
            faults.add("video-obsolete", at=int(scan.start[chosen[0]]), count=len(chosen), detail=local)
    if "player_loc" in of:
        tags = scan.tag(of["player_loc"][0])
        old = pc.match_substring_regex(tags, r"\s(?:allow_embed|autoplay)\s*=")
        faults.rows("video-obsolete", old, tags, scan.start[of["player_loc"][0]], detail="player_loc's attributes")


def _lacking(videos: np.ndarray, of: dict[str, Any], local: str) -> np.ndarray:
    lacking = np.ones(len(videos), bool)
    if local in of:
        lacking[of[local][1]] = False
    return lacking


def _addresses(
    scan: Scan, found: Entries, videos: np.ndarray, page: np.ndarray, *, parts: tuple[np.ndarray, ...], faults: Faults
) -> None:
    """Report videos whose address is their page's."""
    below, owner, ranks = parts
    for local in ("content_loc", "player_loc"):
        texts, at = column(scan, videos, below, owner, ranks == _ORDER.index(local))
        if texts.null_count < len(texts):
            same = pc.equal(pc.utf8_trim_whitespace(texts), pc.utf8_trim_whitespace(found.loc).take(page))
            faults.rows("video-is-page", same, texts, at, detail=local)


def _values(
    scan: Scan, elements: np.ndarray, local: str, faults: Faults, *, fits: Callable[[str], bool], wanted: str
) -> None:
    encoded = pc.utf8_trim_whitespace(scan.text(elements)).dictionary_encode()
    wrong = np.array([not fits(text) for text in encoded.dictionary.to_pylist()], bool)
    codes = encoded.indices.to_numpy(zero_copy_only=False)
    faults.rows("video-value", wrong[codes], encoded, scan.start[elements], detail=f"{local}: {wanted}")


def _relations(scan: Scan, of: dict[str, Any], faults: Faults) -> None:
    for local in ("restriction", "platform"):
        if local in of:
            tags = scan.tag(of[local][0])
            bare = pc.invert(pc.match_substring_regex(tags, _RELATION))
            faults.rows(
                "video-value", bare, tags, scan.start[of[local][0]], detail=f"{local}: relationship=allow or deny"
            )
