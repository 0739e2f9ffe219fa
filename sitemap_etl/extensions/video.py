"""Videos of a page (Google video sitemaps), with each value validated.

An invalid required value removes the video; an invalid optional value only itself. Unknown elements and those that
Google no longer reads (category, gallery_loc, price, tvshow, …) are removed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sitemap_etl import limits
from sitemap_etl.arrow import is_list, is_text, mask_of, plain
from sitemap_etl.elements import VIDEO, VIDEOS
from sitemap_etl.extensions import literals, nested, scalars, texts
from sitemap_etl.extensions.dates import dates
from sitemap_etl.extensions.nested import Elements
from sitemap_etl.extensions.pages import Pages
from sitemap_etl.extensions.separated import firsts
from sitemap_etl.frames import Tally
from sitemap_etl.urls import UrlRules

_UNREADABLE: Final = "videos: neither a list of structs nor JSON of one"
_NULL: Final = pa.scalar(None, pa.string())
_NAMES: Final = frozenset(entry.name for entry in VIDEO)
_LARGEST: Final = 10**18 - 1

_SCALARS: Final[dict[str, tuple[str, Callable[[pa.Array], pa.Array]]]] = {
    "duration": (
        "not a whole number of seconds from 1 to 28,800",
        lambda values: scalars.whole(values, 1, limits.VIDEO_DURATION),
    ),
    "rating": ("not a number from 0.0 to 5.0", lambda values: scalars.decimal(values, 0, 5)),
    "view_count": ("not a whole number", lambda values: scalars.whole(values, 0, _LARGEST)),
    "family_friendly": ("neither yes nor no", scalars.yes_no),
    "restriction": ("not allow or deny with ISO 3166 countries", scalars.countries),
    "requires_subscription": ("neither yes nor no", scalars.yes_no),
    "platform": ("not allow or deny with web, mobile or tv", scalars.platforms),
    "live": ("neither yes nor no", scalars.yes_no),
}


def videos(
    column: pa.Array | pa.ChunkedArray,
    loc: pa.Array | pa.ChunkedArray,
    tally: Tally,
    *,
    rules: UrlRules | None = None,
    timezone: str | None = None,
) -> pa.Array:
    """Return `elements.VIDEOS` in the source's order. A page without videos is null.

    `column`: list of structs with Google's element names, one struct, or JSON text. `restriction` and `platform` are a
    struct of `relationship` and a text or list of codes, or text such as `allow IE GB`. `uploader` is text (its info in
    `uploader_info`) or a struct of `name` and `info`. `tag` is a list, or text with one tag or a list. `rules`:
    relative URLs are joined to the site. If a text has several URLs, the first one is used. `timezone`: zone of times
    without one. `loc`: canonical addresses of the pages, without nulls.
    """
    pages = Pages.of(loc, tally, rules)
    found = _elements(plain(column), tally)
    found = found.where(mask_of(pc.is_valid(found.values)))
    if not len(found.owner):
        return pa.nulls(found.rows, VIDEOS)
    _count_unknown(found, pages)
    result: dict[str, pa.Array] = {}
    found = _required(found, result, pages)
    for name, (fault, check) in _SCALARS.items():
        raw = _field(found, name)
        result[name] = check(raw)
        given = scalars.relation_texts(raw)
        pages.count(f"video {name}: {fault}", texts.lost(given, result[name]), given, found.owner)
    for name in ("expiration_date", "publication_date"):
        result[name] = _date(found, name, timezone, pages)
    result["tag"] = _tags(found, pages)
    result["uploader"], result["uploader_info"] = _uploader(found, pages)
    struct = pa.StructArray.from_arrays([result[entry.name] for entry in VIDEO], fields=list(VIDEO))
    return Elements(found.owner, struct, found.rows).to_lists(VIDEOS)


def _field(found: Elements, name: str) -> pa.Array:
    """Return the field of each video, or nulls if the struct doesn't have it."""
    if found.values.type.get_field_index(name) < 0:
        return pa.nulls(len(found.values), pa.string())
    return plain(pc.struct_field(found.values, name))


def _count_unknown(found: Elements, pages: Pages) -> None:
    for entry in found.values.type:
        if entry.name not in _NAMES:
            values = _field(found, entry.name)
            given = mask_of(pc.is_valid(values))
            pages.count(f"video {entry.name}: not an element that Google reads", given, values, found.owner)


def _required(found: Elements, result: dict[str, pa.Array], pages: Pages) -> Elements:
    """Return the videos with all required values, which are added to `result`."""

    def keep(good: pa.Array) -> None:
        nonlocal found
        found = found.where(mask_of(good))
        for name, values in result.items():
            result[name] = values.filter(good)

    for name, longest in (("title", limits.VIDEO_TITLE), ("description", limits.VIDEO_DESCRIPTION)):
        values = _present(found, name, pages)
        over = pc.fill_null(pc.greater(pc.utf8_length(values), longest), fill_value=False)
        reason = f"video: {name} has more than {longest:,} characters"
        pages.count(reason, mask_of(over), values, found.owner)
        pages.count(f"video with a {name} escaped twice", texts.escaped_twice(values), values, found.owner)
        result[name] = values
        keep(pc.and_(pc.is_valid(values), pc.invert(over)))
    present = pc.is_valid(_present(found, "thumbnail_loc", pages))
    values = pc.if_else(present, _url(found, "thumbnail_loc", pages), _NULL)
    result["thumbnail_loc"] = pages.canonical("video: thumbnail_loc", values, found.owner)
    keep(pc.is_valid(result["thumbnail_loc"]))
    for name in ("content_loc", "player_loc"):
        result[name] = _media(found, name, pages)
    playable = pc.or_(pc.is_valid(result["content_loc"]), pc.is_valid(result["player_loc"]))
    missing = ~mask_of(playable)
    pages.count("video: neither content_loc nor player_loc", missing, result["title"], found.owner)
    keep(playable)
    return found


def _present(found: Elements, name: str, pages: Pages) -> pa.Array:
    """Return the field as clean text. Missing values are counted."""
    values = texts.cleaned(_written(found, name))
    missing = mask_of(pc.is_null(values))
    pages.count(f"video: {name} is missing", missing, values, found.owner)
    return values


def _media(found: Elements, name: str, pages: Pages) -> pa.Array:
    urls = pages.canonical(f"video {name}", _url(found, name, pages), found.owner)
    own = pc.fill_null(pc.equal(urls, _pages_of(found, pages)), fill_value=False)
    pages.count(f"video {name}: is the page itself", mask_of(own), urls, found.owner)
    return pc.if_else(own, _NULL, urls)


def _written(found: Elements, name: str) -> pa.Array:
    """Return the field as text. A list of texts is joined with line breaks."""
    raw = _field(found, name)
    if is_list(raw.type) and is_text(raw.type.value_type):
        return pc.binary_join(raw.cast(pa.list_(pa.string())), "\n")
    return texts.readable(raw)


def _url(found: Elements, name: str, pages: Pages) -> pa.Array:
    """Return the field as text with only its first address. Values with several are counted."""
    given = _written(found, name)
    values, several = firsts(given)
    pages.count(f"video {name}: several URLs in one text, the first stays", several, given, found.owner)
    return values


def _pages_of(found: Elements, pages: Pages) -> pa.Array:
    assert pages.loc is not None
    return pages.loc.take(pa.array(found.owner))


def _date(found: Elements, name: str, timezone: str | None, pages: Pages) -> pa.Array:
    raw = _field(found, name)
    read = dates(raw, timezone)
    pages.count(f"video {name}: a time without a time zone", read.naive, raw, found.owner)
    wrong = texts.lost(texts.cleaned(raw), read.text) & ~read.naive
    pages.count(f"video {name}: no date", wrong, raw, found.owner)
    return read.text


def _tags(found: Elements, pages: Pages) -> pa.Array:
    raw = _field(found, "tag")
    if not is_list(raw.type) and not pa.types.is_struct(raw.type):
        raw = texts.readable(raw)
        listed = pc.fill_null(pc.match_substring_regex(raw, literals.BEGINS), False)
        if pc.any(listed).as_py():
            raw = _listed_tags(raw, listed, pages.tally)
    if is_list(raw.type):
        tags = nested.elements(raw)
        tags = Elements(tags.owner, texts.cleaned(tags.values), tags.rows)
    else:
        tags = Elements(np.arange(len(raw)), texts.cleaned(raw), len(raw))
    tags = tags.where(mask_of(pc.is_valid(tags.values)))
    over = tags.position() >= limits.VIDEO_TAGS
    pages.count(f"video tag: more than {limits.VIDEO_TAGS} of a video", over, tags.values, found.owner[tags.owner])
    return tags.where(~over).to_lists(pa.list_(pa.string()))


def _listed_tags(raw: pa.Array, listed: pa.BooleanArray, tally: Tally) -> pa.Array:
    """Return texts as lists of tags. `listed`: mask of texts in the syntax of a list."""
    values = nested.parsed(pc.if_else(listed, raw, _NULL), tally, "video tag: neither a text nor a list of texts")
    plain_texts = pc.if_else(listed, _NULL, raw).to_pylist()
    return _spelled_tags([one if text is None else [text] for one, text in zip(values, plain_texts, strict=True)])


def _uploader(found: Elements, pages: Pages) -> tuple[pa.Array, pa.Array]:
    """Return name and info. The info must be on the page's domain, a parent or a subdomain."""
    raw, info = _field(found, "uploader"), texts.cleaned(_field(found, "uploader_info"))
    if pa.types.is_struct(raw.type):
        inner = Elements(found.owner, raw, found.rows)
        info = pc.coalesce(info, texts.cleaned(_field(inner, "info")))
        raw = pc.coalesce(texts.cleaned(_field(inner, "name")), texts.cleaned(_field(inner, "value")))
    names = texts.cleaned(raw)
    over = pc.fill_null(pc.greater(pc.utf8_length(names), limits.VIDEO_UPLOADER), fill_value=False)
    reason = f"video uploader: more than {limits.VIDEO_UPLOADER} characters"
    pages.count(reason, mask_of(over), names, found.owner)
    names = pc.if_else(over, _NULL, names)
    urls = pages.canonical("video uploader info", pc.if_else(pc.is_valid(names), info, _NULL), found.owner)
    if urls.null_count == len(urls):
        return names, urls
    both = pc.binary_join_element_wise(_hosts(urls), _hosts(_pages_of(found, pages)), " ").dictionary_encode()
    same = pa.array([_same_domain(*pair.split(" ")) for pair in both.dictionary.to_pylist()], pa.bool_())
    kept = pc.if_else(pc.fill_null(same.take(both.indices), fill_value=False), urls, _NULL)
    pages.count("video uploader info: not on the page's domain", texts.lost(urls, kept), urls, found.owner)
    return names, kept


def _hosts(urls: pa.Array) -> pa.Array:
    return pc.struct_field(pc.extract_regex(urls, r"^[a-z]+://(?P<host>[^/:?#]*)"), "host")


def _same_domain(one: str, other: str) -> bool:
    one, other = one.removeprefix("www."), other.removeprefix("www.")
    return one == other or one.endswith("." + other) or other.endswith("." + one)


def _elements(column: pa.Array, tally: Tally) -> Elements:
    """Return the videos of all rows as structs."""
    kind = column.type
    if is_list(kind) and pa.types.is_struct(kind.value_type):
        return nested.elements(column)
    if pa.types.is_struct(kind):
        return Elements(np.arange(len(column)), column, len(column))
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        rows = nested.parsed(texts.readable(column), tally, _UNREADABLE)
        return nested.flattened([_videos_of(value, tally) for value in rows], _structs)
    if not pa.types.is_null(kind):
        tally.add(_UNREADABLE, len(column) - column.null_count, [str(kind)])
    return Elements(np.empty(0, np.int64), pa.array([], VIDEO), len(column))


def _videos_of(value: Any, tally: Tally) -> list[dict[str, Any]]:
    """Return the videos of one parsed JSON value."""
    result = []
    for element in value if isinstance(value, list) else [value]:
        if isinstance(element, dict):
            result.append(element)
        elif element is not None:
            tally.add(_UNREADABLE, 1, [element])
    return result


def _structs(parsed: list[dict[str, Any]]) -> pa.Array:
    """Convert parsed JSON objects to structs. A field gets the type that its values share, or text."""
    names = dict.fromkeys(name for video in parsed for name in video)
    columns = []
    for name in names:
        values = [video.get(name) for video in parsed]
        try:
            columns.append(pa.array(values))
        except (pa.ArrowException, UnicodeError, OverflowError):  # mixed types, a lone surrogate, a huge number
            columns.append(_SPELLED.get(name, _spelled)(values))
    if not names:
        return pa.array([{}] * len(parsed), pa.struct([]))
    return pa.StructArray.from_arrays(columns, [_text(name) or "" for name in names])


def _spelled(values: list[Any]) -> pa.Array:
    return pa.array([_text(value) for value in values], pa.string())


def _spelled_tags(values: list[Any]) -> pa.Array:
    lists = [value if isinstance(value, list) or value is None else [value] for value in values]
    return pa.array([None if tags is None else [_text(tag) for tag in tags] for tags in lists], pa.list_(pa.string()))


def _spelled_uploaders(values: list[Any]) -> pa.Array:
    keys = ("name", "value", "info")
    pairs = [value if isinstance(value, dict) else {"name": value} for value in values]
    kind = pa.struct([(key, pa.string()) for key in keys])
    return pa.array([{key: _text(pair.get(key)) for key in keys} for pair in pairs], kind)


_SPELLED: Final[dict[str, Callable[[list[Any]], pa.Array]]] = {"tag": _spelled_tags, "uploader": _spelled_uploaders}


def _text(value: Any) -> str | None:
    """Return a JSON value as text: `true` for booleans, and a relation with its relationship first."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        ordered = sorted(value.items(), key=lambda item: item[0] != "relationship")
        return " ".join(filter(None, (_text(part) for _, part in ordered)))
    if isinstance(value, list):
        return " ".join(filter(None, map(_text, value)))
    return str(value).encode("utf-8", "ignore").decode()
