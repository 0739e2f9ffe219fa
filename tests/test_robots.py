"""Which URLs a robots.txt disallows, and the managed block in it."""

import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from protego import Protego

from sitemap_etl import limits, robots
from sitemap_etl.errors import Refused

SITE = "https://shop.example"
BOM = b"\xef\xbb\xbf"
LOCS = [f"{SITE}/sitemap.xml", f"{SITE}/sitemap-2.xml"]


def asked(text: str, paths: list[str], agent: str = "*") -> list[bool]:
    """Return which paths are disallowed. Protego, another parser, has the same answers."""
    locs = [SITE + path for path in paths]
    got = robots.disallowed(pa.array(locs), text.encode(), agent).to_pylist()
    protego = Protego.parse(text)
    assert got == [not protego.can_fetch(loc, agent) for loc in locs]
    return got


def test_the_longest_rule_wins_and_allow_wins_a_tie():
    text = "User-agent: *\nDisallow: /a\nAllow: /a/b\nDisallow: /a/b/c\nDisallow: /d\nAllow: /d\n"
    assert asked(text, ["/", "/a", "/a/b", "/a/b/c", "/d", "/x/a"]) == [False, True, False, True, False, False]


def test_wildcards_and_end_anchors_are_supported():
    text = "User-agent: *\nDisallow: /*?sort=\nDisallow: /*.pdf$\nDisallow: *print\n"
    assert asked(text, ["/a?sort=1", "/a?b&sort=1", "/a.pdf", "/a.pdf?x", "/x/print"]) == [
        True,
        False,
        True,
        False,
        True,
    ]


def test_only_the_group_of_the_agent_applies():
    text = "User-agent: GPTBot\nUser-agent: Other\nDisallow: /\n\nUser-agent: *\nDisallow: /b\n"
    text += "\nUser-agent: Googlebot\nDisallow: /c\n"
    assert asked(text, ["/a", "/b", "/c"]) == [False, True, False]
    assert asked(text, ["/a", "/b", "/c"], "Googlebot") == [False, False, True]
    assert asked(text, ["/a", "/b", "/c"], "gptbot") == [True, True, True]


def test_an_empty_disallow_allows_all_but_ends_the_list_of_agents():
    text = "User-agent: a\nDisallow:\nUser-agent: *\nDisallow: /x\n"
    assert asked(text, ["/x", "/y"]) == [True, False]
    assert asked(text, ["/x", "/y"], "a") == [False, False]


def test_rules_in_unicode_and_with_escapes_match_canonical_urls():
    text = "User-agent: *\nDisallow: /каталог/\nDisallow: /a%2cb\nDisallow: /c,d\nDisallow: /%7eu\nDisallow: /e%2ff\n"
    paths = ["/%D0%BA%D0%B0%D1%82%D0%B0%D0%BB%D0%BE%D0%B3/x", "/a,b", "/a%2Cb", "/c%2Cd", "/~u", "/e%2Ff", "/e/f"]
    assert asked(text, paths) == [True, True, True, True, True, True, False]


def test_without_rules_nothing_is_disallowed_and_nulls_never_are():
    locs = pa.array([f"{SITE}/a", None, f"{SITE}/b"])
    assert robots.disallowed(locs, b"").to_pylist() == [False] * 3
    assert robots.disallowed(locs, b"User-agent: *\nDisallow: /\n").to_pylist() == [True, False, True]
    chunks = pa.chunked_array([locs, locs.slice(2)])
    rules = robots.RobotsRules(BOM + b"User-agent: *\nDisallow: /b\n")
    assert rules.disallowed(chunks).to_pylist() == [False, False, True, True]
    assert rules.disallowed(pa.array([], pa.string())).to_pylist() == []


def test_robots_txt_in_another_encoding_is_read_as_far_as_possible():
    text = "User-agent: *\nDisallow: /caf\xe9\nDisallow: /b\n".encode("latin-1")
    assert robots.disallowed(pa.array([f"{SITE}/b", f"{SITE}/c"]), text).to_pylist() == [True, False]


@pytest.mark.parametrize("value", ["/%", "/%4", "/%zz", "/*%$"])
def test_an_incomplete_percent_escape_is_a_literal_percent_sign(value):
    text = f"User-agent: *\nDisallow: {value}\n".encode()
    here = f"{SITE}{value.replace('%', '%25').strip('*$').replace('/*', '/a')}"
    locs = [here, f"{SITE}/%2B", f"{SITE}/a"]
    single = robots.CrawlRules(text)
    assert [not single.allows(loc, "*") for loc in locs] == [True, False, False]
    assert robots.disallowed(pa.array(locs), text).to_pylist() == [True, False, False]


@pytest.mark.parametrize("mark", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e"])
def test_only_cr_and_lf_end_a_line(mark):
    text = f"User-agent: *\n# a{mark}Disallow: /a{mark}Sitemap: {SITE}/a.xml\rDisallow: /b\r\nDisallow: /c\n"
    locs = pa.array([f"{SITE}/{name}" for name in "abcd"])
    assert robots.disallowed(locs, text.encode()).to_pylist() == [False, True, True, False]
    single = robots.CrawlRules(text.encode())
    assert [single.allows(f"{SITE}{path}", "*") for path in ("/a", "/b", "/c")] == [True, False, False]
    assert robots.sitemaps(text.encode()) == []


# --- the block --------------------------------------------------------------------------------

BLOCK = b"""# sitemap_etl shop begin
Sitemap: https://shop.example/sitemap.xml
Sitemap: https://shop.example/sitemap-2.xml
# sitemap_etl shop end
"""
RULES = b"User-agent: *\nDisallow: /x\n"


@pytest.mark.parametrize(
    ("existing", "wanted"),
    [
        (None, BLOCK),
        (b"", BLOCK),
        (BOM, BOM + BLOCK),
        (RULES, RULES + BLOCK),
        (RULES.rstrip(), RULES.rstrip() + b"\n" + BLOCK.rstrip()),
        (BOM + RULES, BOM + RULES + BLOCK),
        (RULES.replace(b"\n", b"\r\n"), (RULES + BLOCK).replace(b"\n", b"\r\n")),
        (RULES.replace(b"\n", b"\r\n").rstrip(), (RULES + BLOCK).replace(b"\n", b"\r\n").rstrip()),
        (RULES.replace(b"\n", b"\r"), (RULES + BLOCK).replace(b"\n", b"\r")),
        (RULES + b"\n\n", RULES + b"\n\n" + BLOCK),
        (b"caf\xe9 \x00\n", b"caf\xe9 \x00\n" + BLOCK),
        (b"# sitemap_etl shop begin\nSitemap: old\n# sitemap_etl shop end\n" + RULES, BLOCK + RULES),
        (RULES + b"# sitemap_etl shop begin\n# sitemap_etl shop end\n" + RULES, RULES + BLOCK + RULES),
        (RULES + b"# sitemap_etl shop begin\n# sitemap_etl shop end", RULES + BLOCK.rstrip()),
        (BLOCK + RULES + BLOCK, BLOCK + RULES),
        (
            b"# sitemap_etl shop2 begin\n# sitemap_etl shop2 end\n",
            b"# sitemap_etl shop2 begin\n# sitemap_etl shop2 end\n" + BLOCK,
        ),
        (b"# sitemap_etl shop begin\nSitemap: old\n" + RULES, BLOCK + RULES),
        (b"# sitemap_etl shop begin\nSitemap: old\n\nSitemap: theirs\n", BLOCK + b"\nSitemap: theirs\n"),
        (b"# sitemap_etl shop end\n" + RULES, b"# sitemap_etl shop end\n" + RULES + BLOCK),
        (b"  # sitemap_etl shop begin  \r\n  # sitemap_etl shop end\r\n", BLOCK.replace(b"\n", b"\r\n")),
    ],
)
def test_the_managed_block_is_inserted_and_the_rest_stays(existing, wanted):
    got = robots.with_block(existing, "shop", LOCS)
    assert got == wanted
    assert robots.with_block(got, "shop", LOCS) == got
    assert robots.sitemaps(got)[-2:] == LOCS or b"theirs" in got or RULES in got


PIECES = [b"User-agent: *", b"Disallow: /x", b"\n", b"\r\n", b"\r", b"\n\n", b"# c", b"\xff", b" "]
PIECES += [b"Sitemap: https://a.example/s.xml", b"\n# sitemap_etl b begin\n", b"\n# sitemap_etl b end\n"]
PIECES += [b"# sitemap_etl a end"]
pieces = st.lists(st.sampled_from(PIECES), max_size=10).map(b"".join)


@given(st.booleans(), pieces, st.lists(st.sampled_from(LOCS), min_size=1, max_size=2, unique=True))
def test_inserting_and_removing_the_block_restores_the_bytes(bom, existing, locs):
    existing = (BOM if bom else b"") + existing
    put = robots.with_block(existing, "a", locs)
    assert robots.without_block(put, "a") == existing
    assert robots.with_block(put, "a", locs) == put
    assert robots.with_block(robots.with_block(put, "a", LOCS), "a", locs) == put
    assert set(locs) <= set(robots.sitemaps(put))
    assert robots.with_block(put, "a", []) == existing


@given(pieces)
def test_blocks_of_several_sites_are_independent(existing):
    assume(b"sitemap_etl b" not in existing)
    a = robots.with_block(existing, "a", LOCS[:1])
    both = robots.with_block(a, "b", LOCS[1:])
    assert robots.without_block(both, "b") == a
    assert robots.without_blocks(both) == robots.without_blocks(a) == robots.without_blocks(existing)
    assert robots.with_block(both, "a", LOCS).endswith(both[len(a) :].lstrip(b"\r\n"))
    assert set(LOCS) <= set(robots.sitemaps(both))


def test_without_sitemaps_and_block_the_file_is_unchanged():
    assert robots.with_block(RULES, "shop", []) == RULES
    assert robots.without_block(RULES, "shop") == RULES


def comment(size: int) -> bytes:
    return b"#" + b"x" * (size - 2) + b"\n"


def test_a_block_beyond_the_read_limit_is_inserted_at_the_top():
    full = BOM + RULES + comment(limits.ROBOTS_BYTES)
    got = robots.with_block(full, "shop", LOCS)
    assert got == BOM + BLOCK + full[3:]
    assert robots.with_block(got, "shop", LOCS) == got
    assert robots.without_block(got, "shop") == full


def test_a_block_that_ends_at_the_read_limit_stays_at_the_end():
    fits = RULES + comment(limits.ROBOTS_BYTES - len(RULES) - len(BLOCK) + 1)
    assert robots.with_block(fits, "shop", LOCS) == fits + BLOCK
    over = RULES + comment(limits.ROBOTS_BYTES - len(RULES) - len(BLOCK) + 2)
    assert robots.with_block(over, "shop", LOCS) == BLOCK + over


def test_a_block_that_grows_beyond_the_read_limit_moves_to_the_top():
    at_end = robots.with_block(RULES + comment(limits.ROBOTS_BYTES - 140), "shop", LOCS[:1])
    assert at_end.startswith(RULES)
    assert robots.with_block(at_end, "shop", LOCS).startswith(BLOCK)


def test_inserting_a_block_pushes_no_rule_beyond_the_read_limit():
    full = RULES + comment(limits.ROBOTS_BYTES - len(RULES) - 20) + b"Disallow: /secret\n"
    assert robots.unread_rules(full) == []
    with pytest.raises(Refused, match=r"push 1 rules out of what is read\. Shorten robots\.txt"):
        robots.with_block(full, "shop", LOCS)
    already = RULES + comment(limits.ROBOTS_BYTES) + b"Disallow: /secret\n"
    assert robots.unread_rules(already) == ["Disallow: /secret"]
    assert robots.with_block(already, "shop", LOCS) == BLOCK + already


def test_a_file_in_utf_16_is_unchanged():
    with pytest.raises(Refused, match="UTF-16"):
        robots.with_block("User-agent: *\n".encode("utf-16"), "shop", LOCS)


@pytest.mark.parametrize(
    ("name", "loc"), [("shop\nx", LOCS[0]), ("", LOCS[0]), ("shop", "https://a/\nDisallow: /"), ("shop", "")]
)
def test_a_block_refuses_addresses_with_line_breaks(name, loc):
    with pytest.raises(ValueError, match="expected one line"):
        robots.with_block(RULES, name, [loc])


def test_sitemap_lines_are_found_whoever_wrote_them():
    text = (
        BOM + b"sitemap: https://a.example/1.xml\r\nUser-agent: *\r\nDisallow: /\r\nSITEMAP:https://b.example/2.xml # x"
    )
    assert robots.sitemaps(text) == ["https://a.example/1.xml", "https://b.example/2.xml"]
    assert robots.sitemaps(b"") == []


@given(st.sampled_from([b"", b"User-agent: *\nDisallow: /x\n", b"User-agent: *\r\n", BOM + b"User-agent: *", b"a\rb"]))
def test_a_fence_in_the_block_changes_the_bytes_and_can_be_removed(existing: bytes):
    plain = robots.with_block(existing, "shop", LOCS)
    marked = [robots.with_block(plain, "shop", LOCS, mark=mark) for mark in ("20261120T020000Z-7f3a", "other")]
    assert len({plain, *marked}) == 3
    for data in marked:
        assert robots.without_mark(data, "shop") == plain
        assert robots.with_block(data, "shop", LOCS) == plain
        assert robots.sitemaps(data) == robots.sitemaps(plain)
        assert robots.without_block(data, "shop") == robots.without_block(plain, "shop")
        assert robots.without_mark(data, "other") == data
    assert robots.with_block(marked[0], "shop", LOCS, mark="other") == marked[1]


def test_the_number_of_rule_evaluations_is_bounded() -> None:
    rules = robots.RobotsRules(
        b"User-agent: *\nDisallow: /\n" + b"".join(b"Disallow: /a%d*b$\n" % n for n in range(99))
    )
    locs = pa.array([f"https://shop.example/{n}" for n in range(50)])
    assert rules.disallowed(locs).to_pylist() == [True] * 50
    assert 1 < sum(rules.disallowed(locs, most=1_000).to_pylist()) <= 10
    assert rules.disallowed(locs, most=1).to_pylist() == [True] + [False] * 49
