"""What the state keeps and deletes: nothing that is referred to is deleted, everything else is eventually."""

from __future__ import annotations

import json
import shutil
import tempfile
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from sitemap_etl.errors import ConfigError, DamagedState, Refused
from sitemap_etl.publish.publish import publish
from sitemap_etl.runs.history import published_sets
from sitemap_etl.runs.local import Finished, publish_locally, run_locally
from sitemap_etl.runs.rollback import roll_back
from sitemap_etl.stages.run import open_run
from sitemap_etl.state import layout
from sitemap_etl.state.attempts import put_attempt
from sitemap_etl.state.codec import encode
from sitemap_etl.state.records import Attempt, Manifest, Options, same_set
from sitemap_etl.state.store import put_document
from tests.support.crash import listed
from tests.support.examples import examples
from tests.support.sites import FIRST_NIGHT, TestSite, pages
from tests.support.storages import Clocked, Died

SMALL = {"rows": 10, "fill": 0.9}
KEEP = 3


class Site(TestSite):
    """A site with its own clock."""

    def __init__(self, folder: Path, **keys: Any) -> None:
        super().__init__(folder, site="http://127.0.0.1:9", **keys)
        self.clock = Clocked(FIRST_NIGHT)
        self.environment = self.clock.around(self.environment)

    def go(self, **options: Any) -> Finished:
        return run_locally(self.load(), Options(**options), self.environment, jobs=1)

    def pass_time(self, **span: float) -> None:
        self.clock.time += timedelta(**span)

    def keys_under(self, prefix: str) -> set[str]:
        return {stat.key for stat in self.state().storage.list(prefix)}

    def chain(self) -> list[Manifest]:
        """Return the manifests from the current one back, until one is missing."""
        state, found = self.state(), []
        key = state.current().manifest
        while key is not None and state.storage.stat(key) is not None:
            manifest = state.manifest(key)
            assert manifest is not None
            found.append(manifest)
            key = manifest.base
        return found


def snapshots(manifest: Manifest) -> set[str]:
    """Return every snapshot that a manifest names."""
    return {part for part in json.dumps(encode(manifest)).split('"') if part.startswith("state/snapshots/")}


def recent(manifest: Manifest) -> dict[str, str]:
    """Return the files of recent changes that a manifest names, with the hash of their content."""
    return {entry.file.key: entry.file.sha256 for entry in manifest.entries if entry.section != "a"}


class Nights(RuleBasedStateMachine):
    """Runs, dry and refused runs, deaths and rollbacks, with days between them."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.site = Site(self.folder, keep=KEEP, gates={"max_growth": 99}, recent="3d")
        self.site.section(
            "a",
            shards=SMALL,
            gates={"max_growth": 99},
            lastmod={"fingerprint": ["title"]},
            feed={"formats": ["rss"], "title": "A", "items": 3},
        )
        self.staged: list[str] = []

    def teardown(self) -> None:
        shutil.rmtree(self.folder)

    @property
    def listed(self) -> int:
        return self.site.manifest().listed

    def export(self, variant: int) -> None:
        """Return one of several sources: some additional rows, some changed ones."""
        rows = pages(40 + variant, title=lambda n: f"{n}-{variant if n % 7 == variant % 7 else 0}")
        self.site.export("a", rows[variant % 4 :])

    @initialize()
    def first(self) -> None:
        self.export(0)
        self.site.go()

    variants = st.integers(0, 5)

    @rule(variant=variants)
    def night(self, variant: int) -> None:
        self.export(variant)
        self.site.go()

    @rule(variant=variants)
    def dry(self, variant: int) -> None:
        self.export(variant)
        self.staged.append(self.site.go(dry_run=True).run.run_id)

    @rule()
    def refused(self) -> None:
        self.site.export("a", pages(25, title="x"))
        broken_off, before = self.site.state().current().pending is not None, self.site.manifest()
        done = self.site.go()
        # A run that takes over what another left unfinished publishes the set again, with no row changed. With time,
        # pages leave the file of recent ones.
        again = broken_off or recent(before) != recent(self.site.manifest())
        unchanged = ("unchanged", "published") if again else ("unchanged",)
        assert done.summary.status in (("refused",) if self.listed > 25 else unchanged)
        self.staged.append(done.run.run_id)

    @rule(data=st.data())
    def publish_staged(self, data: st.DataObject) -> None:
        if not self.staged:
            return
        run_id = data.draw(st.sampled_from(self.staged))
        gates = ("a.max_drop", "max_drop")
        try:
            done = publish_locally(
                self.site.load(), run_id, self.site.environment, force=gates, reason="test", adopt=False
            )
        except ConfigError:
            assert run_id not in self.site.keys_under("runs/")  # too old
        except Refused as error:
            right = ("Overtaken", "ended before", "was published already", "found that nothing had changed")
            assert any(words in str(error) for words in right)  # noqa: PT017 - each may be so
        else:
            assert done.summary.status == "unchanged" or self.site.manifest().run_id == run_id

    @rule(data=st.data())
    def rollback(self, data: st.DataObject) -> None:
        kept = published_sets(self.site.load(), self.site.environment)
        run_id = data.draw(st.sampled_from([each.run_id for each in kept]))
        before = {manifest.run_id: manifest for manifest in self.site.chain()}[run_id]
        roll_back(self.site.load(), run_id, self.site.environment, reason="test")
        now = self.site.manifest()
        mine = [{e.file.key: e.file.sha256 for e in m.entries if e.section == "a"} for m in (before, now)]
        assert mine[0] == mine[1]

    @rule(variant=variants, writes=st.integers(0, 20))
    def death(self, variant: int, writes: int) -> None:
        self.export(variant)
        self.site.clock.die(writes, since="/intent-")
        try:
            self.site.go()
        except Died:
            pass
        finally:
            self.site.clock.revive()

    @rule(hours=st.sampled_from([1, 20, 30, 50, 100, 400]))
    def days(self, hours: int) -> None:
        self.site.pass_time(hours=hours)

    @invariant()
    def everything_that_is_referred_to_is_there(self) -> None:
        state = self.site.state()
        current = state.current()
        there = self.site.keys_under("state/")
        if current.pending is not None:
            assert current.pending in there
        chain = self.site.chain()
        for manifest in chain:
            assert snapshots(manifest) <= there
        distinct: list[Manifest] = []
        for manifest in chain:
            if not any(same_set(manifest, other) for other in distinct):
                distinct.append(manifest)
        complete = not chain or chain[-1].base is None
        assert complete or len(distinct) >= KEEP
        for run_id in self.staged:
            plan = state.storage.get(f"runs/{run_id}/plan.json")
            if plan is None or json.loads(plan.data)["base"] != current.manifest:
                continue
            for key in self.site.keys_under(f"runs/{run_id}/render/"):
                receipt = state.storage.get(key) if key.endswith(".json") else None
                shards = json.loads(receipt.data)["shards"] if receipt is not None else ()
                assert {shard["snapshot"] for shard in shards} <= there

    @invariant()
    def the_public_set_is_valid(self) -> None:
        objects = self.site.public().objects()
        if objects:
            listed(objects)


TestNights = Nights.TestCase
TestNights.settings = settings(
    max_examples=examples(8),
    stateful_step_count=12,
    phases=(Phase.generate,),  # to shrink a sequence of nights takes longer than to read it
)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    made = Site(tmp_path, keep=2, gates={"max_drop": 1, "max_growth": 99})
    made.section("a", pages(40), shards=SMALL, gates={"max_drop": 1, "max_growth": 99})
    (tmp_path / "public").mkdir()
    (tmp_path / "public" / "robots.txt").write_text("")
    made.go()
    return made


def test_keep_counts_distinct_releases(site: Site) -> None:
    """Runs that change only the state, for example another fingerprint, make manifests but no new release."""
    runs = []
    for count, columns in ((41, ["x"]), (42, ["x"]), (42, ["y"]), (42, ["x", "y"]), (42, ["y"])):
        site.section("a", pages(count, x="1", y="2"), shards=SMALL, lastmod={"fingerprint": columns})
        assert site.go().summary.status == "published"
        runs.append(site.manifest().run_id)
        site.pass_time(days=3)
    site.go()
    kept = [each.run_id for each in published_sets(site.load(), site.environment)]
    assert kept == runs[::-1]
    assert site.keys_under("state/manifest-") == {f"state/manifest-{run_id}.json" for run_id in kept}


def test_a_dry_run_whose_base_release_was_deleted_counts_as_overtaken(site: Site) -> None:
    site.export("a", pages(50))
    dry = site.go(dry_run=True).run.run_id
    site.pass_time(hours=100)
    for count in (60, 70, 80, 90):
        site.export("a", pages(count))
        site.go()

    with pytest.raises(Refused, match=r"Overtaken: this run started from .*, which is no longer kept"):
        publish_locally(site.load(), dry, site.environment, force=(), reason="test", adopt=False)


def test_a_run_whose_state_is_deleted_meanwhile_reports_it(site: Site) -> None:
    site.export("a", pages(50))
    dry = site.go(dry_run=True).run
    before = site.public().objects()
    shutil.rmtree(site.folder / "work" / "shop" / "state")
    run = open_run(dry.staging.url, site.environment, staging=dry.staging)
    with pytest.raises(DamagedState, match=r"is missing: the state was deleted after this run began"):
        publish(run, dry_run=False)
    assert site.public().objects() == before


def test_a_run_never_gets_the_id_of_another_one_of_the_same_second(site: Site) -> None:
    """It would reuse the staging of the other run: an earlier dry run, with the clock at the same time."""
    second, _, number = site.manifest().run_id.rpartition("-")
    taken = [f"{second}-{int(number, 16) + n:04x}" for n in range(1, 300)]
    for run_id in taken:
        put_attempt(site.state().storage, Attempt(run_id, "2026-11-01T02:00:00Z", dry_run=True))

    ids = [site.go(dry_run=True).run.run_id, site.go().run.run_id]

    assert set(ids).isdisjoint(taken)
    assert ids == sorted(set(ids))


def test_a_larger_keep_restores_only_complete_releases(site: Site) -> None:
    """A release of old snapshots that was published again today is not kept, but it is in the chain."""
    first = site.manifest().run_id
    site.pass_time(days=3)
    site.export("a", pages(50))
    site.go()
    roll_back(site.load(), first, site.environment, reason="test")
    for count in (60, 70):
        site.export("a", pages(count, lastmod="2026-10-01"))
        site.go()
    site.keys["keep"] = 9
    for each in published_sets(site.load(), site.environment):
        assert snapshots(site.state().manifest(layout.manifest(each.run_id))) <= site.keys_under("state/")


def test_unreferenced_files_are_deleted_eventually(site: Site) -> None:
    for count in (50, 60, 70):
        site.export("a", pages(count))
        site.go()
    site.go(dry_run=True)
    for _ in range(6):
        site.pass_time(days=4)
        site.go()
    named = set().union(*(snapshots(manifest) for manifest in site.chain()))
    assert site.keys_under("state/snapshots/") == named
    assert not site.keys_under("state/intent-")
    assert not site.keys_under(layout.CHANGES)
    assert not {key for key in site.keys_under("runs/") if site.clock.time - FIRST_NIGHT < timedelta(days=14)}


def test_a_refused_run_can_be_published_days_later_despite_unchanged_runs(site: Site) -> None:
    site.keys["sections"]["a"]["gates"] = {"max_drop": 0.1}
    site.export("a", pages(30, lastmod="2026-10-01"))
    refused = site.go()
    assert refused.summary.status == "refused"
    site.export("a", pages(40))
    for _ in range(5):
        site.pass_time(days=2)
        assert site.go().summary.status == "unchanged"
    done = publish_locally(
        site.load(), refused.run.run_id, site.environment, force=("a.max_drop",), reason="meant", adopt=False
    )
    assert done.summary.status == "published"
    assert len(listed(site.public().objects())) == 30
    site.pass_time(days=3)
    site.export("a", pages(30, lastmod="2026-10-01"))
    site.go()
    assert len(listed(site.public().objects())) == 30
    assert snapshots(site.manifest()) <= site.keys_under("state/")


def test_retired_files_are_deleted_after_two_days_unless_others_changed_them(site: Site) -> None:
    public = site.folder / "public"
    site.export("a", pages(12))
    site.go()
    gone = sorted({path.name for path in public.iterdir()} - set(site.public().files()))
    waiting = [item.key for item in site.manifest().retired]
    assert len(waiting) == 3
    assert set(waiting) <= set(gone)
    (public / waiting[0]).write_bytes(b"someone else's")
    site.pass_time(days=1, hours=23)
    site.go()
    assert all((public / key).exists() for key in waiting)
    site.pass_time(hours=2)
    done = site.go()
    assert [key for key in waiting if (public / key).exists()] == waiting[:1]
    assert done.summary.files.deleted == 2
    assert any(waiting[0] in warning for warning in done.summary.warnings)
    assert site.go().summary.status == "unchanged"
    assert (public / waiting[0]).read_bytes() == b"someone else's"


def test_the_first_run_of_a_site_can_be_published_days_after_it_was_shown(tmp_path: Path) -> None:
    site = Site(tmp_path).section("a", pages(40))
    dry = site.go(dry_run=True)
    site.pass_time(days=3)
    done = publish_locally(site.load(), dry.run.run_id, site.environment, force=(), reason=None, adopt=False)
    assert done.summary.status == "published"
    assert site.keys_under("state/snapshots/") == snapshots(site.manifest())


def test_a_lost_intent_is_reported_with_what_to_do(site: Site) -> None:
    storage = site.state().storage
    current = replace(site.state().current(), pending="state/intent-20261101T020000Z-aaaa.json")
    put_document(storage, layout.CURRENT, current)
    site.export("a", pages(41))
    with pytest.raises(
        DamagedState, match=r"intent-20261101T020000Z-aaaa.json is missing, although state/current.json"
    ):
        site.go()


def test_a_run_whose_snapshots_were_deleted_cannot_be_published(site: Site) -> None:
    """Nobody should delete them; if it happens, no manifest names missing files."""
    site.export("a", pages(60))
    dry = site.go(dry_run=True)
    site.pass_time(days=2)
    known = snapshots(site.manifest())
    for key in site.keys_under("state/snapshots/") - known:
        site.state().storage.delete(key)
    before = site.public().objects()
    with pytest.raises(Refused, match="is gone"):
        publish_locally(site.load(), dry.run.run_id, site.environment, force=(), reason=None, adopt=False)
    assert site.public().objects() == before
