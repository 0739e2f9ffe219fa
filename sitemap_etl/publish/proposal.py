"""Build a run's proposal: collect task results, check that no row is lost, net out moves, and evaluate gates.

Nothing public is touched here. The same proposal is shown by a dry run, refused by a gate, or published.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from sitemap_etl import lastmod
from sitemap_etl.arrow import column_of
from sitemap_etl.config import Site
from sitemap_etl.errors import Refused
from sitemap_etl.frames import SNAPSHOT, Tally, conform, without_fingerprints
from sitemap_etl.publish.addresses import note_bare, warn_of_bare, warn_of_numbers, warn_of_rejected
from sitemap_etl.publish.drafts import Draft, file_of
from sitemap_etl.publish.gates import Dates, Outcome, Visited, gates_of, one_date, one_hour
from sitemap_etl.publish.moves import Moves, dropped_entries, net_moves, read_changes, taken_pages
from sitemap_etl.publish.unread import carry
from sitemap_etl.stages.decide import main_origin
from sitemap_etl.stages.published import remembered, same_definition
from sitemap_etl.stages.rules import is_dated
from sitemap_etl.stages.run import Run
from sitemap_etl.state.records import (
    Counts,
    Drift,
    Entry,
    Gate,
    Rendered,
    SectionPlan,
    SectionState,
    StagedShard,
    UnchangedSection,
)


@dataclass
class Proposal:
    """The proposed release of a run."""

    drafts: list[Draft]
    sections: dict[str, SectionState]
    counts: dict[str, Counts]
    gates: list[Gate]
    moves: Moves
    held: dict[str, str]
    warnings: list[str] = field(default_factory=list)
    reasons: dict[str, dict[str, Tally]] = field(default_factory=dict)
    drift: dict[str, Drift] = field(default_factory=dict)
    dates: dict[str, Dates] = field(default_factory=dict)
    rejected_read: dict[str, int] = field(default_factory=dict)
    pages: dict[str, Visited] = field(default_factory=dict)
    aside: dict[str, list[pa.Table]] = field(default_factory=dict)

    @property
    def outcomes(self) -> dict[str, Outcome]:
        """Section → numbers for the gates."""
        return {
            name: Outcome(
                counts,
                self.rejected_read.get(name, 0),
                self.dates.get(name, Dates()),
                self.pages.get(name, Visited()),
            )
            for name, counts in self.counts.items()
        }

    @property
    def refused(self) -> list[Gate]:
        return [gate for gate in self.gates if gate.status == "refused"]


def propose(run: Run, force: frozenset[str] | None = None) -> Proposal:
    """Gather a run's task results into a proposal, and visit its new pages if a gate asks for it.

    `force`: gates that are overruled; None: the run's own.

    Raise Refused if the accounting does not hold.
    """
    planned = run.partition()
    rendered = run.all_rendered()
    taken = taken_pages(run, rendered)
    by_section: dict[str, list[Rendered]] = {name: [] for name in planned.sections}
    for receipt in rendered:
        by_section[receipt.section].append(receipt)
    base = run.base
    moves = net_moves(run, rendered, dropped_entries(run), taken)
    proposal = Proposal([], {}, {}, [], moves, dict(planned.held))
    for name in run.site.sections:
        published = base.sections.get(name) if base is not None else None
        if name in by_section:
            _read_section(run, planned.sections[name], by_section[name], published, proposal)
            _warn(run, planned.sections[name], by_section[name], published, proposal)
            _warn_of_rows(run, name, proposal)
        elif name in planned.quiet and published is not None and base is not None:
            proposal.drafts += [Draft(entry) for entry in base.of(name)]
            proposal.sections[name] = published
            proposal.counts[name] = _account_unchanged(run, name, planned.quiet[name], published, proposal)
            _warn_of_rows(run, name, proposal)
        elif published is not None and base is not None:
            own = taken.filter(pc.equal(taken.column("section"), name))
            _carry(run, name, published, base.of(name), own, proposal)
    held = [
        f"{name} {'stays as published' if name in proposal.sections else 'was never published and is left out'}: {why}"
        for name, why in proposal.held.items()
    ]
    aligned = run.aligned()
    stale = [
        f"{name} was not read, so {pages:,} of its pages, such as {example}, keep hreflang links that are no longer "
        f"those of their clusters. The next run that reads {name} corrects them"
        for name, (pages, example) in (aligned.stale if aligned is not None else {}).items()
    ]
    proposal.warnings = held + stale + _gone(run, moves) + proposal.warnings
    if any(receipt.new for receipt in rendered):
        from sitemap_etl.publish.visits import visit_new  # brings the HTTP client along

        proposal.pages = visit_new(run, rendered, proposal.counts, moves)
        for name, seen in proposal.pages.items():
            proposal.reasons[name]["pages"] = seen.all_reasons()
    forced = frozenset(run.options.force) if force is None else force
    proposal.gates = gates_of(run, proposal.outcomes, moves, forced)
    meant = [gate for gate in proposal.gates if gate.status == "warned" and gate.value > gate.limit]
    proposal.warnings += [f"{gate.message}: as the rule of the section says" for gate in meant]
    proposal.warnings += _batch_dates(run, proposal)
    return proposal


def _batch_dates(run: Run, proposal: Proposal) -> list[str]:
    """Return a warning for each section that a batch job seems to have dated and that sets no limit for it."""
    stopped = {gate.name for gate in proposal.gates if gate.status in ("refused", "forced")}
    found = [
        one_hour(name, dates)
        for name, dates in proposal.dates.items()
        if run.site.sections[name].gates.max_same_hour is None
        and not run.site.sections[name].view
        and f"{name}.max_same_date" not in stopped
    ]
    return [warning for warning in found if warning is not None]


def _carry(
    run: Run, name: str, published: SectionState, entries: Sequence[Entry], taken: pa.Table, proposal: Proposal
) -> None:
    """Let a section that is not read stay as published, but for decisions of the time and of other sections.

    `taken`: its pages that earlier sections list now (`moves.taken_pages`).
    """
    _demand_same_origin(run, name, entries)
    carried = carry(run, run.site.sections[name], published, entries, taken)
    proposal.drafts += carried.drafts
    proposal.sections[name] = carried.state
    proposal.counts[name] = _balanced(name, carried.counts)
    for kind, rows in carried.aside.items():
        proposal.aside.setdefault(kind, []).append(rows)
    if carried.reasons:
        proposal.reasons[name] = dict(carried.reasons)
    if carried.linked and not _closes_clusters_of(run, name):
        pages = f"{carried.linked:,} {'page' if carried.linked == 1 else 'pages'}"
        proposal.warnings.append(
            f"{name} was not read, and no longer lists {pages} with hreflang links: the other pages of these clusters "
            f"keep their links to them. The next run that reads {name} corrects them"
        )


def _closes_clusters_of(run: Run, name: str) -> bool:
    """Return True if a section that is rendered has the same clusters, so that the run compares their links."""
    rule = run.site.sections[name].alternates
    rendered = (run.site.sections[other].alternates for other in run.partition().sections)
    return rule is not None and any(other is not None and other.cluster == rule.cluster for other in rendered)


def _demand_same_origin(run: Run, name: str, entries: Sequence[Entry]) -> None:
    """Raise Refused if an unread section would still list pages of another origin than `site`."""
    theirs = foreign_page(run.site, entries)
    if theirs is not None:
        raise Refused(
            f"{name} was not read, and what it has published is of another site than {run.site.site}, such as "
            f"{theirs}. Engines take no page of one site from the sitemap of another. Nothing public was touched. Run "
            f"again with {name}, without --section or when its source is back"
        )


def foreign_page(site: Site, entries: Iterable[Entry]) -> str | None:
    """Return a published page of another origin than `site`, or None."""
    return next((entry.first for entry in entries if not entry.first.startswith(f"{site.site}/")), None)


def _gone(run: Run, moves: Moves) -> list[str]:
    """Return the losses with sections that the site file no longer has, in words."""
    planned = run.partition()
    unread = [name for name in run.site.sections if name not in planned.sections and name not in planned.quiet]
    later = ""
    if unread:
        later = f". Not read was {', '.join(unread)}: pages that are there now are listed by the next run that reads it"
    return [
        f"section {name} is no longer in the site file: {pages:,} of its pages leave the sitemaps{later}"
        for name, pages in moves.dropped.items()
        if pages and name not in run.site.sections
    ]


def _read_section(
    run: Run, plan: SectionPlan, receipts: Sequence[Rendered], published: SectionState | None, proposal: Proposal
) -> None:
    name = receipts[0].section
    section = run.site.sections[name]
    counts = _account(run, name, receipts, proposal)
    old = {entry.number: entry for entry in run.base.of(name)} if run.base is not None else {}
    gone_before = run.base.numbers.get(name, 1) if run.base is not None else 1
    number = 1 if section.view else max(gone_before, published.next_number if published is not None else 1)
    first = True
    for receipt in receipts:
        for place, shard in enumerate(receipt.shards):
            if section.view or shard.parent is None:
                own, number = number, number + 1
            else:
                own = shard.parent
            draft = _draft(run, name, shard, own, old.get(own), low="" if first else shard.low)
            first = False
            proposal.drafts.append(draft)
            proposal.moves.placed[(name, receipt.group, place)] = draft.entry.file.key
    moved = proposal.moves
    proposal.counts[name] = replace(
        counts,
        added=counts.added - moved.into[name],
        removed=counts.removed - moved.out_of[name],
        changed=counts.changed + moved.changed[name],
    )
    proposal.sections[name] = SectionState(
        next_number=number,
        rule=plan.rule,
        kinds=plan.kinds,
        listed=counts.listed,
        view=section.view,
        dated=is_dated(section, set(plan.columns)),
        removed_lately=published.removed_lately if published else None,
    )


def _draft(run: Run, name: str, shard: StagedShard, number: int, old: Entry | None, *, low: str) -> Draft:
    """Return the entry of a shard; its file's ETag and index are known when it is written."""
    names = run.site.publish.names
    staged, staged_text = shard.xml, shard.text
    published = old.text if old is not None else None
    text = None
    if staged_text is not None and (published is None or published.sha256 != staged_text.sha256):
        text = file_of(names.text_name(name, number), staged_text, run.plan.now)
    elif "text" in run.site.sections[name].formats:
        text, staged_text = published, None
    if shard.reused:
        assert old is not None
        kept = replace(old, low=low, snapshot=shard.snapshot, since=shard.since, text=text)
        return Draft(kept, staged_text=staged_text)
    assert staged is not None
    same = old is not None and old.file.sha256 == staged.sha256 and old.file.key == names.file_name(name, number)
    entry = Entry(
        section=name,
        number=number,
        low=low,
        first=shard.first,
        last=shard.last,
        rows=shard.rows,
        body=shard.body,
        index=old.index if old is not None else 0,
        file=old.file if same and old else file_of(names.file_name(name, number), staged, run.plan.now),
        snapshot=shard.snapshot,
        since=shard.since,
        text=text,
        undated=shard.undated,
        days=shard.days,
    )
    return Draft(entry, None if same else staged, staged_text)


def _account(run: Run, name: str, receipts: Sequence[Rendered], proposal: Proposal) -> Counts:
    """Return the counts of a section that was rendered, after checking that every row is accounted for."""
    counts, inventory = _account_rows(run, name, proposal)
    dates = Dates()
    gathered = 0
    for receipt in receipts:
        group = receipt.counts
        gathered += group.gathered
        shard_rows = sum(shard.rows for shard in receipt.shards)
        _balance(name, f"group {receipt.group}", "listed", group.listed, "rows of its files", shard_rows)
        counts += Counts(
            listed=group.listed,
            duplicates=group.duplicates,
            added=group.added,
            changed=group.changed,
            removed=group.removed,
        )
        proposal.reasons[name]["duplicates"].merge(receipt.reasons)
        proposal.reasons[name]["notes"].merge(receipt.notes)
        dates += Dates(group.dated, group.undated, Counter(receipt.redated), lastmod.Minutes.stored(receipt.minutes))
    _balance(name, "all groups", "inventory", inventory, "rows that render gathered", gathered)
    proposal.dates[name] = dates
    return _balanced(name, counts)


def _account_unchanged(
    run: Run, name: str, unchanged: UnchangedSection, published: SectionState, proposal: Proposal
) -> Counts:
    """Return the counts of an unchanged section. Its duplicates are from the run that last rendered it.

    If no rule was applied to its rows, the report of the run that applied them is repeated.
    """
    counts, _ = _account_rows(run, name, proposal)
    if unchanged.counts is not None:
        reported, read = unchanged.counts, run.rows_read(name)
        if name not in run.plan.readings:
            _balance(
                name, "all splits", "extracted", read, "rows of the run that applied the rules", reported.extracted
            )
            proposal.rejected_read[name] = reported.rejected
        counts += Counts(
            extracted=read,
            carried=reported.extracted + reported.carried - read,
            duplicates=reported.duplicates - unchanged.duplicates,
            excluded=reported.excluded,
            rejected=reported.rejected,
        )
    for kind, tally in unchanged.reasons.items():
        if kind in proposal.reasons[name]:
            proposal.reasons[name][kind].merge(tally)
    proposal.dates[name] = Dates(unchanged.made_from.dated)
    return _balanced(name, counts + Counts(listed=published.listed, duplicates=unchanged.duplicates))


def _account_rows(run: Run, name: str, proposal: Proposal) -> tuple[Counts, int]:
    """Return the counts of a section's rows up to the rules, and how many came out of these."""
    counts = Counts()
    inventory = 0
    reasons = {kind: Tally() for kind in ("excluded", "rejected", "notes", "duplicates")}
    for n, part in enumerate(run.parts(name)):
        out = part.inventory + part.duplicates + part.excluded + part.rejected
        where = f"part {n + 1}"
        _balance(name, where, "extracted + carried", part.rows + part.carried, "what became of them", out)
        counts += Counts(
            extracted=part.rows,
            carried=part.carried,
            duplicates=part.duplicates,
            excluded=part.excluded,
            rejected=part.rejected,
        )
        inventory += part.inventory
        for kind, tally in part.reasons.items():
            reasons[kind].merge(tally)
    if run.options.limit is None and not run.is_unchanged(name):
        read = run.rows_read(name)
        _balance(name, "all splits", "extracted", read, "rows that came to the rules", counts.extracted)
    note_bare(run.parts(name), reasons["notes"])
    proposal.reasons[name] = reasons
    proposal.rejected_read[name] = sum(part.rejected_read for part in run.parts(name))
    return counts, inventory


def _balanced(name: str, counts: Counts) -> Counts:
    """Return the counts. Raise Refused if rows are unaccounted for."""
    _balance(
        name,
        "the section",
        "extracted + carried",
        counts.extracted + counts.carried,
        "listed + duplicates + excluded + rejected",
        counts.listed + counts.duplicates + counts.excluded + counts.rejected,
    )
    return counts


def _balance(section: str, where: str, what: str, one: int, other_what: str, other: int) -> None:
    if one != other:
        raise Refused(
            f"{section}: rows are unaccounted for ({where}): {what} {one:,}, {other_what} {other:,}. "
            "Nothing public was touched. This is a bug in sitemap_etl, or staged files were changed: "
            "run again, and report it if it happens again"
        )


def _warn(
    run: Run, plan: SectionPlan, receipts: Sequence[Rendered], published: SectionState | None, proposal: Proposal
) -> None:
    name = receipts[0].section
    dates: Counter[str] = Counter()
    for receipt in receipts:
        dates.update(receipt.new_dates)
    if (warning := one_date(name, dates, sum(receipt.dated for receipt in receipts))) is not None:
        proposal.warnings.append(warning)
    proposal.warnings += warn_of_rejected(run, name, proposal.reasons[name]["rejected"], receipts)
    if published is not None and plan.rule is not None and not same_definition(published, plan):
        proposal.warnings.append(
            f"{name}: fingerprints reset, because their definition changed: all dates stay, and the "
            "changes since the last release are not known"
        )
    blind = sum(receipt.counts.blind for receipt in receipts)
    if blind:
        proposal.warnings.append(
            f"{name}: {blind:,} pages had no fingerprint to compare with, because their rows were made again from "
            "their file: their dates stay, and their changes since the last release are not known"
        )
    if published is None and plan.rule is not None and run.base is not None and proposal.counts[name].added:
        proposal.warnings.append(f"{name}: first publish of this section: its new pages have no fingerprint dates yet")


def _warn_of_rows(run: Run, name: str, proposal: Proposal) -> None:
    """Yield warnings on findings from before the render stage."""
    drifts = [part.drift for part in run.parts(name) if part.drift is not None]
    if drifts:
        drift = proposal.drift[name] = sum(drifts, Drift())
        if drift.total:
            proposal.warnings.append(
                f"{name}: this full read found changes that incremental reads had missed. Rows missing: "
                f"{drift.missing:,}, out of date: {drift.stale:,}, gone from the source: {drift.gone:,}. The condition "
                "on :since does not see every change (a joined table, a late transaction, rows that are deleted)"
            )
    notices = Tally()
    for n, unit in enumerate(run.plan.units):
        if unit.section == name:
            notices.merge(run.extracted(n).notices)
    for notice in notices.ordered():
        example = f", e.g. {notice.examples[0]}" if notice.examples else ""
        proposal.warnings.append(f"{name}: {notice.text}: {notice.count:,}{example}")
    reasons = proposal.reasons[name]
    counts = proposal.counts[name]
    proposal.warnings += warn_of_bare(run, name, reasons["notes"], counts)
    if counts.added == counts.listed:
        proposal.warnings += warn_of_numbers(name, run.parts(name), run.site.site)
    if (found := main_origin(run.parts(name))) is not None:
        origin, rows = found
        extracted = counts.extracted + counts.carried
        proposal.warnings.append(
            f"{name}: {rows:,} of {extracted:,} rows are on {origin}, not on {run.site.site}. If they are the same "
            f"pages, write urls: {{same_as: [{origin}]}}"
        )


# --- rows that left ----------------------------------------------------------------------------------


def with_removed(run: Run, proposal: Proposal) -> dict[str, SectionState]:
    """Return the states of sections with a fingerprint, with their recently removed rows.

    If such a row comes back unchanged, so does its date. Its `since` is when it left. Rows that left longer ago, or
    came back, are forgotten in a run with changes. A run without changes leaves the state as it is.
    """
    sections = dict(proposal.sections)
    taken = taken_pages(run, run.all_rendered())
    lost = set(taken.column("section").unique().to_pylist())
    for name in [*run.partition().sections, *lost]:
        if run.site.sections[name].lastmod.kind == "fingerprint" and run.base is not None:
            own = taken.filter(pc.equal(taken.column("section"), name)) if name in lost else None
            sections[name] = _remember_removed(run, name, sections[name], own)
    return sections


def _remember_removed(run: Run, name: str, state: SectionState, taken: pa.Table | None) -> SectionState:
    """Return the state with its recently removed rows. `taken`: rows that another section took from this one, which was
    not read.
    """
    columns = ["loc", "lastmod", "fingerprint"]
    removed, added = [] if taken is None else [taken.select(columns)], []
    for receipt in run.all_rendered():
        for changes in read_changes(run, receipt) if receipt.section == name else ():
            removed.append(changes.filter(pc.equal(changes.column("kind"), "removed")).select(columns))
            added.append(changes.filter(pc.equal(changes.column("kind"), "added")).select(["loc"]))
    gone = pa.concat_tables(removed) if removed else None
    published = run.base.sections.get(name) if run.base is not None else None
    comparable = published is not None and same_definition(published, state)
    if gone is None and (comparable or state.removed_lately is None):
        return state
    parts = []
    if gone is not None and gone.num_rows:
        since = pa.repeat(pa.scalar(run.epoch, pa.int64()), gone.num_rows)
        parts.append(conform(gone.append_column("since", since), SNAPSHOT))
    if state.removed_lately is not None:
        old = run.state.snapshot(state.removed_lately)
        parts.append(remembered(old, run))
    table = pa.concat_tables(parts) if parts else SNAPSHOT.empty_table()
    if not comparable:
        table = without_fingerprints(table)
    if added:
        back = column_of(pa.concat_tables(added), "loc")
        table = table.filter(pc.invert(pc.is_in(table.column("loc"), back)))
    table = table.take(pc.sort_indices(table, sort_keys=[("loc", "ascending"), ("since", "descending")]))
    return replace(state, removed_lately=run.state.put_snapshot(table) if table.num_rows else None)
