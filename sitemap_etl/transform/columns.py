"""The columns of the inventory: each rule of a section applied to the rows that will be listed."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from sitemap_etl import extensions, lastmod, priority
from sitemap_etl.arrow import column_of, mask_of
from sitemap_etl.extensions import NOT_NEWS
from sitemap_etl.frames import INVENTORY, Tally, conform, with_column
from sitemap_etl.instants import in_calendar
from sitemap_etl.settings import (
    ChangefreqColumn,
    ChangefreqConstant,
    DatabaseSource,
    DefaultRule,
    PriorityColumn,
    PriorityConstant,
    PriorityDepth,
    PriorityPercentile,
)
from sitemap_etl.transform.batch import Batch, as_text, require
from sitemap_etl.transform.rules import Rules


def inventory_of(
    batch: Batch, loc: pa.Array, rules: Rules, notes: Tally
) -> tuple[pa.Table, tuple[tuple[str, str], ...]]:
    """Return the inventory of the rows that will be listed, and the kinds of its fingerprint's columns."""
    columns: dict[str, pa.Array] = {"loc": loc, "row": batch.row}
    if batch.key is not None:
        columns["key"] = batch.key
    kinds: tuple[tuple[str, str], ...] = ()
    section = rules.settings
    if section.news:
        loc = _news(batch, loc, rules, columns, notes)
    dated = source_dates(batch.table, rules, notes, loc)
    if dated is not None:
        columns["moment"] = dated
    source = of_calendar(batch.table, rules)
    if section.lastmod.kind == "fingerprint":
        require(source, section.lastmod.columns, rules, "lastmod: fingerprint")
        columns["fingerprint"] = pa.array(lastmod.fingerprint(source, section.lastmod.columns))
        kinds = tuple(lastmod.kinds(source.schema, section.lastmod.columns))
    _priority(source, loc, rules, notes, columns)
    _changefreq(source, loc, rules, notes, columns)
    _extensions(source, loc, rules, notes, columns)
    if section.alternates:
        group, hreflang = section.alternates.group, section.alternates.hreflang
        require(source, (group, hreflang), rules, "alternates")
        columns["cluster"] = as_text(column_of(source, group), group, rules.section)
        columns["hreflang"] = extensions.hreflang_lists(column_of(source, hreflang), notes)
    if section.feed and "title" in source.column_names:
        columns["title"] = extensions.cleaned(column_of(source, "title"))
    if "title" in source.column_names and (section.news or section.feed):
        _note_titles(column_of(source, "title"), loc, notes)
    schema = pa.schema([entry for entry in INVENTORY if entry.name in columns])
    return conform(pa.table(columns), schema), kinds


def _note_titles(column: pa.Array, loc: pa.Array, notes: Tally) -> None:
    """Count titles that are escaped in the source. Escaping them again shows the entities to readers."""
    titles = extensions.cleaned(column)
    notes.add_rows("title escaped twice", extensions.escaped_twice(titles), lambda at: titles[at].as_py(), loc)


def _extensions(source: pa.Table, loc: pa.Array, rules: Rules, notes: Tally, columns: dict[str, pa.Array]) -> None:
    """Return the extensions that the source has columns for."""
    for name in ("images", "videos", "alternates", "mobile"):
        if name not in source.column_names:
            continue
        column = column_of(source, name)
        match name:
            case "images":
                columns[name] = extensions.images(column, loc, notes, rules=rules.urls)
            case "videos":
                columns[name] = extensions.videos(
                    column, loc, notes, rules=rules.urls, timezone=rules.settings.lastmod.timezone
                )
            case "alternates" if not rules.settings.alternates:
                columns[name] = extensions.alternates(column, notes, loc=loc, rules=rules.urls)
            case "mobile":
                columns[name] = extensions.mobile(column, notes, loc=loc)


def source_dates(source: pa.Table, rules: Rules, notes: Tally, loc: pa.Array | None = None) -> pa.Array | None:
    """Return the lastmod of each row in its source as a moment, or None if the section takes none from there."""
    rule = rules.settings.lastmod
    names = rule.dates
    if rule.kind == "default" and "lastmod" in source.column_names:
        names = ("lastmod",)
    if not names:
        return None
    require(source, names, rules, "lastmod")
    dates = [_moments(column_of(source, name), name, rules, notes, loc) for name in names]
    return dates[0] if len(dates) == 1 else lastmod.newest_of(dates)


def of_calendar(source: pa.Table, rules: Rules) -> pa.Table:
    """Return the rows with nulls for dates outside the years 1 to 9999, if they are from a database.

    Extract keeps such dates in the columns `Section.dates`, so that the rules of these columns can count them.
    Everything else gets null: fingerprints, predicates and hooks.
    """
    if isinstance(rules.settings.source, DatabaseSource):
        for name in rules.settings.dates:
            if name in source.column_names:
                column = column_of(source, name)
                found = in_calendar(column)
                source = source if found is column else with_column(source, name, found)
    return source


def count_beyond(source: pa.Table, rules: Rules, notes: Tally) -> None:
    """Count the dates that `of_calendar` takes from the lastmod columns, with the raw `loc` in the examples."""
    found = of_calendar(source, rules)
    for name in rules.settings.dates:
        if found is source or name not in source.column_names or name not in (*rules.settings.lastmod.dates, "lastmod"):
            continue
        column = column_of(source, name)
        lost = pc.and_(pc.is_valid(column), pc.is_null(column_of(found, name)))
        loc = column_of(source, "loc").filter(lost)
        _moments(column.filter(lost), name, rules, notes, loc)


def _moments(column: pa.Array, name: str, rules: Rules, notes: Tally, loc: pa.Array | None) -> pa.Array:
    rule = rules.settings.lastmod
    return lastmod.moments(
        column,
        name=name,
        timezone=rule.timezone,
        unit=rule.unit,
        form=rule.format,
        read_at=rules.clock.unnoted,
        tally=notes,
        loc=loc,
    )


def _priority(source: pa.Table, loc: pa.Array, rules: Rules, notes: Tally, columns: dict[str, pa.Array]) -> None:
    rule = rules.settings.priority
    require(source, rule.columns, rules, "priority" if rule.kind == "column" else f"priority: {rule.kind}")
    match rule:
        case PriorityConstant():
            columns["priority"] = pa.repeat(pa.scalar(rule.tenths, pa.int8()), len(loc))
        case PriorityDepth():
            columns["priority"] = priority.depth(loc)
        case PriorityPercentile():
            columns["signal"] = priority.signal_bins(column_of(source, rule.percentile_of), notes, loc=loc)
        case PriorityColumn():
            columns["priority"] = priority.from_column(column_of(source, rule.column), notes, loc=loc)
        case DefaultRule() if "priority" in source.column_names:
            columns["priority"] = priority.from_column(column_of(source, "priority"), notes, loc=loc)


def _changefreq(source: pa.Table, loc: pa.Array, rules: Rules, notes: Tally, columns: dict[str, pa.Array]) -> None:
    rule = rules.settings.changefreq
    require(source, rule.columns, rules, "changefreq")
    match rule:
        case ChangefreqConstant():
            columns["changefreq"] = pa.repeat(pa.scalar(rule.word), source.num_rows)
        case ChangefreqColumn():
            columns["changefreq"] = priority.changefreq(column_of(source, rule.column), notes, loc=loc)
        case DefaultRule() if "changefreq" in source.column_names:
            columns["changefreq"] = priority.changefreq(column_of(source, "changefreq"), notes, loc=loc)


def _news(batch: Batch, loc: pa.Array, rules: Rules, columns: dict[str, pa.Array], notes: Tally) -> pa.Array:
    """Add the elements of news rows. Other rows leave the section, which is a view."""
    settings = rules.settings.news
    assert settings
    require(batch.table, ("title", "publication_date"), rules, "news")
    news = extensions.news(
        column_of(batch.table, "title"),
        column_of(batch.table, "publication_date"),
        name=settings.publication,
        language=extensions.language(settings.language),
        now=rules.now,
        timezone=rules.settings.lastmod.timezone,
        tally=notes,
        loc=loc,
    )
    stay = batch.drop(mask_of(pc.is_null(news)), NOT_NEWS, batch.excluded, loc)
    if stay is not None:
        news, loc = news.filter(pa.array(stay)), loc.filter(pa.array(stay))
    columns.update(news=news, loc=loc, row=batch.row)
    if batch.key is not None:
        columns["key"] = batch.key
    return loc
