"""`urls.slash`: pages are listed with a slash at the end of their paths, or without one."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sitemap_etl import limits
from sitemap_etl.errors import ConfigError
from sitemap_etl.urls import UrlRules, as_joined, as_listed, canonicalize
from tests.support.command import call
from tests.support.sites import TestSite

S = "https://shop.example"
OLD = "http://old.example"
FORMS = [  # with `keep`, with `add`, with `strip`
    ("/a", "/a/", "/a"),
    ("/a/", "/a/", "/a"),
    ("/a/b", "/a/b/", "/a/b"),
    ("/a//", "/a//", "/a"),
    ("/", "/", "/"),
    ("//", "//", "//"),
    ("/?q=1", "/?q=1", "/?q=1"),
    ("/a?q=1/", "/a/?q=1/", "/a?q=1/"),
    ("/a/?q=1", "/a/?q=1", "/a?q=1"),
    ("/a?", "/a/?", "/a?"),
    ("/a?b?c", "/a/?b?c", "/a?b?c"),
    ("/a?f=x.pdf", "/a/?f=x.pdf", "/a?f=x.pdf"),
    ("/a%2F", "/a%2F/", "/a%2F"),
    ("/gr%C3%B6%C3%9Fe", "/gr%C3%B6%C3%9Fe/", "/gr%C3%B6%C3%9Fe"),
    ("/a.html", "/a.html", "/a.html"),
    ("/a.html?q=1", "/a.html?q=1", "/a.html?q=1"),
    ("/a.html/", "/a.html/", "/a.html"),
    ("/a.7z", "/a.7z", "/a.7z"),
    ("/a.html/b", "/a.html/b/", "/a.html/b"),
    ("/v1.2", "/v1.2/", "/v1.2"),
    ("/.env", "/.env/", "/.env"),
    ("/a.unabridged", "/a.unabridged/", "/a.unabridged"),
    ("/api/v", "/api/v", "/api/v"),
    ("/api/v/", "/api/v/", "/api/v/"),
]


def ruled(slash: Any, *patterns: str) -> UrlRules:
    return UrlRules(S, (OLD,), slash=slash, slash_except=patterns)


@pytest.mark.parametrize(("at", "slash"), [*enumerate(("keep", "add", "strip"))])
def test_each_form_of_a_path(at: int, slash: str) -> None:
    rules = ruled(slash, "/api/")
    given_, expected = pa.array([*(f"{S}{row[0]}" for row in FORMS), None]), [*(f"{S}{row[at]}" for row in FORMS), None]
    found = canonicalize(given_, rules)
    assert found.loc.to_pylist() == expected
    assert found.reason.to_pylist() == [None] * len(FORMS) + ["missing loc"]
    assert canonicalize(found.loc, rules).loc.equals(found.loc)
    assert as_joined(given_, rules).equals(found.loc)


def test_a_url_that_is_too_long_with_its_slash_is_rejected() -> None:
    longest = "/" + "a" * (limits.LOC_LENGTH - len(S) - 1)
    found = canonicalize(pa.array([longest, longest[:-1], "/b"]), ruled("add"))
    assert found.loc.to_pylist() == [None, f"{S}{longest[:-1]}/", f"{S}/b/"]
    assert found.reason.to_pylist() == ["too long", None, None]


def test_alternates_on_the_site_follow_the_rule_and_those_on_other_hosts_do_not() -> None:
    urls = pa.array([f"{S}/a", f"{OLD}/b", "https://de.shop.example/c", None])
    assert as_listed(urls, ruled("add")).to_pylist() == [f"{S}/a/", f"{S}/b/", "https://de.shop.example/c", None]


paths = st.lists(st.sampled_from(["/", "a", ".", "html", "?", "=", "%2F", "1", "é", "#"]), max_size=9).map("".join)


@given(st.lists(paths.map(lambda path: f"{S}/{path}"), max_size=9), st.sampled_from(["add", "strip"]))
def test_columns_follow_the_rule_like_single_urls(rows: list[str], slash: str) -> None:
    plain, found = (canonicalize(pa.array(rows, pa.string()), ruled(form)).loc.to_pylist() for form in ("keep", slash))
    for before, after in zip(plain, found, strict=True):
        path, mark, query = before.removeprefix(S).partition("?")
        last = path.rpartition("/")[2]
        if slash == "add" and last and not re.fullmatch(r".+\.[0-9]?[A-Za-z][A-Za-z0-9]{0,5}", last):
            path += "/"
        elif slash == "strip":
            path = path.rstrip("/") or path
        assert after == f"{S}{path}{mark}{query}"


# --- runs ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def site(tmp_path: Path) -> TestSite:
    return TestSite(tmp_path, gates={"max_drop": 1, "max_growth": 9})


def locs(site: TestSite) -> list[str]:
    return sorted(loc.removeprefix(S) for loc in site.public().locs())


def test_both_forms_are_one_page_and_the_next_run_applies_another_rule(site: TestSite) -> None:
    site.section("p", [{"loc": "/p/1"}, {"loc": "/p/1/"}, {"loc": "/p/2"}]).section(
        "q", [{"loc": "/p/2/"}, {"loc": "/q/"}]
    )
    site.night(1)
    assert locs(site) == ["/p/1", "/p/1/", "/p/2", "/p/2/", "/q/"]
    site.keys["urls"] = {"slash": "add"}
    done = site.night(2).summary
    assert done.status == "published", done.error
    assert locs(site) == ["/p/1/", "/p/2/", "/q/"]
    assert {name: one.duplicates for name, one in done.sections.items()} == {"p": 1, "q": 1}
    assert site.night(3).summary.status == "unchanged"
    site.keys["urls"] = {"slash": "strip", "slash_except": "/p/2"}
    site.night(4)
    assert locs(site) == ["/p/1", "/p/2", "/p/2/", "/q"]


def test_patterns_of_exclude_are_matched_with_the_listed_form(site: TestSite) -> None:
    site.keys["urls"] = {"slash": "add", "exclude": ["/p/1/$"]}
    site.section("p", [{"loc": "/p/1"}, {"loc": "/p/2"}]).night(1)
    assert locs(site) == ["/p/2/"]


def test_alternates_and_images_of_a_page(site: TestSite) -> None:
    links = {"de": f"{S}/de", "en": "https://en.shop.example/en"}
    row = {"loc": "/de", "alternates": json.dumps(links), "images": json.dumps([f"{S}/media/1"])}
    site.keys["urls"] = {"slash": "add"}
    site.section("p", [row]).night(1)
    (entry,) = site.public().entries()
    assert entry.loc == f"{S}/de/"
    assert f"{S}/de/" in str(entry.alternates)
    assert "https://en.shop.example/en/" not in str(entry.alternates)
    assert entry.images == [f"{S}/media/1"]


def test_explain_finds_the_page_in_either_form(site: TestSite) -> None:
    site.keys["urls"] = {"slash": "strip"}
    site.section("p", [{"loc": "/p/1/"}]).night(1)
    for asked in ("/p/1", "/p/1/"):
        done = call("explain", site.path, asked)
        assert (done.code, "is listed in section p" in done.out, f"{S}/p/1)" in done.out) == (0, True, True)


def test_a_comparison_uses_the_rule_on_both_sides(site: TestSite) -> None:
    site.section("p", [{"loc": "/p/1"}, {"loc": "/p/2"}]).night(1)
    site.keys["urls"] = {"slash": "add"}
    against = site.folder / "public" / "sitemap.xml"
    done = call("run", site.path, "--dry-run", "--against", against, "--json").json["against"]
    assert (done["both"], done["respelled"]["count"]) == (2, 2)


@pytest.mark.parametrize(
    ("urls", "said"),
    [
        ({"slash": "always"}, "urls.slash: "),
        ({"slash": "add", "slash_except": ["api"]}, "urls.slash_except"),
    ],
)
def test_a_mistake_names_its_key(site: TestSite, urls: dict[str, Any], said: str) -> None:
    site.keys["urls"] = urls
    site.section("p", [{"loc": "/p/1"}])
    with pytest.raises(ConfigError, match=re.escape(said)):
        site.load()
