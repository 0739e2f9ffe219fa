"""Shared options, and reading of the site file."""

from __future__ import annotations

import os
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sitemap_etl.cli import logs
from sitemap_etl.cli.progress import Bars
from sitemap_etl.cli.values import File, OneOf, readable
from sitemap_etl.errors import ConfigError

if TYPE_CHECKING:
    from sitemap_etl.config import Site
    from sitemap_etl.stages.run import Environment


class LogFormat(StrEnum):
    """Format of the log on stderr."""

    text = "text"
    json = "json"


site_file_argument = click.argument("site_file", type=File(), metavar="SITE.yaml", help="The site file.")
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object, also for errors.")
reason_option = click.option(
    "--reason",
    type=readable,
    metavar="TEXT",
    help="Why you override a gate or a clock (default: none); recorded in the manifest.",
)
force_option = click.option(
    "--force",
    multiple=True,
    metavar="GATE",
    help="Override a gate, such as products.max_drop (default: none). Can be repeated.",
)
adopt_option = click.option(
    "--adopt", is_flag=True, help="Replace existing files that sitemap-etl did not write, after saving a copy."
)
moved_option = click.option(
    "--moved", is_flag=True, help="Take over state that belongs to another site or publishes to another place."
)
no_ping_option = click.option("--no-ping", is_flag=True, help="Do not notify search engines.")
now_option = click.option(
    "--now",
    metavar="TIME",
    help="The time of the run, in ISO 8601 (default: now). Far from the clocks, it needs a --reason.",
)
quiet_option = click.option(
    "--quiet", "-q", is_flag=True, help="Print only problems and warnings: nothing if there are none."
)
verbose_option = click.option(
    "--verbose", "-v", is_flag=True, help="Also print each part of the work when it is done, and its time."
)
log_option = click.option(
    logs.OPTION,
    type=OneOf(LogFormat),
    default=LogFormat.text,
    metavar="text|json",
    help="The form of the log on stderr (default: text). json: one object a line, with run, section and split.",
)


def progress_of(*, quiet: bool, verbose: bool, log_format: LogFormat) -> Bars:
    """Return the progress display for these options. Raise ConfigError if they contradict each other."""
    if quiet and verbose:
        raise ConfigError("--quiet and --verbose contradict each other: give one of them")
    return Bars(quiet=quiet, verbose=verbose, as_json=log_format is LogFormat.json)


def read_site(path: Path) -> Site:
    """Load a site file. Raise ConfigError with every mistake."""
    from sitemap_etl.config import load
    from sitemap_etl.runs.work import demand_default

    site = load(path, environ=os.environ)
    demand_default(site, path)
    return site


def environment_of(bars: Bars, site_file: Path) -> Environment:
    """Build the environment of a local run, with `bars` as its progress display."""
    from sitemap_etl.stages.run import Environment

    return Environment(advance=bars.advance, log=bars.say, detail=bars.detail, site_file=str(site_file.absolute()))


def moment(text: str | None) -> datetime | None:
    """Parse the time of `--now`. Raise ConfigError."""
    if text is None:
        return None
    from sitemap_etl.stages.clock import written

    return written(text)
