"""Read sections of lakehouse tables: choose the version, skip unchanged ones, and find the changes."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from datetime import datetime

import pyarrow as pa

from sitemap_etl.config import Section, Site, TableSource
from sitemap_etl.settings import DeltaSource
from sitemap_etl.sources import Split, unpack_schema
from sitemap_etl.sources.lake import lake
from sitemap_etl.sources.lake.lake_table import Table
from sitemap_etl.stages.digests import settings_of
from sitemap_etl.stages.generation import Generation, digest, other_columns
from sitemap_etl.stages.parameters import BEGINNING, params_of
from sitemap_etl.stages.rules import rules_of
from sitemap_etl.stages.run import Environment
from sitemap_etl.state.records import Reading


def asked_of(section: Section, site: Site, environment: Environment, now: datetime) -> lake.TableSource:
    """Return the table and version to read for a section. Raise ConfigError if an environment variable is not set."""
    source = section.source
    assert isinstance(source, TableSource)
    return lake.TableSource(
        kind="delta" if isinstance(source, DeltaSource) else "iceberg",
        address=source.address,
        version=source.version,
        as_of=None if source.as_of is None else datetime.fromisoformat(source.as_of),
        filter=source.filter,
        query=source.query,
        params={} if source.query is None else params_of(source, site, environment, now, BEGINNING),
        label="query",
    )


def wanted_columns(site: Site, section: Section, now: datetime, schema: pa.Schema) -> list[str] | None:
    """Return the columns of a table that the rules and the key need, in its order, at least one. None means all."""
    needs = rules_of(site, section, now, None).needs()
    if needs is None:
        return None
    source = section.source
    assert isinstance(source, TableSource)
    return [name for name in schema.names if name in needs or name == source.key] or schema.names[:1]


def fingerprint_of(site: Site, section: Section, table: Table, params: str, robots: bytes | None) -> str | None:
    """Return a hash of everything that a section of a table is made from, or None if its result can change otherwise.

    A section whose published rows have the same hash is as it would be if it were read again. That can't be said of a
    hreflang cluster, and of a SELECT that names the time. `params`: a digest of the parameters of its SELECT.
    """
    source = section.source
    assert isinstance(source, TableSource)
    if section.alternates is not None or _changes(source.query):
        return None
    made_from = [table.identity, table.version, params, *settings_of(site.to_json(), section.name)]
    made_from.append(None if robots is None else robots.decode("latin-1"))
    return hashlib.sha256(json.dumps(made_from, sort_keys=True).encode()).hexdigest()[:32]


def _changes(query: str | None) -> bool:
    """Return True if a SELECT over a table can yield something else of the same rows."""
    if query is None:
        return False
    from sitemap_etl.duckdb_session import names_the_time

    return names_the_time(query)


def reading_of_table(
    site: Site,
    section: Section,
    table: Table,
    asked: lake.TableSource,
    generation: Generation,
    *,
    params: str,
    now: datetime,
    split_rows: int,
) -> tuple[Reading, list[Split]]:
    """Return the plan for a table with a key, and its splits: the changes since its mirror was made, or everything.

    `params`: what tells the parameters of its SELECT from others.
    """
    source = section.source
    assert isinstance(source, TableSource)
    assert source.key is not None
    everything = Reading(
        key=source.key,
        since=now.isoformat(),  # nothing is asked by time
        read_at=now.isoformat(),
        select=digest(json.dumps([asked.kind, asked.address, asked.query, dict(asked.filter)], sort_keys=True)),
        params=params,
        version=table.version,
        table=table.identity,
    )
    reading, mirror = generation.reading(everything)
    if mirror is not None and _changes(source.query):
        reading, mirror = replace(everything, because="its SELECT names the time or a random value"), None
    if mirror is not None:
        found = lake.columns_of(table, asked)
        names = wanted_columns(site, section, now, found)
        read = found if names is None else pa.schema([found.field(name) for name in names])
        problem = other_columns("table", unpack_schema(mirror.schema), read, reading.key, typed=True)
        changed = problem or lake.plan_changes(table, asked, mirror.version or "")
        if not isinstance(changed, str):
            return reading, changed
        reading = replace(everything, because=changed)
    # What a table says of its changes is all there is: nothing could be found that it had not shown.
    return replace(reading, compared=None), lake.plan_table(table, asked, split_rows=split_rows)
