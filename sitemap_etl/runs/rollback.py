"""Publish an older release again."""

from __future__ import annotations

import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sitemap_etl.advice import SITE_FILE
from sitemap_etl.arrow import column_of, mask_of
from sitemap_etl.config import Site
from sitemap_etl.dates import instant
from sitemap_etl.diff import EXTENSIONS, places
from sitemap_etl.errors import ConfigError, DamagedState, Refused
from sitemap_etl.frames import CHANGES, SNAPSHOT, without_fingerprints
from sitemap_etl.hashes import combine, hash_column
from sitemap_etl.limits import WINDOW_ROWS
from sitemap_etl.partition import stretch
from sitemap_etl.publish.commit import publish_target
from sitemap_etl.publish.distinct import check_distinct
from sitemap_etl.publish.drafts import Draft
from sitemap_etl.publish.gates import GATES, Scope, evaluate
from sitemap_etl.publish.moves import Moves
from sitemap_etl.publish.plan import Target
from sitemap_etl.publish.proposal import Proposal, foreign_page
from sitemap_etl.publish.publish import Published, preview
from sitemap_etl.publish.retention import kept_manifests
from sitemap_etl.publish.summary import finish_run
from sitemap_etl.publish.views import RECENT, feed_objects, recent_drafts, with_top
from sitemap_etl.runs.failures import remember_failure
from sitemap_etl.runs.local import Finished
from sitemap_etl.stages.about import note
from sitemap_etl.stages.clock import moment_of
from sitemap_etl.stages.published import DATES, Following, first_of_each, in_time, rows_in_time, same_definition
from sitemap_etl.stages.run import Environment, Run, check_options, new_run_id, open_work, state_of
from sitemap_etl.state import layout
from sitemap_etl.state.changes import packed
from sitemap_etl.state.lease import leased
from sitemap_etl.state.mirror import read_mirror
from sitemap_etl.state.records import (
    Counts,
    Entry,
    File,
    Gate,
    Manifest,
    Options,
    Partition,
    Plan,
    SectionState,
    same_set,
)
from sitemap_etl.state.snapshots import SnapshotWriter
from sitemap_etl.state.store import State, put_document

_GATES: Final = frozenset(gate.name for gate in GATES if gate.of_rollback)
"""Gates that apply to a rollback."""


def roll_back(
    site: Site,
    run_id: str | None,
    environment: Environment,
    *,
    reason: str | None,
    dry_run: bool = False,
    force: Sequence[str] = (),
    moved: bool = False,
    now: datetime | None = None,
) -> Finished | None:
    """Publish an older release as a new run, with unchanged rows. Numbers of shards are never reused.

    `run_id`: the release; by default the last one that differs from the current. Return None if that release is
    current: then nothing is done. The next nightly run goes on from there. Of the gates, `max_drop` and `min_urls` can
    refuse it, unless `force` names them. `now`: the clock's time by default; the time of the current release does not
    matter. Raise ConfigError if the set is not kept or lists pages of another site, or `force` is wrong; Refused as
    `moment_of`.
    """
    options = Options(dry_run=dry_run, force=tuple(force), reason=reason, moved=moved)
    check_options(site, options)
    work = open_work(site, environment)
    state = state_of(site, environment, work, moved=moved)
    current = state.current()
    old = _older(state, site, current.manifest, run_id)
    _demand_same_origin(site, old)
    base = state.manifest(current.manifest)
    assert base is not None
    moment = moment_of(environment.clock(), work.now(), work.url, given=now, reason=reason)
    if current.pending is None and base.now <= instant(moment) and old.run_id in (base.run_id, base.rolled_back_to):
        return None
    own = new_run_id(moment, work=work)
    note(run=own)
    with leased(work, own), tempfile.TemporaryDirectory(prefix="sitemap_etl-") as scratch:
        staging = environment.open_storage(Path(scratch), durable=False)
        plan = Plan(own, instant(moment), current.manifest, site.to_json(), options, site_file=environment.site_file)
        put_document(staging, layout.PLAN, plan)
        run = Run(work, staging, plan, environment)
        run.leave(layout.PARTITION, Partition())
        try:
            before = time.monotonic()
            published = _publish(run, old, base, Path(scratch))
            summary = finish_run(run, published, {"publish": time.monotonic() - before})
        except BaseException as error:
            remember_failure(site, environment, error, run)
            raise
        return Finished(run, published, summary)


def _older(state: State, site: Site, current: str | None, run_id: str | None) -> Manifest:
    kept = kept_manifests(state, site.keep)
    if not kept:
        raise ConfigError(f"{site.name}: nothing has been published yet, so there is nothing to roll back to")
    names = ", ".join(manifest.run_id for key, manifest in kept if key != current) or "none"
    if run_id is not None:
        for _, manifest in kept:
            if manifest.run_id == run_id:
                return manifest
        state.kept_manifest(layout.manifest(run_id))  # it may be there, and damaged
        raise ConfigError(f"{run_id}: there is no such release. Choose from: {names}")
    newest = kept[0][1]
    for _, manifest in kept[1:]:
        if not same_set(manifest, newest):
            return manifest
    raise ConfigError(f"{site.name}: the current release is the only one")


def _demand_same_origin(site: Site, old: Manifest) -> None:
    """Raise ConfigError if a release lists pages of another origin than `site`."""
    theirs = foreign_page(site, old.entries)
    if theirs is not None:
        raise ConfigError(
            f"{site.name}: run {old.run_id} published pages of another site, such as {theirs}, and `site` is "
            f"{site.site}. Engines take no page of one site from the sitemap of another. "
            "To publish that release again, set `site` (and where it is published) back in the site file, and pass"
            " --moved"
        )


def _publish(run: Run, old: Manifest, base: Manifest, scratch: Path) -> Published:
    published = {file.key: file for file in base.files()}
    if old.now > run.plan.now:
        old = _in_time(run, old)
    drafts = [_draft(run, entry, published) for entry in old.entries if entry.section != RECENT]
    sections = {
        name: replace(
            state,
            next_number=max(
                state.next_number,
                base.sections.get(name, SectionState()).next_number,
                base.numbers.get(name, 1),
            ),
            removed_lately=None,
            undone=None,
        )
        for name, state in old.sections.items()
    }
    for name, state in base.sections.items():
        sections.setdefault(name, replace(state, listed=0, removed_lately=None, undone=None, top=None, mirror=None))
    was, listed = _listed(base), _listed(old)
    same = {key for key, one in listed.items() if key in was and one.file.key == was[key].file.key}
    difference = _Difference(
        run,
        base,
        old,
        [one for key, one in was.items() if key not in same],
        [one for key, one in listed.items() if key not in same],
        {
            name: _Dates(scratch, name, comparable=same_definition(state, sections[name]))
            for name, state in base.sections.items()
        },
    )
    changes = packed(difference.changes())
    sections |= {name: dates.kept_by(run.state, sections[name]) for name, dates in difference.dates.items()}
    sections = {name: with_top(run, name, state, old.of(name)) for name, state in sections.items()}
    counts = _counts(run, sections, difference.counted)
    gates = _gates(run, old, base, sections, difference.counted)
    gone = Moves(pa.table({"loc": pa.array([], pa.string())}))
    proposal = Proposal(drafts, sections, counts, gates, gone, {})
    target = Target(
        drafts=[*recent_drafts(run, drafts, sections), *drafts],
        sections=sections,
        counts=counts,
        gates=gates,
        forced=tuple(gate.name for gate in gates if gate.status == "forced"),
        moves_to={key: frozenset(receivers) for key, receivers in difference.moves_to.items()},
        changes=changes,
        extras=feed_objects(run, {name: state for name, state in sections.items() if name in run.site.sections}),
        mirrors=_whole_mirrors(run, sections),
        versions=dict.fromkeys(sections),  # the next run reads every table
        reason=run.options.reason,
        rolled_back_to=old.run_id,
    )
    check_distinct(run, (draft.entry for draft in target.drafts), sections)
    if run.options.dry_run or proposal.refused:
        error = _refusal(proposal, old) if proposal.refused else None
        seen, warnings = preview(run, target)
        return Published("dry_run" if run.options.dry_run else "refused", proposal, None, error, warnings, seen)
    outcome = publish_target(run, target)
    return Published(outcome.status, proposal, outcome, None, list(outcome.warnings))


def _gates(
    run: Run,
    old: Manifest,
    base: Manifest,
    sections: Mapping[str, SectionState],
    counted: Mapping[tuple[str, str], int],
) -> list[Gate]:
    """Return the gates of a rollback, against the current release. The site's gate counts the rows that no section's
    gate stops.
    """
    forced = frozenset(run.options.force)
    found: list[Gate] = []
    listed = removed = 0
    for name, state in sections.items():
        gone, own = counted[(name, "removed")], []
        if name in run.site.sections:
            scope = _scope(base.sections.get(name, SectionState()).listed, state.listed, gone)
            own = evaluate(name, scope, run.site.sections[name].gates, forced)
        stopped = any(gate.name == f"{name}.max_drop" and gate.status in ("refused", "forced") for gate in own)
        removed += 0 if stopped else gone
        listed += 0 if state.view else state.listed
        found += [gate for gate in own if name in old.sections or gate.name == f"{name}.max_drop"]
    found += evaluate(None, _scope(base.listed, listed, removed), run.site.gates, forced)
    return [gate for gate in found if gate.name.rpartition(".")[2] in _GATES]


def _scope(published: int, listed: int, removed: int) -> Scope:
    return Scope(published, largest=0, listed=listed, added=0, removed=removed, extracted=0, rejected=0)


def _refusal(proposal: Proposal, old: Manifest) -> Refused:
    lines = [f"Refused: {gate.message}. Nothing public was touched." for gate in proposal.refused]
    options = " ".join(f"--force {gate.name}" for gate in proposal.refused)
    lines.append(f'  roll back: sitemap-etl rollback {SITE_FILE} {old.run_id} {options} --reason "…"')
    return Refused("\n".join(lines))


def _whole_mirrors(run: Run, sections: Mapping[str, SectionState]) -> dict[str, str | None]:
    """Return the mirrors of sections that are still there with all of their files; without one, all of a section is
    read.
    """
    found: dict[str, str | None] = dict.fromkeys(sections)
    there = {stat.key for stat in run.work.list(layout.MIRRORS)}
    for name, state in sections.items():
        if state.mirror in there:
            with suppress(DamagedState):
                buckets = read_mirror(run.work, state.mirror).buckets
                found[name] = state.mirror if there.issuperset(f.key for b in buckets for f in b.files()) else None
    return found


def _in_time(run: Run, old: Manifest) -> Manifest:
    """Return the release without dates after the run. Its clock was fast."""

    def state(of: SectionState) -> SectionState:
        return replace(of, top=None if of.top is None else rows_in_time(run, of.top))

    entries = tuple(in_time(run, entry) if entry.snapshot else entry for entry in old.entries)
    return replace(old, entries=entries, sections={name: state(of) for name, of in old.sections.items()})


def _draft(run: Run, entry: Entry, published: Mapping[str, File]) -> Draft:
    """Return the entry as it was; its file is made again if the published one is another."""

    def own(file: File) -> File:
        now = published.get(file.key)
        return now if now is not None and now.sha256 == file.sha256 else replace(file, lastmod=run.plan.now)

    return Draft(replace(entry, file=own(entry.file), text=own(entry.text) if entry.text is not None else None))


class _Difference:
    """Changes of a rollback, one range of URLs after the other, so that memory does not grow.

    `before`, `after`: shards of the replaced release and of the older one that differ. `dates`: by section of the
    replaced release. Once `changes` was read, `moves_to` has the published files that give rows to others, `counted`
    the changes by section and kind, and `dates` the dates of rows that the older release has not.
    """

    def __init__(
        self,
        run: Run,
        base: Manifest,
        old: Manifest,
        before: Sequence[Entry],
        after: Sequence[Entry],
        dates: Mapping[str, _Dates],
    ) -> None:
        self.run = run
        self.base = base
        self.old = old
        self.before = _Shards(run, base, before)
        self.after = _Shards(run, old, after)
        self.ranges = list(_ranges([*base.entries, *old.entries]))
        self.moves_to: dict[str, set[str]] = defaultdict(set)
        self.counted: Counter[tuple[str, str]] = Counter()
        self.dates = dates

    def changes(self) -> Iterator[pa.Table]:
        """Yield the changed URLs: frames.CHANGES."""
        kept = {
            name: [None if key is None else Following(self.run, key) for key in (state.undone, state.removed_lately)]
            for name, state in self.base.sections.items()
        }
        for low, high in self.ranges:
            before, after = self.before.between(low, high), self.after.between(low, high)
            for name, (undone, removed) in kept.items():
                self._keep_dates(
                    name,
                    before,
                    None if undone is None else undone.between(low, high),
                    None if removed is None else removed.between(low, high),
                )
            changes = self._between(before, after)
            for row in changes.group_by(["section", "kind"]).aggregate([([], "count_all")]).to_pylist():
                self.counted[(row["section"], row["kind"])] += row["count_all"]
            yield changes

    def _between(self, before: pa.Table, after: pa.Table) -> pa.Table:
        at = places(column_of(before, "loc"), column_of(after, "loc"))
        was, now = before.filter(pa.array(at >= 0)), after.take(pa.array(at[at >= 0]))
        added = np.ones(after.num_rows, bool)
        added[at[at >= 0]] = False
        pairs = pa.table({"key": was.column("key"), "key_new": now.column("key")})
        moved = pairs.filter(pc.not_equal(pairs.column("key"), pairs.column("key_new")))
        for pair in moved.group_by(["key", "key_new"]).aggregate([]).to_pylist():  # one a pair of files
            self.moves_to[pair["key"]].add(pair["key_new"])
        dates = pc.not_equal(pc.fill_null(was.column("lastmod"), ""), pc.fill_null(now.column("lastmod"), ""))
        shown = pc.not_equal(was.column("shown"), now.column("shown"))
        parts = [
            _kind(before.filter(pa.array(at < 0)), "removed"),
            _kind(after.filter(pa.array(added)), "added"),
            _kind(now.filter(pc.if_else(now.column("dated"), dates, shown)), "changed"),
        ]
        return pa.concat_tables(parts)

    def _keep_dates(self, section: str, before: pa.Table, undone: pa.Table | None, removed: pa.Table | None) -> None:
        """Keep the last read dates of a section's rows, and of removed rows that the older release does not list.

        They are from the replaced release, unless that was a rollback too and nothing was read since then (`undone`).
        """
        mask = pc.and_(pc.equal(before.column("section"), section), pc.is_valid(before.column("fingerprint")))
        rows = before.filter(mask).select(["loc", "lastmod", "fingerprint"])
        since = pa.repeat(pa.scalar(self.run.epoch, pa.int64()), rows.num_rows)
        published = rows.append_column("since", since).cast(DATES)
        read = published if undone is None else undone
        others = [] if undone is None else [published]
        others += [] if removed is None else [removed]
        table = read
        if any(other.num_rows for other in others):
            table = first_of_each(pa.concat_tables([read, *others]))
        if table.num_rows:
            listed = _is_listed(self.run, column_of(table, "loc"), self.old.of(section))
            again = pa.array(places(column_of(table, "loc"), column_of(read, "loc")) >= 0)
            self.dates[section].keep(table.filter(pc.and_(listed, again)), table.filter(pc.invert(listed)))


class _Dates:
    """Other records of a section's rows: how they were read last, and how rows left.

    A page that is published otherwise then has the date with which it was read last. A row that left has that date if
    it comes again. `comparable`: the fingerprints of both releases can be compared.
    """

    def __init__(self, scratch: Path, section: str, *, comparable: bool) -> None:
        self._comparable = comparable
        self._undone, self._left = (
            SnapshotWriter(scratch / f"{section}-{kind}.arrow", DATES.names) for kind in ("undone", "left")
        )

    def keep(self, undone: pa.Table, left: pa.Table) -> None:
        """Add rows that the older release lists, and rows that it does not list."""
        if self._comparable:
            self._undone.write(undone)
        self._left.write(left if self._comparable else without_fingerprints(left))

    def kept_by(self, state: State, section: SectionState) -> SectionState:
        """Return the section of the older release with these rows, which are stored."""
        undone, left = state.put_written(self._undone), state.put_written(self._left)
        return replace(section, undone=undone, removed_lately=left)


def _is_listed(run: Run, locs: pa.Array, entries: Sequence[Entry]) -> pa.Array:
    """Return a mask of these sorted locs that the shards list."""
    found = np.zeros(len(locs), bool)
    for entry in entries:
        first, past = pc.search_sorted(locs, pa.array([entry.first, entry.last + "\0"])).to_pylist()
        if past > first:
            theirs = column_of(run.state.snapshot(entry.snapshot, ["loc"]), "loc")
            found[first:past] |= mask_of(pc.is_in(locs.slice(first, past - first), theirs))
    return pa.array(found)


def _listed(manifest: Manifest) -> dict[str, Entry]:
    """Return the entries outside of views by their snapshot."""
    views = {name for name, state in manifest.sections.items() if state.view}
    return {entry.snapshot: entry for entry in manifest.entries if entry.snapshot and entry.section not in views}


def _ranges(entries: Iterable[Entry]) -> Iterator[tuple[str, str | None]]:
    """Yield ranges that follow each other and begin where shards do. The shards of each have a window of rows."""
    low, rows = "", 0
    for entry in sorted(entries, key=lambda entry: entry.first):
        if rows + entry.rows > WINDOW_ROWS and entry.first > low and rows:
            yield low, entry.first
            low, rows = entry.first, 0
        rows += entry.rows
    yield low, None


_ROWS: Final = pa.schema(
    [
        *(SNAPSHOT.field(name) for name in ("loc", "lastmod", "fingerprint")),
        ("section", pa.string()),
        ("key", pa.string()),
        ("dated", pa.bool_()),  # whether its section has lastmods
        ("shown", pa.uint64()),  # a hash of its images, videos and so on
    ]
)


class _Shards:
    """The rows of shards of a release, in ranges that follow each other."""

    def __init__(self, run: Run, manifest: Manifest, entries: Iterable[Entry]) -> None:
        self.run = run
        self.manifest = manifest
        self.waiting = sorted(entries, key=lambda entry: entry.first, reverse=True)
        self.open: list[Entry] = []

    def between(self, low: str, high: str | None) -> pa.Table:
        """Return the rows in [low, high), ordered by loc, with the section and the file that list them."""
        while self.waiting and (high is None or self.waiting[-1].first < high):
            self.open.append(self.waiting.pop())
        self.open = [entry for entry in self.open if entry.last >= low]
        tables = [_ROWS.empty_table()]
        for entry in self.open:
            state = self.manifest.sections.get(entry.section, SectionState())
            rows = stretch(self.run.state.snapshot(entry.snapshot), low, high)
            owner = [pa.repeat(pa.scalar(of), rows.num_rows) for of in (entry.section, entry.file.key, state.dated)]
            shown = pa.array(combine([hash_column(rows.column(name)) for name in EXTENSIONS]))
            plain = rows.select(["loc", "lastmod", "fingerprint"]).columns
            tables.append(pa.table([*plain, *owner, shown], schema=_ROWS))
        rows = pa.concat_tables(tables).combine_chunks()
        if len({entry.section for entry in self.open}) > 1:
            rows = rows.take(pc.sort_indices(rows.column("loc")))
        return rows


def _kind(rows: pa.Table, kind: str) -> pa.Table:
    columns = [
        rows.column("loc"),
        pa.repeat(pa.scalar(kind), rows.num_rows),
        *rows.select(["lastmod", "section"]).columns,
    ]
    return pa.table(columns, schema=CHANGES)


def _counts(
    run: Run, sections: Mapping[str, SectionState], counted: Mapping[tuple[str, str], int]
) -> dict[str, Counts]:
    return {
        name: Counts(
            carried=state.listed,
            listed=state.listed,
            added=counted[(name, "added")],
            changed=counted[(name, "changed")],
            removed=counted[(name, "removed")],
        )
        for name, state in sections.items()
        if name in run.site.sections
    }
