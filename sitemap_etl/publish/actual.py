"""Find the actual public files: as the last manifest records them, or as the objects are if the manifest can't be
trusted.
"""

from __future__ import annotations

import hashlib
import os.path
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from html import unescape
from typing import Final, TypeVar

from sitemap_etl.errors import Refused
from sitemap_etl.render import fence
from sitemap_etl.settings import Publish
from sitemap_etl.stages.about import here
from sitemap_etl.stages.run import Run
from sitemap_etl.state.records import File
from sitemap_etl.storage import ABSENT, Expect, Stat, Storage, Stored, Unreadable

THREADS: Final = 16
"""Parallel requests to a store."""
_LIST_FROM: Final = 100
"""Number of keys from which one listing is cheaper than one request per key."""
_LOC: Final = re.compile(rb"<loc>([^<]*)</loc>")
"""Page URL in one of our files. Images and videos have other element names."""
_SITEMAP: Final = re.compile(rb"<sitemap><loc>([^<]*)</loc>(?:<lastmod>([^<]*)</lastmod>)?</sitemap>")

_T = TypeVar("_T")
_R = TypeVar("_R")

CONTENT_TYPES: Final = {
    ".gz": "application/gzip",
    ".rss.xml": "application/rss+xml",
    ".atom.xml": "application/atom+xml",
    ".xml": "application/xml",
    ".txt": "text/plain; charset=utf-8",
}


def carried_by(publish: Publish) -> str:
    """Return the metadata of objects as text, or an empty text for a folder, whose files have none."""
    return f"{publish.sse or ''}|{publish.cache_control or ''}" if publish.to.startswith("s3://") else ""


class Actual:
    """The public files as they are."""

    def __init__(
        self,
        run: Run,
        public: Storage,
        *,
        to_repeat: Collection[str] = (),
        watched: Collection[str] = (),
        secured: Mapping[str, File] | None = None,
    ) -> None:
        base = run.base
        self.public = public
        self.relocated = base is not None and base.to != run.site.publish.to
        carry = carried_by(run.site.publish)
        self.outdated = base is not None and carry != "" and base.carry not in ("", carry)
        published = {file.key: file for file in base.files()} if base is not None else {}
        self.files = {} if self.relocated else published
        self.secured = secured or {}
        self.to_repeat = frozenset(to_repeat)
        self.touched = self.to_repeat | frozenset(watched)
        self.suspect = {*self.touched, *(published if self.relocated or run.options.full else ())}
        self.there = look(public, self.suspect)
        self._at = run.site.publish.at
        self._listed: dict[str, dict[str, str]] = {}
        for index in base.indexes if base is not None and not self.relocated else ():
            assert base is not None
            entries = (entry for entry in base.entries if entry.index == index.number)
            self._listed[index.file.key] = {self._at + e.file.key: e.file.lastmod for e in entries}

    def unchanged(self, files: Iterable[File]) -> dict[str, File]:
        """Return the files whose objects already have the right content, by key, as they are stored."""
        found = {}
        suspect = []
        for file in files:
            known = self.files.get(file.key)
            if known is not None and known.sha256 != file.sha256:
                known = None
            if file.key in self.to_repeat:
                secured = self.secured.get(file.key)
                if secured is not None and secured.sha256 == file.sha256:
                    found[file.key] = replace(secured, lastmod=file.lastmod)
            elif self.outdated:
                continue
            elif file.key in self.touched:
                if known is not None and self.is_as_stored(known):
                    found[file.key] = known
            elif file.key in self.suspect:
                suspect.append(known or file)
            elif known is not None:
                found[file.key] = known
        looked = in_threads(self._look, suspect)
        return found | {file.key: file for file in looked if file is not None}

    def is_as_stored(self, file: File) -> bool:
        """Return True if a suspect object has the ETag of the file."""
        stat = self.there.get(file.key)
        return stat is not None and stat.etag is not None and stat.etag == file.etag

    def _look(self, file: File) -> File | None:
        """Return the file as stored if the object has its content, else None."""
        if self.is_as_stored(file):
            return file
        stored = readable(self.public, file.key) if file.key in self.there else None
        if stored is None:
            return None
        content = fence.content(file.key, stored.data)
        if content is None or hashlib.sha256(content).hexdigest() != file.sha256:
            return None
        stored_sha256 = stored.sha256
        return replace(file, stored=stored.stat.size, stored_sha256=stored_sha256, etag=stored.stat.etag)

    def dated(self, file: File) -> File:
        """Return the file with the lastmod of an earlier release if its bytes are the same."""
        known = self.files.get(file.key)
        return replace(file, lastmod=known.lastmod) if known is not None and known.sha256 == file.sha256 else file

    def listed(self, index: str) -> dict[str, str]:
        """Return the entries of the public index with this name: address → lastmod. Files that don't exist are left
        out.
        """
        if index not in self.suspect:
            return self._listed.get(index, {})
        found = {}
        for address, lastmod in _SITEMAP.findall(self._inflated(index)):
            key = unescape(address.decode()).removeprefix(self._at)
            if key in self.there or key in self.files:
                found[self._at + key] = lastmod.decode()
        return found

    def locs(self, key: str) -> Sequence[str]:
        """Return the locs of the object under a suspect key, empty if it is not a sitemap."""
        return [unescape(loc.decode()) for loc in _LOC.findall(self._inflated(key))]

    def _inflated(self, key: str) -> bytes:
        stored = readable(self.public, key) if key in self.there else None
        # A file that can't be unpacked counts as empty, because crawlers can't read it either.
        return (fence.content(key, stored.data) or b"") if stored is not None else b""


class Unmanaged(Refused):
    """Objects are in the way that this state does not manage. The run can still be published if it replaces them."""


@dataclass
class Object:
    """One object to write."""

    file: File
    data: Callable[[], bytes]
    expect: Expect = None


def content_type(key: str) -> str:
    """Return the content type of a public key. Gzipped files are application/gzip, without a Content-Encoding."""
    return next((kind for ending, kind in CONTENT_TYPES.items() if key.endswith(ending)), "application/octet-stream")


def in_threads(work: Callable[[_T], _R], items: Sequence[_T]) -> list[_R]:
    """Do `work` for each item, several at a time; the first error ends it."""
    if len(items) < 2:
        return [work(item) for item in items]
    with ThreadPoolExecutor(THREADS) as pool:
        futures = [pool.submit(here(work), item) for item in items]
        try:
            return [future.result() for future in futures]
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise


def readable(public: Storage, key: str) -> Stored | None:
    """Return the object under a key, or None if it is missing or its bytes were damaged on the way to the store."""
    try:
        return public.get(key)
    except Unreadable:
        return None


def look(storage: Storage, keys: Iterable[str]) -> dict[str, Stat]:
    """Return the objects under these keys, with ETags. Missing ones are left out."""
    wanted = sorted(set(keys))
    if len(wanted) >= _LIST_FROM:
        there = {stat.key: stat for stat in storage.list(os.path.commonprefix(wanted))}
        found = {key: there[key] for key in wanted if key in there}
        asked = [key for key, stat in found.items() if stat.etag is None]
    else:
        found, asked = {}, wanted
    for key, stat in zip(asked, in_threads(storage.stat, asked), strict=True):
        if stat is not None:
            found[key] = stat
        else:
            found.pop(key, None)
    return found


def survey(
    storage: Storage,
    objects: Sequence[Object],
    ours: Mapping[str, set[str | None]],
    *,
    adopt: bool,
    advice: Callable[[], str] = str,
) -> list[Stat]:
    """Fill in the condition of each write. Return the unmanaged objects that `adopt` allows to replace.

    `ours`: key → ETags under which an object there is known to be ours; None among them: whatever is there (an earlier
    publish was interrupted). `advice`: lines on possible causes and what to do. Raise Unmanaged if an object is not
    managed by this state.
    """
    there = look(storage, (item.file.key for item in objects))
    unmanaged: list[Stat] = []
    for item in objects:
        stat = there.get(item.file.key)
        item.expect = ABSENT if stat is None else stat.etag
        known = ours.get(item.file.key, set())
        if stat is not None and stat.etag not in known and None not in known:
            unmanaged.append(stat)
    if unmanaged and not adopt:
        shown = "\n".join(
            f"  {storage.url_of(stat.key)}  {stat.size:,} bytes, written {stat.modified:%Y-%m-%dT%H:%M:%SZ}"
            for stat in unmanaged[:5]
        )
        more = f"\n  … and {len(unmanaged) - 5:,} more" if len(unmanaged) > 5 else ""
        who = "objects exist and were" if len(unmanaged) > 1 else "object exists and was"
        raise Unmanaged(
            f"Refused: {len(unmanaged):,} {who} not created by this state, or changed since. Nothing public was "
            f"touched.\n{shown}{more}{advice()}"
        )
    return unmanaged
