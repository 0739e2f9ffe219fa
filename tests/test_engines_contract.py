"""Rules that apply to every engine, whatever its server does: the same tests for each."""

from __future__ import annotations

import json
import logging
import ssl
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import trustme
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from sitemap_etl import engines, web
from sitemap_etl.config import reference, schema
from sitemap_etl.errors import Refused, SitemapEtlError, Unavailable
from sitemap_etl.settings import Ping
from tests.support.engines import RESET, SLOW, Memory, Reply, Request, Side, Time, made, submission

ROOT = Path(__file__).parent.parent
KEY = "0123456789abcdef0123456789abcdef"
API_KEY = "bing+api/key=4711"
PASSWORD = 'pass"word & more'
HUB_TOKEN = "hub-token-8812"
TOKEN = "ya29.access-token-of-google"
DISTRUSTING = ssl.create_default_context()
PRIVATE_KEY = (
    rsa.generate_private_key(65537, 2048)
    .private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    .decode()
)


def account(side: str) -> str:
    """The key file of a service account whose tokens come from `side`."""
    return json.dumps(
        {
            "type": "service_account",
            "client_email": "sitemaps@shop.example",
            "private_key_id": "1",
            "private_key": PRIVATE_KEY,
            "token_uri": f"{side}/token",
        }
    )


@dataclass(frozen=True)
class Case:
    """An engine, its settings for a server, its documented responses, and the request with the changes."""

    name: str
    settings: Callable[[str], dict[str, Any]]
    answer: Callable[[Request], Reply]
    main: Callable[[Request], bool]
    reads_json: bool
    repeats: bool = True  # asks again at once where an answer was lost


def indexnow_answer(request: Request) -> Reply:
    return Reply(200, KEY) if request.method == "GET" else Reply(202)


def google_answer(request: Request) -> Reply:
    if request.path == "/token":
        return Reply(200, json.dumps({"access_token": TOKEN, "expires_in": 3599, "token_type": "Bearer"}))
    if request.method == "GET":
        return Reply(200, '{"isPending": true, "errors": "0", "warnings": "0"}')
    return Reply(204)


CASES = [
    Case(
        "indexnow",
        lambda url: {"key": "${INDEXNOW_KEY}", "endpoint": f"{url}/indexnow"},
        indexnow_answer,
        lambda request: request.method == "POST",
        reads_json=False,
        repeats=False,
    ),
    Case(
        "search_console",
        lambda url: {"key": "${GOOGLE_KEY}", "property": f"{url}/", "endpoint": f"{url}/webmasters/v3"},
        google_answer,
        lambda request: request.method == "PUT",
        reads_json=False,
    ),
    Case(
        "bing",
        lambda url: {"key": "${BING_KEY}", "endpoint": f"{url}/json"},
        lambda _request: Reply(200, '{"d": null}'),
        lambda request: request.method == "POST",
        reads_json=True,
    ),
    Case(
        "websub",
        lambda url: {"hub": f"{url}/hub?token={HUB_TOKEN}", "login": "shop", "password": "${PASSWORD}"},
        lambda _request: Reply(204),
        lambda request: request.method == "POST",
        reads_json=False,
    ),
    Case(
        "http_ping",
        lambda url: {
            "url": f"{url}/ping?sitemap={{sitemap}}&key={{password}}&also=${{BING_KEY}}",
            "password": "${PASSWORD}",
        },
        lambda _request: Reply(200, "thanks"),
        lambda request: request.method == "GET",
        reads_json=False,
    ),
]
EVERY_ENGINE = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
EVERY_REQUEST = pytest.mark.parametrize("where", ["first", "main"])


@dataclass
class Stage:
    """An engine, its server, and everything that was logged."""

    case: Case
    side: Side
    client: web.Client
    time: Time
    ledger: Memory
    heard: list[str]

    @property
    def environ(self) -> dict[str, str]:
        return {
            "INDEXNOW_KEY": KEY,
            "BING_KEY": API_KEY,
            "PASSWORD": PASSWORD,
            "GOOGLE_KEY": account(self.side.url),
        }

    def own_secret(self) -> str:
        """Return the secrets of this engine, which the server may echo."""
        return {"indexnow": KEY, "search_console": PRIVATE_KEY, "bing": API_KEY}.get(self.case.name, PASSWORD)

    def engine(self) -> engines.HttpEngine[Any]:
        engine = made(self.case.name, self.case.settings(self.side.url), environ=self.environ)
        self.heard += [repr(engine), str(engine)]
        return engine

    def submit(self, **values: Any) -> engines.Answer:
        try:
            answer = self.engine().submit(
                submission(self.side.url, **values),
                self.ledger,
                self.client,
                clock=self.time.clock,
                sleep=self.time.sleep,
            )
        except SitemapEtlError as error:
            self.heard += ["".join(traceback.format_exception(error)), repr(error), str(error.__context__)]
            raise
        self.heard.append(json.dumps(answer.to_json()))
        return answer

    def told(self) -> list[Request]:
        """Return the requests with changes."""
        return [request for request in self.side.requests if self.case.main(request)]

    def fail(self, where: str, *faults: Reply) -> None:
        self.side.faults = list(faults)
        self.side.faulty = self.case.main if where == "main" else lambda _request: True


class Ear(logging.Handler):
    """Collects every record of every logger, formatted."""

    def __init__(self, heard: list[str]) -> None:
        super().__init__(logging.NOTSET)
        self.heard = heard

    def emit(self, record: logging.LogRecord) -> None:
        self.heard.append(self.format(record))


@pytest.fixture
def heard(caplog: pytest.LogCaptureFixture) -> Iterator[list[str]]:
    """Collect everything that is shown, logged or raised, and check at the end that it has no secret."""
    caplog.set_level(logging.DEBUG)
    heard: list[str] = []
    ear = Ear(heard)
    logging.getLogger().addHandler(ear)
    yield heard
    logging.getLogger().removeHandler(ear)
    text = "\n".join(heard)
    secrets = [KEY, API_KEY, PASSWORD, TOKEN, HUB_TOKEN, *PRIVATE_KEY.splitlines()[1:-1]]
    secrets += ["bing%2Bapi", "bing+api", "pass%22word", 'pass\\"word', 'pass\\\\"word']
    assert [secret for secret in secrets if secret in text] == []


@pytest.fixture
def stage(case: Case, heard: list[str]) -> Iterator[Stage]:
    """The engine with its server."""
    with Side(case.answer) as side, web.Client(step=5, trust=DISTRUSTING) as client:
        stage = Stage(case, side, client, Time(), Memory(), heard)
        yield stage
        heard += stage.ledger.versions


@EVERY_ENGINE
def test_an_engine_is_notified_once_even_if_the_run_tries_again(stage: Stage) -> None:
    assert stage.submit().status == "accepted"
    told = len(stage.told())
    again = stage.submit()
    assert (again.status, again.sent) == ("nothing", 0)
    assert len(stage.told()) == told


@EVERY_ENGINE
def test_a_run_without_changes_submits_nothing(stage: Stage) -> None:
    quiet = {"indexes": (), "feeds": (), "changes": submission("https://x.example").changes.slice(0, 0)}
    answer = stage.submit(**quiet)
    assert (answer.status, answer.sent) == ("nothing", 0)
    assert stage.told() == []


@EVERY_ENGINE
@EVERY_REQUEST
def test_a_429_with_seconds_is_waited_out(stage: Stage, where: str) -> None:
    stage.fail(where, Reply(429, "slow down", {"Retry-After": "7"}))
    assert stage.submit().status == "accepted"
    assert 7.0 in stage.time.slept


@EVERY_ENGINE
@EVERY_REQUEST
def test_a_429_with_a_date_is_waited_out(stage: Stage, where: str) -> None:
    stage.fail(
        where, Reply(429, "", {"Retry-After": format_datetime(stage.time.now + timedelta(seconds=90), usegmt=True)})
    )
    assert stage.submit().status == "accepted"
    assert max(stage.time.slept) == pytest.approx(90, abs=1)


@EVERY_ENGINE
@EVERY_REQUEST
@pytest.mark.parametrize("header", [{}, {"Retry-After": "soon"}, {"Retry-After": "-3"}])
def test_a_429_without_a_time_is_waited_out(stage: Stage, where: str, header: dict[str, str]) -> None:
    stage.fail(where, Reply(429, "", header))
    assert stage.submit().status == "accepted"
    assert stage.time.slept


@EVERY_ENGINE
def test_a_wait_that_is_too_long_is_reported_and_respected_by_the_next_attempt(stage: Stage) -> None:
    stage.fail("main", Reply(429, "", {"Retry-After": "7200"}))
    with pytest.raises(Unavailable, match="2026-11-20 04:00:0"):
        stage.submit()
    asked = len(stage.side.requests)
    stage.time.pass_minutes(30)
    with pytest.raises(Unavailable, match="no further request before 2026-11-20 04:00:0"):
        stage.submit()
    assert len(stage.side.requests) == asked
    stage.time.pass_minutes(95)
    assert stage.submit().status == "accepted"


@EVERY_ENGINE
@EVERY_REQUEST
def test_a_temporary_500_is_retried(stage: Stage, where: str) -> None:
    stage.fail(where, Reply(500, "oops"), Reply(503, "<html>", {"Content-Type": "text/html"}))
    assert stage.submit().status == "accepted"


@EVERY_ENGINE
@EVERY_REQUEST
def test_a_persistent_500_is_retried_by_the_next_attempt(stage: Stage, where: str) -> None:
    stage.fail(where, *[Reply(500, "oops")] * 4)
    with pytest.raises(Unavailable, match=r"127\.0\.0\.1.*500: oops"):
        stage.submit()
    assert stage.submit().status == "accepted"


@EVERY_ENGINE
@EVERY_REQUEST
@pytest.mark.parametrize("fault", [SLOW, RESET], ids=["slow", "reset"])
def test_a_request_without_an_answer_is_repeated(stage: Stage, where: str, fault: Reply) -> None:
    stage.fail(where, fault)
    with web.Client(step=0.3, trust=DISTRUSTING) as stage.client:
        if stage.case.repeats or where == "first":
            assert stage.submit().status == "accepted"
        else:
            with pytest.raises(Unavailable, match="may have accepted"):
                stage.submit()
            stage.time.pass_minutes(11)
            assert stage.submit().status == "accepted"


@EVERY_ENGINE
@EVERY_REQUEST
def test_a_redirect_is_refused_and_never_followed(stage: Stage, where: str) -> None:
    with Side(lambda _request: Reply()) as elsewhere:
        stage.fail(where, Reply(302, "", {"Location": f"{elsewhere.url}/{quote(stage.own_secret())}"}))
        with pytest.raises(Refused, match="a redirect to"):
            stage.submit()
        assert elsewhere.requests == []


@EVERY_ENGINE
@EVERY_REQUEST
def test_a_response_that_is_not_json_never_crashes_an_engine(stage: Stage, where: str) -> None:
    stage.fail(where, Reply(200, '{"d": nul'))
    reads_first = where == "first" and stage.case.name in ("search_console", "indexnow")
    if stage.case.reads_json or reads_first:
        with pytest.raises(SitemapEtlError):
            stage.submit()
    else:
        assert stage.submit().status == "accepted"


@EVERY_ENGINE
@EVERY_REQUEST
@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 422])
def test_a_refusal_is_reported_without_secrets(stage: Stage, where: str, status: int) -> None:
    body = f"not so: {stage.own_secret()} {TOKEN if where == 'main' and stage.case.name == 'search_console' else ''}"
    stage.fail(where, Reply(status, body, {"Content-Type": "text/plain"}))
    with pytest.raises(Refused, match="not so"):
        stage.submit()


@EVERY_ENGINE
def test_an_unreachable_address_is_retried_by_the_next_attempt(case: Case, heard: list[str]) -> None:
    with Side(case.answer) as side:
        pass
    stage = Stage(case, side, web.Client(step=0.3, trust=DISTRUSTING), Time(), Memory(), heard)
    with stage.client, pytest.raises(Unavailable, match="can't be reached"):
        stage.submit()


@EVERY_ENGINE
def test_nothing_is_sent_to_a_server_with_an_untrusted_certificate(case: Case, heard: list[str]) -> None:
    authority = trustme.CA()
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    with Side(case.answer, authority=authority) as side:
        with web.Client(step=5, trust=DISTRUSTING) as client:
            stage = Stage(case, side, client, Time(), Memory(), heard)
            with pytest.raises(Refused, match="certificate"):
                stage.submit()
            assert side.requests == []
        stage.client = web.Client(step=5, trust=trusting)
        with stage.client:
            assert stage.submit().status == "accepted"


@EVERY_ENGINE
def test_a_ledger_of_a_later_format_is_not_touched(stage: Stage) -> None:
    stage.ledger.text = '{"format": 2}'
    with pytest.raises(Refused, match="format 2"):
        stage.submit()
    assert stage.ledger.versions == []
    assert stage.side.requests == []


def test_every_engine_of_the_site_file_is_tested_here() -> None:
    assert [case.name for case in CASES] == list(Ping.model_fields)


@EVERY_ENGINE
def test_code_settings_keys_and_documentation_of_an_engine_have_the_same_name(case: Case) -> None:
    keys = case.settings("https://side.example")
    settings = type(Ping.model_validate({case.name: keys}).engines()[case.name])
    engine = made(case.name, keys, environ=dict.fromkeys(("INDEXNOW_KEY", "BING_KEY", "PASSWORD", "GOOGLE_KEY"), KEY))
    assert type(engine) is engines.named(case.name)
    assert type(engine.settings) is settings
    assert list(schema()["$defs"][settings.__name__]["properties"]) == list(settings.model_fields)
    assert reference.tables()[f"ping.{case.name}"] is settings
    assert f"<!-- keys: ping.{case.name} - " in (ROOT / "docs" / "reference" / "engines.md").read_text("utf-8")
