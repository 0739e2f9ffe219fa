"""What a site remembers between runs, under `<work>/<name>/state/`.

`current.json` names the manifest that is published and, while a publish is under way, its intent. It
is replaced by compare-and-swap only. Everything else is written once under a name of its own.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

import pyarrow as pa

from sitemap_etl.errors import Refused
from sitemap_etl.frames import SNAPSHOT, conform
from sitemap_etl.manifest import Manifest
from sitemap_etl.storage import ABSENT, PreconditionFailed, Storage

CURRENT: Final = "state/current.json"
GRACE: Final = timedelta(days=2)
"""State that nothing references is removed when older; retired files are deleted after it."""
_RENEW: Final = timedelta(days=1)
"""A snapshot that is there already is written again when older, so that no clean-up takes it from under us."""


@dataclass(frozen=True)
class Current:
    """`state/current.json` and the ETag it was read with (None: there is none yet)."""

    manifest: str | None = None
    pending: str | None = None
    last_run: dict[str, Any] | None = None
    etag: str | None = None


class State:
    """The state of one site. `storage` is rooted at `<work>/<name>`."""

    def __init__(self, storage: Storage, name: str, site: str) -> None:
        self.storage = storage
        self.name = name
        self.site = site

    def current(self) -> Current:
        """What is published now. Raises Refused where the state is another site's."""
        stored = self.storage.get(CURRENT)
        if stored is None:
            return Current()
        data = json.loads(stored.data)
        if data["name"] != self.name or data["site"] != self.site:
            raise Refused(
                f"{self.storage.url_of(CURRENT)} is the state of {data['name']} ({data['site']}), not of "
                f"{self.name} ({self.site}). Give this site a `name` or a `work` of its own"
            )
        return Current(data["manifest"], data["pending"], data["last_run"], stored.stat.etag)

    def swap(self, old: Current, **changes: Any) -> Current:
        """Replace `current.json`, only if it is still `old`. Raises PreconditionFailed if it is not."""
        new = {"manifest": old.manifest, "pending": old.pending, "last_run": old.last_run, **changes}
        body = {"format": 1, "name": self.name, "site": self.site, **new}
        stat = self.storage.put(
            CURRENT, dumps(body), content_type="application/json", expect=ABSENT if old.etag is None else old.etag
        )
        return Current(new["manifest"], new["pending"], new["last_run"], stat.etag)

    def manifest(self, key: str | None) -> Manifest | None:
        """A manifest by its key. Raises Refused where it is gone or of an unknown format."""
        if key is None:
            return None
        stored = self.storage.get(key)
        if stored is None:
            raise Refused(
                f"{self.storage.url_of(key)} is gone, though {CURRENT} names it. Restore it from a backup of the "
                f"state; to start over without dates and changes, delete {CURRENT}"
            )
        try:
            return Manifest.from_json(json.loads(stored.data))
        except ValueError as error:
            raise Refused(f"{self.storage.url_of(key)} can't be read: {error}") from error

    def put_manifest(self, manifest: Manifest) -> str:
        """Write a manifest; a retry of the same run finds its own."""
        try:
            self.storage.put(manifest.key, dumps(manifest.to_json()), content_type="application/json", expect=ABSENT)
        except PreconditionFailed:
            # An earlier try of this run: its bytes may name other ETags of the same objects. Ours are newer.
            self.storage.put(manifest.key, dumps(manifest.to_json()), content_type="application/json")
        return manifest.key

    def put_snapshot(self, rows: pa.Table) -> str:
        """Keep rows (frames.SNAPSHOT, ordered by loc) under the hash of their bytes; gives the key."""
        used = [name for name in rows.column_names if name == "loc" or rows.column(name).null_count < rows.num_rows]
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(
            sink, rows.select(used).schema, options=pa.ipc.IpcWriteOptions(compression="lz4")
        ) as writer:
            writer.write_table(rows.select(used).combine_chunks())
        data = sink.getvalue()
        key = f"state/snapshots/{hashlib.sha256(data).hexdigest()[:40]}.arrow"
        there = self.storage.stat(key) if self.storage.conditional else None
        if there is None or self.storage.now() - there.modified > _RENEW:
            self.storage.put(key, memoryview(data))
        return key

    def snapshot(self, key: str, columns: Sequence[str] | None = None) -> pa.Table:
        """The rows of a snapshot, with all columns of `frames.SNAPSHOT`, or those named."""
        stored = self.storage.get(key)
        if stored is None:
            raise Refused(
                f"{self.storage.url_of(key)} is gone, though a manifest names it. Restore it from a backup of the state"
            )
        reader = pa.ipc.open_stream(pa.py_buffer(stored.data))
        schema = SNAPSHOT if columns is None else pa.schema([SNAPSHOT.field(name) for name in columns])
        included = [at for at, name in enumerate(reader.schema.names) if name in schema.names]
        if len(included) < len(reader.schema.names):
            reader = pa.ipc.open_stream(
                pa.py_buffer(stored.data), options=pa.ipc.IpcReadOptions(included_fields=included)
            )
        return conform(reader.read_all(), schema)


def dumps(data: Any) -> bytes:
    """JSON as it lies in the state: sorted, so that the same content has the same bytes."""
    return json.dumps(data, ensure_ascii=False, sort_keys=True, separators=(",", ":"), default=str).encode()
