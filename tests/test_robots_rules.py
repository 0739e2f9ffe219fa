"""Rules of a robots.txt as Google's parser applies them: https://github.com/google/robotstxt."""

from itertools import starmap

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sitemap_etl import limits, robots
from tests.support.robots_referee import may_fetch

SITE = "https://shop.example"
BOM = b"\xef\xbb\xbf"


def allowed(text: str | bytes, path: str, agent: str = "*") -> bool:
    """Return whether a path is allowed. Columns, single URLs and the reference agree."""
    data = text.encode() if isinstance(text, str) else text
    found = not robots.disallowed(pa.array([SITE + path]), data, agent)[0].as_py()
    assert robots.CrawlRules(data).allows(SITE + path, agent) == found
    assert may_fetch(data, agent, path) == found
    return found


def test_other_records_do_not_end_a_list_of_agents():
    for record in ("Crawl-delay: 10", "Request-rate: 1/5", "Host: a", "Sitemap: /s.xml", "Noindex: /", "", "# x", "x"):
        text = f"User-agent: *\n{record}\nUser-agent: Other\nDisallow: /\n"
        assert not allowed(text, "/a"), record
        assert not allowed(text, "/a", "other"), record


def test_an_unknown_record_between_rules_does_not_end_a_group():
    text = "User-agent: *\nDisallow: /a\nCrawl-delay: 1\nDisallow: /b\nUser-agent: x\nDisallow: /c\n"
    assert list(starmap(allowed, [(text, "/a"), (text, "/b"), (text, "/c")])) == [False, False, True]


@pytest.mark.parametrize("rule", ["Disallow:", "Allow:", "Disallow: /x", "Allow /x", "dissallow: /x"])
def test_any_rule_ends_a_list_of_agents(rule):
    text = f"User-agent: a\n{rule}\nUser-agent: b\nDisallow: /b\n"
    assert allowed(text, "/b", "a")
    assert not allowed(text, "/b", "b")


def test_rules_before_any_agent_are_ignored_and_groups_of_one_agent_are_one():
    text = "Disallow: /\nUser-agent: foo\nDisallow: /a\nUser-agent: bar\nDisallow: /b\nUser-agent: FOO\nDisallow: /c\n"
    assert [allowed(text, path, "Foo") for path in ("/a", "/b", "/c", "/d")] == [False, True, False, True]
    assert allowed(text, "/a", "baz")


def test_a_group_of_the_agent_replaces_the_general_group_even_if_it_is_empty():
    text = "User-agent: *\nDisallow: /\nUser-agent: foo\nDisallow:\nUser-agent: bar\n"
    assert [allowed(text, "/a", agent) for agent in ("*", "foo", "bar", "baz")] == [False, True, True, False]


@pytest.mark.parametrize(
    ("line", "agent", "holds"),
    [
        ("User-agent: foo bar", "foo", True),
        ("User-agent: Foo/2.1", "foo", True),
        ("User-agent: foo*", "foo", True),
        ("User-agent: foobar", "foo", False),
        ("User-agent: foo", "foobar", False),
        ("User-agent: googlebot-news", "Googlebot", False),
        ("User-agent: * everyone", "foo", True),
        ("User-agent: *foo", "foo", False),
        ("User-agent: 9foo", "foo", False),
        ("User-agent:", "foo", False),
        ("USER-AGENT :\tfoo # bar", "foo", True),
        ("useragent foo", "foo", True),
        ("user agent: foo", "foo", True),
        ("user agent foo", "foo", False),
        ("User-agents: foo", "foo", True),
        ("User_agent: foo", "foo", False),
    ],
)
def test_agents_are_product_tokens(line, agent, holds):
    assert allowed(f"{line}\nDisallow: /\n", "/a", agent) is not holds


@pytest.mark.parametrize(
    ("line", "holds"),
    [
        ("Disallow: /a", True),
        ("DISALLOW:/a", True),
        ("  disallow\t:  /a  # not this", True),
        ("Disallow /a", True),
        ("Disallow \t /a", True),
        ("Disallow /a /b", False),
        ("Disallow/a", False),
        ("Dissallow: /a", True),
        ("Dissalow: /a", True),
        ("Disalow: /a", True),
        ("Diasllow: /a", True),
        ("Disallaw: /a", True),
        ("Disallowed: /a", True),
        ("Disalllow: /a", False),
        ("Disallow : : /a", False),
        ("Disallow: a", False),
        ("Disallow: https://shop.example/a", False),
        ("Disallow: *a", True),
        ("Disallow: /A", False),
        ("Disallow: ", False),
        ("# Disallow: /a", False),
        ("Noindex: /a", False),
    ],
)
def test_misspelled_and_malformed_lines_are_read_as_by_google(line, holds):
    assert allowed(f"User-agent: *\n{line}\n", "/a") is not holds


@pytest.mark.parametrize(
    ("rules", "path", "wanted"),
    [
        ("allow: /p\ndisallow: /", "/page", True),
        ("allow: /folder\ndisallow: /folder", "/folder/page", True),
        ("allow: /page\ndisallow: /*.htm", "/page.htm", False),
        ("allow: /$\ndisallow: /", "/", True),
        ("allow: /$\ndisallow: /", "/page.htm", False),
        ("disallow: /x\nallow: /x/", "/x", False),
        ("disallow: /x\nallow: /x/", "/x/", True),
        ("allow: /x/page.\ndisallow: /*.html", "/x/page.html", True),
        ("disallow: /\nallow: /fish*.php", "/fishheads/catfish.php?parameters", True),
        ("disallow: /\nallow: /*.php$", "/filename.php?parameters", False),
        ("disallow: /\nallow: /*.php$", "/a.php/b.php", True),
        ("disallow: /a$b", "/a$b/c", False),
        ("disallow: /a$", "/a$", True),
        ("disallow: /a*b*c", "/a/x/b/y/c/z", False),
        ("disallow: /a**b", "/axb", False),
        ("disallow: /a*", "/a", False),
        ("disallow: /a*$", "/abc", False),
        ("disallow: *", "/", False),
        ("disallow: /\nallow: /allowed/index.html", "/allowed/", True),
        ("disallow: /\nallow: /allowed/index.htm?x", "/allowed/", True),
        ("disallow: /\nallow: /allowed/index.html", "/allowed/other", False),
        ("disallow: /allowed/\nallow: /allowed/index.html", "/allowed/", True),
        ("allow: /\ndisallow: /index.html", "/", True),
    ],
)
def test_the_longest_rule_decides(rules, path, wanted):
    assert allowed(f"User-agent: *\n{rules}\n", path) is wanted


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ("/foo/bar?qux=taz&baz=http://foo.bar?tar&par", "/foo/bar?qux=taz&baz=http://foo.bar?tar&par"),
        ("/foo/bar/ツ", "/foo/bar/%E3%83%84"),
        ("/foo/bar/%e3%83%84", "/foo/bar/%E3%83%84"),
        ("/caf\u00e9*x", "/caf%C3%A9/x"),
        ("/a%3cd", "/a%3Cd.html"),
    ],
)
def test_non_ascii_bytes_are_escaped_before_comparison(value, path):
    assert not allowed(f"User-agent: *\nDisallow: {value}\n", path)
    assert allowed(f"User-agent: *\nDisallow: {value}/no\n", path)


def test_a_delimiter_differs_from_its_escape():
    assert allowed("User-agent: *\nDisallow: /*?\n", "/who%3F")
    assert not allowed("User-agent: *\nDisallow: /*?\n", "/who?a")
    assert allowed("User-agent: *\nDisallow: /a%2Fb\n", "/a/b")


@pytest.mark.parametrize(
    ("value", "path"), [("/%7euser", "/~user"), ("/a%2Cb", "/a,b"), ("/a,b", "/a%2Cb"), ("/a b", "/a%20b")]
)
def test_other_escapes_are_decoded_before_comparison_as_in_rfc_9309(value, path):
    text = f"User-agent: *\nDisallow: {value}\n".encode()
    assert robots.disallowed(pa.array([SITE + path]), text).to_pylist() == [True]
    assert not robots.CrawlRules(text).allows(SITE + path, "*")


def test_single_urls_can_be_matched_in_any_spelling():
    rules = robots.CrawlRules("User-agent: *\nDisallow: /~ü\nDisallow: /?a\n".encode())
    assert not rules.allows(f"{SITE}/%7e\u00fc", "*")
    assert not rules.allows(f"{SITE}/~%c3%bc#top", "*")
    assert not rules.allows("https://other.example?a=1", "*")
    assert rules.allows("https://other.example", "*")


def test_robots_txt_itself_is_always_allowed():
    text = b"User-agent: *\nDisallow: /\nDisallow: /robots.txt$\n"
    locs = pa.array([f"{SITE}/robots.txt", f"{SITE}/robots.txt.gz"])
    assert robots.disallowed(locs, text).to_pylist() == [False, True]


@pytest.mark.parametrize("mark", [BOM, BOM[:2], BOM[:1], b""])
def test_a_complete_or_partial_byte_order_mark_is_skipped(mark):
    locs = pa.array([f"{SITE}/a"])
    assert robots.disallowed(locs, mark + b"User-agent: *\nDisallow: /a\n").to_pylist() == [True]
    assert robots.disallowed(locs, b"User-agent: *\n" + (mark or BOM) + b"Disallow: /a\n").to_pylist() == [False]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r", "\n\n", "\r\r\n"])
def test_all_line_endings_are_accepted(end):
    assert not allowed(end.join(["User-agent: *", "Disallow: /a", "Disallow: /b"]), "/b")


def test_the_rest_of_a_line_after_a_null_byte_is_ignored():
    text = b"User-agent: *\nDisallow: /a\0b\n"
    assert robots.disallowed(pa.array([f"{SITE}/ac"]), text).to_pylist() == [True]


def test_lines_beyond_500_kib_are_not_read():
    head = b"User-agent: *\nDisallow: /a\n"
    rule = b"Disallow: /private\n"
    comment = b"#" + b"x" * (limits.ROBOTS_BYTES - len(head) - len(rule) - 2) + b"\n"
    locs = pa.array([f"{SITE}/{name}" for name in ("a", "p", "private")])
    whole = head + comment + rule
    assert len(whole) == limits.ROBOTS_BYTES
    assert robots.disallowed(locs, whole).to_pylist() == [True, False, True]
    assert robots.disallowed(locs, whole[:-1] + b"\nDisallow: /p\n").to_pylist() == [True, False, True]
    assert robots.disallowed(locs, head + b"#" + comment + rule).to_pylist() == [True, False, True]
    assert robots.disallowed(locs, head + b"##" + comment + rule).to_pylist() == [True, False, False]
    assert robots.CrawlRules(head + b"##" + comment + rule).allows(f"{SITE}/private", "*")


def test_a_crawl_delay_applies_to_the_agents_directly_above_it():
    text = b"User-agent: a\nUser-agent: b\nCrawl-delay: 20\nUser-agent: *\nCrawl-delay: 1.5\nDisallow: /x\n"
    rules = robots.CrawlRules(text)
    assert [rules.delay(agent) for agent in ("A", "b", "c")] == [20, 20, 1.5]
    assert not rules.allows(f"{SITE}/x", "a")
    for value in ("", "x", "-1", "inf", "nan"):
        assert robots.CrawlRules(f"User-agent: *\nCrawl-delay: {value}\n".encode()).delay("a") == 0


PARTS = ["/", "a", "b", "*", "$", "?", "=", ".", "-", "//", "index.html", "%C3%A9", "é", "%c3", "%2F", "%2f", "x"]
VALUES = st.lists(st.sampled_from(PARTS), max_size=6).map("".join)
NAMES = ["Disallow: /", "Disallow: /", "Disallow: ", "disallow:", "Disallow ", "Dissallow: /", "Disallowed: /"]
NAMES += ["Allow: /", "Allow: /", "allow ", "Noindex: /", "Sitemap: /", "Disallow : /", "Host: x", "Crawl-delay: "]
AGENTS = ["*", "*", "a", "a", "bot", "Bot", "a bot", "bot/1", "foo*", "**", "* x", ""]
LINES = st.one_of(
    st.builds(str.__add__, st.sampled_from(NAMES), VALUES),
    st.builds(
        str.__add__,
        st.sampled_from(["User-agent: ", "User-agent: ", "useragent ", "User agent: ", "User agent "]),
        st.sampled_from(AGENTS),
    ),
    st.sampled_from(["", "# x", "  ", "nonsense", "user", "User-agent:", "users: x", "Crawl-delay: 1", "Disallow:"]),
)


@given(
    st.lists(LINES, max_size=12),
    st.lists(
        st.lists(st.sampled_from(["/", "a", "b", "?", "=", ".", "-", "%C3%A9", "%2F", "x", "index.html"])), max_size=9
    ),
    st.sampled_from(["*", "a", "bot", "other"]),
)
def test_every_row_gets_the_same_answer_as_from_the_reference(lines, paths, agent):
    data = "\n".join(["User-agent: *", *lines]).encode()
    whole = ["/" + "".join(path) for path in paths]
    wanted = [not may_fetch(data, agent, path) for path in whole]
    locs = pa.array([SITE + path for path in whole], pa.string())
    assert robots.disallowed(locs, data, agent).to_pylist() == wanted
    single = robots.CrawlRules(data)
    assert [not single.allows(SITE + path, agent) for path in whole] == wanted


@pytest.mark.parametrize(
    ("lines", "refused"),
    [
        ([f"Disallow: /*x{n}*y" for n in range(8_000)], {"/ax7999by"}),
        ([f"Disallow: *x{n}*" for n in range(8_000)] + ["Allow: *x7999*y"], {"/x7998"}),
        (["Disallow: /" + "*a" * 8_000], set()),
        (["Disallow: /" + "*(" * 500], {"/" + "(" * 500}),
        (["Disallow: /" + "*ö" * 600 + "$"], set()),
    ],
)
def test_very_many_wildcards_are_matched_in_bounded_time(lines: list[str], refused: set[str]) -> None:
    paths = ["/ax7999by", "/x7998", "/" + "a" * 2_000, "/" + "(" * 500]
    text = "\n".join(["User-agent: *", *lines]).encode()
    found = robots.disallowed(pa.array([f"https://shop.example{path}" for path in paths]), text).to_pylist()
    assert {path for path, out in zip(paths, found, strict=True) if out} >= refused
    assert robots.disallowed(pa.array(["https://shop.example/free"]), text).to_pylist() == [False]


def test_agents_of_one_group_share_its_rules() -> None:
    agents = "".join(f"User-agent: {'x' * n}\n" for n in range(1, 300))
    text = f"{agents}Disallow: /a\n\nUser-agent: xx\nUser-agent: xx\nDisallow: /b\n".encode()
    for agent, expected in (("x", [True, False]), ("xx", [True, True]), ("y", [False, False])):
        locs = pa.array(["https://shop.example/a", "https://shop.example/b"])
        assert robots.disallowed(locs, text, agent).to_pylist() == expected
