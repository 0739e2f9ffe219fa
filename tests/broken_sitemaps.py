"""Broken sitemaps: a table of files, one of sets and one of web responses, each with all codes that must be found."""
# ruff: noqa: E501 - one fault is one line of its table

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field

NS = "http://www.sitemaps.org/schemas/sitemap/0.9"
IMAGE = 'xmlns:image="http://www.google.com/schemas/sitemap-image/1.1"'
VIDEO = 'xmlns:video="http://www.google.com/schemas/sitemap-video/1.1"'
NEWS = 'xmlns:news="http://www.google.com/schemas/sitemap-news/0.9"'
XHTML = 'xmlns:xhtml="http://www.w3.org/1999/xhtml"'
HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n'
PAGE = "https://shop.example/a"


def urlset(body: str, *namespaces: str, ns: str = f'xmlns="{NS}"', head: str = HEAD) -> bytes:
    return f"{head}<urlset {' '.join([ns, *namespaces])}>\n{body}\n</urlset>\n".encode()


def url(loc: str = PAGE, more: str = "") -> str:
    return f"<url><loc>{loc}</loc>{more}</url>"


def urls(number: int, more: str = "", begin: int = 0) -> str:
    """Return this many pages, each with its own date unless `more` replaces it."""
    return "\n".join(
        url(f"https://shop.example/p/{n}", more or f"<lastmod>2026-{n % 10 + 1:02}-{n % 28 + 1:02}</lastmod>")
        for n in range(begin, begin + number)
    )


def index(*locs: str, lastmod: str = "") -> bytes:
    more = f"<lastmod>{lastmod}</lastmod>" if lastmod else ""
    body = "\n".join(f"<sitemap><loc>{loc}</loc>{more}</sitemap>" for loc in locs)
    return f'{HEAD}<sitemapindex xmlns="{NS}">\n{body}\n</sitemapindex>\n'.encode()


def video(**changed: str) -> str:
    parts = {
        "thumbnail_loc": "https://cdn.example/t.jpg",
        "title": "A lamp",
        "description": "How it shines",
        "content_loc": "https://cdn.example/v.mp4",
    } | changed
    inner = "".join(v if v.startswith("<") else f"<video:{k}>{v}</video:{k}>" for k, v in parts.items() if v)
    return f"<video:video>{inner}</video:video>"


def news(date: str = "2026-11-20T10:00:00Z", language: str = "en", title: str = "News", more: str = "") -> str:
    return (
        f"<news:news><news:publication><news:name>The Times</news:name><news:language>{language}</news:language>"
        f"</news:publication><news:publication_date>{date}</news:publication_date>"
        f"{f'<news:title>{title}</news:title>' if title else ''}{more}</news:news>"
    )


def link(hreflang: str, href: str) -> str:
    return f'<xhtml:link rel="alternate" hreflang="{hreflang}" href="{href}"/>'


def rss(
    items: str,
    *,
    version: str = "2.0",
    channel: str = "<title>T</title><link>https://shop.example/</link><description>D</description>",
) -> bytes:
    return f'{HEAD}<rss version="{version}"><channel>{channel}{items}</channel></rss>'.encode()


def atom(entries: str, ns: str = "http://www.w3.org/2005/Atom") -> bytes:
    top = "<id>https://shop.example/</id><title>T</title><updated>2026-11-01T00:00:00Z</updated>"
    return f'{HEAD}<feed xmlns="{ns}">{top}{entries}</feed>'.encode()


ITEM = (
    "<item><title>A</title><link>https://shop.example/a</link><pubDate>Fri, 20 Nov 2026 10:00:00 GMT</pubDate></item>"
)
ENTRY = (
    "<entry><id>https://shop.example/a</id><title>A</title><updated>2026-11-01T00:00:00Z</updated>"
    '<link href="https://shop.example/a"/></entry>'
)
FINE = urlset(url())
PACKED = gzip.compress(urlset(urls(200)), mtime=0)
BILLION = (
    '<?xml version="1.0"?>\n<!DOCTYPE urlset [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">'
    '<!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;&b;&b;">]>\n'
    f'<urlset xmlns="{NS}"><url><loc>https://shop.example/&c;</loc></url></urlset>'
).encode()


@dataclass(frozen=True)
class Broken:
    """A broken file: its title in the table, its name on disk, its bytes, and all codes that it must have.

    `made`: the bytes, or a function that makes them, so that importing the table does not make large ones.
    """

    what: str
    made: bytes | Callable[[], bytes]
    codes: set[str]
    name: str = "sitemap.xml"
    line: int | None = None
    options: dict[str, object] = field(default_factory=dict)

    @property
    def data(self) -> bytes:
        return self.made if isinstance(self.made, bytes) else self.made()


def _xml(what: str, body: str, *codes: str, line: int | None = None, namespaces: tuple[str, ...] = ()) -> Broken:
    return Broken(what, urlset(body, *namespaces), set(codes), line=line)


def _lastmod(what: str, text: str, code: str) -> Broken:
    return _xml(what, url(more=f"<lastmod>{text}</lastmod>"), code, line=3)


def _video(what: str, code: str, more: str = "", **changed: str) -> Broken:
    return _xml(what, url(more=video(**changed) + more), code, line=3, namespaces=(VIDEO,))


def _news(what: str, element: str, *codes: str) -> Broken:
    return _xml(what, url(more=element), *codes, line=3, namespaces=(NEWS,))


def _links(what: str, links: str, *codes: str) -> Broken:
    return _xml(what, url(more=links), *codes, line=3, namespaces=(XHTML,))


SELF = link("en", PAGE)

FILES: list[Broken] = [
    # encoding and compression
    Broken("truncated gzip", PACKED[:-40], {"gzip-truncated"}, "sitemap.xml.gz"),
    Broken("gzip without its trailer", PACKED[:-4], {"gzip-truncated"}, "sitemap.xml.gz"),
    Broken("gzip with a wrong checksum", PACKED[:-8] + b"\0\0\0\0" + PACKED[-4:], {"gzip-damaged"}, "sitemap.xml.gz"),
    Broken("bytes after gzip", gzip.compress(FINE) + b"<html>", {"gzip-trailing"}, "sitemap.xml.gz"),
    Broken("gzip in gzip", gzip.compress(gzip.compress(FINE)), {"gzip-in-gzip"}, "sitemap.xml.gz"),
    Broken("plain XML named .gz", FINE, {"gzip-missing"}, "sitemap.xml.gz"),
    Broken("gzip named .xml", gzip.compress(FINE), {"gzip-unnamed"}),
    Broken("a byte order mark", b"\xef\xbb\xbf" + FINE, {"bom"}, line=1),
    Broken("a blank line before the declaration", b"\n" + FINE, {"leading-space"}, line=1),
    Broken("a byte order mark and a blank before the declaration", b"\xef\xbb\xbf " + FINE, {"bom", "leading-space"}, line=1),
    Broken("UTF-16", FINE.decode().replace("UTF-8", "UTF-16").encode("utf-16"), {"not-utf8"}),
    Broken("Latin-1, declared", urlset(url("https://shop.example/%C3%A4")).replace(b"UTF-8", b"ISO-8859-1"), {"not-utf8"}, line=1),
    Broken("Latin-1, not declared", urlset(url()).replace(b"/a<", b"/\xe4<"), {"not-utf8", "loc-not-ascii"}),
    Broken("an inflated bomb", lambda: gzip.compress(b"<urlset>" + b" " * 60_000_000), {"too-many-bytes"}, "sitemap.xml.gz"),
    Broken("a file over 50 MiB", lambda: urlset(f"<!-- {'x' * 1000} -->\n" * 52_500 + url()), {"too-many-bytes"}, options={"max_bytes": 60_000_000}),
    Broken("a mark and another encoding", b"\xef\xbb\xbf" + FINE.replace(b"UTF-8", b"ISO-8859-1"), {"bom", "charset-conflict", "not-utf8"}, line=1),
    Broken("UTF-16 that declares UTF-8", FINE.decode().encode("utf-16"), {"not-utf8", "charset-conflict"}),
    Broken("an encoding that is spelt its own way", FINE.replace(b"UTF-8", b"utf8"), {"encoding-name"}),
    Broken("an encoding whose name is cut", FINE.replace(b"UTF-8", b"UTF-"), {"not-utf8"}, line=1),
    # XML
    Broken("a declaration without quotes", FINE.replace(b'"1.0"', b"1.0"), {"xml-declaration"}, line=1),
    Broken("an attribute whose prefix is not declared", FINE.replace(b"<urlset ", b'<urlset xsi:schemaLocation="a b" '), {"prefix-undeclared"}),
    Broken("a prefix without a namespace", FINE.replace(b"<urlset ", b'<urlset xmlns:p="" '), {"namespace-declaration"}),
    Broken("an unescaped ampersand", urlset(url() + "\n" + url("https://shop.example/?a=1&b=2")), {"xml-malformed"}, line=4),
    Broken("an element left open", urlset(url() + "\n<url><loc>https://shop.example/b</loc>"), {"xml-malformed"}),
    Broken("a control character", urlset(url() + url("https://shop.example/\x01")), {"xml-malformed"}, line=3),
    Broken("nothing but an opening tag", b"<urlset", {"xml-malformed"}),
    Broken("text after the root", FINE + b"<!-- --> done", {"xml-malformed"}),
    Broken("elements a hundred deep", urlset(url() + "<a>" * 100 + "</a>" * 100), {"xml-deep"}),
    Broken("elements a thousand deep", urlset(url() + "<a>" * 1000 + "</a>" * 1000), {"xml-malformed"}),
    Broken("a namespace that is none, and more after the root", urlset(url(), ns='xmlns="http://a b/"') + b"<b>", {"xml-malformed", "namespace-wrong"}),
    Broken("a document type", HEAD.encode() + b'<!DOCTYPE urlset SYSTEM "http://127.0.0.1:9/x.dtd">\n' + urlset(url(), head=""), {"xml-doctype"}, line=2),
    Broken("a billion laughs", BILLION, {"xml-entities"}, line=2),
    Broken("an external entity", b'<!DOCTYPE urlset [<!ENTITY x SYSTEM "file:///etc/passwd">]>' + urlset(url("&x;"), head=""), {"xml-entities"}),
    Broken("no namespace", urlset(url(), ns=""), {"namespace-missing"}, line=2),
    Broken("the namespace with https", urlset(url(), ns=f'xmlns="{NS.replace("http:", "https:")}"'), {"namespace-wrong"}, line=2),
    Broken("Google's old namespace", urlset(url(), ns='xmlns="http://www.google.com/schemas/sitemap/0.84"'), {"namespace-wrong"}),
    _xml("an undeclared prefix", url(more="<image:image><image:loc>https://a.example/</image:loc></image:image>"), "prefix-undeclared", line=3),
    _xml("a misspelt element", url(more="<lastmodified>2026-01-01</lastmodified>"), "element-unknown", line=3),
    _xml("a sitemap in a urlset", url() + "<sitemap><loc>https://shop.example/s.xml</loc></sitemap>", "element-unknown"),
    _xml("an element in a loc", "<url><loc>https://shop.example/a<b/></loc></url>", "element-unknown", "text-stray", "loc-missing"),
    _xml("lastmod before loc", "<url><lastmod>2026-01-01</lastmod><loc>https://shop.example/a</loc></url>", "element-order", line=3),
    _xml("an extension before lastmod", url(more="<image:image><image:loc>https://c.example/1</image:loc></image:image><lastmod>2026-01-01</lastmod>"), "element-order", namespaces=(IMAGE,)),
    _xml("two locs", url(more="<loc>https://shop.example/b</loc>"), "element-repeated", line=3),
    _xml("no loc", url() + "\n<url><lastmod>2026-01-01</lastmod></url>", "loc-missing", line=4),
    _xml("an empty loc", url() + "\n" + url(""), "loc-missing", line=4),
    _xml("text between elements", url() + "\nand" + url("https://shop.example/b"), "text-stray"),
    _xml("a misspelt image namespace", url(more="<image:image><image:loc>https://c.example/1</image:loc></image:image>"), "extension-namespace", namespaces=(IMAGE.replace("http:", "https:"),)),
    _xml("a namespace of XHTML's schema", url(more=link("en", PAGE)), "extension-namespace", namespaces=('xmlns:xhtml="http://www.w3.org/TR/xhtml11/xhtml11_schema.html"',)),
    _xml("an unknown extension", url(more="<x:y>1</x:y>"), "extension-unknown", namespaces=('xmlns:x="urn:x"',)),
    _xml("an attribute of a loc", '<url><loc lang="en">https://shop.example/a</loc></url>', "attribute-unknown", line=3),
    Broken("an attribute of the root", FINE.replace(b"<urlset", b'<urlset version="0.9"'), {"attribute-unknown"}, line=2),
    _links("an attribute of a link", f'<xhtml:link rel="alternate" lang="en" hreflang="en" href="{PAGE}" target="_top"/>', "attribute-unknown"),
    _xml("an image outside of a page", "<image:image><image:loc>https://c.example/1</image:loc></image:image>" + url(), "element-unknown", line=3, namespaces=(IMAGE,)),
    _xml("an image's loc without the image", url(more="<image:loc>https://c.example/1</image:loc>"), "element-unknown", line=3, namespaces=(IMAGE,)),
    _xml("a page in a page", f"<url><loc>{PAGE}</loc><url><loc>{PAGE}/b</loc></url></url>", "element-unknown"),
    Broken("a link in an index", index("https://shop.example/a.xml").replace(b"</sitemap>", b'<l:link xmlns:l="http://www.w3.org/1999/xhtml" rel="alternate" hreflang="en" href="https://shop.example/"/></sitemap>'), {"element-unknown", "not-followed"}),
    Broken("an HTML page", b"<!DOCTYPE html><html><body>Not found</body></html>", {"html-page"}),
    Broken("an HTML page without a document type", b"<html><body>Not found</body></html>", {"html-page"}),
    Broken("other XML", b"<catalog/>", {"not-a-sitemap"}),
    Broken("a picture", b"\x89PNG\r\n\x1a\n\0\0\0", {"not-a-sitemap"}),
    Broken("zlib instead of gzip", b"x\x9c\0" + zlib.compress(FINE), {"not-a-sitemap"}),
    # size
    Broken("50,001 URLs", lambda: urlset(urls(50_001)), {"too-many-urls"}, line=50_003),
    Broken("an empty urlset", urlset(""), {"sitemap-empty"}),
    Broken("an empty file", b"", {"sitemap-empty"}),
    Broken("an empty index", index(), {"index-empty"}),
    Broken("50,001 files in an index", lambda: index(*[f"https://shop.example/{n}.xml" for n in range(50_001)]), {"too-many-files", "not-followed"}),
    Broken("1,001 files in an index", lambda: index(*[f"https://shop.example/{n}.xml" for n in range(1_001)]), {"index-large", "not-followed"}),
    Broken("a file twice in an index", index(*["https://shop.example/a.xml"] * 2), {"index-duplicate", "not-followed"}, line=4),
    Broken("a relative file in an index", index("/a.xml"), {"loc-relative", "not-followed"}, line=3),
    # URLs
    _xml("a relative URL", url() + "\n" + url("/b"), "loc-relative", line=4),
    _xml("a URL without its scheme", url() + "\n" + url("shop.example/b"), "loc-relative", line=4),
    _xml("an ftp URL", url() + "\n" + url("ftp://shop.example/b"), "loc-scheme", line=4),
    _xml("a mailto URL", url() + "\n" + url("mailto:a@shop.example"), "loc-scheme", line=4),
    _xml("a host that is none", url() + "\n" + url("https://sh op.example/b"), "loc-invalid", line=4),
    _xml("a long URL", url("https://shop.example/" + "x" * 2027), "loc-length", line=3),
    _xml("a space in a URL", url("https://shop.example/a b"), "loc-characters", line=3),
    _xml("a stray percent sign", url("https://shop.example/100%"), "loc-characters", line=3),
    _xml("a bar in a URL", url("https://shop.example/a|b"), "loc-characters"),
    _xml("an umlaut", url("https://shop.example/ä"), "loc-not-ascii"),
    _xml("an upper-case host", url("https://SHOP.example/a") + url("https://shop.example/b") + url("https://shop.example/c"), "loc-not-canonical"),
    _xml("an escaped tilde", url("https://shop.example/%7ea"), "loc-not-canonical"),
    _xml("no slash after the host", url("https://shop.example"), "loc-not-canonical"),
    _xml("escaped twice", url("https://shop.example/?a=1&amp;amp;b=2"), "loc-escaped-twice"),
    _xml("a loc on a line of its own", url("\n  https://shop.example/a\n"), "loc-space", line=3),
    _xml("a password", url() + "\n" + url("https://me:secret@shop.example/b"), "loc-user", line=4),
    _xml("a backslash", url("https://shop.example/docs\\a"), "loc-backslash"),
    _xml("an escaped backslash", url("https://shop.example/docs%5Ca"), "loc-backslash"),
    _xml("a fragment", url("https://shop.example/#a"), "loc-fragment"),
    _xml("a session id", url("https://shop.example/?PHPSESSID=1"), "loc-session"),
    _xml("a session id in the path", url("https://shop.example/a;jsessionid=AB12"), "loc-session"),
    _xml("a tracking parameter", url("https://shop.example/?id=1&amp;utm_source=x"), "loc-tracking"),
    _xml("localhost", url("http://localhost:8000/a"), "loc-private", line=3),
    _xml("a private address among others", url() + url("https://shop.example/b") + "\n" + url("http://192.168.0.4/c"), "loc-private", line=4),
    _xml("a name without a dot", url("http://web/a"), "loc-private"),
    Broken("a local host in a public file", urlset(url("https://staging.local/a")), {"loc-private"}, options={"at": "https://shop.example/sitemap.xml"}),
    _xml("undefined", url() + "\n" + url("https://shop.example/p/undefined"), "loc-placeholder", line=4),
    _xml("null in the middle", url("https://shop.example/null/a"), "loc-placeholder"),
    _xml("NaN in a query", url("https://shop.example/?page=NaN"), "loc-placeholder"),
    _xml("a template", url("https://shop.example/shop/%7B%7B%20handle%20%7D%7D"), "loc-placeholder"),
    _xml("a route", url("https://shop.example/shop/:id"), "loc-placeholder"),
    _xml("the site twice", url("https://shop.example/https://shop.example/a"), "loc-no-address"),
    _xml("two URLs", url("https://shop.example/a,%20https://shop.example/b"), "loc-no-address"),
    _xml("a count of rows", url("https://shop.example/(2%20rows)"), "loc-no-address"),
    _xml("a spreadsheet's number", url("https://shop.example/p/9.9E+15"), "loc-scientific"),
    _xml("mojibake", url("https://shop.example/%C3%83%C2%BCber"), "loc-mojibake"),
    _xml("percent-encoded twice", url("https://shop.example/f%25C3%25BCr"), "loc-encoded-twice"),
    _xml("an empty segment", url("https://shop.example/en//lamp"), "loc-empty-segment"),
    _xml("the host in the path", url("https://shop.example/www.shop.example/a"), "loc-host-in-path"),
    _xml("an object", url("https://shop.example/%5Bobject%20Object%5D"), "loc-placeholder"),
    _xml("with and without a slash", url() + "\n" + url("https://shop.example/b/") + url("https://shop.example/b"), "loc-slash", line=4),
    Broken("a file above the folder of the index", index("https://shop.example/a.xml"), {"index-out-of-scope", "not-followed"}, options={"at": "https://shop.example/maps/sitemap.xml"}),
    _xml("http among https", url() + url("https://shop.example/b") + "\n" + url("http://shop.example/c"), "foreign-scheme", line=4),
    _xml("two hosts", url() + url("https://shop.example/b") + "\n" + url("https://www.shop.example/c"), "mixed-hosts", line=4),
    Broken("another host than the file's", urlset(url("https://other.example/a")), {"foreign-host"}, line=3, options={"at": "https://shop.example/sitemap.xml"}),
    Broken("another port than the file's", urlset(url("https://shop.example:8443/a")), {"foreign-host"}, options={"at": "https://shop.example/sitemap.xml"}),
    Broken("another scheme than the file's", urlset(url("http://shop.example/a")), {"foreign-scheme"}, options={"at": "https://shop.example/sitemap.xml"}),
    Broken("above the file's folder", urlset(url("https://shop.example/a")), {"out-of-scope"}, line=3, options={"at": "https://shop.example/maps/sitemap.xml"}),
    _xml("a URL twice", url() + "\n" + url(), "duplicate", line=4),
    # dates and hints
    _lastmod("a German date", "21.11.2026", "lastmod-invalid"),
    _lastmod("a day that isn't", "2026-02-30", "lastmod-invalid"),
    _lastmod("an hour that isn't", "2026-01-02T25:00:00Z", "lastmod-invalid"),
    _lastmod("a blank instead of T", "2026-01-02 10:20:30", "lastmod-invalid"),
    _lastmod("an empty lastmod", "", "lastmod-invalid"),
    _lastmod("a zero date", "0000-00-00", "lastmod-invalid"),
    _lastmod("a year alone", "2026", "lastmod-form"),
    _lastmod("no seconds", "2026-01-02T10:20Z", "lastmod-form"),
    _lastmod("no zone", "2026-01-02T10:20:30", "lastmod-form"),
    _lastmod("a date with a zone", "2026-01-02Z", "lastmod-form"),
    _lastmod("tomorrow's noon", "2026-11-22T12:00:00Z", "lastmod-future"),
    _lastmod("a day in 2929", "2929-01-01", "lastmod-future"),
    _lastmod("the epoch", "1970-01-01T00:00:00Z", "lastmod-old"),
    _xml("no lastmod", urls(20, "<priority>0.5</priority>"), "lastmod-missing"),
    _xml("one lastmod for all", urls(20, "<lastmod>2026-11-01T10:00:00Z</lastmod>"), "lastmod-all-same"),
    _xml("the time of the request", urls(3, "<lastmod>2026-11-21T11:59:58Z</lastmod>"), "lastmod-is-now"),
    _xml("a changefreq in upper case", url(more="<changefreq>Daily</changefreq>"), "changefreq-invalid", line=3),
    _xml("a changefreq with blanks", url(more="<changefreq> daily</changefreq>"), "changefreq-invalid"),
    _xml("a priority of 10", url(more="<priority>10</priority>"), "priority-invalid", line=3),
    _xml("a priority with a comma", url(more="<priority>0,5</priority>"), "priority-invalid"),
    _xml("a priority as Python prints it", url(more="<priority>1e-1</priority>"), "priority-invalid"),
    _xml("a host of examples", url("https://www.example.com/a"), "loc-example", line=3),
    # hreflang
    _links("a link without href", '<xhtml:link rel="alternate" hreflang="en"/>', "hreflang-incomplete"),
    _links("a link without rel", f'<xhtml:link hreflang="en" href="{PAGE}"/>', "hreflang-incomplete"),
    _links("a country alone", SELF + link("gb-en", PAGE), "hreflang-invalid"),
    _links("en-UK", link("en-UK", PAGE), "hreflang-invalid"),
    _links("an underscore", link("en_GB", PAGE), "hreflang-invalid"),
    _links("a relative href", SELF + link("de", "/de/a"), "hreflang-href"),
    _links("a blank href", SELF + link("de", ""), "hreflang-href"),
    _links("a blank hreflang", SELF + link("", PAGE), "hreflang-invalid"),
    _links("a space in an href", SELF + link("de", "https://de.example/a b"), "hreflang-url"),
    _links("a stray percent sign in an href", SELF + link("de", "https://de.example/100%"), "hreflang-url"),
    _links("an href without a host", SELF + link("de", "https://:80/a"), "hreflang-url"),
    _links("a long href", SELF + link("de", "https://de.example/" + "x" * 2040), "hreflang-url"),
    _links("a relative address for screens", SELF + '<xhtml:link rel="alternate" media="handheld" href="/m"/>', "hreflang-href"),
    _links("two URLs for a language", SELF + link("en", "https://shop.example/b"), "hreflang-two-urls", "hreflang-unlisted"),
    _links("x-default twice", SELF + link("x-default", PAGE) * 2, "hreflang-default-twice"),
    _links("no link to itself", link("de", "https://de.example/a"), "hreflang-no-self"),
    _links("an alternate that is a template", SELF + link("de", "https://shop.example/[slug]"), "hreflang-unlikely", "hreflang-unlisted"),
    _links("an alternate that is not listed", SELF + link("de", "https://shop.example/de"), "hreflang-unlisted"),
    _xml("no return link", url(more=SELF + link("de", "https://shop.example/de")) + "\n" + url("https://shop.example/de", link("de", "https://shop.example/de")), "hreflang-no-return", line=3, namespaces=(XHTML,)),
    # images
    _xml("an image without loc", url(more="<image:image></image:image>"), "image-no-loc", line=3, namespaces=(IMAGE,)),
    _xml("a relative image", url(more="<image:image><image:loc>/1.jpg</image:loc></image:image>"), "image-loc", namespaces=(IMAGE,)),
    _xml("an image with a blank loc", url(more="<image:image><image:loc/></image:image>"), "image-loc", namespaces=(IMAGE,)),
    _xml("a space in an image's address", url(more="<image:image><image:loc>https://c.example/a b.jpg</image:loc></image:image>"), "image-url", line=3, namespaces=(IMAGE,)),
    _xml("a long image address", url(more=f"<image:image><image:loc>https://c.example/{'x' * 2040}</image:loc></image:image>"), "image-url", namespaces=(IMAGE,)),
    _xml("an image of nobody's host", url(more="<image:image><image:loc>https://c..example/1.jpg</image:loc></image:image>"), "image-url", namespaces=(IMAGE,)),
    _xml("an image that is undefined", url(more="<image:image><image:loc>https://c.example/undefined</image:loc></image:image>"), "image-unlikely", line=3, namespaces=(IMAGE,)),
    _xml("1,001 images", url(more="<image:image><image:loc>https://c.example/1</image:loc></image:image>" * 1001), "image-too-many", namespaces=(IMAGE,)),
    _xml("a removed image element", url(more="<image:image><image:loc>https://c.example/1</image:loc><image:title>x</image:title></image:image>"), "image-obsolete", namespaces=(IMAGE,)),
    _xml("an unknown image element", url(more="<image:image><image:loc>https://c.example/1</image:loc><image:alt>x</image:alt></image:image>"), "element-unknown", namespaces=(IMAGE,)),
    # videos
    _video("a video without title", "video-incomplete", title=""),
    _video("a title that is escaped twice", "video-unlikely", title="Rock &amp;amp; Roll"),
    _video("a video without content", "video-no-content", content_loc=""),
    _video("a video that is the page", "video-is-page", content_loc="", player_loc=PAGE),
    _video("a duration of 0", "video-value", duration="0"),
    _video("a rating of 5.1", "video-value", rating="5.1"),
    _video("a title of 101 characters", "video-value", title="x" * 101),
    _video("a description too long", "video-value", description="x" * 2049),
    _video("a date that is none", "video-value", publication_date="yesterday"),
    _video("33 tags", "video-value", tag="<video:tag>x</video:tag>" * 33),
    _video("a restriction without relationship", "video-value", restriction="DE AT"),
    _video("a platform that is none", "video-value", platform='<video:platform relationship="allow">fridge</video:platform>'),
    _video("a relative thumbnail", "video-value", thumbnail_loc="/t.jpg"),
    _video("a video that has expired", "video-expired", expiration_date="2026-11-19"),
    _video("a removed video element", "video-obsolete", category="Lamps"),
    _video("a removed attribute", "video-obsolete", content_loc="", player_loc='<video:player_loc autoplay="ap=1">https://p.example/1</video:player_loc>'),
    _video("a duration after the tags", "element-order", tag="<video:tag>x</video:tag>", zz="<video:duration>60</video:duration>"),
    # news
    _news("an article of last week", news("2026-11-14T10:00:00Z"), "news-too-old"),
    _news("an article 48 hours and a second old", news("2026-11-19T11:59:59Z"), "news-too-old"),
    _news("an article without title", news(title=""), "news-incomplete"),
    _news("a language with a country", news(language="en-US"), "news-language"),
    _news("a language that isn't", news(language="xx"), "news-language"),
    _news("three letters that are no language", news(language="qqq"), "news-language"),
    _news("a date in words", news("20 Nov 2026"), "news-date"),
    _news("a title of news that is escaped twice", news(title="Rock &amp;amp; Roll"), "news-title-escaped"),
    _news("an article of tomorrow", news("2026-11-22T13:00:00Z"), "news-date"),
    _news("keywords", news(more="<news:keywords>lamps</news:keywords>"), "news-obsolete"),
    _xml("1,001 articles", urls(1001, news()), "news-too-many", namespaces=(NEWS,)),
    # text and feeds
    Broken("a list of URLs that is named as XML", b"https://shop.example/a\nhttps://shop.example/b\n", {"text-named-xml"}, line=1),
    Broken("a template of Jekyll", b"---\nlayout: null\nsitemap:\n  exclude: 'yes'\n---\n" + FINE, {"not-a-sitemap"}, line=1),
    Broken("empty lines", b"https://shop.example/a\n\nhttps://shop.example/b\n", {"text-blank"}, "sitemap.txt", 2),
    Broken("a title in a text sitemap", b"https://shop.example/a\nLamps and more\n", {"text-not-url"}, "sitemap.txt", 2),
    Broken("a text sitemap with a byte order mark", b"\xef\xbb\xbfhttps://shop.example/a\n", {"bom"}, "sitemap.txt"),
    Broken("a Latin-1 text sitemap", b"https://shop.example/\xe4\n", {"not-utf8", "loc-not-ascii"}, "sitemap.txt"),
    Broken("prose", b"Dear all,\nhere is the list.\n", {"not-a-sitemap"}, "sitemap.txt"),
    Broken("a relative line", b"https://shop.example/a\n/b\n", {"loc-relative"}, "sitemap.txt", 2),
    Broken("RSS 0.91", rss(ITEM, version="0.91"), {"feed-version"}, "feed.rss"),
    Broken("RSS 1.0", b'<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"/>', {"feed-version"}, "feed.rss"),
    Broken("Atom 0.3", atom(ENTRY, "http://purl.org/atom/ns#"), {"feed-obsolete"}, "feed.atom"),
    Broken("a feed without description", rss(ITEM, channel="<title>T</title><link>https://shop.example/</link>"), {"feed-incomplete"}, "feed.rss"),
    Broken("an item without link", rss(ITEM + "<item><title>B</title><pubDate>Fri, 20 Nov 2026 10:00:00 GMT</pubDate></item>"), {"feed-no-link"}, "feed.rss"),
    Broken("an item without date", rss(ITEM.replace("pubDate", "other")), {"feed-no-date"}, "feed.rss"),
    Broken("an ISO date in RSS", rss(ITEM.replace("Fri, 20 Nov 2026 10:00:00 GMT", "yesterday")), {"feed-date"}, "feed.rss"),
    Broken("a title in RSS that is escaped twice", rss(ITEM.replace("<title>A<", "<title>A &amp;#8211; B<")), {"feed-title-escaped"}, "feed.rss"),
    Broken("a title in Atom that is escaped twice", atom(ENTRY.replace("<title>A<", "<title>A &amp;amp; B<")), {"feed-title-escaped"}, "feed.atom"),
    Broken("a date without time in Atom", atom(ENTRY.replace("2026-11-01T00:00:00Z", "2026-11-01")), {"feed-date"}, "feed.atom"),
    Broken("a relative link in a feed", atom(ENTRY.replace('href="https://shop.example/a"', 'href="/a"')), {"loc-relative"}, "feed.atom"),
    Broken("an empty feed", atom(""), {"sitemap-empty"}, "feed.atom"),
    # robots.txt
    Broken("a relative sitemap in robots.txt", b"User-agent: *\nSitemap: /sitemap.xml\n", {"robots-sitemap-relative"}, "robots.txt", 2),
    Broken("a robots.txt over 500 KiB", b"User-agent: *\n" + b"Disallow: /x\n" * 40_000, {"robots-large"}, "robots.txt"),
    Broken("a robots.txt of prose", b"Welcome to our shop\n", {"robots-not-text"}, "robots.txt", 1),
    Broken("a robots.txt that is a page", b"<html></html>", {"robots-not-text"}, "robots.txt"),
]  # fmt: skip

MAP = "https://shop.example/sitemap.xml"
A, B = "https://shop.example/a.xml", "https://shop.example/b.xml"
DATED = urlset(url("https://shop.example/a", "<lastmod>2026-11-10T00:00:00Z</lastmod>"))


@dataclass(frozen=True)
class BrokenSet:
    """Files of one folder, and all (code, file) that must be found."""

    what: str
    files: dict[str, bytes]
    found: set[tuple[str, str]]


SETS: list[BrokenSet] = [
    BrokenSet("a listed file is missing", {"sitemap.xml": index(A, B), "a.xml": FINE}, {("index-file-missing", "sitemap.xml")}),
    BrokenSet("a file is not listed", {"sitemap.xml": index(A), "a.xml": FINE, "b.xml": urlset(url("https://shop.example/b"))}, {("file-not-listed", "b.xml")}),
    BrokenSet("an index in an index", {"sitemap.xml": index(A), "a.xml": index(B), "b.xml": FINE}, {("index-nested", "sitemap.xml")}),
    BrokenSet("a URL in two files", {"sitemap.xml": index(A, B), "a.xml": urlset(urls(2)), "b.xml": urlset(urls(2, begin=1))}, {("duplicate-across", "b.xml")}),
    BrokenSet("the same file twice", {"sitemap.xml": index(A, B), "a.xml": urlset(urls(2)), "b.xml": urlset(urls(2))}, {("duplicate-across", "b.xml")}),
    BrokenSet("an index older than a page", {"sitemap.xml": index(A, lastmod="2026-11-09T00:00:00Z"), "a.xml": DATED}, {("index-lastmod-old", "sitemap.xml")}),
    BrokenSet(
        "an index with one lastmod for all",
        {"sitemap.xml": index(*[f"https://shop.example/{n}.xml" for n in range(20)], lastmod="2026-11-01")}
        | {f"{n}.xml": urlset(url(f"https://shop.example/{n}", f"<lastmod>2026-10-{n + 1:02}</lastmod>")) for n in range(20)},
        {("index-lastmod-all-same", "sitemap.xml")},
    ),
    BrokenSet("robots.txt names what is not there", {"robots.txt": b"Sitemap: https://shop.example/x.xml\n", "sitemap.xml": index(A), "a.xml": FINE}, {("robots-sitemap-missing", "robots.txt"), ("index-not-in-robots", "sitemap.xml")}),
    BrokenSet("robots.txt does not name the index", {"robots.txt": f"Sitemap: {A}\n".encode(), "sitemap.xml": index(A), "a.xml": FINE}, {("index-not-in-robots", "sitemap.xml")}),
    BrokenSet("robots.txt forbids a page", {"robots.txt": f"User-agent: *\nDisallow: /a\nSitemap: {MAP}\n".encode(), "sitemap.xml": urlset(url())}, {("loc-disallowed", "sitemap.xml")}),
    BrokenSet("robots.txt forbids a page after a crawl delay", {"robots.txt": f"User-agent: *\nCrawl-delay: 9\nUser-agent: x\nDisallow: /a\nSitemap: {MAP}\n".encode(), "sitemap.xml": urlset(url())}, {("loc-disallowed", "sitemap.xml")}),
    BrokenSet("robots.txt forbids the sitemap", {"robots.txt": f"User-agent: *\nDisallow: /sitemap\nSitemap: {MAP}\n".encode(), "sitemap.xml": urlset(url())}, {("robots-sitemap-disallowed", "robots.txt")}),
    BrokenSet("no return link from another file", {"a.xml": urlset(url(more=SELF + link("de", "https://shop.example/de")), XHTML), "b.xml": urlset(url("https://shop.example/de", link("de", "https://shop.example/de")), XHTML)}, {("hreflang-no-return", "a.xml")}),
    BrokenSet("a folder without sitemaps", {"ads.txt": b"google.com, pub-1, DIRECT\n"}, {("sitemap-empty", ".")}),
]  # fmt: skip
