"""The merge stage: merge the rows that a run read into a section's mirror, and apply the rules to the result.

A section whose SELECT uses `:since` returns only changes. One task per bucket merges them with the mirror by key. From
then on the run works as if it had read all rows. `state.mirror` describes the files.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Final

import pyarrow as pa

from sitemap_etl.arrow import grouped
from sitemap_etl.config import DatabaseSource
from sitemap_etl.errors import InvalidSource, SitemapEtlError
from sitemap_etl.partition import Routed
from sitemap_etl.sources import pack_schema, unpack_schema
from sitemap_etl.stages.bucket import READERS, Bucket
from sitemap_etl.stages.digests import rules_digest
from sitemap_etl.stages.extract import holds, incremental_keys, with_section, without_section
from sitemap_etl.stages.run import Run
from sitemap_etl.stages.spool import (
    Place,
    SpoolWriter,
    put_index,
)
from sitemap_etl.state import layout
from sitemap_etl.state.mirror import (
    KEY,
    OWN,
    SLOTS,
    buckets_for,
    read_mirror,
    slots,
    slots_of,
)
from sitemap_etl.state.records import (
    MergePlan,
    Merging,
    Mirror,
    MirrorBucket,
    Reading,
    ReadSplit,
    Spool,
    Transformed,
)

_SEEN: Final = pa.schema([(KEY, pa.string())])


def plan_merge(run: Run) -> Merging:
    """Plan the merge tasks of all sections with a mirror and return the result. Without mirrors it has no tasks."""
    done = run.receipt(layout.MERGE, Merging)
    if done is not None:
        return done
    sections: dict[str, MergePlan] = {}
    kept: dict[str, str] = {}
    for name, reading in run.plan.readings.items():
        units = [n for n, unit in enumerate(run.plan.units) if unit.section == name]
        extracted = [run.extracted(n) for n in units]
        why = next((receipt.held for receipt in extracted if receipt.held), None)
        if why is not None:
            kept[name] = why
            continue
        spools = [receipt.spool for receipt in extracted if receipt.spool is not None]
        sections[name] = _merge_plan(run, name, reading, spools, sum(receipt.rows for receipt in extracted))
    untouched = tuple(name for name in sections if _is_untouched(run, name))
    ordered = sorted(sections, key=lambda name: name in untouched)
    units_ = tuple((name, bucket) for name in ordered for bucket in range(sections[name].buckets))
    return run.leave(layout.MERGE, Merging(sections, units_, kept, untouched))


def _is_untouched(run: Run, name: str) -> bool:
    """Return True if the rows and rules of a section are unchanged since an earlier run whose result is stored."""
    reading, known = run.plan.readings[name], run.plan.made_from.get(name)
    if reading.mirror is None or known is None or known.source is None or run.goes_back:
        return False
    if any(run.extracted(n).rows for n, unit in enumerate(run.plan.units) if unit.section == name):
        return False
    if known.source != rules_digest(run, name, read_mirror(run.work, reading.mirror).buckets):
        return False
    return run.work.stat(layout.summary(known.applied_by)) is not None


def _merge_plan(run: Run, name: str, reading: Reading, spools: Sequence[Spool], rows: int) -> MergePlan:
    mirror = None if reading.mirror is None else read_mirror(run.work, reading.mirror)
    if mirror is None:
        buckets = buckets_for(rows, sum(size for spool in spools for _, size, _ in _messages(spool)))
    else:
        buckets = len(mirror.buckets)
    index = []
    for number, spool in enumerate(spools):
        for bucket in range(buckets):
            first, past = slots_of(bucket, buckets)
            places: dict[Place, bool] = {}
            for slot in range(first, past):
                for place in spool.places[slot]:
                    places[place] = True
            index += [(bucket, number, *place, False) for place in places]
    schemas = tuple(dict.fromkeys(spool.schema for spool in spools))
    known = [] if mirror is None else [unpack_schema(mirror.schema)]
    key = run.attempt(f"{layout.MERGE}/{name}")
    return MergePlan(
        buckets=buckets,
        schema=pack_schema(_unified(name, [*known, *(_source_schema(spool) for spool in spools)])),
        schemas=schemas,
        spools=tuple((spool.key, schemas.index(spool.schema)) for spool in spools),
        index=put_index(run.staging, f"{key}.index", index, [(bucket, bucket + 1) for bucket in range(buckets)]),
        seen=None if reading.compared is None else _put_seen(run, name, reading.compared, f"{key}.seen"),
    )


def _messages(spool: Spool) -> set[Place]:
    return {place for places in spool.places for place in places}


def _source_schema(spool: Spool) -> pa.Schema:
    schema = unpack_schema(spool.schema)
    return pa.schema([entry for entry in schema if entry.name not in OWN])


def _unified(section: str, schemas: Sequence[pa.Schema]) -> pa.Schema:
    """Return one schema for the rows of all splits and of the mirror."""
    try:
        return pa.unify_schemas(list(schemas), promote_options="permissive")
    except pa.ArrowException as error:
        raise InvalidSource(
            f"section {section}: two parts of the source yield a column in incompatible types ({error}). "
            "Cast it to one type in the SELECT"
        ) from error


def _put_seen(run: Run, name: str, compared: str, key: str) -> Spool:
    """Stage the keys that an incremental read returns now, after everything was read.

    They include all rows that changed since the mirror was read. So other differences from the mirror are drift.
    """
    section = run.site.sections[name]
    assert isinstance(section.source, DatabaseSource)
    since = datetime.fromisoformat(read_mirror(run.work, compared).read_at) - section.source.overlap
    with tempfile.TemporaryDirectory(prefix="sitemap_etl-") as scratch:
        writer = SpoolWriter(Path(scratch) / "seen", _SEEN, SLOTS)
        for unit in run.plan.units:
            if unit.section == name:
                for keys in incremental_keys(run, section, unit.split, since):
                    writer.write(_by_slot(pa.table([keys.drop_null()], schema=_SEEN)))
        return writer.put(run.staging, key)


def _by_slot(rows: pa.Table) -> Routed:
    order, starts = grouped(slots(rows.column(KEY)), SLOTS)
    return Routed(rows.take(pa.array(order)).combine_chunks(), starts)


def merge_bucket(run: Run, n: int, *, final: bool = True) -> Transformed:
    """Merge unit `n` of the merge plan and apply the rules to the result. Return the same task result as transform.

    `final`: as for transform.
    """
    name = layout.merge(n)
    done = run.receipt(name, Transformed)
    if done is not None:
        return done
    section_name, bucket = run.merging().units[n]
    section = run.site.sections[section_name]
    try:
        with tempfile.TemporaryDirectory(prefix="sitemap_etl-") as scratch:
            receipt = Bucket(run, n, section_name, bucket, Path(scratch)).merge()
    except SitemapEtlError as error:
        if holds(section, error, final=final):
            return run.leave(name, Transformed(section_name, held=without_section(section_name, error)))
        if isinstance(error, InvalidSource):
            raise InvalidSource(with_section(section.name, str(error))) from error
        raise
    return run.leave(name, receipt)


def generations(run: Run, sections: Sequence[str]) -> dict[str, Mirror]:
    """Return the mirrors of these sections as this run leaves them."""
    found = {}
    for name in sections:
        reading = run.plan.readings.get(name)
        if reading is None:
            continue
        merging = run.merging()
        if run.is_unchanged(name):
            assert reading.mirror is not None
            buckets = read_mirror(run.work, reading.mirror).buckets
        else:
            buckets = tuple(receipt.bucket or MirrorBucket() for receipt in run.parts(name))
        full_at = run.plan.now if reading.mirror is None else read_mirror(run.work, reading.mirror).full_at
        found[name] = Mirror(
            section=name,
            run_id=run.run_id,
            key=reading.key,
            select=reading.select,
            params=reading.params,
            deleted=reading.deleted,
            version=reading.version,
            table=reading.table,
            schema=merging.sections[name].schema,
            read_at=reading.read_at,
            full_at=full_at,
            buckets=buckets,
        )
    return found


def readers_of(run: Run) -> dict[str, ReadSplit]:
    """Return the meaning of row numbers in sections with a mirror: the run that read the rows, by number."""
    if not run.plan.readings:
        return {}
    found = {}
    merging = run.merging()
    for n, (section, _) in enumerate(merging.units):
        receipt = run.receipt(layout.merge(n), Transformed)
        for at, reader in enumerate(receipt.readers if receipt is not None else ()):
            found[str(len(run.plan.units) + n * READERS + at)] = ReadSplit(section, reader)
    return found
