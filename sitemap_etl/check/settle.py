"""What is judged when all files are read: index ↔ files ↔ robots.txt, and URLs away from their file's place."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

import pyarrow as pa

from sitemap_etl.check.locs import Away
from sitemap_etl.check.read import Listed, Reading
from sitemap_etl.check.report import Finding, shown
from sitemap_etl.limits import SHARE_FROM
from sitemap_etl.robots import RobotsRules
from sitemap_etl.urls import origin

_DAY: Final = 86_400


@dataclass
class Robots:
    """A robots.txt that was read. `site` is its origin, None where only its content is known."""

    file: str
    data: bytes
    site: str | None
    named: frozenset[str]

    def speaks_for(self, where: str) -> bool:
        return self.site is None or self.site == where


@dataclass
class Child:
    """A file that an index lists, and where it was read (None: not read)."""

    index: int
    listed: Listed
    reading: int | None


@dataclass
class Settled:
    """All readings, in order, and how they hang together."""

    readings: list[Reading]
    children: list[Child] = field(default_factory=list)
    robots: list[Robots] = field(default_factory=list)
    walked: set[int] = field(default_factory=set)
    """Readings that were found by looking through a folder."""


def settled(all_: Settled, views: set[str]) -> list[Finding]:
    """The findings that no file shows alone. `views`: names of files that show again what others list."""
    return [
        *_lastmods(all_, views),
        *_indexes(all_),
        *_unlisted(all_),
        *_robots(all_),
        *_away(all_),
    ]


def _lastmods(all_: Settled, views: set[str]) -> Iterable[Finding]:
    """A view may well hold what changed in one night; any other file may not."""
    for reading in all_.readings:
        found = reading.lastmods
        if found is None or reading.stats.file in views or reading.news or reading.stats.kind != "urlset":
            continue
        if found.now and found.count >= 3:
            yield Finding("lastmod-is-now", reading.stats.file, None, None, found.example, found.count)
        elif found.same and found.count >= SHARE_FROM:
            yield Finding("lastmod-all-same", reading.stats.file, None, None, found.example, found.count)


def _indexes(all_: Settled) -> Iterable[Finding]:
    for number, reading in enumerate(all_.readings):
        if reading.stats.kind != "index":
            continue
        file = reading.stats.file
        dates = {listed.seconds for listed in reading.listed}
        if len(reading.listed) >= SHARE_FROM and len(dates) == 1 and None not in dates:
            yield Finding(
                "index-lastmod-all-same", file, count=len(reading.listed), example=reading.stats.lastmod_max or ""
            )
        for child in (c for c in all_.children if c.index == number and c.reading is not None):
            assert child.reading is not None
            target = all_.readings[child.reading]
            if target.stats.kind == "index":
                yield Finding("index-nested", file, child.listed.line, None, shown(child.listed.url))
            if _older(child.listed, target):
                assert target.lastmods is not None
                newest = target.lastmods.newest_text
                detail = f"{_text(child.listed)}, a page in it {newest}"
                yield Finding("index-lastmod-old", file, child.listed.line, None, shown(child.listed.url), 1, detail)


def _older(listed: Listed, target: Reading) -> bool:
    if listed.seconds is None or target.lastmods is None:
        return False
    slack = 2 * _DAY if listed.daily or target.lastmods.newest_daily else 0
    return listed.seconds + slack < target.lastmods.newest


def _text(listed: Listed) -> str:
    when = datetime.fromtimestamp(listed.seconds or 0, UTC)
    return f"{when:%Y-%m-%d}" if listed.daily else f"{when:%Y-%m-%dT%H:%M:%SZ}"


def _unlisted(all_: Settled) -> Iterable[Finding]:
    """Sitemaps of a folder that neither its indexes nor its robots.txt list. Text and feeds go without an index."""
    listed = {child.reading for child in all_.children}
    if not any(all_.readings[n].stats.kind == "index" for n in all_.walked):
        return
    for number in sorted(all_.walked - listed):
        if all_.readings[number].stats.kind == "urlset":
            yield Finding("file-not-listed", all_.readings[number].stats.file)


def _robots(all_: Settled) -> Iterable[Finding]:
    """Sitemaps that a robots.txt forbids, and indexes that it does not name."""
    listed = {child.reading for child in all_.children}
    for robots in all_.robots:
        rules = RobotsRules(robots.data)
        for number, reading in enumerate(all_.readings):
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


def _away(all_: Settled) -> Iterable[Finding]:
    """URLs on other hosts or above the folder are fine where a robots.txt of their host names the file or its index."""
    parents = {child.reading: all_.readings[child.index].place.address for child in all_.children}
    for number, reading in enumerate(all_.readings):
        for away in reading.place.away:
            names = {reading.place.address, parents.get(number)}
            if any(_vouches(robots, reading, away) and robots.named & names for robots in all_.robots):
                continue
            detail = f"{away.origin}, the file is on {origin(reading.place.address)}" if reading.place.address else ""
            said = detail if away.code == "foreign-host" else ""
            yield Finding(away.code, reading.stats.file, away.line, None, shown(away.example), away.count, said)


def _vouches(robots: Robots, reading: Reading, away: Away) -> bool:
    """Whether a robots.txt can say where the sitemaps of the URLs' host are.

    Of one whose host is not known it is believed for the file's own host, and for another if all of its URLs are there.
    """
    if robots.site is not None or away.code == "out-of-scope":
        return robots.speaks_for(away.origin)
    return set(reading.place.origins) == {away.origin}
