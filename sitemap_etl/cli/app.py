"""The commands by name, in the order in which a new user needs them."""

from __future__ import annotations

from typing import Final

import click

from sitemap_etl import __version__
from sitemap_etl.cli.output import put_raw
from sitemap_etl.cli.pages import Commands

_CLI: Final = "sitemap_etl.cli"


def _version(ctx: click.Context, _param: click.Parameter, asked: bool) -> None:
    if asked:
        put_raw(__version__)
        ctx.exit()


def _install_completion(ctx: click.Context, _param: click.Parameter, asked: bool) -> None:
    if asked and not ctx.resilient_parsing:
        from sitemap_etl.cli.completion import install

        install(app)
        ctx.exit()


def _show_completion(ctx: click.Context, _param: click.Parameter, asked: bool) -> None:
    if asked and not ctx.resilient_parsing:
        from sitemap_etl.cli.completion import script, shell

        put_raw(script(app, shell()))
        ctx.exit()


app = Commands(
    "sitemap-etl",
    table={
        "init": (f"{_CLI}.sites:init", "Create a site file, optionally from an export."),
        "validate": (f"{_CLI}.sites:validate", "Check site files for mistakes."),
        "run": (f"{_CLI}.runs:run", "Build and publish the sitemaps of a site."),
        "publish": (f"{_CLI}.runs:publish", "Publish a dry or refused run."),
        "ping": (f"{_CLI}.state:ping", "Notify search engines now."),
        "status": (f"{_CLI}.status:status", "Show how sites are; exit code 1 if not well."),
        "history": (f"{_CLI}.state:history", "List runs and releases, newest first."),
        "report": (f"{_CLI}.state:report", "Show the report of a run."),
        "rollback": (f"{_CLI}.runs:rollback", "Publish an earlier release again."),
        "explain": (f"{_CLI}.state:explain", "Show why URLs are listed or not."),
        "check": (f"{_CLI}.sitemaps:check", "Check any sitemap for problems."),
        "schema": (f"{_CLI}.sites:schema", "Print the JSON Schema of site files."),
        "state": (f"{_CLI}.app:state", "Look after the state."),
    },
    params=[
        click.Option(
            ["--version"],
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=_version,
            help="Print the version and exit.",
        ),
        click.Option(
            ["--install-completion"],
            is_flag=True,
            expose_value=False,
            callback=_install_completion,
            help="Install completion for the current shell.",
        ),
        click.Option(
            ["--show-completion"],
            is_flag=True,
            expose_value=False,
            callback=_show_completion,
            help="Show completion for the current shell, to copy it or customize the installation.",
        ),
    ],
    help="Build sitemaps from your catalogue, publish them, and notify search engines.",
    epilog="Exit codes: 0 success. 1 refused, or problems found. 2 invalid site file or usage. 3 temporary failure. "
    "65 damaged state. 70 a defect of sitemap-etl. 130 interrupted.",
    context_settings={"help_option_names": ["-h", "--help"]},  # every command takes them over
)

state = Commands(
    "state",
    table={
        "verify": (f"{_CLI}.upkeep:verify", "Read the whole state, and repair it."),
        "forget": (f"{_CLI}.upkeep:forget", "Remove rows from the state now."),
    },
    help="Look after the state of a site.",
)
