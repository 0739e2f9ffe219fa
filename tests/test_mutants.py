"""The mutants of `make mutants` are small mistakes in valid code, and its marks name existing code."""

from __future__ import annotations

import ast
import sys
import types
from dataclasses import fields
from pathlib import Path

import pytest

from tests.mutants.__main__ import ROOMS, candidates, change, marked, name_of
from tests.mutants.keeper import transplant
from tests.mutants.mutations import mutants
from tests.mutants.record import Record, modules

SOURCE = '''"""A module."""

LIMIT = 3
TRIES: Final = 5
PATIENCE: Final = timedelta(days=2 * 7)
if TYPE_CHECKING:
    from collections import OrderedDict


def shares(rows: list[int] = [], *, strict: bool = False) -> float | None:
    """What 1 < 2 says here is for a person."""
    if not rows or len(rows) > LIMIT:
        raise ValueError(f"{len(rows) + 1} rows")
    rows.sort()
    größe = "ü" if strict else "a"
    while rows[0] == 0:
        rows.pop(0)
    assert all(one > two for one, two in zip(rows, rows, strict=True))
    return rows[0] / sum(one for one, _ in zip(rows, rows, strict=True))
'''
CHANGES = {
    ("LIMIT = 3", "LIMIT = 4"),
    ("LIMIT = 3", "LIMIT = 2"),
    ("False", "True"),
    ("if not rows or len(rows) > LIMIT:", "if not (not rows or len(rows) > LIMIT):"),
    ("if not rows or len(rows) > LIMIT:", "if False:"),
    ("not rows or len(rows) > LIMIT", "not rows and len(rows) > LIMIT"),
    ("not rows", "rows"),
    ("len(rows) > LIMIT", "len(rows) >= LIMIT"),
    ("rows.sort()", "pass"),
    ("'ü' if strict else 'a'", "'a' if strict else 'ü'"),
    ("while rows[0] == 0:", "while False:"),
    ("rows[0] == 0", "rows[0] != 0"),
    ("rows[0] == 0", "rows[0] == 1"),
    ("rows[0] == 0", "rows[0] == -1"),
    ("rows[0]", "rows[1]"),
    ("rows[0]", "rows[-1]"),
    ("rows.pop(0)", "rows.pop(1)"),
    ("rows.pop(0)", "rows.pop(-1)"),
    ("rows.pop(0)", "pass"),
    ("return rows[0] / sum((one for one, _ in zip(rows, rows, strict=True)))", "return None"),
}


def test_mutants_of_every_kind_exist_but_none_in_texts_for_people() -> None:
    found = mutants("x.py", SOURCE)
    assert {(mutant.was, mutant.now) for mutant in found} == CHANGES
    for mutant in found:
        changed = mutant.applied(SOURCE)
        assert changed != SOURCE
        ast.parse(changed)


@pytest.mark.parametrize("room", ROOMS)
def test_every_mutant_is_valid_python(room: str) -> None:
    sources = modules()
    found = candidates([room])
    assert len(found) > 50
    for mutant in found[:: max(len(found) // 40, 1)]:
        ast.parse(mutant.applied(sources[mutant.file]))


def test_a_mutant_keeps_its_name_if_the_code_around_it_moves() -> None:
    moved = SOURCE.replace("LIMIT = 3\n", "# The most.\nLIMIT = 3\nOTHER = None\n")
    assert [name_of(one) for one in mutants("x.py", moved)] == [name_of(one) for one in mutants("x.py", SOURCE)]


def test_a_mutant_is_tried_by_tests_of_its_line_most_useful_and_fastest_first() -> None:
    seconds = {"slow": 0.4, "fast": 0.1, "faster": 0.01, "other": 0.1}
    ran = {3: {"faster"}, 12: {"slow"}, 14: {"slow", "fast", "faster"}}  # the first that imported it
    record = Record(seconds, {"x.py": ran, "y.py": {14: {"other"}}}, {"x.py": SOURCE})
    by_change = {(mutant.was, mutant.now): record.tests_of(mutant) for mutant in mutants("x.py", SOURCE)}
    assert by_change["rows.sort()", "pass"] == ["faster", "slow", "fast"]
    assert by_change["not rows", "rows"] == ["slow"]
    assert by_change["LIMIT = 3", "LIMIT = 4"] == ["faster", "slow", "fast"], (
        "what runs at the import is any test's of the module"
    )
    assert by_change["rows.pop(0)", "pass"] == []


def test_every_mark_names_an_existing_mutant_and_a_reason() -> None:
    identities = {change(*mutant.identity) for mutant in candidates(ROOMS)}
    for identity, reason in marked().items():
        assert identity in identities, f"the code of this mark is gone: {identity}"
        assert len(reason) > 10


PLANTED = """
from dataclasses import dataclass
from functools import cache, cached_property

LIMITS = {"rows": 3}


def shares(rows, *, least=2):
    return rows >= least


@cache
def cached(rows):
    return rows + 1


@dataclass(frozen=True)
class Shard:
    rows: int = 0

    @property
    def full(self):
        return self.rows >= LIMITS["rows"]

    @cached_property
    def half(self):
        return self.rows // 2

    @classmethod
    def empty(cls):
        return cls(0)
"""


@pytest.mark.parametrize(
    ("was", "now", "shown"),
    [
        ('"rows": 3', '"rows": 4', "full"),
        ("rows >= least", "rows > least", "shares"),
        ("least=2", "least=3", "shares"),
        ("rows + 1", "rows + 2", "cached"),
        ("rows: int = 0", "rows: int = 1", "default"),
        ("self.rows >= LIMITS", "self.rows > LIMITS", "full"),
        ("// 2", "// 1", "half"),
        ("cls(0)", "cls(1)", "empty"),
        ("rows + 1", "rows + 1 ", ""),
    ],
)
def test_a_mutant_replaces_functions_that_other_modules_imported(
    was: str, now: str, shown: str, tmp_path: Path
) -> None:
    name, user = "tests.planted", types.ModuleType("tests.user")
    module = types.ModuleType(name)
    module.__file__ = str(tmp_path / "planted.py")
    sys.modules |= {name: module, user.__name__: user}
    try:
        exec(PLANTED, module.__dict__)
        user.__dict__.update({each: getattr(module, each) for each in ("LIMITS", "shares", "cached", "Shard")})

        def looks() -> dict[str, object]:
            shard = user.Shard(3)
            return {
                "full": shard.full,
                "shares": user.shares(2),
                "cached": user.cached.__wrapped__(1),
                "default": (user.Shard().rows, fields(user.Shard)[0].default),
                "half": shard.half,
                "empty": user.Shard.empty().rows,
            }

        before = looks()
        assert bool(transplant(module, PLANTED.replace(was, now))) == bool(shown)
        after = looks()
        assert [each for each, value in before.items() if after[each] != value] == ([shown] if shown else [])
    finally:
        del sys.modules[name], sys.modules[user.__name__]
