"""A live sitemap as the beginning of a site: its names, its sections, and exports of what it lists."""

from __future__ import annotations

import re
import shutil
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.csv
from pydantic import ValidationError

from sitemap_etl import lastmod
from sitemap_etl.arrow import column_of
from sitemap_etl.check.listing import Listing, listings
from sitemap_etl.check.options import Options
from sitemap_etl.errors import ConfigError, InvalidSource, Refused
from sitemap_etl.frames import Tally
from sitemap_etl.runs.init.beginning import section_name
from sitemap_etl.runs.init.text import flow
from sitemap_etl.settings.site import Names
from sitemap_etl.storage import open_storage
from sitemap_etl.urls import origin
from sitemap_etl.web import shown_address

EXPORTS: Final = "exports"
"""The folder beside the site file for what the live sitemap lists."""
_FILES: Final = 20
"""Files of one series (`products-1.xml`, `products-2.xml`, …) that are read: a million URLs at most."""
_ALL_FILES: Final = 1_000
"""Files that are read in all."""
_SECTIONS: Final = 50
"""Sections that are made; files of further names are one together."""
_OTHERS: Final = "others"
_ORIGINS: Final = 100
"""URLs of a file whose origins are counted."""
_SECONDS: Final = 300.0
_STEP_SECONDS: Final = 30.0
_ENDING: Final = re.compile(r"(\.(xml|txt|rss|atom))?(\.gz)?$", re.IGNORECASE)
_NO_SECTION: Final = frozenset({"sitemap", "sitemaps", "site", "map", "index", "xml", "urlset", "part"})
_LISTED: Final = pa.schema([("loc", pa.string()), ("lastmod", pa.string())])


@dataclass
class Series:
    """The files of the live sitemap that make a section. `read`: how many were; `urls`: what those list."""

    name: str
    files: int = 0
    read: int = 0
    urls: int = 0

    @property
    def about(self) -> str:
        """How many URLs and files it has, in words."""
        about = "" if self.read == self.files else "about "
        files = "1 file" if self.files == 1 else f"{self.files:,} files"
        return f"{about}{round(self.urls * self.files / self.read):,} URLs in {files}"


@dataclass
class Live:
    """A live sitemap. `site`: the origin of most of its pages; `index`: where its index is, or its only file."""

    target: str
    site: str = ""
    index: str = ""
    names: dict[str, str] = field(default_factory=dict)
    series: dict[str, Series] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def publish(self) -> dict[str, Any]:
        """The mapping `publish`, under which the index keeps its address."""
        found: dict[str, Any] = {"to": "./public"}
        folder = self.index.rpartition("/")[0] + "/"
        if self.index and self.site and folder != f"{self.site}/" and folder.startswith(f"{self.site}/"):
            found["at"] = folder
        return found | ({"names": self.names} if self.names else {})

    def lines(self) -> Iterator[str]:
        """The sections of the site file."""
        for name, series in self.series.items():
            yield f"  {name}:"
            yield f"    # live: {series.about}. Replace this by your own source:"
            yield f"    from: {flow({'csv': f'{EXPORTS}/{name}.csv.gz'})}"


def survey(target: str, folder: Path, now: datetime) -> Live:
    """Read a live sitemap, index, robots.txt or home page, and write what it lists to `exports/` in a folder.

    Raises ConfigError where a file would be replaced there, Unavailable where it does not answer, Refused where it is
    no sitemap.
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
    """Where the sitemap of an address may be; of a home page, where robots.txt says, or where most are."""
    parts = urlsplit(target)
    if parts.scheme.lower() not in ("http", "https") or parts.path not in ("", "/"):
        return [target]
    root = f"{parts.scheme}://{parts.netloc}"
    return [f"{root}/robots.txt", f"{root}/sitemap.xml", f"{root}/sitemap_index.xml"]


def _keep(scratch: Path, folder: Path, names: list[str]) -> None:
    """Move the exports to where the site file has them."""
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
    """Reads the files of a live sitemap, and writes what they list, a file for each section."""

    def __init__(self, target: str, scratch: Path, now: datetime) -> None:
        self._target = target
        self._scratch = scratch
        self._now = now
        self._wanted: Counter[str] = Counter()
        self._counting = threading.Lock()
        self._writers: dict[str, Any] = {}
        self._templates: set[str] = set()
        self._origins: Counter[str] = Counter()

    def live(self) -> Live:
        found = Live(self._target)
        indexes: Counter[str] = Counter()
        problems: dict[str, str] = {}
        options = Options(now=self._now, open_s3=open_storage, max_time=_SECONDS, timeout=_STEP_SECONDS, robots=False)
        with ExitStack() as stack:
            for listing in listings(self._target, options, wanted=self._is_wanted):
                if listing.problem:
                    problems.setdefault(listing.name, listing.problem)
                if listing.read and not listing.rows.num_rows:
                    continue
                alone = not listing.within or listing.within.endswith("/robots.txt")
                indexes[listing.name if alone else listing.within] += 1
                self._add(found, listing, stack)
        found.notes += [f"{name}: {problem}" for name, problem in problems.items()]
        found.site = self._origins.most_common(1)[0][0] if self._origins else ""
        found.index = indexes.most_common(1)[0][0] if indexes else ""
        found.names = self._names(found.index)
        for series in list(found.series.values()):
            if not series.read:
                del found.series[series.name]
                found.notes.append(f"section {series.name} is left out: none of its {series.files:,} files was read")
            elif series.read < series.files:
                found.notes.append(
                    f"section {series.name}: {series.read:,} of {series.files:,} files were read, so that "
                    f"{EXPORTS}/{series.name}.csv.gz has only a part of its URLs"
                )
        return found

    def _is_wanted(self, name: str) -> bool:
        """Whether a file is among the first of its series."""
        kind = re.sub(r"\d+", "0", urlsplit(name).path)
        with self._counting:
            self._wanted[kind] += 1
            return self._wanted[kind] <= _FILES and self._wanted.total() <= _ALL_FILES

    def _add(self, live: Live, listing: Listing, stack: ExitStack) -> None:
        name, template = _series(listing.name)
        self._templates |= {template} if template else set()
        if name not in live.series and len(live.series) >= _SECTIONS:
            name = _OTHERS
        series = live.series.setdefault(name, Series(name))
        series.files += 1
        if not listing.read:
            return
        series.read += 1
        series.urls += listing.rows.num_rows
        for loc in listing.rows.column("loc").slice(0, _ORIGINS).drop_null().to_pylist():
            try:
                self._origins[origin(loc)] += 1
            except ValueError:
                continue
        if name not in self._writers:
            sink = stack.enter_context(pa.output_stream(str(self._scratch / f"{name}.csv.gz"), compression="gzip"))
            self._writers[name] = stack.enter_context(pa.csv.CSVWriter(sink, _LISTED))
        self._writers[name].write_table(self._dated(listing.rows))

    def _dated(self, rows: pa.Table) -> pa.Table:
        """The rows with dates as we write them; what is none is left out."""
        written = column_of(rows.combine_chunks(), "lastmod")
        try:
            found = lastmod.moments(written, name="lastmod", timezone="UTC", read_at=self._now, tally=Tally())
        except InvalidSource:  # numbers
            found = pa.nulls(len(written), pa.int64())
        return pa.table([rows.column("loc"), lastmod.texts(found)], schema=_LISTED)

    def _names(self, index: str) -> dict[str, str]:
        """The names under which the index, and the files where all of them have one form, keep their addresses."""
        names = {}
        base = PurePosixPath(urlsplit(index).path).name if index else ""
        wanted = {"index": base, "file": next(iter(self._templates)) if len(self._templates) == 1 else ""}
        for key, value in wanted.items():
            try:
                made = Names.model_validate({key: value})
            except ValidationError:
                continue
            if made != Names():
                names[key] = value
        return names


def _series(address: str) -> tuple[str, str]:
    """The section that a file makes, by its name, and the form of its name as `names` has it, "" where it has none."""
    base = unquote(PurePosixPath(urlsplit(address).path).name)
    ending = _ENDING.search(base)
    stem = base[: ending.start()] if ending else base
    plain = re.sub(r"([-_.]?\d+)+$", "", stem)
    words = [word for word in re.split(r"[-_. ]+", plain) if word and word.lower() not in _NO_SECTION]
    name = section_name("_".join(words))
    numbers = re.findall(r"\d+", stem)
    whole = rf"(?<![^\W\d_]){re.escape(name)}(?![^\W\d_])"
    if len(numbers) != 1 or len(re.findall(whole, base)) != 1 or numbers[0] in name:
        return name, ""
    (number,) = numbers
    width = f":0{len(number)}" if number.startswith("0") and len(number) > 1 else ""
    return name, re.sub(whole, "{section}", base).replace(number, f"{{number{width}}}")
