"""The extract stage: a section's source to raw rows, split by split.

An export in Parquet is its own splits: it is referred to, not copied. Everything else becomes Parquet
in the run's staging, so that transform reads the same bytes however often it is tried.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sitemap_etl import limits, sources
from sitemap_etl.config import CsvSource, DatabaseSource, Section, Site, parameters
from sitemap_etl.errors import InvalidSource, Refused, SitemapEtlError, Unavailable
from sitemap_etl.sources import Split
from sitemap_etl.stages.run import Environment, Run
from sitemap_etl.state import layout
from sitemap_etl.state.records import Extracted, Unit
from sitemap_etl.storage import open_object


def plan_splits(
    section: Section, site: Site, environment: Environment, *, now: datetime, since: datetime, split_rows: int
) -> list[Split]:
    """The splits of a section's source. Raises what the source raises."""
    source = section.source
    if isinstance(source, DatabaseSource):
        split = (source.split.column, source.split.parts) if source.split else None
        return sources.plan_database(
            environment.connection(source.database),
            source.query,
            params=params_of(source, site, environment, now, since),
            split=split,
            label=label_of(source),
        )
    if isinstance(source, CsvSource):
        if source.query is not None:
            return sources.plan_query("csv", source.csv, source.query, delimiter=source.delimiter, label=section.name)
        return sources.plan_csv(source.csv, delimiter=source.delimiter)
    if source.query is not None:
        return sources.plan_query("parquet", source.parquet, source.query, label=section.name)
    return sources.plan_parquet(source.parquet, split_rows=split_rows)


def label_of(source: DatabaseSource) -> str:
    """What messages call a database source: its connection and the file of its SELECT."""
    return source.database if source.sql is None else f"{source.database} ({Path(source.sql).name})"


def params_of(
    source: DatabaseSource, site: Site, environment: Environment, now: datetime, since: datetime
) -> dict[str, Any]:
    """The values bound to a SELECT. Those the person named come last: they may not take our names.

    Raises ConfigError where a variable in one is not set.
    """
    return {**parameters(source, environment.environ), "now": now, "since": since, "site": site.site}


def reads_changes_only(section: Section, environment: Environment) -> bool:
    """Whether the section's SELECT names `:since`: the rows it does not yield are as they were."""
    source = section.source
    return isinstance(source, DatabaseSource) and "since" in sources.named_parameters(
        environment.connection(source.database), source.query
    )


def extract_split(run: Run, n: int, *, final: bool = True) -> Extracted:
    """Extract unit `n` of the plan; gives its receipt.

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
        receipt = _referred(run, unit.split) if unit.split.kind == "parquet" else _copied(run, n, unit)
    except SitemapEtlError as error:
        if section.on_error == "keep" and (final or isinstance(error, (InvalidSource, Refused))):
            return run.leave(name, Extracted(held=str(error)))
        if isinstance(error, Unavailable) or not isinstance(error, InvalidSource):
            raise
        raise InvalidSource(named(section, error)) from error
    return run.leave(name, receipt)


def named(section: Section, error: Exception) -> str:
    """The error's text, with the section it is of."""
    text = str(error)
    known = text.startswith((f"section {section.name}:", f"sections.{section.name}."))
    return text if known else f"section {section.name}: {text}"


def _referred(run: Run, split: Split) -> Extracted:
    """A Parquet export's receipt: its rows are known, and transform reads them where they are."""
    assert split.rows is not None
    return Extracted(rows=split.rows, read_at=run.environment.clock().isoformat())


def _copied(run: Run, n: int, unit: Unit) -> Extracted:
    """Read the split once and stage it as Parquet."""
    section = run.site.sections[unit.section]
    key = f"{run.attempt(layout.extract(n))}.parquet"
    rows = 0
    with tempfile.TemporaryDirectory(prefix="sitemap_etl-") as scratch:
        path = Path(scratch) / "raw.parquet"
        writer: pq.ParquetWriter | None = None
        try:
            for batch in _batches(run, unit.split, section):
                if writer is None:
                    writer = pq.ParquetWriter(path, batch.schema, compression="lz4", use_dictionary=False)
                writer.write_batch(batch)
                rows += batch.num_rows
                run.environment.advance("extract", rows, 0)
                if run.options.limit is not None and rows >= run.options.limit:
                    break
            if writer is None:
                writer = pq.ParquetWriter(path, _schema(run, unit.split, section), compression="lz4")
        finally:
            if writer is not None:
                writer.close()
        run.staging.put(key, path)
    return Extracted(rows=rows, raw=key, read_at=run.environment.clock().isoformat())


def _schema(run: Run, split: Split, section: Section) -> pa.Schema:
    """The columns of a split that yielded no row."""
    source = section.source
    if not isinstance(source, DatabaseSource):
        return sources.columns(split)
    since = datetime.fromisoformat(run.plan.since[section.name])
    params = params_of(source, run.site, run.environment, run.now, since)
    connection = run.environment.connection(source.database)
    return sources.probe_database(connection, source.query, params=params, label=label_of(source))


def _batches(run: Run, split: Split, section: Section) -> Iterator[pa.RecordBatch]:
    source = section.source
    if isinstance(source, DatabaseSource):
        since = datetime.fromisoformat(run.plan.since[section.name])
        return sources.read(
            split,
            connection=run.environment.connection(source.database),
            query=source.query,
            params=params_of(source, run.site, run.environment, run.now, since),
        )
    return sources.read(split)


def read_raw(run: Run, n: int, columns: Sequence[str] | None) -> tuple[list[str], Iterator[pa.RecordBatch]]:
    """The columns of unit `n`'s source, and its raw rows in batches. `columns`: those the rules need; None: all."""
    receipt = run.extracted(n)
    split = run.plan.units[n].split
    if receipt.raw is None:
        names = sources.columns(split).names
        return names, sources.read(split, columns=_wanted(names, columns))
    stat = run.staging.stat(receipt.raw)
    if stat is None:
        raise Refused(f"{run.staging.url_of(receipt.raw)} is missing: the staging of run {run.run_id} was removed")
    file = pq.ParquetFile(pa.PythonFile(open_object(run.staging, receipt.raw, stat.size), mode="r"))
    names = file.schema_arrow.names
    return names, file.iter_batches(batch_size=limits.BATCH_ROWS, columns=_wanted(names, columns))


def _wanted(names: Sequence[str], columns: Sequence[str] | None) -> list[str] | None:
    """Those of the source's columns that the rules need; one at least, for the number of rows."""
    if columns is None:
        return None
    return [name for name in names if name in columns] or list(names[:1])
