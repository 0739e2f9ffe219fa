"""Visits to pages: sampling, rate of requests, and what a response says about a page."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sitemap_etl.pages import CRAWLERS, OURSELVES, Share, Visit, Visitor, sampled
from sitemap_etl.pages.judgement import header_faults, markup_faults, modified
from sitemap_etl.pages.markup import read_markup
from sitemap_etl.web import Client, Stopped
from tests.support.live_site import HTML, WORDS, Answer, Asked, Website, document, website


@pytest.fixture
def site() -> Iterator[Website]:
    with website() as made:
        yield made


def visited(site: Website, *paths: str, seconds: float = 60, **options: Any) -> dict[str, Visit]:
    with Client(step=5) as client:
        visitor = Visitor(client, **{"delay": 0, **options})
        found = {visit.url.removeprefix(site.root): visit for visit in visitor.visits(urls(site, *paths), seconds)}
    assert set(found) == set(paths)
    return found


def urls(site: Website, *paths: str) -> list[str]:
    return [path if "://" in path else site.root + path for path in paths]


def kinds(visit: Visit) -> list[str]:
    assert visit.judged, visit
    return [fault.kind for fault in visit.faults]


# --- the sample --------------------------------------------------------------------------------------

LOCS = st.lists(st.text(min_size=1, max_size=8), max_size=60)


@given(LOCS, st.integers(0, 20), st.integers(0, 2**70))
def test_a_sample_has_distinct_urls_and_does_not_depend_on_their_order(locs: list[str], most: int, seed: int) -> None:
    drawn = [locs[at] for at in sampled(pa.array(locs, pa.string()), most, seed)]
    assert len(drawn) == len(set(drawn)) == min(most, len(set(locs)))
    backwards = locs[::-1]
    assert drawn == [backwards[at] for at in sampled(pa.array(backwards, pa.string()), most, seed)]


@given(LOCS, LOCS, st.integers(1, 20))
def test_samples_of_parts_combine_to_the_sample_of_the_whole(one: list[str], two: list[str], most: int) -> None:
    def draw(locs: list[str]) -> list[str]:
        return [locs[at] for at in sampled(pa.array(locs, pa.string()), most)]

    assert draw(draw(one) + draw(two)) == draw(one + two)


def test_another_seed_samples_other_urls() -> None:
    locs = pa.array([f"/p/{n}" for n in range(1_000)])
    draws = [set(sampled(locs, 100, seed).tolist()) for seed in range(5)]
    assert max(len(one & two) for one in draws for two in draws if one is not two) < 30


@pytest.mark.parametrize(
    ("share", "low", "high"),
    [
        (Share(0, 50), 0.0, 0.0713),
        (Share(3, 50), 0.0206, 0.1622),
        (Share(50, 50), 0.9287, 1.0),
        (Share(1, 10), 0.0179, 0.4042),
        (Share(3, 50, 50), 0.06, 0.06),
    ],
)
def test_the_interval_is_that_of_wilson_and_has_no_width_for_a_complete_sample(
    share: Share, low: float, high: float
) -> None:
    assert share.interval() == pytest.approx((low, high), abs=1e-4)


def test_a_share_is_shown_with_its_confidence_interval() -> None:
    assert str(Share(3, 50, 1_000)) == "3 of 50 sampled pages (6 %, 95 % confidence interval 2.1 to 16.2 %)"
    assert str(Share(3, 50, 50)) == "3 of all 50 pages (6 %)"


# --- what an answer says -----------------------------------------------------------------------------

META = '<meta name="{}" content="{}">'
CANONICAL = '<link rel="canonical" href="{}">'

PAGES: dict[str, tuple[Callable[[Website], Answer], list[str]]] = {
    "there": (lambda _: Answer(body=document(WORDS)), []),
    "gone": (lambda _: Answer(410), ["status"]),
    "not there": (lambda _: Answer(404, body=document("not found")), ["status"]),
    "for members": (lambda _: Answer(403), ["status"]),
    "elsewhere": (lambda _: Answer(301, {"Location": "/other"}), ["redirects"]),
    "elsewhere, where nothing is": (lambda _: Answer(302, {"Location": "/nothing"}), ["status"]),
    "elsewhere on another host": (lambda _: Answer(302, {"Location": "http://127.0.0.2:1/"}), ["redirects"]),
    "in a circle": (lambda _: Answer(301, {"Location": "/p"}), ["redirects"]),
    "to no address": (lambda _: Answer(301, {"Location": "http://[x/"}), ["redirects"]),
    "noindex by header": (lambda _: Answer(headers={**HTML, "X-Robots-Tag": "noindex, nofollow"}), ["noindex"]),
    "none by header": (lambda _: Answer(headers={**HTML, "X-Robots-Tag": "googlebot: none"}), ["noindex"]),
    "noindex to somebody else": (
        lambda _: Answer(headers={**HTML, "X-Robots-Tag": "otherbot: noindex, nofollow, googlebot: nofollow"}),
        [],
    ),
    "a date in the header": (
        lambda _: Answer(headers={**HTML, "X-Robots-Tag": "unavailable_after: 25 Jun 2030 15:00:00 PST, noindex"}),
        ["noindex"],
    ),
    "noindex on a file": (
        lambda _: Answer(headers={"Content-Type": "application/pdf", "X-Robots-Tag": "noindex"}),
        ["noindex"],
    ),
    "noindex by meta": (
        lambda _: Answer(body=document("x", head=META.format("ROBOTS", "NOINDEX,follow"))),
        ["noindex"],
    ),
    "noindex to Google": (lambda _: Answer(body=document("x", head=META.format("googlebot", "none"))), ["noindex"]),
    "noindex to another crawler": (lambda _: Answer(body=document("x", head=META.format("bingbot", "noindex"))), []),
    "index by meta": (lambda _: Answer(body=document("x", head=META.format("robots", "index, follow"))), []),
    "noindex in a comment": (
        lambda _: Answer(body=document("x", head=f"<!-- {META.format('robots', 'noindex')} -->")),
        [],
    ),
    "noindex in a script": (
        lambda _: Answer(body=document("x", head=f"<script>x = '{META.format('robots', 'noindex')}'</script>")),
        [],
    ),
    "noindex in a template": (
        lambda _: Answer(body=document("x", head=f"<template>{META.format('robots', 'noindex')}</template>")),
        [],
    ),
    "noindex twice": (
        lambda _: Answer(
            headers={**HTML, "X-Robots-Tag": "noindex"}, body=document("x", head=META.format("robots", "noindex"))
        ),
        ["noindex"],
    ),
    "noindex in text": (
        lambda _: Answer(headers={"Content-Type": "text/plain"}, body=b"<meta name=robots content=none>"),
        [],
    ),
    "canonical itself": (lambda s: Answer(body=document("x", head=CANONICAL.format(f"{s.root}/p#top"))), []),
    "canonical itself, relative": (lambda _: Answer(body=document("x", head=CANONICAL.format("p"))), []),
    "canonical itself, spelled otherwise": (
        lambda s: Answer(body=document("x", head=CANONICAL.format(f"{s.root}/%70".replace("http", "HTTP")))),
        [],
    ),
    "canonical elsewhere": (
        lambda _: Answer(body=document("x", head=CANONICAL.format("/q"))),
        ["canonical-elsewhere"],
    ),
    "canonical elsewhere by its base": (
        lambda _: Answer(body=document("x", head='<base href="/en/">' + CANONICAL.format("p"))),
        ["canonical-elsewhere"],
    ),
    "canonical elsewhere by header": (
        lambda _: Answer(headers={**HTML, "Link": '</x.css>; rel=preload, </q,r>; title="a, b"; rel="canonical"'}),
        ["canonical-elsewhere"],
    ),
    "canonical twice, and differently": (
        lambda _: Answer(body=document("x", head=CANONICAL.format("/q") + CANONICAL.format("/r"))),
        [],
    ),
    "canonical in the body": (lambda _: Answer(body=document(CANONICAL.format("/q"))), []),
    "canonical that is empty": (lambda _: Answer(body=document("x", head=CANONICAL.format(""))), []),
    "canonical that is none": (lambda _: Answer(body=document("x", head=CANONICAL.format("http://[x/"))), []),
    "broken markup": (lambda _: Answer(body=b"<html><head><![<!<meta name=robots content=none>"), []),
}


@pytest.mark.parametrize(("answer", "expected"), PAGES.values(), ids=PAGES)
def test_a_response_decides_whether_a_page_should_be_listed(
    site: Website, answer: Callable[[Website], Answer], expected: list[str]
) -> None:
    site.answers = {"/p": answer(site), "/other": Answer(body=document("the other"))}
    assert kinds(visited(site, "/p")["/p"]) == expected


UNKNOWN: dict[str, tuple[Answer, str]] = {
    "too many": (Answer(429, {"Retry-After": "999"}), "status 429"),
    "broken": (Answer(500), "status 500"),
    "overloaded": (Answer(503, {"Retry-After": "999"}), "status 503"),
    "broken off": (Answer(closes=True), "broke off"),
}


@pytest.mark.parametrize(("answer", "why"), UNKNOWN.values(), ids=UNKNOWN)
def test_a_temporary_response_leaves_a_page_unjudged(site: Website, answer: Answer, why: str) -> None:
    site.answers["/p"] = answer
    found = visited(site, "/p")["/p"]
    assert (found.judged, found.faults) == (False, ())
    assert why in found.unknown


def test_a_page_that_timed_out_once_is_judged(site: Website) -> None:
    waiting = [Answer(body=document(WORDS)), Answer(body=document(WORDS)), Answer(503, {"Retry-After": "1"})]
    site.answers["/p"] = lambda _: waiting.pop()
    assert kinds(visited(site, "/p")["/p"]) == []


def test_only_the_beginning_of_a_page_is_read(site: Website) -> None:
    head = "<!-- " + "x" * 600_000 + " -->" + META.format("robots", "noindex")
    site.answers = {"/late": Answer(body=document("x", head=head)), "/large": Answer(body=document("x " * 600_000))}
    found = visited(site, "/late", "/large")
    assert [kinds(each) for each in found.values()] == [[], []]


MARKUP = (
    "< > </ <! <![ <!-- --> <? &#x &#99999999999; & ; \" ' = / <meta name=robots content=none <link rel=canonical "
    "href= http://[ <script> </script> <title> <base <nav> </nav> <body> é x"
)
PIECES = st.sampled_from([*MARKUP.split(), " ", "\0", "\ud800"])
TYPES = st.sampled_from(
    ["", "text/html", "text/html; charset=", "text/html; charset=base64", 'text/html; charset="utf-16"']
)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("head", [b"", b"<meta charset=punycode>"])
def test_a_page_in_an_unknown_encoding_is_read_as_utf_8(head: bytes) -> None:
    body = head + "<title>Müller-x</title>".encode() + b"x" * 500_000 + b"-" + b"a" * 500_000
    assert read_markup(body, "text/html" if head else "text/html; charset=punycode").title == "Müller-x"


@given(st.lists(PIECES, max_size=30).map("".join), TYPES)
def test_any_markup_is_read_without_errors(text: str, kind: str) -> None:
    body = text.encode("utf-8", "surrogatepass")
    for data in (body, b"\xff\xfe" + body, b"\xef\xbb\xbf" + body, b'<meta charset="' + body):
        page = read_markup(data, kind)
        list(markup_faults("http://shop.example/p", "http://shop.example/p", page, OURSELVES))


@given(st.lists(PIECES | st.sampled_from(["<a>", "rel=canonical", ",", ":", "noindex"]), max_size=20).map("".join))
def test_any_header_is_read_without_errors(text: str) -> None:
    headers = {"x-robots-tag": text, "link": text, "last-modified": text, "date": text}
    list(header_faults("http://shop.example/p", "http://shop.example/p", headers, OURSELVES))
    assert modified(headers) is None


# --- the answer to what does not exist ---------------------------------------------------------------


def test_a_page_with_the_content_of_a_missing_url_is_a_soft_404(site: Website) -> None:
    missing = f"We are sorry. The page {{}} was not found. {WORDS}"
    site.otherwise = lambda asked: Answer(body=document(missing.format(asked.path), title=f"no {asked.path}"))
    site.answers["/robots.txt"] = Answer(404)
    site.page("/p/lamp", "a floor lamp with three arms")
    found = visited(site, "/p/lamp", "/p/gone-1", "/p/gone-2", "/q/gone.html")
    assert {path: kinds(visit) for path, visit in found.items()} == {
        "/p/lamp": [],
        "/p/gone-1": ["soft-404"],
        "/p/gone-2": ["soft-404"],
        "/q/gone.html": ["soft-404"],
    }
    tried = {path for path in site.paths() if path not in {*found, "/robots.txt"}}
    assert len(tried) == 2, "one address for each folder"
    assert sum(path.endswith(".html") for path in tried) == 1


def test_a_soft_404_is_recognized_despite_boilerplate_that_all_pages_share(site: Website) -> None:
    around = (
        "<nav>" + " ".join(f"category{'abcdefghij'[n % 10]}{'klmnopqrst'[n // 10 % 10]}" for n in range(300)) + "</nav>"
    )
    site.otherwise = Answer(body=document(f"{around} Not found"))
    site.answers["/robots.txt"] = Answer(404)
    site.answers["/p/1"] = Answer(body=document(f"{around} Brass lamp, forty euros"))
    site.answers["/p/2"] = Answer(body=document(f"{around} Lamp"))
    assert {path: kinds(visit) for path, visit in visited(site, "/p/1", "/p/2", "/p/3").items()} == {
        "/p/1": [],
        "/p/2": [],
        "/p/3": ["soft-404"],
    }


@pytest.mark.parametrize("text", ["", "Loading …", "please enable JavaScript"])
def test_pages_rendered_by_scripts_are_not_soft_404s(site: Website, text: str) -> None:
    site.otherwise = Answer(body=document(text))
    site.answers["/robots.txt"] = Answer(404)
    assert kinds(visited(site, "/p/1")["/p/1"]) == []


def test_products_of_one_template_are_not_soft_404s(site: Website) -> None:
    """The folder answers an unknown product with a page of other products, with the same words around them."""
    site.otherwise = Answer(body=document(f"{WORDS} {WORDS} lamps lights bulbs"))
    site.answers["/robots.txt"] = Answer(404)
    site.page("/p/1", f"{WORDS} the brass lamp costs forty euros and is in stock now")
    assert kinds(visited(site, "/p/1")["/p/1"]) == []


# --- whom we ask, and how often ----------------------------------------------------------------------


def test_a_page_that_robots_txt_disallows_is_not_requested(site: Website) -> None:
    site.answers["/robots.txt"] = Answer(headers={"Content-Type": "text/plain"}, body=b"User-agent: *\nDisallow: /in")
    site.page("/out")
    found = visited(site, "/in/1", "/out")
    assert (kinds(found["/in/1"]), kinds(found["/out"])) == (["blocked-by-robots"], [])
    assert "/in/1" not in site.paths()


def test_a_page_disallowed_only_for_sitemap_etl_is_unjudged_and_not_requested(site: Website) -> None:
    site.answers["/robots.txt"] = Answer(body=b"User-agent: sitemap_etl\nDisallow: /\n\nUser-agent: *\nAllow: /")
    site.page("/p")
    assert visited(site, "/p")["/p"].unknown == "robots.txt disallows it to sitemap_etl"
    assert "/p" not in site.paths()


@pytest.mark.parametrize("answer", [Answer(500), Answer(429), Answer(closes=True)])
def test_no_page_is_requested_if_robots_txt_is_unavailable(site: Website, answer: Answer) -> None:
    site.answers["/robots.txt"] = answer
    site.page("/p")
    assert not visited(site, "/p")["/p"].judged
    assert site.paths() == ["/robots.txt"]


def test_a_redirect_to_a_disallowed_page_is_not_followed(site: Website) -> None:
    site.answers["/robots.txt"] = Answer(body=b"User-agent: *\nDisallow: /login")
    site.answers["/p"] = Answer(302, {"Location": "/login"})
    assert kinds(visited(site, "/p")["/p"]) == ["redirects"]
    assert "/login" not in site.paths()


def test_files_are_requested_with_head_and_pages_also_with_get(site: Website) -> None:
    site.answers["/a.pdf"] = Answer(headers={"Content-Type": "application/pdf"}, body=b"%PDF")
    site.page("/p")
    visited(site, "/a.pdf", "/p")
    assert [asked.method for asked in site.asked if asked.path == "/a.pdf"] == ["HEAD"]
    assert [asked.method for asked in site.asked if asked.path == "/p"] == ["HEAD", "GET"]


@pytest.mark.parametrize("status", [404, 405, 501, 403])
def test_a_server_without_head_is_requested_with_get(site: Website, status: int) -> None:
    page = Answer(body=document(WORDS))
    site.answers["/p"] = lambda asked: Answer(status) if asked.method == "HEAD" else page
    assert kinds(visited(site, "/p")["/p"]) == []


def test_head_is_left_out_if_it_saves_nothing(site: Website) -> None:
    paths = [f"/p/{n}" for n in range(12)]
    for path in paths:
        site.page(path)
    visited(site, *paths)
    assert len(site.paths("HEAD")) == 3


def test_a_host_that_does_not_answer_gets_no_further_requests(site: Website) -> None:
    paths = [f"/p/{n}" for n in range(30)]
    site.otherwise = Answer(closes=True)
    site.answers["/robots.txt"] = Answer(404)
    found = visited(site, *paths)
    assert not any(visit.judged for visit in found.values())
    assert len([path for path in site.paths() if path != "/robots.txt"]) == 5


def test_remaining_pages_are_skipped_at_the_time_limit(site: Website) -> None:
    hangs = threading.Event()
    for path in ("/p/1", "/p/2"):
        site.answers[path] = Answer(hangs=hangs)
    try:
        found = visited(site, "/p/1", "/p/2", seconds=0.5)
    finally:
        hangs.set()
    assert [visit.skipped for visit in found.values()] == [True, True]


def test_the_crawl_delay_of_robots_txt_is_respected(site: Website) -> None:
    site.answers["/robots.txt"] = Answer(body=b"User-agent: *\nCrawl-delay: 20")
    for path in ("/p/1", "/p/2"):
        site.page(path)
    found = visited(site, "/p/1", "/p/2", seconds=2)
    assert all(visit.skipped for visit in found.values())
    assert len(site.paths()) <= 2


def test_visits_that_are_ended_early_wait_for_no_request(site: Website) -> None:
    hangs, asked = threading.Event(), threading.Event()

    def late(_: Asked) -> Answer:
        asked.set()
        return Answer(hangs=hangs)

    site.page("/a")
    site.answers["/b"] = late
    with Client(step=600) as client:
        found = Visitor(client, delay=0, abreast=2).visits(urls(site, "/a", "/b"), 600)
        next(iter(found))
        assert asked.wait(30)
        found.close()
        with pytest.raises(Stopped):
            client.sleep(0)
    assert not hangs.is_set()
    hangs.set()


def test_no_request_sends_cookies(site: Website) -> None:
    """Crawlers keep no cookies: a page answers them as it answers any stranger."""
    for path in ("/p/1", "/p/2"):
        site.page(path, Set_Cookie="seen=1; Path=/")
    visited(site, "/p/1", "/p/2")
    assert {asked.cookie for asked in site.asked} == {""}


def test_private_addresses_are_not_requested_if_guarded(site: Website) -> None:
    site.page("/p")
    found = visited(site, "/p", guarded=True)["/p"]
    assert "not a public address" in found.unknown
    assert site.asked == []


@pytest.mark.parametrize("url", ["nonsense", "ftp://shop.example/", "http://[x/", "https://u:p@shop.example/a"])
def test_an_invalid_page_url_is_unjudged(site: Website, url: str) -> None:
    assert not visited(site, url)[url].judged


def test_a_server_that_refuses_every_request_leaves_its_pages_unjudged(site: Website) -> None:
    site.otherwise = Answer(403)
    paths = [f"/p/{n}" for n in range(4)]
    found = visited(site, *paths)
    assert {visit.unknown for visit in found.values()} == {
        "status 403, also for the home page: the server refuses sitemap_etl"
    }
    assert site.paths().count("/") == 1


# --- as a crawler ------------------------------------------------------------------------------------


def by_agent(crawler: Answer, ourselves: Answer) -> Callable[[Asked], Answer]:
    return lambda asked: crawler if "Googlebot" in asked.agent else ourselves


FINE = Answer(body=document(WORDS))


def test_a_page_that_refuses_only_the_crawler_has_its_own_verdict(site: Website) -> None:
    site.answers |= {"/": FINE, "/c": by_agent(Answer(403), FINE), "/all": Answer(403), "/p": FINE}
    found = visited(site, "/c", "/all", "/p", agent=CRAWLERS["googlebot"])
    assert (found["/c"].crawler, kinds(found["/c"])) == ("status 403", [])
    assert (found["/all"].crawler, kinds(found["/all"])) == ("", ["status"])
    assert (found["/p"].crawler, kinds(found["/p"])) == ("", [])


def test_a_host_that_refuses_only_sitemap_etl_is_recognized(site: Website) -> None:
    site.answers |= {"/1": by_agent(FINE, Answer(403)), "/2": by_agent(FINE, Answer(403))}
    with Client(step=5) as client:
        visitor = Visitor(client, delay=0, agent=CRAWLERS["googlebot"])
        assert [kinds(visit) for visit in visitor.visits(urls(site, "/1", "/2"), 60)] == [[], []]
    assert visitor.refused_ourselves == {site.root}
    assert len([asked for asked in site.asked if asked.agent.startswith("sitemap_etl")]) == 1


def test_robots_rules_and_meta_tags_for_the_chosen_crawler_apply(site: Website) -> None:
    site.answers["/robots.txt"] = Answer(
        body=b"User-agent: Googlebot\nDisallow: /g\n\nUser-agent: bingbot\nDisallow: /b\n\nUser-agent: *\nDisallow: /x"
    )
    for path in ("/g", "/b", "/x"):
        site.page(path, head=META.format("bingbot", "noindex"))
    google = visited(site, "/g", "/b", "/x", agent=CRAWLERS["googlebot"])
    bing = visited(site, "/g", "/b", "/x", agent=CRAWLERS["bingbot"])
    assert {path: kinds(visit) for path, visit in google.items()} == {"/g": ["blocked-by-robots"], "/b": [], "/x": []}
    assert {path: kinds(visit) for path, visit in bing.items()} == {
        "/g": ["noindex"],
        "/b": ["blocked-by-robots"],
        "/x": ["noindex"],
    }


def test_a_last_modified_header_with_the_current_time_is_ignored(site: Website) -> None:
    site.page("/now", Date="Sat, 21 Nov 2026 12:00:00 GMT", Last_Modified="Sat, 21 Nov 2026 11:59:58 GMT")
    site.page("/old", Date="Sat, 21 Nov 2026 12:00:00 GMT", Last_Modified="Sat, 21 Nov 2020 12:00:00 GMT")
    site.page("/bad", Last_Modified="yesterday")
    found = visited(site, "/now", "/old", "/bad")
    assert [found[path].modified for path in ("/now", "/old", "/bad")] == [None, 1_605_960_000, None]
