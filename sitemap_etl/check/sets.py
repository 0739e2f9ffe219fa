"""Check a set of files: each file by itself, then all files together."""

from __future__ import annotations

import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from sitemap_etl.check.crawl import Crawl, Progress, Visit
from sitemap_etl.check.cross_file import Again, CrossFile, Look
from sitemap_etl.check.fetch import Fetcher
from sitemap_etl.check.locs import canonical_origin
from sitemap_etl.check.options import Options
from sitemap_etl.check.read import Reading, RulesOf, broken, failure, read
from sitemap_etl.check.report import Finding, Report, shown
from sitemap_etl.check.site_rules import HostRules, Site, site_findings
from sitemap_etl.check.sources import Given, Held, Source, WebFile, given
from sitemap_etl.errors import ConfigError
from sitemap_etl.web import Stopped, shown_address

if TYPE_CHECKING:
    from sitemap_etl.check.live import Live

_TEXT: Final = np.uint64(0x7465787474657874)
"""Salt that separates the URLs of text sitemaps, which repeat the URLs of XML files on purpose."""
_ROBOTS_ORIGINS: Final = 20
"""Maximum hosts whose robots.txt is requested because a sitemap of another host lists their pages."""


Listing = Callable[[str, np.ndarray, pa.Table], None]
"""(file, line of each row, rows of `read.ROWS`)."""


def check(
    targets: Sequence[str],
    *,
    options: Options | None = None,
    progress: Progress | None = None,
    fetcher: Fetcher | None = None,
    listed: Listing | None = None,
) -> Report:
    """Check sitemaps, indexes, feeds and robots.txt files, and the files that they list.

    targets: paths of files or folders, `s3://` and http(s) addresses, checked together.
    fetcher: replaces the HTTP client.
    listed: gets the URLs of each file.

    Any failure of a file is a finding of that file. An interruption (Ctrl-C) and `max_time` end the check with the
    findings of the files that were read; see `Report.ended`.

    Raise `ConfigError` if no target can be read, and `Unavailable` or `Refused` if the only target is a bucket with
    such an error.
    """
    options = options or Options()
    begun = time.monotonic()
    found = given(targets, options)
    own = fetcher or Fetcher.of(_as_crawler(options))
    try:
        with tempfile.TemporaryDirectory(prefix="sitemap-etl-", dir=options.scratch) as scratch:
            report = _Check(options, own, Path(scratch), progress, listed).run(found)
    finally:
        if fetcher is None:
            own.close()
    report.seconds = time.monotonic() - begun
    return report


def _live(options: Options) -> Live | None:
    """Return the visitor of pages and crawlers, or None if it is not needed. It imports the HTTP client."""
    if not options.pages and options.crawler is None:
        return None
    from sitemap_etl.check.live import Live

    return Live(options)


def _as_crawler(options: Options) -> Options:
    """Return the options with the User-Agent of an imitated crawler."""
    if options.crawler is None:
        return options
    from sitemap_etl.pages import CRAWLERS

    if options.crawler not in CRAWLERS:
        raise ConfigError(f"crawler: expected one of {', '.join(CRAWLERS)}, got {options.crawler!r}")
    return replace(options, crawler=None, user_agent=CRAWLERS[options.crawler].header)


class _Check:
    """A check in progress."""

    def __init__(
        self,
        options: Options,
        fetcher: Fetcher,
        scratch: Path,
        progress: Progress | None,
        listed: Listing | None,
    ) -> None:
        self.options = options
        self.listed = listed
        self.fetcher = fetcher
        self.now = options.now or datetime.now(UTC)
        self.live = _live(options)
        self.crawl = Crawl(options, fetcher, self._read, progress or (lambda _stage, _done, _known: None))
        self.rules = HostRules(
            self._fetch_robots if options.robots else None, self.crawl.asked, self.live.token if self.live else "*"
        )
        self.readings: list[Reading] = []
        self.cross = CrossFile(scratch)
        self.compared: list[Source] = []

    def run(self, found: list[Given]) -> Report:
        report = Report()
        try:
            with closing(self.crawl.visits(found)) as visits:
                for visit in visits:
                    self._take(visit)
            if not self.crawl.ended:
                for step in (self._ask_others, self._visit):
                    try:
                        step()
                    except (Stopped, ConfigError):
                        raise
                    except Exception as error:  # noqa: BLE001 - later steps must not lose the findings of the files
                        self.crawl.findings.append(failure(found[0].name, error))
        except (KeyboardInterrupt, Stopped) as end:
            report.interrupted = isinstance(end, KeyboardInterrupt)
        self._complete(report, found[0].name)
        return report

    def _ask_others(self) -> None:
        """Request the robots.txt of hosts whose pages are listed elsewhere."""
        away = {away.origin for reading in self.readings for away in reading.place.away.values()}
        try:
            for where in sorted(away)[: _ROBOTS_ORIGINS if self.crawl.asked else 0]:
                self.rules.ask(where)
        except Stopped:
            self.crawl.out_of_time()  # a robots.txt that was not read could allow foreign URLs

    def _read(self, source: Source, held: Held | None = None, rules_of: RulesOf | None = None) -> Reading:
        return read(
            source,
            max_bytes=self.options.max_bytes,
            now=self.now,
            rules_of=rules_of or self.rules.of,
            held=held,
            examples=self.options.examples or sys.maxsize,
            rows=self.listed is not None,
            draw=self.live.draw if self.live and self.options.pages else None,
        )

    def _visit(self) -> None:
        """Visit a sample of the listed pages."""
        if self.live is not None:
            self.live.visit(
                self.fetcher, asked=bool(self.crawl.asked), public=self.crawl.guarded, progress=self.crawl.progress
            )

    def _fetch_robots(self, where: str) -> tuple[Source, Reading]:
        source = WebFile(f"{where}/robots.txt", self.fetcher, self.crawl.guarded)
        try:
            return source, self._read(source, rules_of=lambda _origin, _served: None)
        except Stopped:
            raise
        except Exception as error:  # noqa: BLE001 - a robots.txt must not lose the findings of a sitemap
            return source, broken(source, error)

    def _take(self, visit: Visit) -> None:
        """Keep the needed parts of a reading."""
        reading = visit.reading
        if visit.number is None:
            return
        self.readings.append(reading)
        if self.listed is not None and reading.rows is not None:
            self.listed(reading.stats.file, reading.lines, reading.rows)
            reading.rows, reading.lines = None, np.empty(0, np.int64)
        if self.live is not None:
            self.live.add(reading)
            reading.drawn = []
        if len(reading.hashes) and reading.stats.kind in {"urlset", "text"}:
            salt = _TEXT if reading.stats.kind == "text" else np.uint64(0)
            number = self.cross.add(
                reading.stats.file, reading.hashes ^ salt, reading.at, reading.links, _look(reading)
            )
            if reading.slashed is not None:
                bare, at = reading.slashed
                self.cross.add_slashed(number, bare ^ salt, at)
            self.compared.append(visit.work.source)
        reading.hashes, reading.at, reading.links = np.empty(0, np.uint64), np.empty(0, np.int64), None
        reading.slashed = None
        if reading.robots is not None:
            try:
                self.rules.add(visit.work.source, reading)
            except Exception as error:  # noqa: BLE001 - a robots.txt must not lose the findings of a sitemap
                reading.findings.append(failure(reading.stats.file, error))

    def _complete(self, report: Report, name: str) -> None:
        """Complete the report. Files are only compared with each other if all were read."""
        readings = [*self.readings, *sorted(self.rules.fetched, key=lambda reading: reading.stats.file)]
        report.ended = self.crawl.ended or ("it was interrupted" if report.interrupted else "")
        report.notes += self.crawl.notes
        report.files += [reading.stats for reading in readings]
        report.touched |= {reading.stats.file: reading.touched for reading in readings}
        report.findings += [finding for reading in readings for finding in reading.findings]
        report.findings += [*self.crawl.findings, *self.rules.findings, *self._absent(), *self._selves()]
        if not report.ended:
            for rule in (self._across, self._of_site):
                try:
                    report.findings += rule(readings)
                except Exception as error:  # noqa: BLE001 - a rule must not lose the findings of the others
                    report.findings.append(failure(name, error))
        if self.live is not None:
            report.findings += self.live.findings
            report.pages = self.live.visited
        report.sort()

    def _across(self, readings: list[Reading]) -> list[Finding]:
        """Return the findings of a comparison of all files, and mark the views."""
        again = Again(self.options.max_bytes)
        found = self.cross.findings(lambda file, at: again.look(self.compared[file], at), whole=self._is_whole())
        views = {self.cross.files[n] for n in self.cross.views}
        for reading in readings:
            reading.stats.view = reading.stats.file in views
        return found

    def _of_site(self, readings: list[Reading]) -> list[Finding]:
        """Return the findings about the relations of indexes, files and robots.txt."""
        limited = any(finding.code == "files-not-read" for finding in self.crawl.findings)
        walked = set() if limited else self.crawl.walked  # an index that was not followed to its end may list them
        site = Site(readings, self.crawl.children, self.rules.robots, walked)
        return site_findings(site, {self.cross.files[n] for n in self.cross.views})

    def _is_whole(self) -> bool:
        """Return True if every file of the set was read completely."""
        partial = {"not-followed", "files-not-read"} & {finding.code for finding in self.crawl.findings}
        unread = any(reading.status or not reading.is_whole for reading in self.readings)
        alone = not self.options.follow and any(reading.listed for reading in self.readings)
        return not (partial or self.crawl.absent or self.crawl.unasked or unread or alone)

    def _absent(self) -> list[Finding]:
        """Return a finding for each file that lists missing files."""
        found = []
        for number, listed in sorted(self.crawl.absent.items()):
            if number >= len(self.readings):
                continue  # interrupted before it was recorded
            stats = self.crawl.files[number]
            code = "robots-sitemap-missing" if stats.kind == "robots" else "index-file-missing"
            is_here = self._expected(number)
            missing = [one for one in listed if is_here(one.url)]
            if missing:
                first = min(missing, key=lambda one: one.line)
                found.append(Finding(code, stats.file, first.line, None, shown(shown_address(first.url)), len(missing)))
        return found

    def _selves(self) -> list[Finding]:
        """Return a finding for each index that lists itself."""
        found = []
        for number, listed in sorted(self.crawl.selves.items()):
            file, first = self.crawl.files[number].file, listed[0]
            example = shown(shown_address(first.url))
            found.append(Finding("index-nested", file, first.line, None, example, len(listed), "it lists itself"))
        return found

    def _expected(self, number: int) -> Callable[[str], bool]:
        """Return a function that decides if a listed file should be found here.

        On the web, every address can be requested. A folder has files of one host, below its address.
        """
        reading = self.readings[number]
        if reading.place.address is not None and reading.stats.file.startswith(("http://", "https://")):
            return lambda _url: True
        below = "" if self.options.at is None else self.options.at.rpartition("/")[0] + "/"
        here = {canonical_origin(child.listed.url) for child in self.crawl.children if child.parent == number}
        if not here:
            origins = Counter(canonical_origin(one.url) for one in reading.listed)
            here = {where for where, _ in origins.most_common(1)}
        return lambda url: url.startswith(below) and canonical_origin(url) in here


def _look(reading: Reading) -> Look:
    """Return the facts that distinguish a file that repeats others on purpose."""
    dated = reading.lastmods
    dates = (dated.oldest, dated.newest) if dated is not None and dated.count == reading.stats.rows else None
    return Look(reading.news > 0, reading.extensions, dates, frozenset(reading.place.origins))
