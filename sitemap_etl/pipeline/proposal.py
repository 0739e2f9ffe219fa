"""What a run would publish: receipts gathered, the accounting checked, moves netted out, gates held.

Nothing public is touched here. The same proposal is shown by a dry run, refused by a gate, or published.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sitemap_etl.errors import Refused
from sitemap_etl.frames import Tally
from sitemap_etl.manifest import (
    Entry,
    File,
    Gate,
    SectionState,
    one_date,
)
from sitemap_etl.pipeline.borders import NAME as PARTITION
from sitemap_etl.pipeline.gates import COUNTED, held_gates
from sitemap_etl.pipeline.moves import Moves, net_moves
from sitemap_etl.pipeline.run import Run


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
