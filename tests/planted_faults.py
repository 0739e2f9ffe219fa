"""Faults planted into sitemaps of other generators, as data: the file, the change, and the code that it must have.

The originals are in `data/corpus`; its README.md names their generators. A row of the table is planted into each of its
files, so that every fault is tested in the output of several programs.
"""
# ruff: noqa: E501 - one fault is one line of its table

from __future__ import annotations

import gzip
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

CORPUS = Path(__file__).parent / "data" / "corpus"
SETS = ("django", "feedgen", "npm", "ours")

PRODUCTS = ("npm/sitemap-0.xml", "django/sitemap-products.xml", "ours/sitemap-plain-00001.xml")
FILMS = ("npm/sitemap-2.xml", "ours/sitemap-media-00001.xml")
PAGES = (*PRODUCTS, *FILMS)
LANGUAGES = ("npm/sitemap-1.xml", "django/sitemap-pages.xml", "ours/sitemap-shops-00001.xml")
PICTURES = ("npm/sitemap-0.xml", "ours/sitemap-media-00001.xml")
ARTICLES = ("npm/news.xml", "ours/sitemap-news-00001.xml")
URLSETS = (*PAGES, *LANGUAGES, *ARTICLES)
INDEXES = ("npm/sitemap-index.xml", "django/sitemap.xml", "ours/sitemap.xml")
RSS = ("feedgen/feed.rss", "ours/media.rss.xml")
ATOM = ("feedgen/feed.atom", "ours/media.atom.xml")
TEXTS = ("ours/sitemap-plain-00001.txt",)
ROBOTS = ("django/robots.txt", "ours/robots.txt")
OF_SET = {"npm": INDEXES[:1], "django": INDEXES[1:2], "ours": INDEXES[2:]}

Edit = Callable[[bytes], bytes]


@dataclass(frozen=True)
class Plant:
    """A fault for each of `files`: `edit` makes it, `code` must be found.

    `also`: codes of its consequences, besides those of `FOLLOWS`. `together`: all matching files are changed at
    once. `as_name`: the changed file is added under this name. `whole`: the whole set is checked instead of the one
    file. `options`: of the check.
    """

    what: str
    files: tuple[str, ...]
    edit: Edit
    code: str
    also: frozenset[str] = frozenset()
    together: bool = False
    as_name: str = ""
    whole: bool = False
    options: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Case:
    """One fault in one set: the files to check, and the target (none: all)."""

    name: str
    plant: Plant
    files: dict[str, bytes]
    target: str


def originals(name: str) -> dict[str, bytes]:
    """Return the files of a set."""
    return {path.name: path.read_bytes() for path in sorted((CORPUS / name).iterdir())}


@cache
def cases() -> list[Case]:
    """Yield every fault in every file into which it is planted."""
    found = []
    for plant in PLANTS:
        groups = [plant.files] if plant.together else [(file,) for file in plant.files]
        for group in groups:
            files = originals(group[0].partition("/")[0])
            for file in group:
                name = file.partition("/")[2]
                changed = plant.edit(files[name])
                assert changed != files[name], f"{plant.what}: nothing changed in {file}"
                files[plant.as_name or name] = changed
            target = "" if plant.whole else plant.as_name or group[0].partition("/")[2]
            found.append(Case(f"{plant.what} in {group[0]}", plant, files, target))
    return found


def put(old: str, new: str, *, every: bool = False) -> Edit:
    """Replace the first match of an expression, or every one."""

    def edit(data: bytes) -> bytes:
        text, count = re.subn(old, new, data.decode(), count=0 if every else 1, flags=re.DOTALL)
        assert count, f"{old} is not there"
        return text.encode()

    return edit


def loc(new: str) -> Edit:
    """Replace the second loc: the first may be the one that others are compared with."""
    return put(r"(<loc>.*?<loc>)[^<]*", rf"\g<1>{new}")


def text_of(element: str, new: str, *, every: bool = False) -> Edit:
    return put(rf"(<{element}(?:\s[^>]*)?>)[^<]*(</{element}>)", rf"\g<1>{new}\g<2>", every=every)


def without(element: str) -> Edit:
    return put(rf"<{element}(?:\s[^>]*)?>.*?</{element}>\s*", "")


def before(end: str, new: str) -> Edit:
    return put(rf"({end})", rf"{new}\g<1>")


def href(new: str) -> Edit:
    """Replace the address of the first German alternate, or what counts as such."""
    return put(r'(hreflang="(?:de|de-AT)" href=")[^"]*', rf"\g<1>{new}")


def attributes(element: str, new: str) -> Edit:
    return put(rf"<{element}(?=[\s/>])", rf"<{element} {new}")


def rows(number: int, entry: str, end: str) -> Edit:
    """Add this many entries; `entry` has the number as {n}."""
    return lambda data: data.replace(
        end.encode(), "".join(entry.replace("{n}", str(n)) for n in range(number)).encode() + end.encode()
    )


def swapped(first: str, second: str) -> Edit:
    """Exchange two adjacent elements."""
    return put(rf"(<{first}>[^<]*</{first}>)\s*(<{second}>[^<]*</{second}>)", r"\g<2>\g<1>")


def recoded(encoding: str) -> Edit:
    return lambda data: data.decode().encode(encoding)


def moved(number: int) -> Edit:
    """Repeat the entry with this number at the end."""

    def edit(data: bytes) -> bytes:
        entry = re.findall(rb"<url>.*?</url>", data, re.DOTALL)[number]
        return data.replace(b"</urlset>", entry + b"</urlset>")

    return edit


def alone(data: bytes) -> bytes:
    """Remove the links to itself from the first page."""
    page, rest = data.split(b"</url>", 1)
    own = re.findall(rb"<loc>([^<]*)</loc>", page)[0]
    return re.sub(rb'<xhtml:link [^>]*href="%s"/>' % re.escape(own), b"", page) + b"</url>" + rest


def _url(what: str, new: str, code: str, *also: str) -> Plant:
    return Plant(what, PAGES, loc(new), code, frozenset(also))


def _lastmod(what: str, new: str, code: str) -> Plant:
    return Plant(what, PAGES, text_of("lastmod", new), code)


def _link(what: str, edit: Edit, code: str, *also: str, files: tuple[str, ...] = LANGUAGES) -> Plant:
    return Plant(what, files, edit, code, frozenset(also))


def _video(what: str, edit: Edit, code: str, *also: str) -> Plant:
    return Plant(what, FILMS, edit, code, frozenset(also))


_LINKS = frozenset({"hreflang-no-self", "hreflang-no-return", "hreflang-unlisted"})
FOLLOWS: dict[str, frozenset[str]] = {
    "charset-conflict": frozenset({"bom", "not-utf8"}),
    "gzip-truncated": frozenset({"gzip-unnamed"}),
    "gzip-damaged": frozenset({"gzip-unnamed"}),
    "duplicate-across": frozenset({"file-not-listed"}),
} | dict.fromkeys(
    ("hreflang-incomplete", "hreflang-href", "hreflang-url", "hreflang-two-urls", "hreflang-unlisted"), _LINKS
)
"""What is found as well, as far as it follows from a fault of this code wherever it is."""
LONG = "x" * 2048

PLANTS: list[Plant] = [
    # compression and encoding
    Plant("a byte order mark", URLSETS, lambda data: b"\xef\xbb\xbf" + data, "bom"),
    Plant("a byte order mark", (*RSS, *ATOM, *TEXTS, *ROBOTS), lambda data: b"\xef\xbb\xbf" + data, "bom"),
    Plant("a blank line before the declaration", (*PAGES, *INDEXES, *RSS, *ATOM), lambda data: b"\n" + data, "leading-space"),
    Plant("UTF-16", PAGES, lambda data: data.decode().replace("UTF-8", "UTF-16").encode("utf-16"), "not-utf8"),
    Plant("UTF-16 that declares UTF-8", PAGES, recoded("utf-16"), "charset-conflict"),
    Plant("a mark and ISO-8859-1", (*PAGES, *INDEXES), lambda data: b"\xef\xbb\xbf" + data.replace(b"UTF-8", b"ISO-8859-1"), "charset-conflict"),
    Plant("ISO-8859-1 declared", (*PAGES, *INDEXES), lambda data: data.replace(b"UTF-8", b"ISO-8859-1"), "not-utf8"),
    Plant("a Latin-1 letter", PAGES, lambda data: data.replace(b"</loc>", b"\xfc</loc>", 1), "not-utf8", frozenset({"loc-not-ascii"})),
    Plant("gzip without the name", (*PAGES, *INDEXES, *RSS, *ATOM), lambda data: gzip.compress(data, mtime=0), "gzip-unnamed"),
    Plant("gzip that is cut off", PAGES, lambda data: gzip.compress(data, mtime=0)[:-30], "gzip-truncated"),
    Plant("gzip with a wrong byte", PAGES, lambda data: gzip.compress(data, mtime=0)[:-8] + b"\0" * 8, "gzip-damaged"),
    Plant("gzip in gzip", PAGES, lambda data: gzip.compress(gzip.compress(data)), "gzip-in-gzip", as_name="sitemap.xml.gz"),
    Plant("a name with .gz", PAGES, lambda data: data + b"\n", "gzip-missing", as_name="sitemap.xml.gz"),
    # XML
    Plant("an ampersand", URLSETS, put("</loc>", "?a=1&b=2</loc>"), "xml-malformed"),
    Plant("an end that is missing", URLSETS, put("</urlset>", ""), "xml-malformed"),
    Plant("a feed that breaks off", (*RSS, *ATOM), lambda data: data[: len(data) * 3 // 4], "xml-malformed"),
    Plant("a tag that is not closed", URLSETS, put("</loc>", ""), "xml-malformed", frozenset({"sitemap-empty"})),
    Plant("a document type", PAGES, put("<urlset", '<!DOCTYPE urlset SYSTEM "sitemap.dtd"><urlset'), "xml-doctype"),
    Plant("an entity", PAGES, put("<urlset", '<!DOCTYPE urlset [<!ENTITY shop "x">]><urlset'), "xml-entities"),
    Plant("no namespace", (*URLSETS, *INDEXES), put(' xmlns="[^"]*"', ""), "namespace-missing"),
    Plant("the namespace with https", (*URLSETS, *INDEXES), put('xmlns="http:', 'xmlns="https:'), "namespace-wrong"),
    Plant("the namespace of 2005", PAGES, put('xmlns="[^"]*"', 'xmlns="http://www.google.com/schemas/sitemap/0.84"'), "namespace-wrong"),
    Plant("a slash after the namespace", PAGES, put('(xmlns="[^"]*)"', r'\g<1>/"'), "namespace-wrong"),
    Plant("links without their namespace", LANGUAGES, put(' xmlns:xhtml="[^"]*"', ""), "prefix-undeclared"),
    Plant("images without their namespace", PICTURES, put(' xmlns:image="[^"]*"', ""), "prefix-undeclared"),
    Plant("images in a namespace with https", PICTURES, put('xmlns:image="http:', 'xmlns:image="https:'), "extension-namespace"),
    Plant("videos of another version", FILMS, put("sitemap-video/1.1", "sitemap-video/1.0"), "extension-namespace"),
    Plant("news in a namespace with a slash", ARTICLES, put("sitemap-news/0.9", "sitemap-news/0.9/"), "extension-namespace"),
    Plant("an extension of nobody", PAGES, before("</url>", '<x:y xmlns:x="urn:x">1</x:y>'), "extension-unknown"),
    Plant("a misspelt element", PAGES, put("(</?)lastmod>(.*?)(</?)lastmod>", r"\g<1>lastmodified>\g<2>\g<3>lastmodified>"), "element-unknown"),
    Plant("an element in capitals", PAGES, put("<loc>(.*?)</loc>", r"<Loc>\g<1></Loc>"), "element-unknown", frozenset({"loc-missing"})),
    Plant("a page in a page", PAGES, put("</url>", "<url><loc>https://shop.example/inner</loc></url></url>"), "element-unknown"),
    Plant("an entry of an index", PAGES, before("</urlset>", "<sitemap><loc>https://shop.example/s.xml</loc></sitemap>"), "element-unknown"),
    Plant("a page in an index", INDEXES, before("</sitemapindex>", "<url><loc>https://shop.example/p</loc></url>"), "element-unknown"),
    Plant("a priority in an index", INDEXES, before("</sitemap>", "<priority>0.5</priority>"), "element-unknown"),
    Plant("an image beside the pages", PICTURES, before("</urlset>", "<image:image><image:loc>https://cdn.shop.example/1.jpg</image:loc></image:image>"), "element-unknown"),
    Plant("an image's loc without the image", PICTURES, before("</url>", "<image:loc>https://cdn.shop.example/1.jpg</image:loc>"), "element-unknown"),
    Plant("a video's title beside the video", FILMS, before("</video:video>", "</video:video><video:title>T</video:title><video:video>"), "element-unknown", frozenset({"video-incomplete", "video-no-content"})),
    Plant("an image in a video", FILMS, before("</video:video>", '<image:image xmlns:image="http://www.google.com/schemas/sitemap-image/1.1"><image:loc>https://cdn.shop.example/1.jpg</image:loc></image:image>'), "element-unknown"),
    Plant("a link beside the pages", LANGUAGES, before("</urlset>", '<xhtml:link rel="alternate" hreflang="de" href="https://shop.example/x"/>'), "element-unknown"),
    Plant("another element of XHTML", LANGUAGES, before("</url>", '<xhtml:a href="https://shop.example/x">x</xhtml:a>'), "element-unknown"),
    Plant("news in news", ARTICLES, before("</news:news>", "<news:news/>"), "element-unknown"),
    Plant("an element in a title", ARTICLES, put("<news:title>", "<news:title><b xmlns=''>x</b>"), "element-unknown", frozenset({"news-incomplete", "text-stray"})),
    Plant("an unknown element of images", PICTURES, before("</image:image>", "<image:alt>x</image:alt>"), "element-unknown"),
    Plant("an unknown element of videos", FILMS, before("</video:video>", "<video:width>1</video:width>"), "element-unknown"),
    Plant("lastmod before loc", PRODUCTS, swapped("loc", "lastmod"), "element-order"),
    Plant("priority before changefreq", ("npm/sitemap-0.xml", "django/sitemap-products.xml"), swapped("changefreq", "priority"), "element-order"),
    Plant("an image before lastmod", PICTURES, before("<lastmod>", "<image:image><image:loc>https://cdn.shop.example/1.jpg</image:loc></image:image>"), "element-order"),
    Plant("a link before lastmod", LANGUAGES, put("(<lastmod>[^<]*</lastmod>)(.*?)(<xhtml:link[^>]*/>)", r"\g<3>\g<1>\g<2>"), "element-order"),
    Plant("a video's title after its description", FILMS, swapped("video:title", "video:description"), "element-order"),
    Plant("news with the title first", ARTICLES, swapped("news:publication_date", "news:title"), "element-order"),
    Plant("a language before the name", ARTICLES, swapped("news:name", "news:language"), "element-order"),
    Plant("two locs", PAGES, put("(<loc>[^<]*</loc>)", r"\g<1>\g<1>"), "element-repeated"),
    Plant("two lastmods", PAGES, put("(<lastmod>[^<]*</lastmod>)", r"\g<1>\g<1>"), "element-repeated"),
    Plant("two titles of a video", FILMS, put("(<video:title>[^<]*</video:title>)", r"\g<1>\g<1>"), "element-repeated"),
    Plant("two locs of an image", PICTURES, put("(<image:loc>[^<]*</image:loc>)", r"\g<1>\g<1>"), "element-repeated"),
    Plant("two articles of a page", ARTICLES, put("(<news:news>.*?</news:news>)", r"\g<1>\g<1>"), "element-repeated"),
    Plant("no loc", PAGES, without("loc"), "loc-missing"),
    Plant("an empty loc", (*PAGES, *INDEXES), text_of("loc", ""), "loc-missing"),
    Plant("a loc of blanks", PAGES, text_of("loc", "\n  "), "loc-missing"),
    Plant("text between the pages", (*URLSETS, *INDEXES), put("(</url>|</sitemap>)", r"\g<1>and"), "text-stray"),
    Plant("an id of a page", PAGES, attributes("url", 'id="1"'), "attribute-unknown"),
    Plant("a language of a loc", PAGES, attributes("loc", 'xml:lang="en"'), "attribute-unknown"),
    Plant("a version of the root", (*URLSETS, *INDEXES), put("<(urlset|sitemapindex)", r'<\g<1> version="1.0"'), "attribute-unknown"),
    Plant("a type of an image", PICTURES, attributes("image:loc", 'type="jpg"'), "attribute-unknown"),
    Plant("a lang of a title", FILMS, attributes("video:title", 'lang="en"'), "attribute-unknown"),
    Plant("a name of a publication", ARTICLES, attributes("news:publication", 'name="x"'), "attribute-unknown"),
    Plant("a target of a link", LANGUAGES, attributes("xhtml:link", 'target="_top"'), "attribute-unknown"),
    # size and shape
    Plant("50,001 pages", PRODUCTS, rows(50_001, "<url><loc>https://shop.example/many/{n}</loc></url>", "</urlset>"), "too-many-urls"),
    Plant("no pages", URLSETS, put("<url>.*</url>", ""), "sitemap-empty"),
    Plant("no files", INDEXES, put("<sitemap>.*</sitemap>", ""), "index-empty"),
    Plant("1,001 files", INDEXES, rows(1_001, "<sitemap><loc>https://shop.example/many/{n}.xml</loc></sitemap>", "</sitemapindex>"), "index-large"),
    # URLs
    _url("a relative URL", "/b", "loc-relative"),
    _url("a URL without a scheme", "shop.example/b", "loc-relative"),
    _url("ftp", "ftp://shop.example/b", "loc-scheme"),
    _url("a mail address", "mailto:me@shop.example", "loc-scheme"),
    _url("a blank in the host", "https://sh op.example/b", "loc-invalid"),
    _url("a port that is none", "https://shop.example:99999/b", "loc-invalid"),
    _url("2,048 characters", f"https://shop.example/{LONG}", "loc-length"),
    _url("a blank", "https://shop.example/a b", "loc-characters"),
    _url("a quotation mark", 'https://shop.example/a"b"', "loc-characters"),
    _url("a stray percent sign", "https://shop.example/100%", "loc-characters"),
    _url("an umlaut", "https://shop.example/ü", "loc-not-ascii"),
    _url("a host in capitals", "https://SHOP.example/b", "loc-not-canonical"),
    _url("dots in the path", "https://shop.example/a/../b", "loc-not-canonical"),
    _url("an escaped letter", "https://shop.example/%61", "loc-not-canonical"),
    _url("an ampersand escaped twice", "https://shop.example/?a=1&amp;amp;b=2", "loc-escaped-twice"),
    _url("line breaks around it", "\n    https://shop.example/b\n  ", "loc-space"),
    _url("a password", "https://me:secret@shop.example/b", "loc-user"),
    _url("localhost", "http://localhost:3000/b", "loc-private"),
    _url("a loopback address", "http://127.0.0.1:8000/b", "loc-private"),
    _url("a private address", "https://10.1.2.3/b", "loc-private"),
    _url("a name of the own network", "https://shop.local/b", "loc-private"),
    _url("the name of a container", "http://web:8000/b", "loc-private"),
    _url("a fragment", "https://shop.example/b#top", "loc-fragment"),
    _url("a link", "https://shop.example/%3Ca%20href=%22/b%22%3EB%3C/a%3E", "loc-no-address"),
    _url("a number of a spreadsheet", "https://shop.example/p/9.91214E+15", "loc-scientific"),
    _url("an umlaut read as Latin-1", "https://shop.example/%C3%83%C2%B6l", "loc-mojibake"),
    _url("an escape escaped again", "https://shop.example/f%25C3%25BCr", "loc-encoded-twice"),
    _url("a backslash as %5C", "https://shop.example/docs%5Cb", "loc-backslash"),
    _url("two slashes", "https://shop.example/en//b", "loc-empty-segment"),
    _url("the host in the path", "https://shop.example/shop.example/b", "loc-host-in-path"),
    _url("undefined", "https://shop.example/p/undefined", "loc-placeholder"),
    _url("null", "https://shop.example/null/b", "loc-placeholder"),
    _url("NaN", "https://shop.example/?page=NaN", "loc-placeholder"),
    _url("None", "https://shop.example/p/None/", "loc-placeholder"),
    _url("an object", "https://shop.example/%5Bobject%20Object%5D", "loc-placeholder"),
    _url("a session", "https://shop.example/b?PHPSESSID=1", "loc-session"),
    _url("a session in the path", "https://shop.example/b;jsessionid=AB12", "loc-session"),
    _url("a campaign", "https://shop.example/b?utm_source=x", "loc-tracking"),
    _url("http", "http://shop.example/b", "foreign-scheme"),
    _url("another host", "https://www.shop.example/b", "mixed-hosts"),
    Plant("the same page twice", PAGES, moved(0), "duplicate"),
    Plant("a slash at the end as well", ("npm/sitemap-2.xml", "ours/sitemap-plain-00001.xml"), put("<loc>([^<]*)</loc>(.*)</urlset>", r"<loc>\g<1></loc>\g<2><url><loc>\g<1>/</loc></url></urlset>"), "loc-slash"),
    Plant("no slash at the end as well", ("django/sitemap-products.xml",), put("<loc>([^<]*)/</loc>(.*)</urlset>", r"<loc>\g<1>/</loc>\g<2><url><loc>\g<1></loc></url></urlset>"), "loc-slash"),
    Plant("another host than the file's", (*PAGES, *ARTICLES), loc("https://www.shop.example/b"), "foreign-host", options={"at": "https://shop.example/sitemap.xml"}),
    Plant("files above the folder of the index", INDEXES, lambda data: data + b"\n", "index-out-of-scope", options={"at": "https://shop.example/maps/sitemap.xml"}),
    Plant("pages above the folder", PAGES, lambda data: data + b"\n", "out-of-scope", options={"at": "https://shop.example/maps/sitemap.xml"}),
    # dates and hints
    _lastmod("a German date", "21.11.2026", "lastmod-invalid"),
    _lastmod("an American date", "11/21/2026", "lastmod-invalid"),
    _lastmod("no date", "", "lastmod-invalid"),
    _lastmod("a day that is none", "2026-02-30", "lastmod-invalid"),
    _lastmod("a blank for the T", "2026-10-02 10:20:30", "lastmod-invalid"),
    _lastmod("seconds since 1970", "1790000000", "lastmod-invalid"),
    _lastmod("undefined as a date", "undefined", "lastmod-invalid"),
    _lastmod("no zone", "2026-10-02T10:20:30", "lastmod-form"),
    _lastmod("no seconds", "2026-10-02T10:20Z", "lastmod-form"),
    _lastmod("a year", "2026", "lastmod-form"),
    _lastmod("next year", "2027-10-02", "lastmod-future"),
    _lastmod("the epoch", "1970-01-01", "lastmod-old"),
    Plant("one date for all", PRODUCTS, text_of("lastmod", "2026-10-02", every=True), "lastmod-all-same"),
    Plant("the time of the request", PAGES, text_of("lastmod", "2026-11-21T11:59:30Z", every=True), "lastmod-is-now"),
    Plant("no dates at all", PRODUCTS, put("<lastmod>[^<]*</lastmod>", "", every=True), "lastmod-missing"),
    Plant("no dates in the whole set", tuple(file for file in URLSETS if file.startswith("npm/")), put("<lastmod>[^<]*</lastmod>", "", every=True), "lastmod-missing", together=True, whole=True),
    Plant("a changefreq in capitals", ("npm/sitemap-0.xml", "npm/sitemap-2.xml", "django/sitemap-products.xml", "ours/sitemap-media-00001.xml"), text_of("changefreq", "Daily"), "changefreq-invalid"),
    Plant("a changefreq that is none", ("npm/sitemap-0.xml", "npm/sitemap-2.xml", "django/sitemap-products.xml", "ours/sitemap-media-00001.xml"), text_of("changefreq", "often"), "changefreq-invalid"),
    Plant("a priority over 1", ("npm/sitemap-0.xml", "npm/sitemap-2.xml", "django/sitemap-products.xml", "ours/sitemap-media-00001.xml"), text_of("priority", "1.5"), "priority-invalid"),
    Plant("a priority with a comma", ("npm/sitemap-0.xml", "npm/sitemap-2.xml", "django/sitemap-products.xml", "ours/sitemap-media-00001.xml"), text_of("priority", "0,5"), "priority-invalid"),
    Plant("a priority in words", ("npm/sitemap-0.xml", "npm/sitemap-2.xml", "django/sitemap-products.xml", "ours/sitemap-media-00001.xml"), text_of("priority", "high"), "priority-invalid"),
    # index, files, robots.txt
    Plant("a file that is not there", INDEXES, before("</sitemapindex>", "<sitemap><loc>https://shop.example/gone.xml</loc></sitemap>"), "index-file-missing", whole=True),
    Plant("a file that is not listed", INDEXES, without("sitemap"), "file-not-listed", whole=True),
    Plant("a file listed twice", INDEXES, put("(<sitemap>.*?</sitemap>)", r"\g<1>\g<1>"), "index-duplicate"),
    Plant("an index that lists itself", INDEXES, put("(<sitemap><loc>)[^<]*(</loc>)(.*)", r"\g<1>https://shop.example/inner.xml\g<2>\g<3>"), "index-file-missing", frozenset({"file-not-listed"}), whole=True),
    Plant("a relative file", INDEXES, text_of("loc", "/sitemap-1.xml"), "loc-relative"),
    Plant("a file on another host", INDEXES, loc("https://cdn.shop.example/s.xml"), "mixed-hosts"),
    Plant("a file on localhost", INDEXES, loc("http://localhost/s.xml"), "loc-private"),
    Plant("a date of the index in words", INDEXES, text_of("lastmod", "today"), "lastmod-invalid"),
    Plant("an old date in the index", INDEXES, text_of("lastmod", "2020-01-01"), "index-lastmod-old", whole=True),
    Plant("a future date in the index", INDEXES, text_of("lastmod", "2029-01-01"), "lastmod-future"),
    Plant("a copy of the products", PRODUCTS, lambda data: data + b"\n", "duplicate-across", as_name="products-old.xml", whole=True),
    Plant("an older copy of the products", PRODUCTS, put("<url>.*?</url>", ""), "duplicate-across", as_name="products-old.xml", whole=True),
    Plant("an index that robots.txt does not name", ROBOTS, put("Sitemap: [^\n]*", "Sitemap: https://shop.example/other.xml"), "index-not-in-robots", frozenset({"robots-sitemap-missing"}), whole=True),
    Plant("a sitemap of robots.txt that is not there", ROBOTS, lambda data: data + b"Sitemap: https://shop.example/gone.xml\n", "robots-sitemap-missing", whole=True),
    Plant("a relative sitemap in robots.txt", ROBOTS, put("Sitemap: https://shop.example", "Sitemap: "), "robots-sitemap-relative"),
    Plant("a robots.txt that forbids the products", ROBOTS, lambda data: data + b"User-agent: *\nDisallow: /p\n", "loc-disallowed", whole=True),
    Plant("a robots.txt that forbids the sitemaps", ROBOTS, lambda data: data + b"User-agent: *\nDisallow: /sitemap\n", "robots-sitemap-disallowed", whole=True),
    Plant("a robots.txt over 500 KiB", ROBOTS, lambda data: data + b"Disallow: /x\n" * 40_000, "robots-large"),
    Plant("a robots.txt of prose", ROBOTS, lambda data: b"All robots are welcome here\n", "robots-not-text"),
    # hreflang
    _link("a link without href", put(' href="[^"]*"', ""), "hreflang-incomplete"),
    _link("a link without rel", put(' rel="alternate"', ""), "hreflang-incomplete"),
    _link("a link without hreflang", put(' hreflang="[^"]*"', ""), "hreflang-incomplete"),
    _link("a blank hreflang", put(' hreflang="[^"]*"', ' hreflang=""'), "hreflang-invalid"),
    _link("an underscore", put(' hreflang="de[^"]*"', ' hreflang="de_DE"'), "hreflang-invalid"),
    _link("a country that is none", put(' hreflang="en"', ' hreflang="en-UK"'), "hreflang-invalid"),
    _link("a language that is none", put(' hreflang="de[^"]*"', ' hreflang="xx"'), "hreflang-invalid"),
    _link("the name of a language", put(' hreflang="en"', ' hreflang="english"'), "hreflang-invalid"),
    _link("a relative href", href("/de/x"), "hreflang-href"),
    _link("a blank href", href(""), "hreflang-href"),
    _link("an href with ftp", href("ftp://shop.example/de"), "hreflang-href"),
    _link("a blank in an href", href("https://shop.example/de x"), "hreflang-url"),
    _link("a bar in an href", href("https://shop.example/de|x"), "hreflang-url"),
    _link("a stray percent sign in an href", href("https://shop.example/100%"), "hreflang-url"),
    _link("a long href", href(f"https://shop.example/{LONG}"), "hreflang-url"),
    _link("a host with two dots in an href", href("https://shop..example/de"), "hreflang-url"),
    _link("a password in an href", href("https://me:pw@shop.example/de"), "hreflang-url"),
    _link("two pages for a language", put(r'(<xhtml:link rel="alternate" hreflang="en" href=")([^"]*)("/>)', r"\g<1>\g<2>\g<3>\g<1>\g<2>x\g<3>"), "hreflang-two-urls"),
    _link("two defaults", put(r'(<xhtml:link rel="alternate" hreflang="x-default"[^>]*/>)', r"\g<1>\g<1>"), "hreflang-default-twice"),
    _link("a page that leaves itself out", alone, "hreflang-no-self"),
    _link("an alternate that is not listed", href("https://shop.example/nowhere"), "hreflang-unlisted"),
    _link("a page without links back", put(r"(<url>.*?</url>.*?)((?:<xhtml:link [^>]*/>)+)(.*?</url>)", r"\g<1>\g<3>"), "hreflang-no-return"),
    # images
    Plant("an image without loc", PICTURES, without("image:loc"), "image-no-loc"),
    Plant("an image with a blank loc", PICTURES, text_of("image:loc", ""), "image-loc"),
    Plant("a relative image", PICTURES, text_of("image:loc", "/1.jpg"), "image-loc"),
    Plant("an image without scheme", PICTURES, text_of("image:loc", "//cdn.shop.example/1.jpg"), "image-loc"),
    Plant("an image as data", PICTURES, text_of("image:loc", "data:image/png;base64,AAAA"), "image-loc"),
    Plant("a blank in an image's address", PICTURES, text_of("image:loc", "https://cdn.shop.example/a b.jpg"), "image-url"),
    Plant("a stray percent sign in an image's address", PICTURES, text_of("image:loc", "https://cdn.shop.example/100%.jpg"), "image-url"),
    Plant("braces in an image's address", PICTURES, text_of("image:loc", "https://cdn.shop.example/{size}.jpg"), "image-url", frozenset({"image-unlikely"})),
    Plant("an image that is undefined", PICTURES, text_of("image:loc", "https://cdn.shop.example/undefined"), "image-unlikely"),
    Plant("a long image address", PICTURES, text_of("image:loc", f"https://cdn.shop.example/{LONG}"), "image-url"),
    Plant("an image with a password", PICTURES, text_of("image:loc", "https://me:pw@cdn.shop.example/1.jpg"), "image-url"),
    Plant("1,001 images", PICTURES, rows(1, "<url><loc>https://shop.example/many</loc>" + "<image:image><image:loc>https://cdn.shop.example/1.jpg</image:loc></image:image>" * 1001 + "</url>", "</urlset>"), "image-too-many"),
    Plant("a caption", PICTURES, before("</image:image>", "<image:caption>x</image:caption>"), "image-obsolete"),
    Plant("a licence", PICTURES, before("</image:image>", "<image:license>https://shop.example/l</image:license>"), "image-obsolete"),
    # videos
    _video("no title", without("video:title"), "video-incomplete"),
    _video("no description", without("video:description"), "video-incomplete"),
    _video("no thumbnail", without("video:thumbnail_loc"), "video-incomplete"),
    _video("neither file nor player", put("<video:(?:content_loc|player_loc)[^>]*>[^<]*</video:(?:content_loc|player_loc)>", "", every=True), "video-no-content"),
    _video("the page as the file", put(r"(<loc>)([^<]*)(</loc>.*?<video:content_loc>)[^<]*", r"\g<1>\g<2>\g<3>\g<2>"), "video-is-page"),
    _video("an empty title", text_of("video:title", ""), "video-value"),
    _video("a title that is escaped twice", text_of("video:title", "Rock &amp;#039;n&amp;#039; Roll"), "video-unlikely"),
    _video("a title of 101 characters", text_of("video:title", "x" * 101), "video-value"),
    _video("a description of 2,049 characters", text_of("video:description", "x" * 2049), "video-value"),
    _video("a relative thumbnail", text_of("video:thumbnail_loc", "/t.jpg"), "video-value"),
    _video("a thumbnail with a blank", text_of("video:thumbnail_loc", "https://cdn.shop.example/a b.jpg"), "video-value"),
    _video("a duration in minutes", text_of("video:duration", "2:30"), "video-value"),
    _video("a duration of nothing", text_of("video:duration", "0"), "video-value"),
    _video("a duration of a day", text_of("video:duration", "86400"), "video-value"),
    _video("a family that is friendly", text_of("video:family_friendly", "true"), "video-value"),
    _video("live, perhaps", text_of("video:live", "maybe"), "video-value"),
    _video("countries in small letters", text_of("video:restriction", "de fr"), "video-value"),
    _video("a restriction of nothing", put(' relationship="allow"', ""), "video-value"),
    _video("a relationship that is none", put(' relationship="allow"', ' relationship="only"'), "video-value"),
    _video("33 tags", put("(<video:tag>[^<]*</video:tag>)", r"\g<1>" * 33), "video-value"),
    _video("a category", before("<video:family_friendly>", "<video:category>Lamps</video:category>"), "video-obsolete"),
    Plant("a rating of 6", FILMS[:1], text_of("video:rating", "6"), "video-value"),
    Plant("a rating in stars", FILMS[:1], text_of("video:rating", "****"), "video-value"),
    Plant("a view count with a comma", FILMS[:1], text_of("video:view_count", "1,000"), "video-value"),
    Plant("a date in words", FILMS[:1], text_of("video:publication_date", "last week"), "video-value"),
    Plant("an expiry in words", FILMS[:1], text_of("video:expiration_date", "never"), "video-value"),
    Plant("a platform that is none", FILMS[:1], text_of("video:platform", "fridge"), "video-value"),
    Plant("an uploader with a long name", FILMS[:1], text_of("video:uploader", "x" * 256), "video-value"),
    Plant("a player that plays by itself", FILMS[:1], attributes("video:player_loc", 'autoplay="ap=1"'), "video-obsolete"),
    Plant("a price", FILMS[:1], before("<video:requires_subscription>", '<video:price currency="EUR">1.99</video:price>'), "video-obsolete"),
    # news
    Plant("an article of last week", ARTICLES, text_of("news:publication_date", "2026-11-14T10:00:00Z"), "news-too-old"),
    Plant("an article of tomorrow", ARTICLES, text_of("news:publication_date", "2026-11-22T13:00:00Z"), "news-date"),
    Plant("a date of news in words", ARTICLES, text_of("news:publication_date", "20 Nov 2026"), "news-date"),
    Plant("a title of news that is escaped twice", ARTICLES, text_of("news:title", "Rock &amp;amp; Roll"), "news-title-escaped"),
    Plant("an article without title", ARTICLES, without("news:title"), "news-incomplete"),
    Plant("an article with an empty title", ARTICLES, text_of("news:title", " "), "news-incomplete"),
    Plant("an article without date", ARTICLES, without("news:publication_date"), "news-incomplete"),
    Plant("an article without publication", ARTICLES, without("news:publication"), "news-incomplete"),
    Plant("a publication without name", ARTICLES, without("news:name"), "news-incomplete"),
    Plant("a publication without language", ARTICLES, without("news:language"), "news-incomplete"),
    Plant("a language with a country", ARTICLES, text_of("news:language", "en-US"), "news-language"),
    Plant("a language in capitals", ARTICLES, text_of("news:language", "EN"), "news-language"),
    Plant("a language that does not exist", ARTICLES, text_of("news:language", "xx"), "news-language"),
    Plant("a long code that does not exist", ARTICLES, text_of("news:language", "qqq"), "news-language"),
    Plant("a country for a language", ARTICLES, text_of("news:language", "jp"), "news-language"),
    Plant("keywords", ARTICLES, before("</news:news>", "<news:keywords>lamps</news:keywords>"), "news-obsolete"),
    Plant("1,001 articles", ARTICLES, put("(<url>.*?</url>)", r"\g<1>" * 1001), "news-too-many", frozenset({"duplicate"})),
    # text and feeds
    Plant("an empty line", TEXTS, lambda data: data.replace(b"\n", b"\n\n", 1), "text-blank"),
    Plant("a title between the lines", TEXTS, lambda data: data.replace(b"\n", b"\nOur lamps\n", 1), "text-not-url"),
    Plant("a relative line", TEXTS, lambda data: data + b"/b\n", "loc-relative"),
    Plant("a line twice", TEXTS, lambda data: data + data.splitlines(keepends=True)[0], "duplicate"),
    Plant("prose", TEXTS, lambda data: b"Our lamps\nand shades\n", "not-a-sitemap"),
    Plant("RSS 0.91", RSS, put('version="2.0"', 'version="0.91"'), "feed-version"),
    Plant("a channel without title", RSS, without("title"), "feed-incomplete"),
    Plant("a channel without description", RSS, without("description"), "feed-incomplete"),
    Plant("an item without an address", RSS, put("(<item>.*?)<link>[^<]*</link>(.*?)(?:<guid[^>]*>[^<]*</guid>)", r"\g<1>\g<2>"), "feed-no-link"),
    Plant("an item without date", RSS, put("(<item>.*?)<pubDate>[^<]*</pubDate>", r"\g<1>"), "feed-no-date"),
    Plant("an ISO date in RSS", RSS, put("(<item>.*?<pubDate>)[^<]*", r"\g<1>2026-11-01T10:00:00Z"), "feed-date"),
    Plant("a relative link in RSS", RSS, put("(<item>.*?<link>)[^<]*", r"\g<1>/new/1"), "loc-relative"),
    Plant("a campaign in RSS", RSS, put("(<item>.*?<link>[^<]*)", r"\g<1>?utm_source=rss"), "loc-tracking"),
    Plant("an item twice", RSS, put("(<item>.*?</item>)", r"\g<1>\g<1>"), "duplicate"),
    Plant("no items", RSS, put("<item>.*</item>", ""), "sitemap-empty"),
    Plant("Atom 0.3", ATOM, put("http://www.w3.org/2005/Atom", "http://purl.org/atom/ns#"), "feed-obsolete"),
    Plant("a feed without id", ATOM, without("id"), "feed-incomplete"),
    Plant("a feed without updated", ATOM, without("updated"), "feed-incomplete"),
    Plant("an entry without link", ATOM, put("(<entry>.*?)<link [^>]*/>", r"\g<1>"), "feed-no-link"),
    Plant("an entry without updated", ATOM, put("(<entry>.*?)<updated>[^<]*</updated>", r"\g<1>"), "feed-no-date"),
    Plant("a day in Atom", ATOM, put("(<entry>.*?<updated>)[^<]*", r"\g<1>2026-11-01"), "feed-date"),
    Plant("a relative link in Atom", ATOM, put('(<entry>.*?<link [^>]*href=")[^"]*', r"\g<1>/new/1"), "loc-relative"),
    Plant("localhost in Atom", ATOM, put('(<entry>.*?<link [^>]*href=")[^"]*', r"\g<1>http://localhost/new/1"), "loc-private"),
    Plant("no entries", ATOM, put("<entry>.*</entry>", ""), "sitemap-empty"),
]  # fmt: skip
