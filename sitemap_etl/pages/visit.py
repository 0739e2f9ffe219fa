"""Request pages politely, within a time limit, and judge each answer.

**Politeness.** A host gets one request at a time, with a delay between them. A longer delay in its robots.txt applies.
Pages that robots.txt disallows are not requested. After 429 or 503 the host gets a pause. A host that does not answer
several times in a row is left alone.

**HEAD, then GET.** HEAD is enough for pages that are not HTML. A bad answer to HEAD proves nothing, because some
servers don't support it, so GET decides. If HEAD was useless a few times in a row, the host gets GET at once.
"""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from hashlib import blake2b
from http import HTTPStatus
from threading import Lock
from typing import Final
from urllib.parse import urlsplit

from sitemap_etl import web
from sitemap_etl.errors import Unavailable
from sitemap_etl.frozen import Frozen
from sitemap_etl.limits import ROBOTS_BYTES
from sitemap_etl.pages.agents import OURSELVES, Agent
from sitemap_etl.pages.judgement import (
    Fault,
    header_faults,
    is_refusal,
    is_unknown,
    joined,
    markup_faults,
    modified,
    says_the_same,
)
from sitemap_etl.pages.markup import Markup, is_html, read_markup
from sitemap_etl.robots import CrawlRules
from sitemap_etl.urls import origin
from sitemap_etl.web import REDIRECTS, Fetched, Stopped, WebError, shown_address

PAGE_BYTES: Final = 512 * 1024
"""Bytes read of a page, enough for its head."""
SECONDS: Final = 30.0
"""Time limit of one request, in seconds."""
_OWN_DELAY: Final = 0.1
_OWN_ABREAST: Final = 4
"""Seconds between requests to your own site, and the number of parallel requests."""
_LONGEST_DELAY: Final = 30.0
"""Longest Crawl-delay that applies, in seconds."""
_PAUSE: Final = 5.0
"""Pause after 429 or 503 without Retry-After, in seconds."""
_GIVEN_UP: Final = 5
"""Requests in a row without an answer after which a host is left alone."""
_SPARED_NOTHING: Final = 3
"""Times in a row that GET had to follow HEAD, after which only GET is used."""
_FOLDERS: Final = 10
"""Folders of a host in which a nonexistent address is tried."""
_LATER: Final = (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE)
_FILES: Final = (".pdf", ".jpg", ".jpeg", ".png", ".gif", ".webp", ".svg", ".mp4", ".webm", ".zip", ".doc", ".docx")
"""Endings of addresses that are not HTML pages."""


class Visit(Frozen):
    """Result of the visit of a page.

    `faults`: why it should not be listed. `unknown`: why that can't be said. `skipped`: there was no time left to ask.
    `crawler`: the crawler that is imitated was refused, and we ourselves were not.
    `modified`: by its Last-Modified, in epoch seconds.
    """

    url: str
    faults: tuple[Fault, ...] = ()
    unknown: str = ""
    skipped: bool = False
    crawler: str = ""
    modified: int | None = None

    @property
    def judged(self) -> bool:
        return not (self.skipped or self.unknown)


def visits(urls: Sequence[str], seconds: float, *, delay: float = _OWN_DELAY) -> Iterator[Visit]:
    """Yield the results for pages of your own site as they are done, within `seconds`.

    delay: seconds between two requests; shorter than for other sites. If the first page is on the public internet,
    private addresses are not requested.
    """
    with web.Client(purpose="pages") as client:
        try:
            guarded = bool(urls) and client.is_public(urls[0])
        except WebError:
            guarded = True
        yield from Visitor(client, delay=delay, abreast=_OWN_ABREAST, guarded=guarded).visits(urls, seconds)


class _Unknown(Exception):
    """The state of a page is unknown. The argument is the reason."""


class _OutOfTime(Exception):
    """The time for all visits is over."""


@dataclass
class _Host:
    """One origin.

    busy: pages that are in progress.
    free: the time of the next possible request.
    """

    origin: str
    delay: float
    lock: Lock = field(default_factory=Lock)
    trying: Lock = field(default_factory=Lock)
    busy: int = 0
    free: float = 0.0
    silent: int = 0
    wasted: int = 0
    rules: CrawlRules | None = None
    closed: str = ""
    """Why nothing can be requested from it."""
    folders: dict[str, Markup | None] = field(default_factory=dict)
    compared: bool = False
    refuses: bool | None = None


class Visitor:
    """Visitor of pages, with threads of its own. Only one thread can use it.

    `delay`: seconds between the requests to a host. `abreast`: parallel visits of a host. `jobs`: of all hosts.
    `guarded`: don't request private addresses. `seed`: for the missing addresses that are tried. `sent`: headers for an
    address, besides the User-Agent. `redact`: removes their secrets from messages.
    """

    def __init__(
        self,
        client: web.Client,
        *,
        agent: Agent = OURSELVES,
        delay: float = 1.0,
        abreast: int = 1,
        jobs: int = 4,
        guarded: bool = False,
        seed: int = 0,
        sent: Callable[[str], Mapping[str, str]] = lambda _url: {},
        redact: Callable[[str], str] = str,
    ) -> None:
        self.refused_ourselves: set[str] = set()
        """Origins that answered the imitated crawler, and refused sitemap_etl."""
        self._client = client
        self._agent = agent
        self._delay = delay
        self._abreast = abreast
        self._jobs = jobs
        self._guarded = guarded
        self._seed = seed
        self._sent = sent
        self._redact = redact
        self._hosts: dict[str, _Host] = {}
        self._end = 0.0

    def visits(self, urls: Iterable[str], seconds: float) -> Generator[Visit, None, None]:
        """Yield the result for each page as it is done, within `seconds`. Close the generator to stop early."""
        self._end = time.monotonic() + seconds
        waiting: dict[str, deque[str]] = {}
        for url in dict.fromkeys(urls):
            try:
                where = origin(url)
            except ValueError as reason:
                yield Visit(url, unknown=f"it is not the address of a page ({reason})")
                continue
            waiting.setdefault(where, deque()).append(url)
        for where in waiting:
            self._hosts.setdefault(where, _Host(where, self._delay))
        with ThreadPoolExecutor(self._jobs, thread_name_prefix="pages") as pool:
            under_way: dict[Future[Visit], _Host] = {}
            try:
                turns = deque(waiting)
                while turns or under_way:
                    self._begin(pool, turns, waiting, under_way)
                    done, _ = wait(under_way, return_when=FIRST_COMPLETED)
                    for future in done:
                        host = under_way.pop(future)
                        host.busy -= 1
                        if not host.busy and not waiting[host.origin]:
                            del self._hosts[host.origin]  # with its rules, which may be many
                        yield future.result()
            except BaseException:
                self._client.stop()
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def _begin(
        self,
        pool: ThreadPoolExecutor,
        turns: deque[str],
        waiting: dict[str, deque[str]],
        under_way: dict[Future[Visit], _Host],
    ) -> None:
        """Start as many pages as possible now, taking hosts in turn."""
        for _ in range(len(turns)):
            if len(under_way) >= self._jobs:
                return
            host = self._hosts[turns[0]]
            pages = waiting[turns[0]]
            while pages and host.busy < self._abreast and len(under_way) < self._jobs:
                host.busy += 1
                under_way[pool.submit(self._visit, host, pages.popleft())] = host
            turns.rotate(-1)
            if not pages:
                turns.pop()

    # --- one page ---

    def _visit(self, host: _Host, url: str) -> Visit:
        try:
            return self._judged(host, url)
        except _OutOfTime:
            return Visit(url, skipped=True)
        except _Unknown as reason:
            return Visit(url, unknown=str(reason))

    def _judged(self, host: _Host, url: str) -> Visit:
        rules = self._rules(host)
        if not rules.allows(url, self._agent.token):
            if self._agent is OURSELVES and rules.allows(url, "*"):
                raise _Unknown(f"robots.txt disallows it to {OURSELVES.token}")
            return Visit(url, (Fault("blocked-by-robots"),))
        found = self._page(host, url)
        if found.moved:
            return self._redirected(host, url, found)
        if is_unknown(found.status):
            raise _Unknown(f"status {found.status}")
        if not 200 <= found.status < 300:
            if is_refusal(found.status) and self._status_for_us(host, url) == HTTPStatus.OK:
                return Visit(url, crawler=f"status {found.status}")
            if is_refusal(found.status) and self._refuses(host):
                raise _Unknown(f"status {found.status}, also for the home page: the server refuses {self._agent.name}")
            return Visit(url, (Fault("status", f"status {found.status}"),))
        if not host.compared:
            host.compared = True
            if is_refusal(self._status_for_us(host, url)):
                self.refused_ourselves.add(host.origin)
        faults = [*header_faults(url, found.url, found.headers, self._agent)]
        visit = Visit(url, modified=modified(found.headers))
        if found.body and not found.coding and is_html(found.body, found.headers.get("content-type", "")):
            page = read_markup(found.body, found.headers.get("content-type", ""))
            faults += markup_faults(url, found.url, page, self._agent)
            missing = self._missing(host, url)
            if missing is not None and says_the_same(page, missing[1], url, missing[0]):
                faults.append(Fault("soft-404", f"{missing[0]} answers with much the same page"))
        kinds = {fault.kind: fault for fault in reversed(faults)}  # what headers and markup both say is said once
        return replace(visit, faults=tuple(reversed(kinds.values())))

    def _page(self, host: _Host, url: str) -> Fetched:
        """Return the answer to HEAD if it is enough, otherwise to GET."""
        if host.wasted < _SPARED_NOTHING or urlsplit(url).path.lower().endswith(_FILES):
            head = self._again(host, "HEAD", url)
            kind = head.headers.get("content-type", "")
            if head.status in _LATER or (200 <= head.status < 300 and kind and not is_html(b"", kind)):
                host.wasted = 0
                return head
            host.wasted += 1
        return self._again(host, "GET", url)

    def _redirected(self, host: _Host, url: str, found: Fetched) -> Visit:
        """Return the result for a page that redirects. Redirects are followed only on the same host."""
        first, seen = f"status {found.status}", {url}
        target = joined(url, found.moved)
        to = f"{first} to {shown_address(target)[:200]}"
        for _ in range(REDIRECTS):
            if target in seen:
                return Visit(url, (Fault("redirects", f"{to}, in a circle"),))
            seen.add(target)
            if not _is_of(target, host.origin) or not self._rules(host).allows(target, self._agent.token):
                return Visit(url, (Fault("redirects", to),))
            found = self._again(host, "GET", target)
            if not found.moved:
                break
            target = joined(target, found.moved)
        else:
            return Visit(url, (Fault("redirects", f"{to}, and on, more than {REDIRECTS} times"),))
        if not is_unknown(found.status) and found.status >= 400:
            return Visit(url, (Fault("status", f"{to}, which answers with status {found.status}"),))
        return Visit(url, (Fault("redirects", to),))

    def _status_for_us(self, host: _Host, url: str) -> int:
        """Return the status that sitemap_etl gets while a crawler is imitated, or 0 if it is unknown."""
        if self._agent is OURSELVES or not self._rules(host).allows(url, OURSELVES.token):
            return 0
        try:
            return self._ask(host, "GET", url, limit=0, agent=OURSELVES).status
        except _Unknown:
            return 0

    def _refuses(self, host: _Host) -> bool:
        """Return True if a host refuses its home page too. Then the refusal depends on the client, or the site needs a
        login.
        """
        home = f"{host.origin}/"
        with host.trying:
            if host.refuses is None:
                host.refuses = False
                if self._rules(host).allows(home, self._agent.token):
                    with contextlib.suppress(_Unknown):
                        host.refuses = is_refusal(self._ask(host, "GET", home, limit=0).status)
            return host.refuses

    def _missing(self, host: _Host, url: str) -> tuple[str, Markup] | None:
        """Return a nonexistent address in the page's folder with its page, or None if it does not answer with one."""
        path = urlsplit(url).path or "/"
        folder, _, name = path.rpartition("/")
        ending = f".{name.rpartition('.')[2]}" if "." in name else ""
        secret = blake2b(f"{self._seed} {folder}".encode(), digest_size=10).hexdigest()
        address = f"{host.origin}{folder}/{secret}{ending}"
        with host.trying:
            if folder not in host.folders and len(host.folders) < _FOLDERS:
                host.folders[folder] = self._answered(host, address)
            page = host.folders.get(folder)
        return None if page is None else (address, page)

    def _answered(self, host: _Host, address: str) -> Markup | None:
        """Return the page at an address, or None."""
        if not self._rules(host).allows(address, self._agent.token):
            return None
        try:
            found = self._ask(host, "GET", address, limit=PAGE_BYTES)
        except _Unknown:
            return None
        kind = found.headers.get("content-type", "")
        if found.status != HTTPStatus.OK or found.coding or not is_html(found.body, kind):
            return None
        return read_markup(found.body, kind)

    # --- one host ---

    def _rules(self, host: _Host) -> CrawlRules:
        """Return the rules of a host's robots.txt. Without an answer, nothing is requested (RFC 9309, 2.3.1.4)."""
        with host.lock:
            if host.rules is None and not host.closed:
                self._read_rules(host)
        if host.rules is None:
            raise _Unknown(host.closed)
        return host.rules

    def _read_rules(self, host: _Host) -> None:
        url = f"{host.origin}/robots.txt"
        for _ in range(REDIRECTS + 1):
            try:
                found = self._send("GET", url, ROBOTS_BYTES, self._agent)
            except WebError as error:
                host.closed = _words(error)
                return
            if not found.moved:
                break
            url = joined(url, found.moved)
        if is_unknown(found.status):
            host.closed = f"its robots.txt answers with status {found.status}"
            return
        host.rules = CrawlRules(found.body if found.status == HTTPStatus.OK else b"")
        wanted = host.rules.delay(self._agent.token)
        host.delay = max(host.delay, min(wanted, _LONGEST_DELAY))

    def _again(self, host: _Host, method: str, url: str) -> Fetched:
        """Return the answer of an address. Request it once more if the host asks for a pause."""
        limit = PAGE_BYTES if method == "GET" else 0
        found = self._ask(host, method, url, limit=limit)
        if found.status in _LATER:
            pause = found.retry_after(datetime.now(UTC)) or _PAUSE
            with host.lock:
                host.free = max(host.free, time.monotonic() + pause)
                if found.status == HTTPStatus.TOO_MANY_REQUESTS:
                    host.delay = min(2 * host.delay, _LONGEST_DELAY)
            if host.free < self._end:
                found = self._ask(host, method, url, limit=limit)
        return found

    def _ask(self, host: _Host, method: str, url: str, *, limit: int, agent: Agent | None = None) -> Fetched:
        """Send one request when it is the host's turn."""
        if host.closed:
            raise _Unknown(host.closed)
        with host.lock:
            turn = max(time.monotonic(), host.free)
            host.free = turn + host.delay
        if turn >= self._end:
            raise _OutOfTime
        self._client.sleep(max(0.0, turn - time.monotonic()))
        try:
            found = self._send(method, url, limit, agent or self._agent)
        except Stopped:
            raise
        except WebError as error:
            if time.monotonic() >= self._end:
                raise _OutOfTime from error
            if isinstance(error, Unavailable):
                host.silent += 1
            if host.silent >= _GIVEN_UP:
                host.closed = f"the host was left alone after {_GIVEN_UP} requests without an answer"
            raise _Unknown(_words(error)) from error
        host.silent = 0
        return found

    def _send(self, method: str, url: str, limit: int, agent: Agent) -> Fetched:
        headers = {**self._sent(url), **({"User-Agent": agent.header} if agent.header else {})}
        seconds = min(SECONDS, self._end - time.monotonic())
        if seconds <= 0:
            raise _OutOfTime
        return self._client.request(
            method, url, limit=limit, seconds=seconds, guarded=self._guarded, redact=self._redact, headers=headers
        )


def _is_of(url: str, where: str) -> bool:
    try:
        return origin(url) == where
    except ValueError:
        return False


def _words(error: WebError) -> str:
    """Return why there was no answer, shortened."""
    return error.words[:200]
