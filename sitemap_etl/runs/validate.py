"""What can be checked before a site is run: hooks, and with a connection sources, storages and engines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sitemap_etl import limits, sources
from sitemap_etl.config import DatabaseSource, Section, Site, revealed
from sitemap_etl.errors import ConfigError, InvalidSource, SitemapEtlError
from sitemap_etl.stages.arrival import demand_arrival
from sitemap_etl.stages.extract import label_of, plan_splits, session_of
from sitemap_etl.stages.parameters import BEGINNING, params_of, unspoken
from sitemap_etl.stages.ping import engines_of, ready_engine
from sitemap_etl.stages.plan import key_missing
from sitemap_etl.stages.rules import rules_of
from sitemap_etl.stages.run import Environment


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong, in a line; `error` is its kind."""

    text: str
    error: SitemapEtlError

    def __str__(self) -> str:
        return self.text


def problems_of(site: Site, *, connect: bool, environment: Environment | None = None) -> list[Problem]:
    """All that is wrong. `connect`: sources are asked for their columns, storages for an object, secrets are read."""
    environment = environment or Environment()
    problems: list[Problem] = []
    for name, section in site.sections.items():
        try:
            rules_of(site, section, environment.clock(), None)
            problem = key_missing(section, environment)
            if problem is not None:
                problems.append(Problem(problem, ConfigError([problem])))
            if connect:
                lacks = list(_lacks(site, section, environment))
                problems += [Problem(f"section {name}: {text}", InvalidSource(text)) for text in lacks]
        except SitemapEtlError as error:
            problems += _problems(f"section {name}", error)
    if connect:
        problems += _storages(site, environment)
        for name in engines_of(site):
            try:
                ready_engine(site, name, environment)
            except SitemapEtlError as error:
                problems += _problems(f"ping.{name}", error)
        try:
            revealed("notify", site.notify, environment.environ)
        except ConfigError as error:
            problems += _problems("notify", error)
    return problems


def _problems(where: str, error: SitemapEtlError) -> list[Problem]:
    texts = error.problems if isinstance(error, ConfigError) else (str(error),)
    return [Problem(text if text.startswith(where) else f"{where}: {text}", error) for text in texts]


def _storages(site: Site, environment: Environment) -> list[Problem]:
    publish = site.publish
    problems: list[Problem] = []
    places = {"work": (site.work, "sitemap.xml"), "publish.to": (publish.to, "sitemap.xml")}
    if publish.root is not None and publish.root != publish.to:
        places["publish.root"] = publish.root, "robots.txt"  # all that a job needs to be allowed there
    for key, (url, name) in places.items():
        try:
            environment.open_storage(url, checksums=publish.checksums).stat(name)
        except SitemapEtlError as error:
            problems += _problems(key, error)
    return problems


def _lacks(site: Site, section: Section, environment: Environment) -> Iterator[str]:
    """What the source's columns lack for the section's rules."""
    source = section.source
    demand_arrival(section, site, environment)
    if isinstance(source, DatabaseSource):
        params = params_of(source, site, environment, environment.clock(), BEGINNING)
        connection = environment.connection(source.database)
        with unspoken(source, environment):
            session = session_of(site, section, source, "validate")
            schema = sources.probe_database(
                connection, source.query, params=params, session=session, label=label_of(source)
            )
    else:
        now = environment.clock()
        planned = plan_splits(section, site, environment, now=now, since=BEGINNING, split_rows=limits.SPLIT_ROWS)
        schema = sources.columns(planned[0])
    names = set(schema.names)
    has = f"It has: {', '.join(schema.names)}"
    for column, name in section.columns.items():
        if name not in names:
            yield f"columns.{column}: the source has no column {name!r}. {has}"
    names |= set(section.columns)
    if "loc" not in names:
        yield f"the source has no column 'loc'. {has}"
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
            yield f"a rule uses the column {ruled!r}, which the source does not have. {has}"
