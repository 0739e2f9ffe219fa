"""The commands by name, in the order in which a person meets them."""

from __future__ import annotations

from typing import Annotated

import typer

from sitemap_etl import __version__
from sitemap_etl.cli import runs, sitemaps, sites, state, upkeep
from sitemap_etl.cli.pages import Page

app = typer.Typer(
    name="sitemap-etl",
    help="Catalogue in, sitemaps out: published to S3 or a folder, told to the search engines.",
    epilog="Exit codes: 0 done. 1 refused, or faults found. 2 wrong site file or call. 3 no answer, try again. "
    "65 damaged state. 70 a defect of sitemap-etl. 130 interrupted.",
    no_args_is_help=True,
    add_completion=False,
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
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Catalogue in, sitemaps out: published to S3 or a folder, told to the search engines."""
    del version  # its callback has answered


# The short help stands in one line of 80 columns.
app.command("init", cls=Page, short_help="Write a first site file, from an export or from nothing.")(sites.init)
app.command("validate", cls=Page, short_help="Find every mistake in site files.")(sites.validate)
app.command("run", cls=Page, short_help="Run the whole job for one site.")(runs.run)
app.command("publish", cls=Page, short_help="Publish a dry or refused run as it was shown.")(runs.publish)
app.command("ping", cls=Page, short_help="Tell the engines by hand.")(state.ping)
app.command("history", cls=Page, short_help="List the published sets, newest first.")(state.history)
app.command("rollback", cls=Page, short_help="Publish an older set again, as a new run.")(runs.rollback)
app.command("explain", cls=Page, short_help="Say why URLs are listed, or not.")(state.explain)
app.command("check", cls=Page, short_help="Find every fault of any sitemap, ours or not.")(sitemaps.check)
app.command("schema", cls=Page, short_help="Print the JSON Schema of site files.")(sites.schema)

_upkeep = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
_upkeep.command("verify", cls=Page, short_help="Read the whole state, and repair it.")(upkeep.verify)
app.add_typer(_upkeep, name="state", help="Look after the state of a site.", short_help="Look after the state.")
