"""What stands under the public keys: as the last manifest says, or as the objects do where it can't be believed."""

from __future__ import annotations

import gzip
import hashlib
import re
import zlib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from html import unescape
from typing import Final

from sitemap_etl.manifest import File
from sitemap_etl.pipeline.objects import in_threads, look
from sitemap_etl.pipeline.run import Run
from sitemap_etl.storage import Storage

_LOC: Final = re.compile(rb"<loc>([^<]*)</loc>")
"""In a file of ours: images and videos have prefixes."""
_SITEMAP: Final = re.compile(rb"<sitemap><loc>([^<]*)</loc>(?:<lastmod>([^<]*)</lastmod>)?</sitemap>")


class Standing:
    """The public files as they are.

    `files`: by key, as the last manifest has them; none where the set is to stand elsewhere now. `touched`: keys
    that broken-off publishes may have written. `doubtful`: keys of which only the object is believed (with `--full`,
    every one); `there`: what is under them. `moved_house`: `publish.to` is not where the last set was put.
    """

    def __init__(self, run: Run, public: Storage, touched: Collection[str]) -> None:
        base = run.base
        self.public = public
        self.moved_house = base is not None and base.to != run.site.publish.to
        published = {file.key: file for file in base.files()} if base is not None else {}
        self.files = {} if self.moved_house else published
        self.touched = frozenset(touched)
        self.doubtful = {*touched, *(published if self.moved_house or run.options.full else ())}
        self.there = look(public, self.doubtful)
        self._at = run.site.publish.at
        self._listed: dict[str, dict[str, str]] = {}
        for index in base.indexes if base is not None and not self.moved_house else ():
            assert base is not None
            entries = (entry for entry in base.entries if entry.index == index.number)
            self._listed[index.file.key] = {self._at + e.file.key: e.file.lastmod for e in entries}

    def unchanged(self, files: Iterable[File]) -> dict[str, File]:
        """Those of the files that are there already, byte for byte, with their ETags, by key."""
        found = {}
        doubtful = []
        for file in files:
            known = self.files.get(file.key)
            if file.key in self.doubtful:
                doubtful.append(file)
            elif known is not None and known.sha256 == file.sha256:
                found[file.key] = known
        looked = in_threads(self._look, doubtful)
        return found | {file.key: file for file in looked if file is not None}

    def _look(self, file: File) -> File | None:
        """The file with the ETag of the object, where that is the file."""
        stat = self.there.get(file.key)
        if stat is None:
            return None
        if stat.etag == file.etag:
            return file
        stored = self.public.get(file.key) if stat.size == file.stored else None
        if stored is None or hashlib.sha256(stored.data).hexdigest() != file.stored_sha256:
            return None
        return replace(file, etag=stored.stat.etag)

    def dated(self, file: File) -> File:
        """The file with the lastmod that its bytes have had since an earlier set."""
        known = self.files.get(file.key)
        return replace(file, lastmod=known.lastmod) if known is not None and known.sha256 == file.sha256 else file

    def listed(self, index: str) -> dict[str, str]:
        """What the public index of this name lists now: address → lastmod. What does not exist is left out."""
        if index not in self.doubtful:
            return self._listed.get(index, {})
        found = {}
        for address, lastmod in _SITEMAP.findall(self._inflated(index)):
            key = unescape(address.decode()).removeprefix(self._at)
            if key in self.there or key in self.files:
                found[self._at + key] = lastmod.decode()
        return found

    def locs(self, key: str) -> Sequence[str]:
        """The locs of the object under a doubtful key; none where it is no sitemap."""
        return [unescape(loc.decode()) for loc in _LOC.findall(self._inflated(key))]

    def _inflated(self, key: str) -> bytes:
        stored = self.public.get(key) if key in self.there else None
        if stored is None:
            return b""
        try:
            return gzip.decompress(stored.data) if key.endswith(".gz") else stored.data
        except (OSError, EOFError, zlib.error):
            return b""  # whatever changed it, no crawler reads it either
