"""Search Console: what is submitted, deleted and read back, and how refusals are reported."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from pydantic import ValidationError

from sitemap_etl import engines, web
from sitemap_etl.errors import ConfigError, Refused, Unavailable
from sitemap_etl.settings import SearchConsole
from tests.support.engines import Memory, Reply, Request, Side, Time, index_of, made, submission

PAIR = rsa.generate_private_key(65537, 2048)
PEM = PAIR.private_bytes(
    serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
).decode()
MAIL = "sitemaps@shop.example"


class Google:
    """Search Console on loopback: tokens for the service account, and the sitemaps of its properties."""

    def __init__(self) -> None:
        self.sitemaps: dict[str, dict[str, Any]] = {}
        self.side = Side(self.answer)

    def answer(self, request: Request) -> Reply:
        if request.path == "/token":
            head, claim, signature = request.form["assertion"][0].split(".")
            padded = base64.urlsafe_b64decode(signature + "==")
            PAIR.public_key().verify(padded, f"{head}.{claim}".encode(), padding.PKCS1v15(), hashes.SHA256())
            return Reply(200, json.dumps({"access_token": "token-1234", "expires_in": 3599}))
        assert request.headers["Authorization"] == "Bearer token-1234"
        index = index_of(request)
        if request.method == "PUT":
            assert request.body == b""
            self.sitemaps[index] = {"path": index, "isPending": True, "errors": "0", "warnings": "0"}
            return Reply(200)
        if index not in self.sitemaps:
            return Reply(404, '{"error": {"code": 404, "message": "not found"}}')
        if request.method == "DELETE":
            del self.sitemaps[index]
            return Reply(204)
        return Reply(200, json.dumps(self.sitemaps[index]))


class World:
    def __init__(self, google: Google, client: web.Client) -> None:
        self.google, self.client, self.side = google, client, google.side
        self.time, self.ledger = Time(), Memory()
        self.account = {"client_email": MAIL, "private_key": PEM, "token_uri": f"{self.side.url}/token"}
        self.settings: dict[str, Any] = {"property": "sc-domain:shop.example"}

    def engine(self) -> engines.HttpEngine[Any]:
        given = {"key": json.dumps(self.account), "endpoint": f"{self.side.url}/webmasters/v3"} | self.settings
        return made("search_console", given)

    def submit(self, run: str = "r1", site: str = "https://www.shop.example", **values: Any) -> engines.Answer:
        told = submission(site, run, **values)
        return self.engine().submit(told, self.ledger, self.client, clock=self.time.clock, sleep=self.time.sleep)


@pytest.fixture
def world() -> Iterator[World]:
    google = Google()
    with google.side, web.Client(step=5) as client:
        yield World(google, client)


def test_property_and_index_are_percent_encoded_in_the_path_of_a_submission(world: World) -> None:
    result = world.submit()
    (put,) = world.side.asked("PUT")
    address = quote("https://www.shop.example/sitemap.xml", safe="")
    assert put.target == f"/webmasters/v3/sites/sc-domain%3Ashop.example/sitemaps/{address}"
    assert (result.status, result.sent) == ("accepted", 1)


def test_the_token_is_requested_with_a_signed_claim_for_an_hour(world: World) -> None:
    world.submit()
    (request,) = world.side.asked("POST", "/token")
    claim = json.loads(base64.urlsafe_b64decode(request.form["assertion"][0].split(".")[1] + "=="))
    now = int(world.time.clock().timestamp())
    assert request.form["grant_type"] == ["urn:ietf:params:oauth:grant-type:jwt-bearer"]
    assert claim == {
        "iss": MAIL,
        "scope": "https://www.googleapis.com/auth/webmasters",
        "aud": f"{world.side.url}/token",
        "iat": now,
        "exp": now + 3600,
    }


def test_errors_found_by_google_are_read_back_on_this_and_later_runs(world: World) -> None:
    index, second = "https://www.shop.example/sitemap.xml", "https://www.shop.example/sitemap-2.xml"
    first = world.submit()
    assert first.details["indexes"][index] == {"isPending": True, "errors": 0, "warnings": 0}
    assert first.details["indexes"][second] == {"problem": "Google does not know it yet"}
    world.google.sitemaps[index] |= {
        "isPending": False,
        "errors": "3",
        "warnings": "1204",
        "lastDownloaded": "2026-11-20T03:00:00.000Z",
        "contents": [{"type": "web", "submitted": "5"}],
    }
    later = world.submit("r2", indexes=(engines.Index(index, False),))
    assert later.status == "nothing"
    assert later.details["indexes"][index] == {
        "isPending": False,
        "errors": 3,
        "warnings": 1204,
        "lastDownloaded": "2026-11-20T03:00:00.000Z",
    }
    assert f"Google found 3 errors and 1,204 warnings in {index}" in later.message


@pytest.mark.parametrize("reply", [Reply(500), Reply(200, "[]"), Reply(200, "{"), Reply(403, "no")])
def test_a_failed_read_back_does_not_fail_the_submission(world: World, reply: Reply) -> None:
    world.side.faulty = lambda request: request.method == "GET"
    world.side.faults = [reply] * 8
    result = world.submit()
    assert result.status == "accepted"
    assert "problem" in result.details["indexes"]["https://www.shop.example/sitemap.xml"]


def test_a_retired_index_is_deleted_even_if_it_was_already_missing(world: World) -> None:
    retired = ("https://www.shop.example/sitemap-2.xml", "https://www.shop.example/sitemap-3.xml")
    world.google.sitemaps[retired[0]] = {}
    result = world.submit(indexes=(engines.Index("https://www.shop.example/sitemap.xml", True),), retired=retired)
    assert list(world.google.sitemaps) == ["https://www.shop.example/sitemap.xml"]
    assert result.details["deleted"] == list(retired)
    world.submit(indexes=(engines.Index("https://www.shop.example/sitemap.xml", False),), retired=retired)
    assert len(world.side.asked("DELETE")) == 2


def test_a_run_that_only_retires_indexes_reports_them(world: World) -> None:
    unchanged = (engines.Index("https://www.shop.example/sitemap.xml", False),)
    assert world.submit(indexes=unchanged).message == "no index changed"
    left = world.submit("r2", indexes=unchanged, retired=("https://www.shop.example/sitemap-2.xml",))
    assert (left.status, left.message) == ("nothing", "no index changed; 1 old indexes removed")


def test_pending_changes_of_a_failed_run_are_submitted_by_the_next(world: World) -> None:
    world.side.faulty = lambda request: request.method == "PUT"
    world.side.faults = [Reply(500)] * 4
    with pytest.raises(Unavailable):
        world.submit()
    unchanged = (engines.Index("https://www.shop.example/sitemap.xml", False),)
    assert world.submit("r2", indexes=unchanged).sent == 1
    assert world.submit("r3", indexes=unchanged).status == "nothing"


def test_a_refused_index_does_not_prevent_the_submission_of_others(world: World) -> None:
    indexes = tuple(engines.Index(f"https://{host}.example/sitemap.xml", True) for host in ("cdn", "shop"))
    result = world.submit(indexes=indexes)
    assert (result.status, result.sent, result.failed) == ("partial", 1, True)
    assert "cdn.example/sitemap.xml is not under the property sc-domain:shop.example" in result.message


@pytest.mark.parametrize(
    ("prop", "covered"),
    [
        ("sc-domain:shop.example", True),
        ("sc-domain:WWW.Shop.example", True),
        ("sc-domain:hop.example", False),
        ("https://www.shop.example", True),
        ("https://www.shop.example/", True),
        ("https://www.shop.example/maps/", False),
        ("http://www.shop.example/", False),
        ("https://shop.example/", False),
    ],
)
def test_an_index_outside_the_property_is_refused(world: World, prop: str, covered: bool) -> None:
    world.settings = {"property": prop}
    if covered:
        assert world.submit().status == "accepted"
    else:
        with pytest.raises(Refused, match="is not under the property"):
            world.submit()
        assert world.side.asked("PUT") == []


@pytest.mark.parametrize(
    "prop", ["shop.example", "sc-domain:", "sc-domain:https://shop.example/", "ftp://shop.example/"]
)
def test_an_invalid_property_is_an_error(world: World, prop: str) -> None:
    with pytest.raises(ValidationError, match="expected a property as Search Console shows it"):
        SearchConsole(property=prop, connection="google")


def google_error(code: int, reason: str) -> Reply:
    return Reply(code, json.dumps({"error": {"code": code, "message": "Denied.", "errors": [{"reason": reason}]}}))


def test_a_403_for_too_many_requests_is_waited_out(world: World) -> None:
    world.side.faulty = lambda request: request.method == "PUT"
    world.side.faults = [google_error(403, "userRateLimitExceeded")]
    assert world.submit().status == "accepted"


@pytest.mark.parametrize(
    ("reply", "advice"),
    [
        (google_error(403, "forbidden"), f"403: Denied.*Add {MAIL} as an owner"),
        (google_error(403, "accessNotConfigured"), "Enable the Google Search Console API"),
        (google_error(404, "notFound"), f"Add {MAIL}"),
        (google_error(400, "invalid"), "Check the property"),
    ],
)
def test_a_refusal_says_what_to_do(world: World, reply: Reply, advice: str) -> None:
    world.side.faulty = lambda request: request.method == "PUT"
    world.side.faults = [reply]
    with pytest.raises(Refused, match=advice):
        world.submit()


def test_a_revoked_key_is_reported_with_an_explanation(world: World) -> None:
    world.side.faults = [Reply(400, '{"error": "invalid_grant", "error_description": "Invalid JWT Signature."}')]
    with pytest.raises(Refused, match=f"no access token for {MAIL}.*invalid_grant"):
        world.submit()


def test_requests_keep_the_pace_that_google_allows(world: World) -> None:
    indexes = tuple(engines.Index(f"https://shop.example/sitemap-{number}.xml", True) for number in range(5))
    begun = world.time.now
    world.submit(indexes=indexes)
    assert (world.time.now - begun).total_seconds() == pytest.approx(0.3 * (len(world.side.requests) - 1))


def test_the_key_file_comes_from_a_path_or_an_airflow_connection(world: World, tmp_path: Path) -> None:
    key = json.dumps(world.account)
    path = tmp_path / "key.json"
    path.write_text(key)
    extras = [
        {"keyfile_dict": key},
        {"keyfile_dict": world.account},
        {"key_path": str(path)},
        {"extra__google_cloud_platform__key_path": str(path)},
    ]
    settings = {"property": "sc-domain:shop.example", "endpoint": f"{world.side.url}/webmasters/v3"}
    found = [made("search_console", settings | {"key": str(path)})]
    for extra in extras:
        texts = (
            json.dumps({"conn_type": "google_cloud_platform", "extra": extra}),
            json.dumps({"conn_type": "google_cloud_platform", "extra": json.dumps(extra)}),
            f"google-cloud-platform://?__extra__={quote(json.dumps(extra))}",
        )
        found += [made("search_console", settings | {"connection": "google"}, connection=text) for text in texts]
    told = submission("https://shop.example", "r1")
    for engine in found:
        answer = engine.submit(told, Memory(), world.client, clock=world.time.clock, sleep=world.time.sleep)
        assert answer.status == "accepted"


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("/nowhere/key-8812.json", "names a file that can't be read"),
        ('{"client_email": "x", "private_key": "secret-8812"', "is not the key file"),
        ('{"client_email": "x", "private_key": "secret-8812"}', "is not the key file"),
        ('{"client_email": "x", "private_key": 8812, "token_uri": "https://t.example"}', "is not the key file"),
        ('{"client_email": "x", "private_key": "secret-8812", "token_uri": "http://t.example"}', "is not the key file"),
        ('{"client_email": "x", "private_key": "secret-8812", "token_uri": "https://t.example"}', "not a PEM key"),
        ("c2VjcmV0LTg4MTI=" * 400, "names a file that can't be read"),
    ],
)
def test_an_invalid_key_file_is_an_error_that_shows_none_of_its_content(world: World, key: str, words: str) -> None:
    world.settings |= {"key": key}
    with pytest.raises(ConfigError, match=words) as caught:
        world.submit()
    assert "8812" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert "8812" not in str(caught.value.__context__)
