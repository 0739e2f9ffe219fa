"""The command that checks sitemaps: check."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from sitemap_etl.cli.check_config import Configured
from sitemap_etl.cli.options import moment
from sitemap_etl.cli.output import console, put_error, put_json, put_raw
from sitemap_etl.cli.pages import Option
from sitemap_etl.cli.progress import Bars
from sitemap_etl.cli.values import File, Number, OneOf, complete_file
from sitemap_etl.errors import ConfigError, Refused, Unavailable

if TYPE_CHECKING:
    from sitemap_etl.check import Policy, Report
    from sitemap_etl.check.url_file import UrlFile

_files = partial(click.option, cls=Option, panel="Files")
_requests = partial(click.option, cls=Option, panel="Requests")
_pages = partial(click.option, cls=Option, panel="Pages")
_findings = partial(click.option, cls=Option, panel="Findings")
_output = partial(click.option, cls=Option, panel="Output")
_config = partial(click.option, cls=Option, panel="Config file")
_MAY_PASS: Final = frozenset({"unreachable", "not-finished"})
"""Errors that a retry may clear."""


class Severity(StrEnum):
    """Lowest severity that makes the exit code 1."""

    error = "error"
    warning = "warning"


class Format(StrEnum):
    """Format of the report on stdout."""

    text = "text"
    json = "json"
    sarif = "sarif"
    junit = "junit"
    github = "github"
    gitlab = "gitlab"


class Crawler(StrEnum):
    """Crawler whose User-Agent can be sent."""

    googlebot = "googlebot"
    bingbot = "bingbot"


@click.command(cls=Configured)
@click.pass_context
@click.argument(
    "targets",
    nargs=-1,
    shell_complete=complete_file,
    metavar="PATH_OR_URL...",
    help="Files, folders, home pages, s3://, http:// and https:// addresses; - is standard input.",
)
@_files("--at", metavar="URL", help="The public address of the given folder, bucket or file (default: unknown).")
@_files("--follow/--no-follow", default=True, help="Check the files that an index or robots.txt lists.")
@_files("--robots/--no-robots", default=True, help="Fetch robots.txt from the hosts.")
@_files(
    "--max-files", type=Number(1, whole=True), metavar="N", help="Maximum number of files to read (default: 60,000)."
)
@_files(
    "--max-bytes",
    type=Number(1, whole=True),
    metavar="BYTES",
    help="Maximum uncompressed bytes to read of a file (default: 52,428,800).",
)
@_files("--jobs", type=Number(1, whole=True), metavar="N", help="Number of files to read in parallel (default: 4).")
@_requests(
    "--timeout",
    type=Number(0.1),
    metavar="SECONDS",
    help="Time limit for a file, from the connection to the last byte (default: 120).",
)
@_requests(
    "--max-time",
    type=Number(0.1),
    metavar="SECONDS",
    help="Time limit for the whole check; what was found by then is shown (default: none).",
)
@_requests(
    "--delay", type=Number(0), metavar="SECONDS", help="Time between two requests to the same host (default: 0)."
)
@_requests(
    "--header",
    multiple=True,
    metavar="'NAME: VALUE'",
    help="Send a header to the given hosts (default: none). Can be repeated.",
)
@_requests("--user-agent", metavar="TEXT", help="The User-Agent to send (default: our name and version).")
@_requests("--allow-private/--no-allow-private", default=False, help="Let public sitemaps lead to private addresses.")
@_requests(
    "--as",
    "crawler",
    type=OneOf(Crawler),
    metavar="googlebot|bingbot",
    help="Send the User-Agent of this crawler (default: our own).",
)
@_pages("--pages", type=Number(0, whole=True), metavar="N", help="Visit up to N pages of each sitemap (default: 0).")
@_pages("--pages-budget", type=Number(1), metavar="SECONDS", help="Time limit for all these visits (default: 600).")
@_pages("--seed", type=Number(whole=True), metavar="N", help="Another number visits other pages (default: 0).")
@_findings(
    "--fail-on",
    type=OneOf(Severity),
    default=Severity.error,
    metavar="error|warning",
    help="The lowest severity that makes the exit code 1 (default: error).",
)
@_findings(
    "--select",
    multiple=True,
    metavar="CODE",
    help="Report only these codes, or codes that begin so (default: all). Can be repeated.",
)
@_findings(
    "--ignore",
    multiple=True,
    metavar="CODE",
    help="Do not report these codes (default: none). The longer pattern wins.",
)
@_findings(
    "--severity",
    multiple=True,
    metavar="CODE=LEVEL",
    help="Give a code another severity: error, warning, info or off (default: its own).",
)
@_findings(
    "--baseline", type=File(), metavar="FILE", help="A file of known findings, which do not fail (default: none)."
)
@_findings("--write-baseline", is_flag=True, help="Write all findings into the baseline.")
@_findings("--now", metavar="TIME", help="The time by which dates are judged, in ISO 8601 (default: now).")
@_output(
    "--format",
    "form",
    type=OneOf(Format),
    default=Format.text,
    metavar="text|json|sarif|junit|github|gitlab",
    help="The form of the report on stdout (default: text).",
)
@_output("--json", "as_json", is_flag=True, help="Short for --format json: one JSON object, also for errors.")
@_output("--examples", default="1", metavar="N|all", help="Examples to show of each problem (default: 1).")
@_output(
    "--explain",
    "explained",
    metavar="CODE",
    help="Explain a code with an example and its source, and check nothing (default: check).",
)
@_output("--by-file/--no-by-file", default=False, help="Also show the problems file by file.")
@_output("--html", type=File(), metavar="FILE", help="Also write the report as an HTML page (default: no page).")
@_output(
    "--urls",
    type=File(),
    metavar="FILE",
    help="Also write every listed URL into a .csv or .parquet file (default: none).",
)
@_config("--isolated", is_flag=True, help="Read no config file.")
@_config(
    "--config",
    type=File(),
    metavar="FILE",
    help="The config file (default: the nearest .sitemap-check.toml, or pyproject.toml with our table).",
)
def check(
    context: click.Context,
    targets: tuple[str, ...],
    at: str | None,
    follow: bool,
    robots: bool,
    max_files: int | None,
    max_bytes: int | None,
    jobs: int | None,
    timeout: float | None,
    max_time: float | None,
    delay: float | None,
    header: tuple[str, ...],
    user_agent: str | None,
    allow_private: bool,
    crawler: Crawler | None,
    pages: int | None,
    pages_budget: float | None,
    seed: int | None,
    fail_on: Severity,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    severity: tuple[str, ...],
    baseline: Path | None,
    write_baseline: bool,
    now: str | None,
    form: Format,
    as_json: bool,
    examples: str,
    explained: str | None,
    by_file: bool,
    html: Path | None,
    urls: Path | None,
    isolated: bool,
    config: Path | None,
) -> None:
    """Check any sitemap, index, feed or robots.txt for problems.

    Also checks the files that an index lists, and all sitemaps of a folder. All targets are checked as one set.

    Exit code 1: problems were found. 3: the only problem is a temporary failure or a time limit. 70: sitemap-etl failed
    on a file.
    """
    del isolated, config  # `Configured` has read them, before any other option
    form = _form(context, form, as_json=as_json)
    if explained is not None:
        _explain(context, explained, form)
        return
    shown = _examples(examples)
    from sitemap_etl.check import Options, Policy, render_table, severities
    from sitemap_etl.check import check as check_all
    from sitemap_etl.storage import open_storage

    for path in (html, baseline, urls):
        if path is not None and not path.absolute().parent.is_dir():
            raise ConfigError(f"{path}: there is no folder {path.parent}")
    policy = Policy(_patterns(select), _patterns(ignore), severities(_patterns(severity)))
    known = _known(baseline, write=write_baseline)
    limits = {
        "max_files": max_files,
        "max_bytes": max_bytes,
        "timeout": timeout,
        "max_time": max_time,
        "delay": delay,
        "user_agent": user_agent,
        "jobs": jobs,
        "pages": pages,
        "pages_budget": pages_budget,
        "seed": seed,
    }
    options = Options(
        at=at,
        follow=follow,
        robots=robots,
        allow_private=allow_private,
        crawler=None if crawler is None else crawler.value,
        now=moment(now),
        headers=tuple(_header(text) for text in header),
        open_s3=open_storage,
        open_stdin=lambda: sys.stdin.buffer,
        examples=shown,
        **{name: value for name, value in limits.items() if value is not None},  # type: ignore[arg-type]  # each is of its own type
    )
    with Bars() as bars, _url_file(urls) as file:
        report = check_all(
            list(targets),
            options=options,
            progress=bars.advance,
            listed=None if file is None else file.add,
        )
        if report.ended and file is not None:
            file.abandon()
    if report.ended and urls is not None:
        _not_written(urls, report)
    policy.apply(report)
    _compare(report, policy, baseline, known, write=write_baseline)
    code = report.exit_code(fail_on.value)
    errors = {finding.code for finding in report.new if finding.severity == "error"}
    if code == Refused.exit_code and errors and errors <= _MAY_PASS:
        code = Unavailable.exit_code
    if form is Format.text:
        render_table(report, console(), by_file=by_file, examples=shown)
        sys.stdout.flush()
    else:
        _put(form, report, fail_on, code, compared=baseline is not None)
    if html is not None:
        from sitemap_etl.report.check import render_check

        with _written(html):
            page = render_check(
                report,
                fail_on.value,
                targets=list(targets),
                at=options.now or datetime.now(UTC),
                examples=shown or sys.maxsize,
            )
            html.write_text(page, "utf-8", "replace")
    if report.ended:
        # A thread may still be at work on a file, and Python would wait for it.
        sys.stdout.flush()
        os._exit(code)
    if code:
        raise click.exceptions.Exit(code)


def _explain(context: click.Context, code: str, form: Format) -> None:
    """Print the explanation of a code. Raise ConfigError if there is none, or if the call names targets as well."""
    from sitemap_etl.check.explanations import explain, explained

    source = context.get_parameter_source("targets")
    if source is not None and source.name == "COMMANDLINE":
        raise ConfigError("--explain explains a code and checks nothing; leave out the targets")
    explanation = explain(code)
    if form is Format.json:
        put_json({"error": None, "exit": 0, **explanation.to_json()})
    else:
        put_raw(explained(explanation))


def _form(context: click.Context, form: Format, *, as_json: bool) -> Format:
    """Return the report's format. Raise ConfigError if the command line names two."""
    source = context.get_parameter_source("form")
    if as_json and form is not Format.json and source is not None and source.name == "COMMANDLINE":
        raise ConfigError(f"--json and --format {form} exclude each other; use one of them")
    return Format.json if as_json else form


def _examples(text: str) -> int | None:
    """Return the number of examples, or None for all. Raise ConfigError."""
    if text == "all":
        return None
    if not text.isdecimal() or int(text) < 1:
        raise ConfigError(f"--examples: expected a number from 1 on, or all, got {text!r}")
    return int(text)


@contextmanager
def _url_file(path: Path | None) -> Iterator[UrlFile | None]:
    """Open the file for the listed URLs, or yield None if nobody asked for it."""
    if path is None:
        yield None
        return
    from sitemap_etl.check.url_file import UrlFile

    with UrlFile(path) as file:
        yield file


@contextmanager
def _written(path: Path) -> Iterator[None]:
    """Write a file in the block. Raise ConfigError if it can't be written."""
    try:
        yield
    except OSError as error:
        raise ConfigError(f"{path}: can't be written: {error.strerror or error}") from error


def _patterns(texts: tuple[str, ...]) -> list[str]:
    """Return the values of a repeatable option. A value can be a list, separated by commas."""
    return [part.strip() for text in texts for part in text.split(",")]


def _known(baseline: Path | None, *, write: bool) -> Any:
    """Return the known findings. Raise ConfigError if there is no baseline to read."""
    if baseline is None and write:
        raise ConfigError("--write-baseline needs --baseline FILE")
    if baseline is None or write:
        return None
    from sitemap_etl.check.baseline import read_baseline

    return read_baseline(baseline)


def _compare(report: Report, policy: Policy, baseline: Path | None, known: Any, *, write: bool) -> None:
    """Mark the findings of the baseline. Write it first, if that was asked for."""
    if baseline is None:
        return
    from sitemap_etl.check.baseline import apply_baseline, read_baseline, write_baseline

    if write and report.ended:
        _not_written(baseline, report)
        return
    if write:
        with _written(baseline):
            count = write_baseline(baseline, report)
        put_error(f"{baseline}: {count:,} finding{'' if count == 1 else 's'} written.")
        known = read_baseline(baseline)
    apply_baseline(known, baseline.parent, report, policy)


def _not_written(path: Path, report: Report) -> None:
    """Tell that a file was left as it is, because it would not have everything."""
    put_error(f"{path}: not written, because the check ended early: {report.ended}.")


def _put(form: Format, report: Report, fail_on: Severity, code: int, *, compared: bool) -> None:
    """Print the report in a form for machines."""
    from sitemap_etl.check import formats

    if form is Format.json:
        put_json({"error": None, "exit": code, **report.to_json(fail_on.value)})
    elif form is Format.sarif:
        put_json(formats.sarif(report, code, compared=compared))
    elif form is Format.junit:
        put_raw(formats.junit(report, fail_on.value))
    elif form is Format.gitlab:
        put_json(formats.gitlab(report))
    else:
        for line in formats.github(report):
            put_raw(line)
    sys.stdout.flush()


def _header(text: str) -> tuple[str, str]:
    """Split a header into name and value. Raise ConfigError without the value, which can be a secret."""
    name, colon, value = text.partition(":")
    if not colon:
        raise ConfigError("--header: expected 'Name: value', with a colon after the name")
    return name.strip(), value.strip()
