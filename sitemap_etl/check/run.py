"""Checking a set: files are found, read in parallel, followed, and compared."""

from __future__ import annotations

import tempfile
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import numpy as np

from sitemap_etl.check.across import Across
from sitemap_etl.check.again import Again
from sitemap_etl.check.fetch import Fetcher
from sitemap_etl.check.options import Options
from sitemap_etl.check.read import Listed, Reading, read
from sitemap_etl.check.report import Finding, Report, shown
from sitemap_etl.check.rules import Rules
from sitemap_etl.check.settle import Child, Settled, settled
from sitemap_etl.check.sniff import is_meant, sniffed
from sitemap_etl.check.sources import Given, Shelf, Source, WebFile, given, keys_of
from sitemap_etl.urls import origin

Progress = Callable[[int, int, str], None]
"""(files read, files known, the file read last)."""
_TEXT: Final = np.uint64(0x7465787474657874)
"""Keeps URLs of text sitemaps apart: they repeat those of the XML beside them by design."""
_ROBOTS_ORIGINS: Final = 20
"""Hosts whose robots.txt is asked for because a sitemap elsewhere lists their pages."""


@dataclass
class Work:
    """A file to read. `parent` is the number of the reading that lists it, `listed` how it does."""

    source: Source
    shelf: Shelf | None = None
    key: str = ""
    walked: bool = False
    parent: int | None = None
    listed: Listed | None = None


def check(
    targets: Sequence[str],
    *,
    options: Options | None = None,
    progress: Progress | None = None,
    fetcher: Fetcher | None = None,
) -> Report:
    """Every fault of the sitemaps, indexes, feeds and robots.txt files given, and of those they list.

    `targets`: paths of files or folders, `s3://` and http(s) addresses; together they are one set.
    `fetcher` replaces the HTTP client. Raises `ConfigError` where a target is nothing that can be read,
    `Unavailable` and `Refused` where a bucket answers so.
    """
    options = options or Options()
    begun = time.monotonic()
    found = given(targets, options)
    own = fetcher or Fetcher(options.timeout)
    try:
        with tempfile.TemporaryDirectory(prefix="sitemap-etl-", dir=options.scratch) as scratch:
            report = _Run(options, own, Path(scratch), progress).run(found)
    finally:
        if fetcher is None:
            own.close()
    report.seconds = time.monotonic() - begun
    return report


class _Run:
    """One check under way."""

    def __init__(self, options: Options, fetcher: Fetcher, scratch: Path, progress: Progress | None) -> None:
        self.options = options
        self.fetcher = fetcher
        self.progress = progress or (lambda _done, _known, _name: None)
        self.now = options.now or datetime.now(UTC)
        self.all = Settled([])
        self.across = Across(scratch)
        self.compared: list[Source] = []
        self.queue: deque[Work] = deque()
        self.known: dict[str, Work] = {}
        self.number: dict[str, int] = {}
        self.extra: list[Finding] = []
        self.missing: dict[tuple[str, int], list[Listed]] = {}
        self.rules = Rules(self._fetch_robots if options.robots else None)
        self.guarded = False

    def run(self, found: list[Given]) -> Report:
        first: list[Work] = []
        for target in found:
            first += self._works(target, found)
        kinds = {id(work): sniffed(work.source) for work in first}
        order = {"robots": 0, "index": 1}
        for work in sorted(first, key=lambda w: order.get(kinds[id(w)] or "", 2)):
            self._add(work)
        for work in [w for w in self.queue if kinds.get(id(w)) in order]:
            self.queue.remove(work)
            self._take_in(work, self._read(work))
        self._read_all()
        return self._report()

    def _works(self, target: Given, found: list[Given]) -> list[Work]:
        if target.url:
            public = not self.options.allow_private and self.fetcher.is_public(target.url)
            self.guarded |= public
            self.rules.asked.add(origin(target.url))
            return [Work(WebFile(target.url, self.fetcher, public))]
        shelf = target.shelf
        assert shelf is not None
        if not shelf.whole:
            source = shelf.find(target.key)
            assert source is not None
            return [Work(source, shelf, target.key)]
        works = [Work(source, shelf, key, walked=True) for key, source in shelf.walk()]
        works = [work for work in works if is_meant(work.source, work.key)]
        if not works and len(found) == 1:
            self.extra.append(Finding("sitemap-empty", target.name, detail="no sitemap in this folder"))
        return works

    def _add(self, work: Work) -> None:
        if work.source.name not in self.known:
            self.known[work.source.name] = work
            self.queue.append(work)

    def _read(self, work: Work) -> Reading:
        return read(work.source, max_bytes=self.options.max_bytes, now=self.now, rules_of=self.rules.of)

    def _read_all(self) -> None:
        """Read the queue, a few files at a time; what they list is put at its end."""
        under_way: deque[tuple[Work, Future[Reading]]] = deque()
        with ThreadPoolExecutor(self.options.jobs, thread_name_prefix="check") as pool:
            try:
                while self.queue or under_way:
                    while self.queue and len(under_way) < self.options.jobs + 1:
                        work = self.queue.popleft()
                        under_way.append((work, pool.submit(self._read, work)))
                    work, future = under_way.popleft()
                    self._take_in(work, future.result())
            except BaseException:
                self.fetcher.stop()
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def _take_in(self, work: Work, reading: Reading) -> None:
        """Keep what is needed of a reading, and put the files it lists into the queue."""
        number = len(self.all.readings)
        if work.parent is not None and work.listed is not None:
            if reading.status == "http-status" and _is_gone(reading):
                kind = self.all.readings[work.parent].stats.kind
                self.missing.setdefault((f"{kind}", work.parent), []).append(work.listed)
                return
            self.all.children.append(Child(work.parent, work.listed, number))
        self.all.readings.append(reading)
        self.number[work.source.name] = number
        if work.walked:
            self.all.walked.add(number)
        self._compare(work, reading)
        if reading.robots is not None:
            self.rules.keep(work.source, reading)
        nested = work.parent is not None and self.all.readings[work.parent].stats.kind == "index"
        if self.options.follow and reading.listed and (work.walked or not nested):
            self._follow(work, number, reading)
        self.progress(len(self.all.readings), len(self.all.readings) + len(self.queue), work.source.name)

    def _compare(self, work: Work, reading: Reading) -> None:
        if len(reading.hashes) and reading.stats.kind in {"urlset", "text"}:
            hashes = reading.hashes ^ _TEXT if reading.stats.kind == "text" else reading.hashes
            file = reading.stats.file
            self.across.add(file, hashes, reading.at, reading.links, view=reading.news > 0)
            self.compared.append(work.source)
        reading.hashes, reading.at, reading.links = np.empty(0, np.uint64), np.empty(0, np.int64), None

    def _follow(self, work: Work, number: int, reading: Reading) -> None:
        """Put the files that an index or a robots.txt lists into the queue; say which are missing."""
        absent: list[Listed] = []
        there = 0
        for listed in reading.listed:
            child = self._child(work, listed)
            if child is None:
                absent.append(listed)
                continue
            there += 1
            name = child.source.name
            if name in self.number:
                if self.number[name] != number:
                    self.all.children.append(Child(number, listed, self.number[name]))
            elif name in self.known:
                waiting = self.known[name]
                if waiting.parent is None:
                    waiting.parent, waiting.listed, waiting.source = number, listed, child.source
            elif len(self.known) >= self.options.max_files:
                left = len(reading.listed) - reading.listed.index(listed)
                detail = f"the limit is {self.options.max_files:,}"
                self.extra.append(
                    Finding("files-not-read", work.source.name, listed.line, None, listed.url, left, detail)
                )
                break
            else:
                child.parent, child.listed = number, listed
                self._add(child)
        if absent:
            alone = work.shelf is not None and not work.shelf.whole and not there
            if alone:
                detail = f"{len(absent):,} files"
                self.extra.append(
                    Finding("not-followed", work.source.name, absent[0].line, None, absent[0].url, 1, detail)
                )
            else:
                self.missing.setdefault((reading.stats.kind, number), []).extend(absent)

    def _child(self, work: Work, listed: Listed) -> Work | None:
        """The file behind an address that another file names, None where it is not beside it."""
        if work.shelf is None:
            if urlsplit(listed.url).scheme not in {"http", "https"}:
                return None
            try:
                self.rules.asked.add(origin(listed.url))
            except ValueError:
                return None
            return Work(WebFile(listed.url, self.fetcher, getattr(work.source, "guarded", False)))
        shelves = [work.shelf, *{id(w.shelf): w.shelf for w in self.known.values() if w.shelf is not None}.values()]
        for shelf in dict.fromkeys(shelves):
            for key in keys_of(listed.url, work.key if shelf is work.shelf else ""):
                source = shelf.find(key)
                if source is not None and source.name != work.source.name:
                    if source.address is None:
                        source = replace(source, address=listed.url)  # type: ignore[type-var]  # both kinds are dataclasses
                    return Work(source, shelf, key)
        return None

    def _fetch_robots(self, where: str) -> tuple[Source, Reading]:
        source = WebFile(f"{where}/robots.txt", self.fetcher, self.guarded)
        return source, read(source, max_bytes=self.options.max_bytes, now=self.now, rules_of=lambda _: None)

    def _report(self) -> Report:
        if self.rules.asked:
            away = {a.origin for r in self.all.readings for a in r.place.away}
            for where in sorted(away)[:_ROBOTS_ORIGINS]:
                self.rules.ask(where)
        self.all.robots = self.rules.robots
        self.all.readings += sorted(self.rules.fetched, key=lambda r: r.stats.file)
        again = Again(self.options.max_bytes)
        across = self.across.findings(lambda file, at: again.look(self.compared[file], at))
        views = {self.across.files[n] for n in self.across.views}
        report = Report()
        for reading in self.all.readings:
            reading.stats.view = reading.stats.file in views
            report.files.append(reading.stats)
            report.findings += reading.findings
        report.findings += [*self.extra, *self.rules.findings, *self._missing(), *across, *settled(self.all, views)]
        report.sort()
        return report

    def _missing(self) -> list[Finding]:
        found = []
        for (kind, number), listed in sorted(self.missing.items(), key=lambda m: m[0][1]):
            code = "robots-sitemap-missing" if kind == "robots" else "index-file-missing"
            first = min(listed, key=lambda one: one.line)
            file = self.all.readings[number].stats.file
            found.append(Finding(code, file, first.line, None, shown(first.url), len(listed)))
        return found


def _is_gone(reading: Reading) -> bool:
    return any(f.code == "http-status" and f.detail in {"status 404", "status 410"} for f in reading.findings)
