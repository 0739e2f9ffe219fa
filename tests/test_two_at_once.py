"""Two runs of one site: one publishes, the other is refused, and the set is the winner's, byte for byte."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from sitemap_etl.errors import Refused, SitemapEtlError
from sitemap_etl.pipeline.start import LEASE
from tests.support.sites import TestSite, pages
from tests.support.storages import Wrapped, Wrapping


class _Paused(Wrapped):
    def put(self, key: str, data: Any, **options: Any) -> Any:
        outer: Any = self._outer
        outer.before(self._inner.url_of(key))
        return self._inner.put(key, data, **options)

    def delete(self, key: str, **options: Any) -> Any:
        outer: Any = self._outer
        outer.before(self._inner.url_of(key))
        return self._inner.delete(key, **options)


class Pausing(Wrapping):
    """Stops a run right before a write whose address has `text` in it, for the `n`-th time, until it is woken."""

    storage = _Paused

    def __init__(self, text: str, n: int = 1) -> None:
        self.text = text
        self.left = n
        self.asleep, self.woken = threading.Event(), threading.Event()
        self.after: list[str] = []

    def before(self, address: str) -> None:
        if self.asleep.is_set():  # its other threads go on while one sleeps
            if self.woken.is_set():
                self.after.append(address)
        elif self.text in address:
            self.left -= 1
            if self.left == 0:
                self.asleep.set()
                assert self.woken.wait(60)


@pytest.fixture
def site(tmp_path: Path) -> TestSite:
    site = TestSite(tmp_path, gates={"max_drop": 1, "max_growth": 99})
    site.section("p", pages(200, lastmod="2026-10-01"), shards={"rows": 50})
    site.night(1)
    return site


def edited(date: str) -> list[dict[str, Any]]:
    """Every file changes."""
    return pages(210, lastmod=date)


def agree(site: TestSite) -> None:
    """Manifest and objects say the same."""
    for file in site.manifest().files():
        stored = site.public().public.get(file.key)
        assert stored is not None, file.key
        assert hashlib.sha256(stored.data).hexdigest() == file.stored_sha256, file.key
        assert stored.stat.etag == file.etag


POINTS = [
    ("intent-", 1),  # before the claim
    ("current.json", 1),  # the claim itself
    ("/public/sitemap-p-", 1),  # claimed, before the first public write
    ("/public/sitemap-p-", 3),
    ("/public/sitemap.xml", 1),
    ("state/manifest-", 1),
    ("current.json", 2),  # the commit
]


@pytest.mark.parametrize(("text", "n"), POINTS)
def test_a_run_that_wakes_after_another_one_published_writes_nothing_that_lasts(
    site: TestSite, text: str, n: int
) -> None:
    site.export("p", edited("2026-10-02"))
    pausing = Pausing(text, n)
    sleeper = TestSite(site.folder)
    sleeper.keys = site.keys
    sleeper.outside = pausing.around(site.outside)
    outcome: list[BaseException | str] = []

    def run() -> None:
        try:
            outcome.append(sleeper.night(2).summary["status"])
        except SitemapEtlError as error:
            outcome.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    assert pausing.asleep.wait(60)
    (site.folder / "work" / "shop" / LEASE).unlink(missing_ok=True)  # its time was over
    site.export("p", edited("2026-10-03"))
    winner = site.night(3)
    assert winner.summary["status"] == "published"
    before = site.public().objects()
    pausing.woken.set()
    thread.join(60)
    (told,) = outcome
    assert isinstance(told, Refused)
    assert site.manifest().run_id == winner.run.run_id
    assert site.public().objects() == before
    agree(site)
    assert not [address for address in pausing.after if "/public/" in address]
    assert site.night(4).summary["status"] == "unchanged"


def test_two_runs_started_together_publish_one_set(site: TestSite) -> None:
    site.export("p", edited("2026-10-02"))
    barrier = threading.Barrier(2)
    outcomes: list[str] = []

    def run(number: int) -> None:
        barrier.wait()
        try:
            outcomes.append(site.night(number).summary["status"])
        except Refused as error:
            outcomes.append(str(error))

    path, site_file = site.path, site.load()
    site.load = lambda: site_file  # type: ignore[method-assign]  # both read one file
    threads = [threading.Thread(target=run, args=(number,)) for number in (2, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert path.exists()
    assert len(outcomes) == 2
    assert "published" in outcomes
    agree(site)
    assert len(site.public().locs()) == len(set(site.public().locs())) == 210
    assert site.night(3).summary["status"] == "unchanged"


HOOK = """
import time
from pathlib import Path

def wait(frame):
    here = Path(__file__).parent
    (here / "started").touch()
    while not (here / "go").exists():
        time.sleep(0.02)
    return frame
"""


def test_while_a_run_is_under_way_another_is_refused_with_who_and_since_when(site: TestSite) -> None:
    (site.folder / "slow_hook.py").write_text(HOOK)
    site.section("p", transform="slow_hook:wait")
    command = [sys.executable, "-c", "from sitemap_etl.cli import main; main()", "run", str(site.path), "--no-ping"]
    first = subprocess.Popen(command, cwd=site.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not (site.folder / "started").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    second = subprocess.run(command, cwd=site.folder, capture_output=True, text=True, check=False, timeout=60)
    (site.folder / "go").touch()
    first.communicate(timeout=60)
    assert second.returncode == 1
    assert "Another run is under way: run " in second.stderr
    assert f"process {first.pid} on" in second.stderr
    assert "since 20" in second.stderr
    assert first.returncode == 0
