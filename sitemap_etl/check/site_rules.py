"""Checks that need the whole set: index ↔ files ↔ robots.txt, and URLs outside the scope of their file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set
from dataclasses import dataclass
from datetime import UTC, datetime
from threading import Lock

import pyarrow as pa

from sitemap_etl.check.crawl import Child
from sitemap_etl.check.locs import Away
from sitemap_etl.check.read import Listed, Reading
from sitemap_etl.check.report import Finding, shown
from sitemap_etl.check.sources import Source
from sitemap_etl.dates import DAY
from sitemap_etl.limits import SHARE_FROM
from sitemap_etl.robots import RobotsRules
from sitemap_etl.urls import origin

_UNKNOWN = ""
"""The key of a robots.txt whose host is unknown."""


@dataclass
class Robots:
    """A robots.txt that was read. `site` is its origin, None where only its content is known."""

    file: str
    data: bytes
    site: str | None
    named: frozenset[str]

    def speaks_for(self, where: str) -> bool:
        return self.site is None or self.site == where


class HostRules:
    """What robots.txt files say. Safe for use by several threads.

    `fetch` reads the robots.txt of an origin; it is None if hosts must not be contacted. `asked` are the origins
    that the check deals with, as they become known. `fetched` and `findings` are the results of the requests.
    """

    def __init__(self, fetch: Callable[[str], tuple[Source, Reading]] | None, asked: Set[str]) -> None:
        self.robots: list[Robots] = []
        self.fetched: list[Reading] = []
        self.findings: list[Finding] = []
        self._fetch = fetch
        self._asked = asked
        self._known: dict[str, RobotsRules | None] = {}
        self._lock = Lock()

    def add(self, source: Source, reading: Reading) -> None:
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
            if where in self._asked:
                self._ask(where)
            return self._known.get(where)

    def ask(self, where: str) -> None:
        """Fetch the robots.txt of an origin that others list pages of, once. Failures are not reported."""
        with self._lock:
            if where not in self._known:
                self._ask(where, ours=False)

    def _ask(self, where: str, *, ours: bool = True) -> None:
        if self._fetch is None:
            return
        source, reading = self._fetch(where)
        self._known[where] = None
        if reading.status:
            # To a crawler 4xx means that there are no rules (RFC 9309, 2.3.1.3).
            if ours and not (400 <= reading.answered < 500 and reading.answered != 429):
                self.findings.append(Finding("robots-unavailable", source.name, detail=reading.findings[-1].detail))
            return
        self.fetched.append(reading)
        if reading.robots is not None:
            self.add(source, reading)


@dataclass(frozen=True)
class Site:
    """All readings, in order, and how they hang together. `walked` were found by walking a folder."""

    readings: list[Reading]
    children: list[Child]
    robots: list[Robots]
    walked: set[int]


def site_findings(site: Site, views: set[str]) -> list[Finding]:
    """The findings that no file shows alone. `views`: names of files that show again what others list."""
    return [
        *_lastmods(site, views),
        *_indexes(site),
        *_unlisted(site),
        *_robots(site),
        *_away(site),
    ]


def _lastmods(site: Site, views: set[str]) -> Iterable[Finding]:
    """Equal dates are normal in a view of recent changes, and suspicious in any other file."""
    for reading in site.readings:
        found = reading.lastmods
        if found is None or reading.stats.file in views or reading.news or reading.stats.kind != "urlset":
            continue
        if found.now and found.count >= 3:
            yield Finding("lastmod-is-now", reading.stats.file, None, None, found.example, found.count)
        elif found.same and found.count >= SHARE_FROM:
            yield Finding("lastmod-all-same", reading.stats.file, None, None, found.example, found.count)


def _indexes(site: Site) -> Iterable[Finding]:
    for number, reading in enumerate(site.readings):
        if reading.stats.kind != "index":
            continue
        file = reading.stats.file
        dates = {listed.seconds for listed in reading.listed}
        if len(reading.listed) >= SHARE_FROM and len(dates) == 1 and None not in dates:
            yield Finding(
                "index-lastmod-all-same", file, count=len(reading.listed), example=reading.stats.lastmod_max or ""
            )
        for child in (c for c in site.children if c.parent == number):
            target = site.readings[child.number]
            if target.stats.kind == "index":
                yield Finding("index-nested", file, child.listed.line, None, shown(child.listed.url))
            if _older(child.listed, target):
                assert target.lastmods is not None
                newest = target.lastmods.newest_text
                detail = f"the index says {_text(child.listed)}, a page in the file says {newest}"
                yield Finding("index-lastmod-old", file, child.listed.line, None, shown(child.listed.url), 1, detail)


def _older(listed: Listed, target: Reading) -> bool:
    if listed.seconds is None or target.lastmods is None:
        return False
    slack = 2 * DAY if listed.daily or target.lastmods.newest_daily else 0
    return listed.seconds + slack < target.lastmods.newest


def _text(listed: Listed) -> str:
    when = datetime.fromtimestamp(listed.seconds or 0, UTC)
    return f"{when:%Y-%m-%d}" if listed.daily else f"{when:%Y-%m-%dT%H:%M:%SZ}"


def _unlisted(site: Site) -> Iterable[Finding]:
    """Sitemaps of a folder that neither its indexes nor its robots.txt list. Text and feeds go without an index."""
    listed = {child.number for child in site.children}
    if not any(site.readings[n].stats.kind == "index" for n in site.walked):
        return
    for number in sorted(site.walked - listed):
        if site.readings[number].stats.kind == "urlset":
            yield Finding("file-not-listed", site.readings[number].stats.file)


def _robots(site: Site) -> Iterable[Finding]:
    """Sitemaps that a robots.txt forbids, and indexes that it does not name."""
    listed = {child.number for child in site.children}
    for robots in site.robots:
        rules = RobotsRules(robots.data)
        for number, reading in enumerate(site.readings):
            address, kind = reading.place.address, reading.stats.kind
            if kind in {"robots", "unread"} or not _is_near(robots, address):
                continue
            if address is not None and bool(rules.disallowed(pa.array([address]))[0].as_py()):
                yield Finding("robots-sitemap-disallowed", robots.file, None, None, shown(address))
            if kind == "index" and number not in listed and address not in robots.named:
                example = shown(address or reading.stats.file)
                yield Finding("index-not-in-robots", reading.stats.file, None, None, example, 1, robots.file)


def _is_near(robots: Robots, address: str | None) -> bool:
    """Whether a robots.txt is the one of a file's host; two files given without addresses are of one host."""
    return robots.site is None or (address is not None and origin(address) == robots.site)


def _away(site: Site) -> Iterable[Finding]:
    """URLs on other hosts or above the folder are fine where a robots.txt of their host names the file or its index."""
    parents = {child.number: site.readings[child.parent].place.address for child in site.children}
    for number, reading in enumerate(site.readings):
        for away in reading.place.away:
            names = {reading.place.address, parents.get(number)}
            if any(_vouches(robots, reading, away) and robots.named & names for robots in site.robots):
                continue
            detail = ""
            if away.code == "foreign-host" and reading.place.address:
                detail = f"the URL is on {away.origin}, the file on {origin(reading.place.address)}"
            yield Finding(away.code, reading.stats.file, away.line, None, shown(away.example), away.count, detail)


def _vouches(robots: Robots, reading: Reading, away: Away) -> bool:
    """Whether a robots.txt can say where the sitemaps of the URLs' host are.

    A robots.txt of unknown host counts for the file's own host, and for another one if all URLs of the file are there.
    """
    if robots.site is not None or away.code == "out-of-scope":
        return robots.speaks_for(away.origin)
    return set(reading.place.origins) == {away.origin}
