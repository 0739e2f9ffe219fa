"""Bing, WebSub and the HTTP ping; settings, connections, and secrets in messages."""

from __future__ import annotations

import base64
import json
import re
import traceback
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sitemap_etl import engines, web
from sitemap_etl.engines import exchange
from sitemap_etl.engines.credentials import MASK, Redactor, secrets_of_url
from sitemap_etl.errors import ConfigError, Refused, Unavailable
from sitemap_etl.stages.ping import why
from tests.support.engines import ECHO, Memory, Reply, Side, Time, made, submission

SITE = "https://shop.example"


class World:
    def __init__(self, side: Side, client: web.Client) -> None:
        self.side, self.client = side, client
        self.time, self.ledger = Time(), Memory()

    def submit(self, name: str, settings: dict[str, Any], run: str = "r1", **values: Any) -> engines.Answer:
        connection = values.pop("connection", None)
        return made(name, settings, connection=connection).submit(
            submission(SITE, run, **values), self.ledger, self.client, clock=self.time.clock, sleep=self.time.sleep
        )


@pytest.fixture
def world() -> Iterator[World]:
    with Side(lambda _request: Reply(200, '{"d": null}')) as side, web.Client(step=5) as client:
        yield World(side, client)


def test_a_bug_is_reported_by_its_location_without_its_text() -> None:
    with pytest.raises(ValueError, match="hush") as caught:
        raise_hush()
    assert re.match(r"ValueError at test_engines_others\.py:\d+: a defect", why(caught.value))
    with pytest.raises(json.JSONDecodeError) as caught_below:
        json.loads("{hush")
    assert re.match(r"JSONDecodeError at decoder\.py:\d+: a defect", why(caught_below.value))
    assert "hush" not in why(caught.value) + why(caught_below.value)


def raise_hush() -> None:
    raise ValueError("hush")


def test_bing_gets_changed_indexes_with_the_key_in_the_query(world: World) -> None:
    settings = {"key": "a+b/c", "endpoint": f"{world.side.url}/webmaster/api.svc/json"}
    assert world.submit("bing", settings).message == "notified of 1 index: https://shop.example/sitemap.xml"
    (post,) = world.side.requests
    assert (post.path, post.query) == ("/webmaster/api.svc/json/SubmitFeed", {"apikey": ["a+b/c"]})
    assert post.json == {"siteUrl": SITE, "feedUrl": f"{SITE}/sitemap.xml"}


def test_the_site_can_have_another_name_at_bing(world: World) -> None:
    world.submit("bing", {"key": "a-bing-key", "site": "http://shop.example/", "endpoint": world.side.url})
    assert world.side.requests[0].json["siteUrl"] == "http://shop.example/"


def bing_error(code: int, status: int = 400) -> Reply:
    return Reply(status, json.dumps({"ErrorCode": code, "Message": "ERROR!!!"}))


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (bing_error(3), "API key is not valid.*400"),
        (bing_error(6), "user of the API key is blocked"),
        (bing_error(7), "address is not a valid URL"),
        (bing_error(8), "a parameter is not valid"),
        (bing_error(10), "user of the API key is unknown"),
        (bing_error(11), "site is not in Bing Webmaster Tools"),
        (bing_error(13), "user of the API key may not do this"),
        (bing_error(14, 200), "no access to this site"),
        (bing_error(16), "no longer available"),
        (bing_error(99), "reason is not documented"),
        (Reply(404, "<html>", {"Content-Type": "text/html"}), "404"),
    ],
)
def test_refusals_of_bing_are_explained(world: World, reply: Reply, words: str) -> None:
    world.side.faults = [reply]
    with pytest.raises(Refused, match=words):
        world.submit("bing", {"key": "a-bing-key", "endpoint": world.side.url})


@pytest.mark.parametrize("busy", [1, 4, 5])
def test_throttling_by_bing_is_waited_out_and_a_known_feed_is_accepted(world: World, busy: int) -> None:
    world.side.faults = [bing_error(busy), bing_error(12)]
    assert world.submit("bing", {"key": "a-bing-key", "endpoint": world.side.url}).status == "accepted"
    assert world.time.slept == [1.0]


def test_all_submits_every_index(world: World) -> None:
    settings = {"key": "a-bing-key", "endpoint": world.side.url}
    assert world.submit("bing", settings, all=True).sent == 2
    assert world.submit("bing", settings, all=True).sent == 2


@pytest.mark.parametrize(("count", "end"), [(3, "sitemap-2.xml"), (4, "sitemap-2.xml and 1 more"), (9, " and 6 more")])
def test_many_indexes_are_abbreviated_in_messages(world: World, count: int, end: str) -> None:
    indexes = tuple(engines.Index(f"{SITE}/sitemap-{number}.xml", True) for number in range(count))
    message = world.submit("bing", {"key": "a-bing-key", "endpoint": world.side.url}, indexes=indexes).message
    assert message.endswith(end)


def test_a_hub_is_notified_of_all_changed_feeds_in_one_request(world: World) -> None:
    feeds = (f"{SITE}/news.rss.xml", f"{SITE}/news.atom.xml")
    result = world.submit("websub", {"hub": f"{world.side.url}/"}, feeds=feeds)
    (post,) = world.side.requests
    assert post.headers["Content-Type"] == "application/x-www-form-urlencoded"
    assert post.form == {"hub.mode": ["publish"], "hub.url": list(feeds)}
    assert result.sent == 2


def test_a_hub_that_refuses_does_not_prevent_the_notification_of_others(world: World) -> None:
    with Side(lambda _request: Reply(410, "gone")) as gone:
        hubs = [f"{gone.url}/", f"{world.side.url}/"]
        result = world.submit("websub", {"hub": hubs})
        assert (result.status, result.sent) == ("partial", 1)
        assert "410" in result.message
        assert world.submit("websub", {"hub": hubs[1]}).status == "nothing"


def test_a_hub_that_is_down_is_notified_next_time_and_does_not_prevent_others(world: World) -> None:
    with Side(lambda _request: Reply(204)) as down:
        down.faults = [Reply(503)] * 4
        hubs = [f"{down.url}/", f"{world.side.url}/"]
        with pytest.raises(Unavailable, match=down.url):
            world.submit("websub", {"hub": hubs})
        world.submit("websub", {"hub": hubs}, "r2", feeds=())
        assert (len(down.requests), len(world.side.requests)) == (5, 1)


def test_a_ping_carries_the_address_of_the_index_percent_encoded(world: World) -> None:
    world.submit("http_ping", {"url": f"{world.side.url}/ping?sitemap={{sitemap}}"})
    (get,) = world.side.requests
    assert (get.method, get.target) == ("GET", "/ping?sitemap=https%3A%2F%2Fshop.example%2Fsitemap.xml")


@pytest.mark.parametrize(
    ("url", "instead"),
    [
        ("https://www.google.com/ping?sitemap={sitemap}", "ping.search_console"),
        ("http://google.com/webmasters/tools/ping?sitemap={sitemap}", "ping.search_console"),
        ("https://www.google.co.uk/webmasters/sitemaps/ping?sitemap={sitemap}", "ping.search_console"),
        ("https://www.bing.com/ping?sitemap={sitemap}", "ping.indexnow"),
        ("http://www.bing.com/webmaster/ping.aspx?siteMap={sitemap}", "ping.indexnow"),
    ],
)
def test_a_retired_ping_address_is_an_error_with_its_replacement(url: str, instead: str) -> None:
    with pytest.raises(ConfigError, match=f"no longer accepts pings.*{instead}.*robots.txt"):
        made("http_ping", {"url": "${PING}"}, environ={"PING": url})


@pytest.mark.parametrize("url", ["https://blogs.example/ping?s={sitemap}", "https://google.com/pingpong?s={sitemap}"])
def test_other_ping_addresses_are_not_reported_as_retired(url: str) -> None:
    assert made("http_ping", {"url": url})


def uri(login: str, password: str) -> str:
    return f"http://{quote(login, safe='')}:{quote(password, safe='')}@host.example/?extra_key=1"


def as_json(login: str, password: str) -> str:
    return json.dumps({"conn_type": "http", "login": login, "password": password})


@pytest.mark.parametrize("write", [uri, as_json])
def test_every_engine_accepts_an_airflow_connection(world: World, write: Callable[[str, str], str]) -> None:
    connection = write("shop", "p@ss/word")
    basic = "Basic " + base64.b64encode(b"shop:p@ss/word").decode()
    world.submit("bing", {"connection": "c", "endpoint": world.side.url}, connection=connection)
    assert world.side.requests[-1].query == {"apikey": ["p@ss/word"]}
    world.ledger = Memory()
    world.submit("websub", {"connection": "c", "hub": world.side.url}, connection=connection)
    assert world.side.requests[-1].headers["Authorization"] == basic
    world.ledger = Memory()
    world.submit("http_ping", {"connection": "c", "url": f"{world.side.url}/?s={{sitemap}}"}, connection=connection)
    assert world.side.requests[-1].headers["Authorization"] == basic
    world.ledger = Memory()
    url = f"{world.side.url}/?s={{sitemap}}&u={{login}}&p={{password}}"
    world.submit("http_ping", {"connection": "c", "url": url}, connection=connection)
    assert world.side.requests[-1].query["p"] == ["p@ss/word"]
    assert "Authorization" not in world.side.requests[-1].headers
    engine = made("indexnow", {"connection": "c"}, connection=write("", "0123abcd"))
    assert engine.key_file() == ("0123abcd.txt", b"0123abcd")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"password": ', "connection 'c': is not a connection"),
        ("http://[secret-8812", "connection 'c': the URI of the connection can't be read"),
        ('{"login": "secret-8812"}', "connection 'c' has no `key`"),
        ('{"conn_type": "http", "port": "secret-8812"}', "connection 'c': its port is not a number"),
    ],
)
def test_an_unsuitable_connection_is_named_without_its_content(text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        made("bing", {"connection": "c"}, connection=text)
    assert "8812" not in f"{caught.value} {caught.value.__cause__} {caught.value.__context__}"


@pytest.mark.parametrize(
    ("name", "keys", "secret", "problem"),
    [
        ("indexnow", {"key": "${SECRET}"}, "bad key 8812", "ping.indexnow.key: expected 8 to 128 letters, digits"),
        ("http_ping", {"url": ["${SECRET}"]}, "https://x.example/8812", "ping.http_ping.url: must contain {sitemap}"),
        ("http_ping", {"url": "${SECRET}"}, "8812 {sitemap}", "ping.http_ping.url: expected an absolute address"),
    ],
)
def test_the_value_of_a_variable_is_validated_when_it_is_read(
    name: str, keys: dict[str, Any], secret: str, problem: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        made(name, keys, environ={"SECRET": secret})
    assert str(caught.value).startswith(problem)
    assert "8812" not in "".join(traceback.format_exception(caught.value))


def test_the_values_of_a_connection_are_validated() -> None:
    with pytest.raises(ConfigError, match=r"ping\.indexnow\.key: expected 8 to 128") as caught:
        made("indexnow", {"connection": "c"}, connection=as_json("", "bad key 8812"))
    assert "8812" not in str(caught.value)


def test_all_missing_secrets_are_reported_together() -> None:
    keys = {"url": ["${ONE}", "https://x.example/?k=${TWO}&s={sitemap}"], "password": "${THREE}"}
    with pytest.raises(ConfigError) as caught:
        made("http_ping", keys, environ={"THREE": " "})
    assert caught.value.problems == (
        "ping.http_ping.password: the secret is empty",
        "ping.http_ping.url: the environment variable ONE is not set, and this stage needs it",
        "ping.http_ping.url: the environment variable TWO is not set, and this stage needs it",
    )


def test_a_secret_that_looks_like_a_variable_is_not_substituted(world: World) -> None:
    keys = {"hub": world.side.url, "login": "shop", "password": "${PASSWORD}"}
    made("websub", keys, environ={"PASSWORD": "abc${HOME}def", "HOME": "/root"}).submit(
        submission(SITE), world.ledger, world.client, clock=world.time.clock, sleep=world.time.sleep
    )
    basic = "Basic " + base64.b64encode(b"shop:abc${HOME}def").decode()
    assert world.side.requests[0].headers["Authorization"] == basic


@given(secret=st.text(min_size=6, max_size=40).filter(lambda text: len(text.strip()) >= 6))
def test_a_secret_is_masked_in_every_encoding_of_requests(secret: str) -> None:
    redact = Redactor([secret])
    forms = [secret, quote(secret, safe=""), json.dumps(secret), json.dumps({"k": f"x{secret}y"})]
    for form in forms:
        shown = redact(f"<{form}>")
        assert form not in shown
        assert MASK in shown


def test_the_http_client_sends_its_user_agent_and_follows_no_redirect(world: World) -> None:
    world.side.faults = [Reply(302, "", {"Location": "/elsewhere"})]
    with engines.open_client() as client:
        assert client.request("GET", world.side.url, limit=1, seconds=5).status == 302
    assert world.side.requests[0].headers["User-Agent"].startswith("sitemap_etl/")


@pytest.mark.parametrize("pieces", [1, 3])
def test_an_endless_response_is_cut(world: World, pieces: int) -> None:
    world.side.faults = [Reply(400, b"x" * (1 << 20) * pieces, {"Content-Type": "text/plain"})]
    with pytest.raises(Refused) as caught:
        world.submit("bing", {"key": "a-bing-key", "endpoint": world.side.url})
    assert len(str(caught.value)) < 1_000


def test_an_error_that_quotes_the_request_has_no_secret_in_its_whole_chain(world: World) -> None:
    """The HTTP library quotes an invalid status line, and this server writes the request there."""
    for name, given_settings in (
        ("bing", {"key": "secret+8812/bing", "endpoint": world.side.url}),
        ("http_ping", {"url": f"{world.side.url}/?k=secret+8812&s={{sitemap}}"}),
        ("websub", {"hub": world.side.url, "login": "shop", "password": "secret+8812/hub"}),
    ):
        world.side.faults = [ECHO] * 4
        with pytest.raises(Unavailable) as caught:
            world.submit(name, given_settings)
        told = "".join(traceback.format_exception(caught.value))
        assert "RemoteProtocolError" in told
        assert MASK in told
        assert "8812" not in told
        assert base64.b64encode(b"shop:secret+8812/hub").decode() not in told
        world.ledger = Memory()


@pytest.mark.parametrize("name", ["websub", "http_ping"])
def test_a_secret_in_the_path_of_an_address_is_not_shown(
    world: World, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    address = f"{world.side.url}/hooks/secret-token-8812"
    given_settings = {"hub": f"{address}/"} if name == "websub" else {"url": f"{address}/{{sitemap}}"}
    assert world.submit(name, given_settings).status == "accepted"
    assert "/hooks/secret-token-8812/" in world.side.requests[0].path
    world.side.faults = [Reply(404, f"no {address}", {"Content-Type": "text/plain"})]
    with pytest.raises(Refused, match="no http") as caught:
        world.submit(name, given_settings, "r2")
    engine = made(name, given_settings)
    assert "8812" not in f"{caught.value} {caplog.text} {world.ledger.versions} {engine!r}"


def test_query_values_of_an_address_are_masked_encoded_and_decoded() -> None:
    """An address may encode a character unusually; a server may answer with either spelling."""
    found = secrets_of_url("https://who:p%40ss@x.example/ping?token=a%2fb%63d&sitemap={sitemap}")
    assert {"p@ss", "a%2fb%63d", "a/bcd"} <= found
    assert "{sitemap}" not in found


PLAIN = {"Content-Type": "text/plain"}


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (Reply(404, "gone \n\t  for\x00 ever ", PLAIN), "404: gone for ever"),
        (Reply(404, "", PLAIN), "404"),
        (Reply(404, "<html>gone", {"Content-Type": "text/html; charset=utf-8"}), "404"),
        (Reply(400, "x" * 300, PLAIN), f"400: {'x' * 300}"),
        (Reply(400, "x" * 301, PLAIN), f"400: {'x' * 300}"),
        (
            Reply(301, "moved", {**PLAIN, "Location": "https://a.example/b?token=1"}),
            "301, a redirect to https://a.example/b that is not followed; use the final address",
        ),
        (
            Reply(308, "", {"Location": f"https://a.example/{'b' * 300}"}),
            f"308, a redirect to https://a.example/{'b' * 182} that is not followed; use the final address",
        ),
        (Reply(300, "", PLAIN), "300, a redirect to no address that is not followed; use the final address"),
        (Reply(302, "moved", PLAIN), "302, a redirect to no address that is not followed; use the final address"),
    ],
)
def test_a_response_is_reported_in_one_short_line(world: World, reply: Reply, said: str) -> None:
    world.side.faults = [reply]
    with pytest.raises(Refused) as caught:
        world.submit("http_ping", {"url": f"{world.side.url}/?s={{sitemap}}"})
    assert f" ({said}). " in str(caught.value)


@pytest.mark.parametrize(("status", "taken"), [(200, True), (204, True), (299, True), (400, False)])
def test_any_2xx_counts_as_accepted(world: World, status: int, taken: bool) -> None:
    world.side.faults = [Reply(status)]
    keys = {"url": f"{world.side.url}/?s={{sitemap}}"}
    if taken:
        assert world.submit("http_ping", keys).status == "accepted"
    else:
        with pytest.raises(Refused):
            world.submit("http_ping", keys)


@pytest.mark.parametrize(("status", "again"), [(407, False), (408, True), (409, False), (425, True), (426, False)])
@pytest.mark.parametrize("name", ["bing", "http_ping"])
def test_only_temporary_failures_are_retried(world: World, status: int, again: bool, name: str) -> None:
    world.side.faults = [Reply(status)]
    keys = (
        {"key": "a-bing-key", "endpoint": world.side.url}
        if name == "bing"
        else {"url": f"{world.side.url}/?s={{sitemap}}"}
    )
    if again:
        assert world.submit(name, keys).status == "accepted"
        assert world.time.slept == [1.0]
    else:
        with pytest.raises(Refused):
            world.submit(name, keys)
        assert world.time.slept == []


def test_a_busy_engine_is_asked_four_times_with_growing_waits(world: World) -> None:
    world.side.faults = [Reply(503)] * 5
    with pytest.raises(Unavailable, match="4 times in a row"):
        world.submit("http_ping", {"url": f"{world.side.url}/?s={{sitemap}}"})
    assert (len(world.side.requests), world.time.slept) == (4, [1.0, 4.0, 10.0])


def test_the_repr_of_a_response_or_submission_shows_no_body() -> None:
    assert "secret" not in repr(exchange.Reply(200, "", body=b"secret"))
    assert "earlier" not in repr(submission(SITE))
