"""What a section is made from: the sums of its rows, and hashes of all else that decides how it is rendered.

After the rules a section is a set of rows. Two sums of their hashes tell it from any other, in whatever order and
splits they came. What the rules depend on (robots.txt, a hook, the time) is in them, for the rules were applied. What
else decides are the settings of the section, the release, what is published of it, and other sections by their locs:
of several that list a page the first does (see `stages.window`), and pages of one hreflang cluster show each other.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from sitemap_etl import __version__, lastmod
from sitemap_etl.frames import INVENTORY
from sitemap_etl.frozen import Frozen
from sitemap_etl.hashes import added
from sitemap_etl.robots import without_blocks
from sitemap_etl.stages.run import Run
from sitemap_etl.state.records import Entry, MadeFrom, Manifest, MirrorBucket, SectionState, SplitSums, Transformed
from sitemap_etl.transform import rules


def settings_of(written: Mapping[str, Any], section: str) -> list[Any]:
    """Return the release, the number of the rules, and the settings by which a section's rows become files.

    `written`: the site file (`config.Site.to_json`).
    """
    publish = {key: value for key, value in written["publish"].items() if key != "check"}  # it asks, and writes nothing
    return [__version__, rules.RULES, written["site"], written["urls"], publish, written["sections"][section]]


def made(written: Mapping[str, Any], section: str, state: SectionState | None, shards: Sequence[Entry]) -> str:
    """A hash of the settings of a section, and of what it publishes."""
    return _hash([*settings_of(written, section), _published(state, shards)])


def _published(state: SectionState | None, shards: Sequence[Entry]) -> list[Any] | None:
    """What a section publishes as JSON values; None where it publishes nothing. `shards`: its own, in order."""
    if state is None:
        return None
    files = [(one.number, one.low, one.snapshot, one.file.key, one.text is not None) for one in shards]
    undone = [] if state.undone is None else [state.undone]  # the next run that reads the section has to forget it
    return [state.rule, state.kinds, state.listed, state.view, state.dated, state.top, files, *undone]


def _hash(values: Sequence[Any]) -> str:
    return hashlib.sha256(json.dumps(values).encode()).hexdigest()[:32]


def source_of(run: Run, name: str, buckets: Sequence[MirrorBucket] = ()) -> str:
    """Return a digest of a section's rules, of the columns that are summed, and of the files of its mirror."""
    files = [file.key for bucket in buckets for file in bucket.files()]
    reading = run.plan.readings.get(name)
    asked = [] if reading is None else [reading.key, reading.select, reading.params, reading.deleted]
    told = run.plan.robots
    if told is not None:
        told = without_blocks(told.encode("latin-1")).decode("latin-1")  # our blocks name sitemaps, and differ by night
    return _hash([INVENTORY.names, files, asked, told, *settings_of(run.plan.site, name)])


def likely_quiet(written: Mapping[str, Any], base: Manifest, known: Mapping[str, MadeFrom]) -> tuple[str, ...]:
    """The sections of whose rows it is likely that nothing differs from what they were made from.

    Nights come in rows: those on which nothing changed follow each other. `written`: the site as it is now; `known`:
    what each section was made from.
    """
    return tuple(
        name
        for name, one in known.items()
        if one.expects
        and one.splits
        and name in written["sections"]
        and one.made == made(written, name, base.sections.get(name), base.of(name))
    )


class _Inventory(Frozen):
    """The rows of a section after the rules. `sums`, `loc_sums`, `form` as in `MadeFrom`, `ends` in `Transformed`."""

    rows: int
    sums: tuple[int, int]
    loc_sums: tuple[int, int]
    form: str
    ends: tuple[str, str] | None

    @classmethod
    def of(cls, parts: Sequence[Transformed]) -> _Inventory | None:
        """The rows of these splits or buckets; None where a release transformed some that did not record their sums."""
        sums = loc_sums = (0, 0)
        for part in parts:
            if part.sums is None or part.loc_sums is None:
                return None
            sums, loc_sums = added(sums, part.sums), added(loc_sums, part.loc_sums)
        ends = [part.ends for part in parts if part.ends is not None]
        kinds = lastmod.agreed([part.kinds for part in parts if part.kinds])
        return cls(
            sum(part.inventory for part in parts),
            sums,
            loc_sums,
            _hash([kinds, sorted({column for part in parts for column in part.columns})]),
            (min(low for low, _ in ends), max(high for _, high in ends)) if ends else None,
        )

    @classmethod
    def known(cls, made_from: MadeFrom, shards: Sequence[Entry]) -> _Inventory:
        """The rows of a section that was left untouched."""
        ends = (shards[0].first, shards[-1].last) if shards else None
        return cls(made_from.rows, made_from.sums, made_from.loc_sums, made_from.form, ends)


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
        found = {name: self._inventory(name) for name in self.read}
        known = {name: inventory for name, inventory in found.items() if inventory is not None}
        return known if len(known) == len(found) else {}

    def _inventory(self, name: str) -> _Inventory | None:
        if self.run.is_untouched(name):
            return _Inventory.known(self.run.plan.made_from[name], self._entries.get(name, ()))
        return _Inventory.of(self.run.parts(name))

    def of(self, name: str) -> MadeFrom | None:
        """What a section that was read is made from; None where that is not known."""
        inventory = self._inventories.get(name)
        if inventory is None:
            return None
        return MadeFrom(
            run_id=self.run.run_id,
            rows=inventory.rows,
            sums=inventory.sums,
            loc_sums=inventory.loc_sums,
            form=inventory.form,
            others=_hash([self._before(name), self._mates(name)]),
            made=made(self.run.plan.site, name, self.states.get(name), self._entries.get(name, ())),
        )

    def _before(self, name: str) -> list[Any]:
        """Return the rows of earlier sections that reach into this one: these list a page in its place.

        Later sections decide nothing, whether they are read or not.
        """
        if self.run.site.sections[name].view:
            return []
        return self._reaching(name, self._inventories[name].ends)

    def _reaching(self, name: str, ends: tuple[str, str] | None) -> list[Any]:
        """Return the rows of the sections before `name`, if they reach between these locs."""
        found: list[Any] = []
        if ends is None:
            return found
        for other, section in self.run.site.sections.items():
            if other == name:
                break
            if other in self._inventories:
                inventory = self._inventories[other]
                if not section.view and _reach(ends, inventory.ends):
                    found.append((other, inventory.rows, inventory.loc_sums))
            elif (state := self.states.get(other)) is not None and not state.view:
                shards = self._entries.get(other, [])
                if shards and _reach(ends, (shards[0].first, shards[-1].last)):
                    found.append((other, _published(self.states.get(other), self._entries.get(other, ()))))
        return found

    def _mates(self, name: str) -> list[Any]:
        """The sections with hreflang clusters, where this is one. Of those that are read all are quiet, or none is."""
        if self.run.site.sections[name].alternates is None:
            return []
        mates = [other for other, section in self.run.site.sections.items() if section.alternates is not None]
        return [(other, None if other in self.read else self._unread_mate(other)) for other in mates]

    def _unread_mate(self, name: str) -> list[Any] | None:
        """Return a digest of the published pages of an unread section that take part in clusters.

        Earlier sections decide about it: they can list some of these pages now.
        """
        shards = self._entries.get(name, [])
        published = _published(self.states.get(name), shards)
        if published is None or not shards or self.states[name].view:
            return published
        return [published, self._reaching(name, (shards[0].first, shards[-1].last))]


def _reach(ends: tuple[str, str], others: tuple[str, str] | None) -> bool:
    """Return whether some loc can be in both ranges."""
    return others is not None and others[0] <= ends[1] and ends[0] <= others[1]


def sums_of_split(run: Run, n: int) -> SplitSums | None:
    """The sums that are expected of the rows of unit `n` of transform; None where none are."""
    name = run.plan.units[n].section
    if name not in run.plan.expected:
        return None
    units = [at for at, unit in enumerate(run.plan.units) if unit.section == name]
    known = run.plan.made_from[name]
    if len(known.splits) != len(units):
        return None
    one = known.splits[units.index(n)]
    same_rules = known.agreed is not None and known.source == source_of(run, name)
    return one if one.raw is None or same_rules else replace(one, raw=None)
