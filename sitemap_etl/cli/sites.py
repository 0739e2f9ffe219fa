"""The commands about site files: init, validate and schema."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Any

import click

from sitemap_etl.advice import shell_word
from sitemap_etl.cli.options import json_option, read_site
from sitemap_etl.cli.output import put, put_error, put_json
from sitemap_etl.cli.pages import Page
from sitemap_etl.cli.values import File, OneOf
from sitemap_etl.cli.words import message
from sitemap_etl.errors import ConfigError, SitemapEtlError


@click.command(cls=Page)
@click.argument(
    "site_file",
    type=File(),
    default=Path("site.yaml"),
    metavar="SITE.yaml",
    help="The file to write (default: site.yaml).",
)
@click.option(
    "--from",
    "exports",
    multiple=True,
    metavar="SOURCE",
    help="An export, a table of a lakehouse, a database (its URI or the ID of its connection), or the address "
    "of a live sitemap (default: none). Can be repeated, for a section each.",
)
@click.option(
    "--table",
    multiple=True,
    metavar="NAME",
    help="A table of the database (default: show what tables there are). Can be repeated.",
)
@click.option(
    "--site", metavar="URL", help="The site, such as https://shop.example (default: that of the first pages)."
)
@json_option
def init(site_file: Path, exports: tuple[str, ...], table: tuple[str, ...], site: str | None, as_json: bool) -> None:
    """Create a site file with comments, optionally from what there is.

    With --from, looks at the first rows: which column has addresses, dates of changes, images or titles.
    With a database and no --table, prints its tables and creates nothing. Never replaces an existing file.
    """
    from sitemap_etl.runs.init import start_site

    started = start_site(site_file, exports=exports, tables=table, site=site)
    if as_json:
        put_json({"status": "done", "error": None, "exit": 0, **started.to_json()})
        return
    if started.file is None:
        put("Tables, with the number of rows as the database estimates it:")
        for one in started.tables:
            rows = "a view" if one["view"] else "unknown" if one["rows"] is None else f"{one['rows']:,}"
            put(f"  {rows:>15}  {one['name']}")
        put(f"Next: the same call with --table {shell_word(started.tables[0]['name'])}, or another one")
        return
    put(f"Created {site_file}.")
    for note in started.notes:
        put(f"  {note}")
    file = shell_word(str(site_file))
    put(f"Next: sitemap-etl validate {file} --connect", f"      sitemap-etl run {file} --dry-run")


@click.command(cls=Page)
@click.argument("site_files", nargs=-1, required=True, type=File(), metavar="SITE.yaml...", help="Site files.")
@click.option("--connect", is_flag=True, help="Also try a thousand rows of every source, every storage and secret.")
@click.option(
    "--against", metavar="URL", help="With --connect: a live sitemap that a run can be compared with (default: none)."
)
@json_option
def validate(site_files: tuple[Path, ...], connect: bool, against: str | None, as_json: bool) -> None:
    """Check site files for mistakes.

    With --connect, also reads 1,000 rows of every section, applies all rules to them, and checks storages, secrets and
    engines. Stores and publishes nothing.

    Exit code 3: the only problem is a temporary failure.
    """
    if against is not None and not connect:
        raise ConfigError("--against needs --connect")
    from sitemap_etl.runs.validate import problems_of
    from sitemap_etl.runs.work import dag_lacks_work
    from sitemap_etl.stages.run import Environment

    found: list[dict[str, Any]] = []
    errors: list[SitemapEtlError] = []
    for path in site_files:
        entry: dict[str, Any] = {"file": str(path), "name": None, "sections": []}
        entry |= {"problems": [], "notes": [], "tried": []}
        found.append(entry)
        try:
            site = read_site(path)
        except SitemapEtlError as error:
            entry["problems"] = list(error.problems if isinstance(error, ConfigError) else [str(error)])
            errors.append(error)
            continue
        entry |= {"name": site.name, "sections": list(site.sections)}
        environment = Environment(log=entry["notes"].append)
        if (site.schedule is not None or "airflow" in site.model_fields_set) and (lack := dag_lacks_work(site)):
            entry["notes"].append(f"Airflow can't run it: {lack}")
        problems = problems_of(
            site, connect=connect, environment=environment, against=against, tried=entry["tried"].append
        )
        entry["problems"] = [f"{path}: {problem}" for problem in problems]
        errors += [problem.error for problem in problems]
    lines = [line for entry in found for line in entry["problems"]]
    code = _worst(errors) if lines else 0
    if as_json:
        status = "failed" if lines else "done"
        put_json({"status": status, "error": "\n".join(lines) or None, "exit": code, "sites": found})
    else:
        for entry in found:
            if not entry["problems"]:
                count = len(entry["sections"])
                put(f"{entry['file']}: valid ({entry['name']}, {count} section{'s' if count > 1 else ''})")
            for line in [*entry["tried"], *entry["notes"]]:
                put(f"  {line}")
        sys.stdout.flush()
    if lines:
        put_error(message(ConfigError(lines)))
        raise click.exceptions.Exit(code)


def _worst(errors: list[SitemapEtlError]) -> int:
    """Return the exit code for several errors.

    Mistakes in the file take precedence, then refusals. A retry can only help if nothing else is wrong.
    """
    codes = {error.exit_code for error in errors}
    return 2 if 2 in codes else min(codes)


class Described(StrEnum):
    """The document that a JSON Schema describes."""

    site = "site"
    check = "check"


@click.command(cls=Page)
@click.argument(
    "of",
    type=OneOf(Described),
    default=Described.site,
    metavar="site|check",
    help="Site files (default), or what check --json prints.",
)
def schema(of: Described) -> None:
    """Print the JSON Schema of site files, or of the JSON that check prints."""
    if of is Described.check:
        from sitemap_etl.check.reference import schema as schema_of_check

        put_json(schema_of_check())
        return
    from sitemap_etl.config import schema as schema_of_sites

    put_json(schema_of_sites())
