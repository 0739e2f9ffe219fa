"""Random runs with inserts, deletes and updates: rules for the files after each of them."""

from __future__ import annotations

import gzip
import tempfile
from bisect import bisect_right
from pathlib import Path

from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.support.examples import examples
from tests.support.sites import TestSite, parse

ROWS, BYTES = 12, 3_000
LOC = st.integers(0, 400)


class Nights(RuleBasedStateMachine):
    """A section of small files; `model` is the content of its source: number → version."""

    def __init__(self) -> None:
        super().__init__()
        self._folder = tempfile.TemporaryDirectory()
        gates = {"max_drop": 1, "max_growth": 1_000, "min_urls": 0}
        self.site = TestSite(Path(self._folder.name), gates=gates)
        self.site.section("p", shards={"rows": ROWS, "bytes": BYTES, "fill": 0.8})
        self.model: dict[int, int] = {}
        self.number = 0
        self.ever: set[int] = set()
        self.files: dict[str, bytes] = {}
        self.before: dict[int, int] = {}
        self.borders: list[tuple[str, int]] = []

    def teardown(self) -> None:
        self._folder.cleanup()

    @initialize(locs=st.sets(LOC, min_size=1, max_size=80))
    def first(self, locs: set[int]) -> None:
        self._night(dict.fromkeys(locs, 0))

    @rule(locs=st.sets(LOC, max_size=40))
    def insert(self, locs: set[int]) -> None:
        self._night({**dict.fromkeys(locs, 0), **self.model})

    @rule(count=st.integers(1, 40))
    def append(self, count: int) -> None:
        last = max(self.model, default=0)
        self._night({**self.model, **dict.fromkeys(range(last + 1, last + 1 + count), 0)})

    @rule(locs=st.sets(LOC, max_size=60))
    def delete(self, locs: set[int]) -> None:
        left = {loc: version for loc, version in self.model.items() if loc not in locs}
        self._night(left or dict(list(self.model.items())[:1]))

    @rule(locs=st.sets(LOC, max_size=3), longer=st.booleans())
    def update(self, locs: set[int], longer: bool) -> None:
        step = 100 if longer else 1
        self._night({loc: version + step if loc in locs else version for loc, version in self.model.items()})

    @rule()
    def quiet(self) -> None:
        before = {name: self.files[name] for name in self._listed()}
        self._night(dict(self.model))
        assert {name: self.files[name] for name in self._listed()} == before  # what left the index may be deleted

    def _night(self, model: dict[int, int]) -> None:
        self.before, self.model = self.model, model
        self.borders = self._borders()
        self.old_files = dict(self.files)
        self.old_rows = {e.number: e.rows for e in self.site.manifest().of("p")} if self.number else {}
        self.number += 1
        # A version shows as a date, one of a hundred also as a longer row.
        rows = [
            {
                "loc": f"/p/{loc:04}",
                "lastmod": f"2026-{v // 28 % 10 + 1:02}-{v % 28 + 1:02}",
                "images": "[" + ",".join(f'"/i/{loc}-{i}.jpg"' for i in range(v // 100)) + "]",
            }
            for loc, v in model.items()
        ]
        self.site.export("p", rows)
        self.site.night(self.number)
        self.files = {k: v for k, v in self.site.public().objects().items() if k.endswith(".gz")}

    def _borders(self) -> list[tuple[str, int]]:
        if self.number == 0:
            return []
        return [(entry.low, entry.number) for entry in self.site.manifest().of("p")]

    def _listed(self) -> list[str]:
        return sorted(address.rsplit("/", 1)[1] for address in self.site.public().files())

    @invariant()
    def every_url_is_in_exactly_one_file(self) -> None:
        if self.number:
            locs = [e.loc for name in self._listed() for e in parse(self.files[name], name)]
            assert sorted(locs) == sorted(f"https://shop.example/p/{loc:04}" for loc in self.model)

    @invariant()
    def the_limits_hold(self) -> None:
        for name in self._listed() if self.number else ():
            data = gzip.decompress(self.files[name])
            assert len(data) <= BYTES
            assert data.count(b"<url>") <= ROWS

    @invariant()
    def a_retired_number_never_comes_back(self) -> None:
        if self.number:
            now = {entry.number for entry in self.site.manifest().of("p")}
            old = {number for _, number in self.borders}
            assert not (now - old) & self.ever
            self.ever |= now

    @invariant()
    def an_edit_rewrites_its_own_range_and_what_it_splits_into_or_merges_with(self) -> None:
        if self.number < 2:
            return
        edited = {loc for loc in self.before.keys() | self.model.keys() if self.before.get(loc) != self.model.get(loc)}
        lows = [low for low, _ in self.borders]
        touched = {bisect_right(lows, f"https://shop.example/p/{loc:04}") - 1 for loc in edited}
        allowed = {self.borders[max(at, 0)][1] for at in touched}
        neighbours = {
            self.borders[max(at, 0) + step][1]
            for at in touched
            for step in (-1, 1)
            if 0 <= max(at, 0) + step < len(lows)
        }
        old = {number for _, number in self.borders}
        for entry in self.site.manifest().of("p"):
            if entry.number in old and self.files[entry.file.key] != self.old_files[entry.file.key]:
                assert entry.number in allowed | neighbours
                if entry.number not in allowed:  # a neighbour is only rewritten to take rows in
                    assert entry.rows > self.old_rows[entry.number]


Nights.TestCase.settings = settings(
    max_examples=examples(6),
    stateful_step_count=8,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # a step is a whole run: shrinking takes minutes
)
TestStableShards = Nights.TestCase
