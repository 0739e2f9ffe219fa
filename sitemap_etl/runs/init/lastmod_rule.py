"""The lastmod rule of a section, as lines of a site file: a column, a fingerprint, or none with the reason."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from sitemap_etl.runs.init.beginning import Beginning
from sitemap_etl.runs.init.columns import Found
from sitemap_etl.runs.init.date_names import is_of_a_crawl
from sitemap_etl.runs.init.dates import Dates
from sitemap_etl.runs.init.text import flow, line, listed, one_line, scalar, shown

_ZONES: Final = ("GMT", "UTC")
"""Ends of formats whose texts contain the time zone."""


def lastmod_lines(beginning: Beginning, found: Found, renamed: Callable[[str], str], notes: list[str]) -> Iterator[str]:
    """Yield the lines of the rule, and add to the notes.

    `found`: the detected columns. `renamed`: returns the name of a column in rules.
    """
    if not beginning.rows.num_rows:
        yield line("    # lastmod: COLUMN", "when the page last changed: there is no row to see it by")
    elif found.dates is not None:
        yield from _of_column(found.dates, renamed(found.dates.column), notes)
    else:
        yield from _undated(beginning, found, renamed, notes)


def _of_column(dates: Dates, name: str, notes: list[str]) -> Iterator[str]:
    """Yield the rule of a column with modification dates. A column named `lastmod` needs none."""
    notes.append(
        f"the column {shown(dates.column)} is used as the date of the last change of a page: make sure that it is "
        "not the date of the export"
    )
    if dates.rule:
        yield line(f"    lastmod: {flow({'column': name, **dates.rule})}", _guesses(dates, notes))
    elif name != "lastmod":
        rule = flow({"column": name}) if name == "none" else scalar(name)
        yield line(f"    lastmod: {rule}", "when the page last changed")


def _guesses(dates: Dates, notes: list[str]) -> str:
    """Return the questions to the user about the rule of a date column."""
    asked = []
    if "timezone" in dates.rule and not dates.rule.get("format", "").endswith(_ZONES):
        asked.append("the times have no zone: is it this one?")
        notes.append(f"lastmod: timezone {dates.rule['timezone']} is a guess")
    if "unit" in dates.rule:
        asked.append("numbers: is this their unit?")
        notes.append(f"lastmod: unit {dates.rule['unit']} is a guess")
    if dates.doubtful:
        asked.append("or is the month first, or the day?")
        notes.append(
            f"lastmod: format {dates.rule['format']} is a guess: day and month of {dates.shown} may be the other way "
            "round"
        )
    return " ".join(asked)


def _undated(beginning: Beginning, found: Found, renamed: Callable[[str], str], notes: list[str]) -> Iterator[str]:
    """Yield the rule of a section without modification dates: a fingerprint if possible, otherwise none."""
    why = _why_undated(beginning, found)
    if found.same_date is not None or found.unread is not None or found.never:
        notes.append(why)
    if not found.never:
        yield line("    lastmod: none", why)
        return
    rule: dict[str, Any] = {"fingerprint": [renamed(name) for name in found.contents] or ["COLUMN"]}
    if found.begun is not None:
        rule |= {"until_changed": renamed(found.begun.column), **found.begun.rule}
    if found.contents and not all(map(is_of_a_crawl, found.never)):
        yield one_line(f"    # {why}:")
        yield "    # a page counts as changed from now on when one of these columns changes"
        yield line(f"    lastmod: {flow(rule)}", "" if found.begun is None else _guesses(found.begun, notes))
        notes.append(
            f"lastmod: a fingerprint of {listed(found.contents)} dates a page when one of these changes: name the "
            "columns that are shown on the page"
        )
        return
    yield line("    lastmod: none", why)
    yield one_line(f"    # lastmod: {flow(rule)}")
    yield "    # a fingerprint dates a page when one of its columns changes: name those that are shown on the page"
    notes.append("lastmod: a fingerprint of the columns that are shown on a page can date its changes")


def _why_undated(beginning: Beginning, found: Found) -> str:
    if found.same_date is not None:
        same = "one date in all rows" if found.same_date not in beginning.folders else "the dates of folders"
        return f"{shown(found.same_date)} has {same}: is it that of the export?"
    if found.unread is not None:
        return f"{shown(found.unread)} can't be read as dates"
    if found.never:
        by, verb = ("its name", "is") if len(found.never) == 1 else ("their names", "are")
        return f"by {by}, {listed(found.never)} {verb} not when a page changed"
    return "no column looks like the date of the last change of a page"
