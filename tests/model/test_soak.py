"""Some trials of each kind that `make soak` runs for an hour; they must find the planted defects."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from tests.model.planted import PLANTS
from tests.model.soak import KINDS, seeds, table
from tests.model.trial import Outcome

RELIABILITY = Path(__file__).parents[2] / "docs" / "explanation" / "reliability.md"
SEEDS = {"nights": 1, "kills": 4, "faults": 3, "requests": 4, "races": 12, "damage": 4}
FINDS = {
    ("kills", "indexes are written first"): (6, 1, 13),
    ("faults", "intents are lost"): (3, 6, 1),
    ("races", "conditions are dropped"): (4, 14, 66),
    ("damage", "a damaged manifest is believed"): (3, 2, 1),
}
"""Kind of trial, defect of the store → seeds of trials that meet it. Threads write in no fixed order: one is enough."""


@pytest.mark.parametrize(
    "kind", [kind if kind == "kills" else pytest.param(kind, marks=pytest.mark.thorough) for kind in KINDS]
)
def test_a_simulated_site_keeps_every_promise(kind: str) -> None:
    found = KINDS[kind](SEEDS[kind], short=True)
    assert not found.problem, f"{found.problem}\n\nThe same again, and more: {found.replay}"
    assert found.runs > 1


@pytest.mark.parametrize(
    ("kind", "plant"),
    [find if find[0] == "kills" else pytest.param(*find, marks=pytest.mark.thorough) for find in FINDS],
)
def test_the_simulation_finds_a_planted_defect(kind: str, plant: str) -> None:
    assert any(KINDS[kind](seed, plant=plant, short=True).problem for seed in FINDS[kind, plant])


def test_every_known_defect_is_planted() -> None:
    assert {plant for _, plant in FINDS} == set(PLANTS)


def test_one_seed_determines_all_trials() -> None:
    def first(seed: int) -> list[tuple[str, int]]:
        return [each for each, _ in zip(seeds(seed), range(20), strict=False)]

    assert first(1) == first(1)
    assert first(1) != first(2)
    assert [kind for kind, _ in first(1)[: len(KINDS)]] == list(KINDS)


def test_the_table_counts_what_was_tried_and_what_failed() -> None:
    outcomes = [
        Outcome("kills", 1, 12, Counter({"an index": 2, "a sitemap": 3}), "", 60),
        Outcome("kills", 2, 9, Counter({"an index": 1}), "something was missing", 30),
    ]
    lines = table(outcomes).splitlines()
    assert "| kills | 2 | 21 | a sitemap 3, an index 3 | 1 | 1.5 |" in lines
    assert outcomes[1].replay == "make soak TRIAL=kills:2"


def test_the_documentation_has_every_kind_of_simulation_and_the_tests_of_each_promise() -> None:
    text = RELIABILITY.read_text("utf-8")
    last = text.partition("## The last soak")[2].partition("\n## ")[0]
    assert re.findall(r"^\| (\w+) \| \d", last, re.MULTILINE) == list(KINDS)
    assert re.search(r"seed \d+", last)
    tests = set(re.findall(r"`(tests/[\w/]+\.py)`", text))
    assert tests
    assert [each for each in tests if not (RELIABILITY.parents[2] / each).exists()] == []
    assert [plant for plant in PLANTS if plant not in text] == []
