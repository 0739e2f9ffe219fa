"""Canonical URLs of a whole column: rows that are canonical already pass by checks on whole buffers.

Only the rest is normalized, one by one, and put back. Clean are rows that begin with a known origin, or
with a path, and in which `scan` finds nothing odd.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import field
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sitemap_etl import limits
from sitemap_etl.arrow import over, single
from sitemap_etl.errors import InvalidSource
from sitemap_etl.frozen import Frozen
from sitemap_etl.urls.placeholders import find_placeholders
from sitemap_etl.urls.rules import REASONS, UrlRules
from sitemap_etl.urls.scan import Findings, Text, encode, scan
from sitemap_etl.urls.spelling import CARE, Normalizer, Rejected, spell

_CHUNK_BYTES: Final = 1 << 29
"""Maximum bytes of text per step, so that Arrow's limit of 2 GiB is not reached with an origin before every path."""
_MENDED_ROWS: Final = 8_192
"""Rows that are Python text at a time: their memory is used again and stays in cache."""
_FOREIGN_KEPT: Final = 8
"""Foreign origins that a result names."""
_GUESSES: Final = 8
"""Origins that are looked for in a column of URLs on any host before rows are normalized one by one."""
_REASONS: Final = pa.array(list(REASONS), pa.string())
_CODES: Final = {reason: code for code, reason in enumerate(REASONS)}
_ASCII: Final = re.compile("[^\x00-\x7f].*", re.DOTALL)
_BARE: Final = np.zeros(256, np.bool_)
_BARE[list(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_~?")] = True
"""First bytes of a relative path without its slash, or of a query alone, that need no care."""


class Canonical(Frozen):
    """The canonical column. `loc` and `reason` are string, one a row, and exactly one of them is null.

    They are arrays if an array came in and chunked where a chunked one did, or if the array holds
    more than 512 MiB. `normalized` counts the listed rows that stood in another spelling in the source (a
    relative path joined to the site is none). `foreign` counts the origins that most of the rows rejected
    as "foreign origin" have, most first. `bare`: how many rows without a leading slash were
    joined to the site, and one.
    """

    loc: pa.Array | pa.ChunkedArray
    reason: pa.Array | pa.ChunkedArray
    normalized: int
    foreign: dict[str, int] = field(default_factory=dict)
    bare: tuple[int, str] = (0, "")


def canonicalize(locs: pa.Array | pa.ChunkedArray, rules: UrlRules, column: str | None = None) -> Canonical:
    """Return the column as canonical URLs on the site, or the reason why a row can't be.

    Paths and queries without an origin are joined to the site. `locs`: string, large_string,
    string_view, any binary, a dictionary of these, or all null. `column`: its name in the source, not an address.
    Raise `InvalidSource` for other types.
    """
    normalizer = Normalizer(rules.site, rules.same_as, rules.strip, column=column, bare=rules.bare)
    return _column(locs, _Pass(normalizer, rules.site, (rules.site, *rules.same_as), rules.strip))


def canonical_urls(urls: pa.Array | pa.ChunkedArray, rules: UrlRules | None = None) -> Canonical:
    """Return the column of http(s) URLs, on any host, in canonical form, or the reason why a row can't be.

    Types as for `canonicalize`. With the `rules` of a site, relative ones are joined to it, as there; they do no more:
    see `as_listed`.
    """
    if rules is None:
        return _column(urls, _Pass(Normalizer(), None, (), frozenset()))
    normalizer = Normalizer(rules.site, rules.same_as, any_host=True)
    return _column(urls, _Pass(normalizer, rules.site, (), frozenset()))


def as_joined(locs: pa.Array, rules: UrlRules) -> pa.Array:
    """Return all values that can be joined to the site as canonical URLs, even if they are not addresses.

    Releases before this one listed them so. Null for the others.
    """
    normalizer = Normalizer(rules.site, rules.same_as, rules.strip, judges=False)
    found = _column(locs, _Pass(normalizer, rules.site, (rules.site, *rules.same_as), rules.strip)).loc
    return single(found)


def as_listed(urls: pa.Array, rules: UrlRules) -> pa.Array:
    """Return canonical URLs of any host. Those of the site are as listed: on its origin, without stripped parameters.

    Null if the result would be too long.
    """
    if not (rules.same_as or rules.strip):
        return urls
    ours = np.zeros(len(urls), np.bool_)
    for origin_ in (rules.site, *rules.same_as):
        ours |= np.asarray(pc.starts_with(urls, pattern=f"{origin_}/").fill_null(False))
    if not ours.any():
        return urls
    mask = pa.array(ours)
    listed = canonicalize(urls.filter(mask), rules).loc
    return pc.replace_with_mask(urls, mask, listed)


class _Pass(Frozen):
    """Facts that are the same for all batches of a column. `origins`: those of the site, or none if any host is."""

    normalizer: Normalizer
    site: str | None
    origins: tuple[str, ...]
    strip: frozenset[str]


class _Part(Frozen):
    loc: pa.Array
    codes: np.ndarray
    """int8: the reason's place in REASONS, -1 for none."""
    normalized: int


def _column(column: pa.Array | pa.ChunkedArray, known: _Pass) -> Canonical:
    chunked = isinstance(column, pa.ChunkedArray)
    parts = [
        _part(piece, known)
        for chunk in (column.chunks if chunked else [column])
        for text in _texts(chunk)
        for piece in _pieces(text)
    ]
    locs = [part.loc for part in parts]
    reasons = [_named(part.codes) for part in parts]
    foreign = dict(known.normalizer.foreign.most_common(_FOREIGN_KEPT))
    normalized = sum(part.normalized for part in parts)
    bare = known.normalizer.bare, known.normalizer.bare_example
    if chunked or len(parts) != 1:
        loc, reason = pa.chunked_array(locs, pa.string()), pa.chunked_array(reasons, pa.string())
        return Canonical(loc, reason, normalized, foreign, bare)
    return Canonical(locs[0], reasons[0], normalized, foreign, bare)


def _named(codes: np.ndarray) -> pa.Array:
    if (codes < 0).all():
        return pa.nulls(len(codes), pa.string())
    return _REASONS.take(pa.array(codes, mask=codes < 0))


def _texts(chunk: pa.Array) -> Iterable[pa.Array]:
    """Return the chunk as string or large_string; bytes stay bytes if they are not UTF-8."""
    kind = chunk.type
    if pa.types.is_dictionary(kind):
        yield from _texts(chunk.dictionary_decode())
    elif pa.types.is_string(kind) or pa.types.is_large_string(kind):
        yield chunk
    elif pa.types.is_null(kind) or kind == pa.string_view():
        yield chunk.cast(pa.string())
    elif pa.types.is_fixed_size_binary(kind):
        yield from _texts(chunk.cast(pa.binary()))
    elif pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or kind == pa.binary_view():
        wide = pa.types.is_large_binary(kind)
        try:
            yield chunk.cast(pa.large_string() if wide else pa.string())
        except pa.ArrowInvalid:
            yield chunk.cast(pa.large_binary() if wide else pa.binary())
    else:
        raise InvalidSource(
            f"A column of URLs has type {kind}; expected text. Cast it in the SELECT or use another column."
        )


def _pieces(text: pa.Array) -> Iterable[pa.Array]:
    pieces = max(1, -(-text.nbytes // _CHUNK_BYTES))
    size = max(1, -(-len(text) // pieces))
    for begin in range(0, max(1, len(text)), size):
        yield text.slice(begin, size)


def _part(array: pa.Array, known: _Pass) -> _Part:
    rows = len(array)
    if pa.types.is_binary(array.type) or pa.types.is_large_binary(array.type):
        blank = pa.nulls(rows, pa.string())
        return _mend(array, np.asarray(array.is_valid()), blank, np.zeros(rows, np.bool_), known)
    text = Text.of(array)
    valid = np.ones(rows, np.bool_) if array.null_count == 0 else np.asarray(array.is_valid())
    found = scan(text, known.strip)
    changed = np.zeros(rows, np.bool_)
    spelled = array
    if len(found.lower):
        changed |= text.rows_at(found.lower)
        spelled, text = _upper_escapes(array, text, found.lower)
    fine = valid & ~found.odd & ~found.soft
    soft = valid & ~found.odd & found.soft
    if soft.any():
        soft[soft] = _encodable(spelled.filter(pa.array(soft)))
        spelled = _encoded(spelled, soft)
        text = Text.of(spelled)
        changed |= soft
        fine |= soft
    base, clean, colons = _joined(spelled, text, fine, changed, known)
    if known.normalizer.values is not None and (len(found.pairs) or found.colons > colons):
        clean &= ~_suspicious(array, found, known)
    if clean.all():
        return _Part(base, np.full(rows, -1, np.int8), int(changed.sum()))
    return _mend(array, valid & ~clean, base, changed, known)


def _encodable(array: pa.Array) -> np.ndarray:
    """Return a mask of the rows in which encoding the bytes is all there is to do: real text, nothing to trim or
    reject.
    """
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        return np.zeros(len(array), np.bool_)
    return ~np.asarray(pc.match_substring_regex(array, CARE))


def _encoded(array: pa.Array, soft: np.ndarray) -> pa.Array:
    encoded = encode(array if soft.all() else array.filter(pa.array(soft)))
    if soft.all():
        return encoded
    return pc.replace_with_mask(array, pa.array(soft), encoded.cast(array.type))


def _upper_escapes(array: pa.Array, text: Text, lower: np.ndarray) -> tuple[pa.Array, Text]:
    """Return the same rows with the two bytes behind these "%" in upper case."""
    data = text.data.copy()
    for step in (1, 2):
        digits = data[lower + step]
        data[lower + step] = np.where(digits >= ord("a"), digits & 0xDF, digits)
    width = np.int64 if pa.types.is_large_string(array.type) else np.int32
    validity = pc.is_valid(array).buffers()[1] if array.null_count else None
    return over(array.type, text.starts.astype(width), data, validity), Text(data, text.starts)


def _joined(
    array: pa.Array, text: Text, fine: np.ndarray, changed: np.ndarray, known: _Pass
) -> tuple[pa.Array, np.ndarray, int]:
    """Return the rows on their origin, a mask of those that are canonical so, and how many colons their origins have.

    `changed` is added to. `fine` are the rows with nothing odd; what the others become here does not matter.
    """
    clean = np.zeros(len(array), np.bool_)
    lengths = text.lengths
    colons = 0
    for prefix, origin in _prefixes(array, known):
        begins = pc.starts_with(array, pattern=prefix).fill_null(False)
        colons += begins.true_count * prefix.count(":")
        if begins.true_count == len(array) and prefix == f"{origin}/":
            return array.cast(pa.string()), fine & (lengths <= limits.LOC_LENGTH), colons
        ours = fine & ~clean & np.asarray(begins)
        if prefix != f"{origin}/" and ours.any():
            swapped = pc.binary_replace_slice(array, 0, len(prefix), f"{origin}/")
            array = pc.if_else(pa.array(ours), swapped, array)
            changed |= ours
            lengths = np.where(ours, lengths + len(f"{origin}/") - len(prefix), lengths)
        clean |= ours
        if clean.all():
            break
    base = array.cast(pa.string())
    site = known.site
    if site is not None and not clean.all():
        rooted = fine & ~clean & (text.byte(0) == ord("/")) & (text.byte(1) != ord("/"))
        bare = fine & ~clean & _BARE[text.byte(0)]
        if bare.any():
            bare &= ~find_placeholders(array, text.lengths, bare)
            bare &= ~text.rows_at(np.flatnonzero(text.data == ord(":")))
            bare &= ~_is_care(array, text, known)
        if bare.any():
            known.normalizer.note_bare(int(bare.sum()), array[int(np.argmax(bare))].as_py())
        if rooted.any() or bare.any():
            joined = rooted | bare
            before: pa.Array | str = site
            if not rooted.all():
                before = pc.if_else(pa.array(bare), f"{site}/", pc.if_else(pa.array(rooted), site, ""))
            base = pc.binary_join_element_wise(before, base, "")
            lengths = lengths + np.where(bare, len(site) + 1, np.where(rooted, len(site), 0))
            clean |= joined
    return base, clean & (lengths <= limits.LOC_LENGTH), colons


def _is_care(array: pa.Array, text: Text, known: _Pass) -> np.ndarray:
    """Return a mask of the rows without a leading slash that may be no addresses: all if `bare` is false."""
    values = known.normalizer.values
    if values is None or not values.bare:
        return np.ones(len(array), np.bool_)
    found = np.zeros(len(array), np.bool_)
    # What must be encoded is encoded by now.
    for beginning in (*(_ASCII.sub("%", host) for host in known.normalizer.hosts), "http/", "https/"):
        found |= np.asarray(pc.starts_with(array, pattern=beginning, ignore_case=True).fill_null(False))
    if values.column is not None:
        column = spell(values.column)
        if (text.lengths == len(column)).any():
            found |= np.asarray(pc.equal(array, column).fill_null(False))
    return found


def _suspicious(array: pa.Array, found: Findings, known: _Pass) -> np.ndarray:
    """Return a mask of the rows in which a second scheme may begin. `array`: as the source has it."""
    values = known.normalizer.values
    assert values is not None
    text = Text.of(array)
    mask = text.rows_at(found.pairs) if len(found.pairs) else np.zeros(len(array), np.bool_)
    at = np.flatnonzero(text.data[:-1] == ord(":"))
    after = text.data[at + 1]
    follows = after == ord("/")
    for initial in {name.encode()[0] for name in known.normalizer.hosts}:
        follows |= (after | 0x20) == initial | 0x20
    at = at[follows]
    if len(at):
        starts = text.starts[np.searchsorted(text.starts, at, "right") - 1]
        mask |= text.rows_at(at[(at - starts >= len("https:")) | (text.data[starts] == ord("/"))])
    if mask.any():
        some = pc.match_substring_regex(array.filter(pa.array(mask)), values.suspicious)
        mask[mask] = np.asarray(some.fill_null(False))
    return mask


def _prefixes(array: pa.Array, known: _Pass) -> Iterable[tuple[str, str]]:
    """Yield the beginnings that rows can have, each with its canonical origin."""
    if known.site is None or not known.origins:
        yield from _guessed(array)
        return
    for origin in known.origins:
        yield f"{origin}/", known.site
    for origin in known.origins:
        if origin.rpartition(":")[0] in {"http", "https"}:  # no port of its own
            yield f"{origin}:{443 if origin.startswith('https') else 80}/", known.site


def _guessed(array: pa.Array) -> Iterable[tuple[str, str]]:
    """Return the origins of the first rows that begin with a new one."""
    normalizer = Normalizer()
    left = pc.fill_null(pc.starts_with(array, pattern="http"), False)
    for _ in range(_GUESSES):
        at = pc.index(left, True).as_py()
        if at < 0:
            return
        try:
            origin = normalizer.parse(array[at].as_py())[0]
        except (Rejected, UnicodeDecodeError):
            origin = ""
        if not origin or not array[at].as_py().startswith(f"{origin}/"):
            return  # its neighbors are probably as odd: they are normalized one by one
        yield f"{origin}/", origin
        left = pc.and_not(left, pc.starts_with(array, pattern=f"{origin}/").fill_null(False))


def _mend(array: pa.Array, care: np.ndarray, base: pa.Array, changed: np.ndarray, known: _Pass) -> _Part:
    """Return the rows of `base`, with those of `care` normalized one by one and nulls as missing."""
    codes = np.full(len(array), -1, np.int8)
    if array.null_count:
        codes[np.asarray(array.is_null())] = _CODES["missing loc"]
    at = np.flatnonzero(care)
    changed[at] = False
    parts = [pa.array([], pa.string())]
    for begin in range(0, len(at), _MENDED_ROWS):
        rows = at[begin : begin + _MENDED_ROWS]
        parts.append(_mend_rows(array.take(pa.array(rows)), rows, codes, changed, known))
    normalized = pa.concat_arrays(parts)
    base = normalized if len(at) == len(array) else pc.replace_with_mask(base, pa.array(care), normalized)
    return _Part(base, codes, int((changed & (codes < 0)).sum()))


def _mend_rows(array: pa.Array, rows: np.ndarray, codes: np.ndarray, changed: np.ndarray, known: _Pass) -> pa.Array:
    """Return these rows normalized; `codes` and `changed` are given at the places `rows`."""
    normalize = known.normalizer.normalize
    site_length = 0 if known.site is None else len(known.site)
    locs: list[str | None] = []
    for row, text in zip(rows.tolist(), _read(array), strict=True):
        try:
            loc = normalize(text if isinstance(text, str) else _decoded(text))
        except Rejected as rejected:
            codes[row] = _CODES[rejected.args[0]]
            locs.append(None)
            continue
        locs.append(loc)
        if loc != text and loc[site_length:] != text and loc[site_length + 1 :] != text:
            changed[row] = True
    return pa.array(locs, pa.string())


def _read(array: pa.Array) -> Sequence[str | bytes]:
    """Return the rows as Python text, or as bytes if a row is not valid UTF-8."""
    try:
        values: list[str | bytes] = array.to_pylist()
    except UnicodeDecodeError:
        values = array.view(pa.large_binary() if pa.types.is_large_string(array.type) else pa.binary()).to_pylist()
    return values


def _decoded(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise Rejected("not UTF-8") from None


def merge_foreign(counts: Iterable[dict[str, int]]) -> dict[str, int]:
    """Return the counts of several results as one, most first."""
    total: Counter[str] = Counter()
    for each in counts:
        total.update(each)
    return dict(total.most_common(_FOREIGN_KEPT))
