"""The extract stage: read each split of a section's source into raw rows.

The splits of a Parquet export are its own files and row groups: transform reads them, and nothing is copied. All other
sources are staged as Parquet, so that each try of transform reads the same bytes.
"""

from __future__ import annotations

import re
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sitemap_etl import limits, sources
from sitemap_etl.arrow import grouped
from sitemap_etl.config import DatabaseSource, Section, Site, TableSource
from sitemap_etl.errors import InvalidSource, Refused, SitemapEtlError, Unavailable, it_has, of_ours
from sitemap_etl.frames import Tally
from sitemap_etl.partition import Routed
from sitemap_etl.sources import File, Session, SharedSnapshot, Split
from sitemap_etl.sources.lake import lake
from sitemap_etl.stages.parameters import BEGINNING, params_of, planned_params, unspoken
from sitemap_etl.stages.rules import rules_of
from sitemap_etl.stages.run import Environment, Run
from sitemap_etl.stages.spool import SpoolWriter
from sitemap_etl.stages.tables import asked_of, wanted_columns
from sitemap_etl.state import layout
from sitemap_etl.state.checked import open_checked, put_checked
from sitemap_etl.state.mirror import KEY, RUN, SLOTS, key_text, slots
from sitemap_etl.state.records import Extracted, FileLines, Reading, Spool, Unit

_FLUSH_ROWS: Final = 1_000_000
_FLUSH_BYTES: Final = 192 * 1024 * 1024
_MESSAGE_ROWS: Final = 4_096
"""Smallest number of rows per message, if there are enough rows."""


def plan_splits(
    section: Section,
    site: Site,
    environment: Environment,
    *,
    now: datetime,
    since: datetime,
    split_rows: int,
    files: Sequence[File] | None = None,
    warn: Callable[[str], None] | None = None,
) -> list[Split]:
    """Return the splits of a section's source. Log files in its folders that are not read. Raises as the source.

    `files`: those of an export, if they were listed before. `warn` takes what is wrong with single files.
    """
    source = section.source

    def note(text: str) -> None:
        environment.log(f"section {section.name}: {text}")

    if isinstance(source, DatabaseSource):
        split = (source.split.column, source.split.parts) if source.split else None
        bounds_from = source.split.bounds_from if source.split else None
        with unspoken(source, environment):
            return sources.plan_database(
                environment.connection(source.database),
                source.query,
                params=params_of(source, site, environment, now, since),
                split=split,
                bounds_from=bounds_from,
                session=session_of(site, section, source, "plan"),
                label=label_of(source),
            )
    if isinstance(source, TableSource):
        asked = asked_of(section, site, environment, now)
        with unspoken(source, environment):
            return lake.plan_table(lake.find_table(asked), asked, split_rows=split_rows)
    needed = _needed(section, site, now, warn or note)
    if source.query is None:
        splits = sources.plan_export(source, split_rows=split_rows, note=note, needed=needed, files=files)
        _check_repeated(section, site, now, splits)
        return splits
    with unspoken(source, environment):
        params = params_of(source, site, environment, now, since)
        return sources.plan_query(
            source.all_tables,
            source.query,
            params=params,
            files=files,
            note=note,
            needed=needed,
            label="query",
        )


def _needed(section: Section, site: Site, now: datetime, warn: Callable[[str], None]) -> sources.Needed:
    """Return the columns of an export that have a meaning in a section."""
    rules = rules_of(site, section, now, None)
    ruled = frozenset({*rules.names(), *re.findall(r"\w+", section.where or "")})
    address = frozenset({section.columns.get("loc", "loc")})
    return sources.Needed(address, ruled, every=rules.hook is not None, warn=warn)


def _check_repeated(section: Section, site: Site, now: datetime, splits: Sequence[Split]) -> None:
    """Raise `InvalidSource` if a rule reads a column whose name several columns of a file have."""
    repeated = splits[0].detail.get("repeated", {}) if splits else {}
    if not repeated:
        return
    read = set(rules_of(site, section, now, None).names())
    where = set(re.findall(r"\w+", section.where or ""))
    name = next((name for name in repeated if name in read or set(re.findall(r"\w+", name)) <= where), None)
    if name is not None:
        raise InvalidSource(
            f"{repeated[name]}: the first row names the column {name!r} more than once, and a rule reads it: give each "
            "of them a name of its own"
        )


def read_schema(
    section: Section,
    source: DatabaseSource,
    splits: Sequence[Split],
    site: Site,
    environment: Environment,
    *,
    now: datetime,
    since: datetime,
) -> pa.Schema:
    """Return the columns of these splits of a database. Raises errors of the source."""
    if splits and "types" in splits[0].detail:  # SQLite: planning found the types over all rows
        return pa.schema([(name, _TYPES[kind]) for name, kind in splits[0].detail["types"].items()])
    params = params_of(source, site, environment, now, since)
    connection = environment.connection(source.database)
    with unspoken(source, environment):
        session = session_of(site, section, source, "plan")
        return sources.probe_database(connection, source.query, params=params, session=session, label=label_of(source))


_TYPES: Final = {
    "int64": pa.int64(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "null": pa.null(),
}


def session_of(
    site: Site, section: Section, source: DatabaseSource, part: str, stopping: threading.Event | None = None
) -> Session:
    """Return the settings of a session with a source. `part`: text for its name. `stopping`: see `Run.stopping`."""
    return Session(
        name=f"sitemap_etl {site.name} {section.name} {part}",
        timeout=source.timeout,
        lock_timeout=source.lock_timeout,
        fetch_rows=source.fetch_rows,
        stopping=stopping or threading.Event(),
    )


def label_of(source: DatabaseSource) -> str:
    """Return the name of a database source for messages: its connection and the file of its SELECT."""
    return source.database if source.sql is None else f"{source.database} ({Path(source.sql).name})"


def reads_changes_only(section: Section, environment: Environment) -> bool:
    """Return True if the section's SELECT uses `:since`, so that rows which it does not return are unchanged."""
    source = section.source
    return isinstance(source, DatabaseSource) and "since" in sources.named_parameters(
        environment.connection(source.database), source.query
    )


def extract_split(run: Run, n: int, *, final: bool = True) -> Extracted:
    """Extract unit `n` of the plan. Return its task result.

    `final`: no other attempt follows, so that a section with `on_error: keep` is held now. Otherwise
    Unavailable is raised for the next attempt.
    """
    name = layout.extract(n)
    done = run.receipt(name, Extracted)
    if done is not None:
        return done
    unit = run.plan.units[n]
    section = run.site.sections[unit.section]
    try:
        if unit.section in run.plan.readings:
            receipt = _routed(run, n, unit, run.plan.readings[unit.section])
        elif unit.split.kind == "parquet":
            receipt = _referred(run, unit.split)
        else:
            receipt = _copied(run, n, unit)
    except SitemapEtlError as error:
        if holds(section, error, final=final):
            return run.leave(name, Extracted(held=without_section(section.name, error)))
        if isinstance(error, InvalidSource):
            raise InvalidSource(with_section(section.name, str(error))) from error
        raise
    return run.leave(name, receipt)


def holds(section: Section, error: SitemapEtlError, *, final: bool) -> bool:
    """Return True if the section is kept as in the last release after this error of its source.

    `final`: no other try follows that could succeed. An error of sitemap_etl's own files affects all sections, so no
    section is kept for it, nor for a lack of memory.
    """
    return section.on_error == "keep" and not error.ours and (final or isinstance(error, (InvalidSource, Refused)))


def with_section(section: str, text: str) -> str:
    """Return the text of an error of a section, beginning with its name."""
    known = text.startswith((f"section {section}:", f"sections.{section}."))
    return text if known else f"section {section}: {text}"


def without_section(section: str, error: Exception) -> str:
    """Return the text of an error of a section for a message that names the section itself."""
    return str(error).removeprefix(f"section {section}: ")


def _referred(run: Run, split: Split) -> Extracted:
    """Return a Parquet export's task result: its rows are counted, and transform reads them from the export."""
    assert split.rows is not None
    return Extracted(rows=split.rows, read_at=run.read_moment().isoformat())


@contextmanager
def _scratch(unit: Unit) -> Iterator[Path]:
    """Yield a folder for the rows of a task until they are staged. Raise Unavailable if the disk is full."""
    try:
        with tempfile.TemporaryDirectory(prefix="sitemap_etl-") as folder:
            yield Path(folder)
    except OSError as error:
        with of_ours():
            raise Unavailable(
                f"{unit.label}: its rows can't be staged in {tempfile.gettempdir()}: {error}. Make room there, or set "
                "TMPDIR to a folder with more, and run again"
            ) from error


def _copied(run: Run, n: int, unit: Unit) -> Extracted:
    """Read the split once and stage it as Parquet."""
    section = run.site.sections[unit.section]
    key = f"{run.attempt(layout.extract(n))}.parquet"
    lines = sources.LineNumbers() if unit.split.kind in ("csv", "jsonl") else None
    notices = Tally()
    rows = 0
    with _scratch(unit) as scratch:
        path = scratch / "raw.parquet"
        writer: pq.ParquetWriter | None = None
        try:
            for batch in _batches(run, unit.split, section, notices, lines):
                if writer is None:
                    writer = pq.ParquetWriter(path, batch.schema, compression="lz4", use_dictionary=False)
                writer.write_batch(batch)
                rows += batch.num_rows
                run.environment.advance("extract", rows, 0)
                if run.options.limit is not None and rows >= run.options.limit:
                    break
            if writer is None:
                writer = pq.ParquetWriter(path, columns_of_unit(run, unit), compression="lz4")
        finally:
            if writer is not None:
                writer.close()
        raw = put_checked(run.staging, key, path)
    files = tuple(FileLines(*file) for file in lines.files) if lines is not None and lines.known else ()
    return Extracted(rows=rows, lines=files, raw=raw, read_at=run.read_moment().isoformat(), notices=notices)


def _routed(run: Run, n: int, unit: Unit, reading: Reading) -> Extracted:
    """Read the split once and stage it by slot of the rows' keys, for merge."""
    name = layout.extract(n)
    notices = Tally()
    rows = 0
    with _scratch(unit) as scratch:
        keyed = _Keyed(reading.key, scratch / "spool")
        for batch in _batches(run, unit.split, run.site.sections[unit.section], notices):
            keyed.add(pa.Table.from_batches([batch]))
            rows += batch.num_rows
            run.environment.advance("extract", rows, 0)
        if not rows:
            keyed.add(columns_of_unit(run, unit).empty_table())
        spool = keyed.finish(run, f"{run.attempt(name)}.spool")
    return Extracted(rows=rows, spool=spool, read_at=run.read_moment().isoformat(), notices=notices)


def check_key(names: Sequence[str], key: str) -> None:
    """Raise InvalidSource if a mirror can't hold these columns of a source by this key."""
    if key not in names:
        raise InvalidSource(f"key names column {key!r}, which the source does not yield. {it_has(names, key)}")
    taken = [name for name in (KEY, RUN) if name in names]
    if taken:
        raise InvalidSource(f"the source yields a column {taken[0]!r}: such names are kept for mirrors")


class _Keyed:
    """Writer of rows to a shuffle file by key slot."""

    def __init__(self, key: str, path: Path) -> None:
        self.key = key
        self.path = path
        self.writer: SpoolWriter | None = None
        self.pending: list[pa.Table] = []
        self.rows = self.bytes = 0

    def add(self, rows: pa.Table) -> None:
        check_key(rows.column_names, self.key)
        self.pending.append(rows.append_column(KEY, key_text(rows.column(self.key), self.key)))
        self.rows += rows.num_rows
        self.bytes += rows.nbytes
        if self.rows >= _FLUSH_ROWS or self.bytes >= _FLUSH_BYTES:
            self._flush()

    def _flush(self) -> None:
        if not self.pending:
            return
        table = pa.concat_tables(self.pending).combine_chunks()
        self.pending, self.rows, self.bytes = [], 0, 0
        if self.writer is None:
            self.writer = SpoolWriter(self.path, table.schema, SLOTS)
        # Few rows make few messages, each for neighboring slots, because every message has a cost.
        parts = min(SLOTS, 1 << max(0, (table.num_rows // _MESSAGE_ROWS).bit_length() - 1))
        part = slots(table.column(KEY)).astype(np.int64) * parts // SLOTS
        order, starts = grouped(part, parts)
        self.writer.write(Routed(table.take(pa.array(order)).combine_chunks(), starts), spread=SLOTS // parts)

    def finish(self, run: Run, key: str) -> Spool:
        self._flush()
        assert self.writer is not None
        return self.writer.put(run.staging, key)


def incremental_keys(run: Run, section: Section, split: Split, since: datetime) -> Iterator[pa.Array]:
    """Yield the keys of the rows that an incremental read of a split yields, as text."""
    for batch in _read_database(run, section, split, since, Tally()):
        key = run.plan.readings[section.name].key
        if key in batch.schema.names:
            yield key_text(batch.column(key), key)


def columns_of_unit(run: Run, unit: Unit) -> pa.Schema:
    """Return the columns of a unit. A database is asked for them. Raises the errors of the source."""
    section = run.site.sections[unit.section]
    if isinstance(section.source, DatabaseSource):
        return _schema(run, section)
    found = sources.columns(unit.split)
    wanted = _columns_of_table(run, unit.split, section)
    return found if wanted is None else pa.schema([found.field(name) for name in wanted])


def _columns_of_table(run: Run, split: Split, section: Section) -> list[str] | None:
    """Return the columns that are read of a table; None: all, and of any other source."""
    if not isinstance(section.source, TableSource):
        return None
    return wanted_columns(run.site, section, run.now, sources.columns(split))


def _since(run: Run, section: str) -> datetime:
    reading = run.plan.readings.get(section)
    return BEGINNING if reading is None else datetime.fromisoformat(reading.since)


def _schema(run: Run, section: Section) -> pa.Schema:
    source = section.source
    assert isinstance(source, DatabaseSource)
    params = planned_params(run, section, source, _since(run, section.name))
    connection = run.environment.connection(source.database)
    with unspoken(source, run.environment):
        session = session_of(run.site, section, source, "columns", run.stopping)
        return sources.probe_database(connection, source.query, params=params, session=session, label=label_of(source))


def _batches(
    run: Run, split: Split, section: Section, notices: Tally, lines: sources.LineNumbers | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a split. `notices` takes the messages of a database on them."""
    if isinstance(section.source, DatabaseSource):
        return _read_database(run, section, split, _since(run, section.name), notices)
    if split.kind in ("query", "table"):
        return _read_query(run, section, split)
    return sources.read(split, lines=lines)


def _read_query(run: Run, section: Section, split: Split) -> Iterator[pa.RecordBatch]:
    source = section.source
    with unspoken(source, run.environment):
        params = planned_params(run, section, source, BEGINNING)
        yield from sources.read(split, columns=_columns_of_table(run, split, section), params=params)


def _read_database(
    run: Run, section: Section, split: Split, since: datetime, notices: Tally
) -> Iterator[pa.RecordBatch]:
    source = section.source
    assert isinstance(source, DatabaseSource)
    shared = run.snapshots.get(source.database)
    of_section = [unit.split for unit in run.plan.units if unit.section == section.name]
    part = f"{of_section.index(split) + 1}/{len(of_section)}"
    with unspoken(source, run.environment):
        yield from sources.read(
            split,
            connection=run.environment.connection(source.database),
            query=source.query,
            params=planned_params(run, section, source, since),
            session=replace(session_of(run.site, section, source, part, run.stopping), notice=notices.add),
            snapshot=None if shared is None else shared.name(),
            dates={section.columns.get(name, name) for name in section.dates} - {source.key, source.deleted},
            batch_rows=limits.STAGED_ROWS,
            batch_bytes=limits.STAGED_BYTES,
        )


def lanes(run: Run) -> dict[int, tuple[str, int]]:
    """Return connection and number of parallel reads for each unit of extract whose connection has a limit.

    If several sections share a connection, the smallest `max_parallel` applies.
    """
    width: dict[str, int] = {}
    for section in run.site.sections.values():
        source = section.source
        if isinstance(source, DatabaseSource) and source.max_parallel is not None:
            width[source.database] = min(source.max_parallel, width.get(source.database, source.max_parallel))
    found: dict[int, tuple[str, int]] = {}
    for n, unit in enumerate(run.plan.units):
        source = run.site.sections[unit.section].source
        if isinstance(source, DatabaseSource) and source.database in width:
            found[n] = source.database, width[source.database]
    return found


@contextmanager
def one_moment(run: Run) -> Iterator[None]:
    """Read each connection that the plan names from one snapshot, until the end of the block."""
    for section in map(run.site.sections.__getitem__, run.read_sections()):
        source = section.source
        if isinstance(source, DatabaseSource) and source.database in {*run.plan.snapshots} - {*run.snapshots}:
            connection = run.environment.connection(source.database)
            session = session_of(run.site, section, source, "snapshot", run.stopping)
            run.snapshots[source.database] = SharedSnapshot(connection, session, label=source.database)
    try:
        yield
    finally:
        for shared in run.snapshots.values():
            shared.close()
        run.snapshots = {}


def read_raw(
    run: Run, n: int, columns: Sequence[str] | None, batch_rows: int = limits.BATCH_ROWS
) -> tuple[list[str], Iterator[pa.RecordBatch]]:
    """Return the columns of unit `n`'s source, and its raw rows in batches. `columns`: those the rules need; None: all.

    If the rows have lines, `sources.LINES` is among the columns of the batches.
    """
    receipt = run.extracted(n)
    split = run.plan.units[n].split
    if receipt.raw is None:
        names = sources.columns(split).names
        return names, sources.read(split, columns=_wanted(names, columns), batch_rows=batch_rows)
    file = pq.ParquetFile(pa.PythonFile(open_checked(run.staging, receipt.raw), mode="r"))
    names = [name for name in file.schema_arrow.names if name != sources.LINES]
    wanted = _wanted(names, columns)
    if wanted is not None and receipt.lines:
        wanted.append(sources.LINES)
    return names, _staged_batches(file, wanted)


def _staged_batches(file: pq.ParquetFile, columns: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a staged file by row group: over several row groups at once, pyarrow 26 holds more and more
    memory.
    """
    for group in range(file.num_row_groups):
        yield from file.iter_batches(limits.STAGED_ROWS, row_groups=[group], columns=columns, use_threads=False)


def _wanted(names: Sequence[str], columns: Sequence[str] | None) -> list[str] | None:
    """Return the needed columns that the source has, or the first one, because rows have to be counted."""
    if columns is None:
        return None
    return [name for name in names if name in columns] or list(names[:1])
