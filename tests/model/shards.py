"""Return in which files a section's pages may be after a run, given their ranges before it.

A file is a range of locs; its number stays with the range. A range with unchanged pages stays. One over a limit is
split into equal parts, the left of which keeps the number. Pages after the last published loc get new parts. A file
that is written anyway, has under a tenth of a shard and fits into its neighbor is merged with it. Any division that
follows these rules is adopted.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from math import ceil
from typing import Any, TypeAlias

Files: TypeAlias = Mapping[int, list[str]]
"""Number → locs, in order."""


def check(  # noqa: PLR0912 - the rules one after the other
    old: Files,
    lows: Mapping[int, str],
    new: Files,
    touched: Collection[str],
    limits: Mapping[str, Any],
    highest: int,
    sizes: Mapping[str, int],
) -> list[str]:
    """Return what is wrong with the new files.

    `lows`: the start of each old file's range. `touched`: locs of added, removed or changed pages. `limits`:
    `shards` of the section. `highest`: the highest number that the section ever had. `sizes`: bytes of entries.
    """
    problems = []
    rows = limits.get("rows", 50_000)
    equal = Equal(rows, limits.get("fill", 0.9), sizes)
    ordered = sorted(new, key=lambda number: new[number][0])
    for left, right in pairwise(ordered):
        if new[left][-1] >= new[right][0]:
            problems.append(f"files {left} and {right} overlap")
    for number, locs in new.items():
        if locs != sorted(set(locs)):
            problems.append(f"file {number} is not in order, or lists a page twice")
        if len(locs) > rows:
            problems.append(f"file {number} has {len(locs)} rows, more than {rows}")
        if number not in old and number <= highest:
            problems.append(f"file {number} is new, but its number was given before (up to {highest})")
    if problems:
        return problems
    if not old and new:
        return _first(new, ordered, equal, highest)
    file_of = {loc: number for number, locs in new.items() for loc in locs}
    ranges = _assign(old, lows, file_of)
    changed = {number for number in old if ranges[number] != old[number] or not touched.isdisjoint(old[number])}
    changed |= {
        number for number, locs in ranges.items() if len(locs) > rows
    }  # the limit may be another than yesterday
    owners: dict[int, set[int]] = defaultdict(set)  # new file → the old ranges whose pages it has
    for number, locs in ranges.items():
        for loc in locs:
            owners[file_of[loc]].add(number)
    merged = {number for owned in owners.values() if len(owned) > 1 for number in owned}
    for number, owned in owners.items():
        if len(owned) > 1:
            problems += _merge(number, owned, ranges, changed, new, rows)
    alive = [number for number in sorted(old, key=lambda number: old[number][0]) if ranges[number]]
    for at, number in enumerate(alive):
        if number in merged:
            continue
        parts = {each: new[each] for each in sorted(new, key=lambda each: new[each][0]) if owners[each] == {number}}
        if number not in changed or len(ranges[number]) <= rows:
            if list(parts) != [number]:
                why = "did not change" if number not in changed else "is within the limit"
                problems.append(f"file {number} {why}, but its range is now in {list(parts)}")
            elif number in changed and len(ranges[number]) < equal.fill * rows / 10:
                around = alive[max(at - 1, 0) : at] + alive[at + 1 : at + 2]
                fits = [
                    each for each in around if each not in merged and len(ranges[each] + ranges[number]) <= 0.7 * rows
                ]
                if fits:
                    problems.append(
                        f"file {number} has {len(ranges[number])} rows and was written, but not into {fits}"
                    )
        else:
            problems += _cut(number, old[number], ranges[number], parts, equal)
    return problems


@dataclass(frozen=True)
class Equal:
    """Sizes of equal parts, in rows or in bytes: as many as `fill` requires."""

    rows: int
    fill: float
    sizes: Mapping[str, int]

    def wrong(self, parts: list[list[str]]) -> list[str]:
        """Return what is wrong with these parts. Pages that fit in one file need not be split."""
        counts = [len(part) for part in parts]
        count = sum(counts)
        if not counts or (len(counts) == 1 and count <= self.rows):
            return []
        aim = round(self.fill * self.rows, 6)
        wanted = {ceil(count / aim), ceil(count / max(int(aim), 1))}  # a share of a row is no row
        largest = max(self.sizes[loc] for part in parts for loc in part)
        weights = [sum(self.sizes[loc] for loc in part) for part in parts]
        alike = max(counts) - min(counts) <= 1 or max(weights) - min(weights) <= 2 * largest
        return (
            [] if len(counts) in wanted and alike else [f"{count} rows are cut into {counts}, expected {wanted} parts"]
        )


def _first(new: Files, ordered: list[int], equal: Equal, highest: int) -> list[str]:
    if ordered != list(range(ordered[0], ordered[0] + len(ordered))) or ordered[0] <= highest:
        return [f"the first files are numbered {ordered}, the last number was {highest}"]
    return equal.wrong(list(new.values()))


def _assign(old: Files, lows: Mapping[int, str], locs: Iterable[str]) -> dict[int, list[str]]:
    """Return old number → the locs of its range now. The first range begins before all, the others at their start."""
    numbers = sorted(old, key=lambda number: lows[number])
    borders = [lows[number] for number in numbers]
    ranges: dict[int, list[str]] = {number: [] for number in numbers}
    for loc in sorted(locs):
        ranges[numbers[max(bisect_right(borders, loc) - 1, 0)]].append(loc)
    return ranges


def _merge(
    number: int, owned: set[int], ranges: Mapping[int, list[str]], changed: set[int], new: Files, rows: int
) -> list[str]:
    problems = []
    if number not in owned:
        problems.append(f"files {sorted(owned)} went into {number}, which is none of them")
    for each in owned - {number}:
        if each not in changed:
            problems.append(f"file {each} went into {number} though it did not change")
        if len(ranges[each]) >= rows / 10:
            problems.append(f"file {each} went into {number} with {len(ranges[each])} rows, a tenth of {rows} or more")
    if len(new[number]) > 0.7 * rows:
        problems.append(f"files {sorted(owned)} went into {number}, which has {len(new[number])} rows now")
    return problems


def _cut(number: int, before: list[str], locs: list[str], parts: Files, equal: Equal) -> list[str]:
    """Check a range over the limit: all of it in equal parts, or the pages after its last loc in parts of their own."""
    if next(iter(parts)) != number:
        return [f"file {number} was cut into {list(parts)}: the left part keeps the number"]
    head = [loc for loc in locs if loc <= before[-1]]
    values = list(parts.values())
    first = [part for part in values if part[0] <= before[-1]]
    apart = [loc for part in first for loc in part] == head
    behind = len(locs) - len(head)
    small = behind < equal.rows / 10 and len(values[-1]) <= 0.7 * equal.rows  # it goes into the part before it
    joined = small and not equal.wrong([*values[:-1], values[-1][: len(values[-1]) - behind]])
    if equal.wrong(values) and not joined and (not apart or equal.wrong(first) or equal.wrong(values[len(first) :])):
        sizes = [len(part) for part in values]
        return [f"file {number} ({len(head)} rows and {behind} behind) was cut into {list(parts)} of {sizes}"]
    return []
