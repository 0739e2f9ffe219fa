"""Compare all files: find URLs in several files, and alternates without a return link.

URLs are compared by hash. Two different URLs of n share a hash with a probability of about n² / 2⁶⁵: one in four
thousand sets of 100 million. If possible, an example is read again and compared. Rows are sorted into buckets by
their hash. Many rows go to disk, so memory does not grow with their number.

A *view* (recent changes, news) is a file whose URLs are all listed in other files that are not views, and that has a
visible purpose. It has articles, images or videos that the others don't have, or only the latest pages, or such a name.
Views are intended, so they are not searched for duplicates.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np

from sitemap_etl.arrow import grouped
from sitemap_etl.check.alternates import Links, host_keys
from sitemap_etl.check.entities import resolved_text
from sitemap_etl.check.read import opened
from sitemap_etl.check.report import Faults, Finding, shown
from sitemap_etl.check.sources import Source
from sitemap_etl.dates import DAY
from sitemap_etl.frozen import Frozen

_BUCKETS: Final = 256
HELD: Final = 2_000_000
"""Rows in memory before they go to disk."""
_SPREAD: Final = np.uint64(0x9E3779B97F4A7C15)
_TOP: Final = np.uint64(56)
_URL: Final = np.dtype([("hash", "<u8"), ("file", "<u4"), ("at", "<u4")])
_LINK: Final = np.dtype([("source", "<u8"), ("target", "<u8"), ("file", "<u4"), ("at", "<u4"), ("host", "<u4")])
_VIEW_NAME: Final = re.compile(
    r"recent|latest|news|update|change|image|video"
    r"|(?<![a-z])(?:new|newest|delta|fresh|today|hourly|daily|weekly|top|hot|popular|featured)(?![a-z])",
    re.IGNORECASE,
)
"""Names of files that repeat URLs of other files on purpose."""
_RECENT: Final = 31 * DAY
"""Maximum seconds between the pages of a view of recent changes."""

_HREF: Final = re.compile(r"\shref\s*=\s*(?:\"([^\"]*)\"|'([^']*)')")
_READ_AGAIN: Final = 50
"""Maximum number of files that are read again for an example."""

Text = Callable[[int, int], "tuple[int, str] | None"]
"""(file, byte offset) → (line, text at that line), read from the file again, or None if that fails."""


class Look(Frozen):
    """Contents of a file beside its URLs.

    `news`: it has articles. `extensions`: the namespaces of its other elements. `dates`: its oldest and newest lastmod
    (seconds since 1970), None unless all URLs have one. `origins`: those of its URLs.
    """

    news: bool = False
    extensions: frozenset[str] = frozenset()
    dates: tuple[int, int] | None = None
    origins: frozenset[str] = frozenset()


@dataclass
class CrossFile:
    """All URLs and alternates of the files read so far. `folder` stores the rows beyond `held`."""

    folder: Path
    held: int = HELD
    files: list[str] = field(default_factory=list)
    views: set[int] = field(default_factory=set)
    _inside: set[int] = field(default_factory=set)
    """Files whose URLs are all in other files too, except for views."""
    _looks: list[Look] = field(default_factory=list)
    _hosts: set[int] = field(default_factory=set)
    _distinct: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._urls = Spill(_URL, self.folder, "urls", held=self.held)
        self._links = Spill(_LINK, self.folder, "links", held=self.held)
        self._slashed = Spill(_URL, self.folder, "slashed", held=self.held)

    def add(self, file: str, hashes: np.ndarray, at: np.ndarray, links: Links | None, look: Look) -> int:
        """Take a file's URLs (`hashes`, one a row, and their byte offsets); its number."""
        number = len(self.files)
        self.files.append(file)
        self._looks.append(look)
        self._hosts.update(host_keys(look.origins).tolist())
        distinct, first = np.unique(hashes, return_index=True)
        self._distinct.append(len(distinct))
        if look.news:
            self.views.add(number)
        rows = np.empty(len(distinct), _URL)
        rows["hash"], rows["file"], rows["at"] = distinct, number, at[first]
        self._urls.add(rows, rows["hash"])
        if links is not None and len(links.at):
            edges = np.empty(len(links.at), _LINK)
            edges["source"], edges["target"] = links.source, links.target
            edges["file"], edges["at"], edges["host"] = number, links.at, links.host
            self._links.add(edges, edges["source"] + edges["target"])
        return number

    def add_slashed(self, number: int, hashes: np.ndarray, at: np.ndarray) -> None:
        """Take the URLs of a file that end in a slash: their hashes without it, and their byte offsets."""
        rows = np.empty(len(hashes), _URL)
        rows["hash"], rows["file"], rows["at"] = hashes, number, at
        self._slashed.add(rows, rows["hash"])

    def findings(self, text: Text, *, whole: bool = True) -> list[Finding]:
        """Return duplicates, different spellings and missing return links, one finding for each file, and set `views`.

        whole: False if a file is missing that could list these URLs.
        """
        if len(self.files) > 1:
            self._find_views()
        across = [*self._duplicates(text), *self._spellings(text)] if len(self.files) > 1 else []
        return [*across, *self._returns(text, whole=whole)]

    def _find_views(self) -> None:
        """Find the views: files with a purpose whose URLs are all listed in files that are not views."""
        shared = self._shared(np.array([n in self.views for n in range(len(self.files))], bool))
        inside = {n for n in range(len(self.files)) if shared[n] == self._distinct[n] > 0 and n not in self.views}
        self._inside = inside
        meant = {n for n in inside if self._is_meant(n, inside - {n})}
        if meant:
            covered = self._shared(np.array([n in self.views or n in meant for n in range(len(self.files))], bool))
            self.views |= {n for n in meant if covered[n] == self._distinct[n]}

    def _is_meant(self, number: int, inside: set[int]) -> bool:
        """Return True if a file repeats URLs of others on purpose. `inside` are other files that repeat URLs."""
        if _VIEW_NAME.search(self.files[number].rpartition("/")[2]):
            return True
        look = self._looks[number]
        others = [self._looks[n] for n in range(len(self.files)) if n != number and n not in inside | self.views]
        if look.extensions - frozenset().union(*(other.extensions for other in others)):
            return True
        dated = [other.dates for other in others if other.dates is not None]
        if look.dates is None or not dated:
            return False
        oldest, newest = look.dates
        is_latest = newest >= max(last for _, last in dated) and oldest > min(first for first, _ in dated)
        return is_latest and newest - oldest <= _RECENT

    def _shared(self, apart: np.ndarray) -> np.ndarray:
        """Return how many URLs of each file are also in another file that is not `apart`."""
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
        """Return a finding for each file that repeats URLs of an earlier file, or that lists nothing else."""
        counts = np.zeros(len(self.files), np.int64)
        first: dict[int, tuple[int, int, int]] = {}
        views = np.array([n in self.views for n in range(len(self.files))], bool)
        turn = np.empty(len(self.files), np.int64)
        turn[sorted(range(len(self.files)), key=lambda n: (n in self._inside, n))] = np.arange(len(self.files))
        for rows in self._urls.buckets():
            kept = rows[~views[rows["file"]]]
            kept = kept[np.lexsort((turn[kept["file"]], kept["hash"]))]
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
                    f"also in {self.files[other]}" + ("; it lists nothing else" if file in self._inside else ""),
                )
            )
        return found

    def _spellings(self, text: Text) -> list[Finding]:
        """Return a finding for each file with URLs that end in a slash, and that other files list without it."""
        counts = np.zeros(len(self.files), np.int64)
        first: dict[int, tuple[int, int]] = {}
        for rows, listed in zip(self._slashed.buckets(), self._urls.buckets(), strict=True):
            if not len(rows) or not len(listed):
                continue
            there = listed[np.lexsort((listed["file"], listed["hash"]))]
            begin = np.searchsorted(there["hash"], rows["hash"], "left")
            past = np.searchsorted(there["hash"], rows["hash"], "right")
            met = np.flatnonzero(past > begin)
            # A pair within one file was reported for that file.
            inside = np.isin(_pair(rows[met]), _pair(there))
            met = met[~inside]
            counts += np.bincount(rows["file"][met], minlength=len(counts))
            order = met[np.lexsort((rows["at"][met], rows["file"][met]))]
            files, place = np.unique(rows["file"][order], return_index=True)
            for file, hit in zip(files.tolist(), order[place].tolist(), strict=True):
                found = (int(rows["at"][hit]), int(there["file"][begin[hit]]))
                first[file] = min(first.get(file, found), found)
        findings = []
        for file, (at, other) in sorted(first.items()):
            line, example = text(file, at) or (None, "")
            detail = f"without the slash in {self.files[other]}"
            findings.append(
                Finding("loc-slash", self.files[file], line, None, shown(example), int(counts[file]), detail)
            )
        return findings

    def _returns(self, text: Text, *, whole: bool) -> list[Finding]:
        """Return a finding for each file with links that have no return link, or that lead to unlisted pages.

        Pages are expected to be listed only on hosts that the files list.
        """
        hosts = np.array(sorted(self._hosts if whole else ()), np.uint32)
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
            unlisted = rows[~is_listed]
            unlisted = unlisted[np.isin(unlisted["host"], hosts)]
            for code, chosen in (("hreflang-no-return", rows[is_listed]), ("hreflang-unlisted", unlisted)):
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


def _pair(rows: np.ndarray) -> np.ndarray:
    """Return one hash for a URL in a file."""
    pairs: np.ndarray = rows["hash"] ^ (rows["file"].astype(np.uint64) + np.uint64(1)) * _SPREAD
    return pairs


class Spill:
    """Rows of one dtype in 256 buckets. Rows with the same key share a bucket.

    A bucket of 100 million rows has 400 thousand rows. `held` rows stay in memory. The others go into files in
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
        """Add `rows`. `key` (uint64, one for each row) decides the bucket."""
        if not len(rows):
            return
        self._held.append((rows, (key * _SPREAD >> _TOP).astype(np.uint8)))
        self._waiting += len(rows)
        self.rows += len(rows)
        if self._waiting >= self._most:
            self._write()

    def buckets(self) -> Iterator[np.ndarray]:
        """Yield the rows of every bucket, also of empty ones, always in the same order. Within one, rows stay in
        order.
        """
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
        """Return (line, URL) at a byte offset, or None if the file can't be read again."""
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
