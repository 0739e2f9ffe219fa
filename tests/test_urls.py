"""The canonical form of a loc, case by case; a column is normalized like its single rows."""

import ast
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from url_cases import ON_ANY_HOST, ON_SITE, SAME_AS, SITE, STRIPPED, No

from sitemap_etl import limits
from sitemap_etl.errors import ConfigError, InvalidSource
from sitemap_etl.urls import (
    PLACEHOLDERS,
    REASONS,
    SESSION_FAMILIES,
    SESSIONS,
    TRACKING,
    TRACKING_FAMILIES,
    Canonical,
    UrlRules,
    as_listed,
    canonical_url,
    canonical_urls,
    canonicalize,
    excluded,
    merge_foreign,
    origin,
)

RULES = UrlRules(SITE, SAME_AS)
PLAIN = UrlRules(SITE)
PAGE = Path(__file__).parent.parent / "docs" / "reference" / "urls.md"


def answers(result: Canonical) -> list[str]:
    """Return loc or reason of every row; exactly one of them must be set."""
    pairs = list(zip(result.loc.to_pylist(), result.reason.to_pylist(), strict=True))
    assert all((loc is None) != (reason is None) for loc, reason in pairs)
    return [loc if loc is not None else reason for loc, reason in pairs]


def column(cases) -> pa.Array:
    return pa.array([text for text, _ in cases], pa.string())


def test_the_table_of_url_cases_is_large_enough():
    assert len({text for text, _ in ON_SITE}) >= 150


@pytest.mark.parametrize(("text", "wanted"), ON_SITE, ids=lambda value: ascii(value)[:60])
def test_a_loc_becomes_canonical_or_is_rejected(text, wanted):
    result = canonicalize(pa.array([text], pa.string()), RULES)
    assert answers(result) == [wanted]
    assert result.reason[0].is_valid == isinstance(wanted, No)


@pytest.mark.parametrize(("text", "wanted"), ON_ANY_HOST, ids=lambda value: ascii(value)[:60])
def test_a_url_on_any_host_becomes_canonical_or_is_rejected(text, wanted):
    assert answers(canonical_urls(pa.array([text], pa.string()))) == [wanted]
    if text is None:
        return
    if isinstance(wanted, No):
        with pytest.raises(ValueError, match=f"^{wanted}$"):
            canonical_url(text)
    else:
        assert canonical_url(text) == wanted


@pytest.mark.parametrize(("text", "tracking", "sessions"), STRIPPED, ids=lambda value: value[:50])
def test_strip_removes_only_the_listed_parameters(text, tracking, sessions):
    for strip, wanted in (({"tracking"}, tracking), ({"sessions"}, sessions)):
        rules = UrlRules(SITE, strip=frozenset(strip))
        # The neighbours' bytes must not make a parameter of this row's end.
        rows = pa.array(["/gclid", text, "utm_source=x", SITE + "/?gcl"])
        assert answers(canonicalize(rows, rules))[1] == SITE + wanted


def test_strip_works_at_the_first_byte_of_a_column():
    rules = UrlRules(SITE, strip=frozenset({"tracking"}))
    assert answers(canonicalize(pa.array(["?gclid=1&a=2", "/b"]), rules)) == [f"{SITE}/?a=2", f"{SITE}/b"]


def test_strip_recognizes_every_listed_name_in_any_case():
    names = sorted(TRACKING | SESSIONS) + [f + "x" for f in TRACKING_FAMILIES + SESSION_FAMILIES]
    rules = UrlRules(SITE, strip=frozenset({"tracking", "sessions"}))
    for spelled in (names, [name.upper() for name in names]):
        rows = pa.array([f"{SITE}/a?b=1&{name}=2&c=3" for name in spelled] + [f"/a?{name}" for name in spelled])
        assert answers(canonicalize(rows, rules)) == [f"{SITE}/a?b=1&c=3"] * len(names) + [f"{SITE}/a"] * len(names)


def test_strip_keeps_meaningful_parameters():
    for name in ("sid", "ref", "source", "cid", "uid", "id", "page"):
        assert name not in TRACKING | SESSIONS
        assert not name.startswith(TRACKING_FAMILIES + SESSION_FAMILIES)


def test_a_column_is_normalized_like_its_single_rows():
    assert answers(canonicalize(column(ON_SITE), RULES)) == [wanted for _, wanted in ON_SITE]
    assert answers(canonical_urls(column(ON_ANY_HOST))) == [wanted for _, wanted in ON_ANY_HOST]


def test_canonical_urls_are_unchanged():
    for cases, again in ((ON_SITE, lambda c: canonicalize(c, RULES)), (ON_ANY_HOST, canonical_urls)):
        listed = pa.array([wanted for _, wanted in cases if not isinstance(wanted, No)])
        result = again(listed)
        assert result.loc.equals(listed)
        assert result.normalized == 0


@pytest.mark.parametrize(
    "kind",
    [
        pa.string(),
        pa.large_string(),
        pa.string_view(),
        pa.binary(),
        pa.large_binary(),
        pa.binary_view(),
        pa.dictionary(pa.int32(), pa.string()),
        pa.dictionary(pa.int16(), pa.large_string()),
    ],
    ids=str,
)
def test_all_text_types_are_normalized_alike(kind):
    rows = column(ON_SITE)
    rows = rows.dictionary_encode().cast(kind) if pa.types.is_dictionary(kind) else rows.cast(kind)
    result = canonicalize(rows, RULES)
    assert answers(result) == [wanted for _, wanted in ON_SITE]
    assert result.loc.type == result.reason.type == pa.string()


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.binary()], ids=str)
def test_slices_and_chunks_are_normalized_alike(kind):
    rows = column(ON_SITE).cast(kind)
    wanted = [answer for _, answer in ON_SITE]
    for begin, length in ((0, 0), (0, 1), (1, 1), (7, 90), (60, 150), (len(rows) - 1, 1)):
        assert answers(canonicalize(rows.slice(begin, length), RULES)) == wanted[begin : begin + length]
    chunks = pa.chunked_array([rows.slice(0, 50), rows.slice(50, 0), rows.slice(50)])
    result = canonicalize(chunks, RULES)
    assert isinstance(result.loc, pa.ChunkedArray)
    assert answers(result) == wanted
    assert result.normalized == canonicalize(rows, RULES).normalized


def test_an_empty_or_all_null_column_is_accepted():
    assert answers(canonicalize(pa.array([], pa.string()), RULES)) == []
    assert answers(canonicalize(pa.chunked_array([], pa.string()), RULES)) == []
    assert answers(canonicalize(pa.nulls(3), RULES)) == ["missing loc"] * 3
    assert answers(canonical_urls(pa.nulls(2, pa.string()))) == ["missing loc"] * 2


def test_bytes_under_a_null_are_ignored():
    text = b"/a#%zz \xff/b"
    offsets = np.array([0, 2, 8, 10], np.int32)
    buffers = [pa.py_buffer(b"\x05"), pa.py_buffer(offsets), pa.py_buffer(text)]
    rows = pa.Array.from_buffers(pa.string(), 3, buffers)
    assert rows.is_valid().to_pylist() == [True, False, True]
    assert answers(canonicalize(rows, PLAIN)) == [f"{SITE}/a", "missing loc", f"{SITE}/b"]


def test_invalid_utf8_rejects_only_its_row():
    data = [f"{SITE}/a".encode(), b"/caf\xe9", "/café".encode(), b"\xff", None, b"/a b#c"]
    wanted = [f"{SITE}/a", "not UTF-8", f"{SITE}/caf%C3%A9", "not UTF-8", "missing loc", f"{SITE}/a%20b"]
    for kind in (pa.binary(), pa.large_binary(), pa.binary_view()):
        assert answers(canonicalize(pa.array(data, kind), PLAIN)) == wanted
    # A column that says it is text, from a producer that doesn't check.
    assert answers(canonicalize(pa.array(data, pa.binary()).view(pa.string()), PLAIN)) == wanted
    assert answers(canonicalize(pa.array(data, pa.large_binary()).view(pa.large_string()), PLAIN)) == wanted


def test_a_column_that_is_not_text_is_an_error_with_its_type():
    with pytest.raises(InvalidSource, match="int64"):
        canonicalize(pa.array([1]), PLAIN)


def test_a_canonical_column_is_returned_without_a_copy():
    rows = pa.array([f"{SITE}/product/{i}?page={i}" for i in range(1000)])
    result = canonicalize(rows, PLAIN)
    assert result.loc.buffers()[2].address == rows.buffers()[2].address
    assert result.reason.null_count == 1000


def test_normalized_counts_rows_whose_spelling_changed():
    rows = ["/a", "a", "?b", f"{SITE}/a", f"{SITE}/A b", f"{SITE}/%d0", "http://shop.example/a", f"{SITE}/#", None, "#"]
    result = canonicalize(pa.array(rows), RULES)
    assert result.normalized == 4
    assert canonicalize(pa.array(rows[:4]), RULES).normalized == 0


def test_the_most_frequent_foreign_origins_are_named():
    rows = pa.array(["https://a.example/1"] * 2 + ["http://B.example:80/"] * 5 + ["/x", "ftp://c.example/"])
    result = canonicalize(rows, PLAIN)
    assert list(result.foreign.items()) == [("http://b.example", 5), ("https://a.example", 2)]
    assert merge_foreign([result.foreign, {"https://a.example": 9}]) == {"https://a.example": 11, "http://b.example": 5}


@pytest.mark.parametrize(
    "odd", ["/.", "%zz", "%4", "%4a", "%", "é", " ", "#", "?utm_x=1", "?b&gclid=2", ";jsessionid=3"]
)
def test_text_to_normalize_is_found_across_block_boundaries(odd):
    """The buffer is searched in blocks of 256 KiB; a marker may span two of them."""
    block = 1 << 18
    rules = UrlRules(SITE, strip=frozenset({"tracking", "sessions"}))
    line = f"{SITE}/{'a' * 1000}"
    for shift in range(-len(odd) - 2, 3):
        at = block + shift
        rows = [line] * (at // len(line))
        rest = at - len(line) * len(rows)
        start = f"{SITE}/"
        if rest < len(start) + 1:
            rest += len(rows.pop())
        before = start + "b" * (rest - len(start))
        rows += [before + odd + "/c", line, before + odd, "c" * 2]
        result = canonicalize(pa.array(rows), rules)
        alone = [answers(canonicalize(pa.array([row]), rules))[0] for row in rows[-4:]]
        assert answers(result)[-4:] == alone
        assert alone[0] != rows[-4]
        assert set(answers(result)[:-4]) <= {line}


def test_a_percent_escape_cut_by_the_end_of_its_row_is_not_completed_by_the_next_row():
    rows = ["/50%", "ab", "/50%a", "b", "/%d", "0/x", f"{SITE}/%", "41"]
    wanted = ["/50%25", "/ab", "/50%25a", "/b", "/%25d", "/0/x", "/%25", "/41"]
    assert answers(canonicalize(pa.array(rows), PLAIN)) == [SITE + path for path in wanted]


def test_dots_at_the_start_of_the_next_row_are_not_a_segment_of_this_one():
    assert answers(canonicalize(pa.array(["/a/", "./b", "/c/", ".d"]), PLAIN)) == [
        f"{SITE}/{path}" for path in ("a/", "b", "c/", ".d")
    ]


def test_a_site_can_have_a_port_an_ip_address_or_a_unicode_name():
    for site, canonical in (
        ("https://Shop.Example:8443", "https://shop.example:8443"),
        ("http://shop.example:80/", "http://shop.example"),
        ("http://[::1]:8080", "http://[::1]:8080"),
        ("https://straße.de", "https://xn--strae-oqa.de"),
    ):
        rules = UrlRules(site)
        assert rules.site == canonical
        rows = pa.array(["/a", "b?c", f"{canonical}/é", f"{site.rstrip('/')}/d"])
        assert answers(canonicalize(rows, rules)) == [f"{canonical}/{rest}" for rest in ("a", "b?c", "%C3%A9", "d")]


def listed(urls: list[str | None], rules: UrlRules) -> list[str | None]:
    return as_listed(pa.array(urls, pa.string()), rules).to_pylist()


def test_urls_of_any_host_get_same_as_and_strip_only_on_origins_of_the_site():
    rules = UrlRules("https://b.de", ("http://old.de",), frozenset({"tracking"}))
    urls = ["http://old.de/a?gclid=1", "https://b.de/b?gclid=1&c=2", "https://c.de/?gclid=1", None, "http://old.de.uk/"]
    assert listed(urls, rules) == [
        "https://b.de/a",
        "https://b.de/b?c=2",
        "https://c.de/?gclid=1",
        None,
        "http://old.de.uk/",
    ]
    others = ["https://c.de/?gclid=1", None]
    assert listed(others, rules) == others
    for only in (UrlRules("https://b.de", ("http://old.de",)), UrlRules("https://b.de", (), frozenset({"tracking"}))):
        assert listed(["http://old.de/a", "https://b.de/b?gclid=1"], only) == [
            "https://b.de/a" if only.same_as else "http://old.de/a",
            "https://b.de/b" if only.strip else "https://b.de/b?gclid=1",
        ]
    assert listed(["http://old.de/a", None], UrlRules("https://b.de")) == ["http://old.de/a", None]


def test_a_url_that_same_as_would_make_too_long_is_null():
    rules = UrlRules("https://a-much-longer-name.example", ("http://b.de",))
    path = "x" * (limits.LOC_LENGTH - len("http://b.de/"))
    assert listed([f"http://b.de/{path}", "http://b.de/a"], rules) == [None, "https://a-much-longer-name.example/a"]


@pytest.mark.parametrize("path", ["p/1", "/p/2", "?a=1", "p/~a", "p/%2F", "P/A", "p@x", "p/%C3%A4"])
def test_a_canonical_path_does_not_count_as_normalized(path):
    result = canonicalize(pa.array([path]), UrlRules("https://shop.example"))
    assert (answers(result), result.normalized) == ([f"https://shop.example/{path.removeprefix('/')}"], 0)


def test_same_as_origins_are_replaced_in_columns_and_single_rows():
    rules = UrlRules("https://b.de", ("http://a-much-longer-name.example:8080",))
    rows = pa.array(
        [f"http://a-much-longer-name.example:8080/p/{i}" for i in range(50)]
        + ["http://A-much-longer-name.example:8080/x"]
    )
    result = canonicalize(rows, rules)
    assert answers(result) == [f"https://b.de/p/{i}" for i in range(50)] + ["https://b.de/x"]
    assert result.normalized == 51


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("shop.example",), "site: shop.example is not an http"),
        (("ftp://shop.example",), "site: .*not http or https"),
        (("https://shop.example/shop",), "site: .*more than an origin"),
        (("https://shop.example?x",), "site: .*more than an origin"),
        ((SITE, ("www.shop.example",)), r"urls\.same_as: www\.shop\.example"),
        ((SITE, (), frozenset({"trackers"})), r"urls\.strip: trackers .*tracking, sessions"),
    ],
)
def test_invalid_url_rules_are_reported_with_their_key(arguments, message):
    with pytest.raises(ConfigError, match=message):
        UrlRules(*arguments)


def test_an_origin_is_scheme_host_and_port():
    assert origin("HTTPS://Shop.Example:443/a?b#c") == "https://shop.example"
    assert origin("http://shop.example:8080") == "http://shop.example:8080"
    for text in ("shop.example", "//shop.example", "", "/a"):
        with pytest.raises(ValueError, match=r"not absolute|missing loc"):
            origin(text)


def test_a_lone_surrogate_is_rejected():
    with pytest.raises(ValueError, match="broken character"):
        canonical_url("https://shop.example/\ud800")


def test_the_table_of_url_cases_has_every_reason_and_each_is_documented():
    shown = {wanted for _, wanted in ON_SITE + ON_ANY_HOST if isinstance(wanted, No)} | {
        "not UTF-8",
        "header row",
        "no leading slash",
    }  # tests/test_no_addresses.py
    assert shown == set(REASONS)
    assert all(sentence.endswith(".") for sentence in REASONS.values())
    assert f"{limits.LOC_LENGTH:,}" in REASONS["too long"]


def table_under(heading: str, page: Path = PAGE) -> list[list[str]]:
    """Return the rows of the table after a heading of a page."""
    part = page.read_text("utf-8").split(f"\n## {heading}\n")[1].split("\n## ")[0]
    lines = [line for line in part.splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_the_documentation_lists_the_reasons():
    shown = {reason.strip("`"): meaning for reason, meaning in table_under("Rejected", PAGE.with_name("reasons.md"))}
    assert shown.pop("no key")  # the reason of a row, not of its URL
    assert shown == REASONS


def test_the_documentation_lists_the_placeholders():
    (line,) = re.findall(r"^The placeholders are (.*?)in any case", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    assert re.findall(r"`([^`]+)`", line) == list(PLACEHOLDERS)


def test_the_documentation_lists_the_parameters_that_strip_removes():
    named = {
        row[0].strip("`"): set(re.findall(r"`([^`]+)`", row[1])) for row in table_under("Parameters that are removed")
    }
    assert named == {
        "tracking": TRACKING | {f"{family}*" for family in TRACKING_FAMILIES},
        "sessions": SESSIONS | {f"{family}*" for family in SESSION_FAMILIES},
    }


def test_the_examples_of_the_documentation_are_correct():
    examples = table_under("What is normalized")
    assert len(examples) >= 10
    for rule, source, wanted in examples:
        text = ast.literal_eval(f'"{source.strip("`")}"')
        assert answers(canonicalize(pa.array([text]), RULES)) == [wanted.strip("`")], rule


@pytest.mark.parametrize(
    ("pattern", "matched", "not_matched"),
    [
        ("/internal/*", ["/internal/", "/internal/a"], ["/internal", "/a/internal/", "/internals"]),
        ("/internal", ["/internal", "/internals", "/internal/a?b"], ["/a/internal", "/Internal"]),
        ("*?sort=", ["/a?sort=1", "/?sort=", "/a?x?sort="], ["/a?b=1&sort=2", "/a?sort"]),
        ("*sort=", ["/a?sort=1", "/a?b=1&sort=2", "/sort="], ["/a?sort"]),
        ("/*.pdf$", ["/a.pdf", "/b/c.pdf"], ["/a.pdf?x", "/a.pdfx", "/apdf"]),
        ("/$", ["/"], ["/a", "/?a"]),
        ("/a$", ["/a"], ["/a/", "/ab"]),
        ("/a*$", ["/a", "/ab?c"], ["/b"]),
        ("/a$b", ["/a$b", "/a$bc"], ["/a", "/ab"]),
        ("*", ["/", "/a"], []),
        ("/", ["/", "/a"], []),
        ("*$", ["/", "/a"], []),
        ("/a**b", ["/ab", "/axb"], ["/a", "/b"]),
        ("/*/edit$", ["/a/edit", "/a/b/edit", "//edit"], ["/edit", "/a/edit/"]),
        ("/каталог/", ["/%D0%BA%D0%B0%D1%82%D0%B0%D0%BB%D0%BE%D0%B3/x"], ["/каталог"[:1], "/%D0%BA"]),
        ("/%7euser", ["/~user"], ["/user"]),
        ("/a b[1]", ["/a%20b%5B1%5D"], ["/a"]),
        ("/a.b+(c)|d", ["/a.b+(c)%7Cd"], ["/axb+(c)%7Cd", "/d"]),
        ("/p?a", ["/p?a=1"], ["/pa", "/a"]),
    ],
)
def test_exclude_matches_as_robots_txt_does(pattern, matched, not_matched):
    locs = pa.array([SITE + path for path in matched + not_matched])
    wanted = [True] * len(matched) + [False] * len(not_matched)
    assert excluded(locs, [pattern]).to_pylist() == wanted
    assert excluded(pa.chunked_array([locs, locs.slice(1)]), [pattern, "/never"]).to_pylist() == wanted + wanted[1:]
    hosts = pa.concat_arrays([locs, pa.array(["http://other.example/zzz", None])])
    assert excluded(hosts, [pattern]).to_pylist()[: len(wanted)] == wanted


def test_exclude_accepts_any_number_of_patterns_and_keeps_nulls():
    locs = pa.array([f"{SITE}/a", None, f"{SITE}/b", f"{SITE}/c?sort=1"])
    assert excluded(locs, []).to_pylist() == [False] * 4
    assert excluded(locs, ["/a", "/a", "*?sort="]).to_pylist() == [True, False, False, True]
    assert excluded(pa.nulls(2, pa.string()), ["/a"]).to_pylist() == [False, False]
    assert excluded(pa.array([], pa.string()), ["/a"]).to_pylist() == []


def test_all_invalid_exclude_patterns_are_named():
    with pytest.raises(ConfigError) as caught:
        excluded(pa.array([f"{SITE}/a"]), ["internal/*", "/fine", "https://shop.example/x", ""])
    assert len(caught.value.problems) == 3
    assert all(problem.startswith("urls.exclude: ") for problem in caught.value.problems)
