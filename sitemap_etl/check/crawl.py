"""Crawl the targets: find files, read them in parallel, and follow the files that they list, each once."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final

from sitemap_etl.check.document import Kind, sniffed
from sitemap_etl.check.fetch import Fetcher
from sitemap_etl.check.home import is_home, sitemaps_of
from sitemap_etl.check.options import Options
from sitemap_etl.check.read import Listed, Reading, broken, failure
from sitemap_etl.check.report import Faults, FileStats, Finding
from sitemap_etl.check.selves import roots_of, selves_among
from sitemap_etl.check.sources import Given, Held, Room, Shelf, Source, WebFile, keys_of
from sitemap_etl.errors import SitemapEtlError, Unavailable
from sitemap_etl.urls import origin
from sitemap_etl.web import Stopped, shown_address

Progress = Callable[[str, int, int], None]
"""("files" or "pages", those done, those known)."""
_SNIFF: Final = 65_536
"""Bytes of a file that are enough to recognize its format."""
_FIRST: Final = {"robots": 0, "index": 1}
"""Kinds of files that are read first, so that the files they list are known before the others are read."""


@dataclass
class Work:
    """A file to read. `kind`: its apparent kind, if known. `parent` is the number of the file that lists it, `listed`
    how it does.
    """

    source: Source
    shelf: Shelf | None = None
    key: str = ""
    kind: Kind | None = None
    walked: bool = False
    parent: int | None = None
    listed: Listed | None = None


@dataclass
class Child:
    """A file that another lists: the numbers of both."""

    parent: int
    listed: Listed
    number: int


@dataclass
class Visit:
    """A file that was read. `number` is its place among those that are there; None if the file is missing."""

    work: Work
    reading: Reading
    number: int | None


@dataclass
class Crawl:
    """Crawler of the targets' files.

    `read` reads one file, in any thread, and reserves memory for it. Its errors become findings of that file. `deep`:
    also follow an index in an index.

    After the crawl:

    files: the existing files, in order.
    children: which file lists which.
    walked: the files that were found in a folder.
    absent: missing files, by the file that lists them.
    unasked: listed files that were not looked for, because they have no web address.
    selves: entries of an index that name the index itself.
    asked: hosts with requests.
    findings: the problems on the way.
    ended: why it ended before all files were read.
    """

    options: Options
    fetcher: Fetcher
    read: Callable[[Source, Held], Reading]
    progress: Progress = field(default=lambda _stage, _done, _known: None)
    deep: bool = False
    files: list[FileStats] = field(default_factory=list)
    children: list[Child] = field(default_factory=list)
    walked: set[int] = field(default_factory=set)
    absent: dict[int, list[Listed]] = field(default_factory=dict)
    unasked: dict[int, list[Listed]] = field(default_factory=dict)
    selves: dict[int, list[Listed]] = field(default_factory=dict)
    asked: set[str] = field(default_factory=set)
    findings: list[Finding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """Sentences about how the sitemaps of a home page were found."""
    ended: str = ""
    guarded: bool = False
    """True if a target is on the public internet. Then only public addresses are requested."""

    def __post_init__(self) -> None:
        self._queue: deque[Work] = deque()
        self._known: dict[str, Work] = {}
        self._numbers: dict[str, int] = {}
        self._done = 0
        self._shelves: list[Shelf] = []
        self._room = Room()
        self._targets: list[Given] = []

    def visits(self, found: list[Given]) -> Generator[Visit, None, None]:
        """Yield every file, in an order that does not depend on timing. Close the generator to stop early."""
        self._targets = found
        pool = ThreadPoolExecutor(self.options.jobs, thread_name_prefix="check")
        under_way: deque[tuple[Work, Future[Reading]]] = deque()
        try:
            for target in found:
                self._find(target)
            self._queue = deque(sorted(self._queue, key=lambda work: _FIRST.get(work.kind or "", len(_FIRST))))
            while self._queue and self._queue[0].kind in _FIRST:
                work = self._queue.popleft()
                yield self._done_with(work, self._reading(work.source))
            while self._queue or under_way:
                while self._queue and len(under_way) < self.options.jobs + 1:
                    work = self._queue.popleft()
                    under_way.append((work, pool.submit(self._reading, work.source)))
                work, future = under_way[0]
                reading = future.result(self._left())
                under_way.popleft()
                yield self._done_with(work, reading)
        except (Stopped, TimeoutError):
            self.out_of_time()
        except KeyboardInterrupt:
            self._end("it was interrupted")
            raise
        finally:
            if self._queue or under_way:
                self.fetcher.stop()
            pool.shutdown(wait=not under_way, cancel_futures=True)

    def _left(self) -> float | None:
        """Return the seconds until the check must end, or None."""
        return None if self.fetcher.deadline is None else max(0.0, self.fetcher.deadline - time.monotonic())

    def out_of_time(self) -> None:
        """End because the time limit was reached, or requests were stopped."""
        limit = self.options.max_time
        self._end("it was stopped" if limit is None else f"the time limit is {limit:,g} seconds")

    def _end(self, why: str) -> None:
        """End before everything was read, and report it."""
        self.ended = why
        self.fetcher.stop()
        left = len(self._known) - self._done
        detail = f"{why}; {left:,} known files were not read" if left > 1 else why
        self.findings.append(Finding("not-finished", self._targets[0].name, detail=detail))

    def _reading(self, source: Source) -> Reading:
        """Read a file, and turn any error into a finding. Raise `Stopped`."""
        try:
            with self._room.held() as held:
                return self.read(source, held)
        except Stopped:
            raise
        except Exception as error:  # noqa: BLE001 - one file must not lose the findings of the others
            return broken(source, error)

    def _find(self, target: Given) -> None:
        """Queue the files of a target. A problem of the target is a finding. Raise `Stopped`."""
        if target.problem is not None:
            code = "unreachable" if isinstance(target.problem, Unavailable) else "target-invalid"
            self.findings.append(Finding(code, target.name, detail=str(target.problem)))
            return
        try:
            for work in self._works(target):
                if work.source.name not in self._known and len(self._known) >= self.options.max_files:
                    detail = f"the limit is {self.options.max_files:,}; no more files were looked for here"
                    self.findings.append(Finding("files-not-read", target.name, detail=detail))
                    return
                self._add(work)
        except Stopped:
            raise
        except Exception as error:
            if len(self._targets) == 1 and isinstance(error, SitemapEtlError):
                raise  # nothing else to report
            self.findings.append(failure(target.name, error))

    def _works(self, target: Given) -> Iterator[Work]:
        """Yield the files of a target as they are found."""
        if target.url:
            self.fetcher.trust(target.url, target.credentials)
            public = not self.options.allow_private and self.fetcher.is_public(target.url)
            self.guarded |= public
            self.asked.add(origin(target.url))
            if is_home(target.url):
                robots = self.options.robots
                found, way, unanswered = sitemaps_of(target.url, self.fetcher, guarded=public, robots=robots)
                if unanswered:
                    self.findings += unanswered
                    return
                self.notes.append(way)
                yield from (Work(source) for source in found)
                if found:
                    return
            yield Work(WebFile(target.url, self.fetcher, public))
            return
        shelf = target.shelf
        assert shelf is not None
        self._shelves.append(shelf)
        if not shelf.whole:
            source = shelf.find(target.key)
            if source is None:
                self.findings.append(Finding("unreachable", target.name, detail="it is not a file"))
            else:
                yield Work(source, shelf, target.key, sniffed(_beginning(source), source.name))
            return
        nothing = True
        for key, source in shelf.walk(self._go_on):
            beginning = _beginning(source)
            kind = sniffed(beginning, source.name)
            if _is_meant(key, beginning, kind):
                nothing = False
                yield Work(source, shelf, key, kind, walked=True)
        if nothing:
            detail = f"there are no sitemaps {shelf.where}"
            self.findings.append(Finding("sitemap-empty", target.name, detail=detail))

    def _go_on(self) -> None:
        """Raise `Stopped` if no time is left for the check."""
        self.fetcher.within(math.inf)

    def _add(self, work: Work) -> None:
        if work.source.name not in self._known:
            self._known[work.source.name] = work
            self._queue.append(work)

    def _done_with(self, work: Work, reading: Reading) -> Visit:
        """Take in a file, and report the progress. Missing files count as done, and files in work as known."""
        visit = self._taken_in(work, reading)
        self._done += 1
        self.progress("files", self._done, len(self._known))
        return visit

    def _taken_in(self, work: Work, reading: Reading) -> Visit:
        """Assign a number to a file, and queue the files that it lists."""
        if work.parent is not None and work.listed is not None:
            if reading.answered in (404, 410):
                self.absent.setdefault(work.parent, []).append(work.listed)
                return Visit(work, reading, None)
            self.children.append(Child(work.parent, work.listed, len(self.files)))
        number = len(self.files)
        self.files.append(reading.stats)
        self._numbers[work.source.name] = number
        if work.walked:
            self.walked.add(number)
        nested = work.parent is not None and self.files[work.parent].kind == "index"
        if self.options.follow and (work.walked or self.deep or not nested):
            self._follow(work, number, reading.listed)
        return Visit(work, reading, number)

    def _follow(self, work: Work, number: int, files: list[Listed]) -> None:
        """Queue the files that an index or robots.txt lists, and record missing ones."""
        lost: list[Listed] = []
        roots: set[tuple[str, str]] = set()
        for place, listed in enumerate(files):
            try:
                child = self._child(work, listed)
            except Exception as error:  # noqa: BLE001 - one address must not lose the other files
                self.findings.append(replace(failure(work.source.name, error), line=listed.line))
                continue
            if child is None:
                lost.append(listed)
                continue
            if child.shelf is not None and child.shelf is work.shelf:
                roots.add(roots_of(listed.url, child.key))
            if not self._queued(child, number, listed):
                detail = f"the limit is {self.options.max_files:,}"
                left = len(files) - place
                self.findings.append(
                    Finding("files-not-read", work.source.name, listed.line, None, listed.url, left, detail)
                )
                break
        self._lost(work, number, len(files), lost, roots)

    def _queued(self, child: Work, number: int, listed: Listed) -> bool:
        """Queue a listed file unless it is known. Return False if there are too many files."""
        name = child.source.name
        if name in self._numbers:
            if self._numbers[name] != number:
                self.children.append(Child(number, listed, self._numbers[name]))
            elif self.files[number].kind == "index":
                self.selves.setdefault(number, []).append(listed)
        elif name in self._known:
            waiting = self._known[name]
            if waiting.parent is None:
                waiting.parent, waiting.listed, waiting.source = number, listed, child.source
        elif len(self._known) >= self.options.max_files:
            return False
        else:
            child.parent, child.listed = number, listed
            self._add(child)
        return True

    def _lost(self, work: Work, number: int, listed: int, lost: list[Listed], roots: set[tuple[str, str]]) -> None:
        """Record listed files that are missing, that were not looked for, or that are the index itself."""
        if work.shelf is None:
            if lost:
                self.unasked[number] = lost
            return
        own: set[str] = set()
        if self.files[number].kind == "index":
            own = selves_among([one.url for one in lost], work.source.address, work.key, roots)
        selves = [one for one in lost if one.url in own]
        absent = [one for one in lost if one.url not in own]
        if selves:
            self.selves[number] = selves
        if absent and len(absent) == listed - len(selves) and not work.shelf.whole:
            first, detail = absent[0], f"{len(absent):,} files"
            self.findings.append(Finding("not-followed", work.source.name, first.line, None, first.url, 1, detail))
        elif absent:
            self.absent.setdefault(number, []).extend(absent)

    def _child(self, work: Work, listed: Listed) -> Work | None:
        """Return the file at an address that another file lists, or None if it is not found there."""
        if work.shelf is None:
            url = shown_address(listed.url)  # a password that stands in a file is sent to nobody
            if not url.lower().startswith(("http://", "https://")):
                return None
            with suppress(ValueError):  # no address: asking for it says why
                self.asked.add(origin(url))
            return Work(WebFile(url, self.fetcher, getattr(work.source, "guarded", False)))
        for shelf in [work.shelf, *(shelf for shelf in self._shelves if shelf is not work.shelf)]:
            for key in keys_of(listed.url, work.key if shelf is work.shelf else "", shelf.at):
                source = shelf.find(key)
                if source is not None and source.name != work.source.name:
                    if source.address is None and (public := _public(listed.url)):
                        source = replace(source, address=public)  # type: ignore[type-var]  # both kinds are dataclasses
                    return Work(source, shelf, key)
        return None


def _public(url: str) -> str:
    """Return an address without a password, or "" if it is invalid."""
    try:
        origin(shown := shown_address(url))
    except ValueError:
        return ""
    return shown


def _beginning(source: Source) -> bytes | None:
    """Return the beginning of a local or bucket file, or None if it can't be read."""
    try:
        taken = source.take(_SNIFF, Faults(source.name))
    except Exception:  # noqa: BLE001 - reported when the file is read
        return None
    return None if taken is None else taken.data


def _is_meant(key: str, beginning: bytes | None, kind: Kind | None) -> bool:
    """Return True if a file from a folder, with this beginning and kind, is or should be a sitemap."""
    base = key.rpartition("/")[2].lower()
    if "sitemap" in base or base == "robots.txt":
        return True
    if beginning is None:
        return True  # an unreadable file is reported
    if kind == "text":
        return base.endswith(".gz") or beginning.lstrip(b"\xef\xbb\xbf\r\n ").startswith(b"http")
    return kind in {"urlset", "index", "rss", "atom"}
