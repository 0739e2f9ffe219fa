"""Judge a page by its status, headers and markup, with pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from email.utils import parsedate_to_datetime
from typing import Final, Literal
from urllib.parse import urljoin

from sitemap_etl.frozen import Frozen
from sitemap_etl.pages.agents import Agent
from sitemap_etl.pages.markup import Markup, words_of
from sitemap_etl.urls import canonical_url

Kind = Literal["status", "redirects", "noindex", "canonical-elsewhere", "blocked-by-robots", "soft-404"]

FAULTS: Final[Mapping[Kind, str]] = {
    "status": "error status",
    "redirects": "redirect",
    "noindex": "noindex",
    "canonical-elsewhere": "another page is canonical",
    "blocked-by-robots": "disallowed by robots.txt",
    "soft-404": "same answer as an address that does not exist",
}
"""Reasons why a page should not be listed."""

_RETRY: Final = frozenset({408, 425, 429})
_SAME: Final = 0.9
"""Share of common neighboring words from which two pages have the same content."""
_SPEAKING: Final = 20
"""Words below which a page is not compared, because scripts probably load its content."""
_AT_ONCE: Final = 3_600
"""Seconds between Last-Modified and Date up to which the page was generated for the answer."""
_VALUED: Final = frozenset({"unavailable_after", "max-snippet", "max-image-preview", "max-video-preview"})
"""Directives of an X-Robots-Tag that have a value. Any other text before a colon is the name of a crawler."""


class Fault(Frozen):
    """Problem of a page, with a detail."""

    kind: Kind
    detail: str = ""


def is_unknown(status: int) -> bool:
    """Return True if the status leaves the page's state unknown, because it can change soon."""
    return status in _RETRY or status >= 500 or status < 200


def is_refusal(status: int) -> bool:
    """Return True if the status can depend on the client instead of the page."""
    return status in (401, 403, 406, 451)


def header_faults(loc: str, url: str, headers: Mapping[str, str], agent: Agent) -> Iterator[Fault]:
    """Yield the faults in the headers of a page that is listed as `loc`. `url` is the address that answered."""
    said = headers.get("x-robots-tag", "")
    if said and _forbids(_tags(said, agent.metas)):
        yield Fault("noindex", f"X-Robots-Tag: {said[:200]}")
    yield from _elsewhere(loc, url, list(_canonical_links(headers.get("link", ""))), "Link")


def markup_faults(loc: str, url: str, page: Markup, agent: Agent) -> Iterator[Fault]:
    """Yield the faults in the markup of a page that is listed as `loc`. `url` is the address that answered."""
    for name, content in page.robots:
        if name in agent.metas and _forbids(content.split(",")):
            yield Fault("noindex", f'<meta name="{name}" content="{content[:200]}">')
            break
    base = joined(url, page.base)
    if page.refresh and (to := _spelled(joined(base, page.refresh))) and to != _spelled(url):
        yield Fault("redirects", f'<meta http-equiv="refresh"> to {to[:200]}')
    yield from _elsewhere(loc, base, page.canonicals, '<link rel="canonical">')


def says_the_same(page: Markup, other: Markup, *addresses: str) -> bool:
    """Return True if two pages have the same content, except for numbers and the words of their addresses.

    Most words around a product are the same on all pages. So at most one word can be on only one of the pages.
    """
    own = frozenset(word for address in addresses for word in words_of(address))
    if len(page.words) + len(page.around) < _SPEAKING or _without(words_of(page.title), own) != _without(
        words_of(other.title), own
    ):
        return False
    one, two = (frozenset(_without((*each.words, *each.around), own)) for each in (page, other))
    if len(one - two) > 1 or len(two - one) > 1:
        return False
    first, second = page.shingles(own), other.shingles(own)
    return len(first & second) >= _SAME * len(first | second)


def modified(headers: Mapping[str, str]) -> int | None:
    """Return the Last-Modified of a page in epoch seconds, or None if it is the time of the answer."""
    changed, now = (_moment(headers.get(name, "")) for name in ("last-modified", "date"))
    if changed is None or (now is not None and now - changed < _AT_ONCE):
        return None
    return changed


def slash_advice(loc: str, target: str) -> str:
    """Return the rule that lists the target of a redirect, if it differs only in the slash at the end of its path."""
    (path, *query), (to, *to_query) = loc.split("?", 1), target.split("?", 1)
    if query != to_query or path.removesuffix("/") != to.removesuffix("/") or path == to:
        return ""
    return f", which only differs in the slash. To list that form: urls: {{slash: {'add' if to > path else 'strip'}}}"


def _moment(text: str) -> int | None:
    try:
        return int(parsedate_to_datetime(text).timestamp())
    except (ValueError, TypeError, OverflowError, OSError):
        return None


def _without(said: Iterable[str], words: frozenset[str]) -> list[str]:
    return [word for word in said if word not in words and not any(map(str.isdigit, word))]


def _forbids(directives: Sequence[str]) -> bool:
    return any(directive.strip().lower() in ("noindex", "none") for directive in directives)


def _tags(said: str, metas: frozenset[str]) -> list[str]:
    """Return the directives of an X-Robots-Tag that hold for these names. One without a name holds for everyone."""
    found: list[str] = []
    here = True
    for part in said.split(","):
        name, colon, rest = part.partition(":")
        directive = part
        if colon and name.strip().lower() not in _VALUED:
            here, directive = name.strip().lower() in metas, rest
        if here:
            found.append(directive)
    return found


def joined(base: str, target: str) -> str:
    """Return the address that `target` refers to on the page `base`, or "" if it is invalid."""
    try:
        return urljoin(base, target)
    except ValueError:
        return ""


def _elsewhere(loc: str, base: str, targets: Sequence[str], where: str) -> Iterator[Fault]:
    """Yield a fault if the canonical address is another page. Contradicting addresses are ignored, as engines do."""
    spelled = {_spelled(joined(base, target)) for target in targets} - {""}
    if len(spelled) == 1 and _spelled(loc) not in {*spelled, ""}:
        yield Fault("canonical-elsewhere", f"{where}: {min(spelled)[:200]}")


def _spelled(url: str) -> str:
    """Return the canonical spelling of an address without its fragment, or "" if it is invalid."""
    try:
        return canonical_url(url.partition("#")[0])
    except ValueError:
        return ""


def _canonical_links(header: str) -> Iterator[str]:
    """Yield the targets of a Link header (RFC 8288) with the relation canonical."""
    for link in _split(header, ","):
        target, *parameters = _split(link, ";")
        if not (target.startswith("<") and target.endswith(">")):
            continue
        for parameter in parameters:
            name, _, value = parameter.partition("=")
            if name.strip().lower() == "rel" and "canonical" in value.strip().strip('"').lower().split():
                yield target[1:-1].strip()
                break


def _split(text: str, by: str) -> list[str]:
    """Split the text at the separator, except in quotes or in <…>."""
    parts, begin, closing = [], 0, ""
    for at, character in enumerate(text):
        if closing:
            closing = "" if character == closing else closing
        elif character in '"<':
            closing = '"' if character == '"' else ">"
        elif character == by:
            parts.append(text[begin:at].strip())
            begin = at + 1
    return [*parts, text[begin:].strip()]
