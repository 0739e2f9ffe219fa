"""Quiet sections: what each was made from when it was rendered last, and which would be made from the same again.

After the rules a section is a set of rows. Two sums of their hashes tell it from any other, in whatever order and
splits they came; what else decides how it is rendered is few things, of which one hash is kept. Where both are as they
were when the section was rendered last, and what was made then is what is published now, rendering it would find
nothing to do: it stays as published. What the rules depend on (robots.txt, a hook, the time) needs no attention here:
they were applied this time too.

Rows of one section decide about another only by their locs: of several that list a page the first does (see
`stages.window`), and pages of one hreflang cluster show each other.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from sitemap_etl import __version__, lastmod
from sitemap_etl.errors import DamagedState, Refused
from sitemap_etl.frames import Tally
from sitemap_etl.hashes import added
from sitemap_etl.stages.run import Run
from sitemap_etl.state import layout
from sitemap_etl.state.records import Clusters, Entry, MadeFrom, Quiet, SectionState, Summary, Transformed
from sitemap_etl.state.store import read_document

LISTED_ALREADY: Final = "listed already by "
"""How the reasons of the duplicates begin that render finds."""


def settings_of(written: Mapping[str, Any], section: str) -> list[Any]:
    """The release, and what a site file (`config.Site.to_json`) says of how a section's rows become files."""
    return [__version__, written["site"], written["urls"], written["publish"], written["sections"][section]]


@dataclass(frozen=True)
class _Inventory:
    """The rows of a section after the rules. `sums`: of their hashes; `loc_sums`: of those of their locs alone."""

    rows: int
    sums: tuple[int, int]
    loc_sums: tuple[int, int]
    ends: tuple[str, str] | None
    kinds: Sequence[tuple[str, str]]
    columns: Sequence[str]

    @classmethod
    def of(cls, parts: Sequence[Transformed]) -> _Inventory | None:
        """The rows of these splits or buckets; None where a release transformed some that did not record their sums."""
        sums = loc_sums = (0, 0)
        for part in parts:
            if part.sums is None or part.loc_sums is None:
                return None
            sums, loc_sums = added(sums, part.sums), added(loc_sums, part.loc_sums)
        ends = [part.ends for part in parts if part.ends is not None]
        return cls(
            sum(part.inventory for part in parts),
            sums,
            loc_sums,
            (min(low for low, _ in ends), max(high for _, high in ends)) if ends else None,
            lastmod.agreed([part.kinds for part in parts if part.kinds]),
            sorted({column for part in parts for column in part.columns}),
        )


class Basis:
    """What the sections of a run are made from.

    `read`: those that were read and are not held. `entries`, `states`: the shards of all sections, and what they carry
    from run to run: as published, or as the run would publish them.
    """

    def __init__(
        self, run: Run, read: Collection[str], entries: Iterable[Entry], states: Mapping[str, SectionState]
    ) -> None:
        self.run = run
        self.read = read
        self.states = states
        self._entries: dict[str, list[Entry]] = {}
        for entry in entries:
            self._entries.setdefault(entry.section, []).append(entry)

    @cached_property
    def _inventories(self) -> dict[str, _Inventory]:
        """The rows of all sections that were read; none at all where they are not known of one."""
        found = {name: _Inventory.of(self.run.parts(name)) for name in self.read}
        known = {name: inventory for name, inventory in found.items() if inventory is not None}
        return known if len(known) == len(found) else {}

    def of(self, name: str, dated: int = 0) -> MadeFrom | None:
        """What a section that was read is made from; None where that is not known. `dated`: as in `MadeFrom`."""
        inventory = self._inventories.get(name)
        if inventory is None:
            return None
        rest = [
            settings_of(self.run.plan.site, name),
            inventory.kinds,
            inventory.columns,
            self._published(name),
            self._before(name),
            self._mates(name),
        ]
        digest = hashlib.sha256(json.dumps(rest).encode()).hexdigest()[:32]
        return MadeFrom(self.run.run_id, inventory.rows, inventory.sums, digest, dated)

    def _published(self, name: str) -> list[Any] | None:
        """What a section publishes; None where it publishes nothing."""
        state = self.states.get(name)
        if state is None:
            return None
        shards = [
            (entry.number, entry.low, entry.snapshot, entry.file.key, entry.text is not None)
            for entry in self._entries.get(name, ())
        ]
        return [state.rule, state.kinds, state.listed, state.view, state.dated, shards]

    def _before(self, name: str) -> list[Any]:
        """The sections that may list a page of this one in its place: what they have, if it reaches into this one."""
        ends = self._inventories[name].ends
        if ends is None or self.run.site.sections[name].view:
            return []
        found: list[Any] = []
        before = True
        for other, section in self.run.site.sections.items():
            if other == name:
                before = False
            elif other in self._inventories:
                inventory = self._inventories[other]
                if before and not section.view and _reach(ends, inventory.ends):
                    found.append((other, inventory.rows, inventory.loc_sums))
            elif (state := self.states.get(other)) is not None and not state.view:
                shards = self._entries.get(other, [])
                if shards and _reach(ends, (shards[0].first, shards[-1].last)):
                    found.append((other, self._published(other)))
        return found

    def _mates(self, name: str) -> list[Any]:
        """The sections with hreflang clusters, where this is one. Of those that are read all are quiet, or none is."""
        if self.run.site.sections[name].alternates is None:
            return []
        mates = [other for other, section in self.run.site.sections.items() if section.alternates is not None]
        return [(other, None if other in self.read else self._published(other)) for other in mates]


def _reach(ends: tuple[str, str], others: tuple[str, str] | None) -> bool:
    """Whether some loc may be in both stretches, or in one with a slash at its end and in the other without."""
    return others is not None and others[0] <= f"{ends[1]}/" and ends[0] <= f"{others[1]}/"


def quiet_sections(run: Run, read: Collection[str]) -> tuple[dict[str, Quiet], Clusters | None]:
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
        if known is None or now is None or (known.rows, known.sums, known.rest) != (now.rows, now.sums, now.rest):
            continue
        duplicates = now.rows - base.sections[name].listed
        reasons = Tally() if not duplicates else summaries.duplicates(known.run_id, name)
        if reasons.total == duplicates:
            found[name] = Quiet(known, duplicates, reasons)
    clustered = [name for name in read if run.site.sections[name].alternates is not None]
    if not clustered:
        return found, None
    rendered_by = {found[name].made_from.run_id if name in found else None for name in clustered}
    summary = summaries.of(rendered_by.pop()) if len(rendered_by) == 1 else None
    if summary is not None:
        return found, summary.clusters
    return {name: one for name, one in found.items() if name not in clustered}, None


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
