"""What an answer says about a page: pure rules over a status, headers and markup."""

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
"""What makes a page no page to list."""

_RETRY: Final = frozenset({408, 425, 429})
_SAME: Final = 0.9
"""Share of the neighbouring words of two pages, from which on they say the same."""
_SPEAKING: Final = 20
"""Words below which a page says too little to be compared: its content may come by script."""
_AT_ONCE: Final = 3_600
"""Seconds between Last-Modified and Date up to which a page was made for the answer."""
_VALUED: Final = frozenset({"unavailable_after", "max-snippet", "max-image-preview", "max-video-preview"})
"""Directives of an X-Robots-Tag that have a value: what else stands before a colon names a crawler."""


class Fault(Frozen):
    """What is wrong with a page; `detail` says more than its kind."""

    kind: Kind
    detail: str = ""


def is_unknown(status: int) -> bool:
    """Whether an answer says nothing about the page: it may be another one in a minute."""
    return status in _RETRY or status >= 500 or status < 200


def is_refusal(status: int) -> bool:
    """Whether an answer may be about who asks rather than about the page."""
    return status in (401, 403, 406, 451)


def header_faults(loc: str, url: str, headers: Mapping[str, str], agent: Agent) -> Iterator[Fault]:
    """What the headers of a page that is there say against listing it as `loc`. `url`: where it answered."""
    said = headers.get("x-robots-tag", "")
    if said and _forbids(_tags(said, agent.metas)):
        yield Fault("noindex", f"X-Robots-Tag: {said[:200]}")
    yield from _elsewhere(loc, url, list(_canonical_links(headers.get("link", ""))), "Link")


def markup_faults(loc: str, url: str, page: Markup, agent: Agent) -> Iterator[Fault]:
    """What the markup of a page says against listing it as `loc`. `url`: where it answered."""
    for name, content in page.robots:
        if name in agent.metas and _forbids(content.split(",")):
            yield Fault("noindex", f'<meta name="{name}" content="{content[:200]}">')
            break
    base = joined(url, page.base)
    if page.refresh and (to := _spelled(joined(base, page.refresh))) and to != _spelled(url):
        yield Fault("redirects", f'<meta http-equiv="refresh"> to {to[:200]}')
    yield from _elsewhere(loc, base, page.canonicals, '<link rel="canonical">')


def says_the_same(page: Markup, other: Markup, *addresses: str) -> bool:
    """Whether two pages say the same, apart from the words of their addresses and from numbers.

    The words around a product are many and always the same, so those of its own are what counts: there may be one.
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
    """When a page last changed by its Last-Modified, in epoch seconds; None where the moment is that of the answer."""
    changed, now = (_moment(headers.get(name, "")) for name in ("last-modified", "date"))
    if changed is None or (now is not None and now - changed < _AT_ONCE):
        return None
    return changed


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
    """The directives of an X-Robots-Tag that hold for these names. One without a name holds for everyone."""
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
    """The address that `target` means on the page `base`; "" where it means none."""
    try:
        return urljoin(base, target)
    except ValueError:
        return ""


def _elsewhere(loc: str, base: str, targets: Sequence[str], where: str) -> Iterator[Fault]:
    """The canonical address of a page if it is another one. Of several that differ, engines believe none."""
    spelled = {_spelled(joined(base, target)) for target in targets} - {""}
    if len(spelled) == 1 and _spelled(loc) not in {*spelled, ""}:
        yield Fault("canonical-elsewhere", f"{where}: {min(spelled)[:200]}")


def _spelled(url: str) -> str:
    """The canonical spelling of an address without its fragment; "" of none."""
    try:
        return canonical_url(url.partition("#")[0])
    except ValueError:
        return ""


def _canonical_links(header: str) -> Iterator[str]:
    """The targets of a Link header (RFC 8288) whose relation is canonical."""
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
    """The text at its separators, apart from those in quotes or in <…>."""
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
