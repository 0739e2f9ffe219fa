"""hreflang clusters: complete for all listed pages, in whatever split or section their rows are."""

from __future__ import annotations

import itertools
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sitemap_etl.partition.clusters import ALONE, MEMBERS, TWO_PAGES, close
from tests.support.sites import TestSite

RULE = {"group": "item", "hreflang": "lang", "x_default": "en"}
ORIGIN = "https://shop.example"


@pytest.fixture
def site(tmp_path: Path) -> TestSite:
    return TestSite(tmp_path, gates={"max_drop": 1, "max_growth": 99})


def pages_in(languages: str, count: int = 5) -> list[dict[str, Any]]:
    return [{"loc": f"/{lang}/{n}", "item": f"i{n}", "lang": lang} for n in range(count) for lang in languages.split()]


def links(site: TestSite, path: str) -> dict[str, str]:
    found = site.public().by_loc()[ORIGIN + path].alternates
    return {tag: href.removeprefix(ORIGIN) for tag, href in found.items()}


def test_every_page_links_to_all_pages_of_its_cluster_including_itself(site: TestSite) -> None:
    site.section("a", pages_in("en de fr"), alternates=RULE)
    site.night(1)
    expected = {"de": "/de/3", "en": "/en/3", "fr": "/fr/3", "x-default": "/en/3"}
    assert links(site, "/en/3") == links(site, "/de/3") == links(site, "/fr/3") == expected


def test_pages_without_a_group_have_no_links(site: TestSite) -> None:
    alone = {"item": None, "lang": None}
    site.section("a", [*({**row, **alone} for row in pages_in("en")), *pages_in("de fr", 2)], alternates=RULE)
    site.section("b", [{"loc": f"/b/{n}", **alone} for n in range(3)], alternates=RULE)
    site.night(1)
    assert set(links(site, "/de/1")) == {"de", "fr"}
    assert links(site, "/en/1") == links(site, "/b/1") == {}


def test_sections_with_the_same_cluster_name_share_clusters(site: TestSite) -> None:
    rule = {**RULE, "cluster": "shop"}
    site.section("a", pages_in("en"), alternates=rule)
    site.section("b", pages_in("de"), alternates=rule)
    site.section("c", pages_in("fr"), alternates=RULE)
    site.night(1)
    assert set(links(site, "/en/1")) == {"en", "de", "x-default"}
    assert links(site, "/fr/1") == {}


def test_a_row_that_is_not_listed_leaves_the_cluster(site: TestSite) -> None:
    rows = pages_in("en de fr")
    rows[1] = {**rows[1], "exclude": "gone"}
    site.section("a", rows, alternates=RULE)
    site.night(1)
    assert set(links(site, "/en/0")) == {"en", "fr", "x-default"}


def test_a_row_that_an_earlier_section_lists_leaves_the_cluster(site: TestSite) -> None:
    site.section("first", [{"loc": "/de/0"}])
    site.section("a", pages_in("en de fr"), alternates=RULE)
    site.night(1)
    assert set(links(site, "/en/0")) == {"en", "fr", "x-default"}
    assert links(site, "/de/0") == {}


def test_a_page_in_several_languages_is_linked_for_each(site: TestSite) -> None:
    rows = [{"loc": "/en", "item": "x", "lang": "en"}, {"loc": "/de", "item": "x", "lang": "de"}]
    site.section("a", rows, alternates=RULE, where="true")
    site.keys["sections"]["a"]["from"] = {"csv": "./a.csv", "query": None}
    site.keys["sections"]["a"]["from"] = {"parquet": "./a.parquet"}
    table = pa.table(
        {
            "loc": ["/en", "/de"],
            "item": ["x", "x"],
            "lang": pa.array([["en-GB", "en-US"], ["de"]], pa.list_(pa.string())),
        }
    )
    import pyarrow.parquet as pq

    pq.write_table(table, site.folder / "a.parquet")
    site.night(1)
    assert links(site, "/de") == {"de": "/de", "en-GB": "/en", "en-US": "/en"}


def test_an_invalid_tag_is_left_out_and_counted(site: TestSite) -> None:
    rows = [*pages_in("en de", 1), {"loc": "/xx/0", "item": "i0", "lang": "klingon"}]
    site.section("a", rows, alternates=RULE)
    done = site.night(1)
    assert set(links(site, "/en/0")) == {"en", "de", "x-default"}
    assert any("hreflang" in reason for reason in done.summary.reasons["a"]["notes"].counts)


def test_a_run_without_changes_writes_nothing_if_there_are_clusters(site: TestSite) -> None:
    site.section("a", pages_in("en de fr"), alternates=RULE)
    site.night(1)
    assert site.night(2).summary.status == "unchanged"


def test_a_new_page_changes_the_links_of_its_cluster(site: TestSite) -> None:
    site.section("a", pages_in("en de"), alternates=RULE)
    site.night(1)
    site.export("a", [*pages_in("en de"), {"loc": "/fr/0", "item": "i0", "lang": "fr"}])
    done = site.night(2)
    assert set(links(site, "/de/0")) == {"en", "de", "fr", "x-default"}
    assert done.summary.sections["a"].changed == 2


def test_pages_of_sections_that_are_not_read_stay_in_their_clusters(site: TestSite) -> None:
    rule = {**RULE, "cluster": "shop"}
    site.section("a", pages_in("en"), alternates=rule)
    site.section("b", pages_in("de"), alternates=rule)
    site.night(1)
    site.export("a", pages_in("en", 6))
    site.night(2, sections=["a"])
    assert set(links(site, "/en/1")) == {"en", "de", "x-default"}


@pytest.mark.parametrize("held", [False, True])
def test_outdated_links_of_a_section_are_reported_until_it_is_read(site: TestSite, held: bool) -> None:
    rule = {**RULE, "cluster": "shop"}
    site.section("a", pages_in("en"), alternates=rule)
    site.section("b", [*pages_in("de fr"), {"loc": "/b", "item": None, "lang": None}], alternates=rule, on_error="keep")
    site.night(1)
    site.export("a", pages_in("en")[1:])
    rows = (site.folder / "b.csv").read_bytes()
    if held:
        (site.folder / "b.csv").unlink()
    warnings = site.night(2, sections=[] if held else ["a"]).summary.warnings
    (told,) = (warning for warning in warnings if "hreflang" in warning)
    assert told.startswith("b was not read, so 2 of its pages, such as https://shop.example/")
    assert links(site, "/de/0")["en"] == "/en/0"  # as it was published
    (site.folder / "b.csv").write_bytes(rows)
    done = site.night(3).summary
    assert not any("hreflang" in warning for warning in done.warnings)
    assert set(links(site, "/de/0")) == {"de", "fr"}


def test_links_that_are_still_valid_are_not_reported_for_a_section_that_is_not_read(site: TestSite) -> None:
    rule = {**RULE, "cluster": "shop"}
    site.section("a", pages_in("en", 9), alternates=rule)
    site.section("b", pages_in("de"), alternates=rule)
    site.night(1)
    site.export("a", pages_in("en", 8))  # /en/8 had no other language
    assert site.night(2, sections=["a"]).summary.warnings == ()


@pytest.mark.parametrize("reads", ["a c", "a"])
def test_a_page_taken_from_a_section_that_is_not_read_leaves_its_cluster(site: TestSite, reads: str) -> None:
    """The section c is read or not; b, which loses /de/0, is not."""
    rule = {**RULE, "cluster": "shop"}
    site.section("a", [{"loc": "/a"}])
    site.section("b", pages_in("de fr"), alternates=rule).section("c", pages_in("en"), alternates=rule)
    site.night(1)
    site.export("a", [{"loc": "/a"}, {"loc": "/de/0"}])
    done = site.night(2, sections=reads.split())
    assert links(site, "/de/0") == {}
    assert ("de" in links(site, "/en/0")) == ("c" not in reads)
    (warning,) = (warning for warning in done.summary.warnings if "hreflang" in warning)
    if "c" in reads:
        assert warning.startswith("b was not read, so 1 of its pages, such as https://shop.example/fr/0, keep")
    else:
        assert warning.startswith("b was not read, and no longer lists 1 page with hreflang links")
    assert set(links(site, "/de/1")) == {"de", "fr", "en", "x-default"}
    assert not any("hreflang" in warning for warning in site.night(3).summary.warnings)
    assert set(links(site, "/en/0")) == set(links(site, "/fr/0")) == {"fr", "en", "x-default"}


def test_a_page_taken_by_an_earlier_section_has_the_group_of_that_section(site: TestSite) -> None:
    rule = {**RULE, "cluster": "shop"}
    site.section("a", [{"loc": "/en/9", "item": "i9", "lang": "en"}], alternates=rule)
    site.section("b", pages_in("de fr"), alternates=rule)
    site.night(1)
    taken = {"loc": "/de/0", "item": "i9", "lang": "de"}  # b has it in the group i0
    site.export("a", [{"loc": "/en/9", "item": "i9", "lang": "en"}, taken])
    site.night(2, sections=["a"])
    assert links(site, "/de/0") == {"de": "/de/0", "en": "/en/9", "x-default": "/en/9"}
    site.night(3)
    assert links(site, "/de/0") == {"de": "/de/0", "en": "/en/9", "x-default": "/en/9"}
    assert links(site, "/fr/0") == {}


def test_a_page_alone_in_its_group_is_linked_under_its_last_language(site: TestSite) -> None:
    """The language of such a page is not shown, but stored: pages of other sections link to it later."""
    rule = {**RULE, "cluster": "shop"}
    site.section("a", [{"loc": "/a", "item": "i1", "lang": "en"}], alternates=rule)
    site.section("b", [{"loc": "/b", "item": "i2", "lang": "de"}], alternates=rule)
    site.night(1)
    site.export("b", [{"loc": "/b", "item": "i2", "lang": "fr"}])
    site.night(2)
    site.export("a", [{"loc": "/a", "item": "i2", "lang": "en"}])
    site.night(3, sections=["a"])
    assert links(site, "/a") == {"en": "/a", "fr": "/b", "x-default": "/a"}


MEMBER = st.tuples(st.integers(0, 4), st.integers(0, 9), st.sampled_from(["en", "de", "fr", "x-default"]))


@given(st.lists(MEMBER, max_size=40), st.randoms(use_true_random=False))
def test_the_links_of_clusters_follow_their_definition(
    members: list[tuple[int, int, str]], random_: random.Random
) -> None:
    random_.shuffle(members)
    table = pa.table(
        [
            pa.array([f"g{group}" for group, _, _ in members], pa.string()),
            pa.array([f"{ORIGIN}/{group}/{page}" for group, page, _ in members], pa.string()),
            pa.array([tag for _, _, tag in members], pa.string()),
            pa.array([0] * len(members), pa.int16()),
            pa.array(["en"] * len(members), pa.string()),
        ],
        schema=MEMBERS,
    )
    expected: dict[str, dict[str, str]] = {}
    for _, rows in itertools.groupby(sorted(set(members)), key=lambda row: row[0]):
        tags: dict[str, str] = {}
        for group, page, tag in sorted(rows, key=lambda row: f"{ORIGIN}/{row[0]}/{row[1]}"):
            tags.setdefault(tag, f"{ORIGIN}/{group}/{page}")
        if "en" in tags:
            tags.setdefault("x-default", tags["en"])
        if len(set(tags.values())) > 1:
            expected |= {loc: dict(sorted(tags.items())) for loc in set(tags.values())}
    closed = close(table).rows
    found = {row["loc"]: {link["hreflang"]: link["href"] for link in row["alternates"]} for row in closed.to_pylist()}
    assert found == expected
    assert all(list(links) == sorted(links) for links in found.values())


def test_second_pages_of_a_language_and_single_pages_are_counted() -> None:
    table = pa.table(
        {
            "group": ["g", "g", "g", "alone"],
            "loc": ["/a", "/b", "/c", "/d"],
            "hreflang": ["en", "en", "de", "en"],
            "section": pa.array([0] * 4, pa.int16()),
            "x_default": pa.nulls(4, pa.string()),
        },
        schema=MEMBERS,
    )
    closed = close(table)
    assert closed.notes.counts == {TWO_PAGES: 1, ALONE: 1}
    assert sorted(closed.rows.column("loc").to_pylist()) == ["/a", "/c"]


TWENTY = "ar bg cs da de el en es fi fr he hi hu it ja ko nl pl pt ru"


@pytest.mark.thorough
def test_clusters_of_twenty_languages_take_little_memory(tmp_path: Path) -> None:
    """60,000 rows have 1.2 million links, 130 MB of text; they are computed bucket by bucket."""
    site = TestSite(tmp_path)
    site.section(
        "a", ({"loc": f"/{lang}/{n}", "item": n, "lang": lang} for n in range(3_000) for lang in TWENTY.split())
    )
    site.keys["sections"]["a"]["alternates"] = RULE
    code = (
        "import resource, sys; from pathlib import Path; from sitemap_etl.config import load;"
        "from sitemap_etl.runs.local import run_locally; from sitemap_etl.stages.run import Environment;"
        "from sitemap_etl.state.records import Options;"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss;"
        "run_locally(load(Path(sys.argv[1]), environ={}), Options(), Environment(environ={}), jobs=1);"
        "print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)"
    )
    output = subprocess.run([sys.executable, "-c", code, str(site.path)], check=True, capture_output=True, text=True)
    assert set(links(site, "/ja/7")) == {*TWENTY.split(), "x-default"}
    assert int(output.stdout) < 700


@pytest.mark.parametrize("first", ["section", "view"])
def test_a_page_repeated_by_a_view_has_its_links_in_both_places(site: TestSite, first: str) -> None:
    rule = {**RULE, "cluster": "shop"}
    listed, shown = pages_in("en de"), pages_in("en de", 2)
    if first == "section":
        site.section("a", listed, alternates=rule)
    site.section("v", shown, alternates=rule, view=True)
    if first == "view":
        site.section("a", listed, alternates=rule)
    done = site.night(1)
    expected = {"en": "/en/1", "de": "/de/1", "x-default": "/en/1"}
    for path in ("/en/1", "/de/1"):
        found = [page.alternates for page in site.public().entries() if page.loc == ORIGIN + path]
        assert [{tag: href.removeprefix(ORIGIN) for tag, href in each.items()} for each in found] == [expected] * 2
    assert len(links(site, "/en/4")) == 3
    assert done.summary.clusters.aligned == 10


def test_a_view_read_alone_has_the_same_links_as_the_section_that_is_not_read(site: TestSite) -> None:
    rule = {**RULE, "cluster": "shop"}
    site.section("a", pages_in("en de"), alternates=rule)
    site.section("v", pages_in("en de", 2), alternates=rule, view=True)
    site.night(1)
    site.section("v", pages_in("en de", 3), alternates=rule, view=True)
    done = site.night(2, sections=("v",))
    assert done.summary.warnings == ()
    assert [len(page.alternates) for page in site.public().entries()] == [3] * 16
