"""What the site's robots.txt says about pages and about the sitemap, even if it is unreachable in a run."""

from __future__ import annotations

import gzip
import os
import ssl
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import trustme

from sitemap_etl.errors import DamagedState, Unavailable
from sitemap_etl.runs.local import publish_locally
from sitemap_etl.runs.rollback import roll_back
from tests.support.sites import TestSite, pages

RULES = b"User-agent: *\nDisallow: /p/000001\n"


@dataclass
class Answer:
    """The response of the web server for robots.txt; `endless`: it never ends."""

    status: int = 200
    body: bytes = RULES
    endless: bool = False
    coding: str = "identity"
    asked: int = field(default=0)


@pytest.fixture
def answer() -> Answer:
    return Answer()


@pytest.fixture
def web(answer: Answer) -> Iterator[ThreadingHTTPServer]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer.asked += 1
            self.send_response(answer.status if self.path == "/robots.txt" else 404)
            self.send_header("Content-Encoding", answer.coding)
            self.end_headers()
            try:
                self.wfile.write(answer.body)
                while answer.endless:
                    self.wfile.write(b"# and so on\n" * 10_000)
            except OSError:
                pass  # the reader had enough

        def log_message(self, *_arguments: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def site(tmp_path: Path, web: ThreadingHTTPServer) -> TestSite:
    """A site of three pages, with sitemaps in a folder and the robots.txt of the web server."""
    origin = f"http://127.0.0.1:{web.server_address[1]}"
    keys = {"site": origin, "urls": {"respect_robots": True}}
    site = TestSite(tmp_path, **keys)
    # The server has robots.txt alone, so the published files are not asked for.
    site.keys["publish"] = {"to": "./public", "at": f"{origin}/maps/", "check": False}
    site.section("p", pages(3))
    return site


def listed(site: TestSite) -> set[str]:
    return {loc[-1] for loc in site.public().locs()}


BAD = {
    "503": {"status": 503},
    "403": {"status": 403},
    "429": {"status": 429},
    "206": {"status": 206},
    "endless": {"endless": True},
    "HTML": {"body": b"\xef\xbb\xbf\n<!doctype html><title>Back soon</title>"},
    "no gzip": {"coding": "gzip"},
}


def test_a_crawl_delay_line_does_not_end_a_group(site: TestSite, answer: Answer) -> None:
    answer.body = b"User-agent: *\nCrawl-delay: 9\nUser-agent: Other\nDisallow: /p/000002\n"
    done = site.night(1)
    assert listed(site) == {"0", "1"}
    assert done.summary.sections["p"].excluded == 1


@pytest.mark.parametrize("bad", BAD)
def test_the_last_read_robots_txt_applies_if_it_is_unreachable(site: TestSite, answer: Answer, bad: str) -> None:
    site.night(1)
    vars(answer).update(BAD[bad])
    site.section("p", pages(5))
    done = site.night(4)
    assert listed(site) == {"0", "2", "3", "4"}
    (warning,) = [text for text in done.summary.warnings if "last read" in text]
    assert "3 days ago (2026-11-01T02:00:00Z), and its rules of then hold" in warning
    assert "/robots.txt" in warning


@pytest.mark.parametrize("bad", BAD)
def test_an_unreachable_robots_txt_that_was_never_read_prevents_publishing(
    site: TestSite, answer: Answer, bad: str
) -> None:
    vars(answer).update(BAD[bad])
    with pytest.raises(
        Unavailable, match=r"(?s)robots\.txt.*there is no earlier copy.*200.*404.*respect_robots: false"
    ):
        site.night(1)
    assert not (site.folder / "public").exists()


@pytest.mark.parametrize("gone", [404, 410])
def test_the_absence_of_robots_txt_is_remembered(site: TestSite, answer: Answer, gone: int) -> None:
    site.night(1)
    answer.status = gone
    site.night(2)
    assert listed(site) == {"0", "1", "2"}
    answer.status = 500
    done = site.night(3)
    assert listed(site) == {"0", "1", "2"}
    assert any("there was none then, so that no page is left out" in text for text in done.summary.warnings)


@pytest.mark.parametrize("gone", [404, 410])
def test_a_site_that_never_had_a_robots_txt_lists_every_page(site: TestSite, answer: Answer, gone: int) -> None:
    answer.status = gone
    assert site.night(1).summary.status == "published"
    assert site.night(2).summary.status == "unchanged"
    assert listed(site) == {"0", "1", "2"}
    answer.status = 200
    site.section("p", pages(4))
    site.night(3)
    assert listed(site) == {"0", "2", "3"}


def test_a_robots_txt_that_answers_again_is_read_again(site: TestSite, answer: Answer) -> None:
    site.night(1)
    answer.status = 503
    site.night(2)
    answer.status, answer.body = 200, b"User-agent: *\nDisallow: /p/000002\n"
    done = site.night(3)
    assert listed(site) == {"0", "1"}
    answer.status = 503
    warnings = site.night(4).summary.warnings
    assert listed(site) == {"0", "1"}
    assert done.run.plan.now in next(text for text in warnings if "last read" in text)


def test_the_stored_robots_txt_survives_clean_ups_rollbacks_and_dry_runs(site: TestSite, answer: Answer) -> None:
    site.keys["keep"] = 1
    first = site.night(1).run.run_id
    site.keys["keep"] = 14
    site.section("p", pages(5))
    site.night(2)
    for stored in (site.folder / "work" / "shop" / "state").rglob("*"):
        if stored.is_file():
            os.utime(stored, (1, 1))
    answer.body = b""
    site.night(3, dry_run=True)  # what it read is not what a set was made with
    roll_back(site.load(), first, site.environment, reason="back")
    answer.status = 503
    site.night(30)
    assert listed(site) == {"0", "2", "3", "4"}


def test_publishing_a_dry_run_stores_the_robots_txt_that_it_read(site: TestSite, answer: Answer) -> None:
    dry = site.night(1, dry_run=True)
    answer.status = 503
    with pytest.raises(Unavailable, match="there is no earlier copy"):
        site.night(2)
    publish_locally(site.load(), dry.run.run_id, site.environment, force=(), reason=None, adopt=False)
    site.night(3)
    assert listed(site) == {"0", "2"}


def test_a_damaged_stored_robots_txt_ends_the_run(site: TestSite, answer: Answer) -> None:
    site.night(1)
    (kept,) = (site.folder / "work" / "shop" / "state" / "robots").iterdir()
    kept.write_bytes(b"User-agent: *\n")
    answer.status = 503
    with pytest.raises(DamagedState, match="is damaged"):
        site.night(2)
    kept.unlink()
    with pytest.raises(DamagedState, match="is missing"):
        site.night(2)
    answer.status = 200
    site.night(2)
    assert listed(site) == {"0", "2"}


def test_a_robots_txt_with_an_untrusted_certificate_counts_as_unreachable(
    tmp_path: Path, web: ThreadingHTTPServer
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    web.socket = context.wrap_socket(web.socket, server_side=True)
    site = TestSite(tmp_path, site=f"https://127.0.0.1:{web.server_address[1]}", urls={"respect_robots": True})
    with pytest.raises(Unavailable, match="certificate that this machine does not trust"):
        site.section("p", pages(3)).night(1)


def test_the_robots_txt_under_root_is_read_before_that_of_the_site(site: TestSite, answer: Answer) -> None:
    (site.folder / "public").mkdir()
    (site.folder / "public" / "robots.txt").write_bytes(RULES)
    answer.status = 503
    site.keys["publish"] = "./public"
    site.night(1)
    assert listed(site) == {"0", "2"}


def test_robots_txt_is_not_requested_if_respect_robots_is_false(site: TestSite, answer: Answer) -> None:
    answer.status = 503
    site.keys["urls"] = {}
    site.night(1)
    assert listed(site) == {"0", "1", "2"}


# --- what it says about the sitemap ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "said"), [(200, "does not name this sitemap"), (404, "answers 404"), (503, "answers 503")]
)
def test_a_sitemap_in_a_folder_that_robots_txt_does_not_name_is_a_warning(
    site: TestSite, answer: Answer, status: int, said: str
) -> None:
    site.keys["urls"] = {}
    answer.status = status
    (warning,) = site.night(1).summary.warnings
    assert said in warning
    assert f"Sitemap: {site.keys['site']}/maps/sitemap.xml" in warning


def test_a_sitemap_in_a_folder_that_robots_txt_names_is_not_a_warning(site: TestSite, answer: Answer) -> None:
    answer.body = RULES + f"Sitemap: {site.keys['site']}/maps/sitemap.xml\n".encode()
    assert site.night(1).summary.warnings == ()


@pytest.mark.parametrize("to", ["root", "folder"])
def test_a_robots_txt_that_disallows_the_sitemap_is_a_warning(site: TestSite, answer: Answer, to: str) -> None:
    if to == "root":
        site.keys["publish"] = "./public"
        (site.folder / "public").mkdir()
        (site.folder / "public" / "robots.txt").write_bytes(b"User-agent: *\nDisallow: /*.gz$\n")
        hidden = "/sitemap-p-00001.xml.gz"
    else:
        answer.body = b"User-agent: *\nDisallow: /maps/\nSitemap: %s/maps/sitemap.xml\n"
        answer.body %= site.keys["site"].encode()
        hidden = "/maps/sitemap-p-00001.xml.gz"
    warnings = site.night(1, dry_run=True).summary.warnings
    (warning,) = [text for text in warnings if "engines will not read them" in text]
    assert f"Allow: {hidden}" in warning
    assert ("1 of the 2" if to == "root" else "2 of the 2") in warning


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (RULES.decode().encode("utf-16"), "UTF-16"),
        (RULES.decode().encode("utf-16-le"), "UTF-16"),
        (RULES.decode().encode("utf-32"), "UTF-16 or UTF-32"),
        (gzip.compress(RULES, mtime=0), "compressed (gzip)"),
        (RULES.replace(b"\n", b" "), "line 1 has several rules"),
        (RULES.replace(b"\n", rb"\n"), "line 1 has several rules"),
        (RULES.replace(b"\n", "\u2028".encode()), "line 1 has several rules"),
        (b"# shop " + RULES.replace(b"\n", b" "), "line 1 has several rules"),
        (RULES + b"User-agent: x Disallow: /q\n", "line 3 has several rules"),
        (b'{"error": "not found"}', "none of its lines is a rule"),
        (RULES + b"Disallow: /q # x\n" * 40_000 + b"Disallow: /last\n", "lines behind 512,000 bytes"),
    ],
    ids=lambda value: value.replace(" ", "-") if isinstance(value, str) else "",
)
def test_an_unreadable_robots_txt_is_a_warning(site: TestSite, answer: Answer, body: bytes, said: str) -> None:
    answer.body = body
    (warning,) = [text for text in site.night(1).summary.warnings if text.startswith("robots.txt")]
    assert said in warning


@pytest.mark.parametrize(
    "body",
    [
        RULES,
        b"\xef\xbb\xbf" + RULES.replace(b"\n", b"\r"),
        b"",
        b"# nothing: allow: all\n",
        RULES + b"Disallow: /disallow:x\nSitemap: https://shop.example/sitemap:1.xml\n# Allow: /a Disallow: /b\n",
        RULES + "Disallow: /größe\n".encode() + b"# " + b"x" * 600_000,
    ],
    ids=range(6),
)
def test_a_readable_robots_txt_is_not_a_warning(site: TestSite, answer: Answer, body: bytes) -> None:
    answer.body = body
    assert not [text for text in site.night(1).summary.warnings if text.startswith("robots.txt")]
