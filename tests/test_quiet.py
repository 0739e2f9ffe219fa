"""Unchanged sections are not rendered; any difference causes rendering.

The next run shows whether a run noticed everything: with `--full` it renders all sections, and finds nothing to do if
the published files are right.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sitemap_etl.errors import InvalidSource
from sitemap_etl.explain.answers import json_of
from sitemap_etl.explain.explain import explain
from sitemap_etl.publish.publish import publish
from sitemap_etl.publish.summary import finish_run
from sitemap_etl.runs.build import build
from sitemap_etl.runs.local import Finished, publish_locally
from sitemap_etl.runs.rollback import roll_back
from sitemap_etl.stages.decide import decide_sections
from sitemap_etl.stages.plan import start_run
from sitemap_etl.state import layout
from sitemap_etl.state.lease import release_lease
from sitemap_etl.state.records import Options
from tests.support.sites import FIRST_NIGHT, TestSite, pages

Rows = list[dict[str, Any]]
ORIGIN = "https://shop.example"
OPEN = {"max_drop": 1, "max_growth": 1_000}


def goods() -> Rows:
    """Return pages with a value in every column that a rule reads."""
    return pages(
        40,
        lastmod=lambda n: f"2026-09-{n % 20 + 1:02}",
        body=lambda n: f"body {n}",
        title=lambda n: f"Page {n}",
        sales=lambda n: n % 9,
        freq="daily",
        images=lambda n: json.dumps([f"/i/{n}.jpg"]),
    )


def articles() -> Rows:
    """Return pages between those of the goods, one of which is the same."""
    return [{"loc": f"/p/{n:06}b", "lastmod": "2026-08-01"} for n in range(20)] + [{"loc": "/p/000007"}]


class Quiet(TestSite):
    """`goods`, whose URLs are interleaved with those of `articles`, and `notes`, whose URLs are far from both."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, gates=OPEN, urls={"respect_robots": True})
        self.goods, self.articles = goods(), articles()
        self.rules: dict[str, Any] = {
            "lastmod": {"fingerprint": ["title"], "until_changed": "lastmod"},
            "priority": {"percentile_of": "sales"},
            "changefreq": {"column": "freq"},
        }
        self.of_articles: dict[str, Any] = {}
        self.robots("User-agent: *")
        self.notes()

    def robots(self, rules: str) -> None:
        """Write the site's own rules before the managed block."""
        path = self.folder / "public" / "robots.txt"
        path.parent.mkdir(exist_ok=True)
        _, ours, more = (path.read_text() if path.exists() else "").partition("# sitemap_etl")
        path.write_text(f"{rules}\n\n{ours}{more}")

    def notes(self, *more: dict[str, Any]) -> None:
        self.export("notes", [*({"loc": f"/z/{n}"} for n in range(10)), *more])

    def turn_round(self) -> None:
        self.keys["sections"] = dict(reversed(self.keys["sections"].items()))

    def write(self) -> None:
        self.section("goods", self.goods, **{"shards": {"rows": 12}, **self.rules})
        self.section("articles", self.articles, **self.of_articles)
        self.section("notes")

    def run(self, number: float, **options: Any) -> Finished:
        self.write()
        return self.night(number, **options)  # type: ignore[arg-type] - also between two nights


@pytest.fixture
def site(tmp_path: Path) -> Quiet:
    return Quiet(tmp_path)


def rendered(night: Finished) -> set[str]:
    """Return the sections that a run rendered."""
    return set(night.summary.sections) - set(night.summary.quiet)


def settled(site: Quiet, night: float, before: Finished) -> None:
    """Check that a full run after this one finds nothing to do, and counts the same."""
    anew = site.run(night, full=True)
    assert not anew.summary.quiet
    assert anew.summary.status == "unchanged"
    plain = {name: replace(counts, added=0, changed=0, removed=0) for name, counts in before.summary.sections.items()}
    assert anew.summary.sections == plain
    assert {name: kinds["duplicates"] for name, kinds in anew.summary.reasons.items()} == {
        name: kinds["duplicates"] for name, kinds in before.summary.reasons.items()
    }


def swap(rows: Rows, column: str) -> None:
    rows[3][column], rows[4][column] = rows[4][column], rows[3][column]


def test_a_run_without_differences_renders_nothing_and_reports_the_same_counts(site: Quiet) -> None:
    first = site.run(1)
    random.Random(1).shuffle(site.goods)
    second = site.run(2)
    assert second.summary.status == "unchanged"
    assert second.summary.quiet == dict.fromkeys(("goods", "articles", "notes"), first.run.run_id)
    assert second.summary.sections["articles"].duplicates == 1
    assert [gate.status for gate in second.summary.gates] == [gate.status for gate in first.summary.gates]
    third = site.run(3)
    assert third.summary.quiet == second.summary.quiet
    assert third.summary.shape == second.summary.shape
    settled(site, 4, third)


EDITS: dict[str, tuple[Callable[[Quiet], object], set[str]]] = {
    "a title that a fingerprint is of": (lambda site: site.goods[3].update(title="Other"), {"goods"}),
    "a date": (lambda site: site.goods[3].update(lastmod="2026-09-30"), {"goods"}),
    "no date any more": (lambda site: site.goods[3].update(lastmod=""), {"goods"}),
    "an image": (lambda site: site.goods[3].update(images='["/i/other.jpg"]'), {"goods"}),
    "a signal of the priority": (lambda site: site.goods[3].update(sales=99), {"goods"}),
    "a changefreq": (lambda site: site.goods[3].update(freq="weekly"), {"goods"}),
    "two dates that change places": (lambda site: swap(site.goods, "lastmod"), {"goods"}),
    "two titles that change places": (lambda site: swap(site.goods, "title"), {"goods"}),
    "two images that change places": (lambda site: swap(site.goods, "images"), {"goods"}),
    "a row more": (lambda site: site.notes({"loc": "/z/new"}), {"notes"}),
    "a row twice": (lambda site: site.articles.append(dict(site.articles[3])), {"articles"}),
    "a row less, and another twice": (lambda site: site.articles.__setitem__(3, site.articles[4]), {"articles"}),
    "a row that goes over": (lambda site: site.articles.append(site.goods.pop(3)), {"goods", "articles"}),
    "a row that gives a page to another section": (lambda site: site.goods.pop(7), {"goods", "articles"}),
    "rules of robots.txt": (
        lambda site: site.robots("User-agent: *\nDisallow: /z/3"),
        {"notes"},
    ),
    "an exclude of the site": (
        lambda site: site.keys["urls"].update(exclude=["/z/3"]),
        {"goods", "articles", "notes"},
    ),
    "the rows of a file": (lambda site: site.rules.update(shards={"rows": 5}), {"goods"}),
    "a rule of dates": (lambda site: site.rules.update(lastmod="none"), {"goods"}),
    "another form of the files": (lambda site: site.rules.update(formats=["xml", "text"]), {"goods"}),
    "the order of sections": (lambda site: site.turn_round(), {"goods", "articles"}),
}


@pytest.mark.parametrize("edit", EDITS)
def test_only_sections_whose_inputs_differ_are_rendered(site: Quiet, edit: str) -> None:
    site.run(1)
    change, differ = EDITS[edit]
    change(site)
    night = site.run(2)
    assert rendered(night) == differ
    settled(site, 3, night)


@pytest.mark.thorough
@pytest.mark.parametrize("edit", sorted(set(EDITS) - {"a title that a fingerprint is of"}))
def test_sections_with_a_date_column_are_rendered_if_their_inputs_differ(site: Quiet, edit: str) -> None:
    site.rules |= {"lastmod": {"column": "lastmod"}, "feed": {"title": "New", "items": 5}}
    test_only_sections_whose_inputs_differ_are_rendered(site, edit)


def test_a_section_is_rendered_when_a_future_date_has_come(site: Quiet) -> None:
    site.articles[3]["lastmod"] = "2026-11-03T12:00:00Z"
    site.run(1)
    assert not rendered(site.run(2))
    night = site.run(4)
    assert rendered(night) == {"articles"}
    assert site.public().by_loc()[f"{ORIGIN}/p/000003b"].lastmod == "2026-11-03T12:00:00Z"
    settled(site, 5, night)


def test_a_section_with_changed_priorities_only_is_unchanged_in_the_next_run(site: Quiet) -> None:
    """A run that finds nothing to publish records the inputs of the section too."""
    site.run(1)
    site.goods[3]["sales"] = 99
    second = site.run(2)
    assert (second.summary.status, rendered(second)) == ("unchanged", {"goods"})
    third = site.run(3)
    assert not rendered(third)
    assert third.summary.quiet["goods"] == second.run.run_id
    site.goods[3]["sales"] = 3
    assert rendered(site.run(4)) == {"goods"}


def test_sections_without_recorded_inputs_are_rendered_once(site: Quiet) -> None:
    site.run(1)
    held = site.state().held()
    site.state().swap(held, replace(held.current, made_from={}))
    assert len(rendered(site.run(2))) == 3
    assert not rendered(site.run(3))


def test_deleted_or_altered_files_are_restored_and_the_next_run_is_unchanged(site: Quiet) -> None:
    site.run(1)
    before = site.public().contents()
    names = sorted(name for name in before if name.startswith("sitemap-goods"))
    (site.folder / "public" / names[0]).unlink()
    (site.folder / "public" / names[1]).write_bytes(b"<urlset/>")
    assert site.run(2, full=True, adopt=True).summary.status == "published"
    assert site.public().contents() == before
    assert not rendered(site.run(3))


def test_a_section_is_rendered_after_a_rollback(site: Quiet) -> None:
    first = site.run(1)
    site.goods[3]["title"] = "Other"
    site.run(2)
    roll_back(site.load(), first.run.run_id, site.at(FIRST_NIGHT + timedelta(days=1, hours=1)), reason=None)
    night = site.run(3)
    assert rendered(night) == {"goods"}
    assert night.summary.sections["goods"].changed == 1
    settled(site, 4, night)
    site.goods[3]["title"] = "Page 3"  # as it was on the first night
    night = site.run(5)
    assert rendered(night) == {"goods"}
    settled(site, 6, night)


def test_refused_and_dry_runs_do_not_record_the_inputs_of_sections(site: Quiet) -> None:
    site.keys["gates"] = {"max_growth": 1_000}
    site.run(1)
    few, all_ = site.goods[:5], site.goods
    site.goods = few
    dry = site.run(2, dry_run=True)
    assert site.run(3).summary.status == "refused"
    site.goods = all_
    assert not rendered(site.run(4))
    site.goods = few
    reason = {"force": ("goods.max_drop",), "reason": "meant"}
    environment = site.at(FIRST_NIGHT + timedelta(days=4))
    done = publish_locally(site.load(), dry.run.run_id, environment, adopt=False, **reason)  # type: ignore[arg-type]
    assert done.summary.status == "published"
    night = site.run(6)
    assert not rendered(night)
    assert night.summary.quiet["goods"] == dry.run.run_id
    settled(site, 6.5, night)


def test_a_dry_run_of_unchanged_sections_is_published_as_it_was_shown(site: Quiet) -> None:
    site.run(1)
    site.notes({"loc": "/z/new"})
    dry = site.run(2, dry_run=True)
    assert rendered(dry) == {"notes"}
    environment = site.at(FIRST_NIGHT + timedelta(days=1, hours=1))
    publish_locally(site.load(), dry.run.run_id, environment, force=(), reason=None, adopt=False)
    night = site.run(3)
    assert not rendered(night)
    settled(site, 4, night)


def test_a_kept_or_unselected_section_retains_its_recorded_inputs(site: Quiet) -> None:
    site.rules["on_error"] = "keep"
    site.run(1)
    (site.folder / "gone.csv").write_text("")
    goods = site.goods
    site.goods = [{"loc": ""}]
    (site.folder / "public" / "robots.txt").touch()
    site.write()
    (site.folder / "goods.csv").unlink()
    held = site.night(2)
    assert set(held.summary.kept) == {"goods"}
    assert "goods" not in held.summary.quiet
    site.goods = goods
    night = site.run(3)
    settled(site, 4, night)
    only = site.run(5, sections=("notes",))
    assert only.summary.quiet == {"notes": only.summary.quiet["notes"]}
    settled(site, 6, site.run(6.5))


def test_a_section_takes_over_pages_dropped_while_it_was_not_read(tmp_path: Path) -> None:
    site = TestSite(tmp_path, gates=OPEN).section("first", pages(15)).section("second", pages(20, 10))
    site.night(1)
    site.night(2, sections=("second",))
    assert site.night(3, sections=("second",)).summary.quiet
    site.export("first", pages(13))
    site.night(4, sections=("first",))
    night = site.night(5, sections=("second",))
    assert not night.summary.quiet
    assert (night.summary.sections["second"].listed, night.summary.sections["second"].duplicates) == (17, 3)


def test_sections_that_share_clusters_are_rendered_together_or_not_at_all(tmp_path: Path) -> None:
    rule = {"group": "item", "hreflang": "lang", "cluster": "shop"}
    site = TestSite(tmp_path, gates=OPEN)
    rows = {lang: [{"loc": f"/{lang}/{n}", "item": f"i{n}", "lang": lang} for n in range(9)] for lang in ("en", "de")}
    for lang, own in rows.items():
        site.section(lang, own, alternates=rule)
    site.section("notes", [{"loc": "/z"}])
    first = site.night(1)
    second = site.night(2)
    assert (rendered(second), second.summary.clusters) == (set(), first.summary.clusters)
    site.export("de", [*rows["de"], {"loc": "/de/new", "item": "i3", "lang": "de-AT"}])
    third = site.night(3)
    assert rendered(third) == {"en", "de"}
    assert site.public().by_loc()[f"{ORIGIN}/en/3"].alternates["de-AT"] == f"{ORIGIN}/de/new"
    assert not rendered(site.night(4))
    del site.keys["sections"]["de"]
    assert rendered(site.night(5)) == {"en"}
    assert not site.public().by_loc()[f"{ORIGIN}/en/3"].alternates


def test_explain_and_the_report_name_the_run_that_found_a_duplicate(site: Quiet) -> None:
    first = site.run(1)
    random.Random(2).shuffle(site.articles)  # so that the row has another number tonight
    for number in (2, 3):
        night = site.run(number)
        assert not rendered(night)
        (answer,) = explain(site.load(), [f"{ORIGIN}/p/000007"], site.environment)
        (row,) = json_of(answer)["set_aside"]["rows"]
        assert (row["run_id"], row["reason"], row["row"]) == (
            first.run.run_id,
            "listed already by section goods",
            22,
        )
    page = site.state().storage.get(layout.report(night.run.run_id))
    assert page is not None
    assert f"rendered by run {first.run.run_id}" in page.data.decode()


def test_a_lost_report_on_duplicates_is_made_again(site: Quiet) -> None:
    first = site.run(1)
    work = site.state().storage
    work.delete(layout.summary(first.run.run_id))
    night = site.run(2)
    assert rendered(night) == {"articles"}
    assert night.summary.sections["articles"].duplicates == 1
    assert not rendered(site.run(3))


def test_the_report_on_duplicates_is_retained_while_it_is_referred_to(site: Quiet) -> None:
    site.run(1)
    site.goods[3]["sales"] = 99
    site.articles.append({"loc": "/p/000008"})
    site.articles.remove({"loc": "/p/000007"})
    found = site.run(2)
    assert (found.summary.status, rendered(found)) == ("unchanged", {"goods", "articles"})
    for number in (20, 40):
        assert site.run(number).summary.quiet["articles"] == found.run.run_id
    assert site.state().storage.stat(layout.summary(found.run.run_id)) is not None


def test_extensions_dropped_while_rendering_are_reported_by_every_run(site: Quiet) -> None:
    site.rules["shards"] = {"bytes": 100_000}
    site.goods[3]["images"] = json.dumps([f"/i/{'x' * 500}-{n}.jpg" for n in range(300)])
    for number in (1, 2):
        night = site.run(number)
        told = night.summary.reasons["goods"]["notes"].examples
        assert told == {"extensions over the byte limit of a file": [f"{ORIGIN}/p/000003"]}
    assert "goods" in rendered(night)


# --- splits whose raw rows and rules are those of an earlier run ----------------------------------------------------


class Parts(TestSite):
    """A section of three Parquet files: three splits of one batch each, or one of three batches (`split_rows`)."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, gates=OPEN, urls={"respect_robots": False})
        rule = {"lastmod": {"column": "lastmod"}, "priority": {"percentile_of": "sales"}, "shards": {"rows": 50}}
        self.keys["sections"]["goods"] = {"from": {"parquet": "./export"}, **rule}
        (folder / "export").mkdir()
        self.split_rows = 100
        for at in range(3):
            self.write(at)

    def write(self, at: int, date: str = "2026-09-01") -> None:
        rows = pages(100, at * 100, lastmod=date, sales=lambda n: n % 7)
        self.put(at, pa.Table.from_pylist(rows))

    def put(self, at: int, rows: pa.Table) -> None:
        pq.write_table(rows, self.folder / "export" / f"{at}.parquet")

    def look(self, number: int, **options: Any) -> tuple[str, list[bool], tuple[int, ...]]:
        """Run once; return the status, whether each split was unchanged, and the splits transformed afterwards."""
        environment = self.at(FIRST_NIGHT + timedelta(days=number - 1))
        run = start_run(self.load(), Options(**options), environment, split_rows=self.split_rows)
        build(run, 1, {}, renew=lambda: None)
        unchanged = [run.transformed(n).unchanged for n in range(len(run.plan.units))]
        found = decide_sections(run).again
        summary = finish_run(run, publish(run))
        release_lease(run.work, run.run_id)
        self.told = summary.reasons
        return summary.status, unchanged, found


@pytest.fixture
def parts(tmp_path: Path) -> Parts:
    return Parts(tmp_path)


def again(night: Finished) -> tuple[int, ...]:
    """Return the splits that were transformed again."""
    return decide_sections(night.run).again


def test_splits_are_unchanged_after_a_first_run_and_after_one_without_changes(parts: Parts) -> None:
    assert parts.look(1) == ("published", [False] * 3, ())
    assert parts.look(2) == parts.look(3) == ("unchanged", [True] * 3, ())
    parts.write(0, "2026-09-02")
    assert parts.look(4) == ("published", [False, True, True], (1, 2))
    assert parts.look(5) == ("unchanged", [False] * 3, ())  # a quiet night that nobody expected
    assert parts.look(6) == ("unchanged", [True] * 3, ())
    assert parts.look(7, full=True) == ("unchanged", [False] * 3, ())
    assert sum(entry.lastmod == "2026-09-02" for entry in parts.public().entries()) == 100


def test_a_split_that_differs_only_at_its_end_is_recognized_as_changed(parts: Parts) -> None:
    parts.split_rows = 1_000
    parts.look(1)
    assert parts.look(2) == ("unchanged", [True], ())
    parts.write(2, "2026-09-02")
    assert parts.look(3) == ("published", [False], ())
    assert parts.look(4, full=True) == ("unchanged", [False], ())
    assert sum(entry.lastmod == "2026-09-02" for entry in parts.public().entries()) == 100


def test_rows_that_move_to_another_split_are_transformed_but_publish_nothing(parts: Parts) -> None:
    parts.look(1)
    first, last = (parts.folder / "export" / f"{at}.parquet" for at in (0, 2))
    first.rename(parts.folder / "between")
    last.rename(first)
    (parts.folder / "between").rename(last)
    assert parts.look(2) == ("unchanged", [False, True, False], (1,))


def test_an_unchanged_split_is_transformed_if_its_section_must_be_rendered(site: Quiet) -> None:
    """The only difference of the articles is what the goods list instead of them."""
    site.run(1)
    site.goods.pop(7)
    night = site.run(2)
    assert (rendered(night), again(night)) == ({"goods", "articles"}, (1,))
    assert f"{ORIGIN}/p/000007" in site.public().locs()
    settled(site, 3, night)


def test_equal_values_of_another_type_are_transformed(parts: Parts) -> None:
    parts.look(1)
    rows = pq.read_table(parts.folder / "export" / "1.parquet")
    parts.put(1, rows.set_column(rows.column_names.index("sales"), "sales", rows.column("sales").cast(pa.float64())))
    assert parts.look(2) == ("unchanged", [False] * 3, ())  # the files of an export are read as of one type


@pytest.mark.parametrize("gone", ["loc", "lastmod", "sales"])
def test_a_removed_column_of_nulls_is_recognized_as_a_change(parts: Parts, gone: str) -> None:
    rows = pq.read_table(parts.folder / "export" / "1.parquet")
    if gone != "loc":
        empty = pa.nulls(rows.num_rows, rows.schema.field(gone).type)
        rows = rows.set_column(rows.column_names.index(gone), gone, empty)
    for at in range(3):
        parts.put(at, rows)
    parts.look(1)
    for at in range(3):
        parts.put(at, rows.drop_columns([gone]))
    with pytest.raises(InvalidSource, match=f"'{gone}'"):
        parts.look(2)
