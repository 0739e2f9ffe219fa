"""Decide if an export is complete: whole, not yet, or never.

`see` examines files and decides nothing. `judge` decides and examines nothing. `readiness` does both, and a scheduler
can call it as often as it wants. These count against an export:

- Its files, its marker or its manifest are missing, or it is too old.
- A file is newer than the marker. Writers put the marker last, so the next export has begun.
- Beside the files are names that writers use for unfinished files.
- There is neither a marker nor a manifest, and a file changed seconds ago.
- Its manifest names a missing file, or one with another size, hash or number of rows.
- A Parquet file has no footer yet, or all files together have too few rows.
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
from sitemap_etl.sources.files import parquet_footers
from sitemap_etl.sources.files.files import File, NothingFound, each, everything_in, folder_of, locate, look_at, reading
from sitemap_etl.sources.files.manifests import Listed, Manifest, parse_manifest

SETTLING: Final = 10.0
"""Seconds that a file must be unchanged if neither a marker nor a manifest confirms it."""
_LEFTOVER: Final = 86_400.0
"""Seconds by which an abandoned unfinished file is older than the newest finished one."""
_UNFINISHED: Final = re.compile(
    r"(.*/)?(_temporary|\.(spark|hive)-staging[^/]*)/.*|.*(\.(tmp|temp|part|partial|filepart|inprogress|crdownload)|\._COPYING_)",
    re.IGNORECASE,
)
"""Names of unfinished files of Hadoop, Spark, Hive and Flink, and of programs that copy and rename."""
_CHUNK: Final = 1024 * 1024
_OTHER: Final = "one of the two is of another export"

Export = CsvExport | JsonlExport | ParquetExport
Verdict = Literal["whole", "not yet", "never"]


class Expected(Frozen):
    """Expectations of an export; see `settings.Expect`."""

    marker: str | None = None
    manifest: str | None = None
    max_age: timedelta | None = None
    min_rows: int | None = None


class Readiness(Frozen):
    """Decision about an export. `why`: the reason if it is not whole.

    `files`: files to read, as found. `rows`: rows that its manifest promises, or None. `unlisted`: files that exist but
    are not in the manifest. `settles`: seconds until a recently changed file is accepted.
    """

    verdict: Verdict
    why: str = ""
    files: tuple[File, ...] = ()
    rows: int | None = None
    unlisted: tuple[str, ...] = ()
    settles: float = 0.0


def version_readiness(name: str, moment: datetime, max_age: timedelta | None, now: datetime) -> Readiness:
    """Decide if a version of a table is recent enough. Pure."""
    age = now - moment
    if max_age is None or age <= max_age:
        return Readiness("whole")
    return Readiness("not yet", f"{name} is {_hours(age)} old, and max_age is {_hours(max_age)}")


class Seen(Frozen):
    """Findings about one path, folder or pattern.

    `around`: every file in its folder by path; empty for a single file. `problem`: reason why it isn't or can't be
    whole, as far as files tell.
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
        """Return each manifest entry with its file. Empty without a manifest."""
        return [] if self.manifest is None else list(zip(self.manifest[1].files, self.files, strict=True))


def readiness(export: Export, expected: Expected, now: datetime) -> Readiness:
    """Decide if the export is whole at this moment. Raise Refused or Unavailable if it can't be examined."""
    suffixes: tuple[str, ...] = import_module(f"sitemap_etl.sources.files.{export.kind}_files").SUFFIXES
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
    """Examine one path, folder or pattern, its marker and its manifest. `pays`: see `locate`."""
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
    """Decide from names, sizes and times. Pure."""
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
    """Return the problem with the files' markers, or None."""
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
    """Return the first file with another size than in its manifest as a problem, or None."""
    for listed, file in seen.listed():
        if listed.bytes is not None and listed.bytes != file.size:
            return f"{file.path} has {file.size:,} bytes, and its manifest says {listed.bytes:,}: {_OTHER}"
    return None


def _with_manifest(seen: Seen, path: str, *, pays: bool) -> Seen:
    """Return the findings with the manifest's files instead of the found ones."""
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
    """Return the file of a manifest entry: an address, a path in its folder, or the end of a path."""
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
    """Return the address of a name in a folder, without `./` and `../`, as listings have it."""
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
    """Return the marker in the file's folder or the nearest parent, up to the folder in the site file."""
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
    """Return the sign of an unfinished writer as a problem, or None. Abandoned files don't count."""
    for file in seen.around.values():
        if _UNFINISHED.fullmatch(file.path[len(seen.folder) :]) is None:
            continue
        left = file.modified <= marked if marked is not None else file.modified < newest - _LEFTOVER
        if not left:
            return f"{file.path} is there: the export is still being written"
    return None


def _other_bytes(pairs: Sequence[tuple[Listed, File]]) -> str | None:
    """Return the first file with another hash than in its manifest as a problem, or None. Reads every byte."""
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
        return file.mark.strip('"')  # ETag of an object that was uploaded in one part
    digest = hashlib.new(listed.hash[0], usedforsecurity=False)
    with reading(file, stream=True) as stream:
        while chunk := stream.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def _other_rows(seen: Sequence[Seen], pairs: Sequence[tuple[Listed, File]], expected: Expected) -> str | None:
    """Return unexpected row counts in the footers of Parquet files as a problem, or None."""
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
    """Return the message for a source with too few rows."""
    return f"it has {rows:,} rows, and min_rows is {least:,}"


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - 1:,} more" if len(names) > 1 else ""
    return f"{names[0]}{more}"


def _hours(span: float | timedelta) -> str:
    """Return a duration as text, from seconds or a timedelta."""
    seconds = span.total_seconds() if isinstance(span, timedelta) else span
    return f"{seconds / 3600:,.0f} hours" if seconds >= 7200 else f"{seconds / 60:,.0f} minutes"
