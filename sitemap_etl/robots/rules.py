"""Find the URLs that a robots.txt disallows, for columns of canonical URLs and for single ones.

The longest rule that matches decides, and `Allow` wins a tie (RFC 9309, 2.2.2). Results equal Google's parser
(https://github.com/google/robotstxt), except for escapes. RFC 9309 compares them decoded: "Disallow: /a%2Cb" matches
"/a,b" too. The delimiters "/", "?" and "#" differ from their escapes.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import groupby
from operator import itemgetter
from typing import Final

import numpy as np
import pyarrow as pa

from sitemap_etl import limits
from sitemap_etl.arrow import mask_of
from sitemap_etl.robots.groups import EVERYONE, Groups, Rule
from sitemap_etl.urls.patterns import Expression, matched
from sitemap_etl.urls.spelling import spell

_PARTS: Final = re.compile(rb"%[0-9A-Fa-f]{2}|[\s\S]")
_PLAIN: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
"""RFC 3986's unreserved characters. A canonical URL never escapes them."""
_DELIMITERS: Final = frozenset(b"/?#")
_ALTERNATIVE: Final = frozenset(b"!$&'()*+,;=:@[]")
"""Characters that a canonical URL can contain plain or escaped."""
_PAGES: Final = b"/index.htm"
"""Beginning of the name of an index page. If Google's parser allows such a page, it allows its folder too."""
_HOST: Final = "https://host.invalid"
_AUTHORITY: Final = re.compile(r"\A[^/?]*//[^/?]*")
_ITSELF: Final = Expression("/robots.txt", "$")
"""robots.txt itself, which is always allowed (RFC 9309, 2.2.2)."""


class RobotsRules:
    """The rules of a robots.txt for one crawler, applied to columns of URLs.

    `agent`: a product token such as "Googlebot"; "*" for the rules for all crawlers.
    """

    def __init__(self, robots_txt: bytes, agent: str = EVERYONE) -> None:
        self._rules = _Rules(Groups(robots_txt).rules_of(agent))

    def disallowed(self, locs: pa.Array | pa.ChunkedArray, *, most: int | None = None) -> pa.BooleanArray:
        """Return for each canonical URL whether it must not be fetched. A null is not disallowed.

        `most` limits the number of rows times rules, for files with thousands of rules from untrusted sites. Rows
        beyond the limit are not disallowed.
        """
        return self._rules.disallowed(locs, most=most)


class CrawlRules:
    """The rules of a robots.txt for a program that asks for single URLs, canonical or not."""

    def __init__(self, robots_txt: bytes) -> None:
        self._groups = Groups(robots_txt)
        self._rules: dict[str, _Rules] = {}

    def allows(self, url: str, agent: str) -> bool:
        """Return True if this agent (a product token such as "Googlebot") may fetch a URL."""
        rules = self._rules.get(agent)
        if rules is None:
            rules = self._rules.setdefault(agent, _Rules(self._groups.rules_of(agent)))
        return not rules.disallowed(pa.array([_canonical(url)]))[0].as_py()

    def delay(self, agent: str) -> float:
        """Return the seconds between two requests that it asks of this agent, or 0."""
        return self._groups.delay_of(agent)


def disallowed(locs: pa.Array | pa.ChunkedArray, robots_txt: bytes, agent: str = EVERYONE) -> pa.BooleanArray:
    """Return for each canonical URL whether this robots.txt disallows it to the agent. A null is not disallowed."""
    return _read_rules(robots_txt, agent).disallowed(locs)


@lru_cache(maxsize=8)
def _read_rules(robots_txt: bytes, agent: str) -> RobotsRules:
    """Return the rules of a file. Each batch of a section asks for the same ones."""
    return RobotsRules(robots_txt, agent)


class _Rules:
    """Rules of one group, the longest first."""

    def __init__(self, rules: list[Rule]) -> None:
        ranks = {(_length(rule.pattern), rule.allows, rule.pattern) for rule in [*rules, *_folders(rules)]}
        ordered = [
            (allows, _expression(pattern)) for _, allows, pattern in sorted(ranks, reverse=True) if _can_match(pattern)
        ]
        self._count = len(ordered)
        self._disallow = [expression for allows, expression in ordered if not allows]
        self._steps = [
            (allows, [expression for _, expression in run])
            for allows, run in groupby([(True, _ITSELF), *ordered], key=itemgetter(0))
        ]

    def disallowed(self, locs: pa.Array | pa.ChunkedArray, *, most: int | None = None) -> pa.BooleanArray:
        mask = mask_of(matched(locs, self._disallow))
        at = np.flatnonzero(mask)
        if most is not None:
            at = at[: max(1, most // max(1, self._count))]
        result = np.zeros(len(mask), bool)
        # Only the few rows that match a disallow rule are left here. The longest rule decides about them.
        for allows, expressions in self._steps:
            if not len(at):
                break
            hits = mask_of(matched(locs.take(pa.array(at)), expressions))
            result[at[hits]] = not allows
            at = at[~hits]
        return pa.array(result)


def _folders(rules: list[Rule]) -> list[Rule]:
    """Return a rule for the folder's address for each allowed page that is the folder's index."""
    found = []
    for rule in rules:
        folder, slash, page = rule.pattern.rpartition(b"/")
        if rule.allows and (slash + page).startswith(_PAGES):
            found.append(Rule(allows=True, pattern=folder + b"/$"))
    return found


def _can_match(pattern: bytes) -> bool:
    """Return False for a pattern that asks for more characters than any URL has. RE2 refuses very long ones."""
    return len(_PARTS.findall(pattern.replace(b"*", b""))) <= limits.LOC_LENGTH


def _length(pattern: bytes) -> int:
    """Return the octets of a pattern, with everything outside of ASCII escaped."""
    return len(pattern) + 2 * sum(byte >= 0x80 for byte in pattern)


def _expression(pattern: bytes) -> Expression:
    """Return an expression for the canonical URLs that a pattern matches."""
    anchored = pattern.endswith(b"$")
    prefix, rest = "", ""
    for part in _PARTS.findall(pattern[:-1] if anchored else pattern):
        if part == b"*":
            literal, regex = "", ".*"
        else:
            literal, regex = _spelling(part)
        if literal and not rest:
            prefix += literal
        elif regex != ".*" or not rest.endswith(".*"):
            rest += regex
    return Expression(prefix, rest + "$" if anchored else rest.removesuffix(".*"))


def _spelling(part: bytes) -> tuple[str, str]:
    """Return a character of a pattern, or an escape, as canonical URLs spell it, and the expression for it.

    The spelling is "" if there are two.
    """
    escaped = len(part) > 1
    code = int(part[1:], 16) if escaped else part[0]
    if code in _ALTERNATIVE:
        return "", f"(?:{re.escape(chr(code))}|%{code:02X})"
    if code in _PLAIN or (code in _DELIMITERS and not escaped):
        return chr(code), re.escape(chr(code))
    return f"%{code:02X}", f"%{code:02X}"


def _canonical(url: str) -> str:
    """Return path and query of a URL, in canonical spelling, on a host that all single URLs share."""
    rest = _AUTHORITY.sub("", url.partition("#")[0])
    return _HOST + spell(rest if rest.startswith("/") else f"/{rest}")
