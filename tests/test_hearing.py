"""What engines are sent over several runs: every committed change once, and nothing else.

IndexNow represents engines that are sent single URLs, Search Console those that report what they found.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from sitemap_etl.frames import CHANGES
from sitemap_etl.runs.local import Finished, ping_locally, run_locally
from sitemap_etl.runs.ping import ping_by_hand
from sitemap_etl.runs.rollback import roll_back
from sitemap_etl.state import layout
from sitemap_etl.state.changes import packed, put_changes
from sitemap_etl.state.records import Current, Notification, Options, Summary
from sitemap_etl.state.store import put_document, read_document
from tests.support.engines import Reply, Request, Side
from tests.support.sites import FIRST_NIGHT, TestSite, pages
from tests.support.storages import Died

KEY = "0123456789abcdef0123456789abcdef"
GOOGLE = {"path": "x", "errors": "3", "warnings": "0", "isPending": False}


class World:
    """A site on loopback with two engines; its process can die at a write."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.down = False
        self.side = Side(self.answer)
        self.site = TestSite(folder, gates={"max_drop": 1, "max_growth": 99})
        self.site.keys["site"] = self.url = self.side.url
        account = folder / "account.json"
        account.write_text(json.dumps({"client_email": "a@b", "private_key": key(), "token_uri": f"{self.url}/token"}))
        self.site.keys["ping"] = {
            "indexnow": {"key": KEY, "endpoint": f"{self.url}/indexnow", "patience": 0},
            "search_console": {
                "property": f"{self.url}/",
                "key": str(account),
                "endpoint": f"{self.url}/google",
                "patience": 0,
            },
        }
        self.pages(100)

    def pages(self, count: int, *changed: int) -> None:
        self.site.section("p", pages(count, lastmod=lambda n: "2026-10-31" if n in changed else "2026-10-01"))

    def answer(self, request: Request) -> Reply:
        if request.path == "/token":
            return Reply(200, json.dumps({"access_token": "t"}))
        if request.path.startswith(("/indexnow", "/google")):
            return Reply(503) if self.down else Reply(200, json.dumps(GOOGLE))
        file = self.folder / "public" / request.path.lstrip("/")
        return Reply(200, file.read_bytes()) if file.is_file() else Reply(404)

    def run(self, number: float, *, ping: bool = True, **options: Any) -> Finished:
        """Run the site on day n, without its engines."""
        environment = self.site.at(FIRST_NIGHT + timedelta(days=number - 1))
        return run_locally(self.site.load(), Options(ping=ping, **options), environment, jobs=1)

    def hear(self, finished: Finished) -> Summary:
        return ping_locally(finished, self.site.store.around(self.site.environment))

    def night(self, number: float, **options: Any) -> Summary:
        return self.hear(self.run(number, **options))

    def killed(self, number: float, since: str, writes: int = 0) -> None:
        """Run the site until it dies at the n-th write, counted from one whose address contains this."""
        self.site.store.die(writes, since=since)
        with pytest.raises(Died):
            self.run(number)
        self.site.store.revive()

    def heard(self) -> list[str]:
        """Return what IndexNow accepted, in order: the end of each URL."""
        asked = [request for request in self.side.asked("POST", "/indexnow") if not self.down]
        return [url.rpartition("/")[2].lstrip("0") for request in asked for url in request.json["urlList"]]

    def read_back(self) -> int:
        """Return how often Google was asked for its findings."""
        return len(self.side.asked("GET", "/google"))

    def forget(self) -> None:
        self.side.requests.clear()


def key() -> str:
    """A private key, made for this test only."""
    made = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    form = serialization.PrivateFormat.TraditionalOpenSSL
    return made.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()).decode()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    with world.side:
        world.night(1)
        world.forget()
        yield world


@pytest.mark.thorough
def test_an_engine_that_was_down_for_several_runs_gets_each_change_once(world: World) -> None:
    world.down = True
    for night, changed in ((2, (1,)), (3, (1, 2)), (4, (1, 2)), (5, (1, 2, 3))):  # the fourth changes nothing
        world.pages(100, *changed)
        assert world.night(night).status == "partial"
    world.down = False
    world.forget()
    summary = world.night(6)  # nor does this one
    assert summary.engines["indexnow"].status == "accepted"
    assert sorted(world.heard()) == ["1", "2", "3"]
    world.forget()
    world.night(7)
    assert world.heard() == []


def test_changes_of_a_run_killed_before_notifying_are_sent_with_the_next(world: World) -> None:
    world.pages(100, 4)
    world.run(2)  # and no more of it
    world.pages(100, 4, 5)
    world.run(3)
    world.night(4)
    assert sorted(world.heard()) == ["4", "5"]


@pytest.mark.parametrize("again", ["the same", "nothing", "another"])
def test_a_run_killed_before_its_commit_notifies_nobody(world: World, again: str) -> None:
    """Its changes are stored by then. The next run has the same source, the former one, or another."""
    world.pages(100, 6)
    world.killed(2, "/notification.json", 1)
    assert changes_kept(world)
    if again != "the same":
        world.pages(100, *((7,) if again == "another" else ()))
    world.night(3)
    assert world.heard() == {"the same": ["6"], "nothing": [], "another": ["7"]}[again]
    world.night(4)
    assert len(world.heard()) <= 1


def test_ping_does_not_send_a_run_that_was_never_committed(world: World) -> None:
    world.pages(100, 8)
    first = world.night(2).run_id
    world.pages(100, 8, 9)
    world.killed(3, "/notification.json", 1)
    world.forget()
    environment = world.site.store.around(world.site.environment)
    ping_by_hand(world.site.load(), environment, engines=("indexnow",), since=None, everything=False)
    ping_by_hand(world.site.load(), environment, engines=("indexnow",), since=first, everything=False)
    assert world.heard() == []


def test_ping_all_sends_the_published_pages_even_if_the_site_file_has_changed(world: World) -> None:
    world.site.section("v", pages(10, start=500), view=True)
    world.night(2)
    world.forget()
    world.site.keys["sections"]["v"]["view"] = False
    world.site.keys["sections"]["p"]["view"] = True
    environment = world.site.store.around(world.site.environment)
    ping_by_hand(world.site.load(), environment, engines=("indexnow",), since=None, everything=True)
    assert sorted(int(end or 0) for end in world.heard()) == list(range(100))


def test_changes_that_an_overtaken_run_writes_late_are_never_sent(world: World) -> None:
    """It was taken over, and its process made one more write."""
    world.pages(100, 6)
    world.killed(2, "/current.json", 1)
    world.pages(100)
    world.night(3)
    late = pa.Table.from_pylist([{"loc": f"{world.url}/p/000006", "kind": "changed", "section": "p"}], schema=CHANGES)
    state = world.site.state()
    put_changes(state, "20261102T020000Z-0000", packed([late]), Notification((), (), (), (), 100, None))
    world.pages(100, 1)
    world.night(4)
    world.night(5)
    assert world.heard() == ["1"]


def test_pending_changes_written_by_an_earlier_version_are_sent(world: World) -> None:
    """That version did not record what was committed."""
    world.pages(100, 2)
    world.run(2)
    storage = world.site.state().storage
    current, _ = read_document(storage, layout.CURRENT, Current) or pytest.fail("no state")
    assert current.committed is not None
    put_document(storage, layout.CURRENT, replace(current, committed=None))
    world.pages(100, 2, 3)
    world.night(3)
    assert sorted(world.heard()) == ["2", "3"]


def test_changes_of_a_run_with_a_fast_clock_are_sent_by_later_runs(world: World) -> None:
    """Its id is greater than theirs."""
    world.pages(100, 2)
    world.run(2)
    world.pages(100, 2, 3)
    world.run(400)
    roll_back(world.site.load(), None, world.site.at(FIRST_NIGHT + timedelta(days=2)), reason="the clock was fast")
    world.night(4)
    assert sorted(world.heard()) == ["2", "3"]


def test_an_engine_notified_by_a_run_with_a_fast_clock_is_notified_again(world: World) -> None:
    world.pages(100, 2)
    world.night(400)
    assert world.heard() == ["2"]
    world.pages(100)
    roll_back(world.site.load(), None, world.site.at(FIRST_NIGHT + timedelta(days=2)), reason="the clock was fast")
    world.pages(100, 2)
    world.forget()
    assert world.night(4).engines["indexnow"].status == "accepted"
    assert world.heard() == ["2"]


def test_search_console_is_read_back_on_unchanged_runs(world: World) -> None:
    summary = world.night(2)
    assert summary.status == "unchanged"
    assert world.read_back() == 1
    answer = summary.engines["search_console"]
    assert (answer.status, answer.sent) == ("nothing", 0)
    assert "Google found 3 errors and 0 warnings" in answer.message
    assert not world.side.asked("PUT", "/google")
    assert "indexnow" not in summary.engines


def test_with_no_ping_nothing_is_read_back(world: World) -> None:
    world.run(2, ping=False)
    assert world.read_back() == 0


def changes_kept(world: World) -> list[str]:
    return [stat.key for stat in world.site.state().storage.list(layout.CHANGES) if stat.key.endswith(".parquet")]
