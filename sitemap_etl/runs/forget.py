"""Remove rows from all objects of the state folder and the reports, before `keep` and the grace period would.

The order makes it safe to interrupt and repeat. First the URLs of the rows are looked up, in mirrors and in tables of
reports; these are rewritten last. Snapshots are rewritten without the rows, then a release with the new snapshots is
committed, so that a run that started earlier is overtaken and can't restore the rows. Only then are older releases
rewritten. At the end, unreferenced objects are deleted.
"""

from __future__ import annotations

import gzip
import json
import tempfile
import zlib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from sitemap_etl.arrow import column_of
from sitemap_etl.config import Site
from sitemap_etl.dates import instant
from sitemap_etl.engines.backlog import Waiting, mark_of, ordered, without
from sitemap_etl.errors import ConfigError, DamagedState, Refused
from sitemap_etl.frames import ASIDE
from sitemap_etl.frozen import Frozen
from sitemap_etl.publish.reports import put_overview, put_page
from sitemap_etl.publish.retention import snapshots_of
from sitemap_etl.runs.traces import Traces
from sitemap_etl.stages.ping import StoredLedger, engines_of, pending_runs
from sitemap_etl.stages.run import Environment, new_run_id, open_work, state_of
from sitemap_etl.state import layout
from sitemap_etl.state.changes import notification_of, packed, put_changes
from sitemap_etl.state.checked import put_checked
from sitemap_etl.state.codec import decode, encode
from sitemap_etl.state.lease import leased
from sitemap_etl.state.mirror import without_keys
from sitemap_etl.state.records import (
    Answered,
    Attempt,
    Counts,
    Entry,
    Manifest,
    Record,
    Splits,
    Summary,
)
from sitemap_etl.state.store import put_document, read_document
from sitemap_etl.storage import PreconditionFailed
from sitemap_etl.visible import visible

REASON: Final = "rows were forgotten (state forget)"


class Forgotten(Record):
    """Result of a call.

    `rows`: versions of rows that were found. `rewritten`, `removed`: number of objects by kind. `run_id`: the release
    that replaced the current one, or None if nothing was found. `left`: places that can't be reached.
    """

    place: str
    rows: int = 0
    urls: int = 0
    run_id: str | None = None
    rewritten: dict[str, int] = field(default_factory=dict)
    removed: dict[str, int] = field(default_factory=dict)
    left: tuple[str, ...] = ()


def forget_rows(
    site: Site,
    environment: Environment,
    *,
    keys: Sequence[str] = (),
    urls: Sequence[str] = (),
    section: str | None = None,
) -> Forgotten:
    """Forget the rows with these keys, or with these URLs.

    `section`: the section of the keys, if several have such keys. Raise ConfigError if it is needed and missing;
    Refused if a row is still in its source, listed or linked to, or if another run is in progress; DamagedState before
    any change.
    """
    if not keys and not urls:
        raise ConfigError("state forget: name rows with --key, or with --url where a section has no key")
    if section is not None and section not in site.sections:
        raise ConfigError(
            f"--section {visible(section)}: there is no such section. There are: {', '.join(site.sections)}"
        )
    work = open_work(site, environment)
    state = state_of(site, environment, work)
    base = state.manifest(state.current().manifest)
    run_id = new_run_id(environment.clock(), after="" if base is None else base.run_id, work=work)
    with leased(work, run_id):
        return _Forgetting(site, environment, run_id).forget(keys, urls, section)


class Kept(Frozen):
    """The rest of a snapshot: its new key (None if it is empty), its rows, its first and last loc."""

    key: str | None
    rows: int
    first: str = ""
    last: str = ""

    @classmethod
    def of(cls, rows: pa.Table, key: str | None) -> Kept:
        if key is None:
            return cls(None, 0)
        locs = column_of(rows, "loc")
        return cls(key, len(locs), locs[0].as_py(), locs[-1].as_py())


class _Forgetting(Traces):
    """One call of `forget_rows`."""

    def __init__(self, site: Site, environment: Environment, run_id: str) -> None:
        super().__init__(site, environment)
        self.run_id = run_id
        self.rewritten: Counter[str] = Counter()
        self.removed: Counter[str] = Counter()

    def forget(self, keys: Sequence[str], urls: Sequence[str], section: str | None) -> Forgotten:
        self.find(keys, urls, section)
        self.refuse()
        pending = self._pending()
        snapshots = self._rewrite_snapshots()
        found = self._in_state(snapshots)
        if found:
            self._commit(snapshots)
            self._manifests(snapshots)
            self._changes()
        # What was staged, and what nothing names, is not searched: it goes in any case.
        self._texts()
        self._staging()
        self._adopted()
        self._tables()
        self._mirrors()
        for key in self._unreferenced():
            self.removed["files of mirrors" if key.startswith(layout.MIRRORS) else "snapshots"] += self.work.delete(key)
        return Forgotten(
            self.work.url,
            self.rows,
            len(self.marks.locs),
            self.run_id if found else None,
            dict(sorted((+self.rewritten).items())),
            dict(sorted((+self.removed).items())),
            tuple(self._left(pending)) if found else (*_NOTHING_FOUND, *([_UNSEARCHED] if +self.removed else [])),
        )

    def _pending(self) -> dict[str, list[str]]:
        """Return the engines that still have to be notified of a removal, each with its runs."""
        found: dict[str, list[str]] = {}
        removing = [run for run, table in self.changed() if self.marks.of_locs(table.column("loc")).any()]
        for name in engines_of(self.site) if removing else ():
            waiting = set(pending_runs(self.state, name))
            if any(run in waiting for run in removing):
                found[name] = [run for run in removing if run in waiting]
        return found

    # --- rows as published, and the sets that name them ---

    def _rewrite_snapshots(self) -> dict[str, Kept]:
        """Rewrite the snapshots that have some of the rows, and return their replacements by key."""
        found: dict[str, Kept] = {}
        for key in sorted({key for manifest in self.manifests.values() for key in snapshots_of(manifest)}):
            try:
                rows = self.state.snapshot(key)
            except DamagedState:
                if self.work.stat(key) is None and (self.current is None or key not in snapshots_of(self.current)):
                    continue  # of a release that is no longer stored
                raise
            locs, alternates = column_of(rows, "loc"), column_of(rows, "alternates")
            named = self.marks.of_locs(locs).any() or self.marks.linking(alternates).any()
            if named:
                kept = self.marks.without(rows)
                found[key] = Kept.of(kept, self.state.put_snapshot(kept) if kept.num_rows else None)
        return found

    def _in_state(self, snapshots: Collection[str]) -> bool:
        """Return True if any readable object names the rows."""
        if snapshots or self.marks.keys or any(self.names(encode(one)) for one in self.manifests.values()):
            return True
        if self.names(encode(self.held.current)):
            return True
        if any(self.marks.of_locs(table.column("loc")).any() for _, table in self.changed()):
            return True
        return any(self.names(one) for one in self.documents()) or any(
            self.marks.of_aside(rows).any() for _, rows in self.aside()
        )

    def _cleaned(self, manifest: Manifest, snapshots: Mapping[str, Kept]) -> Manifest:
        """Return the manifest without the rows."""
        entries: list[Entry] = []
        fewer: Counter[str] = Counter()
        first: set[str] = set()  # sections that lost their first file
        for entry in manifest.entries:
            kept = snapshots.get(entry.snapshot, Kept(entry.snapshot, entry.rows, entry.first, entry.last))
            fewer[entry.section] += entry.rows - kept.rows
            if kept.key is None:
                first |= {entry.section} if entry.low == "" else set()
                continue
            low = "" if entry.section in first else entry.low
            first.discard(entry.section)
            rest = replace(entry, snapshot=kept.key, low=low, rows=kept.rows, first=kept.first, last=kept.last)
            entries.append(self.marks.bounded(rest, self.site.site))
        sections = {}
        for name, state in manifest.sections.items():
            sections[name] = replace(
                state,
                listed=state.listed - fewer[name],
                removed_lately=_now(snapshots, state.removed_lately),
                undone=_now(snapshots, state.undone),
                top=_now(snapshots, state.top),
            )
        cleaned = replace(manifest, entries=tuple(entries), sections=sections)
        return decode(Manifest, self.marks.scrubbed(encode(cleaned)), "") if self.names(encode(cleaned)) else cleaned

    def _commit(self, snapshots: Mapping[str, Kept]) -> None:
        """Replace the current release by one without the rows. Raise Refused if another run published meanwhile."""
        if self.current is None:
            return
        old = self._cleaned(self.current, snapshots)
        now = max(instant(self.environment.clock()), old.now)
        carried = {name: Counts(carried=state.listed, listed=state.listed) for name, state in old.sections.items()}
        manifest = replace(
            old,
            run_id=self.run_id,
            now=now,
            base=self.held.current.manifest,
            counts=carried,
            gates=(),
            forced=(),
            reason=REASON,
            indexing={},
        )
        key = self.state.put_manifest(manifest)
        try:
            # What sections were made from names URLs: those at the ends of splits. The next run renders them all.
            self.held = self.state.swap(self.held, replace(self.held.current, manifest=key, made_from={}))
        except PreconditionFailed as error:
            self.work.delete(key)
            raise Refused(
                "Another run was first: it published in the meantime. Nothing was changed; try again"
            ) from error
        self.manifests[key] = manifest
        self.rewritten["snapshots"] += len(snapshots)

    def _manifests(self, snapshots: Mapping[str, Kept]) -> None:
        for key, manifest in self.manifests.items():
            cleaned = self._cleaned(manifest, snapshots)
            if cleaned != manifest:
                put_document(self.work, key, cleaned)
                self.manifests[key] = cleaned
                self.rewritten["manifests"] += 1

    # --- changes for engines ---

    def _changes(self) -> None:
        """Remove the rows from the changes of runs. Ledgers are updated first, while positions can be computed."""
        for run_id, table in self.changed():
            gone = self.marks.of_locs(table.column("loc"))
            notification = notification_of(self.state, run_id)
            assert notification is not None
            if not gone.any() and notification.changes_sha256 is not None:
                continue
            if gone.any():
                self._positions(run_id, table)
                self.rewritten["changes"] += 1
            # Without the hash, readers accept both the old and the new table.
            key = layout.notification(run_id)
            put_document(self.work, key, replace(notification, changes_sha256=None))
            put_changes(self.state, run_id, packed([table.filter(pa.array(~gone))]), notification)

    def _positions(self, run_id: str, table: pa.Table) -> None:
        """Adjust the positions in a run's changes that the ledgers of engines have."""
        changes = ordered(table)
        gone = self.marks.of_locs(changes.column("loc").cast(pa.string()))
        for name in engines_of(self.site):
            ledger = StoredLedger(self.state, name)
            data = ledger.load()
            waiting = [Waiting.from_json(entry) for entry in data.get("waiting", [])]
            if any(entry.run == run_id and entry.mark == mark_of(changes) for entry in waiting):
                moved = [without(entry, changes, gone) if entry.run == run_id else entry for entry in waiting]
                ledger.save({**data, "waiting": [entry.to_json() for entry in moved]})
                self.rewritten["ledgers"] += 1

    # --- texts ---

    def _texts(self) -> None:
        for key in self.keys(layout.REPORTS):
            run_id = layout.run_of(key)
            if key == layout.summary(run_id) and (summary := self._scrubbed(key, Summary)) is not None:
                put_page(self.work, summary)
                put_document(self.work, key, summary)
                self.rewritten["reports"] += 1
            elif key == layout.splits(run_id) and (splits := self._scrubbed(key, Splits)) is not None:
                put_document(self.work, key, splits)
        for key in self.keys(layout.CHANGES):
            if layout.is_answer(key) and (answer := self._scrubbed(key, Answered)) is not None:
                put_document(self.work, key, answer)
                self.rewritten["answers of engines"] += 1
        self._attempts()
        put_overview(self.work, self.site.name, self.site.site)

    def _attempts(self) -> None:
        """Rewrite records of runs, oldest first. Their write times give the order, so later ones are rewritten too."""
        again = False
        for stat in sorted(self.work.list(layout.ATTEMPTS), key=lambda stat: (stat.modified, stat.key)):
            attempt = self._scrubbed(stat.key, Attempt)
            if attempt is not None:
                put_document(self.work, stat.key, attempt)
                self.rewritten["records of runs"] += 1
                again = True
            elif again and (stored := self.work.get(stat.key)) is not None:
                self.work.put(stat.key, stored.data, content_type="application/json")

    def _scrubbed(self, key: str, kind: type[Any]) -> Any:
        """Return the document without the rows, or None if it doesn't name them."""
        found = read_document(self.work, key, kind)
        body = None if found is None else encode(found[0])
        return decode(kind, self.marks.scrubbed(body), self.work.url_of(key)) if self.names(body) else None

    def _staged(self) -> dict[str, list[str]]:
        """Return the staging folders to remove, with their keys.

        A published run leaves only its plan, which is kept unless it names a row.
        """
        folders: dict[str, list[str]] = {}
        for key in self.keys(layout.RUNS):
            folders.setdefault("/".join(key.split("/")[:2]), []).append(key)
        return {
            folder: keys
            for folder, keys in folders.items()
            if keys != [f"{folder}/{layout.PLAN}"] or self._in_plan(keys[0])
        }

    def _staging(self) -> None:
        """Remove staging folders as a whole, because they hold rows as read."""
        for keys in self._staged().values():
            for key in sorted(keys, reverse=True):
                self.work.delete(key)
            self.removed["staged runs"] += 1

    def _in_plan(self, key: str) -> bool:
        stored = self.work.get(key)
        body = None if stored is None else stored.data.decode("utf-8", "replace")
        words = [json.dumps(word) for word in (*self.marks.all_keys(), *self.marks.locs, *self.marks.raw)]
        return body is not None and any(word in body for word in words)

    def _adopted(self) -> None:
        """Remove copies of other programs' files that name the rows. They can't be rewritten."""
        for key in self.keys(layout.ADOPTED):
            stored = self.work.get(key)
            if stored is not None and any(loc.encode() in _inflated(stored.data) for loc in self.marks.locs):
                self.removed["copies of replaced files"] += self.work.delete(key)

    # --- what says which URLs the rows had ---

    def _tables(self) -> None:
        """Rewrite the tables of reports. A table is removed from its run's list before, and added again after."""
        for key in self.keys(layout.REPORTS):
            run_id = layout.run_of(key)
            if key != layout.splits(run_id):
                continue
            splits = self.splits(key)
            for kind in layout.ASIDE:
                table_key = layout.aside(run_id, kind)
                there = self.work.stat(table_key) is not None
                table = splits.tables.get(kind)
                if table is None and there:  # written by an earlier version, or by a call that was killed
                    self.removed["tables of reports"] += self.work.delete(table_key)
                elif (
                    table is not None and there and any(self.marks.of_aside(rows).any() for rows in self.rows_of(table))
                ):
                    splits = self._put_table(key, splits, kind)

    def _put_table(self, key: str, splits: Splits, kind: str) -> Splits:
        others = {name: table for name, table in splits.tables.items() if name != kind}
        with tempfile.TemporaryDirectory(prefix="sitemap_etl-") as scratch:
            path = Path(scratch) / "rows.parquet"
            with pq.ParquetWriter(path, ASIDE, compression="zstd") as writer:
                for rows in self.rows_of(splits.tables[kind]):
                    writer.write_table(rows.filter(pa.array(~self.marks.of_aside(rows))))
            put_document(self.work, key, replace(splits, tables=others))
            table = put_checked(self.work, splits.tables[kind].key, path)
        splits = replace(splits, tables={**others, kind: table})
        put_document(self.work, key, splits)
        self.rewritten["tables of reports"] += 1
        return splits

    def _mirrors(self) -> None:
        for key, mirror in self.mirrors.items():
            keys = self.marks.keys.get(mirror.section)
            new = without_keys(self.work, mirror, keys, self.run_id) if keys else mirror
            if new != mirror:
                put_document(self.work, key, new)
                self.mirrors[key] = new
                self.rewritten["mirrors"] += 1

    def _unreferenced(self) -> list[str]:
        """Return the keys of rows that nothing refers to: from removed releases, dead runs and rewritten objects."""
        used = {key for manifest in self.manifests.values() for key in snapshots_of(manifest)} | set(self.mirrors)
        for mirror in self.mirrors.values():
            used |= {file.key for bucket in mirror.buckets for file in bucket.files()}
        return [key for prefix in (layout.SNAPSHOTS, layout.MIRRORS) for key in self.keys(prefix) if key not in used]

    def _left(self, pending: dict[str, list[str]]) -> Iterator[str]:
        """Yield the places that can't be reached, as sentences."""
        for name in pending:
            yield f"{name} was not notified yet that the page is gone, and no longer will be"
        retired = self.current.retired if self.current is not None else ()
        if retired:
            yield (
                f"{len(retired):,} public files that no index lists any more, such as {retired[0].key}, may have it: "
                "runs delete them two days after they left the index"
            )
        yield from _OUT_OF_REACH


def _now(snapshots: Mapping[str, Kept], key: str | None) -> str | None:
    """Return the new key of a snapshot, or None if no rows are left."""
    return snapshots[key].key if key is not None and key in snapshots else key


def _inflated(data: bytes) -> bytes:
    try:
        return gzip.decompress(data)
    except (OSError, EOFError, zlib.error):
        return data


_NOTHING_FOUND: Final = ("nothing in the state has this row: it was never read, or forgotten before, or needs --url",)
_UNSEARCHED: Final = "what runs staged, and what nothing names, can't be searched: it was removed"
_OUT_OF_REACH: Final = (
    "the source: if it yields the row again, even to say that it is deleted, the next run reads it",
    "earlier versions of the state's objects, if the bucket keeps versions, and backups",
    "logs of runs (Airflow's, or where stderr was led), and summaries that were copied from here",
    "copies that search engines, caches and archives made of public files",
    "temporary folders (sitemap_etl-…) that killed runs left on their machines",
)
