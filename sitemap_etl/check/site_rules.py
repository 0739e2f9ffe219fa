"""Check the relations of indexes, files and robots.txt, and URLs outside the scope of their file."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Set
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from threading import Lock

import pyarrow as pa

from sitemap_etl.check.crawl import Child
from sitemap_etl.check.place import Away
from sitemap_etl.check.read import Listed, Reading
from sitemap_etl.check.report import DETAILS, Faults, Finding, shown
from sitemap_etl.check.sources import Source
from sitemap_etl.dates import DAY
from sitemap_etl.frozen import Frozen
from sitemap_etl.limits import SHARE_FROM
from sitemap_etl.robots import RobotsRules
from sitemap_etl.urls import origin

_UNKNOWN = ""
"""Key of a robots.txt whose host is unknown."""


@dataclass
class Robots:
    """A robots.txt that was read. `site` is its origin, or None if only its content is known."""

    file: str
    data: bytes
    site: str | None
    named: frozenset[str]

    def speaks_for(self, where: str) -> bool:
        return self.site is None or self.site == where


class HostRules:
    """Rules of robots.txt files, for several threads.

    fetch: reads the robots.txt of an origin; None if hosts must not be contacted.
    asked: the origins of the check, which grow over time.
    fetched, findings: results of the requests.
    agent: the crawler whose rules apply.
    """

    def __init__(
        self, fetch: Callable[[str], tuple[Source, Reading]] | None, asked: Set[str], agent: str = "*"
    ) -> None:
        self.robots: list[Robots] = []
        self.fetched: list[Reading] = []
        self.findings: list[Finding] = []
        self._fetch = fetch
        self._asked = asked
        self._agent = agent
        self._known: dict[str, RobotsRules | None] = {}
        self._turns: dict[str, Lock] = {}
        self._lock = Lock()

    def add(self, source: Source, reading: Reading) -> None:
        """Add the rules of a robots.txt that was read."""
        site = origin(source.address) if source.address is not None else None
        assert reading.robots is not None
        named = frozenset(listed.url for listed in reading.listed)
        self.robots.append(Robots(source.name, reading.robots, site, named))
        self._known[site or _UNKNOWN] = RobotsRules(reading.robots, self._agent)
        reading.robots = None

    def of(self, where: str, served: str = "") -> RobotsRules | None:
        """Return the rules for an origin: of a given robots.txt, or of the origin's own if it is part of the check.

        served: the origin that served the file with the URLs, which is also part of the check.
        """
        if where not in self._known and _UNKNOWN in self._known:
            return self._known[_UNKNOWN]
        if where == served or where in self._asked:
            self._ask(where)
        return self._known.get(where)

    def ask(self, where: str) -> None:
        """Fetch the robots.txt of an origin whose pages other sites list, once. Failures are not reported."""
        self._ask(where, ours=False)

    def _ask(self, where: str, *, ours: bool = True) -> None:
        """Fetch a robots.txt unless it is known. Threads wait only for the same robots.txt."""
        if self._fetch is None:
            return
        with self._lock:
            turn = self._turns.setdefault(where, Lock())
        with turn:
            if where not in self._known:
                self._known[where] = self._fetched(where, self._fetch, ours=ours)

    def _fetched(self, where: str, fetch: Callable[[str], tuple[Source, Reading]], *, ours: bool) -> RobotsRules | None:
        source, reading = fetch(where)
        if reading.status:
            # To a crawler 4xx means that there are no rules (RFC 9309, 2.3.1.3).
            if ours and not (400 <= reading.answered < 500 and reading.answered != 429):
                self._tell(source.name, reading.findings[-1].detail)
            return None
        self.fetched.append(reading)
        if reading.robots is not None:
            self.add(source, reading)
        return self._known.get(where)

    def _tell(self, file: str, detail: str) -> None:
        """Report a robots.txt that can't be read. Many hosts share one finding."""
        with self._lock:
            if len(self.findings) < DETAILS:
                self.findings.append(Finding("robots-unavailable", file, detail=detail))
            elif len(self.findings) == DETAILS:
                self.findings.append(Finding("robots-unavailable", file, detail="this one and those of other hosts"))
            else:
                self.findings[-1] = replace(self.findings[-1], count=self.findings[-1].count + 1)


class Site(Frozen):
    """All readings, in order, and how they hang together. `walked` were found by walking a folder."""

    readings: list[Reading]
    children: list[Child]
    robots: list[Robots]
    walked: set[int]


def site_findings(site: Site, views: set[str]) -> list[Finding]:
    """Return the findings that need several files. `views`: names of files that repeat URLs of others on purpose."""
    return [
        *_lastmods(site, views),
        *_undated(site, views),
        *_indexes(site),
        *_unlisted(site),
        *_robots(site),
        *_away(site),
    ]


def _lastmods(site: Site, views: set[str]) -> Iterable[Finding]:
    """Yield suspicious dates. Equal dates are normal in a view of recent changes, but not in other files."""
    for reading in site.readings:
        found = reading.lastmods
        if found is None or reading.stats.file in views or reading.news or reading.stats.kind != "urlset":
            continue
        if found.now and found.count >= 3:
            yield Finding("lastmod-is-now", reading.stats.file, None, None, found.example, found.count)
        elif found.same and found.count >= SHARE_FROM:
            yield Finding("lastmod-all-same", reading.stats.file, None, None, found.example, found.count)


def _undated(site: Site, views: set[str]) -> Iterable[Finding]:
    """Yield one finding if no page of any sitemap has a date, at the first sitemap."""
    files = [r for r in site.readings if r.stats.kind == "urlset" and not r.news and r.stats.file not in views]
    pages = sum(reading.stats.rows for reading in files)
    if pages < SHARE_FROM or not all(reading.is_whole and reading.lastmods is None for reading in files):
        return
    if any(_is_misdated(reading) for reading in files):
        return
    detail = f"in {len(files):,} files" if len(files) > 1 else ""
    yield Finding("lastmod-missing", files[0].stats.file, count=pages, detail=detail)


def _is_misdated(reading: Reading) -> bool:
    """Return True if a file has lastmods, but no valid one."""
    return any(finding.code.startswith("lastmod-") for finding in reading.findings)


def _indexes(site: Site) -> Iterable[Finding]:
    listed_by: dict[int, list[Child]] = defaultdict(list)
    for child in site.children:
        listed_by[child.parent].append(child)
    for number, reading in enumerate(site.readings):
        if reading.stats.kind != "index":
            continue
        file = reading.stats.file
        dates = {listed.seconds for listed in reading.listed}
        if len(reading.listed) >= SHARE_FROM and len(dates) == 1 and None not in dates:
            yield Finding(
                "index-lastmod-all-same", file, count=len(reading.listed), example=reading.stats.lastmod_max or ""
            )
        for child in listed_by[number]:
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
    """Yield sitemaps of a folder that neither its indexes nor its robots.txt list. Text and feeds need no index.

    An index that was read in part could list anything.
    """
    listed = {child.number for child in site.children}
    indexes = [site.readings[n] for n in site.walked if site.readings[n].stats.kind == "index"]
    if not indexes or not all(index.is_whole for index in indexes):
        return
    for number in sorted(site.walked - listed):
        if site.readings[number].stats.kind == "urlset":
            yield Finding("file-not-listed", site.readings[number].stats.file)


def _robots(site: Site) -> Iterable[Finding]:
    """Yield sitemaps that a robots.txt disallows, and indexes that it does not name."""
    listed = {child.number for child in site.children}
    of_site: dict[str | None, list[int]] = defaultdict(list)
    for number, reading in enumerate(site.readings):
        if reading.stats.kind not in {"robots", "unread"}:
            of_site[None].append(number)  # files given without addresses are all of one host
            if reading.place.address is not None:
                of_site[origin(reading.place.address)].append(number)
    for robots in site.robots:
        rules = RobotsRules(robots.data)
        near = [(number, site.readings[number]) for number in of_site[robots.site]]
        public = [reading.place.address for _, reading in near if reading.place.address is not None]
        for address, disallowed in zip(
            public, rules.disallowed(pa.array(public, pa.string())).to_pylist(), strict=True
        ):
            if disallowed:
                yield Finding("robots-sitemap-disallowed", robots.file, None, None, shown(address))
        for number, reading in near:
            where = reading.place.address
            if reading.stats.kind == "index" and number not in listed and where not in robots.named:
                example = shown(where or reading.stats.file)
                yield Finding("index-not-in-robots", reading.stats.file, None, None, example, 1, robots.file)


def _away(site: Site) -> Iterable[Finding]:
    """Yield URLs on other hosts or above the folder, unless a robots.txt of their host names the file or its index."""
    parents = {child.number: site.readings[child.parent].place.address for child in site.children}
    for number, reading in enumerate(site.readings):
        faults = Faults(reading.stats.file)  # there may be as many hosts as URLs
        names = {reading.place.address, parents.get(number)}
        vouching = [robots for robots in site.robots if robots.named & names]
        for away in reading.place.away.values():
            if any(_vouches(robots, reading, away) for robots in vouching):
                continue
            detail = ""
            if away.code == "foreign-host" and reading.place.address:
                detail = f"the URL is on {away.origin}, the file on {origin(reading.place.address)}"
            faults.add(away.code, line=away.line, example=away.example, count=away.count, detail=detail)
        yield from faults.findings()


def _vouches(robots: Robots, reading: Reading, away: Away) -> bool:
    """Return True if a robots.txt applies to the URLs' host.

    A robots.txt of an unknown host applies to the file's own host. It applies to another one if all URLs of the file
    are there.
    """
    if robots.site is not None or away.code != "foreign-host":
        return robots.speaks_for(away.origin)
    return set(reading.place.origins) == {away.origin}
