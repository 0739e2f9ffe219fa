"""Gates: what they compare, when they apply, and their messages."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sitemap_etl
from sitemap_etl.publish.gates import GATES, Dates, Outcome, evaluate, one_date, percent
from sitemap_etl.publish.order import receivers_first
from sitemap_etl.runs.local import publish_locally
from sitemap_etl.settings import Gates
from sitemap_etl.state.records import Counts
from tests.support.gates import NONE, by_name, counts
from tests.support.sites import TestSite, pages


def status(gate: str, **values: Any) -> str:
    return {g.name: g.status for g in evaluate("p", counts(**values), Gates(), NONE)}[f"p.{gate}"]


@pytest.mark.parametrize(
    ("gate", "values", "expected"),
    [
        ("max_drop", {"published": 100, "largest": 100, "listed": 90, "removed": 10}, "warned"),
        ("max_drop", {"published": 100, "largest": 100, "listed": 89, "removed": 11}, "refused"),
        ("max_drop", {"published": 100, "largest": 100, "listed": 96, "removed": 4}, "ok"),
        ("max_drop", {"published": 19, "largest": 19, "listed": 1, "removed": 18}, "ok"),
        ("max_drop", {"published": 95, "largest": 120, "listed": 95, "removed": 0}, "refused"),
        ("max_drop", {"published": 100, "largest": 100, "listed": 100, "removed": 11, "added": 11}, "refused"),
        ("max_drop", {"published": 100, "largest": 100, "listed": 95, "removed": 5}, "ok"),
        ("max_drop", {"published": 100, "largest": 100, "listed": 94, "removed": 6}, "warned"),
        ("max_drop", {"published": 20, "largest": 20, "listed": 17, "removed": 3}, "refused"),
        ("max_drop", {"published": 10, "largest": 20, "listed": 10, "removed": 0}, "refused"),
        ("max_drop", {"published": 10, "largest": 19, "listed": 10, "removed": 0}, "ok"),
        ("max_growth", {"published": 100, "added": 101, "listed": 201}, "refused"),
        ("max_growth", {"published": 20, "added": 21, "listed": 41}, "refused"),
        ("max_growth", {"published": 19, "added": 100, "listed": 119}, "ok"),
        ("max_growth", {"published": 100, "added": 51, "listed": 151}, "warned"),
        ("max_growth", {"published": 0, "added": 1_000, "listed": 1_000}, "ok"),
        ("max_rejected", {"extracted": 100, "rejected": 6, "listed": 94}, "refused"),
        ("max_rejected", {"extracted": 100, "rejected": 3, "listed": 97}, "warned"),
        ("max_rejected", {"extracted": 10, "rejected": 9, "listed": 1}, "ok"),
        ("max_rejected", {"extracted": 0, "carried": 0, "rejected": 0}, "ok"),
        ("max_rejected", {"extracted": 1_000, "carried": 99_000, "rejected": 60, "rejected_read": 60}, "refused"),
        ("max_rejected", {"extracted": 999, "carried": 99_000, "rejected": 900, "rejected_read": 900}, "ok"),
        ("max_rejected", {"extracted": 2_000, "carried": 8_000, "rejected": 600, "rejected_read": 0}, "refused"),
        ("max_undated", {"dates": Dates(known=100, lost=6)}, "refused"),
        ("max_undated", {"dates": Dates(known=100, lost=3)}, "warned"),
        ("max_undated", {"dates": Dates(known=100, lost=2)}, "ok"),
        ("max_undated", {"dates": Dates(known=19, lost=19)}, "ok"),
        ("max_undated", {"dates": Dates(known=100, lost=100), "undated_by_rule": True}, "warned"),
        ("max_same_date", {"listed": 2_000, "dates": Dates(same=Counter(a=1_001, b=900))}, "refused"),
        ("max_same_date", {"listed": 2_000, "dates": Dates(same=Counter(a=1_000, b=1_000))}, "warned"),
        ("max_same_date", {"listed": 999, "dates": Dates(same=Counter(a=999))}, "ok"),
        ("max_same_date", {"listed": 1_000_000, "dates": Dates(same=Counter(a=1_001))}, "ok"),
        ("min_urls", {"listed": 0}, "refused"),
        ("min_urls", {"listed": 1}, "ok"),
    ],
)
def test_a_gate_refuses_beyond_its_limit_and_warns_from_half_of_it(
    gate: str, values: dict[str, Any], expected: str
) -> None:
    assert status(gate, **values) == expected


def said(scope: str | None, **values: Any) -> list[str]:
    return [gate.message for gate in evaluate(scope, counts(**values), Gates(), NONE)]


def test_each_gate_describes_what_it_compares_and_when_it_applies() -> None:
    dates = Dates(known=10, lost=1, same=Counter({"2026-01-01": 2, "2026-01-02": 2}))
    few = {"published": 10, "largest": 10, "listed": 8, "added": 3, "removed": 2}
    assert said("p", **few, extracted=1_000, rejected=1, carried=9_000, rejected_read=1, dates=dates) == [
        "p would drop 2 of 10 URLs (20 %, max_drop is 10 %; percentage gates apply from 20)",
        "p would add 3 URLs to 10 (30 %, max_growth is 100 %; percentage gates apply from 20)",
        "p rejects 1 of 1,000 rows that were read (0.1 %, max_rejected is 5 %)",
        (
            "p would remove the lastmod of 1 of 10 pages that have one "
            "(10 %, max_undated is 5 %; percentage gates apply from 20)"
        ),
        (
            "p would set the lastmod of 2 of 8 pages to the same value, 2026-01-02 "
            "(25 %, max_same_date is 50 %; this gate applies from 1,000 such pages)"
        ),
        "p would list 8 URLs (min_urls is 1)",
    ]
    assert said(None, published=30, largest=30, listed=30, added=393, extracted=999, rejected=9, rejected_read=9) == [
        "the site would drop 0 of 30 URLs (0 %, max_drop is 10 %)",
        "the site would add 393 URLs to 30 (1,310 %, max_growth is 100 %)",
        "the site rejects 9 of 999 rows (0.9 %, max_rejected is 5 %)",
        "the site would remove the lastmod of 0 of 0 pages that have one (0 %, max_undated is 5 %)",
        "the site would set the lastmod of 0 of 30 pages to the same value (0 %, max_same_date is 50 %)",
        "the site would list 30 URLs (min_urls is 1)",
    ]


def test_every_limit_of_a_site_file_is_one_line_of_the_table_of_gates() -> None:
    assert sorted(gate.name for gate in GATES) == sorted(Gates.model_fields)


@pytest.mark.parametrize("name", ["max_growth", "max_undated"])
def test_a_gate_is_named_in_the_settings_and_in_the_table_only(name: str) -> None:
    package = Path(sitemap_etl.__file__).parent
    naming = {path.relative_to(package).as_posix() for path in package.rglob("*.py") if name in path.read_text("utf-8")}
    assert naming == {"publish/gates.py", "settings/section.py"}


def test_shares_are_rounded_for_readers() -> None:
    assert [percent(share) for share in (0, 0.0004, 0.155, 0.9994, 1, 12.345)] == [
        "0 %",
        "0 %",
        "15.5 %",
        "99.9 %",
        "100 %",
        "1,234 %",
    ]


def test_outcomes_of_sections_are_added_for_the_site() -> None:
    one = Outcome(Counts(listed=1), 2, Dates(3, 4, Counter(a=5)))
    assert one + one == Outcome(Counts(listed=2), 4, Dates(6, 8, Counter(a=10)))
    assert Outcome() == Outcome(Counts(), 0, Dates(0, 0, Counter()))
    assert (Dates().most, Dates(same=Counter(a=1, b=2)).most) == (("", 0), ("b", 2))


def test_a_forced_gate_is_recorded_and_the_others_still_apply() -> None:
    found = evaluate("p", counts(published=100, largest=100, removed=50, listed=0), Gates(), frozenset({"p.max_drop"}))
    assert {gate.name: gate.status for gate in found} == {
        "p.max_drop": "forced",
        "p.max_growth": "ok",
        "p.max_rejected": "ok",
        "p.max_undated": "ok",
        "p.max_same_date": "ok",
        "p.min_urls": "refused",
    }


def test_a_slow_loss_over_a_week_is_detected() -> None:
    """Four percent a day is within the limit, but the largest release of seven days counts too."""
    listed = [1_000, 960, 922, 885]
    night = counts(published=listed[2], largest=listed[0], listed=listed[3], removed=37)
    gate = evaluate("p", night, Gates(), NONE)[0]
    assert gate.status == "refused"
    assert "115 of 1,000 URLs against the largest set of the last seven days (11.5 %, max_drop is 10 %)" in gate.message


def test_releases_of_the_same_second_belong_to_the_last_week(tmp_path: Path) -> None:
    site = TestSite(tmp_path).section("products", pages(100))
    site.night(1)
    site.export("products", pages(95))
    site.night(1)
    site.export("products", pages(89))  # 6.3 % less than the last set, 11 % less than the one before
    gate = next(gate for gate in site.night(1).summary.gates if gate.name == "products.max_drop")
    assert (gate.status, gate.value) == ("refused", 0.11)


def test_the_site_s_gates_have_no_section_in_their_name() -> None:
    assert [gate.name for gate in evaluate(None, counts(), Gates(), NONE)] == [
        "max_drop",
        "max_growth",
        "max_rejected",
        "max_undated",
        "max_same_date",
        "min_urls",
    ]


@pytest.mark.parametrize(
    ("most", "total", "warned"), [(90, 100, True), (89, 100, False), (19, 19, False), (20, 20, True), (18, 20, True)]
)
def test_dates_that_are_nine_tenths_equal_are_a_warning(most: int, total: int, warned: bool) -> None:
    found = one_date("p", {"2026-01-01": most, "2026-01-02": 1}, total)
    assert (found is not None) == warned
    if found:
        assert found.startswith(f"p: {percent(most / total)} of {total} new lastmods are 2026-01-01. Engines stop")
    assert one_date("p", {}, total) is None


EDGES = st.dictionaries(st.sampled_from("abcdef"), st.frozensets(st.sampled_from("abcdef")), max_size=6)


@given(EDGES)
def test_sections_that_receive_pages_are_written_before_those_that_give_them(gives: dict[str, frozenset[str]]) -> None:
    order = receivers_first("abcdef", gives).keys
    assert sorted(order) == list("abcdef")
    acyclic = {giver: {r for r in receivers if r > giver} for giver, receivers in gives.items()}
    order = receivers_first("abcdef", {giver: frozenset(receivers) for giver, receivers in acyclic.items()}).keys
    for giver, receivers in acyclic.items():
        assert all(order.index(receiver) < order.index(giver) for receiver in receivers)


@given(EDGES)
def test_a_giving_section_is_written_before_a_receiving_one_only_in_a_cycle(gives: dict[str, frozenset[str]]) -> None:
    order = receivers_first("abcdef", gives).keys
    reached = {key: {key} for key in "abcdef"}
    for _ in "abcdef":
        for key, found in reached.items():
            found.update(*(reached[receiver] for receiver in gives.get(key, ())))
    for giver, receivers in gives.items():
        for receiver in receivers:
            assert order.index(receiver) <= order.index(giver) or giver in reached[receiver]


def test_a_forced_drop_does_not_count_as_slow_loss_in_the_next_run(tmp_path: Path) -> None:
    site = TestSite(tmp_path).section("p", pages(100))
    site.night(1)
    site.export("p", pages(60))
    assert site.night(2).summary.status == "refused"
    assert site.night(3, force=("p.max_drop", "max_drop"), reason="sold").summary.status == "published"
    site.export("p", pages(59))
    assert site.night(4).summary.status == "published"


def test_a_slow_loss_over_a_week_is_refused_though_each_single_run_passes(tmp_path: Path) -> None:
    site = TestSite(tmp_path).section("p", pages(1_000))
    site.night(1)
    for night, listed in enumerate([960, 920, 905], 2):
        site.export("p", pages(listed))
        assert site.night(night).summary.status == "published"
    site.export("p", pages(890))
    assert site.night(5).summary.status == "refused"


def test_a_drop_forced_for_a_section_does_not_refuse_the_whole_site(tmp_path: Path) -> None:
    site = TestSite(tmp_path).section("p", pages(100)).section("q", pages(10, start=500))
    site.night(1)
    site.export("p", pages(60))
    refused = site.night(2)
    assert refused.summary.error.count("Refused:") == 1
    assert "--force p.max_drop --reason" in refused.summary.error
    done = site.night(2, force=("p.max_drop",), reason="range discontinued")
    assert done.summary.status == "published"
    assert site.manifest().forced == ("p.max_drop",)


def test_a_refused_run_can_be_published_by_forcing_the_gates_it_showed(tmp_path: Path) -> None:
    """Whatever sections the site file has now."""
    site = TestSite(tmp_path).section("p", pages(100)).section("q", pages(50, start=500))
    site.night(1)
    site.export("q", pages(25, start=500))
    refused = site.night(2)
    del site.keys["sections"]["q"]
    force = ("q.max_drop",)
    done = publish_locally(site.load(), refused.run.run_id, site.environment, force=force, reason="meant", adopt=False)
    assert done.summary.status == "published"


def test_growth_forced_for_a_section_does_not_refuse_the_whole_site(tmp_path: Path) -> None:
    site = TestSite(tmp_path).section("p", pages(100)).section("q", pages(10, start=500))
    site.night(1)
    site.export("p", pages(350))
    refused = site.night(2)
    assert "--force p.max_growth --reason" in refused.summary.error
    done = site.night(2, force=("p.max_growth",), reason="a new range")
    assert done.summary.status == "published"
    assert site.manifest().forced == ("p.max_growth",)


def test_the_gate_of_the_site_catches_drops_of_removed_sections(tmp_path: Path) -> None:
    """A section removed from the site file has no gate."""
    site = TestSite(tmp_path).section("p", pages(100)).section("q", pages(100, start=500))
    site.night(1)
    del site.keys["sections"]["q"]
    refused = site.night(2)
    assert "the site would drop 100 of 200 URLs (50 %, max_drop is 10 %)" in refused.summary.error
    assert "--force max_drop --reason" in refused.summary.error


def test_pages_that_leave_with_their_section_are_reported(tmp_path: Path) -> None:
    site = TestSite(tmp_path).section("p", pages(1_000)).section("blog", pages(50, start=5_000))
    site.night(1)
    site.keys["sections"]["articles"] = site.keys["sections"].pop("blog")
    only = site.night(2, sections=("p",))
    (told,) = [text for text in only.summary.warnings if "no longer in the site file" in text]
    assert told.startswith(
        "section blog is no longer in the site file: 50 of its pages leave the sitemaps. Not read was "
    )
    assert "articles: pages that are there now are listed by the next run" in told
    assert len(site.public().locs()) == 1_000
    whole = site.night(3)
    assert not [text for text in whole.summary.warnings if "no longer in the site file" in text]
    assert len(site.public().locs()) == 1_050


# --- dates that can't be true ------------------------------------------------------------------------

DAY = "2026-09-{:02}"


def dated(count: int, date: Any = lambda n: DAY.format(n % 28 + 1), **columns: Any) -> list[dict[str, Any]]:
    return pages(count, lastmod=date, **columns)


def lastmods(site: TestSite) -> list[str | None]:
    return [entry.lastmod for entry in site.public().entries()]


def test_an_export_with_a_changed_date_format_is_refused_and_removes_no_dates(tmp_path: Path) -> None:
    site = TestSite(tmp_path).section("p", dated(2_000))
    site.night(1)
    before = lastmods(site)
    site.export("p", dated(2_000, lambda n: f"{n % 28 + 1:02}.09.2026"))
    refused = site.night(2)
    assert refused.summary.status == "refused"
    assert (
        "Refused: p would remove the lastmod of 2,000 of 2,000 pages that have one (100 %, max_undated is 5 %). "
        "Nothing public was touched." in refused.summary.error
    )
    assert "look:    sitemap-etl explain SITE.yaml https://shop.example/p/000000" in refused.summary.error
    assert lastmods(site) == before
    forced = site.night(3, force=("p.max_undated",), reason="the new export has none")
    assert forced.summary.status == "published"
    assert set(lastmods(site)) == {None}


def test_a_date_column_that_disappears_is_refused(tmp_path: Path) -> None:
    site = TestSite(tmp_path).section("p", dated(100))
    site.night(1)
    site.export("p", pages(100))
    assert "max_undated" in site.night(2).summary.error


def test_setting_lastmod_to_none_removes_dates_with_a_warning(tmp_path: Path) -> None:
    site = TestSite(tmp_path).section("p", dated(100))
    site.night(1)
    site.section("p", lastmod="none")
    done = site.night(2)
    assert done.summary.status == "published"
    gates = by_name(done)
    assert (gates["p.max_undated"].status, gates["max_undated"].status) == ("warned", "ok")
    assert any("remove the lastmod of 100 of 100" in warning for warning in done.summary.warnings)


def test_a_reloaded_table_with_new_dates_for_every_page_is_refused(tmp_path: Path) -> None:
    site = TestSite(tmp_path).section("p", dated(2_000))
    site.night(1)
    site.export("p", dated(2_000, lambda n: "2026-10-30T03:00:00Z" if n % 4 else DAY.format(n % 28 + 1)))
    refused = site.night(2)
    assert (
        "p would set the lastmod of 1,500 of 2,000 pages to the same value, 2026-10-30T03:00:00Z "
        "(75 %, max_same_date is 50 %)" in refused.summary.error
    )
    assert "--force p.max_same_date --reason" in refused.summary.error
    assert site.night(3, force=("p.max_same_date",), reason="a new template").summary.status == "published"


def test_the_gates_on_dates_apply_to_the_whole_site(tmp_path: Path) -> None:
    site = TestSite(tmp_path)
    for name, start in (("a", 0), ("b", 5_000), ("c", 10_000)):
        site.section(name, [{**row, "lastmod": "2026-09-01"} for row in pages(900, start)])
    site.night(1)
    for name, start in (("a", 0), ("b", 5_000), ("c", 10_000)):
        site.section(name, [{**row, "lastmod": "2026-10-02"} for row in pages(900, start)])
    refused = site.night(2)
    assert "the site would set the lastmod of 2,700 of 2,700 pages to the same value" in refused.summary.error
    assert [gate.name for gate in refused.summary.gates if gate.status == "refused"] == ["max_same_date"]


@pytest.mark.parametrize("rule", [None, {"fingerprint": ["body"]}])
def test_ordinary_runs_pass_the_gates_on_dates(tmp_path: Path, rule: Any) -> None:
    """A first release, a section added later, a fifth of the pages changed at once, dates without time."""
    keys = {} if rule is None else {"lastmod": rule}
    site = TestSite(tmp_path)
    site.section("p", dated(3_000, lambda n: "2026-10-01", body=lambda n: f"{n}"), **keys)
    assert site.night(1).summary.status == "published"
    site.export("p", dated(3_000, lambda n: "2026-11-01" if n % 5 == 0 else "2026-10-01", body=lambda n: n % 5 and n))
    site.section("q", [{**row, "lastmod": "2026-11-02", "body": 1} for row in pages(2_000, 5_000)], **keys)
    done = site.night(2)
    assert done.summary.status == "published"
    assert {g.status for g in done.summary.gates if g.name.endswith(("max_undated", "max_same_date"))} == {"ok"}


def test_the_gates_on_dates_ignore_views(tmp_path: Path) -> None:
    site = TestSite(tmp_path).section("p", dated(100))
    site.section("v", dated(100), view=True)
    site.night(1)
    site.export("v", pages(100))
    done = site.night(2)
    assert done.summary.status == "published"
    assert by_name(done)["v.max_undated"].value == 0


def test_examples_of_a_refusal_are_removed_pages_rather_than_moved_ones(tmp_path: Path) -> None:
    """Many more pages of another folder moved to another section, and are listed there."""
    old = [{"loc": f"/old/{n}"} for n in range(60)]
    site = TestSite(tmp_path).section("p", [*pages(40), *old]).section("q", [{"loc": "/q"}])
    site.night(1)
    site.export("p", pages(20))
    site.export("q", [{"loc": "/q"}, *old])
    error = site.night(2).summary.error
    assert error is not None
    assert "p would drop 20 of 40 URLs" in error, "those that moved are not lost"
    assert "  most of them: /p/… (20)    e.g. https://shop.example/p/000020" in error.splitlines()


def test_a_refusal_shows_the_pages_of_a_removed_section(tmp_path: Path) -> None:
    site = TestSite(tmp_path).section("p", pages(40)).section("q", pages(40, 500))
    site.night(1)
    del site.keys["sections"]["p"]
    error = site.night(2).summary.error
    assert error is not None
    assert "  most of them: /p/… (40)    e.g. https://shop.example/p/000000" in error.splitlines()


def test_if_only_the_site_exceeds_max_rejected_the_reasons_of_all_sections_are_reported(tmp_path: Path) -> None:
    rows = [*pages(35), *({"loc": f"http://other.example/{n}"} for n in range(6))]
    site = TestSite(tmp_path).section("p", rows, gates={"max_rejected": 1}).section("q", [{"loc": "/q"}])
    assert site.night(1).summary.error.splitlines()[:2] == [
        "Refused: the site rejects 6 of 42 rows (14.3 %, max_rejected is 5 %). Nothing public was touched.",
        "  foreign origin: 6    e.g. http://other.example/0",
    ]


def test_a_refusal_names_the_largest_part_and_how_to_inspect_and_force_it(tmp_path: Path) -> None:
    site = TestSite(tmp_path).section("p", pages(40, lastmod="2026-10-01")).section("q", [{"loc": "/q"}])
    site.night(1)
    rows = [*pages(35, lastmod=""), *({"loc": f"http://other.example/{n}"} for n in range(5)), {"loc": ""}]
    site.section("p", [*rows, {"loc": "/x y"}, {"loc": "http://["}, {"loc": f"/{'x' * 3_000}"}])
    done = site.night(2)
    assert done.summary.error is not None
    assert done.summary.error.splitlines() == [
        "Refused: p would drop 5 of 40 URLs (12.5 %, max_drop is 10 %). Nothing public was touched.",
        "  most of them: /p/… (5)    e.g. https://shop.example/p/000035",
        "  look:    sitemap-etl explain SITE.yaml https://shop.example/p/000035",
        "Refused: p rejects 8 of 44 rows (18.2 %, max_rejected is 5 %). Nothing public was touched.",
        "  foreign origin: 5    e.g. http://other.example/0",
        "  invalid host: 1    e.g. http://[",
        f"  missing loc: 1    e.g. line 42 of {tmp_path}/p.csv",
        (
            "Refused: p would remove the lastmod of 35 of 35 pages that have one (100 %, max_undated is 5 %). "
            "Nothing public was touched."
        ),
        "  e.g. https://shop.example/p/000000",
        "  look:    sitemap-etl explain SITE.yaml https://shop.example/p/000000",
        (
            f"  publish: sitemap-etl publish SITE.yaml {done.run.run_id} --force p.max_drop --force p.max_rejected "
            '--force p.max_undated --reason "…"'
        ),
    ]


def news_only(folder: Path, *published: str) -> TestSite:
    """Return a site whose only section is news, with an article for each publication date."""
    site = TestSite(folder)
    rows = [{"loc": f"/n/{n}", "title": f"Article {n}", "date": date} for n, date in enumerate(published)]
    news = {"publication": "The Times", "language": "en"}
    return site.section("latest", rows, news=news, columns={"publication_date": "date"})


def test_a_site_with_only_a_news_section_is_published(tmp_path: Path) -> None:
    site = news_only(tmp_path, "2026-10-31T08:00:00Z", "2026-11-01T01:00:00Z", "2026-10-20T00:00:00Z")
    done = site.night(1)
    assert done.summary.status == "published"
    assert by_name(done)["min_urls"].value == 2
    assert len(site.public().entries()) == 2
    site.keys["gates"] = {"min_urls": 3}
    assert "the site would list 2 URLs (min_urls is 3)" in site.night(1).summary.error


def test_a_site_with_only_views_refuses_an_empty_export(tmp_path: Path) -> None:
    site = news_only(tmp_path, "2026-10-31T08:00:00Z", "2026-11-01T01:00:00Z")
    site.night(1)
    site.export("latest", [])
    (tmp_path / "latest.csv").write_text("loc,title,date\n")
    assert "the site would list 0 URLs (min_urls is 1)" in site.night(2).summary.error
    assert len(site.public().entries()) == 2


def test_pages_of_views_do_not_count_towards_min_urls(tmp_path: Path) -> None:
    site = news_only(tmp_path, "2026-10-31T08:00:00Z").section("p", pages(0), gates={"min_urls": 0})
    (tmp_path / "p.csv").write_text("loc\n")
    assert "the site would list 0 URLs (min_urls is 1)" in site.night(1).summary.error
