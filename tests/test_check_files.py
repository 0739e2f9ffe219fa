"""One broken file at a time: exactly the codes of its faults, at the right line; and valid files without any."""

from __future__ import annotations

import gzip
from datetime import UTC, datetime
from pathlib import Path

import pytest
from broken_sitemaps import (
    ENTRY,
    FILES,
    FINE,
    IMAGE,
    ITEM,
    NEWS,
    NS,
    PAGE,
    VIDEO,
    XHTML,
    Broken,
    atom,
    news,
    rss,
    url,
    urls,
    urlset,
    video,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from sitemap_etl.check import CODES, Options, Report, check
from sitemap_etl.check.fetch import Taken
from sitemap_etl.check.read import opened
from sitemap_etl.check.report import Faults
from sitemap_etl.errors import ConfigError
from tests.support.examples import examples

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


def checked(folder: Path, name: str, data: bytes, **options: object) -> Report:
    path = folder / name
    path.write_bytes(data)
    return check([str(path)], options=Options(now=NOW, **options))  # type: ignore[arg-type]


@pytest.mark.parametrize("broken", FILES, ids=lambda b: b.what)
def test_a_broken_file_has_the_codes_of_its_faults_and_no_others(broken: Broken, tmp_path: Path) -> None:
    report = checked(tmp_path, broken.name, broken.data, **broken.options)
    assert {f.code for f in report.findings} == broken.codes
    if broken.line is not None:
        assert broken.line in {f.line for f in report.findings}
    assert all(f.file == str(tmp_path / broken.name) and f.fix for f in report.findings)
    assert report.exit_code("warning") == int(any(CODES[c].severity != "info" for c in broken.codes))


def test_the_table_has_at_least_sixty_broken_files() -> None:
    assert len(FILES) >= 60
    assert len({b.what for b in FILES}) == len(FILES)


CDATA = "<url><loc><![CDATA[https://shop.example/a?b=1&c=2]]></loc><!-- <loc> > & --></url>"
RICH = url(
    "https://shop.example/b?x=1&amp;y=%C3%A4",
    "<lastmod>2026-11-20T10:00:00.5+01:00</lastmod><changefreq>daily</changefreq><priority>0.5</priority>"
    "<image:image><image:loc>https://cdn.example/1.jpg?a=1&amp;b=2</image:loc></image:image>"
    + video(
        duration="28800",
        expiration_date="2027-01-01",
        rating="4.5",
        view_count="7",
        publication_date="2026-01-02T10:20:30+02:00",
        tag="<video:tag>a</video:tag><video:tag>b</video:tag>",
        family_friendly="yes",
        restriction='<video:restriction relationship="allow">DE AT</video:restriction>',
        uploader='<video:uploader info="https://shop.example/u">Me &amp; you</video:uploader>',
        platform="<video:platform relationship='deny'>tv mobile</video:platform>",
        live="no",
    )
    + news(language="zh-tw"),
)
CLUSTER = "".join(
    url(
        f"https://shop.example/{own}",
        "".join(
            f'<xhtml:link rel="alternate" hreflang="{tag}" href="https://shop.example/{other}"/>'
            for tag, other in (("en", "en"), ("de-AT", "de"), ("zh-Hant", "zh"), ("x-default", "en"))
        ),
    )
    for own in ("en", "de", "zh")
)
MOBILE = 'xmlns:mobile="http://www.google.com/schemas/sitemap-mobile/1.0"'
PREFIXED = FINE.replace(b"urlset", b"s:urlset").replace(b"<url>", b"<s:url>").replace(b"</url>", b"</s:url>")
PREFIXED = PREFIXED.replace(b"loc>", b"s:loc>").replace(b"</s:", b"</s:").replace(b"xmlns=", b"xmlns:s=")
FINE_FILES = {
    "plain": ("sitemap.xml", FINE),
    "gzip": ("sitemap.xml.gz", gzip.compress(FINE)),
    "gzip of two members and padding": (
        "sitemap.xml.gz",
        gzip.compress(FINE[:99]) + gzip.compress(FINE[99:]) + b"\0" * 512,
    ),
    "Windows line ends": ("sitemap.xml", FINE.replace(b"\n", b"\r\n")),
    "no declaration": ("sitemap.xml", urlset(url(), head="")),
    "all on one line": ("sitemap.xml", FINE.replace(b"\n", b"")),
    "CDATA and comments": ("sitemap.xml", urlset(CDATA)),
    "every extension": ("sitemap.xml", urlset(RICH + url(more="<mobile:mobile/>"), IMAGE, VIDEO, NEWS, MOBILE)),
    "hreflang": ("sitemap.xml", urlset(CLUSTER, XHTML)),
    "attributes in another order and quote": (
        "sitemap.xml",
        urlset(url(more=f"<xhtml:link\n  href='{PAGE}'\n  hreflang='en' rel='alternate' />"), XHTML),
    ),
    "a greater-than in an attribute": (
        "sitemap.xml",
        urlset(url(more=video(uploader='<video:uploader info="https://shop.example/?a>b">Me</video:uploader>')), VIDEO),
    ),
    "a prefix for the protocol": ("sitemap.xml", PREFIXED),
    "namespaces declared where they are used": (
        "sitemap.xml",
        urlset(
            url(more=f"<image:image {IMAGE}><image:loc>https://c.example/1</image:loc></image:image>")
            + url(
                "https://shop.example/b",
                '<link xmlns="http://www.w3.org/1999/xhtml" rel="alternate" hreflang="en" href="https://shop.example/b"/>',
            )
        ),
    ),
    "a schema location": (
        "sitemap.xml",
        urlset(
            url(), f'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:schemaLocation="{NS} {NS}/sitemap.xsd"'
        ),
    ),
    "a stylesheet": (
        "sitemap.xml",
        FINE.replace(b"<urlset", b'<?xml-stylesheet type="text/css" href="s.css"?>\n<urlset'),
    ),
    "alternates for screens and apps": (
        "sitemap.xml",
        urlset(
            url(
                more='<xhtml:link rel="alternate" media="only screen and (max-width: 640px)" href="https://m.shop.example/a"/>'
                '<xhtml:link rel="alternate" href="android-app://com.shop.example/https/shop.example/a"/>'
                '<xhtml:link rel="amphtml" href="https://shop.example/amp/a"/>'
            ),
            XHTML,
        ),
    ),
    "a blank line before a root without declaration": ("sitemap.xml", b"\n\n" + urlset(url(), head="")),
    "a comment of 100,000 bytes before the root": (
        "map.xml",
        b"<!--" + b" x" * 50_000 + b"-->" + urlset(url(), head=""),
    ),
    "Google's geo namespace": (
        "sitemap.xml",
        urlset(
            url(more="<geo:geo><geo:format>kml</geo:format></geo:geo>"),
            'xmlns:geo="http://www.google.com/geo/schemas/sitemap/1.0"',
        ),
    ),
    "video elements in the order of Google's page": (
        "sitemap.xml",
        urlset(url(more=video(live="no", zz="<video:tag>x</video:tag><video:tag>y</video:tag>")), VIDEO),
    ),
    "PageMap": (
        "sitemap.xml",
        urlset(
            url(
                more='<PageMap xmlns="http://www.google.com/schemas/sitemap-pagemap/1.0"><DataObject type="document">'
                '<Attribute name="author" value="Me"/></DataObject></PageMap>'
            )
        ),
    ),
    "attributes of XML Schema": (
        "sitemap.xml",
        FINE.replace(b"<loc>", b'<loc xmlns:x="http://www.w3.org/2001/XMLSchema-instance" x:type="y">'),
    ),
    "a language of three letters": ("sitemap.xml", urlset(url(more=news(language="yue")), NEWS)),
    "words that hold null": (
        "sitemap.xml",
        urlset("".join(url(f"https://shop.example/{word}") for word in ("nullable", "undefined-behaviour", "NaNa"))),
    ),
    "a home page with its slash": ("sitemap.xml", urlset(url("https://shop.example/") + url())),
    "nineteen pages without a date": ("sitemap.xml", urlset(urls(19, "<priority>0.5</priority>"))),
    "50,000 URLs": ("sitemap.xml", urlset(urls(50_000))),
    "text": ("sitemap.txt", b"https://shop.example/a\r\nhttps://shop.example/b"),
    "text, packed": ("sitemap.txt.gz", gzip.compress(b"https://shop.example/a\nhttps://shop.example/b\n")),
    "RSS": ("feed.rss", rss(ITEM)),
    "Atom": ("feed.atom", atom(ENTRY)),
    "RSS whose guid is the address": ("feed.rss", rss(ITEM.replace("link>", "guid>"))),
    "Atom with an xml:base": (
        "feed.atom",
        atom(ENTRY.replace('href="https://shop.example/a"', 'href="a"')).replace(
            b"<feed", b'<feed xml:base="https://shop.example/"'
        ),
    ),
    "robots.txt": ("robots.txt", b"\xef\xbb\xbfUser-agent: *\nDisallow:\n# nothing\n\nCrawl-delay: 1\n"),
}


@pytest.mark.parametrize(("name", "data"), FINE_FILES.values(), ids=FINE_FILES)
def test_a_valid_file_has_no_findings(name: str, data: bytes, tmp_path: Path) -> None:
    allowed = {"bom"} if data.startswith(b"\xef") else set()
    report = checked(tmp_path, name, data)
    assert {f.code for f in report.findings} <= allowed
    assert report.exit_code("error") == 0


@pytest.mark.parametrize(
    "subset",
    [
        "[ <!-- ]> --> ]",
        "[ <?note ]> ?> ]",
        "[ <!ATTLIST urlset note CDATA ']>'> ]",
        '[ <!ATTLIST urlset note CDATA "]>"> ]',
        "[ <!-- it's --> ]",
        "SYSTEM 'a>[b.dtd'",
    ],
)
def test_quotes_and_comments_in_a_doctype_do_not_end_it(subset: str, tmp_path: Path) -> None:
    data = f"<!DOCTYPE urlset {subset}>\n{urlset(url(), head='').decode()}".encode()
    report = checked(tmp_path, "sitemap.xml", data)
    assert [f.code for f in report.findings] == ["xml-doctype"]
    assert report.files[0].rows == 1


@pytest.mark.parametrize("encoding", ["punycode", "utf-7", "no-such-encoding"])
def test_an_encoding_outside_the_web_standard_is_reported_and_not_decoded(encoding: str, tmp_path: Path) -> None:
    data = f'<?xml version="1.0" encoding="{encoding}"?>\n'.encode() + urlset(url("https://a.example/x-b"), head="")
    report = checked(tmp_path, "sitemap.xml", data)
    assert [(f.code, f.detail) for f in report.findings] == [("not-utf8", f"it declares {encoding}")]
    assert report.files[0].rows == 1


@pytest.mark.parametrize("encoding", ["US-ASCII", "ascii"])
def test_a_file_that_declares_ascii_is_read_as_utf_8(encoding: str, tmp_path: Path) -> None:
    data = f'<?xml version="1.0" encoding="{encoding}"?>\n'.encode() + urlset(url("https://a.example/x"), head="")
    assert [f.code for f in checked(tmp_path, "sitemap.xml", data).findings] == []


def test_latin_1_is_read_as_browsers_read_it(tmp_path: Path) -> None:
    data = urlset(url("https://a.example/“x”"), head="").decode().encode("cp1252")
    report = checked(tmp_path, "sitemap.xml", b'<?xml version="1.0" encoding="ISO-8859-1"?>\n' + data)
    assert {f.code for f in report.findings} == {"not-utf8", "loc-not-ascii"}
    assert "“x”" in str([f.example for f in report.findings])


class Served:
    """A file with any Content-Type."""

    name = "https://shop.example/s.xml"
    address = name
    size = 1_000

    def __init__(self, content_type: str) -> None:
        self._content_type = content_type

    def take(self, limit: int, faults: Faults) -> Taken:
        return Taken(FINE, self.address, 200, self._content_type)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("content_type", ["xml" * 1_000_000, "text/;" * 500_000, "text/xml;" + "charset" * 400_000])
def test_a_huge_content_type_is_parsed_in_linear_time(content_type: str) -> None:
    faults = Faults(Served.name)
    assert opened(Served(content_type), 1_000_000, faults).document is not None
    assert list(faults.findings()) == []


def test_the_links_of_an_atom_0_3_feed_are_read(tmp_path: Path) -> None:
    entry = '<entry><title>a</title><link rel="alternate" href="https://shop.example/a"/></entry>'
    feed = f'<feed version="0.3" xmlns="http://purl.org/atom/ns#">{entry}<entry><title>b</title></entry></feed>'
    report = checked(tmp_path, "feed.xml", feed.encode())
    assert {finding.code for finding in report.findings} == {"feed-obsolete", "feed-no-link"}
    assert report.urls == 1


def test_only_cr_and_lf_end_a_line_of_robots_txt(tmp_path: Path) -> None:
    text = "User-agent: *\n# a\u2028Sitemap: /a\n# b\x0cSitemap: /b\r# c\x85Sitemap: /c\r\nSitemap: /d\n"
    (finding,) = checked(tmp_path, "robots.txt", text.encode()).findings
    assert (finding.code, finding.count, finding.example) == ("robots-sitemap-relative", 1, "Sitemap: /d")


def test_the_rows_and_dates_of_a_file_are_reported(tmp_path: Path) -> None:
    body = url(more="<lastmod>2026-01-02</lastmod>") + url(
        "https://shop.example/b", "<lastmod>2025-12-31T23:00:00Z</lastmod>"
    )
    data = gzip.compress(urlset(body))
    stats = checked(tmp_path, "sitemap.xml.gz", data).files[0]
    assert (stats.kind, stats.rows, stats.bytes, stats.stored) == ("urlset", 2, len(urlset(body)), len(data))
    assert (stats.lastmod_min, stats.lastmod_max) == ("2025-12-31T23:00:00Z", "2026-01-02")


def test_the_part_before_a_truncation_is_checked(tmp_path: Path) -> None:
    """A file that breaks off shows its other faults too."""
    data = urlset(url("https://shop.example/#x") + "\n" + url()).replace(b"</url>\n</urlset>", b"")
    report = checked(tmp_path, "sitemap.xml", data)
    assert {f.code for f in report.findings} == {"xml-malformed", "loc-fragment"}
    assert report.files[0].rows == 1


def test_entities_are_never_expanded_and_external_files_never_read(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("hidden-words")
    data = f'<!DOCTYPE urlset [<!ENTITY x SYSTEM "{secret.as_uri()}">]>{urlset(url("&x;"), head="").decode()}'.encode()
    report = checked(tmp_path, "sitemap.xml", data)
    assert [f.code for f in report.findings] == ["xml-entities"]
    assert "hidden-words" not in str(report.to_json())


def test_decompression_stops_at_the_limit_and_is_reported(tmp_path: Path) -> None:
    report = checked(tmp_path, "sitemap.xml.gz", gzip.compress(urlset(urls(1000))), max_bytes=20_000)
    assert 0 < report.files[0].rows < 1000
    assert report.files[0].bytes <= 20_000
    assert [(one.code, one.detail) for one in report.findings] == [("partly-read", "it has more than 20,000 bytes")]
    report = checked(tmp_path, "sitemap.xml", urlset(urls(2)), max_bytes=100)
    assert [one.code for one in report.findings] == ["partly-read"], "though nothing of it was judged"


def test_a_finding_has_its_count_and_its_first_line(tmp_path: Path) -> None:
    body = "\n".join([url(), *[url(f"https://shop.example/a b{n}") for n in range(7)]])
    (finding,) = checked(tmp_path, "sitemap.xml", urlset(body)).findings
    assert (finding.code, finding.count, finding.line) == ("loc-characters", 7, 4)
    assert finding.example == "https://shop.example/a b0"


def test_findings_in_a_file_of_one_line_have_columns(tmp_path: Path) -> None:
    data = urlset(url() + url("/b")).replace(b"\n", b"")
    (finding,) = checked(tmp_path, "sitemap.xml", data).findings
    assert finding.line == 1
    assert finding.column is not None
    assert data[finding.column - 1 :].startswith(b"<loc>/b")


def test_check_of_a_site_file_suggests_validate(tmp_path: Path) -> None:
    for name in ("shop.yaml", "shop.YML"):
        with pytest.raises(ConfigError, match=rf"validate .*{name}"):
            check([str(tmp_path / name)])


def test_all_invalid_targets_are_named_at_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as raised:
        check([str(tmp_path / "no.xml"), "gopher://x/", "s3://bucket/x.xml", "https://"])
    assert len(raised.value.problems) == 4
    with pytest.raises(ConfigError, match="PATH_OR_URL is missing"):
        check([])


def test_wrong_options_are_refused() -> None:
    with pytest.raises(ConfigError) as raised:
        Options(at="shop.example", jobs=0, max_bytes=0, now=datetime(2026, 1, 1))  # noqa: DTZ001 - the naive time is the fault
    assert len(raised.value.problems) == 4


PIECES = (
    b'< > & ]]> <![CDATA[ <!-- --> <? / " <url> </url> <loc/> https:// &#0; &#x110000; 9999-12-31 \0 \xff \n'
).split(b" ")
EDIT = st.tuples(st.integers(0, 5000), st.integers(0, 40), st.one_of(st.sampled_from(PIECES), st.binary(max_size=3)))


@settings(max_examples=examples(60))
@given(st.sampled_from([f for f in FINE_FILES.values() if len(f[1]) < 5000]), st.lists(EDIT, max_size=6))
def test_a_damaged_file_never_crashes_the_check(
    tmp_path: Path, fine: tuple[str, bytes], edits: list[tuple[int, int, bytes]]
) -> None:
    name, data = fine
    for at, removed, put in edits:
        data = data[:at] + put + data[at + removed :]
    report = checked(tmp_path, name, data)
    assert report.to_json()["files"]
