"""Whole runs: from the rows of exports to a release that a crawler reads back."""

from __future__ import annotations

import gzip
import json
import random
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from sitemap_etl import limits
from sitemap_etl.errors import ConfigError, InvalidSource, Refused, Unavailable
from sitemap_etl.runs.local import publish_locally, run_locally
from sitemap_etl.state.records import Counts, Options
from tests.support.sites import FIRST_NIGHT, TestSite, pages
from tests.support.storages import BrokenReceipts, Full

SMALL = {"rows": 100, "fill": 0.9}


@pytest.fixture
def site(tmp_path: Path) -> TestSite:
    return TestSite(tmp_path)


def test_every_row_of_a_source_is_listed_once(site: TestSite) -> None:
    site.section("products", pages(1_000), shards=SMALL)
    done = site.night(1)
    assert done.summary.status == "published"
    assert sorted(site.public().locs()) == [f"https://shop.example/p/{n:06}" for n in range(1_000)]


def test_files_have_equal_sizes_within_the_limit(site: TestSite) -> None:
    site.section("products", pages(1_000), shards=SMALL)
    site.night(1)
    sizes = [sum(e.file == f for e in site.public().entries()) for f in {e.file for e in site.public().entries()}]
    assert len(sizes) == 12  # ⌈1000 / 90⌉
    assert max(sizes) - min(sizes) <= 1


def test_a_second_run_over_the_same_source_writes_nothing(site: TestSite) -> None:
    site.section("products", pages(500, lastmod="2026-10-01"), shards=SMALL)
    site.night(1)
    before = site.public().objects()
    done = site.night(2)
    assert done.summary.status == "unchanged"
    assert done.summary.files.written == 0
    assert site.public().objects() == before


def test_a_changed_row_rewrites_only_its_file(site: TestSite) -> None:
    site.section("products", pages(1_000, lastmod="2026-10-01"), shards=SMALL)
    site.night(1)
    before = site.public().objects()
    rows = pages(1_000, lastmod=lambda n: "2026-11-01" if n == 500 else "2026-10-01")
    site.export("products", rows)
    done = site.night(2)
    after = site.public().objects()
    changed = {key for key in after if after[key] != before.get(key)}
    assert done.summary.sections["products"].changed == 1
    assert len(changed - {"sitemap.xml"}) == 1


def test_appended_rows_are_written_to_new_files_and_full_ones_stay(site: TestSite) -> None:
    site.section("products", pages(270), shards=SMALL, gates={"max_growth": 9})
    site.night(1)
    before = site.public().objects()
    site.export("products", pages(400))
    site.night(2)
    after = site.public().objects()
    assert {key for key in before if after[key] != before[key]} == {"sitemap.xml"}
    assert len(site.public().locs()) == 400


def test_the_number_of_a_retired_file_is_never_reused(site: TestSite) -> None:
    site.keys["gates"] = {"max_drop": 1, "max_growth": 9}
    site.section("products", pages(270), shards=SMALL)
    site.night(1)
    site.export("products", pages(90))
    site.night(2)
    site.export("products", pages(270))
    site.night(3)
    assert {e.file for e in site.public().entries()} == {
        "sitemap-products-00001.xml.gz",
        "sitemap-products-00004.xml.gz",
        "sitemap-products-00005.xml.gz",
    }


@pytest.mark.parametrize("night", [1, 2])
def test_the_published_bytes_do_not_depend_on_row_order_and_splits(tmp_path: Path, night: int) -> None:
    """For a first release and a later one."""
    rows = pages(3_000, lastmod=lambda n: f"2026-10-{n % 28 + 1:02}", sales=lambda n: str(n * 7919 % 3_000))
    objects = []
    for variant in range(3):
        site = TestSite(tmp_path / str(variant))
        site.section("products", shards=SMALL, priority={"percentile_of": "sales"})
        site.keys["sections"]["products"]["from"] = {"parquet": "./export"}
        export = site.folder / "export"
        export.mkdir()
        for at in range(1, night + 1):
            chosen = [row for n, row in enumerate(rows) if at == night or n % 10]
            random.Random(variant).shuffle(chosen)
            for old in export.iterdir():
                old.unlink()
            parts = variant + 1
            for part in range(parts):
                table = pa.Table.from_pylist(chosen[part::parts])
                pq.write_table(table, export / f"{part}.parquet", row_group_size=100 + 450 * variant)
            site.night(at, jobs=variant + 1)
        objects.append(site.public().objects())
    assert objects[0] == objects[1] == objects[2]
    assert len(objects[0]) > 30


def test_of_two_sections_the_first_in_the_file_lists_a_url(site: TestSite) -> None:
    site.section("a", pages(10))
    site.section("b", pages(10, start=5))
    done = site.night(1)
    assert len(site.public().locs()) == len(set(site.public().locs())) == 15
    assert done.summary.sections["b"].duplicates == 5


def test_of_two_rows_the_newer_is_listed(site: TestSite) -> None:
    site.section("products", [{"loc": "/a", "lastmod": date} for date in ("2026-01-01", "2026-03-01", "")])
    done = site.night(1)
    assert site.public().by_loc()["https://shop.example/a"].lastmod == "2026-03-01"
    assert done.summary.sections["products"].duplicates == 2


def test_every_row_is_accounted_for(site: TestSite) -> None:
    rows = [
        *pages(50),
        {"loc": "/p/000001"},
        {"loc": "https://elsewhere.example/x"},
        {"loc": ""},
        {"loc": "/hidden", "exclude": "sold out"},
    ]
    site.section("products", rows, where="loc IS DISTINCT FROM '/p/000002'", gates={"max_rejected": 1})
    counts = site.night(1).summary.sections["products"]
    assert counts == Counts(extracted=54, listed=49, duplicates=1, excluded=2, rejected=2, added=49)


def test_a_condition_may_end_with_a_comment(site: TestSite) -> None:
    site.section("products", pages(5), where="loc <> '/p/000002' -- not this one")
    site.night(1)
    assert len(site.public().locs()) == 4


@pytest.mark.parametrize(
    ("column", "keys"), [("exclude", {}), ("item", {"alternates": {"group": "item", "hreflang": "lang"}})]
)
@pytest.mark.parametrize("value", [b"\xff\xfe", [1], {"a": 1}])
def test_a_loc_column_that_is_not_text_is_reported_with_its_type(
    site: TestSite, column: str, keys: dict[str, Any], value: object
) -> None:
    table = pa.table({"loc": ["/a", "/b"], "lang": ["de", "en"], column: [value, value]})
    pq.write_table(table, site.folder / "p.parquet")
    site.keys["sections"] = {"p": {"from": {"parquet": "./p.parquet"}, **keys}}
    with pytest.raises(InvalidSource, match=rf"the column '{column}' has type .* can't be read as text: convert it"):
        site.night(1)


@pytest.mark.parametrize("kind", [pa.decimal256(76, 30), pa.float16()], ids=str)
def test_a_predicate_works_despite_number_types_that_duckdb_lacks(site: TestSite, kind: pa.DataType) -> None:
    prices = pa.array([Decimal(1), Decimal(3)]) if pa.types.is_decimal(kind) else pa.array([1.0, 3.0])
    table = pa.table({"loc": ["/a", "/b"], "price": prices.cast(kind)})
    pq.write_table(table, site.folder / "p.parquet")
    site.keys["sections"] = {"p": {"from": {"parquet": "./p.parquet"}, "where": "loc <> '/c' AND price > 2"}}
    site.night(1)
    assert [loc[-2:] for loc in site.public().locs()] == ["/b"]


NUMBERS = [pa.int8(), pa.float64(), pa.float16(), pa.decimal128(20, 1), pa.decimal128(1, 0), pa.decimal256(76, 30)]


@pytest.mark.parametrize("kind", [*NUMBERS, pa.bool_()], ids=str)
def test_rows_can_be_excluded_by_numbers_and_booleans(site: TestSite, kind: pa.DataType) -> None:
    """MySQL has numbers for booleans. Text is the reason, whatever it says."""
    numbers = [None if mark is None else Decimal(mark) for mark in (1, 0, None)]
    marks = pa.array(numbers, kind) if pa.types.is_decimal(kind) else pa.array([1, 0, None], pa.int8()).cast(kind)
    pq.write_table(pa.table({"loc": ["/a", "/b", "/c"], "exclude": marks}), site.folder / "p.parquet")
    site.keys["sections"] = {"p": {"from": {"parquet": "./p.parquet"}}}
    done = site.night(1)
    assert [loc[-2:] for loc in site.public().locs()] == ["/b", "/c"]
    assert [one.text for one in done.summary.reasons["p"]["excluded"].ordered()] == ["excluded by the source"]


def test_nested_values_in_two_notations_are_read_per_row(site: TestSite) -> None:
    url = "https://shop.example"
    plain = {"thumbnail_loc": f"{url}/t.jpg", "title": "t", "description": "d", "content_loc": f"{url}/v.mp4"}
    videos = [
        {**plain, "uploader": {"name": "n", "info": f"{url}/u"}, "tag": ["a", "b"]},
        {**plain, "uploader": "x", "tag": "c d", "restriction": "deny DE US"},
        {**plain, "restriction": {"relationship": "deny", "value": ["DE", "US"]}},
    ]
    lines = [json.dumps({"loc": f"/{n}", "videos": [video]}) for n, video in enumerate(videos)]
    (site.folder / "p.jsonl").write_text("\n".join(lines))
    site.keys["sections"] = {"p": {"from": {"jsonl": "./p.jsonl"}}}
    site.night(1)
    xml = gzip.decompress(site.public().objects()["sitemap-p-00001.xml.gz"]).decode()
    assert f'<video:uploader info="{url}/u">n</video:uploader>' in xml
    assert "<video:uploader>x</video:uploader>" in xml
    assert "<video:tag>a</video:tag><video:tag>b</video:tag>" in xml
    assert "<video:tag>c d</video:tag>" in xml
    assert xml.count('<video:restriction relationship="deny">DE US</video:restriction>') == 2


def test_rows_that_are_not_listed_are_kept_with_their_reasons(site: TestSite) -> None:
    rows = [*pages(50), {"loc": "https://elsewhere.example/x"}, {"loc": "/hidden", "exclude": "sold out"}]
    site.section("products", rows)
    run_id = site.night(1).run.run_id
    reports = site.folder / "work" / "shop" / "reports" / run_id
    assert pq.read_table(reports / "rejected.parquet").select(["loc", "reason"]).to_pylist() == [
        {"loc": "https://elsewhere.example/x", "reason": "foreign origin"}
    ]
    assert pq.read_table(reports / "excluded.parquet").select(["loc", "reason"]).to_pylist() == [
        {"loc": "/hidden", "reason": "sold out"}
    ]


@pytest.mark.parametrize("counter", ["inventory", "excluded", "rejected", "rows"])
def test_a_run_whose_row_counts_do_not_add_up_fails(site: TestSite, counter: str) -> None:
    """Each count in a split's task result is altered on purpose."""
    site.section("products", pages(50))
    shown = site.night(1, dry_run=True).run.run_id
    broken = BrokenReceipts("transform/0.json", counter).around(site.environment)
    with pytest.raises(Refused, match="unaccounted for"):
        publish_locally(site.load(), shown, broken, force=(), reason=None, adopt=False)
    assert not (site.folder / "public").exists()


@pytest.mark.parametrize("counter", ["gathered", "listed", "duplicates"])
def test_a_run_that_loses_rows_while_rendering_fails(site: TestSite, counter: str) -> None:
    site.section("products", pages(50))
    shown = site.night(1, dry_run=True).run.run_id
    broken = BrokenReceipts("render/0.json", counter).around(site.environment)
    with pytest.raises(Refused, match="unaccounted for"):
        publish_locally(site.load(), shown, broken, force=(), reason=None, adopt=False)
    assert not (site.folder / "public").exists()


def test_a_refusing_gate_changes_nothing_public(site: TestSite) -> None:
    site.section("products", pages(100))
    site.night(1)
    before = site.public().objects()
    site.export("products", pages(50))
    done = site.night(2)
    assert done.summary.status == "refused"
    assert "products would drop 50 of 100 URLs (50 %, max_drop is 10 %)" in done.summary.error
    assert site.public().objects() == before


def test_a_forced_gate_publishes_and_the_manifest_records_the_reason(site: TestSite) -> None:
    site.section("products", pages(100))
    site.night(1)
    site.export("products", pages(50))
    done = site.night(2, force=("products.max_drop",), reason="range discontinued")
    assert done.summary.status == "published"
    assert site.manifest().forced == ("products.max_drop",)
    assert site.manifest().reason == "range discontinued"


def test_a_kept_section_stays_published_and_counts_in_the_totals(site: TestSite) -> None:
    site.section("a", pages(30))
    site.section("b", pages(30, start=100), on_error="keep")
    site.night(1)
    (site.folder / "b.csv").unlink()
    site.export("a", pages(31))
    done = site.night(2)
    assert done.summary.status == "partial"
    assert done.summary.sections["b"].carried == 30
    assert len(site.public().locs()) == 61
    assert "b.csv" in done.summary.kept["b"]


@pytest.mark.parametrize("staged", ["extract/1-*.parquet", "transform/1-*.spool"])
def test_a_full_staging_disk_ends_the_run_instead_of_keeping_sections(site: TestSite, staged: str) -> None:
    """Pages move to a section whose rows can't be staged: if it were kept, no section would list them."""
    site.section("a", pages(30))
    site.section("b", pages(30, start=100), on_error="keep")
    site.night(1)
    locs = site.public().locs()
    site.export("a", pages(20))
    site.export("b", pages(30, start=100) + pages(10, start=20))
    full = Full(staged).around(site.at(FIRST_NIGHT + timedelta(days=1)))
    with pytest.raises(Unavailable, match=r"can't write .*File too large"):
        run_locally(site.load(), Options(), full, jobs=1)
    assert site.public().locs() == locs
    site.night(3)
    assert sorted(site.public().locs()) == sorted(locs)


def test_a_run_of_one_section_keeps_others_except_pages_that_it_lists_first(site: TestSite) -> None:
    site.section("a", pages(30))
    site.section("b", pages(30, start=100))
    site.night(1)
    site.export("a", pages(110))
    done = site.night(2, sections=["a"], force=("a.max_growth", "max_growth"), reason="test")
    locs = site.public().locs()
    assert len(locs) == len(set(locs)) == 130
    counts = {name: (each.listed, each.duplicates) for name, each in done.summary.sections.items()}
    assert counts == {"a": (110, 0), "b": (20, 10)}


def test_changed_priorities_alone_never_rewrite_a_file(site: TestSite) -> None:
    site.section("products", pages(200, lastmod="2026-10-01", sales=lambda n: n), priority={"percentile_of": "sales"})
    site.night(1)
    first = site.public().by_loc()["https://shop.example/p/000000"].priority
    site.export("products", pages(200, lastmod="2026-10-01", sales=lambda n: 200 - n))
    assert site.night(2).summary.status == "unchanged"
    site.export(
        "products", pages(200, lastmod=lambda n: "2026-11-02" if n == 9 else "2026-10-01", sales=lambda n: 200 - n)
    )
    assert site.night(3).summary.status == "published"
    assert (first, site.public().by_loc()["https://shop.example/p/000000"].priority) == ("0.0", "1.0")


def test_robots_txt_keeps_all_lines_outside_the_managed_block(site: TestSite) -> None:
    public = site.folder / "public"
    public.mkdir()
    (public / "robots.txt").write_bytes(b"\xef\xbb\xbfUser-agent: *\r\nDisallow: /cart")
    site.section("products", pages(10))
    site.night(1)
    text = (public / "robots.txt").read_bytes()
    assert text.startswith(b"\xef\xbb\xbfUser-agent: *\r\nDisallow: /cart")
    assert b"Sitemap: https://shop.example/sitemap.xml" in text


def test_pages_that_robots_txt_disallows_are_excluded(site: TestSite) -> None:
    public = site.folder / "public"
    public.mkdir()
    (public / "robots.txt").write_text("User-agent: *\nDisallow: /p/00000\n")
    site.keys["urls"] = {"respect_robots": True}
    site.section("products", pages(15))
    done = site.night(1)
    assert len(site.public().locs()) == 5
    assert done.summary.sections["products"].excluded == 10


def test_an_object_not_managed_is_not_replaced(site: TestSite) -> None:
    public = site.folder / "public"
    public.mkdir()
    (public / "sitemap.xml").write_text("<old/>")
    site.section("products", pages(10))
    done = site.night(1)
    assert (done.summary.status, done.summary.published) == ("refused", False)
    assert "was not created by this state" in (done.summary.error or "")
    assert {path.name for path in public.iterdir()} == {"sitemap.xml"}


def test_adopted_objects_are_replaced_after_keeping_a_copy(site: TestSite) -> None:
    public = site.folder / "public"
    public.mkdir()
    (public / "sitemap.xml").write_text("<old/>")
    site.section("products", pages(10))
    done = site.night(1, adopt=True)
    copy = site.folder / "work" / "shop" / "state" / "adopted" / done.run.run_id / "sitemap.xml"
    assert copy.read_text() == "<old/>"
    assert len(site.public().locs()) == 10


@pytest.mark.parametrize("unused", ["created", "headline"])
def test_a_column_can_be_renamed_to_a_name_that_no_rule_uses(site: TestSite, unused: str) -> None:
    rows = [{"loc": "/a", "lastmod": "2020-01-01", "created": "2026-10-01"}]
    site.section("pages", rows, columns={"lastmod": "created", unused: "lastmod"})
    assert site.night(1).summary.status == "published"
    assert site.public().by_loc()["https://shop.example/a"].lastmod == "2026-10-01"


def test_a_source_without_loc_is_reported_with_its_columns(site: TestSite) -> None:
    site.section("products", [{"url": "/a", "title": "A"}])
    with pytest.raises(InvalidSource, match=r"(?s)products.*no column 'loc'.*url, title"):
        site.night(1)


def test_escaped_characters_are_read_back_unchanged(site: TestSite) -> None:
    site.section("products", [{"loc": "/a?x=1&y='2'"}, {"loc": '/<"quoted">'}])
    site.night(1)
    assert sorted(site.public().locs()) == [
        "https://shop.example/%3C%22quoted%22%3E",
        "https://shop.example/a?x=1&y='2'",
    ]
    data = b"".join(gzip.decompress(v) for k, v in site.public().objects().items() if k.endswith(".gz"))
    assert b"x=1&amp;y=&apos;2&apos;" in data


@pytest.mark.thorough
def test_more_than_a_thousand_files_get_a_second_index(site: TestSite) -> None:
    site.section("products", pages(2_010), shards={"rows": 2, "fill": 1})
    site.night(1)
    crawler = site.public()
    assert crawler.indexes() == ["sitemap-2.xml", "sitemap.xml"]
    assert len(crawler.files("sitemap.xml")) <= 1_000
    assert len(crawler.locs()) == 2_010
    robots = (site.folder / "public" / "robots.txt").read_text()
    assert "https://shop.example/sitemap-2.xml" in robots


def test_a_run_with_a_limit_must_be_a_dry_run_once_something_is_published(site: TestSite) -> None:
    site.section("products", pages(100))
    assert site.night(1, limit=10).summary.sections["products"].listed == 10
    with pytest.raises(ConfigError, match=r"--limit 10 would unlist .* 10 URLs are published\. Add --dry-run"):
        site.night(2, limit=10)
    assert site.night(2, limit=20, dry_run=True).summary.sections["products"].extracted == 20


def test_a_section_of_many_windows_can_lose_its_first_and_last_page_to_another(
    site: TestSite,
) -> None:
    count = 3 * limits.WINDOW_ROWS // 2
    site.section("ends", [{"loc": "/p/000000"}, {"loc": f"/p/{count - 1:06}"}])
    numbers = pc.utf8_lpad(pa.array(range(count)).cast(pa.string()), 6, "0")
    pq.write_table(pa.table({"loc": pc.binary_join_element_wise("/p/", numbers, "")}), site.folder / "all.parquet")
    site.section("all", **{"from": {"parquet": "./all.parquet"}})
    done = site.night(1)
    assert len(done.run.partition().sections["all"].windows) > 2
    assert done.summary.sections["all"] == Counts(extracted=count, listed=count - 2, duplicates=2, added=count - 2)
    assert done.summary.sections["ends"].listed == 2
