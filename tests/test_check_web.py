"""Sitemaps over HTTP: status, redirects, types and encodings, limits, robots.txt, and addresses never requested."""

from __future__ import annotations

import gzip
import ssl
import threading
import zlib
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import pytest
import trustme
from broken_sitemaps import FINE, SELF, XHTML, index, link, url, urls, urlset

from sitemap_etl.check import Options, Report, check
from sitemap_etl.check.fetch import Fetcher
from sitemap_etl.check.listing import listings
from sitemap_etl.web import Client, is_public
from tests.support.command import call
from tests.support.website import Answer, Website, website

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
XML = {"Content-Type": "application/xml"}
GZIP = {"Content-Type": "application/gzip"}
TEXT = {"Content-Type": "text/plain"}


@pytest.fixture
def site() -> Iterator[Website]:
    with website() as found:
        yield found


def loopback(host: str, _port: int) -> list[str]:
    """No name is resolved by a real resolver."""
    if host != "127.0.0.1":
        raise OSError("no such name")
    return [host]


def checked(*targets: str, client: Client | None = None, **options: object) -> Report:
    fetcher = Fetcher(5, client=client or Client(step=5, resolve=loopback), pause=lambda _seconds: None)
    try:
        return check(targets, options=Options(now=NOW, **options), fetcher=fetcher)  # type: ignore[arg-type]
    finally:
        fetcher.close()


def codes(report: Report) -> set[str]:
    return {f.code for f in report.findings}


def test_files_of_a_sitemap_on_the_web_are_requested_in_parallel(site: Website) -> None:
    listed = [f"{site.root}/maps/{n}.xml.gz" for n in range(12)]
    site.answers = {f"/maps/{n}.xml.gz": (200, GZIP, gzip.compress(site.page(f"/maps/p{n}"))) for n in range(12)}
    site.answers["/maps/sitemap.xml"] = (200, XML, index(*listed))
    site.answers["/robots.txt"] = (200, TEXT, f"User-agent: *\nSitemap: {site.root}/maps/sitemap.xml\n".encode())
    report = checked(f"{site.root}/maps/sitemap.xml", jobs=4)
    assert report.findings == []
    assert [s.kind for s in report.files] == ["index", *["urlset"] * 12, "robots"]
    assert sorted(site.asked) == sorted(f"127.0.0.1:{site.port}{path}" for path in site.answers)
    assert checked(f"{site.root}/robots.txt").findings == []


ANSWERS: dict[str, tuple[str, Callable[[Website], Answer], set[str]]] = {
    "not there": ("/s.xml", lambda _: (404, {}, b""), {"http-status"}),
    "forbidden": ("/s.xml", lambda _: (403, {}, b""), {"http-status"}),
    "an error that stays": ("/s.xml", lambda _: (503, {}, b""), {"http-status"}),
    "a page instead": ("/s.xml", lambda _: (200, {"Content-Type": "text/html"}, b"<!DOCTYPE html><p>"), {"html-page"}),
    "XML as HTML": ("/s.xml", lambda s: (200, {"Content-Type": "text/html"}, s.page()), {"content-type"}),
    "another encoding than the XML's": (
        "/s.xml",
        lambda s: (200, {"Content-Type": 'application/xml; charset="iso-8859-1"'}, s.page()),
        {"charset-conflict"},
    ),
    "the same encoding twice": (
        "/s.xml",
        lambda s: (200, {"Content-Type": "text/xml; charset=UTF-8"}, s.page()),
        set(),
    ),
    "gzip that is called binary": (
        "/s.xml.gz",
        lambda s: (200, {"Content-Type": "application/gzip; charset=binary"}, gzip.compress(s.page())),
        set(),
    ),
    "text in another encoding": (
        "/s.txt",
        lambda s: (200, {"Content-Type": "text/plain; charset=latin1"}, f"{s.root}/ä\n".encode()),
        {"charset-conflict", "loc-not-ascii"},
    ),
    "no type": ("/s.xml", lambda s: (200, {}, s.page()), {"content-type"}),
    "gzip as XML": ("/s.xml.gz", lambda s: (200, XML, gzip.compress(s.page())), {"content-type"}),
    "text as XML": ("/s.txt", lambda s: (200, XML, f"{s.root}/a\n".encode()), {"content-type"}),
    "XML with Content-Encoding": (
        "/s.xml",
        lambda s: (200, XML | {"Content-Encoding": "gzip"}, gzip.compress(s.page())),
        set(),
    ),
    ".gz with Content-Encoding": (
        "/s.xml.gz",
        lambda s: (200, XML | {"Content-Encoding": "gzip"}, gzip.compress(s.page())),
        {"gzip-encoded"},
    ),
    ".gz packed twice by Content-Encoding": (
        "/s.xml.gz",
        lambda s: (200, XML | {"Content-Encoding": "gzip"}, gzip.compress(gzip.compress(s.page()))),
        {"gzip-encoded"},
    ),
    "deflate": (
        "/s.xml",
        lambda s: (200, XML | {"Content-Encoding": "deflate"}, zlib.compress(s.page())),
        set(),
    ),
    "deflate without its header": (
        "/s.xml",
        lambda s: (200, XML | {"Content-Encoding": "deflate"}, zlib.compress(s.page())[2:-4]),
        set(),
    ),
    "gzip over deflate": (
        "/s.xml",
        lambda s: (200, XML | {"Content-Encoding": "deflate, gzip"}, gzip.compress(zlib.compress(s.page()))),
        set(),
    ),
    ".gz as gzip with Content-Encoding": (
        "/s.xml.gz",
        lambda s: (200, {"Content-Type": "application/gzip", "Content-Encoding": "gzip"}, gzip.compress(s.page())),
        {"gzip-encoded"},
    ),
    "brotli, which Google reads": (
        "/s.xml",
        lambda s: (200, XML | {"Content-Encoding": "br"}, b"\x1b\x03\x01\x00\xa4" * 9),
        {"content-encoding-unread"},
    ),
    "an unknown encoding": (
        "/s.xml",
        lambda s: (200, XML | {"Content-Encoding": "br"}, s.page()),
        {"content-encoding"},
    ),
    "a Content-Encoding that was not done": (
        "/s.xml",
        lambda s: (200, XML | {"Content-Encoding": "gzip"}, s.page()),
        {"content-encoding"},
    ),
    "a redirect to what is not http": (
        "/s.xml",
        lambda _: (302, {"Location": "file:///etc/passwd"}, b""),
        {"redirect-invalid"},
    ),
    "a redirect to itself": ("/s.xml", lambda _: (301, {"Location": "/s.xml"}, b""), {"redirect-limit"}),
    "another host": ("/s.xml", lambda _: (200, XML, FINE), {"foreign-host"}),
    "above the folder": ("/maps/s.xml", lambda s: (200, XML, s.page()), {"out-of-scope"}),
}


@pytest.mark.parametrize(("path", "answer", "expected"), ANSWERS.values(), ids=ANSWERS)
def test_each_faulty_response_gives_the_codes_of_its_faults(
    site: Website, path: str, answer: Callable[[Website], Answer], expected: set[str]
) -> None:
    site.answers[path] = answer(site)
    assert codes(checked(site.root + path)) == expected


def test_a_redirect_is_followed_and_reported(site: Website) -> None:
    site.answers = {"/s.xml": (301, {"Location": "/maps/s.xml"}, b""), "/maps/s.xml": (200, XML, site.page("/maps/a"))}
    report = checked(f"{site.root}/s.xml")
    assert codes(report) == {"redirect"}
    assert report.findings[0].detail == f"to {site.root}/maps/s.xml"


def test_a_false_content_encoding_is_reported(site: Website) -> None:
    site.answers["/s.xml"] = (200, XML | {"Content-Encoding": "gzip"}, site.page())
    (finding,) = checked(f"{site.root}/s.xml").findings
    assert finding.title == "the Content-Encoding is not supported, or not what was sent"
    assert finding.detail == "Content-Encoding: gzip, but what was sent is not compressed"


def test_the_robots_txt_of_the_origin_behind_a_redirect_is_requested(site: Website) -> None:
    other = site.root.replace("127.0.0.1", "localhost")
    site.answers = {
        "/s.xml": (301, {"Location": f"{other}/t.xml"}, b""),
        "/t.xml": (200, XML, urlset(url(f"{other}/private/a"))),
        "/robots.txt": (200, TEXT, b"User-agent: *\nDisallow: /private/\n"),
    }
    client = Client(resolve=lambda _host, _port: ["127.0.0.1"])
    assert codes(checked(f"{site.root}/s.xml", client=client)) == {"redirect", "loc-disallowed"}
    assert f"localhost:{site.port}/robots.txt" in site.asked


NOWHERE = {
    "ftp://x/": "it redirects to ftp://x/, which is neither http nor https",
    "itms-apps://x/app": "it redirects to itms-apps://x/app, which is neither http nor https",
    "file:///etc/passwd": "it redirects to file:///etc/passwd, which is neither http nor https",
    "https:///s.xml": "it redirects to https:///s.xml, which has no host",
    "//[": "it redirects to //[, which is not a valid address",
    "https://127.0.0.1:99999/": "it redirects to https://127.0.0.1:99999/, whose port is not a number from 1 to 65535",
    "http://[::bad": "{root}/s.xml redirects to no valid address",
    "http://me:secret@[::bad": "{root}/s.xml redirects to no valid address",
    "https://127.0.0.1:port/": "{root}/s.xml redirects to no valid address",
}
"""What a redirect names that can't be asked, and what is said of it."""


@pytest.mark.parametrize(("location", "said"), NOWHERE.items())
def test_a_redirect_to_a_scheme_that_cannot_be_requested_is_an_error(site: Website, location: str, said: str) -> None:
    """It was not read. It is not requested again, because that can't help."""
    site.answers["/s.xml"] = (301, {"Location": location}, b"")
    (finding,) = (report := checked(f"{site.root}/s.xml", robots=False)).findings
    assert (finding.code, finding.severity) == ("redirect-invalid", "error")
    assert (finding.file, finding.example) == (f"{site.root}/s.xml", f"{site.root}/s.xml")
    assert finding.detail == said.format(root=site.root)
    assert report.exit_code() == 1
    assert len(site.asked) == 1


def test_an_invalid_redirect_at_the_end_of_a_chain_is_reported_with_its_url(site: Website) -> None:
    site.answers = {
        "/s.xml": (301, {"Location": "/t.xml"}, b""),
        "/t.xml": (301, {"Location": "http://[::bad"}, b""),
    }
    (finding,) = checked(f"{site.root}/s.xml", robots=False).findings
    assert (finding.code, finding.example) == ("redirect-invalid", f"{site.root}/s.xml")
    assert finding.detail == f"{site.root}/t.xml redirects to no valid address"


@pytest.mark.parametrize("location", ["ftp://x/", "http://[::bad"])
def test_an_index_whose_only_file_has_an_invalid_redirect_is_reported(site: Website, location: str) -> None:
    site.answers = {
        "/i.xml": (200, XML, index(f"{site.root}/s.xml")),
        "/s.xml": (301, {"Location": location}, b""),
    }
    report = checked(f"{site.root}/i.xml", robots=False)
    assert codes(report) == {"redirect-invalid"}
    assert report.exit_code() == 1
    listed = list(listings(f"{site.root}/i.xml", Options(), fetcher=Fetcher(5, client=Client(resolve=loopback))))
    assert [listing.problem.partition(" (")[0] for listing in listed] == [report.findings[0].title]


@pytest.mark.parametrize(
    ("location", "said"),
    [
        ("ftp://x/", "it redirects to ftp://x/, which is neither http nor https"),
        ("http://[::bad", "{root}/robots.txt redirects to no valid address"),
    ],
)
def test_a_robots_txt_with_an_invalid_redirect_is_reported(site: Website, location: str, said: str) -> None:
    site.answers = {"/s.xml": (200, XML, site.page()), "/robots.txt": (301, {"Location": location}, b"")}
    (finding,) = checked(f"{site.root}/s.xml").findings
    assert (finding.code, finding.detail) == ("robots-unavailable", said.format(root=site.root))


def test_the_command_fails_on_an_invalid_redirect(site: Website) -> None:
    """Exit code 3 would say that a retry may help."""
    site.answers["/s.xml"] = (301, {"Location": "http://[::bad"}, b"")
    assert call("check", f"{site.root}/s.xml", "--isolated", "--no-robots").code == 1


def test_an_unreachable_server_is_a_finding(site: Website) -> None:
    site.server.server_close()
    assert codes(checked(f"{site.root}/s.xml", robots=False)) == {"unreachable"}


def test_a_request_that_times_out_once_is_repeated(site: Website) -> None:
    waiting: list[Answer] = [(200, XML, site.page()), (503, {}, b"")]
    site.answers["/s.xml"] = waiting.pop
    assert checked(f"{site.root}/s.xml").findings == []
    assert waiting == []


def test_a_listed_file_that_is_gone_is_reported_at_its_line_of_the_index(site: Website) -> None:
    site.answers = {
        "/s.xml": (200, XML, index(f"{site.root}/a.xml", f"{site.root}/b.xml")),
        "/a.xml": (200, XML, site.page()),
    }
    (finding,) = checked(f"{site.root}/s.xml").findings
    assert (finding.code, finding.file, finding.line) == ("index-file-missing", f"{site.root}/s.xml", 4)


@pytest.mark.parametrize(
    ("loc", "code"),
    [
        ("/a.xml", "loc-relative"),
        ("a.xml", "loc-relative"),
        ("//127.0.0.1/a.xml", "loc-relative"),
        ("ftp://127.0.0.1/a.xml", "loc-scheme"),
    ],
)
def test_a_listed_file_that_was_not_requested_is_not_reported_as_missing(site: Website, loc: str, code: str) -> None:
    site.answers = {
        "/s.xml": (200, XML, index(loc, f"{site.root}/b.xml")),
        "/a.xml": (200, XML, site.page("/a")),
        "/b.xml": (200, XML, urlset(url(f"{site.root}/b", SELF + link("de", f"{site.root}/de")), XHTML)),
    }
    assert codes(checked(f"{site.root}/s.xml")) - {"hreflang-no-self"} == {code}
    fetcher = Fetcher(5, client=Client(resolve=loopback))
    listed = {found.name: found.problem for found in listings(f"{site.root}/s.xml", Options(), fetcher=fetcher)}
    assert listed == {
        f"{site.root}/b.xml": "",
        loc: "it was not read: its address does not begin with http:// or https://",
    }


def test_an_index_that_lists_itself_is_reported(site: Website) -> None:
    site.answers = {
        "/s.xml": (200, XML, index(f"{site.root}/a.xml", f"{site.root}/s.xml")),
        "/a.xml": (200, XML, site.page()),
    }
    (finding,) = checked(f"{site.root}/s.xml").findings
    assert (finding.code, finding.line, finding.example) == ("index-nested", 4, f"{site.root}/s.xml")
    assert finding.detail == "it lists itself"
    fetcher = Fetcher(5, client=Client(resolve=loopback))
    listed = list(listings(f"{site.root}/s.xml", Options(), fetcher=fetcher))
    assert [(found.name, found.problem) for found in listed] == [(f"{site.root}/a.xml", "")]


def test_a_robots_txt_that_names_itself_as_sitemap_is_not_an_index(site: Website) -> None:
    site.answers["/robots.txt"] = (200, TEXT, f"User-agent: *\nSitemap: {site.root}/robots.txt\n".encode())
    assert codes(checked(f"{site.root}/robots.txt")) == set()


def test_the_robots_txt_of_the_host_is_checked(site: Website) -> None:
    """Pages that it disallows, an index that it does not name, a missing sitemap that it names."""
    site.answers = {
        "/robots.txt": (200, TEXT, f"User-agent: *\nDisallow: /a\nSitemap: {site.root}/old.xml\n".encode()),
        "/s.xml": (200, XML, index(f"{site.root}/a.xml")),
        "/a.xml": (200, XML, site.page()),
    }
    found = {(f.code, f.file.removeprefix(site.root)) for f in checked(f"{site.root}/s.xml").findings}
    assert found == {
        ("loc-disallowed", "/a.xml"),
        ("robots-sitemap-disallowed", "/robots.txt"),
        ("index-not-in-robots", "/s.xml"),
    }
    assert codes(checked(f"{site.root}/s.xml", robots=False)) == set()
    assert "robots-sitemap-missing" in codes(checked(f"{site.root}/robots.txt"))


def test_a_robots_txt_that_fails_is_reported(site: Website) -> None:
    site.answers = {"/s.xml": (200, XML, site.page()), "/robots.txt": (500, {}, b"")}
    assert codes(checked(f"{site.root}/s.xml")) == {"robots-unavailable"}


@pytest.mark.parametrize(
    "page",
    [
        b"<!DOCTYPE html>\n<html><body>app</body></html>",
        b"<html>\n<style>\ncolor: red\n</style>\n</html>",
        b"<div>\nNot found\n</div>",
    ],
)
def test_an_html_page_in_place_of_robots_txt_does_not_count_as_an_unread_sitemap(page: bytes, site: Website) -> None:
    site.answers = {
        "/s.xml": (200, XML, site.page()),
        "/robots.txt": (200, {"Content-Type": "text/html"}, page),
    }
    report = checked(f"{site.root}/s.xml")
    assert [(f.code, f.file, f.severity) for f in report.findings] == [
        ("robots-not-text", f"{site.root}/robots.txt", "error")
    ]
    assert report.affected().unread == 0
    assert [stats.kind for stats in report.files] == ["urlset", "robots"]


def test_a_sitemap_may_list_another_host_whose_robots_txt_names_it(site: Website) -> None:
    """Cross-submission: the robots.txt of the pages' host names their sitemap."""
    other = site.root.replace("127.0.0.1", "127.0.0.2")
    site.answers["/s.xml"] = (200, XML, urlset(url(f"{other}/a")))

    def client() -> Client:
        return Client(resolve=lambda _host, _port: ["127.0.0.1"], public=lambda _ip: True)

    assert codes(checked(f"{site.root}/s.xml", client=client())) == {"foreign-host"}
    site.answers["/robots.txt"] = (200, TEXT, f"Sitemap: {site.root}/s.xml\n".encode())
    assert checked(f"{site.root}/s.xml", client=client()).findings == []
    assert f"127.0.0.2:{site.port}/robots.txt" in site.asked


def test_a_download_ends_at_the_limit_of_bytes(site: Website) -> None:
    site.answers["/s.xml"] = (200, XML, urlset(urls(2000).replace("https://shop.example", site.root)))
    report = checked(f"{site.root}/s.xml", max_bytes=10_000)
    assert report.files[0].stored == 10_001


def test_a_listing_that_is_closed_early_waits_for_no_request(site: Website) -> None:
    hangs, asked = threading.Event(), threading.Event()

    def late() -> Answer:
        asked.set()
        hangs.wait(60)
        return (200, XML, site.page())

    site.answers = {
        "/s.xml": (200, XML, index(*[f"{site.root}/{n}.xml" for n in "abc"])),
        "/a.xml": (200, XML, site.page()),
        "/b.xml": late,
        "/c.xml": late,
    }
    fetcher = Fetcher(600, client=Client(step=600, resolve=loopback))
    found = listings(f"{site.root}/s.xml", Options(), fetcher=fetcher)
    assert next(found).name == f"{site.root}/a.xml"
    assert asked.wait(30)
    found.close()  # type: ignore[attr-defined]  # a generator
    assert not hangs.is_set()
    hangs.set()


def guard(site: Website, addresses: dict[str, str]) -> Client:
    """Names resolve as the table says. The test's "public" address is loopback; all others are private."""
    return Client(resolve=lambda host, _port: [addresses[host]], public=lambda ip: ip == "127.0.0.1")


@pytest.mark.parametrize("how", ["listed", "redirect"])
def test_a_public_sitemap_cannot_make_the_check_request_private_addresses(site: Website, how: str) -> None:
    """127.0.0.1 is the public network here, 127.0.0.2 the private one; both reach the same server."""
    client = guard(site, {"shop.test": "127.0.0.1", "intranet.test": "127.0.0.2"})
    inside = f"http://intranet.test:{site.port}/secret.xml"
    shop = f"http://shop.test:{site.port}"
    site.answers["/secret.xml"] = (200, XML, urlset(url(f"{shop}/a")))
    site.answers["/s.xml"] = (200, XML, index(inside)) if how == "listed" else (302, {"Location": inside}, b"")
    report = checked(f"{shop}/s.xml", client=client)
    assert "private-address" in codes(report)
    assert not any("secret" in asked for asked in site.asked)
    allowed = checked(f"{shop}/s.xml", client=guard(site, {"shop.test": "127.0.0.1", "intranet.test": "127.0.0.1"}))
    assert "private-address" not in codes(allowed)
    assert any("secret" in asked for asked in site.asked)


def test_the_connection_uses_the_ip_address_that_was_approved(site: Website) -> None:
    """A name that resolves to another address a moment later (DNS rebinding) is not resolved again."""
    answers = iter(["127.0.0.1"])
    client = Client(resolve=lambda _host, _port: [next(answers)], public=lambda ip: ip == "127.0.0.1")
    site.answers["/s.xml"] = (200, XML, FINE)
    from sitemap_etl.check.report import Faults

    fetcher = Fetcher(5, client=client, pause=lambda _seconds: None)
    taken = fetcher.get(f"http://shop.test:{site.port}/s.xml", 10_000, Faults("s"), guarded=True)
    fetcher.close()
    assert taken is not None
    assert taken.data == FINE
    assert site.asked == [f"shop.test:{site.port}/s.xml"]


@pytest.mark.parametrize(("host", "trusted"), [("shop.test", True), ("other.test", False)])
def test_tls_verifies_the_host_name_when_connecting_to_an_ip_address(site: Website, host: str, trusted: bool) -> None:
    authority = trustme.CA()
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("shop.test").configure_cert(server)
    client = ssl.create_default_context()
    authority.configure_trust(client)
    site.server.socket = server.wrap_socket(site.server.socket, server_side=True)
    site.answers["/s.xml"] = (200, XML, urlset(url(f"https://{host}:{site.port}/a")))
    client = Client(resolve=lambda _host, _port: ["127.0.0.1"], public=lambda _ip: True, trust=client)
    report = checked(f"https://{host}:{site.port}/s.xml", client=client, robots=False)
    assert codes(report) == (set() if trusted else {"unreachable"})
    if not trusted:
        (finding,) = report.findings
        assert "name its file in SSL_CERT_FILE" in finding.detail
        assert finding.example == "", "the address is the name of the file"


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("93.184.216.34", True),
        ("2606:2800:220:1::1", True),
        ("127.0.0.1", False),
        ("10.1.2.3", False),
        ("172.16.0.1", False),
        ("192.168.0.1", False),
        ("100.64.0.1", False),
        ("169.254.169.254", False),
        ("0.0.0.0", False),
        ("224.0.0.1", False),
        ("255.255.255.255", False),
        ("::1", False),
        ("fe80::1%eth0", False),
        ("fc00::1", False),
        ("::ffff:127.0.0.1", False),
        ("::ffff:93.184.216.34", True),
        ("64:ff9b::7f00:1", False),
        ("64:ff9b::5db8:d822", True),
        ("2002:7f00:1::", False),
        ("fec0::1", False),
        ("100::1", False),
        ("5f00::1", False),
        ("3fff::1", False),
        ("4000::1", False),
        ("64:ff9b:1::1", False),
        ("2001:db8::1", False),
        ("2001:20::1", True),
        ("192.88.99.1", False),
        ("192.0.0.8", False),
        ("192.0.0.9", True),
        ("198.19.0.1", False),
    ],
)
def test_ip_addresses_are_classified_as_public_or_private(address: str, public: bool) -> None:
    assert is_public(address) is public
