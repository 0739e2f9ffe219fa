"""`check`, and `run --dry-run --against`: reading published and foreign sitemaps."""

from __future__ import annotations

import functools
import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.command import at, call
from tests.support.s3 import S3Server
from tests.support.sites import TestSite, pages

BROKEN = (
    '<?xml version="1.0" encoding="UTF-8"?>\n<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">'
    "<url><loc>https://shop.example/a</loc><priority>2</priority></url>"
    "<url><loc>https://shop.example/a</loc></url></urlset>"
)


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve the folder over HTTP; return the address."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_arguments: object) -> None:
            """Log nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def site(tmp_path: Path) -> TestSite:
    return TestSite(tmp_path).section("products", pages(100, lastmod="2026-10-01"))


def test_check_finds_no_faults_in_published_files(site: TestSite) -> None:
    site.export("products", pages(100, lastmod=lambda n: f"2026-10-{n % 28 + 1:02}"))
    site.night(1)
    done = call("check", site.folder / "public", "--at", "https://shop.example/", "--now", "2026-11-02T00:00:00Z")
    assert (done.code, "no problems found" in done.out) == (0, True)


def test_faults_end_with_exit_code_1_and_advice(tmp_path: Path) -> None:
    (tmp_path / "sitemap.xml").write_text(BROKEN)
    done = call("check", tmp_path / "sitemap.xml")
    assert done.code == 1
    assert "priority-invalid" in done.out
    assert "→" in done.out
    told = call("check", tmp_path / "sitemap.xml", "--json").json
    assert (told["status"], told["error"]) == ("faults", None)
    assert {"priority-invalid", "duplicate"} <= {finding["code"] for finding in told["findings"]}


def test_fail_on_warning_ends_with_exit_code_1_for_a_warning(tmp_path: Path) -> None:
    (tmp_path / "sitemap.xml").write_text(BROKEN.replace("<priority>2</priority>", ""))
    assert call("check", tmp_path / "sitemap.xml").code == 0
    assert call("check", tmp_path / "sitemap.xml", "--fail-on", "warning").code == 1


def test_check_reads_a_bucket(site: TestSite, s3: S3Server, bucket: str) -> None:
    site.keys["publish"] = {"to": f"s3://{bucket}/maps", "at": "https://shop.example/", "root": f"s3://{bucket}/maps"}
    site.night(1)
    done = call("check", f"s3://{bucket}/maps", "--json")
    assert (done.code, done.json["totals"]["urls"]) == (0, 100)
    one = call("check", f"s3://{bucket}/maps/sitemap-products-00001.xml.gz", "--json")
    assert (one.code, one.json["totals"]["files"]) == (0, 1)


def test_check_reports_a_missing_bucket(s3: S3Server) -> None:
    done = call("check", "s3://no-such-bucket/maps")
    assert done.code in (1, 2)
    assert "no-such-bucket" in done.err


def test_a_site_file_given_to_check_is_recognized(site: TestSite) -> None:
    done = call("check", site.path)
    assert done.code == 2
    assert f"To check it: sitemap-etl validate {site.path}" in done.err


def test_an_unreachable_address_ends_check_with_exit_code_3() -> None:
    done = call("check", "http://127.0.0.1:1/sitemap.xml", "--timeout", "1")
    assert done.code == 3
    assert "unreachable" in done.out


def test_no_follow_reads_only_the_index(site: TestSite) -> None:
    site.night(1)
    done = call("check", site.folder / "public" / "sitemap.xml", "--no-follow", "--json")
    assert done.json["totals"]["files"] == 1


# --- run --dry-run --against --------------------------------------------------------------------------


def against(site: TestSite, url: str) -> dict:
    done = call("run", site.path, "--dry-run", "--against", url, *at("2026-11-02T02:00:00Z"), "--json")
    assert done.code == 0, done.err
    return done.json["against"]


def old_sitemap(*urls: str) -> str:
    rows = "".join(f"<url><loc>{loc}</loc></url>" if "<" not in loc else f"<url>{loc}</url>" for loc in urls)
    return f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{rows}</urlset>'


def test_a_dry_run_against_a_live_sitemap_of_the_same_source_shows_no_differences(site: TestSite) -> None:
    site.night(1)
    with served(site.folder / "public") as address:
        found = against(site, f"{address}/sitemap-products-00001.xml.gz")
    assert (found["both"], found["here"], found["urls"], found["files"]) == (100, 100, 100, 1)
    assert found["only_here"]["count"] == found["only_there"]["count"] == found["other_lastmod"]["count"] == 0
    assert found["problems"] == []


def test_against_shows_pages_only_here_only_there_and_with_other_dates(site: TestSite, tmp_path: Path) -> None:
    old = tmp_path / "old"
    old.mkdir()
    (old / "a.xml").write_text(
        old_sitemap(
            *(f"https://shop.example/p/{n:06}" for n in range(90)),
            "<loc>https://shop.example/p/000090</loc><lastmod>2026-10-01T12:00:00+00:00</lastmod>",
            "<loc>https://shop.example/p/000091</loc><lastmod>2024-01-01</lastmod>",
        )
    )
    (old / "b.xml").write_text(
        old_sitemap(
            "https://shop.example/gone",
            "HTTPS://SHOP.example/p/%30%30%30092",
            "https://shop.example/p/000000",
            "https://elsewhere.example/x",
        )
    )
    found = against(site, str(old))
    assert (found["files"], found["both"], found["repeated"]) == (2, 93, 1)
    assert found["only_here"]["count"] == 7
    assert sorted(found["only_there"]["examples"]) == ["https://elsewhere.example/x", "https://shop.example/gone"]
    assert found["other_lastmod"]["count"] == 92  # ninety have no date there; a time of that day is no other date
    assert found["respelled"] == {"count": 1, "examples": ["HTTPS://SHOP.example/p/%30%30%30092"]}


def test_against_applies_the_url_rules_to_the_live_sitemap(site: TestSite, tmp_path: Path) -> None:
    old = tmp_path / "old.xml"
    old.write_text(old_sitemap("https://shop.example/p/000001?utm_source=x", "https://shop.example/p/000002?sid=1"))
    site.keys["urls"] = {"strip": ["tracking"]}
    found = against(site, str(old))
    assert (found["both"], found["only_there"]["examples"]) == (1, ["https://shop.example/p/000002?sid=1"])
    assert found["respelled"] == {"count": 1, "examples": ["https://shop.example/p/000001?utm_source=x"]}


def test_against_shows_no_password_of_the_address(site: TestSite) -> None:
    site.night(1)
    with served(site.folder / "public") as address:
        name = "sitemap-products-00001.xml.gz"
        asked = f"{address.replace('://', '://me:s3cret@')}/{name}"
        assert against(site, asked)["url"] == f"{address}/{name}"
        done = call("run", site.path, "--dry-run", "--against", asked)
        assert (done.code, f"compared with {address}/{name}" in done.out) == (0, True)
        assert "s3cret" not in done.out + done.err


def test_against_names_the_files_it_could_not_read(site: TestSite, tmp_path: Path) -> None:
    old = tmp_path / "old"
    old.mkdir()
    with served(old) as address:
        (old / "sitemap.xml").write_text(
            '<sitemapindex xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">'
            f"<sitemap><loc>{address}/gone.xml</loc></sitemap></sitemapindex>"
        )
        done = call("run", site.path, "--dry-run", "--against", f"{address}/sitemap.xml")
    assert done.code == 0
    assert "gone.xml: the server answered with an error (status 404)" in done.out


def test_against_an_unreachable_address_ends_with_3_and_against_another_file_with_1(site: TestSite) -> None:
    arguments = ("run", site.path, "--dry-run", "--against")
    assert call(*arguments, "http://127.0.0.1:1/sitemap.xml").code == 3
    with served(site.folder) as address:
        assert call(*arguments, f"{address}/nope.xml").code == 1
    unread = call(*arguments, "nope.xml")
    assert (unread.code, unread.err) == (2, "nope.xml: no such file or folder\n"), "before anything is read"
    assert call(*arguments, "nope.xml", "--json").json["run_id"] is None
