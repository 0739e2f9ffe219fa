"""IndexNow: what is sent, in which order, how often, and what stays pending."""

from __future__ import annotations

import contextlib
import json
import random
import re
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sitemap_etl import engines, web
from sitemap_etl.engines.backlog import RUNS_WAITING, Waiting, advance, finish, left_of, ordered
from sitemap_etl.errors import ConfigError, Refused, Unavailable
from tests.support.engines import RESET, Memory, Reply, Request, Side, Time, changes, made, submission
from tests.support.examples import examples

KEY = "0123456789abcdef0123456789abcdef"


class World:
    """IndexNow and the site, on one server."""

    def __init__(self, side: Side, client: web.Client) -> None:
        self.side, self.client = side, client
        self.time, self.ledger = Time(), Memory()
        self.settings: dict[str, Any] = {}
        self.kept: dict[str, pa.Table] = {}

    def engine(self) -> engines.HttpEngine[Any]:
        given = {"key": KEY, "endpoint": f"{self.side.url}/indexnow", "max_share": 1.0} | self.settings
        return made("indexnow", given)

    def submit(self, run: str, rows: list[tuple[str, str, str | None]] | pa.Table, **values: Any) -> engines.Answer:
        table = (
            rows if isinstance(rows, pa.Table) else changes([(f"{self.side.url}{path}", *rest) for path, *rest in rows])
        )
        self.kept[run] = table
        told = submission(
            self.side.url, run, **({"changes": table, "listed": 10_000_000, "earlier": self.kept.get} | values)
        )
        return self.engine().submit(told, self.ledger, self.client, clock=self.time.clock, sleep=self.time.sleep)

    def posts(self) -> list[list[str]]:
        """Return the paths of each request's URLs."""
        return [[loc.removeprefix(self.side.url) for loc in r.json["urlList"]] for r in self.side.asked("POST")]

    def sent(self) -> list[str]:
        return [path for post in self.posts() for path in post]


def answer(request: Request) -> Reply:
    return Reply(200, f"{KEY}\n") if request.method == "GET" else Reply(200)


@pytest.fixture
def world() -> Iterator[World]:
    with Side(answer) as side, web.Client(step=5) as client:
        yield World(side, client)


def many(world: World, count: int, kind: str = "added") -> pa.Table:
    return changes([(f"{world.side.url}/{number:06}", kind, None) for number in range(count)])


def test_the_key_file_is_verified_before_urls_are_posted(world: World) -> None:
    result = world.submit("r1", [("/a", "added", None), ("/b", "removed", None), ("/c", "changed", "2026-11-19")])
    get, post = world.side.requests
    assert (get.method, get.path) == ("GET", f"/{KEY}.txt")
    assert (post.method, post.path) == ("POST", "/indexnow")
    assert post.headers["Content-Type"] == "application/json; charset=utf-8"
    host = world.side.url.removeprefix("http://")
    assert post.json == {
        "host": host,
        "key": KEY,
        "urlList": [f"{world.side.url}{path}" for path in ("/b", "/a", "/c")],
    }
    assert (result.status, result.sent) == ("accepted", 3)
    assert result.message == "sent 3 URLs (1 removed, 1 added, 1 changed) in 1 request"


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (Reply(404), "is 404.*publish.root"),
        (Reply(200, "another key"), "does not contain exactly the key"),
        (Reply(301, "", {"Location": "https://elsewhere.example/"}), "is 301, a redirect"),
    ],
)
def test_nothing_is_sent_without_a_key_file(world: World, reply: Reply, words: str) -> None:
    world.side.faults = [reply]
    with pytest.raises(Refused, match=words):
        world.submit("r1", [("/a", "added", None)])
    assert world.posts() == []
    assert world.submit("r1", [("/a", "added", None)]).sent == 1


def test_with_a_key_file_in_a_folder_only_urls_under_that_folder_are_sent(world: World) -> None:
    world.settings = {"key_location": f"{world.side.url}/shop/proof.txt"}
    result = world.submit("r1", [("/shop/a", "added", None), ("/blog/b", "added", None)])
    assert world.side.requests[0].path == "/shop/proof.txt"
    assert world.side.requests[1].json["keyLocation"] == f"{world.side.url}/shop/proof.txt"
    assert world.sent() == ["/shop/a"]
    assert "1 are not under" in result.message
    assert world.engine().key_file() is None


def test_a_request_has_at_most_ten_thousand_urls(world: World) -> None:
    result = world.submit("r1", many(world, 20_001))
    assert [len(post) for post in world.posts()] == [10_000, 10_000, 1]
    assert len(set(world.sent())) == 20_001
    assert result.message == "sent 20,001 URLs (20,001 added) in 3 requests"
    assert len(world.side.asked("GET")) == 1


def test_a_202_is_accepted_and_reported_as_key_being_checked(world: World) -> None:
    world.side.answer = lambda request: answer(request) if request.method == "GET" else Reply(202)
    assert "still checking the key" in world.submit("r1", [("/a", "added", None)]).message


@pytest.mark.parametrize(
    ("status", "words"),
    [(400, "could not be read"), (403, "key is not valid"), (422, "not on this host"), (418, "418")],
)
def test_urls_of_an_explained_refusal_are_sent_once_it_is_fixed(world: World, status: int, words: str) -> None:
    world.settings = {"daily_limit": 1}  # which a refused URL takes nothing of
    world.side.faulty = lambda request: request.method == "POST"
    world.side.faults = [Reply(status)]
    with pytest.raises(Refused, match=words):
        world.submit("r1", [("/a", "added", None)])
    assert world.submit("r1", [("/a", "added", None)]).sent == 1


UNVERIFIED = Reply(
    403, json.dumps({"errorCode": "SiteVerificationNotCompleted", "message": "Please wait", "details": None})
)


def test_urls_stay_pending_while_the_engine_has_not_read_the_key_file(world: World) -> None:
    world.settings = {"daily_limit": 2}  # which a pending URL takes nothing of
    world.side.faulty = lambda request: request.method == "POST"
    world.side.faults = [UNVERIFIED]
    result = world.submit("r1", [("/a", "added", None), ("/b", "added", None)])
    assert (result.status, result.sent, result.failed, result.details["left"]) == ("skipped", 0, False, 2)
    assert "2 URLs are left for a later run: the engine has not read the key file yet" in result.message
    assert "sitemap-etl ping SITE.yaml --engine indexnow" in result.message
    assert world.engine().pending(world.ledger) == ("r1",)
    again = world.submit("r1", [("/a", "added", None), ("/b", "added", None)])
    assert (again.status, again.sent) == ("accepted", 2)
    assert world.engine().pending(world.ledger) == ()


def test_urls_accepted_before_a_request_to_wait_are_not_sent_again(world: World) -> None:
    table = many(world, 25_000)
    world.side.faulty = lambda request: request.method == "POST" and len(world.side.asked("POST")) == 2
    world.side.faults = [UNVERIFIED]
    result = world.submit("r1", table)
    assert (result.status, result.sent, result.details["left"]) == ("accepted", 10_000, 15_000)
    assert len(world.posts()) == 2, "no request follows one that has to wait"
    world.side.requests.pop()
    assert world.submit("r2", [("/new", "added", None)], pending_runs=("r1",)).sent == 15_001
    assert len(world.sent()) == len(set(world.sent())) == 25_001


@pytest.mark.parametrize(
    "body", ['{"errorCode": "InvalidKey"}', "[]", "{", '{"errorCode": ["SiteVerificationNotCompleted"]}']
)
def test_any_other_403_is_a_refusal(world: World, body: str) -> None:
    world.side.faulty = lambda request: request.method == "POST"
    world.side.faults = [Reply(403, body)]
    with pytest.raises(Refused, match="key is not valid"):
        world.submit("r1", [("/a", "added", None)])


def test_an_interrupted_submission_continues_where_it_stopped(world: World) -> None:
    table = many(world, 25_000)
    world.side.faulty = lambda request: request.method == "POST" and len(world.side.asked("POST")) == 2
    world.side.faults = [Reply(403)]
    with pytest.raises(Refused):
        world.submit("r1", table)
    assert world.engine().pending(world.ledger) == ("r1",)
    refused = world.side.requests.pop()
    assert world.submit("r1", table).sent == 15_000
    assert sorted(world.sent()) == [f"/{number:06}" for number in range(25_000)]
    assert refused.json["urlList"] == world.side.asked("POST")[1].json["urlList"]
    assert world.engine().pending(world.ledger) == ()


class Killed(BaseException):
    """The state that a killed process leaves."""


@pytest.mark.parametrize("save", range(1, 9))
def test_a_kill_at_any_ledger_write_loses_no_url_and_sends_none_twice_in_ten_minutes(world: World, save: int) -> None:
    table = many(world, 25_000)

    class Dying(Memory):
        def save(self, data: dict[str, Any]) -> None:
            if len(self.versions) + 1 == save:
                raise Killed
            super().save(data)

    whole, world.ledger = world.ledger, Dying()
    with contextlib.suppress(Killed):
        world.submit("r1", table)
    whole.text = world.ledger.text
    world.ledger = whole
    try:
        world.submit("r1", table)
    except Unavailable:
        assert len(world.sent()) == len(set(world.sent()))
        world.time.pass_minutes(11)
        before = len(world.sent())
        world.submit("r1", table)
        assert len(world.sent()) - before <= 10_000
    assert set(world.sent()) == {f"/{number:06}" for number in range(25_000)}


def test_after_a_lost_answer_the_same_urls_wait_for_ten_minutes(world: World) -> None:
    world.side.faulty = lambda request: request.method == "POST"
    world.side.faults = [RESET]
    with pytest.raises(Unavailable, match="02:10:00"):
        world.submit("r1", [("/a", "added", None)])
    world.time.pass_minutes(5)
    with pytest.raises(Unavailable, match="02:10:00"):
        world.submit("r1", [("/a", "added", None)])
    assert len(world.sent()) == 1
    world.time.pass_minutes(5)
    assert world.submit("r1", [("/a", "added", None)]).sent == 1


def test_a_url_that_changes_again_within_ten_minutes_is_sent_by_a_later_run(world: World) -> None:
    world.submit("r1", [("/a", "added", "2026-11-20"), ("/b", "added", None)])
    world.time.pass_minutes(9)
    result = world.submit("r2", [("/a", "changed", "2026-11-20"), ("/c", "added", None)])
    assert (result.sent, result.details["left"]) == (1, 1)
    assert "less than 10 minutes ago" in result.message
    assert world.engine().pending(world.ledger) == ("r2",)
    world.time.pass_minutes(2)
    assert world.submit("r3", []).sent == 1
    assert world.posts() == [["/a", "/b"], ["/c"], ["/a"]]
    assert world.engine().pending(world.ledger) == ()


def test_the_daily_limit_prefers_removed_then_added_then_newest_changed_urls(world: World) -> None:
    world.settings = {"daily_limit": 4}
    rows = [
        ("/old", "changed", "2026-11-01"),
        ("/new", "changed", "2026-11-19T10:00:00Z"),
        ("/undated", "changed", None),
        ("/add", "added", "2020-01-01"),
        ("/gone", "removed", "2020-01-01"),
        ("/day", "changed", "2026-11-19"),
    ]
    result = world.submit("r1", rows)
    assert world.posts() == [["/gone", "/add", "/new", "/day"]]
    assert "2 URLs are left for a later run: daily_limit is 4" in result.message
    assert not result.failed
    world.time.pass_minutes(60)
    assert world.submit("r1", rows).status == "skipped"
    world.time.pass_minutes(24 * 60)
    assert world.submit("r2", [("/gone2", "removed", None), ("/new", "removed", None)]).sent == 4
    assert world.posts()[1] == ["/gone2", "/new", "/old", "/undated"]


def test_a_pending_url_that_changes_again_is_sent_once(world: World) -> None:
    world.settings = {"daily_limit": 1}
    world.submit("r1", [(f"/{letter}", "changed", None) for letter in "abcd"])
    world.time.pass_minutes(24 * 60)
    world.settings = {"daily_limit": 2}
    world.submit("r2", [("/b", "removed", None)])
    assert world.engine().pending(world.ledger) == ("r1", "r2")  # r2 is done, but still says that /b is
    world.time.pass_minutes(24 * 60)
    world.submit("r3", [])
    assert world.posts() == [["/a"], ["/b", "/c"], ["/d"]]
    assert world.engine().pending(world.ledger) == ()


def test_the_oldest_pending_runs_are_dropped_and_counted_if_there_are_too_many(world: World) -> None:
    world.settings = {"daily_limit": 1}
    for number in range(RUNS_WAITING + 2):
        world.submit(f"r{number}", [(f"/{number}-{letter}", "changed", None) for letter in "abc"])
        world.time.pass_minutes(1)
    assert len(world.engine().pending(world.ledger)) == RUNS_WAITING
    assert len(world.ledger.text) < 2_000
    world.kept.clear()
    world.time.pass_minutes(24 * 60)
    assert "of earlier runs were given up" in world.submit("last", [("/z", "added", None)]).message
    assert world.engine().pending(world.ledger) == ()


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"quiet_because": "first publish of the site"}, "first publish of the site"),
        ({"listed": 9}, r"2 of 9 URLs changed \(22\.2%, max_share is 20\.0%\)"),
        ({"listed": 0}, r"2 of 2 URLs changed \(100\.0%"),
        (
            {"listed": 9, "before": "r0"},
            r"To send them anyway: sitemap-etl ping 's 1\.yaml' --engine indexnow --since r0\. ",
        ),
    ],
)
def test_if_the_whole_site_changed_nothing_is_sent_and_the_command_to_send_it_is_named(
    world: World, values: dict[str, Any], words: str
) -> None:
    world.settings = {"max_share": 0.2}
    rows = [("/a", "added", None), ("/b", "added", None)]
    result = world.submit("r1", rows, site_file="s 1.yaml", **values)
    assert (result.status, result.failed, world.side.requests) == ("skipped", False, [])
    assert result.message.startswith("sent nothing: ")
    every = f"To send all {values.get('listed', 10_000_000):,} URLs of the site: sitemap-etl ping 's 1.yaml'"
    assert result.message.endswith(f"{every} --engine indexnow --all")
    assert re.search(words, result.message)
    assert world.submit("r1", rows, **values, all=True).sent == 2


def test_the_share_of_removed_urls_refers_to_the_release_that_listed_them(world: World) -> None:
    world.settings = {"max_share": 0.2}
    removed = [("/a", "removed", None), ("/b", "removed", None)]
    assert "2 of 9 URLs changed" in world.submit("r1", removed, listed=7).message
    assert world.submit("r2", removed, listed=8).sent == 2
    world.settings = {"max_share": 1.0}
    assert world.submit("r3", [(f"/{n}", "removed", None) for n in range(9)], listed=1).sent == 9


def test_changes_of_a_fifth_of_the_site_are_sent(world: World) -> None:
    world.settings = {"max_share": 0.2}
    assert world.submit("r1", [("/a", "added", None), ("/b", "added", None)], listed=10).sent == 2


def test_all_sends_every_url_again_after_ten_minutes(world: World) -> None:
    world.submit("r1", [("/a", "added", None)])
    assert world.submit("r1", [("/a", "added", None)], all=True).status == "skipped"
    world.time.pass_minutes(11)
    assert world.submit("r1", [("/a", "added", None)], all=True).sent == 1


def test_changes_of_runs_that_were_not_submitted_are_sent_with_the_next_run(world: World) -> None:
    world.kept["r1"] = changes([(f"{world.side.url}/{letter}", "added", None) for letter in "ab"])
    assert world.submit("r2", [("/b", "removed", None), ("/c", "added", None)], pending_runs=("r0", "r1")).sent == 3
    assert world.posts() == [["/b", "/a", "/c"]]
    nothing = world.submit("r3", [], pending_runs=("r1", "r2"))
    assert (nothing.status, nothing.sent, nothing.details) == ("nothing", 0, {"requests": 0, "left": 0})


def test_changes_of_pending_runs_count_towards_max_share(world: World) -> None:
    world.settings = {"max_share": 0.2}
    world.kept["r1"] = changes([(f"{world.side.url}/{letter}", "added", None) for letter in "ab"])
    result = world.submit("r2", [("/c", "added", None)], pending_runs=("r1",), listed=10)
    assert "3 of 10 URLs changed" in result.message
    assert world.side.requests == []


def test_the_next_run_continues_an_incomplete_submission_without_repeating_urls(world: World) -> None:
    table = many(world, 15_000)
    world.side.faulty = lambda request: request.method == "POST" and len(world.side.asked("POST")) == 2
    world.side.faults = [Reply(403)]
    with pytest.raises(Refused):
        world.submit("r1", table)
    world.side.requests.pop()
    world.time.pass_minutes(24 * 60)
    assert world.submit("r2", [("/new", "added", None)], pending_runs=("r1",)).sent == 5_001
    assert len(world.sent()) == len(set(world.sent())) == 15_001


def test_pending_changes_are_dropped_if_their_file_has_changed(world: World) -> None:
    world.settings = {"daily_limit": 2}
    world.submit("r1", [(f"/{letter}", "added", None) for letter in "abcd"])
    world.kept["r1"] = changes([(f"{world.side.url}/{letter}", "added", None) for letter in "xyz"])
    world.time.pass_minutes(24 * 60)
    run2 = world.submit("r2", [("/e", "added", None)])
    assert (run2.sent, run2.details["given_up"]) == (1, 2)
    assert world.sent() == ["/a", "/b", "/e"]


def test_sending_the_whole_site_by_hand_starts_over_despite_pending_changes(world: World) -> None:
    world.settings = {"daily_limit": 2}
    world.submit("r1", [(f"/{letter}", "added", None) for letter in "abcd"])
    world.time.pass_minutes(24 * 60)
    world.submit("r1", [(f"/{number}", "added", None) for number in range(9)], all=True)
    assert world.sent() == ["/a", "/b", "/0", "/1"]


@pytest.mark.parametrize("key", ["short", "x" * 129, "no spaces!", "späße-sind-keine"])
def test_an_invalid_key_is_an_error_that_does_not_show_the_key(key: str) -> None:
    with pytest.raises(ConfigError, match=r"ping\.indexnow\.key: expected 8 to 128") as caught:
        made("indexnow", {"key": "${KEY}"}, environ={"KEY": key})
    assert key not in str(caught.value)


def test_the_key_file_is_named_after_the_key_and_contains_it() -> None:
    assert made("indexnow", {"key": KEY}).key_file() == (f"{KEY}.txt", KEY.encode())


LOCS = st.integers(0, 30).map(lambda number: f"https://shop.example/{number}")
ROWS = st.lists(
    st.tuples(
        LOCS, st.sampled_from(["added", "changed", "removed"]), st.sampled_from([None, "2026-01-01", "2026-02-02"])
    ),
    max_size=30,
)


@given(rows=ROWS, seed=st.integers(0, 9))
def test_the_order_of_sent_changes_does_not_depend_on_the_order_of_files(rows: list[Any], seed: int) -> None:
    shuffled = random.Random(seed).sample(rows, len(rows))
    assert ordered(changes(rows)).equals(ordered(changes(shuffled)))
    assert sorted(ordered(changes(rows))["loc"].to_pylist()) == sorted({row[0] for row in rows})


@pytest.mark.thorough
@settings(max_examples=examples(60))
@given(
    runs=st.lists(ROWS, min_size=1, max_size=4),
    sizes=st.lists(st.integers(1, 12), min_size=40, max_size=40),
    data=st.data(),
)
def test_every_url_of_every_run_is_sent_exactly_once_despite_limits(
    runs: list[Any], sizes: list[int], data: st.DataObject
) -> None:
    tables = [ordered(changes(rows)) for rows in runs]
    waiting = [Waiting(str(number), rows=table.num_rows) for number, table in enumerate(tables)]
    sent: list[str] = []
    for size in sizes:
        waiting = [Waiting.from_json(json.loads(json.dumps(entry.to_json()))) for entry in waiting]
        rows = left_of(waiting, tables, "https://shop.example/")
        cold = pa.array(data.draw(st.lists(st.booleans(), min_size=rows.num_rows, max_size=rows.num_rows)), pa.bool_())
        held, ready = rows.filter(pa.compute.invert(cold)), rows.filter(cold)
        batch = ready.slice(0, size)
        sent += batch["loc"].to_pylist()
        waiting = advance(waiting, batch, held)
        if batch.num_rows == ready.num_rows:
            waiting = finish(waiting, held)
    rows = left_of(waiting, tables, "https://shop.example/")
    sent += rows["loc"].to_pylist()
    assert sorted(sent) == sorted({row[0] for run in runs for row in run})
