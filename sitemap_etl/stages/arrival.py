"""Whether the sources of a run are what their sections expect of them, and the wait for those that are not yet.

`not_yet` changes nothing and waits for nothing: a scheduler asks it as often as it likes before it starts a run.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Final

from sitemap_etl.config import DatabaseSource, Section, Site, TableSource
from sitemap_etl.errors import InvalidSource, SitemapEtlError, Unavailable
from sitemap_etl.frozen import Frozen
from sitemap_etl.sources import lake
from sitemap_etl.sources.completeness import Expected, Readiness, readiness, too_few_rows, version_readiness
from sitemap_etl.stages.about import about
from sitemap_etl.stages.run import Environment
from sitemap_etl.stages.tables import asked_of
from sitemap_etl.state.records import Options

POLL: Final = 30.0
"""Seconds between two looks at a source that a run waits for."""


def arrival(section: Section, site: Site, environment: Environment) -> Readiness | None:
    """Whether the section's source is whole; None where nothing is expected of it that a look could tell.

    Raises `Refused`, `Unavailable` where it can't be looked at.
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
    counted = expect.min_rows if source.query is None else None  # the SELECT's rows are known when it has run
    expected = Expected(expect.marker, expect.manifest, expect.max_age, counted)
    return readiness(source, expected, now)


def demand_arrival(section: Section, site: Site, environment: Environment) -> Readiness | None:
    """What `arrival` gives, where that is no reason against reading it.

    Raises `Unavailable` where it is not whole yet, `InvalidSource` where it never can be.
    """
    found = arrival(section, site, environment)
    if found is not None and found.settles:
        environment.pause(found.settles)
        found = arrival(section, site, environment)
    if found is None or found.verdict == "whole":
        return found
    raise (Unavailable if found.verdict == "not yet" else InvalidSource)(f"the source is not whole: {found.why}")


class Waiting(Frozen):
    """A section whose source is not what it expects, and how long a run waits for that in all."""

    why: str
    wait: timedelta


def not_yet(site: Site, options: Options, environment: Environment) -> dict[str, Waiting]:
    """The sections of a run whose sources a run would wait for now, by name. Nothing is raised or changed."""
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
    """Why the source is worth waiting for; None where it is whole, and where no wait could help."""
    try:
        found = arrival(section, site, environment)
    except Unavailable as error:
        return str(error)
    except SitemapEtlError:
        return None  # the plan tells it
    return found.why if found is not None and found.verdict == "not yet" else None


def await_sources(site: Site, options: Options, environment: Environment) -> None:
    """Wait until the sources are what their sections expect, each for as long as it says at most.

    What is not there then is for the plan to tell.
    """
    began = environment.clock()
    told: Mapping[str, str] = {}
    while True:
        passed = environment.clock() - began
        waiting = {name: one for name, one in not_yet(site, options, environment).items() if one.wait > passed}
        if not waiting:
            return
        for name, one in waiting.items():
            if told.get(name) != one.why:
                form = "%H:%M:%S UTC" if one.wait < timedelta(days=1) else "%Y-%m-%d %H:%M:%S UTC"
                until = (began + one.wait).strftime(form)
                environment.log(f"section {name}: waiting for its source until {until}: {one.why}")
        told = {name: one.why for name, one in waiting.items()}
        left = max(one.wait for one in waiting.values()) - passed
        environment.pause(min(POLL, left.total_seconds()))


def demand_rows(section: Section, rows: int, promised: int | None) -> None:
    """Raise `Unavailable` where a source has yielded too few rows, or others than its manifest promised."""
    expect = section.source.expect
    if expect is not None and expect.min_rows is not None and rows < expect.min_rows:
        raise Unavailable(f"section {section.name}: {too_few_rows(rows, expect.min_rows)}")
    if promised is not None and rows != promised:
        raise Unavailable(
            f"section {section.name}: {rows:,} rows were read, and the manifest of the export says {promised:,}: the "
            "export is not whole, or the manifest is of another one"
        )
