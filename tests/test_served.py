"""After a publish, the files at the public address are compared with the written ones."""

from __future__ import annotations

import functools
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest

from tests.support.sites import TestSite, pages


@pytest.fixture
def served(tmp_path: Path) -> Iterator[TestSite]:
    """A site whose public folder is served on loopback, like a bucket behind a CDN."""
    (tmp_path / "public").mkdir()
    handler = functools.partial(Quiet, directory=str(tmp_path / "public"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        site = TestSite(tmp_path)
        site.keys["site"] = f"http://127.0.0.1:{server.server_address[1]}"
        yield site
        server.shutdown()


class Quiet(http.server.SimpleHTTPRequestHandler):
    stale: bytes | None = None
    age = ""
    status = 200
    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.asked.append(self.path)
        if self.path.endswith("sitemap.xml") and Quiet.status != 200:
            self.send_error(Quiet.status)
        elif self.path.endswith("sitemap.xml") and Quiet.stale is not None:
            self.send_response(200)
            if Quiet.age:
                self.send_header("Age", Quiet.age)
            self.end_headers()
            self.wfile.write(Quiet.stale)
        else:
            super().do_GET()

    def log_message(self, *_args: object) -> None:
        pass


def test_a_release_that_is_served_as_written_causes_no_warning(served: TestSite) -> None:
    served.section("p", pages(5))
    assert served.night(1).summary.warnings == ()


@pytest.mark.parametrize(
    ("age", "shown"), [("", "an old page</html>'; published"), ("3600", ", 3600 s old by its Age")]
)
def test_different_bytes_at_the_public_address_are_a_warning_that_shows_both(
    served: TestSite, monkeypatch: pytest.MonkeyPatch, age: str, shown: str
) -> None:
    monkeypatch.setattr(Quiet, "stale", b"<html>an old page</html>")
    monkeypatch.setattr(Quiet, "age", age)
    served.section("p", pages(5))
    warnings = served.night(1).summary.warnings
    assert any(shown in w for w in warnings)
    assert any("serves different bytes than were published" in w and "an old page" in w for w in warnings)
    assert not any("sitemap-p-00001" in w for w in warnings)


@pytest.mark.parametrize("at", ["/elsewhere/", "/sitemaps/"])
def test_an_address_that_answers_404_is_a_warning_that_names_it(served: TestSite, at: str) -> None:
    """robots.txt names the index, so that there is no other warning."""
    origin = served.keys["site"]
    (served.folder / "public" / "robots.txt").write_text(f"Sitemap: {origin}{at}sitemap.xml\n")
    served.keys["publish"] = {"to": "./files", "at": f"{origin}{at}"}
    served.section("p", pages(5))
    warnings = served.night(1).summary.warnings
    assert [w.split(",")[0] for w in warnings] == [
        f"{origin}{at}sitemap.xml answers 404",
        f"{origin}{at}sitemap-p-00001.xml.gz answers 404",
    ]
    assert all("publish: {check: false}" in w and str(served.folder / "files") in w for w in warnings)


def test_an_address_that_answers_410_is_a_warning(served: TestSite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Quiet, "status", 410)
    served.section("p", pages(5))
    (warning,) = served.night(1).summary.warnings
    assert warning.startswith(f"{served.keys['site']}/sitemap.xml answers 410,")


@pytest.mark.parametrize("status", [401, 403, 500, 503])
def test_an_address_that_requires_a_login_or_fails_is_not_a_warning(
    served: TestSite, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    monkeypatch.setattr(Quiet, "status", status)
    served.section("p", pages(5))
    assert served.night(1).summary.warnings == ()


def test_an_address_that_is_not_public_yet_is_not_requested(served: TestSite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Quiet, "asked", asked := [])
    served.keys["publish"] = {"to": "./public", "check": False}
    served.section("p", pages(5))
    assert served.night(1).summary.warnings == ()
    assert [path for path in asked if path.startswith("/sitemap")] == []
    del served.keys["publish"]["check"]
    served.export("p", pages(6))
    assert served.night(2).summary.warnings == ()
    assert asked[-2:] == ["/sitemap.xml", "/sitemap-p-00001.xml.gz"]


def test_a_section_stays_unchanged_when_the_check_of_served_files_is_switched_off(served: TestSite) -> None:
    served.section("p", pages(5))
    served.night(1)
    served.keys["publish"] = {"to": "./public", "check": False}
    assert served.night(2).summary.quiet.keys() == {"p"}
