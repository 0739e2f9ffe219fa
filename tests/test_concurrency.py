"""Two runs at once: one publishes, the other names it; the manifest always agrees with the objects."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from sitemap_etl.errors import Refused, Unavailable
from sitemap_etl.runs.local import Finished
from sitemap_etl.storage import open_storage
from tests.support.crash import Laboratory, listed
from tests.support.s3 import S3Server
from tests.support.sites import TestSite, pages
from tests.support.storages import Wrapped, Wrapping

SMALL = {"rows": 20, "fill": 0.9}
SECONDS = 60


class _Pausing(Wrapped):
    def put(self, key: str, *arguments: Any, **options: Any) -> Any:
        url = self._inner.url_of(key)
        self._outer.pass_by(url, before=True)
        done = self._inner.put(key, *arguments, **options)
        self._outer.pass_by(url, before=False)
        return done


class Pausing(Wrapping):
    """Pauses a run at the n-th put of an address with this ending, before or after it, until it is released.

    `written`: the addresses of successful puts since then.
    """

    storage = _Pausing

    def __init__(self, ending: str, *, nth: int = 1, before: bool = True) -> None:
        self.ending = ending
        self.left = nth
        self.before = before
        self.reached = threading.Event()
        self.go_on = threading.Event()
        self.written: list[str] = []
        self._lock = threading.Lock()

    def pass_by(self, url: str, *, before: bool) -> None:
        with self._lock:
            if self.go_on.is_set() and not before:
                self.written.append(url)
            fits = before == self.before and url.endswith(self.ending)
            self.left -= fits
            stop = fits and self.left == 0
        if stop:
            self.reached.set()
            assert self.go_on.wait(SECONDS)


class _Meeting(Wrapped):
    def put(self, key: str, *arguments: Any, **options: Any) -> Any:
        if key.endswith(self._outer.endings):
            self._outer.barrier.wait(SECONDS)
        return self._inner.put(key, *arguments, **options)


class Meeting(Wrapping):
    """Lets puts of keys with these endings succeed only together."""

    storage = _Meeting

    def __init__(self, *endings: str) -> None:
        self.endings = endings
        self.barrier = threading.Barrier(len(endings))


class _Full(Wrapped):
    def put(self, key: str, *arguments: Any, **options: Any) -> Any:
        if key.endswith(self._outer.ending):
            raise Unavailable("no space left")
        return self._inner.put(key, *arguments, **options)


class Full(Wrapping):
    """Refuses objects with this ending."""

    storage = _Full

    def __init__(self, ending: str) -> None:
        self.ending = ending


@contextmanager
def paused(site: TestSite, night: int, pausing: Pausing) -> Iterator[Future[Finished]]:
    """Start a run in a thread, paused where `pausing` says."""
    plain = site.environment
    site.environment = pausing.around(plain)
    with ThreadPoolExecutor(1) as pool:
        try:
            future = pool.submit(site.night, night)
            while not pausing.reached.wait(0.05):
                assert not future.done(), future.exception()
            site.environment = plain
            yield future
        finally:
            pausing.go_on.set()


def agrees(site: TestSite) -> None:
    """Check that every file of the manifest exists with its bytes and its ETag."""
    public = open_storage(site.load().publish.to)
    for file in site.manifest().files():
        stored = public.get(file.key)
        assert stored is not None, file.key
        assert (stored.stat.size, stored.stat.etag) == (file.stored, file.etag), file.key
        assert hashlib.sha256(stored.data).hexdigest() == file.stored_sha256, file.key


def published_ahead(site: TestSite) -> None:
    """Return two sections of three files each; the next run changes something in both."""
    for name, start in (("a", 0), ("b", 500)):
        site.section(name, pages(50, start, lastmod="2026-10-01"), shards=SMALL)
    site.night(1)
    changed(site, "a")


def changed(site: TestSite, *names: str) -> None:
    """Change the first page of these sections and add a last one; the others are as at first."""
    for name, start in (("a", 0), ("b", 500)):
        rows = pages(50, start, lastmod="2026-10-01")
        if name in names:
            rows = [*pages(1, start, lastmod="2026-11-01"), *rows[1:], *pages(1, start + 50)]
        site.export(name, rows)


def test_files_are_staged_concurrently(tmp_path: Path) -> None:
    site = TestSite(tmp_path).section("a", pages(50), shards=SMALL)
    site.environment = Meeting("/0.xml", "/1.xml").around(site.environment)

    site.night(1)

    assert [entry.rows for entry in site.manifest().of("a")] == [16, 17, 17]


def test_a_file_that_can_not_be_staged_ends_the_run(tmp_path: Path) -> None:
    site = TestSite(tmp_path).section("a", pages(50), shards=SMALL)
    site.environment = Full("/1.xml").around(site.environment)

    with pytest.raises(Unavailable, match="no space left"):
        site.night(1)

    assert list(open_storage(site.load().publish.to).list()) == []


POINTS: dict[str, Callable[[], Pausing]] = {
    "before the intent": lambda: Pausing("state/lease.json", nth=4, before=False),
    "before the claim": lambda: Pausing("current.json"),
    "after the claim": lambda: Pausing("current.json", before=False),
    "between two public writes": lambda: Pausing("sitemap.xml", before=False),
    "before the manifest": lambda: Pausing("notification.json"),
    "before the commit": lambda: Pausing("current.json", nth=2),
}


@pytest.mark.parametrize("store", ["folder", pytest.param("s3", marks=pytest.mark.thorough)])
@pytest.mark.parametrize(
    "point",
    [
        point
        if point.startswith("between") or point.endswith("commit")
        else pytest.param(point, marks=pytest.mark.thorough)
        for point in POINTS
    ],
)
def test_a_run_overtaken_while_paused_writes_nothing_public_and_names_the_other_run(
    tmp_path: Path, s3: S3Server, point: str, store: str
) -> None:
    bucket = s3.bucket()
    places = {"to": f"s3://{bucket}/public", "work": f"s3://{bucket}/work"} if store == "s3" else {}
    site = TestSite(tmp_path, site="http://127.0.0.1:9", **places)
    published_ahead(site)
    pausing = POINTS[point]()
    with paused(site, 2, pausing) as sleeper:
        changed(site, "b")
        winner = site.night(3)
        assert winner.summary.status == "published"
        after = site.public().objects()
        pausing.go_on.set()
        with pytest.raises(Refused) as refused:
            sleeper.result(SECONDS)
    assert winner.run.run_id in str(refused.value)
    assert "2026-" in str(refused.value).partition(winner.run.run_id)[2]
    assert not [url for url in pausing.written if "/public/" in url]
    assert site.public().objects() == after
    assert site.manifest().run_id == winner.run.run_id
    agrees(site)
    assert len(listed(after, "http://127.0.0.1:9/")) == 101


@pytest.mark.parametrize("key", ["sitemap-b-00001.xml.gz", "sitemap-a-00001.xml.gz"])
def test_a_put_delayed_past_its_claim_changes_nothing(tmp_path: Path, key: str) -> None:
    """Paused between reading its claim and the put. The winner changes the one file, and not the other."""
    site = TestSite(tmp_path, site="http://127.0.0.1:9")
    published_ahead(site)
    changed(site, "a", "b")
    pausing = Pausing(key)
    with paused(site, 2, pausing) as sleeper:
        changed(site, "b")
        site.export("b", [*pages(1, 500, lastmod="2026-11-01T01:00:00Z"), *pages(49, 501, lastmod="2026-10-01")])
        assert site.night(3).summary.status == "published"
        pausing.go_on.set()
        with pytest.raises(Refused):
            sleeper.result(SECONDS)
    assert not [url for url in pausing.written if "/public/" in url]
    agrees(site)
    assert site.night(4).summary.status == "unchanged"
    assert site.public().by_loc()["http://127.0.0.1:9/p/000000"].lastmod == "2026-10-01"
    assert site.night(5).summary.status == "unchanged"


def test_of_two_simultaneous_runs_one_publishes_and_the_other_names_it(tmp_path: Path) -> None:
    with Laboratory(tmp_path) as one, Laboratory(tmp_path) as other:
        for lab in (one, other):
            lab.site.section("a", pages(300), shards=SMALL)
        one.robots("")
        start = threading.Barrier(2)

        def night(lab: Laboratory, number: int) -> Any:
            start.wait()
            return lab.run(number)

        for number in range(1, 6):
            one.site.export("a", pages(300 + number))
            with ThreadPoolExecutor(2) as pool:
                done = list(pool.map(night, (one, other), (number, number)))
            statuses = sorted(each.status for each in done)
            assert statuses in (["AnotherRun", "published"], ["published", "unchanged"]), done
            for each in done:
                assert each.status != "AnotherRun" or " since 2026-" in each.error, each.error
            agrees(one.site)
            assert len(listed(one.world().objects)) == 300 + number


ATTEMPTS: dict[str, Callable[[], Pausing]] = {
    "after the claim": lambda: Pausing("current.json", before=False),
    "before a public write": lambda: Pausing("sitemap-a-00001.xml.gz"),
    "after a public write": lambda: Pausing("sitemap.xml", before=False),
}


@pytest.mark.parametrize("point", ATTEMPTS)
def test_after_a_retry_took_over_the_first_attempt_of_a_run_writes_nothing(tmp_path: Path, point: str) -> None:
    """As if a scheduler considers a task dead that is only paused, anywhere."""
    from sitemap_etl.publish.publish import publish
    from sitemap_etl.stages.run import open_run

    site = TestSite(tmp_path, site="http://127.0.0.1:9")
    published_ahead(site)
    pausing = ATTEMPTS[point]()
    with paused(site, 2, pausing) as sleeper:
        staged = next((tmp_path / "work" / "shop" / "runs").glob("*/render/0.json")).parents[1]
        done = publish(open_run(str(staged), site.environment))
        assert done.status == "published"
        after = site.public().objects()
        pausing.go_on.set()
        with pytest.raises(Refused, match=rf"Overtaken: run {staged.name}, of \S+Z, was published while run"):
            sleeper.result(SECONDS)
    # The write it was held at goes to what the retry wrote already, which are the same bytes.
    assert not [url for url in pausing.written if "/public/" in url and not url.endswith(pausing.ending)]
    assert site.public().objects() == after
    agrees(site)


@pytest.mark.parametrize("point", ["after the claim", "after a public write"])
def test_a_first_attempt_that_resumes_during_its_retry_writes_nothing(tmp_path: Path, point: str) -> None:
    """Both are the same run: the id does not say which of them holds the claim."""
    from sitemap_etl.publish.publish import publish
    from sitemap_etl.stages.run import open_run

    site = TestSite(tmp_path, site="http://127.0.0.1:9")
    published_ahead(site)
    first, second = ATTEMPTS[point](), Pausing("current.json", before=False)
    with paused(site, 2, first) as sleeper, ThreadPoolExecutor(1) as pool:
        staged = next((tmp_path / "work" / "shop" / "runs").glob("*/render/0.json")).parents[1]
        retry = pool.submit(publish, open_run(str(staged), second.around(site.environment)))
        try:
            assert second.reached.wait(SECONDS)
            before = site.public().objects()
            first.go_on.set()
            with pytest.raises(Refused, match="Overtaken"):
                sleeper.result(SECONDS)
            assert site.public().objects() == before
        finally:
            second.go_on.set()
        assert retry.result(SECONDS).status == "published"
    agrees(site)
    assert len(site.public().locs()) == 101
