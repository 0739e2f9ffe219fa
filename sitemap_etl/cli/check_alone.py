"""The program sitemap-etl-check: the command `check`, without the imports of the other commands."""

from __future__ import annotations

from typing import Any

import typer

from sitemap_etl import __version__
from sitemap_etl.cli import sitemaps
from sitemap_etl.cli.check_config import Configured


class Alone(Configured):
    """The command `check` as a program, which also has the option `--version`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args == ["--version"]:
            print(__version__)
            raise typer.Exit
        return super().parse_args(ctx, args)


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
app.command(
    "sitemap-etl-check",
    cls=Alone,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="sitemap-etl-check --version prints the version.",
)(sitemaps.check)
