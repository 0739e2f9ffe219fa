"""Visit a sample of the listed pages, and compare an imitated crawler with sitemap_etl.

Only the sample and its results are kept, so memory does not grow with the number of pages.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import zip_longest
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sitemap_etl.arrow import mask_of
from sitemap_etl.check.crawl import Progress
from sitemap_etl.check.fetch import AGENT, Fetcher
from sitemap_etl.check.options import Options
from sitemap_etl.check.read import Drawn, Reading
from sitemap_etl.check.report import Example, Finding, Visited, shown
from sitemap_etl.dates import DAY, instant
from sitemap_etl.pages import CRAWLERS, FAULTS, OURSELVES, Agent, Share, Visit, Visitor, is_refusal, sampled
from sitemap_etl.urls import origin
from sitemap_etl.web import REDIRECTS, Client, Stopped, WebError

DELAY: Final = 1.0
"""Default seconds between two requests to a host."""
_MOST: Final = 20_000
"""Maximum pages in the samples of all files."""
_COMPARED: Final = 20
"""Maximum hosts, and refused files, that are also requested as sitemap_etl while a crawler is imitated."""
_APART: Final = 7 * DAY
"""Seconds between Last-Modified and lastmod from which they contradict each other."""
_Seen = tuple[Drawn, Visit]
_FEW: Final = 4
"""Pages of a file below which a common date is not a pattern."""


@dataclass
class _File:
    """Sample of one file.

    listed: number of its entries.
    seen: its visited pages, with their results.
    """

    name: str
    listed: int
    drawn: list[Drawn]
    seen: list[_Seen] = field(default_factory=list)


class Live:
    """Draws from files, visits, and finds: `draw`, `add`, `visit`, then `findings` and what was `visited`.

    `most`: pages of all files together.
    """

    def __init__(self, options: Options, *, most: int = _MOST) -> None:
        self._most = most
        self._options = options
        self._agent = OURSELVES if options.crawler is None else CRAWLERS[options.crawler]
        self._files: list[_File] = []
        self._each = options.pages
        self._left_out: list[str] = []
        self._refused: list[str] = []
        self._answered: dict[str, str] = {}
        self.findings: list[Finding] = []
        """At most one of each code for a file."""
        self.visited = Visited()

    @property
    def token(self) -> str:
        """The name whose rules in robots.txt apply to the listed URLs."""
        return "*" if self._agent is OURSELVES else self._agent.token

    def draw(self, locs: Any) -> np.ndarray:
        """Return the rows of a file that are in its sample. Safe for several threads."""
        pages = np.flatnonzero(mask_of(pc.match_substring_regex(locs, r"^https?://", ignore_case=True)))
        rows: np.ndarray = pages[sampled(locs.take(pa.array(pages)), self._options.pages, self._options.seed)]
        return rows

    def add(self, reading: Reading) -> None:
        """Keep the sample of a file, and how it answered."""
        stats, address = reading.stats, reading.place.address
        if address is not None and is_refusal(reading.answered):
            self._refused.append(stats.file)
        elif address is not None and reading.answered:
            self._answered.setdefault(origin(address), stats.file)
        if not reading.drawn:
            return
        if len(self._files) >= self._most:
            self._left_out.append(stats.file)
            return
        self._files.append(_File(stats.file, stats.rows, reading.drawn[: self._each]))
        while self._each > 1 and sum(len(file.drawn) for file in self._files) > self._most:
            self._each //= 2
            for file in self._files:
                del file.drawn[self._each :]

    def visit(self, fetcher: Fetcher, *, asked: bool, public: bool, progress: Progress) -> None:
        """Visit the pages, each once, the files in turn. Visits are reported however it ends.

        `fetcher` says what is sent along, and when the time of the whole check is over. `asked`: targets are on the
        web; `public`: on the internet.
        """
        urls = list(_in_turn([page.loc for page in file.drawn] for file in self._files))
        found: dict[str, Visit] = {}
        try:
            guarded = self._guarded(asked=asked, public=public, is_public=fetcher.is_public)
            seconds = fetcher.within(self._options.pages_budget)
            with Client(agent=self._options.user_agent or AGENT) as client:
                visitor = Visitor(
                    client,
                    agent=self._agent,
                    delay=self._options.delay or DELAY,
                    jobs=self._options.jobs,
                    guarded=guarded,
                    seed=self._options.seed,
                    sent=fetcher.sent,
                    redact=fetcher.redacted,
                )
                with closing(visitor.visits(urls, seconds)) as visits:
                    for visit in visits:
                        found[visit.url] = visit
                        progress("pages", len(found), len(urls))
                if self._agent is not OURSELVES:
                    self._compare(client, visitor.refused_ourselves, guarded=guarded)
        finally:
            self._conclude({url: found.get(url) or Visit(url, skipped=True) for url in urls})

    def _conclude(self, found: Mapping[str, Visit]) -> None:
        """Return the findings of the visits."""
        self.visited = Visited(
            len(found),
            sum(visit.judged for visit in found.values()),
            sum(bool(visit.unknown) for visit in found.values()),
            sum(visit.skipped for visit in found.values()),
        )
        for file in self._files:
            file.seen = [(page, found[page.loc]) for page in file.drawn]
        self.findings += [finding for file in self._files for finding in self._of(file)]
        if self._left_out:
            detail = f"a sample has at most {self._most:,} pages; {len(self._left_out):,} files have none of them"
            self.findings.append(Finding("page-not-visited", self._left_out[0], detail=detail))

    def _guarded(self, *, asked: bool, public: bool, is_public: Callable[[str], bool]) -> bool:
        """Return True if private addresses must not be requested. For local files, `at` decides."""
        if self._options.allow_private:
            return False
        if asked:
            return public
        return self._options.at is None or is_public(self._options.at)

    # --- the findings of a file ---

    def _of(self, file: _File) -> Iterator[Finding]:
        judged = [(page, visit) for page, visit in file.seen if visit.judged]
        for kind in FAULTS:
            faulty = [(one, said) for one in judged if (said := _said(kind, one[1])) is not None]
            yield from self._told(file, f"page-{kind}", faulty, len(judged))
        refused = [(one, one[1].crawler) for one in judged if one[1].crawler]
        yield from self._told(file, "crawler-refused", refused, len(judged))
        yield from self._told(file, "page-lastmod-contradicts", list(self._contradictions(judged)), len(judged))
        skipped = [one for one in file.seen if one[1].skipped]
        unknown = [one for one in file.seen if one[1].unknown]
        if unknown:
            why = Counter(visit.unknown for _, visit in unknown).most_common(3)
            said = ", ".join(f"{reason} ({count:,})" for reason, count in why)
            detail = f"{len(unknown):,} of {len(file.seen) - len(skipped):,} sampled pages: {said}"
            yield self._at(file, "page-unknown", unknown, detail)
        if skipped:
            detail = f"{len(skipped):,} of {len(file.seen):,} sampled pages"
            yield self._at(file, "page-not-visited", skipped, detail)

    def _told(self, file: _File, code: str, found: list[tuple[_Seen, str]], judged: int) -> Iterator[Finding]:
        """Return the finding of these pages of the judged ones, each with its text."""
        if found:
            _, said = min(found, key=lambda one: one[0][0].line)
            detail = f"{Share(len(found), judged, file.listed)}{f', the first: {said}' if said else ''}"
            yield self._at(file, code, [one for one, _ in found], detail)

    def _at(self, file: _File, code: str, seen: Sequence[_Seen], detail: str) -> Finding:
        """Return a finding at its first page, with as many other pages as the option `examples` allows."""
        pages = sorted((page for page, _ in seen), key=lambda page: page.line)[: self._options.examples]
        first, *more = (Example(page.line, None, shown(page.loc)) for page in pages)
        return Finding(code, file.name, first.line, None, first.text, len(seen), shown(detail), tuple(more))

    # --- lastmod ---

    def _contradictions(self, seen: list[_Seen]) -> Iterator[tuple[_Seen, str]]:
        """Yield the pages that contradict their lastmod, and how."""
        days = Counter(visit.modified // DAY for _, visit in seen if visit.modified is not None)
        for page, visit in seen:
            if page.dated is None or visit.modified is None:
                continue
            # A day that most pages share is the day of a build or an upload. It says nothing about single pages.
            shared = days.total() >= _FEW and 2 * days[visit.modified // DAY] > days.total()
            said = "" if shared else _apart(visit.modified, *page.dated)
            if said:
                yield (page, visit), said

    # --- crawlers ---

    def _compare(self, client: Client, refused_ourselves: set[str], *, guarded: bool) -> None:
        """Request refused files as sitemap_etl, and one file of each host that answered the crawler."""
        for file in self._refused[:_COMPARED]:
            if _status(client, file, guarded=guarded) == 200:
                self.findings.append(Finding("crawler-refused", file, detail=_refused_to(self._agent)))
        for where, file in list(self._answered.items())[:_COMPARED]:
            if where not in refused_ourselves and is_refusal(_status(client, file, guarded=guarded)):
                refused_ourselves.add(where)
        for where in sorted(refused_ourselves):
            name = self._answered.get(where, where)
            self.findings.append(Finding("checker-refused", name, detail=f"{where} answers {self._agent.name}"))


def _in_turn(lists: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield the first of each list, then the second of each, so that every sample is visited in part at any time."""
    for turn in zip_longest(*lists):
        yield from (url for url in turn if url is not None)


def _said(kind: str, visit: Visit) -> str | None:
    """Return the text about this fault of a page, or None if it has none of the kind."""
    return next((fault.detail for fault in visit.faults if fault.kind == kind), None)


def _apart(modified: int, begin: int, end: int) -> str:
    """Return a text for a Last-Modified that is far from a lastmod, or ""."""
    if begin - _APART <= modified <= end + _APART:
        return ""
    return f"lastmod {_text(begin)}, Last-Modified {_text(modified)}"


def _text(seconds: int) -> str:
    return instant(datetime.fromtimestamp(seconds, UTC))


def _refused_to(agent: Agent) -> str:
    return f"asked for as {agent.name}"


def _status(client: Client, url: str, *, guarded: bool) -> int:
    """Return the status of an address for sitemap_etl, or 0 if there is none."""
    try:
        return client.request("GET", url, limit=0, seconds=30, redirects=REDIRECTS, guarded=guarded).status
    except Stopped:
        raise
    except WebError:
        return 0
