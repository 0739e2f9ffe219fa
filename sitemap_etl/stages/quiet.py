"""Quiet sections: where a section is made from the same as when it was rendered last, it stays as published.

Rendering it would find nothing to do. Where a section is expected to be quiet, transform spares itself the work of
keeping rows for render; `settle` says which splits have to be transformed once more where that was wrong.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from sitemap_etl.errors import DamagedState, Refused, Unavailable
from sitemap_etl.frames import Tally
from sitemap_etl.stages.about import about
from sitemap_etl.stages.arrival import demand_rows
from sitemap_etl.stages.basis import Basis, source_of
from sitemap_etl.stages.bucket import BEFORE_RULES
from sitemap_etl.stages.run import Run
from sitemap_etl.state import layout
from sitemap_etl.state.records import (
    Agreed,
    Clusters,
    MadeFrom,
    Mirror,
    Quiet,
    Settled,
    SplitSums,
    Summary,
    Transformed,
)
from sitemap_etl.state.store import read_document

LISTED_ALREADY: Final = "listed already by "
"""How the reasons of the duplicates begin that render finds."""


def settle(run: Run) -> Settled:
    """Find out which of the sections that were read stay as published; gives the receipt."""
    done = run.receipt(layout.SETTLE, Settled)
    if done is not None:
        return done
    parts = {name: run.parts(name) for name in run.read_sections()}
    held = dict(run.plan.held) | (dict(run.merging().held) if run.plan.readings else {})
    for section, own in parts.items():
        why = next((part.held for part in own if part.held), None) or _few_rows(run, section, own)
        if why:
            held[section] = why
    quiet, clusters = _quiet_sections(run, [section for section in parts if section not in held])
    for section, one in quiet.items():
        with about(section=section):
            run.environment.detail(f"settle: {section}: nothing differs from run {one.made_from.run_id}")
    again = [
        n
        for n, unit in enumerate(run.plan.units)
        if unit.section not in held and unit.section not in quiet and run.transformed(n).spared
    ]
    merge = [
        n
        for n, (section, _) in enumerate(run.merging().units if run.plan.readings else ())
        if section in run.merging().untouched and section not in held and section not in quiet
    ]
    return run.leave(layout.SETTLE, Settled(quiet, held, clusters, tuple(again), tuple(merge)))


def _few_rows(run: Run, name: str, parts: Sequence[Transformed]) -> str | None:
    """Why a section with `on_error: keep` is held for the number of its rows; None where it is not.

    Raises `Unavailable` where another one has too few, which is known only now.
    """
    section = run.site.sections[name]
    if name in run.plan.held or run.options.limit is not None or run.is_untouched(name):
        return None
    try:
        demand_rows(section, sum(part.rows + part.carried for part in parts), run.plan.promised.get(name))
    except Unavailable as error:
        if section.on_error == "keep":
            return str(error)
        raise
    return None


def _quiet_sections(run: Run, read: Collection[str]) -> tuple[dict[str, Quiet], Clusters | None]:
    """Those of the sections that were read which stay as published; and what is told of their clusters.

    None of a run that was asked to do all anew (`--full`), reads only some rows, or is from before what is published.
    """
    base = run.base
    if base is None or run.options.full or run.options.limit is not None or run.goes_back:
        return {}, None
    basis = Basis(run, read, base.entries, base.sections)
    summaries = _Summaries(run)
    found = {}
    for name in read:
        known, now = run.plan.made_from.get(name), basis.of(name)
        if known is None or now is None or _told(known) != _told(now):
            continue
        duplicates = now.rows - base.sections[name].listed
        if run.is_untouched(name):
            told = summaries.of(known.applied_by)
            if told is not None and name in told.sections:
                found[name] = Quiet(known, duplicates, told.reasons.get(name, {}), told.sections[name])
            continue
        reasons = Tally() if not duplicates else summaries.duplicates(known.run_id, name)
        if reasons.total == duplicates:
            found[name] = Quiet(known, duplicates, {"duplicates": reasons})
    clustered = [name for name in read if run.site.sections[name].alternates is not None]
    if not clustered:
        return found, None
    rendered_by = {found[name].made_from.run_id if name in found else None for name in clustered}
    summary = summaries.of(rendered_by.pop()) if len(rendered_by) == 1 else None
    if summary is not None:
        return found, summary.clusters
    return {name: one for name, one in found.items() if name not in clustered}, None


def _told(one: MadeFrom) -> tuple[Any, ...]:
    """What tells whether a section is made from the same."""
    return one.rows, one.sums, one.form, one.others, one.made


def remembered(
    run: Run, basis: Basis, rendered: Mapping[str, int | None], mirrors: Mapping[str, Mirror]
) -> dict[str, MadeFrom | None]:
    """What the next run is to know of each section that was read; None: it has to be rendered in any case.

    `rendered`: section that was rendered → its listed pages with a lastmod; None where rendering tells what it would
    not tell if it were not done. `mirrors`: of the sections that keep one, as this run leaves it.
    """
    found: dict[str, MadeFrom | None] = {}
    for name in basis.read:
        quiet = run.partition().quiet.get(name)
        if quiet is not None and run.is_untouched(name):
            continue  # nothing is to be remembered otherwise than it is
        if quiet is not None:
            one: MadeFrom | None = replace(quiet.made_from, expects=True)
        elif rendered[name] is None or run.options.limit is not None:
            one = None
        else:
            first = run.base is None or name not in run.base.sections
            one = basis.of(name)
            one = None if one is None else replace(one, dated=rendered[name] or 0, expects=first)
        if one is not None:
            one = replace(one, source=_source(run, name, mirrors.get(name)), applied_by=run.run_id)
            if name not in run.plan.readings:
                parts = run.parts(name)
                one = replace(one, splits=_split_sums(parts), agreed=_agreed(parts))
        found[name] = one
    return found


def _source(run: Run, name: str, mirror: Mirror | None) -> str | None:
    """A hash of the rules of a section, and of the mirror that it keeps (`stages.basis.source_of`).

    None also if a later run can make something else of the mirror, or count less of it: rows that were dropped as they
    were read, rows on another site, a rule that asked for the time.
    """
    if name not in run.plan.readings:
        return source_of(run, name)
    parts = run.parts(name)
    dropped = any(reason in BEFORE_RULES for p in parts for tally in p.reasons.values() for reason in tally.counts)
    if mirror is None or dropped or any(part.elsewhere or not part.repeatable for part in parts):
        return None
    return source_of(run, name, mirror.buckets)


def _agreed(parts: Sequence[Transformed]) -> Agreed | None:
    """What the splits of a section have in common, where the rows of all of them have the same columns."""
    whole = [part for part in parts if part.inventory]
    forms = {(part.columns, part.kinds) for part in whole}
    if len(forms) != 1:
        return None
    columns, kinds = forms.pop()
    tags = sorted({tag for part in whole for tag in part.tags})
    return Agreed(columns, kinds, tuple(tags))


def _split_sums(parts: Sequence[Transformed]) -> tuple[SplitSums, ...]:
    """What tells the next run whether the splits of a section are as they were; nothing where one is not known."""
    found = []
    for part in parts:
        if part.sums is None or part.loc_sums is None:
            return ()
        found.append(SplitSums(part.first_sums or part.sums, part.sums, part.loc_sums, part.ends, part.raw, part.bare))
    return tuple(found)


class _Summaries:
    """What earlier runs told, each read once."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._read: dict[str, Summary | None] = {}

    def of(self, run_id: str | None) -> Summary | None:
        """The summary of a run; None where there is none, or it can't be read."""
        if run_id is None:
            return None
        if run_id not in self._read:
            try:
                stored = read_document(self._run.work, layout.summary(run_id), Summary)
            except (DamagedState, Refused):
                stored = None  # nothing rests on a report
            self._read[run_id] = None if stored is None else stored[0]
        return self._read[run_id]

    def duplicates(self, run_id: str, section: str) -> Tally:
        """Why rows of a section were duplicates when a run rendered it, each reason with a few examples."""
        summary = self.of(run_id)
        found = Tally()
        told = None if summary is None else summary.reasons.get(section, {}).get("duplicates")
        for reason in () if told is None else told.ordered():
            if reason.text.startswith(LISTED_ALREADY):
                found.add(reason.text, reason.count, reason.examples)
        return found
