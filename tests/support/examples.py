"""How many examples of a property and cases of a matrix a session tries."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Hashable, Iterable
from typing import Final, TypeVar

IN_CI: Final = os.environ.get("CI") == "true"
ALL: Final = os.environ.get("ALL") == "1"
"""Whether matrices are tried as a whole: `make test ALL=1`, `make soak`."""
PART: Final = 12
_Case = TypeVar("_Case")


def examples(number: int) -> int:
    """Return two fifths of `number`, or all of it with `ALL=1`. CI uses one seed, other sessions another."""
    return number if ALL else max(1, number * 2 // 5)


def sample(
    cases: Iterable[_Case], kind: Callable[[_Case], Hashable], *, every: int = 1, whole: bool = ALL
) -> list[_Case]:
    """Return the first case of each kind and each `every`th case; a twelfth of these unless `whole`."""
    step = every if whole else every * PART
    seen: set[Hashable] = set()
    chosen = []
    for number, case in enumerate(cases):
        found = kind(case)
        if found not in seen or number % step == 0:
            chosen.append(case)
        seen.add(found)
    return chosen


def kind_of_key(key: str) -> str:
    """Return a key without what differs between objects of one kind: times, numbers, hashes and names of runs."""
    return re.sub(r"\d{8}T\w+(-\w+)?|[0-9a-f]{6,}|\d+", "#", key)
