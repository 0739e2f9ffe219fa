"""What can be told of a site before it is run: hooks, and with a connection sources, storages and engines."""

from __future__ import annotations

from sitemap_etl import extract
from sitemap_etl.errors import SitemapEtlError
from sitemap_etl.pipeline.raw import params_of, uri_of
from sitemap_etl.pipeline.rules import rules_of
from sitemap_etl.pipeline.run import Outside
from sitemap_etl.pipeline.start import EPOCH
from sitemap_etl.site import CsvSource, DatabaseSource, Section, Site


def problems_of(site: Site, *, connect: bool, outside: Outside | None = None) -> list[str]:
    """One line a problem. `connect`: sources are asked for their columns, storages for an object."""
    outside = outside or Outside()
    problems: list[str] = []
    for name, section in site.sections.items():
        try:
            rules_of(site, section, outside.clock(), None)
            if connect:
                problems += [f"section {name}: {problem}" for problem in _columns(site, section, outside)]
        except SitemapEtlError as error:
            problems.append(f"section {name}: {error}")
    if connect:
        for key, url in (("work", site.work), ("publish.to", site.publish.to)):
            try:
                outside.open_storage(url).stat("sitemap.xml")
            except SitemapEtlError as error:
                problems.append(f"{key}: {error}")
    return problems


def _columns(site: Site, section: Section, outside: Outside) -> list[str]:
    """What the source's columns lack for the section's rules."""
    source = section.source
    if isinstance(source, DatabaseSource):
        now = outside.clock()
        schema = extract.probe_database(
            uri_of(source, outside), source.query, params=params_of(source, site, now, EPOCH)
        )
    elif isinstance(source, CsvSource):
        schema = extract.probe_files("csv", source.csv, source.query, delimiter=source.delimiter)
    else:
        schema = extract.probe_files("parquet", source.parquet, source.query)
    names = set(schema.names)
    problems = [
        f"columns.{column}: the source has no column {name!r}. It has: {', '.join(schema.names)}"
        for column, name in section.columns.items()
        if name not in names
    ]
    names |= set(section.columns)
    if "loc" not in names:
        problems.append(f"the source yields no column 'loc'. It has: {', '.join(schema.names)}")
    if section.transform is None:
        rules = [
            *section.lastmod.columns,
            section.lastmod.until_changed,
            section.priority.column,
            section.changefreq.column,
        ]
        problems += [
            f"a rule names column {name!r}, which the source does not yield"
            for name in rules
            if name and name not in names
        ]
    return problems
