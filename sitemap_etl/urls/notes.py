"""Notes on addresses that are listed, but are probably mistakes.

Buffers are searched for the bytes that such addresses have. Patterns are applied only if some are found.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sitemap_etl.arrow import bytes_of, count_after, mask_of, occurs, single
from sitemap_etl.urls.rules import UrlRules
from sitemap_etl.urls.scan import encode

NOTES: Final = {
    "loc with &amp;": "It was escaped before it was written: & is published as &amp;amp;, another address.",
    "loc with a template": "A value was missing, or a template was not filled in: /undefined, /[slug], /{{ handle }}.",
    "loc in scientific notation": "A spreadsheet shortened a number, such as 9.9E+15: different pages become one.",
    "loc with a route behind #": "What follows # is dropped, so that all routes become one page.",
    "loc in a wrong encoding": "UTF-8 was read in another encoding, such as Ã¼ for ü.",
    "loc percent-encoded twice": "An escape was escaped again, such as %25C3 for %C3.",
    "loc with an empty segment": "Two slashes follow each other in the path: often a slug was empty.",
    "loc with the host in its path": "A segment of the path is the host of the site.",
    "loc with a backslash": "Backslashes before the query are listed as slashes.",
    "loc with an escaped backslash": "Most likely a path of Windows was escaped: %5C is not a slash to browsers.",
}
"""Every note, with what it means."""

_WRONG_ENCODING: Final = "loc in a wrong encoding"
_OPEN, _CLOSE, _PERCENT = r"(?:%7B|%7b|\{)", r"(?:%7D|%7d|\})", "(?:%25|%)"
_TEMPLATE: Final = (
    r"[^/:][/=](?:(?:undefined|null|NaN|None|(?:%5[Bb]|\[)object(?:%20|\+| )\w+(?:%5[Dd]|\])"
    rf"|:[A-Za-z_]\w*|\$[A-Za-z_]\w*|{_PERCENT}[sd])(?:[/?#&]|$)"
    r"|(?:%5[Bb]|\[)+(?:\.\.\.)?[A-Za-z_]\w*(?:%5[Dd]|\])+(?:[/?#&]|$))"
    rf"|\${_OPEN}|{_OPEN}{_OPEN}|{_OPEN}[A-Za-z_]\w*{_CLOSE}|{_OPEN}{_PERCENT}|%25{_OPEN}|%{_OPEN}"
    rf"|%25\(\w+\)[sd]|{_OPEN}\$[A-Za-z_]|(?:%3[Cc]|<)(?:\?(?:php|=)|{_PERCENT})|(?:%3[Cc]|<)[A-Za-z_][\w:]*(?:%3[Ee]|>)"
)
"""Words for a missing value, and what frameworks, templates and format strings leave: encoded or as it is."""
_SCIENTIFIC: Final = r"[/=\-_][0-9](?:[.,][0-9]+)?[Ee](?:\+|%2B)[0-9]{2,3}(?:[/?&.\-_]|$)"
_NUMERIC: Final = "&#(?:0*38|[Xx]0*26);"
_FOLLOWS: Final = r"(?:%C2%[89AB].|%C5%(?:9[23]|A[01]|B[8DE])|%C6%92|%CB%(?:86|9C)|%E2%8[0-4]%..)"
"""A byte within a character of UTF-8 that was read as Windows-1252."""
_MOJIBAKE: Final = (
    r"%C3%8[23](?:%C2%[89AB]|%C5%[92B]|%C6%92|%CB%|%E2%8[0-4])|%C3%A2%E2%82%AC|%E2%88%9A%C[23]%|%C3%AF%C2%BB%C2%BF"
    rf"|(?:%C3%[89].{_FOLLOWS}){{2}}|(?:%C3%A[3-9]{_FOLLOWS}{{2}}){{2}}"
)
"""A Latin letter, the byte order mark, or two letters of another script."""
_TWICE: Final = r"%25(?:[2-7][0-9A-F]|[89A-F][0-9A-F])"
_AFTER_SLASH: Final = (b":", b"$", b"unde", b"null", b"None", b"NaN")
"""What can begin a template after a slash, if nothing in it is encoded."""


def noted(locs: pa.Array, raw: pa.Array | pa.ChunkedArray, rules: UrlRules | None) -> Iterator[tuple[str, np.ndarray]]:
    """Yield each note that applies to one of the addresses, and a mask of those (bool).

    `locs`: canonical, none null. `raw`: the same as the source has them. `rules`: of pages; None for URLs of any host.
    """
    found: dict[str, np.ndarray] = {}
    for note, mask in _each(locs, single(raw), rules):
        found[note] = mask | found[note] if note in found else mask
    yield from found.items()


def _each(locs: pa.Array, written: pa.Array, rules: UrlRules | None) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the notes on the source text and on the addresses. The same note can occur twice."""
    if not written.type.equals(locs.type) and not pa.types.is_large_string(written.type):
        written = written.cast(pa.string())
    if not written.equals(locs):
        source = bytes_of(written)
        if rules is not None and occurs(source, ord("#")):
            yield from _found("loc with a route behind #", written, "#!?/")
            yield from _found("loc with &amp;", written, _NUMERIC)
            yield from _found("loc with a template", written, r"#\{[A-Za-z_]")
        if occurs(source, ord("\\")):
            yield from _found("loc with a backslash", written, r"^[^?#]*\\")
    yield from suspected(locs, None if rules is None else rules.site)


def suspected(locs: pa.Array, site: str | None) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the notes that apply to absolute URLs, and for each a mask of those (bool).

    `site`: their origin, or None if they can be on any host, whose paths often have a host in them.
    """
    if not pc.all(pc.string_is_ascii(locs)).as_py():
        yield from _found(_WRONG_ENCODING, encode(locs), _MOJIBAKE)
    elif occurs(bytes_of(locs), ord("%")):
        yield from _found(_WRONG_ENCODING, locs, _MOJIBAKE)
    for note, pattern in _patterns(locs, site):
        yield from _found(note, locs, pattern)


def _patterns(locs: pa.Array, site: str | None) -> Iterator[tuple[str, str]]:
    """Yield the notes that may apply, each with its pattern."""
    data = bytes_of(locs)
    is_escaped = occurs(data, ord("%"))
    if occurs(data, ord("&")):
        yield "loc with &amp;", "(?i)&amp;"
    if occurs(data, ord("+")):
        yield "loc in scientific notation", _SCIENTIFIC
    if is_escaped:
        yield "loc percent-encoded twice", _TWICE
        yield "loc with an escaped backslash", "^[^?#]*%5[Cc]"
    host = "" if site is None else site.partition("//")[2].partition(":")[0].removeprefix("www.")
    beginnings = (host[:4].encode(), b"www.") if host else ()
    pairs, *after = count_after(data, ord("/"), (b"/", *beginnings, *_AFTER_SLASH))
    of_hosts, left_over = sum(after[: len(beginnings)]), sum(after[len(beginnings) :])
    if is_escaped or left_over or any(occurs(data, code) for code in b"=[{<"):
        yield "loc with a template", _TEMPLATE
    if pairs > len(locs):
        yield "loc with an empty segment", r"^[A-Za-z]+://[^/?#]*(?:/[^?#]*[^:?#])?//"
    if host and of_hosts > len(locs):
        yield "loc with the host in its path", rf"^[a-z]+://[^/]+/(?:[^?]*/)?(?:www\.)?{re.escape(host)}(?:[/?]|$)"


def made_of_no_address(locs: pa.Array, site: str) -> np.ndarray:
    """Return a mask of the absolute URLs that were made of values that are not addresses (`values.Values`): bool."""
    host = re.escape(site.partition("//")[2].partition(":")[0].removeprefix("www."))
    end = rf"(?:www\.)?{host}\.?(?:[/:?#]|$)"
    pattern = (
        rf"^[a-z]+://[^/?#]+/+(?:[A-Za-z][A-Za-z0-9+.\-]*://{end}|[htps]{{3,7}}(?::/*|[;.,]?//+){end}"
        r"|(?:%3[Cc]|<)/?[a-z]+(?:%20| |/|%3[Ee])|(?:%5[Bb]|\[)[^?#]*(?:%5[Dd]|\])\(|(?:%22|\")|=[A-Za-z][\w.]*\("
        r"|\([0-9][0-9,.]*(?:%20| )rows?\)$|-+(?:\+-+)*$)"
    )
    found = mask_of(pc.match_substring_regex(locs, pattern))
    if int(np.count_nonzero(bytes_of(locs) == ord(":"))) > len(locs):
        several = r"^[a-z]+://[^?#]*(?:%20|%7[Cc]|%C2%A0|[\s,;|])https?:/"
        found |= mask_of(pc.match_substring_regex(locs, several))
    return found


def _found(note: str, texts: pa.Array, pattern: str) -> Iterator[tuple[str, np.ndarray]]:
    mask = mask_of(pc.match_substring_regex(texts, pattern))
    if mask.any():
        yield note, mask
