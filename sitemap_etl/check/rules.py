"""The robots.txt files of a check: given ones, and those of the hosts that are asked."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock

from sitemap_etl.check.read import Reading
from sitemap_etl.check.report import Finding
from sitemap_etl.check.settle import Robots
from sitemap_etl.check.sources import Source
from sitemap_etl.robots import RobotsRules
from sitemap_etl.urls import origin

_UNKNOWN = ""
"""Stands for the host of a robots.txt that was given without an address."""


class Rules:
    """What robots.txt files say. Safe for use by several threads.

    `fetch` reads the robots.txt of an origin; None where hosts are not to be asked. `asked` are the origins
    that the check deals with. `fetched` and `findings` are what asking brought.
    """

    def __init__(self, fetch: Callable[[str], tuple[Source, Reading]] | None) -> None:
        self.robots: list[Robots] = []
        self.fetched: list[Reading] = []
        self.findings: list[Finding] = []
        self.asked: set[str] = set()
        self._fetch = fetch
        self._known: dict[str, RobotsRules | None] = {}
        self._lock = Lock()

    def keep(self, source: Source, reading: Reading) -> None:
        """Take the rules of a robots.txt that was read."""
        site = origin(source.address) if source.address is not None else None
        assert reading.robots is not None
        named = frozenset(listed.url for listed in reading.listed)
        self.robots.append(Robots(source.name, reading.robots, site, named))
        self._known[site or _UNKNOWN] = RobotsRules(reading.robots)
        reading.robots = None

    def of(self, where: str) -> RobotsRules | None:
        """The rules for an origin: of a robots.txt that was given, else of its own where the origin is one we ask."""
        with self._lock:
            if where in self._known:
                return self._known[where]
            if _UNKNOWN in self._known:
                return self._known[_UNKNOWN]
            if where in self.asked:
                self._ask(where)
            return self._known.get(where)

    def ask(self, where: str) -> None:
        """Fetch the robots.txt of an origin that others list pages of, once. How it answers is not told."""
        with self._lock:
            if where not in self._known:
                self._ask(where, ours=False)

    def _ask(self, where: str, *, ours: bool = True) -> None:
        if self._fetch is None:
            return
        source, reading = self._fetch(where)
        self._known[where] = None
        if reading.status:
            if ours and not _is_refused(reading):
                self.findings.append(Finding("robots-unavailable", source.name, detail=reading.findings[-1].detail))
            return
        self.fetched.append(reading)
        if reading.robots is not None:
            self.keep(source, reading)


def _is_refused(reading: Reading) -> bool:
    """Whether the answer was 4xx: to a crawler that means there are no rules (RFC 9309 section 2.3.1.3)."""
    return any(
        f.code == "http-status" and f.detail.startswith("status 4") and f.detail != "status 429"
        for f in reading.findings
    )
