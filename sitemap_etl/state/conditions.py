"""Test if a store enforces conditional writes, before a run depends on them.

Some stores answer 200 to `If-None-Match: *` for an existing key, or to an `If-Match` with another ETag. Then lease,
claim and commit would not stop a second run, and nobody would notice. Others answer 412 to the right ETag, which looks
like a second run. The result is stored in the state for two days. After that it is removed like all unreferenced state,
and the store is tested again.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from sitemap_etl.errors import Refused, SitemapEtlError
from sitemap_etl.state import layout
from sitemap_etl.state.codec import seal
from sitemap_etl.storage import ABSENT, Expect, PreconditionFailed, Storage

_TRIED: Final[tuple[tuple[Expect, str], ...]] = ((ABSENT, "If-None-Match: *"), ("0" * 32, "If-Match"))
"""Conditions that must fail for an existing object, and their headers."""
_ADVICE: Final = (
    "Nothing was published. Use a store with conditional writes; or accept that concurrent runs are not detected, and "
    "set publish: {conditional_writes: false}"
)


def demand_conditions(work: Storage, public: Storage | None = None) -> None:
    """Raise Refused if the store of `work` or of `public` ignores or misjudges conditions.

    Stores that are known to enforce them, such as folders, are not tested. Neither is one with `conditional` false,
    because nothing depends on it.
    """
    for storage, key in ((work, layout.PROBE), (public, layout.PUBLIC_PROBE)):
        if storage is None or not storage.conditional or not storage.url.startswith("s3://"):
            continue
        if storage is public and work.conditional and _store(work) == _store(storage):
            continue
        tried = layout.conditions(_store(storage))
        if work.stat(tried) is None:
            _try(storage, f"{key}{secrets.token_hex(4)}")
            work.put(tried, seal({"store": _store(storage)}), content_type="application/json")


def try_writes(storage: Storage, key: str) -> None:
    """Write, replace and remove a small object as a run does, with its conditions. Nothing is left of it.

    `key`: beginning of its key. Raise Refused if the store does not allow that, or ignores or misjudges conditions;
    Unavailable.
    """
    with _without_new_folders(storage):
        _try(storage, f"{key}{secrets.token_hex(4)}")


@contextmanager
def _without_new_folders(storage: Storage) -> Iterator[None]:
    """Remove the folders of a storage that were made meanwhile."""
    path = None if storage.url.startswith("s3://") else Path(storage.url)
    missing = [] if path is None else [folder for folder in (path, *path.parents) if not folder.exists()]
    try:
        yield
    finally:
        with suppress(OSError):
            for folder in filter(Path.exists, missing):
                folder.rmdir()


def _store(storage: Storage) -> str:
    """Return the address of a bucket's store, empty for AWS; of a folder, the folder."""
    return storage.place.partition(" at ")[2] if storage.url.startswith("s3://") else storage.place


def _try(storage: Storage, key: str) -> None:
    found = storage.put(key, b"0", expect=ABSENT)
    try:
        for number, (expect, header) in enumerate(_TRIED, 1):
            if not _refuses(storage, key, b"%d" % number, expect):
                raise Refused(
                    f"{storage.url} ignores {header}: a write that had to fail was accepted. Two runs at the same "
                    f"moment could overwrite each other's work unseen. {_ADVICE}"
                )
        if _refuses(storage, key, b"replaced", found.etag):
            raise Refused(
                f"{storage.url} answers 412 to If-Match with the ETag of the object: a write that had to succeed was "
                f"refused, as if another run had replaced the object. {_ADVICE}"
            )
    except SitemapEtlError:
        with suppress(SitemapEtlError):
            storage.delete(key)
        raise
    storage.delete(key)


def _refuses(storage: Storage, key: str, data: bytes, expect: Expect) -> bool:
    try:
        storage.put(key, data, expect=expect)
    except PreconditionFailed:
        return True
    return False
