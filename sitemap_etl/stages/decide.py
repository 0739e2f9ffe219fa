"""Skip sections whose inputs have not changed since they were last rendered.

Rendering them would change no file. For a section that is likely unchanged, transform compares raw rows first, and
applies no rule to a split that is unchanged (`stages.raw`). If all splits are, the report of the
run that applied the rules is repeated. `decide_sections` finds the splits that have to be transformed after all,
because their section has changed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from sitemap_etl.errors import DamagedState, Refused, Unavailable
from sitemap_etl.frames import Tally
from sitemap_etl.stages.about import about
from sitemap_etl.stages.arrival import demand_rows
from sitemap_etl.stages.bucket import BEFORE_RULES
from sitemap_etl.stages.digests import SectionDigests, rules_digest
from sitemap_etl.stages.run import Run
from sitemap_etl.state import layout
from sitemap_etl.state.records import (
    Clusters,
    Decided,
    MadeFrom,
    Mirror,
    SplitDigest,
    Summary,
    Transformed,
    UnchangedSection,
)
from sitemap_etl.state.store import read_document

LISTED_ALREADY: Final = "listed already by "
"""Beginning of the reasons for duplicates that render finds."""


def decide_sections(run: Run) -> Decided:
    """Find the sections that were read and are unchanged, and return the task result."""
    done = run.receipt(layout.SETTLE, Decided)
    if done is not None:
        return done
    parts = {name: run.parts(name) for name in run.read_sections()}
    kept = dict(run.plan.held) | (dict(run.merging().held) if run.plan.readings else {})
    for section, own in parts.items():
        why = next((part.held for part in own if part.held), None) or _few_rows(run, section, own)
        if why:
            kept[section] = why
    unchanged, clusters = _unchanged_sections(run, [section for section in parts if section not in kept])
    for section, one in unchanged.items():
        with about(section=section):
            run.environment.detail(f"decide: section {section} is unchanged since run {one.made_from.run_id}")
    retransform = [
        n
        for n, unit in enumerate(run.plan.units)
        if unit.section not in kept and unit.section not in unchanged and run.transformed(n).unchanged
    ]
    merge = [
        n
        for n, (section, _) in enumerate(run.merging().units if run.plan.readings else ())
        if section in run.merging().untouched and section not in kept and section not in unchanged
    ]
    return run.leave(layout.SETTLE, Decided(unchanged, kept, clusters, tuple(retransform), tuple(merge)))


def _few_rows(run: Run, name: str, parts: Sequence[Transformed]) -> str | None:
    """Return the reason why a section with `on_error: keep` is kept for the number of its rows, or None.

    Raise `Unavailable` if another section has too few rows.
    """
    section = run.site.sections[name]
    mirrored = name in run.plan.readings
    if name in run.plan.held or run.options.limit is not None or (mirrored and run.is_unchanged(name)):
        return None
    rows = sum(part.rows + part.carried for part in parts) if mirrored else run.rows_read(name)
    try:
        demand_rows(section, rows, run.plan.promised.get(name))
    except Unavailable as error:
        if section.on_error == "keep":
            return str(error)
        raise
    return None


def _unchanged_sections(run: Run, read: Collection[str]) -> tuple[dict[str, UnchangedSection], Clusters | None]:
    """Return the sections that were read and stay as published, and the notes on their clusters.

    No section of a run that does everything again (`--full`), reads only some rows, or is older than the release.
    """
    base = run.base
    if base is None or run.options.full or run.options.limit is not None or run.goes_back:
        return {}, None
    digests = SectionDigests(run, read, base.entries, base.sections)
    summaries = _Summaries(run)
    found = {}
    for name in read:
        known, now = run.plan.made_from.get(name), digests.of(name)
        if known is None or now is None or _inputs(known) != _inputs(now):
            continue
        duplicates = now.rows - base.sections[name].listed
        if run.is_unchanged(name):
            report = summaries.of(known.applied_by)
            counts = None if report is None else report.sections.get(name)
            if report is not None and counts is not None and counts.listed == base.sections[name].listed:
                found[name] = UnchangedSection(known, duplicates, report.reasons.get(name, {}), counts)
            continue
        reasons = Tally() if not duplicates else summaries.duplicates(known.run_id, name)
        if reasons.total == duplicates:
            found[name] = UnchangedSection(known, duplicates, {"duplicates": reasons})
    clustered = [name for name in read if run.site.sections[name].alternates is not None]
    if not clustered:
        return found, None
    rendered_by = {found[name].made_from.run_id if name in found else None for name in clustered}
    summary = summaries.of(rendered_by.pop()) if len(rendered_by) == 1 else None
    if summary is not None:
        return found, summary.clusters
    return {name: one for name, one in found.items() if name not in clustered}, None


def _inputs(one: MadeFrom) -> tuple[Any, ...]:
    """Return everything that a section is made from, for comparison."""
    return one.rows, one.sums, one.form, one.others, one.made


def digests_of_run(
    run: Run, digests: SectionDigests, rendered: Mapping[str, int | None], mirrors: Mapping[str, Mirror]
) -> dict[str, MadeFrom | None]:
    """Return the record of each section that was read, for the next run. None: it must be rendered.

    `rendered`: section that was rendered → its listed pages with a lastmod; None if rendering reports
    something that would be missing if it were not done. `mirrors`: the mirrors of this run, by section.
    """
    found: dict[str, MadeFrom | None] = {}
    for name in digests.read:
        unchanged = run.partition().quiet.get(name)
        if unchanged is not None and run.is_unchanged(name):
            continue  # what the state has of it stays
        if unchanged is not None:
            one: MadeFrom | None = replace(unchanged.made_from, expects=True)
        elif rendered[name] is None or run.options.limit is not None:
            one = None
        else:
            first = run.base is None or name not in run.base.sections
            one = digests.of(name)
            one = None if one is None else replace(one, dated=rendered[name] or 0, expects=first)
        if one is not None:
            source = _source(run, name, mirrors.get(name))
            one = replace(one, source=source, digests=_digests(run, name), applied_by=run.run_id)
        found[name] = one
    return found


def _source(run: Run, name: str, mirror: Mirror | None) -> str | None:
    """Return a digest of a section's rules, and of its mirror if it has one (`stages.digests.rules_digest`).

    Return None if the rules must be applied on the next run too: because they asked for the time, or because the run
    reports something that no later one could repeat (rows dropped as they were read, most rows on another site).
    """
    parts = run.parts(name)
    if not all(part.repeatable for part in parts) or main_origin(parts) is not None:
        return None
    if name not in run.plan.readings:
        return rules_digest(run, name)
    dropped = any(reason in BEFORE_RULES for p in parts for tally in p.reasons.values() for reason in tally.counts)
    return None if mirror is None or dropped else rules_digest(run, name, mirror.buckets)


def main_origin(parts: Sequence[Transformed]) -> tuple[str, int] | None:
    """Return the other origin that most of a section's rows are on, and their number; None if there is none."""
    elsewhere: Counter[str] = Counter()
    for part in parts:
        elsewhere.update(part.elsewhere)
    found = elsewhere.most_common(1)
    most = sum(part.rows + part.carried for part in parts) / 2
    return found[0] if found and found[0][1] > most else None


def _digests(run: Run, name: str) -> tuple[SplitDigest, ...]:
    """Return the digests of a section's splits for the next run; empty if that has to transform one of them anyway."""
    found = []
    for part in run.parts(name) if name not in run.plan.readings else ():
        if part.raw is None or part.loc_sums is None:
            return ()
        found.append(SplitDigest(part.raw, part.inventory, part.loc_sums, part.ends))
    return tuple(found)


class _Summaries:
    """Summaries of earlier runs, each read once."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._read: dict[str, Summary | None] = {}

    def of(self, run_id: str | None) -> Summary | None:
        """Return the summary of a run, or None if it is missing or unreadable."""
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
        """Return the reasons for which rows of a section were duplicates in its last render, with a few examples."""
        summary = self.of(run_id)
        found = Tally()
        listed = None if summary is None else summary.reasons.get(section, {}).get("duplicates")
        for reason in () if listed is None else listed.ordered():
            if reason.text.startswith(LISTED_ALREADY):
                found.add(reason.text, reason.count, reason.examples)
        return found
