"""The program sitemap-etl-check: the command `check`, without the imports of the other commands."""

from __future__ import annotations

import click

from sitemap_etl import __version__
from sitemap_etl.cli.check_config import Configured
from sitemap_etl.cli.sitemaps import check


class Alone(Configured):
    """The command `check` as a program, which also has the option `--version`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args == ["--version"]:
            print(__version__)
            ctx.exit()
        return super().parse_args(ctx, args)


app = Alone(
    "sitemap-etl-check",
    params=check.params,
    callback=check.callback,
    help=check.help,
    epilog="sitemap-etl-check --version prints the version.",
    context_settings={"help_option_names": ["-h", "--help"]},
)
