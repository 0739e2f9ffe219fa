"""The extract stage: a section's source to raw rows, split by split.

An export in Parquet is its own splits: it is referred to, not copied. Everything else becomes Parquet
in the run's staging, so that transform reads the same bytes however often it is tried.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sitemap_etl import limits, sources
from sitemap_etl.config import CsvSource, DatabaseSource, Section, Site
from sitemap_etl.errors import InvalidSource, Refused, SitemapEtlError, Unavailable
from sitemap_etl.sources import Split
from sitemap_etl.stages.run import Environment, Run

GUESSES: Final = 2_000
"""Raw locs that a split's receipt holds at most: borders of a first night are guessed from them."""


def plan_splits(
    section: Section, site: Site, environment: Environment, *, now: datetime, since: datetime, split_rows: int
) -> list[Split]:
    """The splits of a section's source. Raises what the source raises."""
    source = section.source
    if isinstance(source, DatabaseSource):
        split = (source.split.column, source.split.parts) if source.split else None
        return sources.plan_database(
            uri_of(source, environment),
            source.query,
            params=params_of(source, site, now, since),
            split=split,
            label=_label(source),
        )
    if isinstance(source, CsvSource):
        if source.query is not None:
            return sources.plan_query("csv", source.csv, source.query, delimiter=source.delimiter, label=section.name)
        return sources.plan_csv(source.csv, delimiter=source.delimiter)
    if source.query is not None:
        return sources.plan_query("parquet", source.parquet, source.query, label=section.name)
    return sources.plan_parquet(source.parquet, split_rows=split_rows)


def _label(source: DatabaseSource) -> str:
    """What messages call a database source: its connection and the file of its SELECT."""
    return source.database if source.sql_path is None else f"{source.database} ({Path(source.sql_path).name})"


def uri_of(source: DatabaseSource, environment: Environment) -> str:
    """The URI of a section's database."""
    connections = environment.connections or sources.environment_connections(environment.environ)
    return connections(source.database)


def params_of(source: DatabaseSource, site: Site, now: datetime, since: datetime) -> dict[str, Any]:
    """The values bound to a SELECT. Those the person named come last: they may not take our names."""
    return {**source.params, "now": now, "since": since, "site": site.site}


def reads_changes_only(section: Section, environment: Environment) -> bool:
    """Whether the section's SELECT names `:since`: the rows it does not yield are as they were."""
    source = section.source
    return isinstance(source, DatabaseSource) and "since" in sources.named_parameters(
        uri_of(source, environment), source.query
    )


def extract_split(run: Run, n: int, *, final: bool = True) -> dict[str, Any]:
    """Extract unit `n` of the plan; gives its receipt.

    `final`: no other attempt follows, so that a section with `on_error: keep` is kept now. Otherwise
    Unavailable is raised for the next attempt.
    """
    name = f"extract/{n}"
    done = run.receipt(name)
    if done is not None:
        return done
    unit = run.plan.units[n]
    section = run.site.sections[unit["section"]]
    split = Split.from_json(unit["split"])
    try:
        receipt = _referred(run, split, section) if split.kind == "parquet" else _copied(run, n, split)
    except SitemapEtlError as error:
        if section.on_error == "keep" and (final or isinstance(error, (InvalidSource, Refused))):
            return run.leave(name, {"kept": str(error)})
        if isinstance(error, Unavailable) or not isinstance(error, InvalidSource):
            raise
        raise InvalidSource(named(section, error)) from error
    return run.leave(name, receipt)


def named(section: Section, error: Exception) -> str:
    """The error's text, with the section it is of."""
    text = str(error)
    known = text.startswith((f"section {section.name}:", f"sections.{section.name}."))
    return text if known else f"section {section.name}: {text}"


def _referred(run: Run, split: Split, section: Section) -> dict[str, Any]:
    """A Parquet export's receipt: its rows are known, and a first batch tells of its locs."""
    assert split.rows is not None
    source_loc = section.columns.get("loc", "loc")
    guesses: list[str] = []
    if split.rows and source_loc in sources.columns(split).names:
        batch = next(sources.read(split, columns=[source_loc], batch_rows=200_000), None)
        if batch is not None:
            guesses = _guesses(batch.column(0), GUESSES)
    return {"rows": split.rows, "raw": None, "guesses": guesses, "read_at": run.environment.clock().isoformat()}


def _copied(run: Run, n: int, split: Split) -> dict[str, Any]:
    """Read the split once and stage it as Parquet."""
    section = run.site.sections[run.plan.units[n]["section"]]
    source_loc = section.columns.get("loc", "loc")
    key = f"{run.attempt(f'extract/{n}')}.parquet"
    rows = 0
    guesses: list[str] = []
    with tempfile.TemporaryDirectory(prefix="sitemap_etl-") as scratch:
        path = Path(scratch) / "raw.parquet"
        writer: pq.ParquetWriter | None = None
        try:
            for batch in _batches(run, split, section):
                if writer is None:
                    writer = pq.ParquetWriter(path, batch.schema, compression="lz4", use_dictionary=False)
                writer.write_batch(batch)
                rows += batch.num_rows
                if source_loc in batch.schema.names:
                    guesses += _guesses(batch.column(source_loc), GUESSES // 4)
                run.environment.advance("extract", rows, 0)
                if run.options.limit is not None and rows >= run.options.limit:
                    break
            if writer is None:
                writer = pq.ParquetWriter(path, _schema(run, split, section), compression="lz4")
        finally:
            if writer is not None:
                writer.close()
        run.staging.put(key, path)
    return {"rows": rows, "raw": key, "guesses": _thinned(guesses), "read_at": run.environment.clock().isoformat()}


def _schema(run: Run, split: Split, section: Section) -> pa.Schema:
    """The columns of a split that yielded no row."""
    source = section.source
    if not isinstance(source, DatabaseSource):
        return sources.columns(split)
    since = datetime.fromisoformat(run.plan.read_since[section.name])
    params = params_of(source, run.site, run.now, since)
    return sources.probe_database(uri_of(source, run.environment), source.query, params=params)


def _batches(run: Run, split: Split, section: Section) -> Iterator[pa.RecordBatch]:
    source = section.source
    if isinstance(source, DatabaseSource):
        since = datetime.fromisoformat(run.plan.read_since[section.name])
        return sources.read(
            split,
            uri=uri_of(source, run.environment),
            query=source.query,
            params=params_of(source, run.site, run.now, since),
        )
    return sources.read(split)


def read_raw(run: Run, n: int, columns: Sequence[str] | None) -> tuple[list[str], Iterator[pa.RecordBatch]]:
    """The columns of unit `n`'s source, and its raw rows in batches. `columns`: those the rules need; None: all."""
    receipt = run.need(f"extract/{n}")
    split = Split.from_json(run.plan.units[n]["split"])
    if receipt["raw"] is None:
        names = sources.columns(split).names
        return names, sources.read(split, columns=_wanted(names, columns))
    stored = run.staging.get(receipt["raw"])
    if stored is None:
        raise Refused(f"{run.staging.url_of(receipt['raw'])} is missing: the staging of run {run.run_id} was removed")
    file = pq.ParquetFile(pa.BufferReader(stored.data))
    names = file.schema_arrow.names
    return names, file.iter_batches(batch_size=limits.BATCH_ROWS, columns=_wanted(names, columns))


def _wanted(names: Sequence[str], columns: Sequence[str] | None) -> list[str] | None:
    """Those of the source's columns that the rules need; one at least, for the number of rows."""
    if columns is None:
        return None
    return [name for name in names if name in columns] or list(names[:1])


def _guesses(locs: pa.Array, most: int) -> list[str]:
    """A few of the locs, from all over the array; none where they are no text."""
    if not len(locs):
        return []
    at = np.unique(np.linspace(0, len(locs) - 1, min(most, len(locs))).astype(np.int64))
    try:
        picked = locs.take(pa.array(at)).cast(pa.string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return []
    return [loc for loc in picked.to_pylist() if loc]


def _thinned(guesses: list[str]) -> list[str]:
    step = max(1, len(guesses) // GUESSES)
    return guesses[::step]
