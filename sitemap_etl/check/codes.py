"""Every fault that `check` can find: a stable code, how bad it is, what it is, how to mend it.

The table in `docs/checks.md` is `as_markdown()`. A code never changes its meaning; new ones may come.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Severity = Literal["error", "warning", "info"]

SEVERITIES: Final[tuple[Severity, ...]] = ("error", "warning", "info")
"""Worst first."""


@dataclass(frozen=True)
class Code:
    """One kind of fault.

    `error`: a reader drops the file or the URL. `warning`: it is read, but not as meant, or only by some.
    `info`: worth knowing, often intended.
    """

    code: str
    severity: Severity
    title: str
    mend: str


_GROUPS: Final[dict[str, tuple[Code, ...]]] = {
    "Reaching the file": (
        Code("unreachable", "error", "the server did not answer", "See that the address resolves and answers in time."),
        Code("http-status", "error", "the server answered with an error", "Serve the file with status 200."),
        Code("redirect", "warning", "the address redirects", "Name the final address wherever the file is listed."),
        Code("redirect-limit", "error", "too many redirects", "Name the final address; break the circle."),
        Code(
            "private-address",
            "error",
            "a public sitemap leads to a private address; it was not read",
            "List public addresses only, or allow private ones if this network is yours.",
        ),
        Code(
            "content-type",
            "warning",
            "the content type does not fit the file",
            "Serve XML as application/xml, text as text/plain, .gz as application/gzip.",
        ),
        Code(
            "content-encoding",
            "error",
            "the content encoding can't be read",
            "Serve the file plain or with gzip: sitemap readers know no other.",
        ),
        Code("html-page", "error", "this is an HTML page", "Serve the sitemap itself, not an error or login page."),
        Code("not-a-sitemap", "error", "this is no sitemap, index, feed or robots.txt", "See what wrote this file."),
        Code(
            "not-followed",
            "info",
            "the index was read alone: none of its files is beside it",
            "Give the folder, or the index's address, to have its files checked.",
        ),
        Code(
            "files-not-read",
            "warning",
            "there are more files than were allowed to be read",
            "Raise the limit of files, or check the set in parts.",
        ),
    ),
    "Compression and encoding": (
        Code("gzip-truncated", "error", "the gzip data ends too early", "Write or upload the file again, completely."),
        Code("gzip-damaged", "error", "the gzip data is damaged", "Compress and upload the file again, as binary."),
        Code("gzip-trailing", "warning", "bytes follow the gzip data", "Replace the file instead of writing over it."),
        Code("gzip-in-gzip", "error", "gzip inside gzip", "Compress once."),
        Code("gzip-missing", "error", "the name ends in .gz, the data is not gzip", "Compress it, or drop the .gz."),
        Code("gzip-unnamed", "warning", "gzip data without .gz in the name", "Name it .gz, or serve it plain."),
        Code(
            "gzip-encoded",
            "warning",
            "a .gz file is served with Content-Encoding: gzip, so readers may unpack it twice",
            "Serve .gz as application/gzip without Content-Encoding.",
        ),
        Code("bom", "warning", "a byte order mark is at the beginning", "Write UTF-8 without a byte order mark."),
        Code("leading-space", "error", "blanks before the first character", "Begin the file with <?xml or <urlset."),
        Code("not-utf8", "error", "the file is not UTF-8", "Write the file in UTF-8 and declare no other encoding."),
        Code(
            "too-many-bytes",
            "error",
            "the file is larger than 52,428,800 bytes uncompressed; only its beginning was read",
            "Cut it into several files and list them in an index.",
        ),
    ),
    "XML": (
        Code("xml-malformed", "error", "the XML is not well-formed", "Escape & and <, close every element."),
        Code("xml-doctype", "warning", "a document type is declared", "Leave out <!DOCTYPE: no reader needs it."),
        Code(
            "xml-entities",
            "error",
            "entities are declared; they were not expanded and the rest was not read",
            "Write the characters themselves; declare no entities.",
        ),
        Code("xml-deep", "error", "the elements are nested too deeply; nothing was read", "See what wrote this file."),
        Code(
            "namespace-missing",
            "error",
            "the namespace is missing",
            'Write <urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">.',
        ),
        Code(
            "namespace-wrong",
            "error",
            "the namespace is wrong",
            "Use exactly http://www.sitemaps.org/schemas/sitemap/0.9: http, no www variants, no slash at its end.",
        ),
        Code("prefix-undeclared", "error", "a prefix is not declared", "Declare the namespace on the root element."),
        Code("element-unknown", "error", "the element does not belong here", "Use the elements of the protocol only."),
        Code(
            "element-order",
            "error",
            "the elements are in the wrong order",
            "Follow the schema: loc, lastmod, changefreq, priority, then extensions.",
        ),
        Code("element-repeated", "error", "an element that may stand once stands again", "Keep one of them."),
        Code("loc-missing", "error", "an entry has no loc", "Give every entry a loc with the full URL."),
        Code("text-stray", "error", "text stands between elements", "Put text into elements only."),
        Code(
            "extension-namespace",
            "error",
            "an extension's namespace is misspelt, so its elements are not seen",
            "Copy the namespace from the search engine's page, with http: and the version.",
        ),
        Code("extension-unknown", "warning", "an extension is unknown", "Leave out what no search engine reads."),
    ),
    "Size and shape": (
        Code("too-many-urls", "error", "more than 50,000 URLs in one file", "Cut it into several files."),
        Code("sitemap-empty", "error", "there is no URL in it", "Leave an empty file out of the index."),
        Code("too-many-files", "error", "more than 50,000 files in one index", "Write several indexes."),
        Code(
            "index-large",
            "warning",
            "more than 1,000 files in one index: Search Console has refused that",
            "Write several indexes and name each in robots.txt.",
        ),
        Code("index-empty", "error", "there is no file in the index", "List at least one sitemap."),
        Code("index-nested", "error", "an index lists another index", "List sitemaps only; submit each index itself."),
    ),
    "URLs": (
        Code("loc-relative", "error", "the URL is not absolute", "Write it with scheme and host."),
        Code("loc-scheme", "error", "the URL is neither http nor https", "List http and https pages only."),
        Code("loc-invalid", "error", "the URL can't be read as one", "Write it as RFC 3986 says."),
        Code(
            "loc-length", "error", "the URL is longer than 2,047 characters", "Shorten it: less than 2,048 are allowed."
        ),
        Code("loc-characters", "error", "characters that a URL may not hold", "Percent-encode them."),
        Code(
            "loc-not-ascii", "warning", "the URL is not ASCII", "Percent-encode the path, write the host in punycode."
        ),
        Code("loc-not-canonical", "warning", "the URL is not in canonical form", "Write it as RFC 3986 6.2.2 says."),
        Code("loc-escaped-twice", "error", "the URL is escaped twice", "Escape & to &amp; once."),
        Code("loc-space", "warning", "blanks around a value", "Write the value right between the tags."),
        Code("loc-user", "error", "the URL holds a user name or password", "Take it out, and change the password."),
        Code("loc-fragment", "warning", "the URL has a fragment", "Drop everything from the # on."),
        Code("loc-session", "warning", "the URL holds a session id", "List the URL without it."),
        Code("loc-tracking", "info", "the URL holds tracking parameters", "List the page without them."),
        Code("loc-disallowed", "warning", "robots.txt forbids the URL", "Take it out of the sitemap or allow it."),
        Code("foreign-scheme", "error", "http and https are mixed", "List the pages under one scheme, the sitemap's."),
        Code(
            "foreign-host",
            "error",
            "the URL is on another host than the sitemap",
            "Move the sitemap to that host, or name it in that host's robots.txt.",
        ),
        Code("mixed-hosts", "error", "one file lists several hosts", "Write one sitemap for each host."),
        Code(
            "out-of-scope",
            "warning",
            "the URL is not below the sitemap's folder",
            "Move the sitemap up, or name it (or its index) in robots.txt.",
        ),
        Code("duplicate", "warning", "the URL is listed twice in this file", "List each URL once."),
        Code("duplicate-across", "warning", "the URL is listed in another file too", "List each URL in one file."),
    ),
    "Dates and hints": (
        Code("lastmod-invalid", "error", "the date can't be read", "Write YYYY-MM-DD or YYYY-MM-DDThh:mm:ssZ."),
        Code(
            "lastmod-form",
            "warning",
            "the date has a form that not every reader takes",
            "Write YYYY-MM-DD, or the time with seconds and an offset.",
        ),
        Code(
            "lastmod-future", "warning", "the date is in the future", "Mind the time zone; leave out what is unknown."
        ),
        Code("lastmod-old", "warning", "the date is before 1990", "Leave lastmod out where it is unknown."),
        Code(
            "lastmod-all-same",
            "warning",
            "all pages have the same lastmod",
            "Write when each page changed, not when the file was made; or leave it out.",
        ),
        Code(
            "lastmod-is-now",
            "warning",
            "all lastmods are the moment of reading",
            "Write when each page changed, not when the file was asked for.",
        ),
        Code(
            "changefreq-invalid",
            "error",
            "the changefreq is no word of the protocol",
            "Use always … never, in lower case, without blanks.",
        ),
        Code("priority-invalid", "error", "the priority is not 0.0 to 1.0", "Write a decimal number such as 0.5."),
    ),
    "Index, files, robots.txt": (
        Code(
            "index-file-missing", "error", "the index lists a file that is not there", "Publish the file or unlist it."
        ),
        Code("file-not-listed", "warning", "no index lists this file", "List it, or delete it."),
        Code("index-duplicate", "warning", "the index lists a file twice", "List each file once."),
        Code(
            "index-lastmod-old",
            "warning",
            "the index says the file is older than a page in it",
            "Write into the index when the file last changed.",
        ),
        Code(
            "index-lastmod-all-same",
            "info",
            "all files of the index have the same lastmod",
            "Fine on a first night; later only changed files should get a new date.",
        ),
        Code(
            "index-not-in-robots",
            "warning",
            "robots.txt does not name this index",
            "Add a Sitemap: line with its address.",
        ),
        Code(
            "robots-sitemap-missing",
            "error",
            "robots.txt names a sitemap that is not there",
            "Publish it or remove the line.",
        ),
        Code("robots-sitemap-relative", "error", "a Sitemap: line is not absolute", "Write the full URL."),
        Code("robots-sitemap-disallowed", "error", "robots.txt forbids its own sitemap", "Allow the sitemap's path."),
        Code(
            "robots-large",
            "warning",
            "robots.txt is over 500 KiB: the rest is ignored",
            "Shorten it; put Sitemap: lines first.",
        ),
        Code(
            "robots-not-text",
            "error",
            "robots.txt is not plain UTF-8 text",
            "Serve plain text, one field: value a line.",
        ),
        Code(
            "robots-unavailable",
            "warning",
            "robots.txt can't be read: engines may stop crawling",
            "Serve it, or answer 404.",
        ),
    ),
    "hreflang": (
        Code(
            "hreflang-incomplete", "error", "an xhtml:link lacks rel, hreflang or href", "Write all three attributes."
        ),
        Code(
            "hreflang-invalid",
            "error",
            "the hreflang is no language code",
            "Use ISO 639-1, if need be with a region of ISO 3166-1.",
        ),
        Code("hreflang-href", "error", "the href is not an absolute URL", "Write it with scheme and host."),
        Code("hreflang-two-urls", "error", "two URLs for one language", "Keep one URL for each hreflang."),
        Code("hreflang-default-twice", "error", "x-default stands twice", "Keep one x-default."),
        Code(
            "hreflang-no-self",
            "warning",
            "the page is not among its own alternates",
            "List every variant, the page itself included.",
        ),
        Code(
            "hreflang-no-return",
            "warning",
            "an alternate does not link back",
            "Give all pages of the group the same links.",
        ),
        Code(
            "hreflang-unlisted",
            "info",
            "an alternate is listed in none of these files",
            "List every variant of the page.",
        ),
    ),
    "Images": (
        Code("image-no-loc", "error", "an image has no loc", "Give every image:image an image:loc."),
        Code("image-loc", "error", "the image's URL is not absolute http(s)", "Write it with scheme and host."),
        Code("image-too-many", "error", "more than 1,000 images on one page", "List at most 1,000."),
        Code("image-obsolete", "warning", "an image element that Google removed in 2022", "Keep image:loc only."),
    ),
    "Videos": (
        Code(
            "video-incomplete",
            "error",
            "a video lacks a required element",
            "Give thumbnail_loc, title and description.",
        ),
        Code("video-no-content", "error", "a video has neither content_loc nor player_loc", "Give one of them."),
        Code("video-is-page", "error", "the video's address is the page itself", "Name the video file or the player."),
        Code("video-value", "error", "a value of a video is not allowed", "See Google's page on video sitemaps."),
        Code("video-obsolete", "warning", "a video element or attribute that Google removed", "Leave it out."),
    ),
    "News": (
        Code(
            "news-too-old", "warning", "the article is older than 48 hours", "Take the news element out after two days."
        ),
        Code("news-too-many", "error", "more than 1,000 articles in one file", "Write several news sitemaps."),
        Code(
            "news-incomplete",
            "error",
            "a news element lacks a required part",
            "Give publication (name, language), publication_date, title.",
        ),
        Code(
            "news-language",
            "error",
            "the language is not allowed",
            "Use two or three lower-case letters, zh-cn or zh-tw.",
        ),
        Code(
            "news-date",
            "error",
            "the publication date can't be read or is in the future",
            "Write YYYY-MM-DDThh:mm:ssZ.",
        ),
        Code("news-obsolete", "info", "a news element that Google no longer documents", "Leave it out."),
    ),
    "Text and feeds": (
        Code("text-blank", "warning", "there are empty lines", "One URL a line, nothing else."),
        Code("text-not-url", "error", "a line is not a URL", "One full URL a line, nothing else."),
        Code("feed-version", "error", "the feed is neither RSS 2.0 nor Atom 1.0", "Write RSS 2.0 or Atom 1.0."),
        Code("feed-obsolete", "warning", "Atom 0.3 is obsolete", "Write Atom 1.0."),
        Code(
            "feed-incomplete",
            "error",
            "the feed lacks a required element",
            "Give title, link and description, or id, title and updated.",
        ),
        Code("feed-no-link", "error", "an item has no link", "Give every item the address of its page."),
        Code("feed-no-date", "warning", "an item has no date", "Give pubDate (RSS) or updated (Atom)."),
        Code("feed-date", "error", "the date can't be read", "RSS takes RFC 822 dates, Atom RFC 3339."),
    ),
}

GROUPS: Final[dict[str, tuple[str, ...]]] = {group: tuple(c.code for c in codes) for group, codes in _GROUPS.items()}
CODES: Final[dict[str, Code]] = {c.code: c for codes in _GROUPS.values() for c in codes}
"""All codes, in the order of the documentation."""


def as_markdown() -> str:
    """The tables of `docs/checks.md`: one for each group, in order."""
    parts = []
    for group, codes in _GROUPS.items():
        parts.append(f"### {group}\n\n| code | severity | what it is | how to mend it |\n|---|---|---|---|\n")
        parts.extend(f"| `{c.code}` | {c.severity} | {_cell(c.title)} | {_cell(c.mend)} |\n" for c in codes)
        parts.append("\n")
    return "".join(parts)


def _cell(text: str) -> str:
    """Text that Markdown shows as it is, with a capital."""
    escaped = text.replace("<", "\\<").replace(">", "\\>").replace("|", "\\|").replace("&", "&amp;")
    return escaped[:1].upper() + escaped[1:]


def written_into(document: str) -> str:
    """The document with the tables between its two marks renewed."""
    before, begin, rest = document.partition("<!-- codes begin -->\n")
    _, end, after = rest.partition("<!-- codes end -->")
    if not end:
        raise ValueError("the document lacks the marks <!-- codes begin --> and <!-- codes end -->")
    return f"{before}{begin}\n{as_markdown()}{end}{after}"
