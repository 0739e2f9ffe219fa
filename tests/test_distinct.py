"""Publish verifies that no loc is in two files, whatever the earlier stages did."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from sitemap_etl.errors import Refused
from sitemap_etl.runs.local import publish_locally
from sitemap_etl.state import layout
from sitemap_etl.state.codec import encode, seal
from sitemap_etl.state.records import Manifest, Rendered, StagedShard
from sitemap_etl.state.store import parse_document, put_document, read_document
from tests.support.sites import TestSite, pages
from tests.support.storages import Counting

OPEN = {"max_drop": 1, "max_growth": 99, "min_urls": 0}


@pytest.fixture
def site(tmp_path: Path) -> TestSite:
    made = TestSite(tmp_path, gates=OPEN)
    made.section("a", pages(60), shards={"rows": 20}).section("b", pages(60, 30), shards={"rows": 20})
    return made


def staged(site: TestSite, change: Callable[[list[Rendered]], list[Rendered]]) -> str:
    """Make a dry run whose task results of render are altered; return its id."""
    run = site.night(2, dry_run=True).run
    folder = run.work.sub(layout.run_folder(run.run_id))
    for n, receipt in enumerate(change(run.all_rendered())):
        put_document(folder, layout.receipt(layout.render(n)), receipt)
    return run.run_id


def publish(site: TestSite, run_id: str) -> str:
    finished = publish_locally(site.load(), run_id, site.environment, force=(), reason=None, adopt=False)
    return finished.summary.status


def rows_of(to: StagedShard, given: StagedShard) -> StagedShard:
    """Return `to` with the rows of `given`, and their number."""
    return replace(to, snapshot=given.snapshot, first=given.first, last=given.last, rows=to.rows)


def test_a_release_with_a_page_in_two_sections_is_refused_with_the_page(site: TestSite) -> None:
    def change(receipts: list[Rendered]) -> list[Rendered]:
        a, b = receipts
        return [a, replace(b, shards=(rows_of(b.shards[0], a.shards[0]), *b.shards[1:]))]

    before = site.public().objects()
    with pytest.raises(Refused, match=r"15 URLs would be listed in a and b, e\.g\. https://shop\.example/p/000000, "):
        publish(site, staged(site, change))
    assert site.public().objects() == before


def test_a_manifest_without_a_record_of_distinct_pages_counts_as_unverified(site: TestSite) -> None:
    site.night(1)
    stored = encode(site.manifest())
    assert stored.pop("distinct")
    assert not parse_document(seal(stored), Manifest, "manifest").distinct


def test_a_release_with_a_page_in_two_files_of_a_section_is_refused(site: TestSite) -> None:
    def change(receipts: list[Rendered]) -> list[Rendered]:
        a, b = receipts
        return [replace(a, shards=(a.shards[0], rows_of(a.shards[1], a.shards[0]), *a.shards[2:])), b]

    with pytest.raises(
        Refused, match=r"1 URLs would be listed in two files of a, e\.g\. https://shop\.example/p/000000\."
    ):
        publish(site, staged(site, change))


def test_a_release_without_repeated_pages_is_published(site: TestSite) -> None:
    assert publish(site, staged(site, list)) == "published"
    assert site.manifest().distinct


def test_a_view_can_repeat_pages_of_other_sections(site: TestSite) -> None:
    site.section("v", pages(60), view=True)
    assert site.night(1).summary.status == "published"
    site.section("v", pages(60))
    assert site.night(2).summary.sections["v"].duplicates == 60


def test_an_unverified_release_is_searched_for_repeated_pages_completely(site: TestSite) -> None:
    site.night(1)
    state = site.state()
    key = state.current().manifest
    assert key is not None
    found = read_document(state.storage, key, Manifest)
    assert found is not None
    a, b = (next(e for e in found[0].entries if e.section == name) for name in "ab")
    twice = replace(b, first=a.first, last=a.last, snapshot=a.snapshot)
    entries = tuple(twice if entry == b else entry for entry in found[0].entries)
    put_document(state.storage, key, replace(found[0], entries=entries, distinct=False))
    with pytest.raises(Refused, match="would be listed in a and b"):
        site.section("c", [{"loc": "/c"}]).night(2, sections=("c",))


def test_a_run_without_changes_reads_nothing_to_find_repeated_pages(tmp_path: Path) -> None:
    """Files of two overlapping sections are compared if one of them is new, or unverified."""
    site = TestSite(tmp_path, gates=OPEN)
    site.section("even", pages(100)[::2], shards={"rows": 20}).section("odd", pages(100)[1::2], shards={"rows": 20})
    site.night(1)
    counting = Counting()
    site.environment = counting.around(site.environment)
    site.night(2)
    second = counting.calls["get"]
    counting.calls.clear()
    site.night(3)
    quiet = counting.calls["get"]
    more = quiet - second  # the record of the night before
    state = site.state()
    key = state.current().manifest
    assert key is not None
    found = read_document(state.storage, key, Manifest)
    assert found is not None
    assert len(found[0].entries) == 6
    put_document(state.storage, key, replace(found[0], distinct=False))
    counting.calls.clear()
    site.night(4)
    assert counting.calls["get"] == quiet + more + 6
