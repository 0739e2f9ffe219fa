"""Groups of a robots.txt, which assign rules to crawlers (RFC 9309, 2.2.1 and 2.2.4).

A group is one or more `User-agent` lines and the `Allow` and `Disallow` lines that follow. Only such a rule ends the
list of agents. Other lines, such as `Crawl-delay` and `Sitemap`, have no influence on groups.
"""

from __future__ import annotations

import math
import re
from typing import Final

from sitemap_etl.frozen import Frozen
from sitemap_etl.robots.lines import Field, read_lines, read_part

EVERYONE: Final = "*"
"""Agent of the rules for crawlers without their own group."""
_EVERYONE: Final = re.compile(rb"\*(?:\s|\Z)")
_TOKEN: Final = re.compile(rb"[A-Za-z_-]*")


class Rule(Frozen):
    """An `Allow` or `Disallow` line. `pattern`: as it was written, not empty."""

    allows: bool
    pattern: bytes


class Groups:
    """The rules and delays of a robots.txt, by product token in lower case.

    Only the 500 KiB that crawlers read count. All groups of one agent are one group.
    """

    def __init__(self, robots_txt: bytes) -> None:
        self._groups: dict[str, list[list[Rule]]] = {}  # agents of one group share its list
        self._delays: dict[str, float] = {}
        group: list[Rule] = []
        delayed: list[str] = []
        before = None
        in_rules = False
        for line in read_lines(read_part(robots_txt)):
            if line.field is Field.SITEMAP:
                continue
            if line.field is Field.AGENT:
                if in_rules:
                    group, in_rules = [], False
                if before is not Field.AGENT:
                    delayed = []
                agent = _token(line.value)
                delayed.append(agent)
                groups = self._groups.setdefault(agent, [])
                if not groups or groups[-1] is not group:
                    groups.append(group)
            elif line.field is Field.DELAY:
                # Crawlers that obey it apply it to the agents right above it, so it doesn't spread over a group.
                seconds = _seconds(line.value)
                self._delays.update({} if seconds is None else dict.fromkeys(delayed, seconds))
            else:
                in_rules = True
                if line.value:
                    group.append(Rule(line.field is Field.ALLOW, line.value))
            before = line.field

    def rules_of(self, agent: str) -> list[Rule]:
        """Return the rules for a product token such as "Googlebot": of its own group, otherwise of the group `*`."""
        return [rule for group in self._groups.get(self._group_of(agent), ()) for rule in group]

    def delay_of(self, agent: str) -> float:
        """Return the seconds between two requests that a `Crawl-delay` asks of a product token, or 0."""
        return self._delays.get(self._group_of(agent), 0.0)

    def _group_of(self, agent: str) -> str:
        token = agent.lower()
        return token if token in self._groups else EVERYONE


def _token(value: bytes) -> str:
    """Return the product token of a `User-agent` line, "" if it has none. What follows the token is ignored."""
    if _EVERYONE.match(value):
        return EVERYONE
    found = _TOKEN.match(value)
    assert found is not None
    return found[0].decode().lower()


def _seconds(value: bytes) -> float | None:
    """Return the value of a `Crawl-delay` line, or None if it is not a time."""
    try:
        seconds = float(value)
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None
