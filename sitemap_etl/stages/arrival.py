"""Check that sources are complete before a run reads them, and wait for the ones that are not.

`not_yet` changes nothing and does not wait, so a scheduler can call it as often as it likes before it starts a run.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Final

from sitemap_etl.config import DatabaseSource, Section, Site, TableSource
from sitemap_etl.errors import InvalidSource, SitemapEtlError, Unavailable
from sitemap_etl.frozen import Frozen
from sitemap_etl.sources.files.completeness import Expected, Readiness, readiness, too_few_rows, version_readiness
from sitemap_etl.sources.lake import lake
from sitemap_etl.stages.about import about
from sitemap_etl.stages.run import Environment
from sitemap_etl.stages.tables import asked_of
from sitemap_etl.state.records import Options

POLL: Final = 30.0
"""Seconds between two checks of a source that a run waits for."""


def arrival(section: Section, site: Site, environment: Environment) -> Readiness | None:
    """Return the readiness of the section's source, or None if the section expects nothing that can be checked.

    Raise `Refused` or `Unavailable` if the source can't be checked.
    """
    source = section.source
    expect = source.expect
    if expect is None or isinstance(source, DatabaseSource):
        return None
    now = environment.clock()
    if isinstance(source, TableSource):
        asked = asked_of(section, site, environment, now)
        table = lake.find_table(asked)
        name = f"version {table.version} of {asked.address}"
        return version_readiness(name, table.moment, expect.max_age, now)
    counted = expect.min_rows if source.query is None else None  # rows of a SELECT are counted when they are read
    expected = Expected(expect.marker, expect.manifest, expect.max_age, counted)
    return readiness(source, expected, now)


def demand_arrival(section: Section, site: Site, environment: Environment) -> Readiness | None:
    """Return the result of `arrival` if the source can be read now.

    Raise `Unavailable` if the source is not complete yet, `InvalidSource` if it can't become complete.
    """
    found = arrival(section, site, environment)
    if found is not None and found.settles:
        environment.pause(found.settles)
        found = arrival(section, site, environment)
    if found is None or found.verdict == "whole":
        return found
    raise (Unavailable if found.verdict == "not yet" else InvalidSource)(f"the source is not whole: {found.why}")


class Waiting(Frozen):
    """A section whose source is not complete yet."""

    why: str  # reason, for messages
    wait: timedelta  # longest wait of a run


def not_yet(site: Site, options: Options, environment: Environment) -> dict[str, Waiting]:
    """Return the sections whose sources a run would wait for now, by name. Raises nothing and changes nothing."""
    found = {}
    for name, section in site.sections.items():
        expect = section.source.expect
        if expect is None or not expect.wait or (options.sections and name not in options.sections):
            continue
        with about(section=name):
            why = _doubt(section, site, environment)
        if why is not None:
            found[name] = Waiting(why, expect.wait)
    return found


def _doubt(section: Section, site: Site, environment: Environment) -> str | None:
    """Return the reason to wait for the source, or None if it is whole or no wait can help."""
    try:
        found = arrival(section, site, environment)
    except Unavailable as error:
        return str(error)
    except SitemapEtlError:
        return None  # the plan tells it
    return found.why if found is not None and found.verdict == "not yet" else None


def await_sources(site: Site, options: Options, environment: Environment) -> None:
    """Wait until the sources are complete, each for at most its configured time.

    A source that is still incomplete then makes planning fail.
    """
    began = environment.clock()
    reported: Mapping[str, str] = {}
    while True:
        passed = environment.clock() - began
        waiting = {name: one for name, one in not_yet(site, options, environment).items() if one.wait > passed}
        if not waiting:
            return
        for name, one in waiting.items():
            if reported.get(name) != one.why:
                form = "%H:%M:%S UTC" if one.wait < timedelta(days=1) else "%Y-%m-%d %H:%M:%S UTC"
                until = (began + one.wait).strftime(form)
                environment.log(f"section {name}: waiting for its source until {until}: {one.why}")
        reported = {name: one.why for name, one in waiting.items()}
        left = max(one.wait for one in waiting.values()) - passed
        environment.pause(min(POLL, left.total_seconds()))


def demand_rows(section: Section, rows: int, promised: int | None) -> None:
    """Raise `Unavailable` if a source has returned too few rows, or another number than its manifest says."""
    expect = section.source.expect
    if expect is not None and expect.min_rows is not None and rows < expect.min_rows:
        raise Unavailable(f"section {section.name}: {too_few_rows(rows, expect.min_rows)}")
    if promised is not None and rows != promised:
        raise Unavailable(
            f"section {section.name}: {rows:,} rows were read, and the manifest of the export says {promised:,}: the "
            "export is not whole, or the manifest is of another one"
        )
