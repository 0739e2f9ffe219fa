"""Engines at the end of a run: notified once of changes, independently of each other, without exposing secrets."""

from __future__ import annotations

import contextlib
import json
import logging
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from sitemap_etl.errors import ConfigError, Refused, SitemapEtlError, Unavailable
from sitemap_etl.publish.summary import add_answers, read_summary
from sitemap_etl.runs import tasks
from sitemap_etl.runs.local import ping_locally
from sitemap_etl.runs.ping import ping_by_hand
from sitemap_etl.stages.ping import pending_runs, why
from sitemap_etl.state import layout
from sitemap_etl.state.changes import notification_of
from sitemap_etl.state.codec import encode
from sitemap_etl.state.records import Answered
from sitemap_etl.storage import Stored
from tests.support.command import call
from tests.support.engines import Reply, Request, Side
from tests.support.sites import FIRST_NIGHT, TestSite, pages
from tests.support.storages import Full, Wrapped, Wrapping

KEY = "0123456789abcdef0123456789abcdef"
BING = "bing-secret-4711"
TOKEN = "hook-token-0815"
SECOND = FIRST_NIGHT + timedelta(days=1)
PENDING: dict[str, Any] = {"engines": (), "since": None, "everything": False}
"""What a person asks for who gives no options."""


class World:
    """A site on loopback: its public folder, and every engine, behind one server."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.replies: dict[str, Reply] = {}
        self.side = Side(self.answer)
        self.site = TestSite(folder, gates={"max_drop": 1, "max_growth": 99})
        url = self.side.url
        self.site.keys["site"] = url
        self.site.keys["ping"] = {
            "indexnow": {"key": "${INDEXNOW_KEY}", "endpoint": f"{url}/indexnow", "patience": 0},
            "bing": {"key": "${BING_KEY}", "endpoint": f"{url}/bing", "patience": 0},
            "http_ping": {"url": f"{url}/hook?token=${{TOKEN}}&sitemap={{sitemap}}", "patience": 0},
        }
        environ = {"INDEXNOW_KEY": KEY, "BING_KEY": BING, "TOKEN": TOKEN}
        self.site.environment = replace(self.site.environment, environ=environ)
        self.site.section("p", pages(100, lastmod="2026-10-01"))

    def answer(self, request: Request) -> Reply:
        if request.method == "GET":
            file = self.folder / "public" / request.path.lstrip("/")
            if file.is_file():
                return Reply(200, file.read_bytes())
        for prefix, reply in self.replies.items():
            if request.path.startswith(prefix):
                return reply
        if request.path.startswith(("/indexnow", "/bing", "/hook")):
            return Reply(200, "{}")
        return Reply(404)

    def night(self, number: int, **options: Any) -> dict[str, Any]:
        finished = self.site.night(number, **options)
        return ping_locally(finished, self.site.environment) if options.get("ping", True) else finished.summary

    def posted(self) -> list[str]:
        """Return the URLs that IndexNow was sent, in order."""
        return [url for request in self.side.asked("POST", "/indexnow") for url in request.json["urlList"]]

    def change(self, *numbers: int, count: int = 100) -> None:
        self.site.export("p", pages(count, lastmod=lambda n: "2026-11-01" if n in numbers else "2026-10-01"))


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    with world.side:
        yield world


def test_the_first_release_submits_no_single_urls_and_says_why(world: World) -> None:
    summary = world.night(1)
    assert summary.engines["indexnow"].status == "skipped"
    assert "first publish" in summary.engines["indexnow"].message
    assert world.posted() == []
    assert world.side.asked("POST", "/bing")


def test_only_changed_urls_are_sent_and_only_once(world: World) -> None:
    world.night(1)
    world.change(3, 7, count=101)
    summary = world.night(2)
    assert summary.status == "published"
    expected = {f"{world.side.url}/p/{n:06}" for n in (3, 7, 100)}
    assert set(world.posted()) == expected
    assert len(world.posted()) == 3
    world.night(3)
    assert len(world.posted()) == 3


def test_the_key_file_is_published_at_the_root_and_the_key_is_not_in_the_state(world: World) -> None:
    world.night(1)
    assert (world.folder / "public" / f"{KEY}.txt").read_text() == KEY
    assert not any(KEY in path.read_text("utf-8", "replace") for path in (world.folder / "work").rglob("*.json"))


def test_a_failing_engine_affects_neither_the_release_nor_other_engines(world: World) -> None:
    world.night(1)
    world.replies = {"/bing": Reply(500, "down")}
    world.change(3)
    summary = world.night(2)
    assert summary.status == "partial"
    assert summary.engines["bing"].status == "unavailable"
    assert summary.engines["indexnow"].status == "accepted"
    assert world.site.manifest().run_id == summary.run_id
    assert world.site.manifest().indexing["bing"].status == "unavailable"


def test_an_engine_whose_answer_cannot_be_stored_is_notified_again_by_the_next_run(world: World) -> None:
    world.night(1)
    world.change(3)
    finished = world.site.night(2)
    environment = Full("*indexnow*").around(world.site.environment)
    summary = ping_locally(finished, environment)
    assert summary.status == "partial"
    assert summary.engines["indexnow"].status == "unavailable"
    assert "File too large" in summary.engines["indexnow"].message
    assert summary.engines["bing"].status == "accepted"
    world.change(3, 4)
    world.night(3)
    assert {f"{world.side.url}/p/{n:06}" for n in (3, 4)} <= set(world.posted())


def test_an_engine_that_was_down_is_notified_by_the_next_run(world: World) -> None:
    world.night(1)
    world.replies = {"/indexnow": Reply(503)}
    world.change(3)
    world.night(2)
    world.replies = {}
    world.change(3, 4)
    world.night(3)
    assert {f"{world.side.url}/p/{n:06}" for n in (3, 4)} <= set(world.posted())


UNASKED = [
    pytest.param({"INDEXNOW_KEY": None}, "the environment variable INDEXNOW_KEY is not set", id="no variable"),
    pytest.param({"INDEXNOW_KEY": "short"}, "ping.indexnow.key: expected 8 to 128", id="malformed"),
    pytest.param({"INDEXNOW_KEY": "  "}, "ping.indexnow.key: the secret is empty", id="empty"),
]


@pytest.mark.parametrize(("environ", "words"), UNASKED)
def test_an_engine_that_cannot_be_asked_is_reported_and_sent_the_pages_later(
    world: World, environ: dict[str, str | None], words: str
) -> None:
    world.night(1)
    whole = world.site.environment
    known = {**whole.environ, **environ}
    world.site.environment = replace(whole, environ={key: value for key, value in known.items() if value is not None})
    world.change(3)
    summary = world.night(2)
    assert summary.status == "partial"
    assert summary.engines["indexnow"].status == "failed"
    assert words in summary.engines["indexnow"].message
    assert summary.engines["bing"].status == "accepted"
    assert [warning for warning in summary.warnings if "the key file of IndexNow was not written" in warning]
    assert world.site.manifest().indexing["indexnow"].status == "failed"
    world.change(3, 4)
    world.site.environment = whole
    summary = world.night(3)
    assert summary.engines["indexnow"].status == "accepted"
    assert set(world.posted()) == {f"{world.side.url}/p/{n:06}" for n in (3, 4)}


def test_pending_changes_of_an_engine_without_its_key_are_sent_by_the_command_ping(world: World) -> None:
    world.night(1)
    whole = world.site.environment
    world.site.environment = replace(whole, environ={"BING_KEY": BING, "TOKEN": TOKEN})
    world.change(5)
    world.night(2)
    by_hand: dict[str, Any] = {"engines": ("indexnow",), "since": None, "everything": False}
    answers = ping_by_hand(world.site.load(), world.site.environment, **by_hand)
    assert answers["indexnow"].status == "failed"
    assert "INDEXNOW_KEY" in answers["indexnow"].message
    assert ping_by_hand(world.site.load(), whole, **by_hand)["indexnow"].status == "accepted"
    assert world.posted() == [f"{world.side.url}/p/000005"]


def test_a_missing_or_invalid_connection_does_not_affect_other_engines(
    world: World,
) -> None:
    def connections(connection_id: str) -> str:
        if connection_id == "odd":
            raise LookupError("the vault said hunter2")
        raise ConfigError(f"connection {connection_id!r} is not known")

    world.site.keys["ping"] |= {
        "indexnow": {"connection": "nowhere", "patience": 0},
        "bing": {"connection": "odd", "patience": 0},
    }
    world.site.environment = replace(world.site.environment, connections=connections)
    summary = world.night(1)
    assert (summary.status, summary.published) == ("partial", True)
    assert {name: answer.status for name, answer in summary.engines.items()} == {
        "indexnow": "failed",
        "bing": "failed",
        "http_ping": "accepted",
    }
    assert "connection 'nowhere' is not known" in summary.engines["indexnow"].message
    assert "LookupError at " in summary.engines["bing"].message
    assert "hunter2" not in json.dumps(encode(summary))


def test_a_run_ends_with_exit_code_3_if_an_engine_cannot_be_asked(world: World) -> None:
    world.night(1)
    world.change(3)
    first = call("run", world.site.path, "--json")
    assert (first.code, first.json["status"], first.json["published"]) == (3, "partial", True)
    assert {answer["status"] for answer in first.json["engines"].values()} == {"failed"}
    assert "INDEXNOW_KEY" in first.json["engines"]["indexnow"]["message"]
    assert call("ping", world.site.path).code == 3
    world.change(3, 4)
    staged = call("run", world.site.path, "--dry-run", "--json").json["run_id"]
    assert call("publish", world.site.path, staged).code == 3


def test_with_no_ping_engines_are_notified_only_by_the_command_ping(world: World) -> None:
    world.night(1)
    world.change(5)
    world.night(2, ping=False)
    assert world.posted() == []
    answers = ping_by_hand(
        world.site.load(), world.site.environment, engines=("indexnow",), since=None, everything=False
    )
    assert answers["indexnow"].status == "accepted"
    assert world.posted() == [f"{world.side.url}/p/000005"]
    again = ping_by_hand(world.site.load(), world.site.environment, engines=("indexnow",), since=None, everything=False)
    assert again["indexnow"].status == "nothing"
    assert "accepted: sent 1 URL" in again["indexnow"].message
    assert len(world.posted()) == 1


def test_the_command_ping_sends_urls_left_over_by_the_daily_limit(world: World) -> None:
    world.site.keys["ping"]["indexnow"]["daily_limit"] = 2
    world.night(1)
    world.change(3, 4, 5)
    world.night(2)
    assert len(world.posted()) == 2
    ping_by_hand(world.site.load(), world.site.at(SECOND + timedelta(days=1)), **PENDING)
    assert set(world.posted()) == {f"{world.side.url}/p/{n:06}" for n in (3, 4, 5)}
    again = ping_by_hand(world.site.load(), world.site.environment, **PENDING)["indexnow"]
    assert (again.status, again.sent) == ("nothing", 0)
    assert "nothing is pending" in again.message
    assert len(world.posted()) == 3


def test_changes_above_max_share_are_sent_by_the_command_in_the_message(world: World) -> None:
    world.night(1)
    world.change(count=79)
    world.site.environment = replace(world.site.environment, site_file=str(world.site.path))
    message = world.night(2).engines["indexnow"].message
    assert "21 of 100 URLs changed (21.0%" in message
    command = re.search(rf"anyway: sitemap-etl ping {world.site.path} --engine indexnow --since (\S+)\. ", message)
    assert command is not None
    assert world.posted() == []
    ping_by_hand(world.site.load(), world.site.environment, **{**PENDING, "since": command[1]})
    assert set(world.posted()) == {f"{world.side.url}/p/{n:06}" for n in range(79, 100)}


def test_ping_all_sends_every_url(world: World) -> None:
    world.night(1)
    answers = ping_by_hand(
        world.site.load(), world.site.environment, engines=("indexnow",), since=None, everything=True
    )
    assert answers["indexnow"].status == "accepted"
    assert len(set(world.posted())) == 100


def test_ping_since_sends_changes_after_a_run(world: World) -> None:
    world.night(1)
    world.change(1)
    first = world.night(2, ping=False).run_id
    world.change(1, 2)
    world.night(3, ping=False)
    ping_by_hand(world.site.load(), world.site.environment, engines=("indexnow",), since=first, everything=False)
    assert world.posted() == [f"{world.side.url}/p/000002"]
    world.change(1, 2, 3)
    world.night(4)
    assert sorted(set(world.posted()[1:])) == [f"{world.side.url}/p/{n:06}" for n in (1, 3)]


def test_more_than_a_fifth_of_the_site_sends_nothing(world: World) -> None:
    world.night(1)
    world.change(*range(30))
    assert world.night(2).engines["indexnow"].status == "skipped"
    assert world.posted() == []


def test_an_engine_missing_in_the_site_file_is_reported(world: World) -> None:
    with pytest.raises(ConfigError, match="has no engine google"):
        ping_by_hand(world.site.load(), world.site.environment, engines=("google",), since=None, everything=False)


@pytest.mark.parametrize(
    "reply", [Reply(500, "no"), Reply(403, "who are you"), Reply(fault="reset"), Reply(302, "", {"Location": "/x"})]
)
def test_no_secret_is_stored_or_shown_when_engines_fail(
    world: World, reply: Reply, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """Logs, output, manifests, plans, intents, ledgers, reports and errors are searched for every secret."""
    caplog.set_level(logging.DEBUG)
    world.replies = dict.fromkeys(["/indexnow", "/bing", "/hook"], reply)
    world.night(1)
    world.change(3)
    summary = world.night(2)
    site, environment = world.site.load(), world.site.environment
    told = json.dumps(encode(summary)) + repr(site) + json.dumps(site.to_json())
    with contextlib.suppress(SitemapEtlError):
        told += json.dumps(encode(ping_by_hand(site, environment, engines=(), since=None, everything=False)))
    captured = capfd.readouterr()
    told += caplog.text + captured.out + captured.err
    assert summary.status == "partial"
    files = {path: path.read_bytes() for path in (world.folder / "work").rglob("*") if path.is_file()}
    assert len(files) > 10
    for secret in (KEY, BING, TOKEN):
        assert secret not in told
        assert not [path for path, data in files.items() if secret.encode() in data or secret in path.name]


@pytest.mark.parametrize("how", ["flipped", "cut", "another shape"])
def test_a_damaged_ledger_is_replaced_with_a_warning(world: World, how: str) -> None:
    world.night(1)
    world.change(3)
    world.night(2)
    path = world.folder / "work" / "shop" / "state" / "ledger" / "indexnow.json"
    whole = path.read_bytes()
    data = json.loads(whole)
    del data["checksum"]
    middle = len(whole) // 2
    damaged = {"flipped": whole[:middle] + bytes([whole[middle] ^ 4]) + whole[middle + 1 :], "cut": whole[:40]}
    path.write_bytes(damaged.get(how) or json.dumps({**data, "waiting": "x"}).encode())
    lines: list[str] = []
    world.site.environment = replace(world.site.environment, log=lines.append)
    world.change(3, 4)
    done = world.night(3)
    assert (done.status, done.engines["indexnow"].status) == ("published", "accepted")
    assert any("indexnow.json is damaged" in line and "A new ledger was begun" in line for line in lines)
    assert json.loads(path.read_bytes())["runs"][-1] == done.run_id


def test_a_run_adds_the_index_to_robots_txt_if_nothing_else_changed(world: World) -> None:
    """No file of the release is written; without the line no engine would find it."""
    robots = world.folder / "public" / "robots.txt"
    world.night(1)
    named = robots.read_text()
    assert "Sitemap: " in named
    robots.write_text("User-agent: *\nDisallow: /cart\n")
    done = world.night(2)
    assert (done.status, done.files.written) == ("published", 0)
    assert robots.read_text().startswith("User-agent: *\nDisallow: /cart\n")
    assert named.strip() in robots.read_text()
    assert world.night(3).status == "unchanged"


@pytest.mark.parametrize("lies", [None, "another key"], ids=["is gone", "holds another key"])
def test_a_run_writes_the_key_file_if_nothing_else_changed(world: World, lies: str | None) -> None:
    """Without it, the engine refuses all submissions."""
    file = world.folder / "public" / f"{KEY}.txt"
    world.night(1)
    if lies is None:
        file.unlink()
    else:
        file.write_text(lies)
    done = world.night(2)
    assert (done.status, done.files.written) == ("published", 0)
    assert file.read_text() == KEY
    assert world.night(3).status == "unchanged"


def test_the_run_after_ping_all_sends_only_later_changes(world: World) -> None:
    later = replace(world.site.environment, clock=lambda: world.site.store.time + timedelta(hours=1))
    world.site.environment = later
    world.night(1)
    world.change(5)
    world.night(2, ping=False)
    everything: dict[str, Any] = {"engines": ("indexnow",), "since": None, "everything": True}
    assert ping_by_hand(world.site.load(), world.site.environment, **everything)["indexnow"].status == "accepted"
    sent = len(world.posted())
    assert len(set(world.posted())) == 100
    assert world.night(3).status == "unchanged"
    assert len(world.posted()) == sent
    world.change(5, 8)
    assert world.night(4).engines["indexnow"].status == "accepted"
    assert world.posted()[sent:] == [f"{world.side.url}/p/000008"]


def test_engines_are_notified_once_of_a_retired_index(world: World) -> None:
    world.night(1)
    world.site.keys["publish"] = {"to": "./public", "names": {"index": "map.xml"}}
    for number, went in ((2, ("/sitemap.xml",)), (3, ())):
        world.change(number)
        said = notification_of(world.site.state(), world.night(number).run_id)
        assert said is not None
        assert said.indexes == (f"{world.side.url}/map.xml",)
        assert said.retired_indexes == tuple(world.side.url + path for path in went)


def test_a_bug_is_reported_with_the_line_that_raised_it_only() -> None:
    def broken() -> None:
        raise ValueError("a secret")

    with pytest.raises(ValueError, match="a secret") as raised:
        broken()
    line = broken.__code__.co_firstlineno + 1
    expected = f"ValueError at test_ping_pipeline.py:{line}: a defect of sitemap_etl, please report it"
    assert why(raised.value) == expected


def test_a_partial_run_becomes_complete_once_the_failed_engine_has_answered(world: World) -> None:
    """A task of a scheduler asks it again."""
    world.replies["/hook"] = Reply(500)
    finished = world.site.night(1)
    environment = world.site.environment
    assert ping_locally(finished, environment).status == "partial"
    del world.replies["/hook"]
    key = finished.run.work.url_of(layout.run_folder(finished.run.run_id))
    tasks.ping(key, range(3), environment)
    summary = read_summary(finished.run)
    assert summary is not None
    assert (summary.status, {answer.failed for answer in summary.engines.values()}) == ("published", {False})


@pytest.mark.parametrize("how", ["task", "hand", "run"])
def test_a_damaged_stored_answer_does_not_affect_other_engines(world: World, how: str) -> None:
    finished = world.site.night(1)
    environment = world.site.environment
    run = finished.run
    key = layout.answer(run.run_id, "bing")
    run.work.put(key, b'{"format": 2, "engine": "bi')
    if how == "hand":
        answers = ping_by_hand(world.site.load(), environment, **{**PENDING, "engines": ()})
    elif how == "run":
        answers = dict(ping_locally(finished, environment).engines)
    else:
        with pytest.raises(Refused, match=r"^bing: .*answers/bing\.json is damaged"):
            tasks.ping(run.work.url_of(layout.run_folder(run.run_id)), range(3), environment)
        summary = read_summary(run)
        assert summary is not None
        answers = {**summary.engines, "bing": Answered("bing", "failed", 0, "")}
    assert {name: answer.status for name, answer in answers.items()} == {
        "indexnow": "skipped",
        "bing": "failed",
        "http_ping": "accepted",
    }


def test_a_manual_submission_to_one_engine_does_not_affect_the_others(world: World) -> None:
    world.night(1)
    site, environment = world.site.load(), world.site.at(SECOND)
    ping_by_hand(site, environment, engines=("http_ping",), since=None, everything=True)
    state = world.site.state()
    assert {engine: pending_runs(state, engine) for engine in ("indexnow", "bing", "http_ping")} == {
        "indexnow": [],
        "bing": [],
        "http_ping": [],
    }
    world.change(3)
    world.night(3)
    assert world.posted() == [f"{world.side.url}/p/000003"]


def test_pending_changes_are_sent_by_a_run_whose_own_changes_are_unknown(world: World) -> None:
    """With another rule the changes of that run are unknown; earlier ones are known."""
    world.site.section("p", pages(100, title="a", text="b"), lastmod={"fingerprint": ["title"]})
    world.night(1)
    world.site.export("p", pages(100, title=lambda n: "new" if n == 3 else "a", text="b"))
    world.night(2, ping=False)
    world.site.section("p", lastmod={"fingerprint": ["title", "text"]})
    summary = world.night(3)
    assert world.posted() == [f"{world.side.url}/p/000003"]
    assert summary.engines["indexnow"].status == "accepted"


class _Mute(Wrapped):
    def get(self, key: str) -> Stored | None:
        if self._outer.is_mute and "manifest-" in key:  # type: ignore[attr-defined]
            raise Unavailable(f"can't read {key}: the response was damaged")
        return self._inner.get(key)


class Mute(Wrapping):
    """A store in which no manifest can be read any more."""

    storage = _Mute
    is_mute = False


def test_answers_that_cannot_be_added_to_the_manifest_do_not_fail_the_run(world: World) -> None:
    mute = Mute()
    world.site.environment = mute.around(world.site.environment)
    finished = world.site.night(1)
    mute.is_mute = True
    summary = add_answers(finished.run, finished.summary, {"bing": Answered("bing", "accepted", 1, "sent")})
    assert (summary.status, summary.engines["bing"].status) == ("published", "accepted")
    assert "what the engines answered was not added to the manifest" in summary.warnings[-1]
