"""The commands by name, in the order in which a new user needs them."""

from __future__ import annotations

from typing import Annotated

import typer

from sitemap_etl import __version__
from sitemap_etl.cli import runs, sitemaps, sites, state, status, upkeep
from sitemap_etl.cli.check_config import Configured
from sitemap_etl.cli.pages import Commands, Page

app = typer.Typer(
    name="sitemap-etl",
    cls=Commands,
    help="Build sitemaps from your catalogue, publish them, and notify search engines.",
    epilog="Exit codes: 0 success. 1 refused, or problems found. 2 invalid site file or usage. 3 temporary failure. "
    "65 damaged state. 70 a defect of sitemap-etl. 130 interrupted.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},  # every command takes them over
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _version(value: bool) -> None:
    if value:
        print(__version__)
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Build sitemaps from your catalog, publish them, and notify search engines."""
    del version  # handled by its callback


# Each short help fits into one line of 80 columns.
app.command("init", cls=Page, short_help="Create a site file, optionally from an export.")(sites.init)
app.command("validate", cls=Page, short_help="Check site files for mistakes.")(sites.validate)
app.command("run", cls=Page, short_help="Build and publish the sitemaps of a site.")(runs.run)
app.command("publish", cls=Page, short_help="Publish a dry or refused run.")(runs.publish)
app.command("ping", cls=Page, short_help="Notify search engines now.")(state.ping)
app.command("status", cls=Page, short_help="Show how sites are; exit code 1 if not well.")(status.status)
app.command("history", cls=Page, short_help="List runs and published sets, newest first.")(state.history)
app.command("rollback", cls=Page, short_help="Publish an older set again.")(runs.rollback)
app.command("explain", cls=Page, short_help="Show why URLs are listed or not.")(state.explain)
app.command("check", cls=Configured, short_help="Check any sitemap for problems.")(sitemaps.check)
app.command("schema", cls=Page, short_help="Print the JSON Schema of site files.")(sites.schema)

_upkeep = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
_upkeep.command("verify", cls=Page, short_help="Read the whole state, and repair it.")(upkeep.verify)
_upkeep.command("forget", cls=Page, short_help="Remove rows from the state now.")(upkeep.forget)
app.add_typer(_upkeep, name="state", help="Look after the state of a site.", short_help="Look after the state.")
