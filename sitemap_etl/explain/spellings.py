"""Other spellings of a URL, to suggest listed pages. Pure functions."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from typing import Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from sitemap_etl.urls import UrlRules, canonical_url, canonicalize

_WORDS: Final = {
    "scheme": "the scheme",
    "host": "the host",
    "case": "case",
    "slash": "the trailing slash",
    "query": "the query",
    "percent-encoding": "percent-encoding",
}
"""Part of a URL that can differ in a suggested loc → its name in messages."""
_PARTS: Final = re.compile(r"(https?)://([^/?#]*)([^?#]*)(\?[^#]*)?", re.IGNORECASE | re.DOTALL)


def on_site(text: str, rules: UrlRules) -> str | None:
    """Return the URL with the site's scheme and host, or None if `text` is not a URL."""
    for candidate in (text, f"https://{text}", "".join(text.split())):
        try:
            parts = _PARTS.fullmatch(canonical_url(candidate))
        except ValueError:
            continue
        if parts is not None:
            return f"{rules.site}{parts[3]}{parts[4] or ''}"
    joined = canonicalize(pa.array([text.strip()], pa.string()), rules).loc[0].as_py()
    return None if joined is None else str(joined)


def spellings(url: str, rules: UrlRules) -> list[str]:
    """Return canonical URLs that differ from `url` only in spelling, the most similar first.

    `url`: a canonical URL on the site.
    """
    rest = url.removeprefix(rules.site)
    path, mark, query = rest.partition("?")
    paths = [
        (0, path),
        (1, path.rstrip("/") or "/" if path.endswith("/") else f"{path}/"),
    ]
    made: list[tuple[int, str]] = []
    for (slash, stem), lower, plain, bare in itertools.product(paths, (0, 1), (0, 1), (0, 1)):
        if bare and not mark:
            continue
        text = unquote(stem) if plain else stem
        text = text.lower() if lower else text
        tail = "" if bare or not mark else f"?{query}"
        made.append((slash + lower + plain + bare, f"{rules.site}{text}{tail}"))
    ordered = [text for _, text in sorted(made, key=lambda item: item[0])]
    found = canonicalize(pa.array(ordered, pa.string()), rules).loc.drop_null().to_pylist()
    return [loc for loc in dict.fromkeys(found) if loc != url]


def alike(locs: pa.Array, url: str) -> list[str]:
    """Return up to three locs that differ from `url` only in case, trailing slash, query or percent-encoding.

    The most similar is first. `locs` and `url`: canonical, and on the same site.
    """
    wanted = _folded(url)
    folded = pc.utf8_rtrim(pc.replace_substring_regex(pc.utf8_lower(locs), r"\?.*$", ""), "/")
    same = pc.fill_null(pc.equal(folded, wanted), False)
    found = locs.filter(same).to_pylist()
    encoded = locs.filter(pc.and_(pc.invert(same), pc.match_substring(locs, "%")))
    found += [loc for loc in encoded.to_pylist() if _folded(loc) == wanted]  # only locs with escapes, which are few
    return sorted((loc for loc in found if loc != url), key=lambda loc: (len(differences(url, loc)), loc))[:3]


def _folded(url: str) -> str:
    return unquote(url.partition("?")[0]).lower().rstrip("/")


def differences(one: str, other: str) -> list[str]:
    """Return the names of the parts in which two URLs differ, or nothing if they differ in more than spelling."""
    ours, theirs = _PARTS.fullmatch(one), _PARTS.fullmatch(other)
    if ours is None or theirs is None:
        return []
    found = {
        "scheme": ours[1].lower() != theirs[1].lower(),
        "host": ours[2].lower() != theirs[2].lower(),
        "query": (ours[4] or "") != (theirs[4] or ""),
    }
    path, their_path = ours[3], theirs[3]
    found["slash"] = path.endswith("/") != their_path.endswith("/")
    path, their_path = path.rstrip("/"), their_path.rstrip("/")
    plain, their_plain = unquote(path), unquote(their_path)
    found["percent-encoding"] = path.lower() != their_path.lower()
    found["case"] = plain != their_plain or (path != their_path and not found["percent-encoding"])
    if plain.lower() != their_plain.lower():
        return []
    return [name for name in _WORDS if found[name]]


def in_words(differing: Sequence[str]) -> str:
    """Return a phrase such as: the trailing slash and case."""
    words = [_WORDS[name] for name in differing]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
