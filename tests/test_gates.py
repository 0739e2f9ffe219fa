"""Gates: what they compare, from when on, and in which words."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sitemap_etl.publish.commit import receivers_first
from sitemap_etl.publish.gates import Scope, evaluate, one_date
from sitemap_etl.settings import Gates
from tests.support.sites import TestSite, pages

NONE: frozenset[str] = frozenset()


def counts(**values: int) -> Scope:
    plain = dict.fromkeys(["published", "largest", "listed", "added", "removed", "extracted", "rejected"], 0)
    return Scope(**{**plain, "listed": 1, **values})


def status(gate: str, **values: int) -> str:
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
        ("max_growth", {"published": 100, "added": 101, "listed": 201}, "refused"),
        ("max_growth", {"published": 100, "added": 51, "listed": 151}, "warned"),
        ("max_growth", {"published": 0, "added": 1_000, "listed": 1_000}, "ok"),
        ("max_rejected", {"extracted": 100, "rejected": 6, "listed": 94}, "refused"),
        ("max_rejected", {"extracted": 100, "rejected": 3, "listed": 97}, "warned"),
        ("max_rejected", {"extracted": 10, "rejected": 9, "listed": 1}, "ok"),
        ("min_urls", {"listed": 0}, "refused"),
        ("min_urls", {"listed": 1}, "ok"),
    ],
)
def test_a_gate_refuses_beyond_its_limit_and_warns_from_half_of_it(
    gate: str, values: dict[str, int], expected: str
) -> None:
    assert status(gate, **values) == expected


def test_a_forced_gate_is_noted_and_the_others_still_hold() -> None:
    found = evaluate("p", counts(published=100, largest=100, removed=50, listed=0), Gates(), frozenset({"p.max_drop"}))
    assert {gate.name: gate.status for gate in found} == {
        "p.max_drop": "forced",
        "p.max_growth": "ok",
        "p.max_rejected": "ok",
        "p.min_urls": "refused",
    }


def test_a_slow_bleed_over_a_week_is_seen() -> None:
    """Four per cent a night are within the limit; the largest set of seven days is not forgotten."""
    listed = [1_000, 960, 922, 885]
    night = counts(published=listed[2], largest=listed[0], listed=listed[3], removed=37)
    gate = evaluate("p", night, Gates(), NONE)[0]
    assert gate.status == "refused"
    assert "115 of 1,000 URLs against the largest set of the last seven days (11.5 %, max_drop is 10 %)" in gate.message


def test_the_site_s_gates_have_no_section_in_their_name() -> None:
    assert [gate.name for gate in evaluate(None, counts(), Gates(), NONE)] == [
        "max_drop",
        "max_growth",
        "max_rejected",
        "min_urls",
    ]


@pytest.mark.parametrize(("most", "total", "warned"), [(90, 100, True), (89, 100, False), (19, 19, False)])
def test_dates_that_are_nine_tenths_alike_are_warned_of(most: int, total: int, warned: bool) -> None:
    assert (one_date("p", {"2026-01-01": most}, total) is not None) == warned


EDGES = st.dictionaries(st.sampled_from("abcdef"), st.frozensets(st.sampled_from("abcdef")), max_size=6)


@given(EDGES)
def test_receivers_are_written_before_givers_wherever_there_is_such_an_order(gives: dict[str, frozenset[str]]) -> None:
    order = receivers_first("abcdef", gives)
    assert sorted(order) == list("abcdef")
    acyclic = {giver: {r for r in receivers if r > giver} for giver, receivers in gives.items()}
    order = receivers_first("abcdef", {giver: frozenset(receivers) for giver, receivers in acyclic.items()})
    for giver, receivers in acyclic.items():
        assert all(order.index(receiver) < order.index(giver) for receiver in receivers)


def test_a_drop_that_was_let_through_is_no_slow_bleed_the_night_after(tmp_path: Path) -> None:
    site = TestSite(tmp_path).section("p", pages(100))
    site.night(1)
    site.export("p", pages(60))
    assert site.night(2).summary.status == "refused"
    assert site.night(3, force=("p.max_drop", "max_drop"), reason="sold").summary.status == "published"
    site.export("p", pages(59))
    assert site.night(4).summary.status == "published"


def test_a_bleed_of_a_week_is_refused_though_no_night_is(tmp_path: Path) -> None:
    site = TestSite(tmp_path).section("p", pages(1_000))
    site.night(1)
    for night, listed in enumerate([960, 920, 905], 2):
        site.export("p", pages(listed))
        assert site.night(night).summary.status == "published"
    site.export("p", pages(890))
    assert site.night(5).summary.status == "refused"


def test_what_is_let_through_in_a_section_does_not_stop_the_site_as_well(tmp_path: Path) -> None:
    site = TestSite(tmp_path).section("p", pages(100)).section("q", pages(10, start=500))
    site.night(1)
    site.export("p", pages(60))
    refused = site.night(2)
    assert refused.summary.error.count("Refused:") == 1
    assert "--force p.max_drop --reason" in refused.summary.error
    done = site.night(2, force=("p.max_drop",), reason="range discontinued")
    assert done.summary.status == "published"
    assert site.manifest().forced == ("p.max_drop",)


def test_the_site_s_gate_still_holds_what_no_section_s_gate_does(tmp_path: Path) -> None:
    """A section that left the site file has no gate of its own."""
    site = TestSite(tmp_path).section("p", pages(100)).section("q", pages(100, start=500))
    site.night(1)
    del site.keys["sections"]["q"]
    refused = site.night(2)
    assert "the site would drop 100 of 200 URLs (50 %, max_drop is 10 %)" in refused.summary.error
    assert "--force max_drop --reason" in refused.summary.error
