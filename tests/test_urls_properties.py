"""Rules for all URLs: grammar, length, idempotence, and agreement with other libraries."""

import re
from pathlib import Path

import ada_url
import idna
import numpy as np
import pyarrow as pa
import pytest
import rfc3986
import url_normalize
import w3lib.url
import yarl
from hypothesis import given
from hypothesis import strategies as st

from sitemap_etl import limits
from sitemap_etl.urls import (
    REASONS,
    SESSIONS,
    TRACKING,
    UrlRules,
    canonical_url,
    canonical_urls,
    canonicalize,
    excluded,
    origin,
)
from sitemap_etl.urls.spelling import Normalizer, Rejected

SITE = "https://shop.example"
SAME_AS = ("http://shop.example", "https://www.shop.example:8443")
LIBRARIES_TABLE = Path(__file__).parent / "data" / "url_libraries.md"

# RFC 3986 appendix A, written down here once more: the code has no part in it.
PCT = "%[0-9A-F]{2}"
UNRESERVED = r"[A-Za-z0-9\-._~]"
PCHAR = rf"(?:{UNRESERVED}|{PCT}|[!$&'()*+,;=]|[:@])"
REG_NAME = r"[a-z0-9_\-]+(?:\.[a-z0-9_\-]+)*\.?"
GRAMMAR = re.compile(
    rf"https?://(?:{REG_NAME}|\[[0-9a-f:.]+\])(?::[0-9]{{1,5}})?(?:/{PCHAR}*)+(?:\?(?:{PCHAR}|[/?])*)?", re.ASCII
)
UNRESERVED_ESCAPE = re.compile("%(?:2[DE]|3[0-9]|4[1-9A-F]|5[0-9AF]|6[1-9A-F]|7[0-9AE])")

WORDS = [
    "a",
    "b1",
    "A",
    "Z9",
    "~u",
    "-",
    "_",
    ".",
    "..",
    ".x",
    "/",
    "//",
    "/./",
    "/../",
    "?",
    "&",
    "=",
    "+",
    ";",
    ",",
    ":",
]
WORDS += [
    "@",
    "!",
    "$",
    "'",
    "(",
    ")",
    "*",
    "%41",
    "%7e",
    "%7E",
    "%2f",
    "%2F",
    "%d0%bc",
    "%D0%BC",
    "%FF",
    "%25",
    "%",
    "%4",
]
WORDS += [
    "%zz",
    "%2e",
    "%2E%2e",
    " ",
    '"',
    "<",
    ">",
    "\\",
    "^",
    "`",
    "{",
    "|",
    "}",
    "[",
    "]",
    "#",
    "é",
    "e\u0301",
    "日本",
]
WORDS += [
    "😀",
    "\u00a0",
    "\u200d",
    "\u200b",
    "\ufffd",
    "\t",
    "\n",
    "\x7f",
    "\x85",
    "\ue000",
    "utm_source=1",
    "gclid",
    "id=1",
]
WORDS += [";jsessionid=1", "PHPSESSID=2", "/(S(lit3py55t21z5v55vlm25s55))", "&amp;", "http:", "www."]
STARTS = [
    "",
    "/",
    SITE,
    f"{SITE}/",
    f"{SITE}/",
    f"{SITE}/",
    "HTTPS://Shop.example/",
    "https://shop.example:443/",
    "//shop.example/",
]
STARTS += [
    "http://shop.example/",
    "https://www.shop.example:8443/",
    "https://other.example/",
    "ftp://shop.example/",
    "?",
    "./",
]
STARTS += [
    "https://bücher.example/",
    "http://[::1]/",
    "shop.example/",
    " ",
    "https://",
    "https://me@shop.example/",
    "//",
]

texts = st.builds(
    lambda start, rest: start + "".join(rest), st.sampled_from(STARTS), st.lists(st.sampled_from(WORDS), max_size=12)
)
any_text = st.one_of(texts, st.text(max_size=20), st.text(max_size=20).map(lambda text: f"{SITE}/{text}"))
strips = st.sets(st.sampled_from(["tracking", "sessions"])).map(frozenset)


def one(text: str, rules: UrlRules) -> str:
    """Return loc or reason of a single row, normalized without looking at buffers."""
    try:
        return Normalizer(rules.site, rules.same_as, rules.strip).normalize(text)
    except Rejected as rejected:
        return rejected.args[0]


@given(st.lists(st.one_of(st.none(), any_text), max_size=20), strips, st.data())
def test_columns_are_normalized_like_single_rows(rows, strip, data):
    rules = UrlRules(SITE, SAME_AS, strip)
    kind = data.draw(st.sampled_from([pa.string(), pa.large_string(), pa.binary()]))
    begin = data.draw(st.integers(0, len(rows)))
    result = canonicalize(pa.array(rows, pa.string()).cast(kind).slice(begin), rules)
    got = [
        loc if loc is not None else reason
        for loc, reason in zip(result.loc.to_pylist(), result.reason.to_pylist(), strict=True)
    ]
    assert got == [one(text, rules) if text is not None else "missing loc" for text in rows[begin:]]
    assert all(
        (loc is None) != (reason is None)
        for loc, reason in zip(result.loc.to_pylist(), result.reason.to_pylist(), strict=True)
    )


@given(any_text, strips)
def test_listed_urls_conform_to_rfc_3986_and_are_canonical(text, strip):
    rules = UrlRules(SITE, SAME_AS, strip)
    loc = one(text, rules)
    if loc in REASONS:
        return
    assert GRAMMAR.fullmatch(loc), loc
    assert len(loc) <= limits.LOC_LENGTH
    assert not UNRESERVED_ESCAPE.search(loc)
    assert not {".", ".."} & set(loc.partition("?")[0].split("/")[3:])
    assert loc.startswith(f"{SITE}/")
    assert one(loc, rules) == loc
    again = canonicalize(pa.array([loc]), rules)
    assert again.loc[0].as_py() == loc
    assert again.normalized == 0
    if strip:
        query = loc.partition("?")[2]
        names = {pair.partition("=")[0].lower() for pair in query.split("&")}
        assert not names & ((TRACKING if "tracking" in strip else set()) | (SESSIONS if "sessions" in strip else set()))


@given(st.lists(any_text, max_size=10))
def test_urls_on_any_host_are_normalized_alike_in_a_column_and_alone(rows):
    def alone(text):
        try:
            return canonical_url(text)
        except ValueError as error:
            return str(error)

    result = canonical_urls(pa.array(rows, pa.string()))
    got = [loc or reason for loc, reason in zip(result.loc.to_pylist(), result.reason.to_pylist(), strict=True)]
    assert got == [alone(text) for text in rows]
    assert all(GRAMMAR.fullmatch(loc) for loc in result.loc.drop_null().to_pylist())


@given(
    st.integers(2000, 2060),
    st.sampled_from(["a", "é", "%41", " "]),
    st.sampled_from(["", f"{SITE}/", "http://shop.example/"]),
)
def test_no_loc_is_longer_than_the_protocol_allows(length, piece, start):
    result = canonicalize(pa.array([start + "b" * length + piece]), UrlRules(SITE, SAME_AS))
    wanted = len(SITE) + 1 + length + {"a": 1, "é": 6, "%41": 1, " ": 0}[piece]  # the space is trimmed
    if wanted <= limits.LOC_LENGTH:
        assert len(result.loc[0].as_py()) == wanted
    else:
        assert result.reason[0].as_py() == "too long"


def test_strip_keeps_the_rest_of_a_query_byte_for_byte_and_in_order():
    @given(
        st.lists(
            st.sampled_from(["b=1", "a=2", "utm_x=3", "GCLID=4", "a", "", "x=%26", "y=+", "ref=5", "sid=6"]), min_size=1
        )
    )
    def check(pairs):
        kept = [pair for pair in pairs if not pair.lower().startswith(("utm_", "gclid"))]
        query = "&".join(kept)
        wanted = f"{SITE}/p" + (f"?{query}" if query or len(kept) == len(pairs) else "")
        assert one(f"/p?{'&'.join(pairs)}", UrlRules(SITE, strip=frozenset({"tracking"}))) == wanted

    check()


# --- other libraries, each on what it means to normalise as we do --------------------------------

SPELLED = [
    "a",
    "B",
    "~",
    "-x",
    "_",
    ".x",
    "/",
    "/./",
    "/../",
    "+",
    ";v=1",
    ",",
    ":",
    "@",
    "!",
    "$",
    "(",
    ")",
    "*",
    "%2F",
    "%25",
    "%D0%BC",
]


def urls_of(*pieces: str, query: tuple[str, ...] = ("q=1", "&", "=", "a+b", "%26", "/", "?")) -> st.SearchStrategy[str]:
    """Absolute URLs with a path of these pieces, and sometimes a query."""
    path = st.lists(st.sampled_from(SPELLED + list(pieces)), max_size=8).map("".join)
    queries = st.lists(st.sampled_from(query), min_size=1, max_size=5).map("".join).map("?".__add__)
    hosts = st.sampled_from(["https://shop.example/", "HTTP://Shop.Example/", "https://shop.example:8443/"])
    return st.builds(lambda host, rest, tail: host + rest + tail, hosts, path, st.one_of(st.just(""), queries))


@given(urls_of("%d0", "%2f", "é", "x y", "^", "{|}", '"', "//"))
def test_urls_are_normalized_as_by_rfc3986(url):
    assert canonical_url(url) == rfc3986.normalize_uri(url)


@given(urls_of("%d0", "%2f", "%7e", "%41", "%2e%2E", "é", "日本", "x y", "^", "{|}", "[1]", '"', "%zz", "%", "//"))
def test_urls_are_normalized_as_by_yarl(url):
    assert canonical_url(url) == str(yarl.URL(url))


@given(
    urls_of(
        "é",
        "日本",
        "x y",
        "^",
        "{}",
        '"',
        "`",
        "//",
        query=("q=1", "&", "=", "a+b", "%26", "/", "?", "é", "x y", '"', "<>"),
    )
)
def test_urls_are_normalized_as_by_ada(url):
    assert canonical_url(url) == ada_url.normalize_url(url)


@given(
    urls_of(
        "%d0",
        "%2f",
        "%7e",
        "%41",
        "é",
        "日本",
        "x y",
        "^",
        "{|}",
        '"',
        "%zz",
        "\\",
        query=("&q=1", "&a+b", "&%26", "&é=x y"),
    )
)
def test_urls_are_normalized_as_by_url_normalize(url):
    url = url.replace("?&", "?").replace("\\", "/")  # as browsers read it, and url_normalize does not
    if "//" not in url.partition("?")[0][8:]:
        assert canonical_url(url) == url_normalize.url_normalize(url)


@given(
    st.sampled_from(["https", "http"]),
    st.lists(st.text("abcäößéжцπςא日本\u30fbａ1-", min_size=1, max_size=8), min_size=1, max_size=3),
)
def test_hosts_are_converted_as_by_idna(scheme, labels):
    host = ".".join([*labels, "example"])
    try:
        encoded = idna.encode(host, uts46=True).decode()
    except idna.IDNAError:
        return  # it refuses more (IDNA 2008), as for symbols and mixed directions
    assert origin(f"{scheme}://{host}/") == f"{scheme}://{encoded}"


LIBRARIES = {
    "ada-url": ada_url.normalize_url,
    "yarl": lambda url: str(yarl.URL(url)),
    "url-normalize": url_normalize.url_normalize,
    "w3lib": w3lib.url.canonicalize_url,
    "rfc3986": rfc3986.normalize_uri,
}


def disagreements() -> list[tuple[str, str, dict[str, str]]]:
    """Return the rows of the table of libraries: input, our result, the others'; "=" means ours."""
    part = LIBRARIES_TABLE.read_text("utf-8").split("\n## Where libraries differ\n")[1].split("\n## ")[0]
    lines = [
        [c.strip() for c in line.strip().strip("|").split(" | ")] for line in part.splitlines() if line.startswith("|")
    ]
    assert lines[0][2:] == list(LIBRARIES)
    bare = [[cell.strip("`") for cell in cells] for cells in lines[2:]]
    return [
        (source, ours, dict(zip(LIBRARIES, [ours if c == "=" else c for c in others], strict=True)))
        for source, ours, *others in bare
    ]


def test_differences_from_other_libraries_are_as_documented():
    rows = disagreements()
    assert len(rows) >= 20
    for source, ours, others in rows:
        url = source if "://" in source else SITE + source
        cut = SITE if "://" not in source else ""
        assert canonical_url(url) == cut + ours
        assert {name: library(url) for name, library in LIBRARIES.items()} == {
            name: cut + text for name, text in others.items()
        }
        assert set(others.values()) != {ours}, f"all agree about {source}: no disagreement"


# --- patterns ---------------------------------------------------------------------------------

paths = st.lists(st.sampled_from(["a", "b", "/", "?", "&", "=", ".", "%2A", "$", "*"]), max_size=8).map("".join)
patterns = st.builds(
    lambda start, body, end: start + body + end,
    st.sampled_from(["/", "*"]),
    st.lists(st.sampled_from(["a", "b", "/", "*", "?", "=", ".", "$", "%2A"]), max_size=5).map("".join),
    st.sampled_from(["", "$"]),
)


def matches(pattern: str, path: str) -> bool:
    """Match as in RFC 9309 section 2.2.3 by trying every way, without expressions."""
    end = pattern.endswith("$")
    reached = {0}
    for char in pattern[:-1] if end else pattern:
        if char == "*":
            reached = set(range(min(reached), len(path) + 1)) if reached else set()
        else:
            reached = {at + 1 for at in reached if path[at : at + 1] == char}
    return len(path) in reached if end else bool(reached)


@given(st.lists(paths, min_size=1, max_size=12), st.lists(patterns, max_size=4), st.booleans())
def test_exclude_matches_as_defined(rows, chosen, other_host):
    locs = canonicalize(pa.array([f"{SITE}/{path}" for path in rows]), UrlRules(SITE)).loc
    known = [loc[len(SITE) :] for loc in locs.to_pylist()]
    if other_host:
        locs = pa.concat_arrays([locs, pa.array(["http://b.example:8080/a"])])
        known.append("/a")
    wanted = [any(matches(pattern, path) for pattern in chosen) for path in known]
    assert excluded(locs, chosen).to_pylist() == wanted


@pytest.mark.parametrize("rows", [1, 1000, 70_000])
def test_columns_larger_than_a_block_are_normalized_correctly(rows):
    """Over block borders: every row has one random oddity or none."""
    random = np.random.default_rng(rows)
    tails = ["", "#x", " y", "é", "/../z", "%7e", "%d0", "?utm_a=1", "?id=2", "%", ";jsessionid=3"]
    starts = [SITE, "", "http://shop.example", "HTTPS://shop.example"]
    picks = zip(
        random.integers(0, len(starts), rows),
        random.integers(0, len(tails), rows),
        random.integers(0, 90, rows),
        strict=True,
    )
    texts = [f"{starts[a]}/{'p' * n}{tails[b]}" for a, b, n in picks]
    rules = UrlRules(SITE, SAME_AS, frozenset({"tracking", "sessions"}))
    known = {text: one(text, rules) for text in set(texts)}
    result = canonicalize(pa.array(texts), rules)
    got = [loc or reason for loc, reason in zip(result.loc.to_pylist(), result.reason.to_pylist(), strict=True)]
    assert got == [known[text] for text in texts]
