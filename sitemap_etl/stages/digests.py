"""Compute the digests of everything that decides how a section is rendered.

After the rules a section is a set of rows. A digest of their hashes identifies it, whatever their order and splits.
robots.txt, hooks and the time are covered, because the rules were applied. The rest is covered by other digests: the
section's settings, the version of sitemap_etl, the published files, and the locs of other sections. Other sections
matter because the first section that has a page lists it (`stages.window`), and because pages of an hreflang cluster
link to each other.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from sitemap_etl import __version__, lastmod
from sitemap_etl.frames import INVENTORY
from sitemap_etl.frozen import Frozen
from sitemap_etl.hashes import added
from sitemap_etl.robots import without_blocks
from sitemap_etl.stages.run import Run
from sitemap_etl.state.records import Entry, MadeFrom, Manifest, MirrorBucket, SectionState, Transformed
from sitemap_etl.transform import rules


def settings_of(written: Mapping[str, Any], section: str) -> list[Any]:
    """Return the release, the number of the rules, and the settings by which a section's rows become files.

    `written`: the site file (`config.Site.to_json`).
    """
    publish = {key: value for key, value in written["publish"].items() if key != "check"}  # it asks, and writes nothing
    return [__version__, rules.RULES, written["site"], written["urls"], publish, written["sections"][section]]


def output_digest(written: Mapping[str, Any], section: str, state: SectionState | None, shards: Sequence[Entry]) -> str:
    """Return a hash of the settings of a section, and of its published content."""
    return _hash([*settings_of(written, section), _published(state, shards)])


def _published(state: SectionState | None, shards: Sequence[Entry]) -> list[Any] | None:
    """Return the published files of a section as JSON values, or None if it publishes nothing. `shards`: its own, in
    order.
    """
    if state is None:
        return None
    files = [(one.number, one.low, one.snapshot, one.file.key, one.text is not None) for one in shards]
    undone = [] if state.undone is None else [state.undone]  # the next read of the section has to remove it
    return [state.rule, state.kinds, state.listed, state.view, state.dated, state.top, files, *undone]


def _hash(values: Sequence[Any]) -> str:
    return hashlib.sha256(json.dumps(values).encode()).hexdigest()[:32]


def rules_digest(run: Run, name: str, buckets: Sequence[MirrorBucket] = ()) -> str:
    """Return a digest of a section's rules, of the columns that are summed, and of the files of its mirror."""
    files = [file.key for bucket in buckets for file in bucket.files()]
    reading = run.plan.readings.get(name)
    asked = [] if reading is None else [reading.key, reading.select, reading.params, reading.deleted]
    robots = run.plan.robots
    if robots is not None:
        robots = without_blocks(robots.encode("latin-1")).decode(
            "latin-1"
        )  # our blocks name sitemaps, and differ from run to run
    return _hash([INVENTORY.names, files, asked, robots, *settings_of(run.plan.site, name)])


def likely_unchanged(written: Mapping[str, Any], base: Manifest, known: Mapping[str, MadeFrom]) -> tuple[str, ...]:
    """Return the sections whose raw rows are likely unchanged, so that comparing them first pays.

    Runs without changes often follow each other. `written`: the site as it is now; `known`: section → its digests.
    """
    return tuple(
        name
        for name, one in known.items()
        if one.expects
        and one.digests
        and name in written["sections"]
        and one.made == output_digest(written, name, base.sections.get(name), base.of(name))
    )


class _Inventory(Frozen):
    """Digests of the rows of a section after the rules. Fields are as in `MadeFrom`.

    `sums` is None if only some of its splits are unchanged: then the section has changed.
    """

    rows: int
    sums: tuple[int, int] | None
    loc_sums: tuple[int, int]
    form: str
    ends: tuple[str, str] | None

    @classmethod
    def of(cls, parts: Sequence[Transformed]) -> _Inventory | None:
        """Return the digests of these splits or buckets together, or None if one lacks them."""
        sums: tuple[int, int] | None = (0, 0)
        loc_sums = (0, 0)
        for part in parts:
            if part.loc_sums is None:
                return None
            sums = None if sums is None or part.sums is None else added(sums, part.sums)
            loc_sums = added(loc_sums, part.loc_sums)
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
    def known(cls, made_from: MadeFrom) -> _Inventory | None:
        """Return the digests of an unchanged section, or None if an earlier version recorded them without ends."""
        if made_from.rows and made_from.ends is None:
            return None
        return cls(made_from.rows, made_from.sums, made_from.loc_sums, made_from.form, made_from.ends)


class SectionDigests:
    """Digests of the sections of a run.

    `read`: sections that were read and are not kept. `entries`, `states`: shards and states of all sections, as
    published or as the run would publish them.
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
        """Digests of all read sections; empty if they are missing for one."""
        found = {name: self._inventory(name) for name in self.read}
        known = {name: inventory for name, inventory in found.items() if inventory is not None}
        return known if len(known) == len(found) else {}

    def _inventory(self, name: str) -> _Inventory | None:
        if self.run.is_unchanged(name):
            return _Inventory.known(self.run.plan.made_from[name])
        return _Inventory.of(self.run.parts(name))

    def of(self, name: str) -> MadeFrom | None:
        """Return the digests of a section that was read, or None if they are not known."""
        inventory = self._inventories.get(name)
        if inventory is None or inventory.sums is None:
            return None
        return MadeFrom(
            run_id=self.run.run_id,
            rows=inventory.rows,
            sums=inventory.sums,
            loc_sums=inventory.loc_sums,
            form=inventory.form,
            others=_hash([self._before(name), self._mates(name)]),
            ends=inventory.ends,
            made=output_digest(self.run.plan.site, name, self.states.get(name), self._entries.get(name, ())),
        )

    def _before(self, name: str) -> list[Any]:
        """Return the rows of earlier sections that reach into this one: these list a page in its place.

        Later sections decide nothing, whether they are read or not.
        """
        if self.run.site.sections[name].view:
            return []
        return self._reaching(name, self._inventories[name].ends)

    def _reaching(self, name: str, ends: tuple[str, str] | None) -> list[Any]:
        """Return the rows of the sections before `name` that overlap these locs."""
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
        """Return the sections with hreflang clusters if this is one. All that are read are unchanged, or none is."""
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
    """Return True if two ranges can share a loc."""
    return others is not None and others[0] <= ends[1] and ends[0] <= others[1]
