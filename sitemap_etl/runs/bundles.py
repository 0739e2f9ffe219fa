"""Bundles of tasks for a scheduler: a small site is one task, and no stage has too many.

A scheduler's task takes seconds before it reads a row, and the scheduler stores its arguments. So a stage has at most
`MOST` tasks. Each handles a *bundle* of neighboring splits or groups.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import inf
from typing import Final, TypeAlias

from sitemap_etl import sources
from sitemap_etl.stages.run import Run

Bundle: TypeAlias = Sequence[int]
"""Range of task numbers: the first, and one past the last. A list of two numbers, as in JSON."""

MOST: Final = 256
"""Maximum tasks per stage. Their bundles take less than 4 kB, and no installation has more slots for one site."""


def bundles(count: int, most: int = MOST) -> list[Bundle]:
    """Divide `count` tasks into at most `most` non-empty bundles of about equal size, in order."""
    tasks = min(count, most, MOST)
    return [[count * at // tasks, count * (at + 1) // tasks] for at in range(tasks)]


def called(sections: Sequence[str], bundle: Bundle) -> str:
    """Return a label of a bundle, such as `pages 3-5 of 12, news 1 of 2`.

    `sections`: the section of each task; tasks of one section are adjacent.
    """
    totals = Counter(sections)
    parts = []
    for section in dict.fromkeys(sections[slice(*bundle)]):
        before = sections.index(section)
        first, past = max(bundle[0] - before, 0), min(bundle[1] - before, totals[section])
        numbers = f"{past}" if past - first == 1 else f"{first + 1}-{past}"
        parts.append(f"{section} {numbers} of {totals[section]}")
    return ", ".join(parts) if len(parts) <= _NAMED else f"{', '.join(parts[:_NAMED])} and {len(parts) - _NAMED} more"


_NAMED: Final = 3
"""Sections that a label names. More are only counted."""


def is_small(run: Run) -> bool:
    """Return True if the run reads so few rows that one task does all of it (`airflow.small`)."""
    most = run.site.airflow.small
    return most > 0 and sum(_rows_of(run, section) for section in run.read_sections()) <= most


def _rows_of(run: Run, section: str) -> float:
    """Estimate the rows of a section, from its source, its published counts or the size of its files.

    The size of a database that was never published is unknown. With `split`, it counts as large. Without, one task
    reads it anyway.
    """
    splits = [unit.split for unit in run.plan.units if unit.section == section]
    published = run.base.counts.get(section) if run.base is not None else None
    counted = all(split.rows is not None for split in splits)
    if not counted and published is not None and published.extracted + published.carried:
        return published.extracted + published.carried
    unknown = 0 if len(splits) == 1 else inf
    guessed = (sources.guess_rows(split) if split.rows is None else split.rows for split in splits)
    return sum(unknown if count is None else count for count in guessed)
