"""Values that are not URLs: each is judged on its own, in a column as alone."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sitemap_etl.extensions import images
from sitemap_etl.frames import Tally
from sitemap_etl.urls import NO_ADDRESSES, UrlRules, as_joined, canonicalize
from tests.support.examples import examples
from tests.support.sites import TestSite, pages

S = "https://shop.example"
RULES = UrlRules(S, ("http://shop.example", "https://old.example"))


def reasons(*values: str, rules: UrlRules = RULES, column: str = "url") -> list[str | None]:
    found = canonicalize(pa.array(values), rules, column)
    together: list[str | None] = found.reason.to_pylist()
    assert together == [canonicalize(pa.array([value]), rules, column).reason[0].as_py() for value in values]
    return together


KINDS: dict[str, list[str]] = {
    "header row": ["url", " url "],
    "markup": [
        "<a href='/1'>Lamp</a>",
        "<https://shop.example/1>",
        "</1>",
        "[Lamp](/1)",
        "[[Lamp]]",
        "['/1']",
        "{/1}",
        "{'loc': '/1'}",
        "![Lamp](/1.jpg)",
        "- [Lamp](/1)",
        "**[Lamp](/1)**",
        "&lt;a href=&quot;/1&quot;&gt;Lamp&lt;/a&gt;",
    ],
    "quoted": [
        '"/1"',
        '"/1',
        "'/1'",
        "`/1`",
        "“/1”",
        "„/1“",
        "«/1»",
        "‘/1’",
        '"https://shop.example/1"',
        *("「/1」", "『/1』", "´/1´", "″/1″", "＂/1＂", '“/1"', "&quot;/1&quot;"),
    ],
    "formula": [
        '=HYPERLINK("/1","Lamp")',
        "=hyperlink(A1)",
        '=IMAGE("/1.jpg")',
        '="/1"',
        "=CONCAT.X(A1)",
        "=ГИПЕРССЫЛКА(A1)",
        "=_xlfn.CONCAT(A1)",
        "= HYPERLINK (A1)",
        "=+HYPERLINK(A1)",
    ],
    "row count": [
        "(2 rows)",
        "(1 row)",
        "(1,234 rows)",
        "(0 ROWS)",
        "(3 rows affected)",
        "(2 Zeilen)",
        "(1 ligne)",
        "(2 строки)",
        "(2 行)",
    ],
    "dashes": ["-", "---", "–––", "—", "-----+-----", "--- | ---", "────", "+---+---+", "|---|---|", "| --- |", "─┼─"],
    "scheme missing": [
        "shop.example",
        "shop.example/1",
        "www.shop.example/1",
        "WWW.Shop.Example?x",
        "www.shop.example#a",
        "shop.example:443/1",
        "old.example/1",
        "www.old.example",
        "shop.example./1",
        "www.shop.example.",
    ],
    "misspelled scheme": [
        "https//shop.example/1",
        "http//www.shop.example/1",
        "/https//shop.example/1",
        "htps;//shop.example/1",
        "https/shop.example/1",
        f"{S}/https//shop.example/1",
        f"{S}/https:/shop.example/1",
        f"{S}//htp:old.example",
        "http://shop.example/https.//shop.example",
    ],
    "site repeated": [
        f"{S}/https://shop.example/1",
        f"{S}/http://www.shop.example",
        f"/{S}/1",
        f"{S}//https://shop.example:443/1",
        f"https://old.example/{S}/1",
        f"{S}/ftp://shop.example/1",
    ],
    "several addresses": [
        f"{S}/1, {S}/2",
        f"{S}/1,{S}/2",
        f"{S}/1;https://other.example",
        f"{S}/1 | {S}/2",
        f"{S}/1 {S}/2",
        f"{S}/1\u00a0{S}/2",
        f"{S}/1\u2003{S}/2",
        f"/1\u3000{S}/2",
        f"/1,{S}/2",
    ],
    "file path": ["C:\\sites\\1.html", "\\\\server\\share\\1.html"],
}

VALID = [
    "/website/shop.example",
    "/shop.example",
    "/shop.example/1",
    "/netflix.com-review",
    "/(500)-days",
    "(500)-days",
    "'t-hooft",
    "'t-hooft-and-'s",
    "(500 days)",
    "— lamp",
    "*lamp*",
    "&ltd",
    "?to=https://shop.example/1",
    "/share?to=https://shop.example/1",
    "/share?a=1,https://shop.example/1",
    "/share?to=1 https://shop.example",
    "/a#, https://shop.example",
    f"{S}/a?u={S}/b",
    f"{S}/https://other.example/",
    "/url",
    "urls",
    "url/",
    "Total",
    "lamp-10",
    "-lamp",
    "/-",
    "/---",
    "=lamp",
    "=5(a)",
    "(2 rows)-of-chairs",
    "/(2 rows)",
    "/[lamp]",
    "/<lamp>",
    '/"lamp"',
    "/https-explained",
    "/http/status",
    "/https/www.example.org",
    "https-explained",
    "/wiki/Talk:shop.example",
    "/a//shop.example",
    "www.shop.example.org/1",
    "shop.examples",
    "/www.shop.example/1",
    "/a,b;c|d",
    "/a,https-explained",
]


@pytest.mark.parametrize("kind", KINDS)
def test_values_that_are_not_urls_are_rejected(kind: str) -> None:
    assert reasons(*KINDS[kind], *VALID[:3]) == [kind] * len(KINDS[kind]) + [None] * 3


def test_every_reason_has_test_values() -> None:
    assert {*KINDS, "no leading slash"} == NO_ADDRESSES


def test_urls_that_resemble_rejected_values_are_listed() -> None:
    assert reasons(*VALID) == [None] * len(VALID)


@pytest.mark.parametrize("value", VALID)
def test_the_rules_against_non_urls_do_not_change_urls(value: str) -> None:
    one = pa.array([value])
    assert canonicalize(one, RULES, "url").loc.equals(as_joined(one, RULES))


def test_the_urls_that_earlier_versions_listed_for_rejected_values_are_known() -> None:
    values = ["Total", "(2 rows)", "www.shop.example/1", f"{S}/{S}/1", "/a\\b", "NULL"]
    expected = ["/Total", "/(2%20rows)", "/www.shop.example/1", f"/{S}/1", "/a%5Cb"]
    assert as_joined(pa.array(values), RULES).to_pylist() == [*(f"{S}{path}" for path in expected), None]


def test_a_site_with_www_rejects_its_host_without_it() -> None:
    rules = UrlRules("https://www.shop.example")
    assert reasons("shop.example/1", "www.shop.example/1", "/shop.example", rules=rules) == ["scheme missing"] * 2 + [
        None
    ]


@pytest.mark.parametrize("name", ["Page URL", "página", "Straße", "Адрес", "URL (neu)", "商品URL"])
def test_a_column_name_in_any_script_is_recognized_as_a_header_row(name: str) -> None:
    assert reasons(name, f" {name}", f"/{name}", column=name) == ["header row", "header row", None]


def test_an_internationalized_host_is_recognized_as_the_site() -> None:
    rules = UrlRules("https://bücher.example")
    missing = ["bücher.example/1", "BÜCHER.example", "www.bücher.example/1", "xn--bcher-kva.example/1"]
    assert reasons(*missing, "bücher-example", rules=rules) == ["scheme missing"] * 4 + [None]
    assert reasons("/https://bücher.example/1", "https//bücher.example/1", rules=rules) == [
        "site repeated",
        "misspelled scheme",
    ]
    assert reasons("жук.example/1", rules=UrlRules("https://жук.example")) == ["scheme missing"]


def test_values_without_a_leading_slash_are_rejected_on_request() -> None:
    rules = UrlRules(S, bare=False)
    values = ["Total", "lamp-10", "a/b", "?x=1", "./a", "größe", "/a", f"{S}/a", "//shop.example/a", "\\a"]
    assert reasons(*values, rules=rules) == ["no leading slash"] * 6 + [None] * 4


def test_values_that_are_not_urls_are_not_images() -> None:
    tally = Tally()
    column = pa.array(
        [
            '<img src="/1.jpg">',
            "![Lamp](/1.jpg)",
            '=IMAGE("/1.jpg")',
            "'/1.jpg'",
            "“/1.jpg”",
            "</1.jpg>",
            "/2.jpg",
            "---",
        ]
    )
    found = images(column, None, tally, rules=UrlRules(S)).to_pylist()
    assert found == [None] * 6 + [[f"{S}/2.jpg"], None]
    assert tally.counts == {
        "image: markup": 3,
        "image: formula": 1,
        "image: quoted": 2,
        "image: dashes": 1,
    }


def test_backslashes_in_image_urls_are_read_as_by_browsers() -> None:
    tally = Tally()
    column = pa.array(
        ["img\\1.jpg", f"{S}\\img\\2.jpg", "img\\3.jpg;img\\4.jpg", "C:\\img\\5.jpg", "\\\\server\\6.jpg"]
    )
    found = images(column, None, tally, rules=UrlRules(S)).to_pylist()
    assert found == [[f"{S}/img/1.jpg"], [f"{S}/img/2.jpg"], [f"{S}/img/3.jpg", f"{S}/img/4.jpg"], None, None]
    assert tally.counts == {"image: file path": 2, "image with a backslash": 4}


# --- wild cells -------------------------------------------------------------------------------------------------------

PIECES = [
    *("https://", "http://", "https//", "htps:/", "https;//", "ftp://", "//", "/", "\\", ":", "?", "#", "&", "="),
    *("shop.example", "www.shop.example", "old.example", "other.example", ".org", ".", ":443"),
    *(
        "lamp",
        "url",
        "-",
        "--",
        "(2 rows)",
        "'",
        '"',
        "“",
        "”",
        "<",
        "[",
        "{",
        "=A(",
        " ",
        ",",
        ";",
        "|",
        "%41",
        "ü",
        "A",
    ),
]
OURS = ("shop.example", "www.shop.example", "old.example", "www.old.example")
PLACES = "/:?#"


def begins_with_host(text: str) -> bool:
    rest = [text[len(host) :].removeprefix(".") for host in OURS if text.lower().startswith(host)]
    return any(not after or after[0] in PLACES for after in rest)


def read_plainly(value: str) -> str | None:
    """Return why a value is not a URL by the documented rules, applied one by one; None if it may be one."""
    text = value.strip(" ")
    cut = min((text.index(mark) for mark in "?#" if mark in text), default=len(text))
    if "\\" in text[:cut]:
        if text.startswith("\\\\") and not begins_with_host(text[2:].replace("\\", "/")):
            return "file path"
        text = text[:cut].replace("\\", "/") + text[cut:]
    absolute = re.match("(https?)://([^/?#]*)", text, re.IGNORECASE)
    if not text.startswith("/") and not re.match(r"([A-Za-z][A-Za-z0-9+.\-]*:)?//", text):
        why = bare(text)
        if why is not None:
            return why
    if absolute is not None:
        path = text[absolute.end() :]
    elif text.startswith("//"):
        path = re.sub("^//[^/?#]*", "", text)
    else:
        path = text if text.startswith("/") else f"/{text}"
    path = path.partition("#")[0]
    before_query = path.partition("?")[0]
    if re.search(r"[ ,;|]\s*https?:/", before_query, re.IGNORECASE):
        return "several addresses"
    inner = path.lstrip("/")
    found = re.match(r"[a-z][a-z0-9+.\-]*://", inner, re.IGNORECASE)
    if path.startswith("/") and found is not None and begins_with_host(inner[found.end() :]):
        return "site repeated"
    for end in range(1, 14):
        word, rest = inner[:end], inner[end:]
        if path.startswith("/") and is_misspelled(word) and begins_with_host(rest):
            return "misspelled scheme"
    return None


def is_misspelled(word: str) -> bool:
    letters = re.match("[htps]*", word, re.IGNORECASE)
    assert letters is not None
    signs = word[letters.end() :].removeprefix(" ")
    if not 3 <= letters.end() <= 7:
        return False
    return (
        re.fullmatch("/*", signs[1:]) is not None if signs.startswith(":") else bool(re.fullmatch("[;.,]?//+", signs))
    )


def bare(text: str) -> str | None:  # noqa: PLR0911 - one rule after the other
    if text == "url":
        return "header row"
    if text[:1] in "<[{" and text:
        return "markup"
    both = len(text) > 1 and (text[0] == text[-1] == "'" or (text[0] in "“”" and text[-1] in "“”"))
    if text.startswith('"') or both:
        return "quoted"
    if re.match(r"=(\"|[A-Za-z][\w.]*\s?\()", text):
        return "formula"
    if text == "(2 rows)":
        return "row count"
    if "-" in text and not text.strip("-+| "):
        return "dashes"
    if re.match(r"https?/", text, re.IGNORECASE) and begins_with_host(text.partition("/")[2]):
        return "misspelled scheme"
    return "scheme missing" if begins_with_host(text) else None


JUDGED = NO_ADDRESSES - {"no leading slash"}


@settings(max_examples=examples(300), deadline=None)
@given(st.lists(st.lists(st.sampled_from(PIECES), min_size=1, max_size=7).map("".join), min_size=1, max_size=12))
def test_real_world_values_are_judged_like_the_plain_rules(values: list[str]) -> None:
    found = reasons(*values)
    for value, reason in zip(values, found, strict=True):
        expected = read_plainly(value)
        if reason is None or reason in JUDGED:  # other reasons come first: a foreign origin, another scheme
            assert reason == expected, value


@settings(max_examples=examples(300), deadline=None)
@given(st.lists(st.lists(st.sampled_from(PIECES), max_size=5).map("".join), min_size=1, max_size=12))
def test_real_world_paths_are_judged_like_the_plain_rules(tails: list[str]) -> None:
    values = [f"{S}/{tail}" for tail in tails] + [f"/{tail}" for tail in tails]
    for value, reason in zip(values, reasons(*values), strict=True):
        if reason is None or reason in JUDGED:
            assert reason == read_plainly(value), value


# --- whole runs -------------------------------------------------------------------------------------------------------


def test_the_first_run_that_rejects_listed_urls_names_them(tmp_path: Path) -> None:
    site = TestSite(tmp_path, gates={"max_drop": 1, "max_rejected": 1})
    site.section("pages", [*pages(100), *({"loc": word} for word in ("Total", "Sum", "Rest", "Average"))])
    first = site.night(1)
    assert [text for text in first.summary.warnings if "rejected" in text] == []
    site.keys["urls"] = {"bare": "reject"}
    second = site.night(2)
    assert (second.summary.sections["pages"].rejected, second.summary.sections["pages"].removed) == (4, 4)
    (warning,) = [text for text in second.summary.warnings if "rejected" in text]
    assert warning == (
        "pages: 4 addresses that were listed until now are rejected, because the value in the source "
        "is not an address: "
        f"{S}/Average, {S}/Rest, {S}/Sum"
    )
    assert [text for text in site.night(3).summary.warnings if "rejected" in text] == []


@pytest.mark.parametrize(("bare", "warned"), [(0, 0), (1, 1), (9, 9), (10, 0), (1000, 0)])
def test_a_few_urls_without_a_leading_slash_are_a_warning_on_every_run(tmp_path: Path, bare: int, warned: int) -> None:
    site = TestSite(tmp_path)
    rows = [{"loc": row["loc"].removeprefix("/" if n < bare else "")} for n, row in enumerate(pages(1000))]
    site.section("pages", rows)
    for number in (1, 2, 3):
        night = site.night(number)
        warnings = [text for text in night.summary.warnings if "leading slash" in text]
        assert len(warnings) == (warned > 0)
        assert night.summary.reasons["pages"]["notes"].counts.get("loc without a leading slash", 0) == warned
        for text in warnings:
            assert text.startswith(f"pages: {warned:,} of 1,000 addresses have no leading slash, such as 'p/000000'")
    assert night.run.transformed(0).unchanged
