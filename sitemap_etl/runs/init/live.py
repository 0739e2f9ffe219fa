"""Create a site from a live sitemap: its file names, its sections, and exports of its URLs."""

from __future__ import annotations

import re
import shutil
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from sitemap_etl import lastmod
from sitemap_etl.arrow import column_of
from sitemap_etl.check.fetch import Fetcher
from sitemap_etl.check.listing import Listing, listings
from sitemap_etl.check.options import Options
from sitemap_etl.errors import ConfigError, InvalidSource, Refused
from sitemap_etl.frames import Tally
from sitemap_etl.runs.init.elements import elements_in, in_words
from sitemap_etl.runs.init.names import choose, series_of
from sitemap_etl.runs.init.origins import host
from sitemap_etl.runs.init.text import flow
from sitemap_etl.storage import open_storage
from sitemap_etl.urls import origin
from sitemap_etl.web import shown_address

EXPORTS: Final = "exports"
"""Folder beside the site file for the URLs of the live sitemap."""
_FILES: Final = 20
"""Maximum files to read of a series (`products-1.xml`, `products-2.xml`, …): a million URLs."""
_ALL_FILES: Final = 1_000
"""Maximum files to read in all."""
_SECTIONS: Final = 50
"""Maximum sections. Files with further names share one."""
_OTHERS: Final = "others"
_ORIGINS: Final = 100
"""Origins to count per file, most frequent first."""
_ORIGIN: Final = r"^(?P<origin>(?i:https?)://[^/?#]+)"
_SECONDS: Final = 300.0
_STEP_SECONDS: Final = 30.0
_LISTED: Final = pa.schema([("loc", pa.string()), ("lastmod", pa.string())])


@dataclass
class Series:
    """Files of the live sitemap that become one section. `read`: number of files read. `urls`: URLs in them.

    `first`: name of the first file. `dropped`: its elements beyond addresses and dates.
    """

    name: str
    files: int = 0
    read: int = 0
    urls: int = 0
    first: str = ""
    dropped: list[str] = field(default_factory=list)

    @property
    def about(self) -> str:
        """Number of URLs and files as text."""
        about = "" if self.read == self.files else "about "
        files = "1 file" if self.files == 1 else f"{self.files:,} files"
        return f"{about}{round(self.urls * self.files / self.read):,} URLs in {files}"


@dataclass
class Live:
    """A live sitemap. `origins`: origins of its pages. `index`: address of its index or only file."""

    target: str
    origins: Counter[str] = field(default_factory=Counter)
    index: str = ""
    names: dict[str, str] = field(default_factory=dict)
    series: dict[str, Series] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def publish(self, site: str) -> dict[str, Any]:
        """Return the mapping `publish` that keeps the index's address on a site."""
        found: dict[str, Any] = {"to": "./public"}
        folder = urlsplit(self.index).path.rpartition("/")[0]
        if folder and self._is_on(site):
            found["at"] = f"{site}{folder}/"
        return found | ({"names": self.names} if self.names else {})

    def _is_on(self, site: str) -> bool:
        """Return True if the index is on the host of a site."""
        try:
            return host(origin(self.index)) == host(site)
        except ValueError:  # a local file
            return False

    def lines(self) -> Iterator[str]:
        """Yield the sections of the site file."""
        for name, series in self.series.items():
            yield f"  {name}:"
            yield f"    # live: {series.about}. Replace this by your own source:"
            if series.dropped:
                yield f"    # (not in this export, but in the live sitemap: {in_words(series.dropped)})"
            yield f"    from: {flow({'csv': f'{EXPORTS}/{name}.csv.gz'})}"


def survey(target: str, folder: Path, now: datetime) -> Live:
    """Read a live sitemap, index, robots.txt or home page, and write its URLs to `exports/` in a folder.

    Raise ConfigError if a file there would be replaced, Unavailable if the address doesn't respond, Refused if it
    isn't a sitemap.
    """
    addresses = _addresses(target)
    for address in addresses:
        with TemporaryDirectory(prefix="sitemap_etl-") as scratch:
            try:
                live = _Reader(address, Path(scratch), now).live()
            except Refused:
                if len(addresses) == 1:
                    raise
                continue
            if live.series:
                _keep(Path(scratch), folder / EXPORTS, list(live.series))
                return live
    shown = shown_address(target)
    if len(addresses) == 1:
        raise Refused(f"{shown} lists no page")
    raise Refused(
        f"{shown}: robots.txt names no sitemap that lists a page, and there is none at /sitemap.xml and "
        "/sitemap_index.xml. Give the address of the sitemap"
    )


def _addresses(target: str) -> list[str]:
    """Return the possible addresses of a sitemap: the target, or the usual ones if it is a home page.

    Raise ConfigError if the target is not an address.
    """
    try:
        parts = urlsplit(target)
    except ValueError as error:  # brackets that hold no address
        raise ConfigError(f"--from: {shown_address(target)} is not an http or https address ({error})") from error
    if parts.scheme.lower() not in ("http", "https") or parts.path not in ("", "/"):
        return [target]
    root = f"{parts.scheme}://{parts.netloc}"
    return [f"{root}/robots.txt", f"{root}/sitemap.xml", f"{root}/sitemap_index.xml"]


def _keep(scratch: Path, folder: Path, names: list[str]) -> None:
    """Move the exports to their place beside the site file."""
    targets = {name: folder / f"{name}.csv.gz" for name in names}
    there = next((path for path in targets.values() if path.exists()), None)
    if there is not None:
        raise ConfigError(f"{there} already exists, and init never replaces a file: move it away")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, path in targets.items():
            shutil.move(scratch / f"{name}.csv.gz", path)
    except OSError as error:
        raise ConfigError(f"{folder}: the exports can't be written: {error.strerror or error}") from error


class _Reader:
    """Collects the content of a page. lxml calls its methods."""

    def __init__(self, target: str, scratch: Path, now: datetime) -> None:
        self._target = target
        self._scratch = scratch
        self._now = now
        self._wanted: Counter[str] = Counter()
        self._counting = threading.Lock()
        self._writers: dict[str, Any] = {}
        self._forms: dict[str, str] = {}

    def live(self) -> Live:
        found = Live(self._target)
        indexes: Counter[str] = Counter()
        alone: set[str] = set()
        problems: dict[str, str] = {}
        options = Options(now=self._now, open_s3=open_storage, max_time=_SECONDS, timeout=_STEP_SECONDS, robots=False)
        with ExitStack() as stack:
            fetcher = stack.enter_context(closing(Fetcher.of(options)))
            for listing in listings(self._target, options, fetcher=fetcher, wanted=self._is_wanted):
                if listing.problem:
                    problems.setdefault(listing.name, listing.problem)
                if listing.read and not listing.rows.num_rows:
                    continue
                if not listing.within or listing.within.endswith("/robots.txt"):
                    alone.add(listing.name)
                indexes[listing.name if listing.name in alone else listing.within] += 1
                self._add(found, listing, stack)
            self._note_dropped(found, options, fetcher)
        found.notes += [f"{name}: {problem}" for name, problem in problems.items()]
        found.index = indexes.most_common(1)[0][0] if indexes else ""
        for series in list(found.series.values()):
            if not series.read:
                del found.series[series.name]
                found.notes.append(f"section {series.name} is left out: none of its {series.files:,} files was read")
            elif series.read < series.files:
                found.notes.append(
                    f"section {series.name}: {series.read:,} of {series.files:,} files were read, so that "
                    f"{EXPORTS}/{series.name}.csv.gz has only a part of its URLs"
                )
        if found.series:
            chosen = choose(found.index, self._forms, list(found.series), is_file=found.index in alone)
            found.names = dict(chosen.names)
            found.notes += chosen.notes
        return found

    def _note_dropped(self, live: Live, options: Options, fetcher: Fetcher) -> None:
        """Add notes about elements that the exports lack, from the first file of each section."""
        for series in live.series.values():
            series.dropped = elements_in(series.first, self._target, options, fetcher) if series.first else []
            if series.dropped:
                live.notes.append(
                    f"section {series.name}: the live sitemap has {in_words(series.dropped)}, which are not taken "
                    "over: columns of your own source can bring them"
                )

    def _is_wanted(self, name: str) -> bool:
        """Return True if a file is among the first of its series."""
        kind = re.sub(r"\d+", "0", urlsplit(name).path)
        with self._counting:
            self._wanted[kind] += 1
            return self._wanted[kind] <= _FILES and self._wanted.total() <= _ALL_FILES

    def _add(self, live: Live, listing: Listing, stack: ExitStack) -> None:
        name, self._forms[listing.name] = series_of(listing.name)
        if name not in live.series and len(live.series) >= _SECTIONS:
            name = _OTHERS
        series = live.series.setdefault(name, Series(name))
        series.files += 1
        if not listing.read:
            return
        series.read += 1
        series.urls += listing.rows.num_rows
        series.first = series.first or listing.name
        live.origins += _origins(listing.rows)
        if name not in self._writers:
            sink = stack.enter_context(pa.output_stream(str(self._scratch / f"{name}.csv.gz"), compression="gzip"))
            self._writers[name] = stack.enter_context(pa.csv.CSVWriter(sink, _LISTED))
        self._writers[name].write_table(self._dated(listing.rows))

    def _dated(self, rows: pa.Table) -> pa.Table:
        """Return the rows with normalized dates, null for invalid ones."""
        written = column_of(rows.combine_chunks(), "lastmod")
        try:
            found = lastmod.moments(written, name="lastmod", timezone="UTC", read_at=self._now, tally=Tally())
        except InvalidSource:  # numbers
            found = pa.nulls(len(written), pa.int64())
        return pa.table([rows.column("loc"), lastmod.texts(found)], schema=_LISTED)


def _origins(rows: pa.Table) -> Counter[str]:
    """Count the URLs of a file by origin."""
    found: Counter[str] = Counter()
    written = pc.struct_field(pc.extract_regex(rows.column("loc"), _ORIGIN), "origin")
    counts = Counter({one["values"]: one["counts"] for one in pc.value_counts(written).to_pylist()})
    for text, count in counts.most_common(_ORIGINS):
        try:
            found[origin(text or "")] += count
        except ValueError:
            continue
    return found
