"""The protocol of publishing, for every order of events up to a bound: its rules keep pages listed.

Without one of the rules, a page is unlisted.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.protocol import NEW, Explorer, Night, Rules


def night(delete: bool = False, **files: str) -> Night:
    named = {NEW if name == "new" else name: frozenset(rows) for name, rows in files.items()}
    return Night(named, delete)


BASE = {"f1": frozenset("ab"), "f2": frozenset("cd")}
AS_IT_WAS = night(f1="ab", f2="cd")
SPLIT = night(f1="a", new="b", f2="cd")
MOVED = night(f1="a", f2="bcd")
EXCHANGED = night(f1="ac", f2="bd")
OTHER_SPLIT = night(f1="ab", f2="c", new="d")
VIEW = {"v": frozenset("a")}

CASES: dict[str, dict[str, Any]] = {
    "split, then as it was": {"nights": (SPLIT, AS_IT_WAS, AS_IT_WAS), "deaths": 2},
    "split, then again": {"nights": (SPLIT, SPLIT, AS_IT_WAS), "deaths": 2},
    "split, then another": {"nights": (SPLIT, OTHER_SPLIT, AS_IT_WAS), "deaths": 2},
    "split, as it was, another": {"nights": (SPLIT, AS_IT_WAS, OTHER_SPLIT), "deaths": 1},
    "moved, then back": {"nights": (MOVED, AS_IT_WAS, MOVED), "deaths": 2},
    "moved, then back, twice": {"nights": (MOVED, AS_IT_WAS), "deaths": 1, "twice": 1},
    "exchanged, then back": {"nights": (EXCHANGED, AS_IT_WAS, EXCHANGED), "deaths": 1, "exchanged": {*"bc"}},
    "exchanged, then elsewhere": {"nights": (EXCHANGED, SPLIT), "deaths": 1, "twice": 1, "exchanged": {*"bc"}},
    "deleted, then back": {
        "nights": (night(delete=True, f1="ab", f2="cd"), night(f1="ab", f2="cd", v="a"), AS_IT_WAS),
        "retired": VIEW,
        "deaths": 2,
    },
    "deleted, then back, twice": {
        "nights": (night(delete=True, f1="ab", f2="cd"), night(f1="ab", f2="cd", v="a")),
        "retired": VIEW,
        "deaths": 1,
        "twice": 1,
    },
}


@pytest.mark.parametrize("case", CASES)
def test_no_death_or_late_request_unlists_a_page_or_breaks_an_index(case: str) -> None:
    explorer = Explorer(BASE, **CASES[case])
    found = explorer.explore()
    print(f"{case}: {explorer.states:,} states")
    assert found is None, found
    assert explorer.states > 100


@pytest.mark.parametrize(
    ("case", "without", "problem"),
    [
        ("moved, then back", "again", "not listed|listed at rest"),
        ("split, then as it was", "again", "not listed|listed at rest"),
        ("deleted, then back", "again former", "the index names"),
        ("moved, then back, twice", "former", "not listed|listed at rest"),
        ("deleted, then back, twice", "former", "the index names"),
        ("split, as it was, another", "numbers again", "refused"),
    ],
)
def test_the_model_finds_the_defect_that_each_rule_prevents(case: str, without: str, problem: str) -> None:
    rules = replace(Rules(), **dict.fromkeys(without.split(), False))
    found = Explorer(BASE, **CASES[case], rules=rules).explore()
    assert found is not None
    print(found)
    assert any(words in found for words in problem.split("|")), found


def test_only_rows_exchanged_between_files_can_be_unlisted_for_a_moment() -> None:
    found = Explorer(BASE, (EXCHANGED, AS_IT_WAS), deaths=0).explore()
    assert found is not None
    assert "['b'] not listed" in found, found
