"""Create a first site file from exports, tables or a live sitemap, with comments for the next steps.

beginning, live      sources: exports and tables of a lakehouse or database; a live sitemap
names, elements      file names of a live sitemap; its elements that exports don't have
sample, column       the first rows, and one column of them
columns, dates       detection of columns with addresses, images and titles; with modification dates
date_names           the meaning of column names for dates
layouts              exports of known shop systems and crawlers
known_exports        an export with a SELECT that turns its rows into pages
origins              the site's origin among the origins of its pages
section, text        a section of a site file; YAML with comments
lastmod_rule         the lastmod rule of a section
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, field
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from sitemap_etl.advice import shell_word
from sitemap_etl.errors import ConfigError, InvalidSource
from sitemap_etl.frozen import Frozen
from sitemap_etl.runs.init.beginning import Beginning, begin_export, distinct, find_database, is_sitemap
from sitemap_etl.runs.init.columns import Found, find
from sitemap_etl.runs.init.judged import judge
from sitemap_etl.runs.init.known_exports import as_pages
from sitemap_etl.runs.init.live import EXPORTS, Live, survey
from sitemap_etl.runs.init.origins import Origins, settle
from sitemap_etl.runs.init.section import propose
from sitemap_etl.runs.init.text import flow, line
from sitemap_etl.settings import Gates
from sitemap_etl.stages.run import Environment
from sitemap_etl.urls import UrlRules, canonical_url, origin
from sitemap_etl.web import shown_address

_PLACEHOLDER: Final = "https://www.example.com"


class Started(Frozen):
    """Result of `init`, with notes on guesses.

    `file`: None if nothing was written, because one of the `tables` has to be chosen.
    """

    file: str | None
    site: str | None
    columns: list[str] = field(default_factory=list)
    sections: list[str] = field(default_factory=list)
    tables: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def start_site(
    path: Path,
    *,
    exports: Sequence[str] = (),
    tables: Sequence[str] = (),
    site: str | None = None,
    environment: Environment | None = None,
) -> Started:
    """Write a site file to `path`. Its origin is `site`, or the origin of the first pages.

    `exports`: exports, lakehouse tables, and databases by their addresses or connection IDs, or the address of one
    live sitemap. `tables`: tables of the only database that become sections; without any, the existing ones are
    returned if there is more than one. Raise ConfigError if the file exists or `site` is invalid; InvalidSource,
    Refused and Unavailable if a source can't be read.
    """
    environment = environment or Environment()
    if path.suffix not in (".yaml", ".yml"):
        raise ConfigError(f"{path}: the name of a site file must end in .yaml, such as site.yaml")
    if path.exists():
        raise ConfigError(
            f"{path} already exists, and init never replaces a file: use another name, or move the file away"
        )
    wanted, below = (None, "") if site is None else _origin(site)
    if not exports:
        if tables:
            raise ConfigError("--table needs --from, with a connection")
        text = _text(wanted or _PLACEHOLDER, {"to": "./public"}, _EMPTY)
        return _written(path, text, Started(str(path), wanted or _PLACEHOLDER, notes=[] if wanted else [_TO_REPLACE]))
    live = next(filter(is_sitemap, exports), None)
    if live is not None:
        if tables:
            raise ConfigError("--table is for databases; a live sitemap has none")
        if len(exports) > 1:
            raise ConfigError(f"--from {live}: a site file that begins as a live sitemap can't have other sources")
        return _from_live(path, survey(live, path.parent, environment.clock()), wanted)
    databases = {export: find_database(export, environment) for export in exports}
    if tables and sum(database is not None for database in databases.values()) != 1:
        raise ConfigError("--table is for databases: expected one --from that is a database")
    beginnings: list[Beginning] = []
    notes: list[str] = []
    for export, database in databases.items():
        if database is None:
            beginnings.append(begin_export(export, path.parent))
            continue
        notes += database.notes
        catalog = database.catalog
        chosen = [catalog.table(name) for name in dict.fromkeys(tables)] or catalog.tables()
        if not chosen:
            raise InvalidSource(f"{database.id}: the database has no table that this login may read")
        if len(chosen) > 1 and not tables:
            shown = [{"name": str(table), "rows": table.rows, "view": table.view} for table in chosen]
            return Started(None, wanted, tables=shown, notes=list(database.notes))
        beginnings += [database.begin(table) for table in chosen]
    return _from_rows(path, beginnings, notes, wanted, below, environment)


def _from_rows(
    path: Path, beginnings: list[Beginning], notes: list[str], wanted: str | None, below: str, environment: Environment
) -> Started:
    """Write a site file whose sections are proposed from their first rows.

    `wanted`: the given origin, if any. `below`: the path that the site is in.
    """
    names = distinct([beginning.name for beginning in beginnings])
    now = environment.clock()
    sections: list[str] = []
    found_at: Counter[str] = Counter()
    samples: list[tuple[pa.Table, Found]] = []
    for name, beginning in zip(names, beginnings, strict=True):
        beginning = as_pages(beginning, find(beginning.rows, now, wanted, beginning.folders), below)  # noqa: PLW2901 - as pages
        found = find(beginning.rows, now, wanted, beginning.folders)
        samples.append((beginning.rows, found))
        found_at.update({} if found.address is None else found.address.origins)
        proposal = propose(name, beginning, found, "" if beginning.hints else below)
        sections += proposal.lines
        notes += proposal.notes if len(names) == 1 else [f"section {name}: {note}" for note in proposal.notes]
    settled = settle(found_at, wanted, _PLACEHOLDER)
    judged = [judge(rows, found, UrlRules(settled.site, settled.same)) for rows, found in samples]
    notes += [note for one in judged for note in one.notes]
    notes += _said_of(settled)
    columns = list(dict.fromkeys(name for beginning in beginnings for name in beginning.rows.column_names))
    text = _text(
        settled.site, {"to": "./public"}, [*settled.lines(bare=any(one.bare for one in judged)), "sections:", *sections]
    )
    return _written(path, text, Started(str(path), settled.site, columns, names, notes=notes))


def _from_live(path: Path, live: Live, wanted: str | None) -> Started:
    """Return a site that begins as the live sitemap is."""
    origins = settle(live.origins, wanted, _PLACEHOLDER)
    notes = [f"section {one.name}: {one.about}" for one in live.series.values()]
    notes += live.notes
    notes.append(
        f"{EXPORTS}/ has what the live sitemap lists, with its dates, to begin with: replace it by your own sources"
    )
    compared = f"--against {shell_word(shown_address(live.target))}"
    notes.append(f"what would change: sitemap-etl run {shell_word(str(path))} --dry-run {compared}")
    notes += _said_of(origins)
    text = _text(origins.site, live.publish(origins.site), [*origins.lines(bare=False), "sections:", *live.lines()])
    return _written(path, text, Started(str(path), origins.site, ["loc", "lastmod"], list(live.series), notes=notes))


def _said_of(origins: Origins) -> list[str]:
    return [*origins.notes(), *([_TO_REPLACE] if origins.site == _PLACEHOLDER else [])]


def _origin(site: str) -> tuple[str, str]:
    """Return the origin of a site and the path that it is in, "" or without a slash at its end."""
    try:
        found, whole = origin(site), canonical_url(site)
    except ValueError as error:
        raise ConfigError(f"--site {site}: {error}. Expected an origin such as https://shop.example") from error
    return found, whole.removeprefix(found).partition("?")[0].rstrip("/")


_TO_REPLACE: Final = f"site: {_PLACEHOLDER} is a placeholder for the origin of your pages: replace it"
_EMPTY: Final = (
    "sections:",
    "  pages:",
    line("    from: {csv: pages.csv}", "or {parquet: …}, {jsonl: …}, or {database: CONNECTION, sql: FILE}"),
    line("    # columns: {loc: url}", "the address of a page, if the column is not called loc"),
    line("    # lastmod: updated_at", "when the page last changed, if it is not called lastmod"),
)


def _text(site: str, publish: dict[str, Any], sections: Sequence[str]) -> str:
    """Return the text of a site file."""
    to = publish["to"] if len(publish) == 1 else flow(publish)
    lines = [
        "# A site file of sitemap-etl: one site, one state, one DAG.",
        "# `sitemap-etl schema` prints every key with its description, as a JSON Schema that editors can use.",
        line(f"site: {site}", "the origin of every page"),
        line(f"publish: {to}", "a folder, or s3://bucket/prefix"),
        line("work: .sitemap-etl", "state and reports. Keep it, and keep it private"),
        "",
        *sections,
        "",
        line("gates:", "limits beyond which a publish is refused"),
        line("  max_same_hour: 0.5", "share of pages that get a new date within one hour, as by a batch job"),
        *(f"  # {name}: {value}" for name, value in Gates().model_dump(exclude_none=True).items()),
        "# urls: {strip: [tracking], respect_robots: true}",
        "# ping:",
        '#   indexnow: {key: "${INDEXNOW_KEY}"}',
        line('# schedule: {cron: "0 2 * * *", timezone: Europe/Berlin}', "for the DAG"),
    ]
    return "\n".join(lines) + "\n"


def _written(path: Path, text: str, started: Started) -> Started:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{path} can't be written: {error.strerror or error}") from error
    return started
