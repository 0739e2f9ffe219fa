"""A first site file: written from what an export shows, or from nothing, with comments to go on from."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import urlsplit

import pyarrow as pa
import yaml

from sitemap_etl import lastmod, sources
from sitemap_etl.arrow import column_of
from sitemap_etl.errors import ConfigError, InvalidSource
from sitemap_etl.frames import Tally
from sitemap_etl.settings import CsvFormat, Gates
from sitemap_etl.urls import origin

LOC: Final = (
    "loc",
    "url",
    "permalink",
    "canonical",
    "canonical_url",
    "link",
    "href",
    "address",
    "page",
    "path",
    "slug",
)
LASTMOD: Final = (
    *("lastmod", "updated_at", "updated", "modified_at", "modified", "last_modified", "date_modified"),
    *("changed_at", "changed", "changed_on", "updated_on", "modified_on"),
)
_ROWS: Final = 1_000
"""Rows that are looked at."""
_PLACEHOLDER: Final = "https://www.example.com"
_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True)
class Started:
    """What was written, and what a person should look at in it."""

    file: str
    site: str
    columns: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass
class _Export:
    """An export as it was found: its columns and first rows."""

    path: str
    kind: Literal["csv", "parquet"]
    rows: pa.Table
    delimiter: str = ","


def start_site(path: Path, *, export: str | None = None, site: str | None = None) -> Started:
    """Write a site file to `path`; the origin comes from `site` or from the first URL of the export.

    Raises ConfigError where the file is there already or `site` is no address, InvalidSource and
    Unavailable where the export can't be read.
    """
    if path.suffix not in (".yaml", ".yml"):
        raise ConfigError(f"{path}: the name of a site file must end in .yaml, such as site.yaml")
    if path.exists():
        raise ConfigError(
            f"{path} already exists, and init never replaces a file: use another name, or move the file away"
        )
    found = None if export is None else _look(export)
    notes: list[str] = []
    address = _site(site, found, notes)
    text = _TOP.format(site=address) + (_EMPTY if found is None else _section(found, path, notes)) + _MORE
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_COMMENT.sub(_aligned, text), encoding="utf-8")
    return Started(str(path), address, [] if found is None else found.rows.column_names, notes)


def _aligned(line: re.Match[str]) -> str:
    """A line whose comment begins where those of the others do."""
    return f"{line[1]:<43} # {line[2]}"


def _look(export: str) -> _Export:
    """The first rows of a CSV or Parquet export."""
    kind: Literal["csv", "parquet"] = "csv" if re.search(r"\.csv(\.\w+)?$", export) else "parquet"
    if kind == "parquet":
        return _Export(export, kind, _rows(sources.plan_parquet(export)))
    try:
        return _Export(export, kind, _rows(sources.plan_csv(export)))
    except InvalidSource as error:
        for delimiter in ";\t|":
            if f"separated by {delimiter!r}" in str(error):
                return _Export(export, kind, _rows(sources.plan_csv(export, CsvFormat(delimiter=delimiter))), delimiter)
        raise


def _rows(splits: list[sources.Split]) -> pa.Table:
    batch = next(iter(sources.read(splits[0], batch_rows=_ROWS)), None)
    schema = sources.columns(splits[0])
    return schema.empty_table() if batch is None else pa.Table.from_batches([batch]).slice(0, _ROWS)


def _site(site: str | None, export: _Export | None, notes: list[str]) -> str:
    if site is not None:
        try:
            return origin(site)
        except ValueError as error:
            raise ConfigError(f"--site {site}: {error}. Expected an origin such as https://shop.example") from error
    column = None if export is None else _first(export, LOC)
    if export is not None and column is not None:
        for text in export.rows.column(column).drop_null().cast(pa.string()).to_pylist():
            if urlsplit(text).scheme in ("http", "https"):
                try:
                    return origin(text)
                except ValueError:
                    continue
    notes.append(f"site: {_PLACEHOLDER} is a placeholder for the origin of your pages: replace it")
    return _PLACEHOLDER


def _first(export: _Export, names: tuple[str, ...]) -> str | None:
    """The first of the names that is a column, whatever its case."""
    known = {name.lower(): name for name in reversed(export.rows.column_names)}
    return next((known[name] for name in names if name in known), None)


def _section(export: _Export, path: Path, notes: list[str]) -> str:
    """The section of an export, as YAML with comments."""
    loc, dated = _first(export, LOC), _first(export, LASTMOD)
    source: dict[str, Any] = {export.kind: _relative(export.path, path)}
    if export.delimiter != ",":
        source["delimiter"] = export.delimiter
    lines = ["sections:", "  pages:", f"    from: {_flow(source)}"]
    if loc is None:
        notes.append(f"no column looks like the address of a page: set it in columns: {{loc: …}}. "
                     f"The columns are: {', '.join(export.rows.column_names)}")  # fmt: skip
        lines.append("    columns: {loc: NAME}                # write the column that holds the address of a page")
    elif loc != "loc":
        lines.append(
            f"    columns: {_flow({'loc': loc})}                # the address of a page; a path is joined to site"
        )
        notes.append(f"the column {loc} is used as the address of a page")
    if dated is None:
        lines.append(
            "    lastmod: none                         # no column looks like the date of the last change of a page"
        )
    else:
        lines += _lastmod(export, dated, notes)
    rest = [name for name in export.rows.column_names if name not in (loc, dated)]
    if rest:
        lines.append(f"    # other columns, for rules and hooks: {', '.join(rest)}")
    return "\n".join(lines) + "\n"


def _lastmod(export: _Export, name: str, notes: list[str]) -> list[str]:
    """The lastmod rule of a column; one that needs a time zone or a unit gets a first guess and a note."""
    column = column_of(export.rows, name)
    now = datetime.now(UTC)
    for settings in ({}, {"timezone": "UTC"}, {"unit": "s"}, {"unit": "ms"}):
        try:
            tally = Tally()
            dates = lastmod.from_column(
                column,
                name=name,
                timezone=settings.get("timezone"),
                unit=settings.get("unit"),
                read_at=now,
                tally=tally,
            )
        except InvalidSource:
            continue
        if dates.null_count == len(dates) > column.null_count:
            continue  # nothing of it can be believed
        notes.append(
            f"the column {name} is used as the date of the last change of a page: make sure that it is not "
            "the date of the export"
        )
        if settings:
            key, value = next(iter(settings.items()))
            what = "the times have no zone: is it this one?" if key == "timezone" else "numbers: is this their unit?"
            notes.append(f"lastmod: {key} {value} is a guess")
            return [f"    lastmod: {_flow({'column': name, **settings})}    # {what}"]
        return (
            []
            if name == "lastmod"
            else [f"    lastmod: {_scalar(name)}                   # when the page last changed"]
        )
    notes.append(f"the column {name} could not be read as dates")
    return [f"    lastmod: none                         # {name} can't be read as dates"]


def _relative(export: str, path: Path) -> str:
    """The export as seen from the site file, where that is short."""
    if "://" in export:
        return export
    try:
        return str(Path(export).resolve().relative_to(path.resolve().parent))
    except ValueError:
        return str(Path(export).resolve())


def _scalar(text: str) -> str:
    return (
        text
        if _PLAIN.fullmatch(text)
        else yaml.safe_dump(text, allow_unicode=True, width=1000).removesuffix("\n...\n").strip()
    )


def _flow(mapping: dict[str, Any]) -> str:
    return yaml.safe_dump(mapping, default_flow_style=True, sort_keys=False, allow_unicode=True, width=1000).strip()


_COMMENT = re.compile(r"^(?! *#)(.*?\S) {4,}# (.*)$", re.MULTILINE)
_TOP = """\
# A site file of sitemap-etl: one site, one state, one DAG.
# Every key is explained in docs/reference/site-file.md; `sitemap-etl schema` gives the JSON Schema for editors.
site: {site}          # the origin of every page
publish: ./public                           # a folder, or s3://bucket/prefix
work: .sitemap-etl                          # state and reports. Keep it, and keep it private

"""
_EMPTY = """\
sections:
  pages:
    from: {csv: pages.csv}                  # or {parquet: …}, or {database: CONNECTION, sql: FILE}
    # columns: {loc: url}                   # the address of a page, where the column is not called loc
    # lastmod: updated_at                   # when the page last changed, where it is not called lastmod
"""
_MORE = f"""\

# gates: {_flow(Gates().model_dump(exclude_none=True))}     # limits beyond which a publish is refused
# urls: {{strip: [tracking], respect_robots: true}}
# ping:
#   indexnow: {{key: "${{INDEXNOW_KEY}}"}}
# schedule: {{cron: "0 2 * * *", timezone: Europe/Berlin}}                       # for the DAG
"""
