"""Try one section: run 1,000 rows through the stages in a temporary folder.

The functions of a real run plan, extract and transform. So a split column, time zone, condition or hook that passes
here also works in a run. State and public files are neither read nor written.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import field, replace
from datetime import timedelta
from typing import Final

from sitemap_etl.config import DatabaseSource, Section, Site, TableSource
from sitemap_etl.errors import Unavailable, it_has
from sitemap_etl.frames import Tally
from sitemap_etl.frozen import Frozen
from sitemap_etl.publish.addresses import warn_of_numbers
from sitemap_etl.settings.kinds import duration_text
from sitemap_etl.stages.extract import (
    check_key,
    columns_of_unit,
    extract_split,
    one_moment,
    read_raw,
    reads_changes_only,
)
from sitemap_etl.stages.plan import start_run
from sitemap_etl.stages.run import Environment, Run
from sitemap_etl.stages.transform import transform_split
from sitemap_etl.state.mirror import key_text
from sitemap_etl.state.records import Options, Transformed, Unit

ROWS: Final = 1_000
"""Rows to read of a split."""
LIMIT: Final = timedelta(minutes=5)
"""Time limit for a statement of a trial. A run waits longer for slow databases."""


class Trial(Frozen):
    """Result of a trial. `lacks`: sentences about columns that the rules need and the source doesn't have."""

    rows: int = 0
    listed: int = 0
    excluded: Tally = field(default_factory=Tally)
    rejected: Tally = field(default_factory=Tally)
    notes: Tally = field(default_factory=Tally)
    lacks: tuple[str, ...] = ()


def try_section(
    site: Site, name: str, environment: Environment, robots: bytes | None, *, limit: timedelta = LIMIT
) -> Trial:
    """Run the first 1,000 rows of a section, and 1,000 of its last split, through every rule.

    `robots`: the robots.txt. `limit`: time limit for a statement. Raises the same errors as a run over these rows.
    """
    section = site.sections[name]
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="sitemap_etl-") as scratch:
        try:
            run = start_run(
                _alone(site, section, scratch, limit),
                Options(limit=ROWS, dry_run=True),
                environment,
                one_process=True,
                durable=False,
                waits=False,
            )
            lacks = tuple(_lacks(section, columns_of_unit(run, run.plan.units[0]).names))
            return Trial(lacks=lacks) if lacks else _tried(_shortened(run, robots), environment)
        except Unavailable as error:
            source = section.source
            if not isinstance(source, DatabaseSource) or time.monotonic() - begun < limit.total_seconds():
                raise
            if source.timeout <= limit:
                raise
            raise Unavailable(
                f"{error}\n  This check waits for {duration_text(limit)}, a run for {duration_text(source.timeout)}: "
                f"see what that says, with run --dry-run --section {name}"
            ) from error


def _alone(site: Site, section: Section, scratch: str, limit: timedelta) -> Site:
    """Return the site with only this section, a temporary state, and a timeout of at most `limit`."""
    source = section.source
    if isinstance(source, DatabaseSource):
        source = source.model_copy(update={"timeout": min(source.timeout, limit)})
    alone = section.model_copy(update={"source": source, "on_error": "fail"})
    urls = site.urls.model_copy(update={"respect_robots": False})  # robots.txt is read once for all sections
    return site.model_copy(update={"work": scratch, "urls": urls, "sections": {section.name: alone}})


def _shortened(run: Run, robots: bytes | None) -> Run:
    """Return the run with only its first and last splits, which have the oldest and the newest rows."""
    units = run.plan.units if len(run.plan.units) < 2 else (run.plan.units[0], run.plan.units[-1])
    rules = None if robots is None else robots.decode("latin-1")
    return Run(run.work, run.staging, replace(run.plan, units=units, robots=rules), run.environment)


def _tried(run: Run, environment: Environment) -> Trial:
    receipts = []
    with one_moment(run):
        for n, unit in enumerate(run.plan.units):
            for notice in extract_split(run, n).notices.ordered():
                example = f", e.g. {notice.examples[0]}" if notice.examples else ""
                environment.log(f"section {unit.section}: {notice.text}: {notice.count:,}{example}")
            _try_key(run, n, unit, environment)
            receipts.append(transform_split(run, n))
    for text in warn_of_numbers(run.plan.units[0].section, receipts, run.site.site):
        environment.log(f"section {text}")
    excluded, rejected, notes = (_joined(receipts, kind) for kind in ("excluded", "rejected", "notes"))
    rows, listed = (sum(counts) for counts in zip(*((one.rows, one.inventory) for one in receipts), strict=True))
    return Trial(rows, listed, excluded, rejected, notes)


def _try_key(run: Run, n: int, unit: Unit, environment: Environment) -> None:
    """Check the key column of an incremental section."""
    section = run.site.sections[unit.section]
    source = section.source
    if not isinstance(source, DatabaseSource | TableSource) or source.key is None:
        return
    if isinstance(source, DatabaseSource) and not reads_changes_only(section, environment):
        return
    names, batches = read_raw(run, n, [source.key])
    check_key(names, source.key)
    for batch in batches:
        key_text(batch.column(source.key), source.key)


def _joined(receipts: list[Transformed], kind: str) -> Tally:
    joined = Tally()
    for receipt in receipts:
        joined.merge(receipt.reasons.get(kind, Tally()))
    return joined


def _lacks(section: Section, columns: Sequence[str]) -> Iterator[str]:
    """Yield a sentence for every column that the rules need and the source doesn't have.

    A run reports only the first.
    """
    names = set(columns)
    for column, name in section.columns.items():
        if name not in names:
            yield f"columns.{column}: {section.place} has no column {name!r}. {it_has(columns, name)}"
    names |= set(section.columns)
    if "loc" not in names:
        yield f"{section.place} has no column 'loc'. {it_has(columns, 'loc')}"
    if section.transform is not None:
        return  # it may make columns
    rules = [
        *section.lastmod.columns,
        section.lastmod.until_changed,
        *section.priority.columns,
        *section.changefreq.columns,
        section.alternates.group if section.alternates else None,
        section.alternates.hreflang if section.alternates else None,
    ]
    for ruled in dict.fromkeys(rules):
        if ruled and ruled not in names:
            yield f"a rule uses the column {ruled!r}, which {section.place} does not have. {it_has(columns, ruled)}"
