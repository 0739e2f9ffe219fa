"""Is an export whole? A look at its files, and what is to be thought of them: whole, not yet, or never.

`see` looks and changes nothing, `judge` decides and looks at nothing; `readiness` does both, and may be asked by a
scheduler as often as it likes. What counts against an export:

- its files, its marker or its manifest are not there, or it is too old;
- a file is newer than the marker: a writer puts the marker last, so the next export has begun;
- beside the files lie names under which writers keep what they have not finished;
- there is neither a marker nor a manifest, and a file changed seconds ago;
- its manifest names a file that is not there, or that has other bytes, another hash or other rows;
- a Parquet file has no footer yet, or all files together have too few rows.
"""

from __future__ import annotations

import hashlib
import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from datetime import datetime, timedelta
from importlib import import_module
from typing import Final, Literal
from urllib.parse import unquote, urlsplit

from sitemap_etl.errors import InvalidSource, Unavailable
from sitemap_etl.frozen import Frozen
from sitemap_etl.settings import CsvExport, JsonlExport, ParquetExport
from sitemap_etl.sources import parquet_footers
from sitemap_etl.sources.files import (
    File,
    NothingFound,
    each,
    everything_in,
    folder_of,
    locate,
    look_at,
    reading,
)
from sitemap_etl.sources.manifests import Listed, Manifest, parse_manifest

SETTLING: Final = 10.0
"""Seconds for which a file must not have changed that nobody vouches for."""
_LEFTOVER: Final = 86_400.0
"""Seconds by which an unfinished file is older than the newest finished one where its writer has long been dead."""
_UNFINISHED: Final = re.compile(
    r"(.*/)?(_temporary|\.(spark|hive)-staging[^/]*)/.*|.*(\.(tmp|temp|part|partial|filepart|inprogress|crdownload)|\._COPYING_)",
    re.IGNORECASE,
)
"""Names of what is being written: by Hadoop and Spark, Hive, Flink, and programs that copy and rename."""
_CHUNK: Final = 1024 * 1024
_OTHER: Final = "one of the two is of another export"

Export = CsvExport | JsonlExport | ParquetExport
Verdict = Literal["whole", "not yet", "never"]


class Expected(Frozen):
    """What is expected of an export; see `settings.Expect`."""

    marker: str | None = None
    manifest: str | None = None
    max_age: timedelta | None = None
    min_rows: int | None = None


class Readiness(Frozen):
    """What is to be thought of an export. `why`: where it is not whole, in words.

    `files`: what is to be read, as it was seen. `rows`: how many rows its manifest promises; None: it does not say.
    `unlisted`: files that are there and that the manifest does not name. `settles`: seconds after which a file that has
    just changed is believed.
    """

    verdict: Verdict
    why: str = ""
    files: tuple[File, ...] = ()
    rows: int | None = None
    unlisted: tuple[str, ...] = ()
    settles: float = 0.0


def version_readiness(name: str, moment: datetime, max_age: timedelta | None, now: datetime) -> Readiness:
    """Whether a version of a table is young enough at this moment. Pure."""
    age = now - moment
    if max_age is None or age <= max_age:
        return Readiness("whole")
    return Readiness("not yet", f"{name} is {_hours(age)} old, and max_age is {_hours(max_age)}")


class Seen(Frozen):
    """What a look found of one path, folder or pattern.

    `around`: every file in its folder, by path; nothing where a single file was asked for. `problem`: why it is not, or
    never can be, whole, as far as looking tells.
    """

    asked: str
    folder: str
    files: tuple[File, ...] = ()
    around: Mapping[str, File] = field(default_factory=dict)
    markers: tuple[File | None, ...] = ()  # of each file
    manifest: tuple[File, Manifest] | None = None
    unlisted: tuple[str, ...] = ()  # files that the manifest does not name
    problem: Readiness | None = None

    def listed(self) -> list[tuple[Listed, File]]:
        """What the manifest says of each file; nothing without one."""
        return [] if self.manifest is None else list(zip(self.manifest[1].files, self.files, strict=True))


def readiness(export: Export, expected: Expected, now: datetime) -> Readiness:
    """Whether the export is whole at this moment. Raises `Refused`, `Unavailable` where it can't be looked at."""
    suffixes: tuple[str, ...] = import_module(f"sitemap_etl.sources.{export.kind}_files").SUFFIXES
    seen = [see(path, suffixes, expected, pays=export.requester_pays) for path in export.paths]
    judged = [judge(one, expected, now) for one in seen]
    doubted = next((one for one in judged if one.verdict != "whole"), None)
    if doubted is not None:
        return doubted
    pairs = [pair for one in seen for pair in one.listed()]
    other = _other_bytes(pairs) or (_other_rows(seen, pairs, expected) if export.kind == "parquet" else None)
    if other is not None:
        return Readiness("not yet", other)
    promised = [None if one.manifest is None else one.manifest[1].rows for one in seen]
    return Readiness(
        "whole",
        files=tuple({file.path: file for one in seen for file in one.files}.values()),
        rows=None if None in promised else sum(rows or 0 for rows in promised),
        unlisted=tuple(path for one in seen for path in one.unlisted),
    )


def see(asked: str, suffixes: tuple[str, ...], expected: Expected, *, pays: bool = False) -> Seen:
    """Look at one path, folder or pattern, its marker and its manifest. `pays`: see `locate`."""
    problem = None
    files: list[File] = []
    try:
        files = locate(asked, suffixes, pays=pays)
    except NothingFound as error:
        problem = Readiness("not yet", str(error))
    except InvalidSource as error:
        return Seen(asked, "", problem=Readiness("never", str(error)))
    folder = folder_of(asked, files)
    single = [file.path for file in files] == [asked]
    around = {} if single else {file.path: file for file in everything_in(folder, pays=pays)}
    seen = Seen(asked, folder, tuple(files), around, problem=problem)
    if expected.manifest is not None:
        seen = _with_manifest(seen, _placed(expected.manifest, folder), pays=pays)
    if expected.marker is not None and seen.problem is None:
        marker = expected.marker
        seen = replace(seen, markers=tuple(_marker_of(seen, file, marker, pays=pays) for file in seen.files))
    return seen


def judge(seen: Seen, expected: Expected, now: datetime) -> Readiness:
    """What is to be thought of what was seen, as far as names, sizes and times tell. Pure."""
    if seen.problem is not None:
        return seen.problem
    newest = max(seen.files, key=lambda file: file.modified)
    vouching = [marker for marker in seen.markers if marker is not None]
    if seen.manifest is not None and expected.marker is None:
        vouching = [seen.manifest[0]]
    oldest = min(vouching, key=lambda file: file.modified, default=newest)
    marked = oldest.modified if expected.marker is not None else None
    why = _unmarked(seen, expected) or _unfinished(seen, newest.modified, marked) or _unlike(seen)
    if why is not None:
        return Readiness("not yet", why)
    age = now.timestamp() - oldest.modified
    if expected.max_age is not None and age > expected.max_age.total_seconds():
        what = oldest.path if vouching else f"{oldest.path}, its newest file,"
        return Readiness("not yet", f"{what} is {_hours(age)} old, and max_age is {_hours(expected.max_age)}")
    since = now.timestamp() - newest.modified
    if not vouching and 0 <= since < SETTLING:
        why = f"{newest.path} changed {since:.0f} seconds ago: it may still be being written"
        return Readiness("not yet", why, settles=SETTLING - since)
    return Readiness("whole", files=seen.files)


def _unmarked(seen: Seen, expected: Expected) -> str | None:
    """What is wrong with the markers of the files; None where nothing is, or none is expected."""
    for file, marker in zip(seen.files, seen.markers, strict=False):
        if marker is None:
            return f"{file.path} has no marker {expected.marker} beside it or above it"
        if file.modified > marker.modified:
            return (
                f"{file.path} is newer than the marker {marker.path}: the next export is being written, or its writer "
                "puts the marker before the files"
            )
    return None


def _unlike(seen: Seen) -> str | None:
    """Which file has other bytes than its manifest says; None where none has."""
    for listed, file in seen.listed():
        if listed.bytes is not None and listed.bytes != file.size:
            return f"{file.path} has {file.size:,} bytes, and its manifest says {listed.bytes:,}: {_OTHER}"
    return None


def _with_manifest(seen: Seen, path: str, *, pays: bool) -> Seen:
    """What was seen, with the files that the manifest names in the place of those that were found."""
    file = seen.around.get(path) or look_at(path, pays=pays)
    if file is None:
        return replace(seen, problem=Readiness("not yet", f"its manifest {path} is not there"))
    with reading(file, stream=True) as stream:
        data = stream.read()
    try:
        manifest = parse_manifest(data, path)
    except Unavailable as error:
        return replace(seen, problem=Readiness("not yet", str(error)))
    except InvalidSource as error:
        return replace(seen, problem=Readiness("never", str(error)))
    folder = f"{path.rpartition('/')[0]}/"
    known = {**seen.around, **{one.path: one for one in seen.files}}
    files = each(lambda listed: _named(listed, folder, known, pays=pays), manifest.files)
    missing = [listed.name for listed, found in zip(manifest.files, files, strict=True) if found is None]
    if missing:
        why = f"not all of the {len(files):,} files that {path} names are there: {_some(missing)}"
        return replace(seen, problem=Readiness("not yet", why))
    named = tuple(one for one in files if one is not None)
    unlisted = tuple(sorted({one.path for one in seen.files} - {one.path for one in (*named, file)}))
    return replace(seen, files=named, manifest=(file, manifest), unlisted=unlisted, problem=None)


def _named(listed: Listed, folder: str, known: Mapping[str, File], *, pays: bool) -> File | None:
    """The file that an element of a manifest names: an address, or a path in its folder, or else the end of one."""
    path = _placed(listed.name, folder)
    found = known.get(path)
    if found is None and (_is_full(listed.name) or not path.startswith(folder)):
        return look_at(path, pays=pays)
    if found is None:
        ending = [one for one in known.values() if one.path.endswith(f"/{path.removeprefix(folder)}")]
        found = ending[0] if len(ending) == 1 else None
    return found


def _is_full(name: str) -> bool:
    return "://" in name or name.startswith("/")


def _placed(name: str, folder: str) -> str:
    """The address of what is called so in a folder: as listings of files spell it, without `./` and `../`."""
    if name.startswith("file://"):
        return unquote(urlsplit(name).path)
    if _is_full(name):
        return name
    plain = posixpath.normpath(name)
    if not plain.startswith("../"):
        return f"{folder}{plain}"
    scheme, mark, place = folder.rpartition("://")
    return f"{scheme}{mark}{posixpath.normpath(place + plain)}"


def _marker_of(seen: Seen, file: File, marker: str, *, pays: bool) -> File | None:
    """The marker in the file's folder or the nearest above it, up to the folder that was asked for."""
    if _is_full(marker) or not seen.around:
        return look_at(_placed(marker, seen.folder), pays=pays)
    folder = file.path.rpartition("/")[0]
    while f"{folder}/".startswith(seen.folder):
        found = seen.around.get(f"{folder}/{marker}")
        if found is not None:
            return found
        folder = folder.rpartition("/")[0]
    return None


def _unfinished(seen: Seen, newest: float, marked: float | None) -> str | None:
    """What says that a writer has not finished; None where nothing does, or where it is long dead."""
    for file in seen.around.values():
        if _UNFINISHED.fullmatch(file.path[len(seen.folder) :]) is None:
            continue
        left = file.modified <= marked if marked is not None else file.modified < newest - _LEFTOVER
        if not left:
            return f"{file.path} is there: the export is still being written"
    return None


def _other_bytes(pairs: Sequence[tuple[Listed, File]]) -> str | None:
    """What is wrong where a file has another hash than its manifest says; every byte is read. None: nothing."""
    hashed = [pair for pair in pairs if pair[0].hash is not None]
    for (listed, file), digest in zip(hashed, each(_digest, hashed), strict=True):
        assert listed.hash is not None
        algorithm, expected = listed.hash
        if digest != expected:
            return f"the {algorithm} of {file.path} is {digest}, and its manifest says {expected}: {_OTHER}"
    return None


def _digest(pair: tuple[Listed, File]) -> str:
    listed, file = pair
    assert listed.hash is not None
    if listed.hash[0] == "md5" and re.fullmatch(r'"[0-9a-f]{32}"', file.mark):
        return file.mark.strip('"')  # the ETag of an object that was put in one piece
    digest = hashlib.new(listed.hash[0], usedforsecurity=False)
    with reading(file, stream=True) as stream:
        while chunk := stream.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def _other_rows(seen: Sequence[Seen], pairs: Sequence[tuple[Listed, File]], expected: Expected) -> str | None:
    """What is wrong where the footers of Parquet files have other rows than expected. None: nothing."""
    files = [file for one in seen for file in one.files]
    try:
        counted = {export.file.path: sum(rows for rows, _ in export.groups) for export in parquet_footers.look(files)}
    except InvalidSource as error:
        return str(error)
    for listed, file in pairs:
        if listed.rows is not None and listed.rows != counted[file.path]:
            return f"{file.path} has {counted[file.path]:,} rows, and its manifest says {listed.rows:,}: {_OTHER}"
    total = sum(counted.values())
    if expected.min_rows is not None and total < expected.min_rows:
        return too_few_rows(total, expected.min_rows)
    return None


def too_few_rows(rows: int, least: int) -> str:
    """What is said of a source with too few rows."""
    return f"it has {rows:,} rows, and min_rows is {least:,}"


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - 1:,} more" if len(names) > 1 else ""
    return f"{names[0]}{more}"


def _hours(span: float | timedelta) -> str:
    """A span in words: seconds, or as it was written."""
    seconds = span.total_seconds() if isinstance(span, timedelta) else span
    return f"{seconds / 3600:,.0f} hours" if seconds >= 7200 else f"{seconds / 60:,.0f} minutes"
