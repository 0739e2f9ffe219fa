"""`check --pages`: which pages are visited, and what is reported."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from sitemap_etl.check import FileStats, Finding, Options, Report, check, render_table
from sitemap_etl.check.fetch import Fetcher
from sitemap_etl.check.formats import github, junit, sarif
from sitemap_etl.check.live import Live
from sitemap_etl.check.place import Place
from sitemap_etl.check.read import Drawn, Reading
from sitemap_etl.errors import ConfigError
from sitemap_etl.report.check import render_check
from sitemap_etl.web import Stopped
from tests.support.broken_sitemaps import index, url, urlset
from tests.support.command import call
from tests.support.live_site import HTML, WORDS, Answer, Asked, Website, document, website

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
XML = {"Content-Type": "application/xml"}
TEXT = {"Content-Type": "text/plain"}


@pytest.fixture
def site() -> Iterator[Website]:
    with website() as made:
        made.answers["/robots.txt"] = Answer(headers=TEXT, body=b"User-agent: *\nDisallow: /private\n")
        yield made


def listing(site: Website, *paths: str, lastmod: str = "", at: str = "/sitemap.xml") -> str:
    """Add a sitemap that lists pages; return its address."""
    date = f"<lastmod>{lastmod}</lastmod>" if lastmod else ""
    body = urlset("".join(f"<url><loc>{site.root}{path}</loc>{date}</url>\n" for path in paths))
    site.answers[at] = Answer(headers=XML, body=body)
    return site.root + at


def checked(target: str, now: datetime = NOW, **options: Any) -> Report:
    return check([target], options=Options(now=now, **{"pages": 50, "delay": 0.001, **options}))


def found(report: Report, *, prefix: str = "page-") -> dict[str, Finding]:
    return {f.code: f for f in report.findings if f.code.startswith((prefix, "crawler", "checker"))}


def numbered(site: Website, count: int) -> list[str]:
    paths = [f"/p/{n}" for n in range(count)]
    for path in paths:
        site.page(path)
    return paths


# --- what is said ------------------------------------------------------------------------------------

REFRESH = '<meta http-equiv="Refresh" content="0; URL=/p/0">'
META = '<meta name="robots" content="noindex">'
CANONICAL = '<link rel="canonical" href="/p/0">'

FAULTS: dict[str, tuple[Answer, str]] = {
    "page-status": (Answer(404), "status 404"),
    "page-redirects": (Answer(301, {"Location": "/p/0"}), "status 301 to "),
    "page-noindex": (Answer(body=document("x", head=META)), META),
    "page-canonical-elsewhere": (Answer(body=document("x", head=CANONICAL)), '<link rel="canonical">: '),
    "page-unknown": (Answer(500), "status 500 (1)"),
    "page-lastmod-contradicts": (
        Answer(headers={**HTML, "Last-Modified": "Wed, 01 Jan 2020 00:00:00 GMT"}, body=document("x")),
        "lastmod 2026-11-01T00:00:00Z, Last-Modified 2020-01-01T00:00:00Z",
    ),
}


def test_a_page_with_a_client_side_redirect_is_reported_as_redirecting(site: Website) -> None:
    site.answers["/bad"] = Answer(body=document("x", head=REFRESH))
    site.answers["/clock"] = Answer(body=document("x", head='<meta http-equiv="refresh" content="60">'))
    site.answers["/same"] = Answer(body=document("x", head='<meta http-equiv="refresh" content="5;url=/same">'))
    finding = found(checked(listing(site, *numbered(site, 3), "/bad", "/clock", "/same")))["page-redirects"]
    assert (finding.count, finding.example) == (1, f"{site.root}/bad")
    assert f'<meta http-equiv="refresh"> to {site.root}/p/0' in finding.detail


@pytest.mark.parametrize(("code", "answer", "said"), [(c, a, s) for c, (a, s) in FAULTS.items()], ids=FAULTS)
def test_a_page_that_should_not_be_listed_is_reported_with_its_line_and_share(
    site: Website, code: str, answer: Answer, said: str
) -> None:
    target = listing(site, *numbered(site, 5), "/bad", "/p/1", lastmod="2026-11-01T00:00:00Z")
    site.answers["/bad"] = answer
    report = checked(target)
    (finding,) = found(report).values()
    assert (finding.code, finding.line, finding.count) == (code, 8, 1)
    assert finding.example == f"{site.root}/bad"
    assert said in finding.detail
    if code != "page-unknown":
        assert finding.detail.startswith("1 of 6 sampled pages (16.7 %, 95 % confidence interval 3 to 56.4 %)")


@pytest.mark.parametrize("examples", [None, 2])
def test_every_output_names_as_many_bad_pages_as_the_option_examples_says(site: Website, examples: int | None) -> None:
    bad = [f"/bad/{number}" for number in range(3)]
    site.answers |= {path: Answer(404) for path in bad}
    report = checked(listing(site, *bad, *numbered(site, 2)), examples=examples)
    named = [f"{site.root}{path}" for path in bad[:examples]]
    assert [example.text for example in found(report)["page-status"].examples] == named
    text = io.StringIO()
    render_table(report, Console(file=text, width=200), examples=examples)
    pages = {
        "text": text.getvalue(),
        "json": json.dumps(report.to_json()),
        "sarif": json.dumps(sarif(report, 1, compared=False)),
        "junit": junit(report, "error"),
        "github": "\n".join(github(report)),
        "html": render_check(report, examples=examples or 1000),
    }
    for output, shown in pages.items():
        assert [page for page in named if page not in shown] == [], output


def test_a_page_that_robots_txt_disallows_is_reported_and_not_requested(site: Website) -> None:
    report = checked(listing(site, "/private/1", *numbered(site, 3)))
    assert found(report)["page-blocked-by-robots"].count == 1
    assert "/private/1" not in site.paths()


def test_a_page_with_the_content_of_a_missing_page_is_reported_as_soft_404(site: Website) -> None:
    site.otherwise = Answer(body=document(f"not found {WORDS}"))
    assert found(checked(listing(site, "/gone", *numbered(site, 3))))["page-soft-404"].count == 1


def test_pages_that_are_alive_have_no_findings(site: Website) -> None:
    site.answers["/robots.txt"] = Answer(headers=TEXT, body=b"User-agent: *\nAllow: /\n")
    report = checked(listing(site, *numbered(site, 9), lastmod="2026-11-01"))
    assert {f.code for f in report.findings} <= {"lastmod-all-same"}
    assert (report.pages.sampled, report.pages.judged) == (9, 9)


def test_no_page_is_visited_by_default(site: Website) -> None:
    report = checked(listing(site, *numbered(site, 3)), pages=0)
    assert not any(path.startswith("/p/") for path in site.paths())
    assert report.pages.sampled == 0


# --- which pages -------------------------------------------------------------------------------------


def test_the_sample_of_a_file_has_the_requested_size_and_is_repeatable(site: Website) -> None:
    paths = numbered(site, 60)
    files = [listing(site, *paths[at : at + 20], at=f"/s{at}.xml") for at in (0, 20, 40)]
    site.answers["/sitemap.xml"] = Answer(headers=XML, body=index(*files))

    def visits(**options: Any) -> set[str]:
        site.asked.clear()
        checked(site.root + "/sitemap.xml", pages=5, **options)
        return {path for path in site.paths() if path in paths}

    first = visits()
    assert [len(first & set(paths[at : at + 20])) for at in (0, 20, 40)] == [5, 5, 5]
    assert visits() == first
    assert visits(seed=1) != first
    assert visits(jobs=1) == first


def test_a_page_that_two_files_list_is_visited_once_and_reported_for_both(site: Website) -> None:
    site.answers["/sitemap.xml"] = Answer(
        headers=XML, body=index(listing(site, "/bad", "/p", at="/a.xml"), listing(site, "/bad", "/q", at="/b.xml"))
    )
    for path in ("/p", "/q"):
        site.page(path)
    report = checked(site.root + "/sitemap.xml")
    assert [f.file for f in report.findings if f.code == "page-status"] == [f"{site.root}/a.xml", f"{site.root}/b.xml"]
    assert site.paths("GET").count("/bad") == 1


@pytest.mark.parametrize("kind", ["text", "rss"])
def test_pages_of_text_sitemaps_and_feeds_are_visited_too(site: Website, kind: str) -> None:
    if kind == "text":
        site.answers["/s.txt"] = Answer(headers=TEXT, body=f"{site.root}/bad\n".encode())
        target = "/s.txt"
    else:
        body = (
            f'<rss version="2.0"><channel><title>t</title><link>{site.root}/</link><description>d</description>'
            f"<item><title>t</title><link>{site.root}/bad</link></item></channel></rss>"
        )
        site.answers["/s.rss"] = Answer(headers={"Content-Type": "application/rss+xml"}, body=body.encode())
        target = "/s.rss"
    assert found(checked(site.root + target))["page-status"].count == 1


def test_pages_that_were_not_visited_in_time_are_reported(site: Website) -> None:
    target = listing(site, *numbered(site, 30))
    report = checked(target, delay=0.4, pages_budget=1.0)
    assert found(report)["page-not-visited"].count >= 20
    assert report.pages.sampled == 30
    assert report.exit_code("warning") == int(any(f.severity != "info" for f in report.findings))


def test_a_public_sitemap_cannot_make_the_check_visit_private_addresses(site: Website, tmp_path: Path) -> None:
    path = tmp_path / "sitemap.xml"
    path.write_bytes(urlset(url(f"{site.root}/p")))
    site.page("/p")
    assert "not a public address" in found(checked(str(path)))["page-unknown"].detail
    assert site.asked == []
    for options in ({"allow_private": True}, {"at": f"{site.root}/"}):
        assert found(checked(str(path), **options)) == {}


def test_invalid_urls_are_not_sampled(site: Website) -> None:
    numbered(site, 3)
    body = "".join(f"<url><loc>/relative/{n}</loc></url>" for n in range(50))
    body += "".join(f"<url><loc>{site.root}/p/{n}</loc></url>" for n in range(3))
    site.answers["/sitemap.xml"] = Answer(headers=XML, body=urlset(body))
    report = checked(site.root + "/sitemap.xml", pages=3)
    assert (report.pages.sampled, report.pages.judged) == (3, 3)


def reading(name: str, count: int) -> Reading:
    drawn = [Drawn(f"http://127.0.0.1:9/{name}/{n}", n) for n in range(count)]
    return Reading(FileStats(name, "urlset", count), Place(None), drawn=drawn)


@pytest.mark.parametrize(("most", "sampled", "left_out"), [(1_000, 50, 0), (20, 10, 0), (5, 5, 0), (3, 3, 2)])
def test_the_total_sample_is_bounded_and_divided_among_the_files(most: int, sampled: int, left_out: int) -> None:
    live = Live(Options(pages=10), most=most)
    for n in range(5):
        live.add(reading(f"s{n}", 10))
    with pytest.raises(Stopped):
        live.visit(Fetcher(5, deadline=0.0), asked=True, public=True, progress=lambda *_: None)
    assert live.visited.sampled == sampled
    told = [f.detail for f in live.findings if "a sample has at most" in f.detail]
    assert told == ([f"a sample has at most 3 pages; {left_out} files have none of them"] if left_out else [])


def test_visited_pages_are_counted_even_if_the_visits_are_interrupted(site: Website) -> None:
    live = Live(Options(pages=10, delay=0.001, jobs=1))
    live.add(
        Reading(FileStats("s", "urlset", 9), Place(None), drawn=[Drawn(f"{site.root}/p/{n}", n) for n in range(1, 10)])
    )

    def interrupted(_stage: str, done: int, _known: int) -> None:
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        live.visit(Fetcher(5), asked=True, public=False, progress=interrupted)
    assert (live.visited.sampled, live.visited.judged + live.visited.unknown) == (9, 3)


def test_pages_on_the_host_of_the_target_get_its_headers_and_password(site: Website) -> None:
    def guarded(asked: Asked) -> Answer:
        return Answer(body=document(f"{WORDS} {asked.path}")) if asked.secret == "Basic dTpw" else Answer(401)

    target = listing(site, "/p/1", "/p/2").replace("//", "//u:p@", 1)
    site.answers |= {"/p/1": guarded, "/p/2": guarded}
    report = checked(target)
    assert report.findings == []
    assert (report.pages.sampled, report.pages.judged) == (2, 2)


def test_the_time_limit_of_the_check_ends_the_visits(site: Website) -> None:
    report = checked(listing(site, *numbered(site, 30)), max_time=2.0, delay=0.5)
    assert report.pages.sampled == 30
    assert found(report)["page-not-visited"].count >= 20


def test_a_bug_in_the_visits_does_not_lose_the_findings_of_files(tmp_path: Path) -> None:
    class Mistaken(Fetcher):
        def within(self, seconds: float) -> float:
            raise RuntimeError("our own mistake")

    (tmp_path / "s.xml").write_bytes(urlset(url("/relative") + url("https://shop.example/a")))
    report = check([str(tmp_path / "s.xml")], options=Options(now=NOW, pages=3), fetcher=Mistaken(5))
    assert {"loc-relative", "defect"} <= {finding.code for finding in report.findings}
    assert report.exit_code() == 70


def test_a_last_modified_header_that_all_pages_share_is_not_compared_with_lastmod(site: Website) -> None:
    paths = numbered(site, 8)
    for path in paths:
        site.page(path, Last_Modified="Wed, 01 Jan 2025 00:00:00 GMT")
    assert found(checked(listing(site, *paths, lastmod="2026-11-01"))) == {}


# --- as a crawler ------------------------------------------------------------------------------------


def by_agent(crawler: Answer, ourselves: Answer) -> Callable[[Asked], Answer]:
    return lambda asked: crawler if "Googlebot" in asked.agent else ourselves


def test_a_sitemap_that_refuses_only_the_crawler_has_its_own_code(site: Website) -> None:
    listing(site, "/p")
    fine = site.answers["/sitemap.xml"]
    assert isinstance(fine, Answer)
    site.answers["/sitemap.xml"] = by_agent(Answer(403), fine)
    report = checked(site.root + "/sitemap.xml", crawler="googlebot", pages=0)
    assert {"http-status", "crawler-refused"} <= {f.code for f in report.findings}
    site.answers["/sitemap.xml"] = Answer(403)
    report = checked(site.root + "/sitemap.xml", crawler="googlebot", pages=0)
    assert set(found(report)) == set()


def test_a_sitemap_that_refuses_only_sitemap_etl_is_reported_and_read_as_the_crawler(site: Website) -> None:
    listing(site, "/p", "/p")
    fine = site.answers["/sitemap.xml"]
    assert isinstance(fine, Answer)
    site.answers["/sitemap.xml"] = by_agent(fine, Answer(403))
    report = checked(site.root + "/sitemap.xml", crawler="googlebot", pages=0)
    assert {"checker-refused", "duplicate"} == {f.code for f in report.findings}


def test_pages_are_requested_with_the_user_agent_of_the_crawler(site: Website) -> None:
    site.answers["/p"] = by_agent(Answer(403), Answer(body=document(WORDS)))
    site.page("/q")
    told = found(checked(listing(site, "/p", "/q"), crawler="googlebot"))
    assert set(told) == {"crawler-refused"}
    assert told["crawler-refused"].detail.startswith("1 of all 2 pages (50 %), the first: status 403")


def test_the_robots_txt_rules_of_the_chosen_crawler_apply(site: Website) -> None:
    site.answers["/robots.txt"] = Answer(headers=TEXT, body=b"User-agent: bingbot\nDisallow: /p\n")
    site.page("/p")
    target = listing(site, "/p")
    assert {f.code for f in checked(target, crawler="bingbot").findings} == {"loc-disallowed", "page-blocked-by-robots"}
    assert checked(target, crawler="googlebot").findings == []


def test_an_unknown_crawler_is_refused() -> None:
    with pytest.raises(ConfigError, match="crawler: expected one of googlebot, bingbot, got 'yahoo'"):
        checked("http://127.0.0.1:1/", crawler="yahoo")


# --- the command -------------------------------------------------------------------------------------


@pytest.mark.thorough
def test_the_command_visits_pages_and_says_how_many(site: Website) -> None:
    target = listing(site, "/bad", "/p")
    site.page("/p")
    options = ("--pages", "10", "--pages-budget", "60", "--seed", "3")
    done = call("check", target, *options)
    assert done.code == 1
    assert "page-status" in done.out
    assert "2 sampled pages: 2 judged" in done.out
    told = call("check", target, *options, "--as", "googlebot", "--json").json
    assert told["pages"] == {"sampled": 2, "judged": 2, "unknown": 0, "skipped": 0}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--as", "yahoo"), "yahoo"),
        (("--pages", "-1"), "--pages"),
    ],
)
def test_invalid_options_for_page_visits_are_reported(options: tuple[str, ...], said: str) -> None:
    done = call("check", "http://127.0.0.1:1/", *options)
    assert done.code == 2
    assert said in done.err
