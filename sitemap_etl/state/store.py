"""Read and write the state of a site under `<work>/<name>/`: documents and snapshots, verified on each read.

`current.json` names the manifest of the current release and, during a publish, its intent. It is replaced by
compare-and-swap only. All other objects are written once, under unique names.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from functools import cached_property
from typing import Final, TypeVar

import pyarrow as pa

from sitemap_etl import __version__
from sitemap_etl.advice import SITE_FILE
from sitemap_etl.errors import DamagedState, Refused, Unavailable
from sitemap_etl.frames import SNAPSHOT
from sitemap_etl.frozen import Frozen
from sitemap_etl.state import layout
from sitemap_etl.state.codec import VERIFY, damaged, decode, encode, seal, unseal
from sitemap_etl.state.records import Current, Document, LastRun, Manifest, Owner, RunDocument
from sitemap_etl.state.snapshots import SnapshotWriter, read_batches, schema_of, snapshot_of
from sitemap_etl.storage import ABSENT, Expect, PreconditionFailed, Stat, Storage

GRACE: Final = timedelta(days=2)
"""Grace period: age at which unreferenced state is removed, and at which replaced files are deleted."""
_RENEW: Final = timedelta(days=1)
"""Age at which an existing snapshot is written again, so that no clean-up removes it while it is needed."""
_JSON: Final = "application/json"
_BLOCK: Final = 4 << 20
"""Bytes of a snapshot that are copied at once."""
_TRIES: Final = 5
"""Attempts at a swap when other runs are faster."""

_D = TypeVar("_D", bound=Document)


def put_document(storage: Storage, key: str, document: Document, *, expect: Expect = None) -> Stat:
    """Store a document. Raise PreconditionFailed if the stored object differs from `expect`."""
    return storage.put(key, seal(encode(document)), content_type=_JSON, expect=expect)


def read_document(storage: Storage, key: str, kind: type[_D]) -> tuple[_D, str | None] | None:
    """Return a document and its ETag, or None if it does not exist.

    Raise DamagedState if it is damaged, Refused if a newer version wrote it.
    """
    stored = storage.get(key)
    if stored is None:
        return None
    return parse_document(stored.data, kind, storage.url_of(key)), stored.stat.etag


def parse_document(data: bytes, kind: type[_D], where: str) -> _D:
    """Return the document in these bytes, of any format that this version reads. `where`: its address, for messages."""
    body = unseal(data, where)
    found = body.get("format")
    if not isinstance(found, int) or found < kind.oldest:
        raise damaged(where, f"format: expected a whole number from {kind.oldest} on, got {found!r}")
    if found > kind.newest:
        raise Refused(
            f"{where} is a {kind.title} of format {found}, which a newer version of sitemap_etl wrote; this one "
            f"({__version__}) reads formats up to {kind.newest}. Update it: nothing was changed"
        )
    if found < kind.newest and issubclass(kind, RunDocument):
        raise Refused(
            f"{where}: the run was started by a version of sitemap_etl with run format {found}; this version "
            f"({__version__}) uses format {kind.newest}. Start a new run; nothing public was touched"
        )
    if found < kind.newest:
        try:
            body = {**kind.upgraded(body), "format": kind.newest}
        except (AttributeError, KeyError, TypeError) as error:
            raise damaged(where, f"it is no {kind.title} of format {found}") from error
    return decode(kind, body, where)


class AnothersState(Refused):
    """The state belongs to another site, or to a site that publishes elsewhere."""


class Held(Frozen):
    """`state/current.json` as read."""

    current: Current
    etag: str | None  # ETag for the swap; None if the object does not exist yet


class State:
    """The state of one site.

    `storage`: rooted at `<work>/<name>`. `owner`: returns the places that the site publishes to; None for commands that
    change nothing. `moved`: take over the state of another site or place.
    """

    def __init__(
        self,
        storage: Storage,
        name: str,
        site: str,
        *,
        owner: Callable[[], Owner] | None = None,
        moved: bool = False,
    ) -> None:
        self.storage = storage
        self.name = name
        self.site = site
        self._make_owner = owner
        self._moved = moved
        self._read: tuple[bytes, Current] | None = None  # bytes and content of `current.json` at the last read
        self._ours: str | None = None  # key of a manifest that was published to this site's place

    @cached_property
    def owner(self) -> Owner | None:
        """The places that this site publishes to, or None."""
        return None if self._make_owner is None else self._make_owner()

    def current(self) -> Current:
        """Return `current.json`. Raises as `held`."""
        return self.held().current

    def held(self) -> Held:
        """Return `current.json` with its ETag, for a swap. Raise Refused if the state belongs to another site or
        place.
        """
        stored = self.storage.get(layout.CURRENT)
        if stored is None:
            self._demand_nothing()
            return Held(Current(self.name, self.site), None)
        if self._read is None or self._read[0] != stored.data:
            where = self.storage.url_of(layout.CURRENT)
            self._read = (bytes(stored.data), parse_document(stored.data, Current, where))
        current, etag = self._read[1], stored.stat.etag
        if not self._moved:
            self._check_site(current)
            self._check_place(current)
        return Held(current, etag)

    def _demand_nothing(self) -> None:
        """Raise DamagedState if there are manifests without a `current.json` that says which one is current."""
        if next(iter(self.storage.list(layout.MANIFESTS)), None) is not None:
            raise DamagedState(
                f"{self.storage.url_of(layout.CURRENT)} is missing, although the state has releases. It is not "
                "known which one is public. Restore it from a backup of the state. Without one, run sitemap-etl "
                f"state verify {SITE_FILE} --repair, which finds out"
            )

    def _check_site(self, current: Current) -> None:
        if (current.name, current.site) != (self.name, self.site):
            raise self._anothers(current, None if current.owner is None else current.owner.describe())

    def _check_place(self, current: Current) -> None:
        """Raise AnothersState if the state was published to another place. A repaired state has none: then the
        manifest's counts.
        """
        if self.owner is None:
            return
        if current.owner is not None:
            if not current.owner.is_also(self.owner):
                raise self._anothers(current, current.owner.describe())
        elif current.manifest != self._ours:
            manifest = self.manifest(current.manifest)
            if manifest is not None and not self.owner.to.was(manifest.to):
                raise self._anothers(current, manifest.to)
            self._ours = current.manifest

    def _anothers(self, current: Current, to: str | None) -> AnothersState:
        """Return the error for a state of another site, or of a release that was published `to` another place."""
        theirs = f"{current.name} ({current.site})" + ("" if to is None else f", published to {to}")
        if current.owner is not None and current.owner.site_file:
            theirs += f", by {current.owner.site_file} on {current.owner.host}"
        ours = f"{self.name} ({self.site})"
        if self.owner is not None:
            ours += f", published to {self.owner.describe()}"
            ours += f", by {self.owner.site_file}" if self.owner.site_file else ""
        return AnothersState(
            f"{self.storage.url_of(layout.CURRENT)} is the state of {theirs}\n"
            f"  and this is {ours}. Nothing was written\n"
            "  If the site was moved, say so once with --moved (in a DAG, the parameter `moved`). If this is another "
            "site, or a copy, give it a `work` or a `name` of its own"
        )

    def owned(self, current: Current) -> Current:
        """Return `current` with this site's name and places."""
        return current if self.owner is None else replace(current, name=self.name, site=self.site, owner=self.owner)

    def swap(self, old: Held, new: Current) -> Held:
        """Replace `current.json` if it is still `old`. Raise PreconditionFailed if it is not."""
        expect: Expect = ABSENT if old.etag is None else old.etag
        new = replace(new, serial=old.current.serial + 1)
        stat = put_document(self.storage, layout.CURRENT, new, expect=expect)
        return Held(new, stat.etag)

    def fence(self) -> None:
        """Write `current.json` again unchanged, so that a run which read it before can't claim or commit."""
        for _ in range(_TRIES):
            held = self.held()
            with suppress(PreconditionFailed):
                self.swap(held, held.current if held.etag is not None else self.owned(held.current))
                return
        raise Unavailable(f"{self.storage.url_of(layout.CURRENT)} is replaced again and again by other runs. Try again")

    def manifest(self, key: str | None) -> Manifest | None:
        """Return a manifest by its key. Raise DamagedState if it is missing or damaged, Refused if a newer version
        wrote it.
        """
        if key is None:
            return None
        found = read_document(self.storage, key, Manifest)
        if found is None:
            raise DamagedState(
                f"{self.storage.url_of(key)} is missing, although {layout.CURRENT} refers to it. Restore it from a "
                f"backup of the state. {VERIFY}"
            )
        return found[0]

    def kept_manifest(self, key: str) -> Manifest | None:
        """Return a manifest by its key, or None if it no longer exists."""
        found = read_document(self.storage, key, Manifest)
        return None if found is None else found[0]

    def readable_manifest(self, key: str) -> Manifest | None:
        """Return a manifest by its key, or None if it no longer exists or is damaged."""
        with suppress(DamagedState):
            return self.kept_manifest(key)
        return None

    def put_manifest(self, manifest: Manifest) -> str:
        """Store a manifest and return its key. Raise PreconditionFailed if another try of the run stores it too."""
        key = layout.manifest(manifest.run_id)
        # An existing manifest is from an earlier claim of this run and can have older ETags. The condition makes a
        # late request of that claim fail.
        there = self.storage.stat(key)
        put_document(self.storage, key, manifest, expect=ABSENT if there is None else there.etag)
        return key

    def put_snapshot(self, rows: pa.Table) -> str:
        """Store rows (frames.SNAPSHOT, ordered by loc) under the hash of their bytes. Return the key."""
        sha256, data = snapshot_of(rows)
        key = layout.snapshot(sha256)
        self._keep(key, data, sha256)
        return key

    def _keep(self, key: str, data: bytes | memoryview, sha256: str) -> None:
        """Store data that is named by its hash, unless it exists and is recent."""
        there = self.storage.get(key) if self.storage.conditional else None
        if there is None or there.data != data or self.storage.now() - there.stat.modified > _RENEW:
            self.storage.put(key, data, sha256=sha256)

    def put_written(self, snapshot: SnapshotWriter) -> str | None:
        """Store a snapshot that was written part by part. Return the key, or None if it has no row."""
        written = snapshot.close()
        if written is None:
            return None
        sha256, path = written
        key = layout.snapshot(sha256)
        self.storage.put(key, path, sha256=sha256)
        return key

    def put_robots(self, data: bytes) -> None:
        """Store a robots.txt under the hash of its bytes."""
        sha256 = hashlib.sha256(data).hexdigest()
        self._keep(layout.robots(sha256), data, sha256)

    def robots(self, key: str) -> bytes:
        """Return a stored robots.txt. Raise DamagedState if it is missing or its bytes don't match its name."""
        stored = self.storage.get(key)
        where = self.storage.url_of(key)
        if stored is None:
            raise DamagedState(
                f"{where} is missing, although {layout.CURRENT} refers to it. Restore it from a backup of the state, "
                f"or see that {self.site}/robots.txt answers: it is then read again"
            )
        if layout.robots(stored.sha256) != key:
            raise damaged(where, "its content does not match the hash in its name")
        return stored.data

    def snapshot(self, key: str, columns: Sequence[str] | None = None) -> pa.Table:
        """Return the rows of a snapshot, with all columns of `frames.SNAPSHOT`, or those named.

        Raise DamagedState if it is missing, or if its bytes don't match its name: they are verified before anything
        is decoded.
        """
        stored = self.storage.get(key)
        self._check_snapshot(key, None if stored is None else stored.sha256)
        assert stored is not None
        batches = list(read_batches(pa.BufferReader(stored.data), columns))
        schema = schema_of(SNAPSHOT.names if columns is None else columns)
        return pa.concat_tables(batches) if batches else schema.empty_table()

    def snapshot_batches(self, key: str, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Yield the rows of a snapshot as they were written together. Memory holds one table, and a file its bytes.

        Raises as `snapshot`.
        """
        stat = self.storage.stat(key)
        size = 0 if stat is None else stat.size
        hashed = hashlib.sha256()
        with tempfile.TemporaryFile(prefix="sitemap_etl-") as copy:
            for start in range(0, size, _BLOCK):
                block = self.storage.read(key, start, min(_BLOCK, size - start))
                hashed.update(block)
                copy.write(block)
            self._check_snapshot(key, None if stat is None else hashed.hexdigest())
            copy.seek(0)
            yield from read_batches(copy, columns)

    def _check_snapshot(self, key: str, sha256: str | None) -> None:
        """Raise DamagedState if a snapshot is missing (None), or if its bytes don't match its name."""
        where = self.storage.url_of(key)
        if sha256 is None:
            raise DamagedState(
                f"{where} is missing, although a manifest refers to it. Restore it from a backup of the state. {VERIFY}"
            )
        if layout.snapshot(sha256) != key:
            raise damaged(where, "its content does not match the hash in its name")


def ended(current: Current, run_id: str, at: str, status: str) -> Current:
    """Return `current` with this run as the last one."""
    return replace(current, last_run=LastRun(run_id, at, status))
