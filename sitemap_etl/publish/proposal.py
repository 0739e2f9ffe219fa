"""What a run would publish: receipts gathered, the accounting checked, moves netted out, gates held.

Nothing public is touched here. The same proposal is shown by a dry run, refused by a gate, or published.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from sitemap_etl.dates import instant
from sitemap_etl.errors import Refused
from sitemap_etl.frames import SNAPSHOT, Tally, conform
from sitemap_etl.manifest import (
    Counts,
    Entry,
    File,
    Gate,
    Manifest,
    SectionState,
    evaluate,
    one_date,
)
from sitemap_etl.publish.moves import Moves, net_moves, read_changes
from sitemap_etl.stages.partition import NAME as PARTITION
from sitemap_etl.stages.rules import thresholds_of
from sitemap_etl.stages.run import Run


@dataclass(frozen=True)
class Draft:
    """An entry before its file is written: `staged` is None where the published file stays."""

    entry: Entry
    staged: Mapping[str, Any] | None = None
    staged_text: Mapping[str, Any] | None = None


@dataclass
class Proposal:
    """What would be published."""

    drafts: list[Draft]
    sections: dict[str, SectionState]
    counts: dict[str, dict[str, int]]
    gates: list[Gate]
    moves: Moves
    kept: dict[str, str]
    warnings: list[str] = field(default_factory=list)
    reasons: dict[str, dict[str, Tally]] = field(default_factory=dict)

    @property
    def refused(self) -> list[Gate]:
        return [gate for gate in self.gates if gate.status == "refused"]


def propose(run: Run, force: frozenset[str] | None = None) -> Proposal:
    """Gather a run's receipts into a proposal. `force`: gates that are overruled; None: the run's own.

    Raises Refused where the accounting does not hold.
    """
    planned = run.need(PARTITION)
    rendered = [run.need(f"render/{n}") for n in range(len(planned["units"]))]
    by_section: dict[str, list[dict[str, Any]]] = {name: [] for name in planned["sections"]}
    for receipt in rendered:
        by_section[receipt["section"]].append(receipt)
    base = run.base
    moves = net_moves(run, rendered, dropped_entries(run))
    proposal = Proposal([], {}, {}, [], moves, dict(planned["kept"]))
    for name in run.site.sections:
        published = base.sections.get(name) if base is not None else None
        if name in by_section:
            _read_section(run, name, planned["sections"][name], by_section[name], published, proposal)
        elif published is not None and base is not None:
            proposal.drafts += [Draft(entry) for entry in base.of(name)]
            proposal.sections[name] = published
            proposal.counts[name] = {
                **dict.fromkeys(COUNTED, 0),
                "carried": published.listed,
                "listed": published.listed,
            }
    for name, why in proposal.kept.items():
        state = "stays as published" if name in proposal.sections else "was never published and is left out"
        proposal.warnings.append(f"{name} {state}: {why}")
    _warn(run, planned, proposal)
    proposal.gates = held_gates(
        run, proposal.counts, moves.dropped, frozenset(run.options.force) if force is None else force
    )
    return proposal


def dropped_entries(run: Run) -> list[Entry]:
    """Published shards of sections that the site file no longer has."""
    if run.base is None:
        return []
    return [
        entry
        for entry in run.base.entries
        if entry.section not in run.site.sections and entry.section in run.base.sections
    ]


def _read_section(
    run: Run,
    name: str,
    plan: dict[str, Any],
    receipts: list[dict[str, Any]],
    published: SectionState | None,
    proposal: Proposal,
) -> None:
    section = run.site.sections[name]
    counts = proposal.counts[name] = _account(run, name, receipts, proposal)
    old = {entry.number: entry for entry in run.base.of(name)} if run.base is not None else {}
    number = 1 if section.view else published.next_number if published is not None else 1
    first = True
    for receipt in receipts:
        for place, shard in enumerate(receipt["shards"]):
            if section.view:
                own, number = number, number + 1
            elif shard["parent"] is not None:
                own = shard["parent"]
            else:
                own, number = number, number + 1
            draft = _draft(run, name, shard, own, old.get(own), low="" if first else shard["low"])
            first = False
            proposal.drafts.append(draft)
            proposal.moves.placed[(name, receipt["group"], place)] = draft.entry.file.key
    moved = proposal.moves
    counts["added"] -= moved.into[name]
    counts["removed"] -= moved.out_of[name]
    counts["changed"] += moved.changed[name]
    proposal.sections[name] = SectionState(
        next_number=number,
        rule=plan["rule"],
        listed=counts["listed"],
        view=section.view,
        departed=published.departed if published else None,
        read_at=run.plan.now,
    )


def _draft(run: Run, name: str, shard: dict[str, Any], number: int, old: Entry | None, *, low: str) -> Draft:
    """The entry of a shard; its file's ETag and index are known when it is written."""
    if shard["kept"]:
        assert old is not None
        return Draft(replace(old, low=low, snapshot=shard["snapshot"], since=shard["since"]))
    names = run.site.publish.names
    staged, staged_text = shard["xml"], shard.get("text")
    same = old is not None and old.file.sha256 == staged["sha256"] and old.file.key == names.file_name(name, number)
    text = None
    if staged_text is not None:
        text_same = old is not None and old.text is not None and old.text.sha256 == staged_text["sha256"]
        text = old.text if text_same and old else file_of(names.text_name(name, number), staged_text, run.plan.now)
        staged_text = None if text_same else staged_text
    entry = Entry(
        section=name,
        number=number,
        low=low,
        first=shard["first"],
        last=shard["last"],
        rows=shard["rows"],
        body=shard["body"],
        index=old.index if old is not None else 0,
        file=old.file if same and old else file_of(names.file_name(name, number), staged, run.plan.now),
        snapshot=shard["snapshot"],
        since=shard["since"],
        text=text,
    )
    return Draft(entry, None if same else staged, staged_text)


def file_of(key: str, staged: Mapping[str, Any], now: str, etag: str | None = None) -> File:
    """The record of a file as it was staged."""
    return File(key, staged["bytes"], staged["sha256"], staged["stored"], staged["stored_sha256"], etag, now)


def _account(run: Run, name: str, receipts: list[dict[str, Any]], proposal: Proposal) -> dict[str, int]:
    """The counts of a section, after checking that every row is accounted for."""
    counts: Counter[str] = Counter(dict.fromkeys(COUNTED, 0))
    inventory = 0
    reasons = {kind: Tally() for kind in ("excluded", "rejected", "notes", "duplicates")}
    for n, unit in enumerate(run.plan.units):
        if unit["section"] != name:
            continue
        extract, transform = run.need(f"extract/{n}"), run.need(f"transform/{n}")
        out = transform["inventory"] + transform["excluded"] + transform["rejected"]
        read = transform["rows"] if run.options.limit is not None else extract["rows"]
        _balance(name, unit["label"], "extracted", read, "inventory + excluded + rejected", out)
        if run.options.limit is None:
            _balance(name, unit["label"], "extracted", read, "rows that came to transform", transform["rows"])
        counts["extracted"] += read
        counts["excluded"] += transform["excluded"]
        counts["rejected"] += transform["rejected"]
        inventory += transform["inventory"]
        for kind, tally in transform["reasons"].items():
            reasons[kind].merge(Tally.from_json(tally))
    gathered = 0
    for receipt in receipts:
        part: Counter[str] = Counter(receipt["counts"])
        gathered += part.pop("gathered")
        shard_rows = sum(shard["rows"] for shard in receipt["shards"])
        _balance(name, f"group {receipt['group']}", "listed", part["listed"], "rows of its files", shard_rows)
        counts.update(part)
        reasons["duplicates"].merge(Tally.from_json(receipt["reasons"]))
    _balance(name, "all groups", "inventory", inventory, "rows that render gathered", gathered)
    _balance(
        name,
        "the section",
        "extracted + carried",
        counts["extracted"] + counts["carried"],
        "listed + duplicates + excluded + rejected",
        counts["listed"] + counts["duplicates"] + counts["excluded"] + counts["rejected"],
    )
    proposal.reasons[name] = reasons
    return dict(counts)


def _balance(section: str, where: str, what: str, one: int, other_what: str, other: int) -> None:
    if one != other:
        raise Refused(
            f"{section}: rows are unaccounted for ({where}): {what} {one:,}, {other_what} {other:,}. "
            "Nothing public was touched. This is a defect of sitemap_etl, or its staging was changed: "
            "run again, and report it if it stays"
        )


def _warn(run: Run, planned: dict[str, Any], proposal: Proposal) -> None:
    for name, receipts in _by_section(run, planned):
        dates: Counter[str] = Counter()
        for receipt in receipts:
            dates.update(receipt["new_dates"])
        if (warning := one_date(name, dates, sum(receipt["dated"] for receipt in receipts))) is not None:
            proposal.warnings.append(warning)
        published = run.base.sections.get(name) if run.base is not None else None
        rule = planned["sections"][name]["rule"]
        if published is not None and published.rule != rule and rule is not None:
            proposal.warnings.append(
                f"{name}: the fingerprint has another definition than the published one: new fingerprints are "
                "taken over, every date stays, changes of this night can't be told"
            )
        if published is None and rule is not None and run.base is not None:
            proposal.warnings.append(
                f"{name}: first publish of this section: its pages have no dates by fingerprint yet"
            )
        foreign: Counter[str] = Counter()
        for n, unit in enumerate(run.plan.units):
            if unit["section"] == name:
                foreign.update(run.need(f"transform/{n}")["foreign"])
        extracted = proposal.counts[name]["extracted"]
        if foreign and foreign.most_common(1)[0][1] > extracted / 2:
            origin, rows = foreign.most_common(1)[0]
            proposal.warnings.append(
                f"{name}: {rows:,} of {extracted:,} rows are on {origin}, not on {run.site.site}. If they are the same "
                f"pages, write urls: {{same_as: [{origin}]}}"
            )


def _by_section(run: Run, planned: dict[str, Any]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    for name in planned["sections"]:
        yield (
            name,
            [run.need(f"render/{n}") for n, (section, _) in enumerate(planned["units"]) if section == name],
        )


COUNTED: Final = ("extracted", "carried", "listed", "duplicates", "excluded", "rejected", "added", "changed", "removed")
WEEK: Final = timedelta(days=7)


def held_gates(
    run: Run, counts: Mapping[str, Mapping[str, int]], dropped: Mapping[str, int], forced: frozenset[str]
) -> list[Gate]:
    """Every gate of every section and of the site, with what `forced` overrules.

    `counts`: of each section, by the names of `COUNTED`. `dropped`: rows of sections that the site file
    no longer has. What a person let through in a section does not stop the site as well.
    """
    base = run.base
    recent = [] if base is None else _last_week(run, base)
    gates: list[Gate] = []
    total: Counter[str] = Counter(removed=sum(dropped.values()))
    let_through: Counter[str] = Counter()
    for name, own in counts.items():
        section = run.site.sections[name]
        published = base.sections.get(name) if base is not None else None
        before = published.listed if published is not None else 0
        largest = max([before, *(entry["sections"].get(name, 0) for entry in recent)])
        found = evaluate(name, _of(own, before, largest), thresholds_of(section.gates), forced)
        gates += found
        if section.view:
            continue
        total.update({key: own[key] for key in COUNTED})
        overruled = {gate.name.rpartition(".")[2] for gate in found if gate.status == "forced"}
        if "max_drop" in overruled:
            let_through.update(removed=own["removed"], bled=max(0, largest - own["listed"]))
        if "max_growth" in overruled:
            let_through.update(added=own["added"])
        if "max_rejected" in overruled:
            let_through.update(rejected=own["rejected"])
    before = base.listed if base is not None else 0
    largest = max([before, *(entry["site"] for entry in recent)])
    site = _of(total, before, largest)
    site = replace(
        site,
        removed=site.removed - let_through["removed"],
        largest=site.largest - let_through["bled"],
        added=site.added - let_through["added"],
        rejected=site.rejected - let_through["rejected"],
    )
    return gates + evaluate(None, site, thresholds_of(run.site.gates), forced)


def _of(counts: Mapping[str, int], published: int, largest: int) -> Counts:
    return Counts(
        published,
        largest,
        counts["listed"],
        counts["added"],
        counts["removed"],
        counts["extracted"],
        counts["rejected"],
    )


def _last_week(run: Run, base: Manifest) -> list[Mapping[str, Any]]:
    """What was listed by the sets of the last seven days."""
    since = instant(run.now - WEEK)
    return [entry for entry in base.history if entry["at"] >= since]


REMEMBERED: Final = timedelta(days=30)


def with_departed(run: Run, proposal: Proposal) -> dict[str, SectionState]:
    """The sections' states with the rows that left, of those sections that date by fingerprint.

    `since` of a departed row is when it left. Rows that left longer ago, or came back, are forgotten.
    """
    sections = dict(proposal.sections)
    planned = run.need(PARTITION)
    for name in planned["sections"]:
        if run.site.sections[name].lastmod.kind == "fingerprint" and run.base is not None:
            sections[name] = _section(run, name, sections[name], planned)
    return sections


def _section(run: Run, name: str, state: SectionState, planned: dict[str, object]) -> SectionState:
    units = planned["units"]
    assert isinstance(units, list)
    removed, added = [], []
    for n, (section, _) in enumerate(units):
        if section != name:
            continue
        changes = read_changes(run, run.need(f"render/{n}"))
        if changes is not None:
            removed.append(changes.filter(pc.equal(changes.column("kind"), "removed")))
            added.append(changes.filter(pc.equal(changes.column("kind"), "added")).select(["loc"]))
    gone = pa.concat_tables(removed) if removed else None
    if state.departed is None and (gone is None or not gone.num_rows):
        return state
    parts = []
    if gone is not None and gone.num_rows:
        count = gone.num_rows
        since = pa.repeat(pa.scalar(run.epoch, pa.int64()), count)
        parts.append(conform(gone.select(["loc", "lastmod", "fingerprint"]).append_column("since", since), SNAPSHOT))
    if state.departed is not None:
        old = run.state.snapshot(state.departed)
        fresh = pc.greater_equal(old.column("since"), run.epoch - int(REMEMBERED.total_seconds()))
        parts.append(old.filter(fresh))
    table = pa.concat_tables(parts)
    if added:
        back = pa.concat_tables(added).column("loc").combine_chunks()
        table = table.filter(pc.invert(pc.is_in(table.column("loc"), back)))
    table = table.take(pc.sort_indices(table, sort_keys=[("loc", "ascending"), ("since", "descending")]))
    return replace(state, departed=run.state.put_snapshot(table) if table.num_rows else None)


def most_of(run: Run, kind: str, section: str | None) -> tuple[str, int, str] | None:
    """The path prefix (two segments) that most changed rows of a kind share: (prefix, rows, an example)."""
    counts: Counter[str] = Counter()
    examples: dict[str, str] = {}
    for table in changes_of(run, kind, section):
        loc = table.column("loc")
        prefix = pc.struct_field(pc.extract_regex(loc, r"^https?://[^/]+(?P<p>/[^/?]*/[^/?]*/|/[^/?]*/|/)"), "p")
        counted = (
            pa.table({"prefix": prefix, "loc": loc}).group_by("prefix").aggregate([("loc", "min"), ([], "count_all")])
        )
        for row in counted.to_pylist():  # one a prefix
            counts[row["prefix"]] += row["count_all"]
            examples.setdefault(row["prefix"], row["loc_min"])
    if not counts:
        return None
    prefix, count = max(counts.items(), key=lambda item: (item[1], item[0]))
    return prefix, count, examples[prefix]


def changes_of(run: Run, kind: str, section: str | None) -> list[pa.Table]:
    """The staged changes of a kind, of one section or of all."""
    planned = run.need(PARTITION)
    found = []
    for n, (name, _) in enumerate(planned["units"]):
        if section is None or name == section:
            table = read_changes(run, run.need(f"render/{n}"))
            if table is not None:
                found.append(table.filter(pc.equal(table.column("kind"), kind)))
    return found
