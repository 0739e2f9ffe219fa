"""Checks that need all files: URLs that several files list, and alternates that don't link back.

URLs are compared by `hashes.hash64`. Two different URLs of a set share a hash with a probability of about
n² / 2⁶⁵: one in four thousand sets of 100 million. Where possible, an example is read again and compared. Rows
are sorted into buckets by their hash, and go to disk when there are many, so that memory does not grow with the set.

A *view* (recent changes, news) is a file whose URLs are all listed in other files that are not views. That is
intended, so views are left out of the search for duplicates.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np

from sitemap_etl.arrow import grouped
from sitemap_etl.check.alternates import Links
from sitemap_etl.check.read import opened
from sitemap_etl.check.report import Faults, Finding, shown
from sitemap_etl.check.scan import resolved_text
from sitemap_etl.check.sources import Source

_BUCKETS: Final = 256
HELD: Final = 2_000_000
"""Rows held in memory before they go to disk."""
_SPREAD: Final = np.uint64(0x9E3779B97F4A7C15)
_TOP: Final = np.uint64(56)
_URL: Final = np.dtype([("hash", "<u8"), ("file", "<u4"), ("at", "<u4")])
_LINK: Final = np.dtype([("source", "<u8"), ("target", "<u8"), ("file", "<u4"), ("at", "<u4")])
_VIEW_NAME: Final = re.compile(r"recent|latest|news|update", re.IGNORECASE)
"""If two files hold exactly the same URLs, the one with such a name is the view."""

_HREF: Final = re.compile(r"\shref\s*=\s*(?:\"([^\"]*)\"|'([^']*)')")
_READ_AGAIN: Final = 50
"""Files that are read a second time for the sake of an example."""

Text = Callable[[int, int], "tuple[int, str] | None"]
"""(file, byte offset) → (line, text there), by reading the file again; None where that can't be done."""


@dataclass
class CrossFile:
    """All URLs and alternates of the files read so far. `folder` takes what is more than `held` rows."""

    folder: Path
    held: int = HELD
    files: list[str] = field(default_factory=list)
    views: set[int] = field(default_factory=set)
    _distinct: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._urls = Spill(_URL, self.folder, "urls", held=self.held)
        self._links = Spill(_LINK, self.folder, "links", held=self.held)

    def add(self, file: str, hashes: np.ndarray, at: np.ndarray, links: Links | None, *, view: bool) -> int:
        """Take a file's URLs (`hashes`, one a row, and their byte offsets); its number."""
        number = len(self.files)
        self.files.append(file)
        distinct, first = np.unique(hashes, return_index=True)
        self._distinct.append(len(distinct))
        if view:
            self.views.add(number)
        rows = np.empty(len(distinct), _URL)
        rows["hash"], rows["file"], rows["at"] = distinct, number, at[first]
        self._urls.add(rows, rows["hash"])
        if links is not None and len(links.at):
            edges = np.empty(len(links.at), _LINK)
            edges["source"], edges["target"] = links.source, links.target
            edges["file"], edges["at"] = number, links.at
            self._links.add(edges, edges["source"] + edges["target"])
        return number

    def findings(self, text: Text) -> list[Finding]:
        """Duplicates across files and alternates without a return link, one finding per file; sets `views`."""
        if len(self.files) > 1:
            self._find_views()
        return [*(self._duplicates(text) if len(self.files) > 1 else ()), *self._returns(text)]

    def _find_views(self) -> None:
        """A file is a view if each of its URLs is listed in a file that is not a view."""
        shared = self._shared(np.array([n in self.views for n in range(len(self.files))], bool))
        inside = {n for n in range(len(self.files)) if shared[n] == self._distinct[n] > 0 and n not in self.views}
        if not inside:
            return
        apart = np.array([n in self.views or n in inside for n in range(len(self.files))], bool)
        covered = self._shared(apart)
        sure = {n for n in inside if covered[n] == self._distinct[n]}
        named = {n for n in inside - sure if _VIEW_NAME.search(self.files[n].rpartition("/")[2])}
        self.views |= sure | (named if len(named) < len(inside - sure) else set())

    def _shared(self, apart: np.ndarray) -> np.ndarray:
        """How many URLs of each file are also in another file that is not `apart`."""
        counts = np.zeros(len(self.files), np.int64)
        for rows in self._urls.buckets():
            by_hash = rows[np.argsort(rows["hash"], kind="stable")]
            if not len(by_hash):
                continue
            group = np.cumsum(np.append([0], by_hash["hash"][1:] != by_hash["hash"][:-1]))
            keep = ~apart[by_hash["file"]]
            in_group = np.bincount(group, weights=keep)[group].astype(np.int64)
            counts += np.bincount(by_hash["file"][in_group - keep > 0], minlength=len(counts))
        return counts

    def _duplicates(self, text: Text) -> list[Finding]:
        """One finding for each file that repeats URLs of earlier files."""
        counts = np.zeros(len(self.files), np.int64)
        first: dict[int, tuple[int, int, int]] = {}
        views = np.array([n in self.views for n in range(len(self.files))], bool)
        for rows in self._urls.buckets():
            kept = rows[~views[rows["file"]]]
            kept = kept[np.lexsort((kept["file"], kept["hash"]))]
            if not len(kept):
                continue
            again = np.append([False], kept["hash"][1:] == kept["hash"][:-1])
            hits = np.flatnonzero(again)
            counts += np.bincount(kept["file"][hits], minlength=len(counts))
            files, place = np.unique(kept["file"][hits], return_index=True)
            for file, hit in zip(files.tolist(), hits[place].tolist(), strict=True):
                known = first.get(file)
                if known is None or int(kept["at"][hit]) < known[0]:
                    first[file] = (int(kept["at"][hit]), int(kept["file"][hit - 1]), int(kept["at"][hit - 1]))
        found = []
        for file, (at, other, _) in sorted(first.items()):
            line, example = text(file, at) or (None, "")
            found.append(
                Finding(
                    "duplicate-across",
                    self.files[file],
                    line,
                    None,
                    shown(example),
                    int(counts[file]),
                    f"also in {self.files[other]}",
                )
            )
        return found

    def _returns(self, text: Text) -> list[Finding]:
        """One finding for each file with links that have no return link or lead to unlisted pages."""
        lacking = Spill(_LINK, self.folder, "lacking", held=self.held)
        for rows in self._links.buckets():
            if not len(rows):
                continue
            low, high = np.minimum(rows["source"], rows["target"]), np.maximum(rows["source"], rows["target"])
            order = np.lexsort((high, low))
            low, high, by_pair = low[order], high[order], rows[order]
            group = np.cumsum(np.append([0], (low[1:] != low[:-1]) | (high[1:] != high[:-1])))
            up = by_pair["source"] == low
            both = (np.bincount(group, up) > 0) & (np.bincount(group, ~up) > 0)
            one_way = by_pair[~both[group]]
            lacking.add(one_way, one_way["target"])
        if not lacking.rows:
            return []
        counts: dict[str, np.ndarray] = {
            code: np.zeros(len(self.files), np.int64) for code in ("hreflang-no-return", "hreflang-unlisted")
        }
        first: dict[tuple[str, int], int] = {}
        for rows, listed in zip(lacking.buckets(), self._urls.buckets(), strict=True):
            if not len(rows):
                continue
            is_listed = np.isin(rows["target"], listed["hash"])
            for code, chosen in (("hreflang-no-return", rows[is_listed]), ("hreflang-unlisted", rows[~is_listed])):
                counts[code] += np.bincount(chosen["file"], minlength=len(self.files))
                order = np.lexsort((chosen["at"], chosen["file"]))
                files, place = np.unique(chosen["file"][order], return_index=True)
                for file, at in zip(files.tolist(), chosen["at"][order][place].tolist(), strict=True):
                    first[code, file] = min(first.get((code, file), at), at)
        found = []
        for (code, file), at in sorted(first.items()):
            line, example = text(file, at) or (None, "")
            found.append(Finding(code, self.files[file], line, None, shown(example), int(counts[code][file])))
        return found


class Spill:
    """Rows of one dtype in 256 buckets; rows of equal key share a bucket.

    A bucket of 100 million rows is 400 thousand rows. `held` rows stay in memory; the rest goes into files below
    `folder`, which the caller removes.
    """

    def __init__(self, dtype: np.dtype, folder: Path, name: str, *, held: int = HELD) -> None:
        self.rows = 0
        self._dtype = dtype
        self._folder = folder
        self._name = name
        self._held: list[tuple[np.ndarray, np.ndarray]] = []
        self._waiting = 0
        self._most = held

    def add(self, rows: np.ndarray, key: np.ndarray) -> None:
        """Keep `rows`; `key` (uint64, one a row) decides the bucket."""
        if not len(rows):
            return
        self._held.append((rows, (key * _SPREAD >> _TOP).astype(np.uint8)))
        self._waiting += len(rows)
        self.rows += len(rows)
        if self._waiting >= self._most:
            self._write()

    def buckets(self) -> Iterator[np.ndarray]:
        """The rows of every bucket, also of empty ones, always in the same order; within one, as they were added."""
        if self._held and self.rows > self._waiting:
            self._write()
        if self._held:
            rows, cuts = self._sorted()
            for number in range(_BUCKETS):
                yield rows[cuts[number] : cuts[number + 1]]
            return
        for number in range(_BUCKETS):
            file = self._file(number)
            yield np.fromfile(file, self._dtype) if file.exists() else np.empty(0, self._dtype)

    def _sorted(self) -> tuple[np.ndarray, np.ndarray]:
        order, cuts = grouped(np.concatenate([bucket for _, bucket in self._held]), _BUCKETS)
        return np.concatenate([rows for rows, _ in self._held])[order], cuts

    def _write(self) -> None:
        rows, cuts = self._sorted()
        self._held, self._waiting = [], 0
        self._folder.mkdir(parents=True, exist_ok=True)
        for number in range(_BUCKETS):
            if cuts[number] < cuts[number + 1]:
                with self._file(number).open("ab") as out:
                    rows[cuts[number] : cuts[number + 1]].tofile(out)

    def _file(self, number: int) -> Path:
        return self._folder / f"{self._name}-{number:03}"


class Again:
    """Line and text of places in files; the last file is kept, and no more than 50 are opened."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._left = _READ_AGAIN
        self._name = ""
        self._data = b""

    def look(self, source: Source, at: int) -> tuple[int, str] | None:
        """(line, URL) at a byte offset, None where the file can't be had again."""
        if source.name != self._name:
            if self._left <= 0:
                return None
            self._left -= 1
            self._name, self._data = source.name, self._read(source)
        if not self._data:
            return None
        line = self._data.count(b"\n", 0, at) + 1
        text = self._data[at : at + 8192].decode(errors="replace")
        if not text.startswith("<"):
            return line, text.splitlines()[0].strip() if text else ""
        tag, _, rest = text.partition(">")
        href = _HREF.search(tag)
        return line, resolved_text(href[1] or href[2] or "" if href else rest.partition("</")[0])

    def _read(self, source: Source) -> bytes:
        document = opened(source, self._max_bytes, Faults(source.name)).document
        return b"" if document is None else document.data
