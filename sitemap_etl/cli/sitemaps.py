"""The command that checks sitemaps: check."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from sitemap_etl.cli.options import console, moment, put_json
from sitemap_etl.cli.progress import Bars
from sitemap_etl.errors import ConfigError, Refused, Unavailable

if TYPE_CHECKING:
    from sitemap_etl.check import Policy, Report
    from sitemap_etl.check.url_file import UrlFile

FILES: Final = "Files"
REQUESTS: Final = "Requests"
PAGES: Final = "Pages"
FINDINGS: Final = "Findings"
OUTPUT: Final = "Output"
CONFIG: Final = "Config file"
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


def check(
    context: typer.Context,
    targets: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="PATH_OR_URL...",
            help="Files, folders, home pages, s3://, http:// and https:// addresses; - is standard input.",
        ),
    ] = None,
    # --- which files ---
    at: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="The public address of the given folder, bucket or file (default: unknown).",
            rich_help_panel=FILES,
        ),
    ] = None,
    follow: Annotated[
        bool,
        typer.Option(
            "--follow/--no-follow",
            show_default=False,
            help="Check the files that an index or robots.txt lists.",
            rich_help_panel=FILES,
        ),
    ] = True,
    robots: Annotated[
        bool,
        typer.Option(
            "--robots/--no-robots", show_default=False, help="Fetch robots.txt from the hosts.", rich_help_panel=FILES
        ),
    ] = True,
    max_files: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="Maximum number of files to read (default: 60,000).", rich_help_panel=FILES
        ),
    ] = None,
    max_bytes: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="BYTES",
            help="Maximum uncompressed bytes to read of a file (default: 52,428,800).",
            rich_help_panel=FILES,
        ),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="Number of files to read in parallel (default: 4).", rich_help_panel=FILES
        ),
    ] = None,
    # --- requests ---
    timeout: Annotated[
        float | None,
        typer.Option(
            min=0.1,
            metavar="SECONDS",
            help="Time limit for a file, from the connection to the last byte (default: 120).",
            rich_help_panel=REQUESTS,
        ),
    ] = None,
    max_time: Annotated[
        float | None,
        typer.Option(
            min=0.1,
            metavar="SECONDS",
            help="Time limit for the whole check; what was found by then is shown (default: none).",
            rich_help_panel=REQUESTS,
        ),
    ] = None,
    delay: Annotated[
        float | None,
        typer.Option(
            min=0,
            metavar="SECONDS",
            help="Time between two requests to the same host (default: 0).",
            rich_help_panel=REQUESTS,
        ),
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option(
            "--header",
            metavar="'NAME: VALUE'",
            help="Send a header to the given hosts (default: none). Can be repeated.",
            rich_help_panel=REQUESTS,
        ),
    ] = None,
    user_agent: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT", help="The User-Agent to send (default: our name and version).", rich_help_panel=REQUESTS
        ),
    ] = None,
    allow_private: Annotated[
        bool,
        typer.Option(
            "--allow-private/--no-allow-private",
            show_default=False,
            help="Let public sitemaps lead to private addresses.",
            rich_help_panel=REQUESTS,
        ),
    ] = False,
    crawler: Annotated[
        Crawler | None,
        typer.Option(
            "--as",
            metavar="googlebot|bingbot",
            help="Send the User-Agent of this crawler (default: our own).",
            rich_help_panel=REQUESTS,
        ),
    ] = None,
    # --- pages ---
    pages: Annotated[
        int | None,
        typer.Option(
            min=0, metavar="N", help="Visit up to N pages of each sitemap (default: 0).", rich_help_panel=PAGES
        ),
    ] = None,
    pages_budget: Annotated[
        float | None,
        typer.Option(
            min=1, metavar="SECONDS", help="Time limit for all these visits (default: 600).", rich_help_panel=PAGES
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(metavar="N", help="Another number visits other pages (default: 0).", rich_help_panel=PAGES),
    ] = None,
    state: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Compare the pages with those of the last check (default: no file).",
            rich_help_panel=PAGES,
        ),
    ] = None,
    # --- findings ---
    fail_on: Annotated[
        Severity,
        typer.Option(
            metavar="error|warning",
            help="The lowest severity that makes the exit code 1 (default: error).",
            show_default=False,
            rich_help_panel=FINDINGS,
        ),
    ] = Severity.error,
    select: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CODE",
            help="Report only these codes, or codes that begin so (default: all). Can be repeated.",
            rich_help_panel=FINDINGS,
        ),
    ] = None,
    ignore: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CODE",
            help="Do not report these codes (default: none). The longer pattern wins.",
            rich_help_panel=FINDINGS,
        ),
    ] = None,
    severity: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CODE=LEVEL",
            help="Give a code another severity: error, warning, info or off (default: its own).",
            rich_help_panel=FINDINGS,
        ),
    ] = None,
    baseline: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="A file of known findings, which do not fail (default: none).",
            rich_help_panel=FINDINGS,
        ),
    ] = None,
    write_baseline: Annotated[
        bool,
        typer.Option("--write-baseline", help="Write all findings into the baseline.", rich_help_panel=FINDINGS),
    ] = False,
    now: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="The time by which dates are judged, in ISO 8601 (default: now).",
            rich_help_panel=FINDINGS,
        ),
    ] = None,
    # --- output ---
    form: Annotated[
        Format,
        typer.Option(
            "--format",
            metavar="text|json|sarif|junit|github|gitlab",
            help="The form of the report on stdout (default: text).",
            show_default=False,
            rich_help_panel=OUTPUT,
        ),
    ] = Format.text,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json", help="Short for --format json: one JSON object, also for errors.", rich_help_panel=OUTPUT
        ),
    ] = False,
    examples: Annotated[
        str,
        typer.Option(
            metavar="N|all",
            help="Examples to show of each problem (default: 1).",
            show_default=False,
            rich_help_panel=OUTPUT,
        ),
    ] = "1",
    explained: Annotated[
        str | None,
        typer.Option(
            "--explain",
            metavar="CODE",
            help="Explain a code with an example and its source, and check nothing (default: check).",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    by_file: Annotated[
        bool,
        typer.Option(
            "--by-file/--no-by-file",
            show_default=False,
            help="Also show the problems file by file.",
            rich_help_panel=OUTPUT,
        ),
    ] = False,
    html: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Also write the report as an HTML page (default: no page).", rich_help_panel=OUTPUT
        ),
    ] = None,
    urls: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Also write every listed URL into a .csv or .parquet file (default: none).",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    # --- config ---
    isolated: Annotated[
        bool,
        typer.Option("--isolated", help="Read no config file.", rich_help_panel=CONFIG),
    ] = False,
    config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The config file (default: the nearest .sitemap-check.toml, or pyproject.toml with our table).",
            rich_help_panel=CONFIG,
        ),
    ] = None,
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
    targets = targets or []
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
        state=state,
        crawler=None if crawler is None else crawler.value,
        now=moment(now),
        headers=tuple(_header(text) for text in header or ()),
        open_s3=open_storage,
        open_stdin=lambda: sys.stdin.buffer,
        examples=shown,
        **{name: value for name, value in limits.items() if value is not None},  # type: ignore[arg-type]  # each is of its own type
    )
    with Bars() as bars, _url_file(urls) as file:
        report = check_all(
            targets,
            options=options,
            progress=lambda done, known, _name: bars.advance("check", done, known),
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
    if report.unwritten:
        print(report.unwritten, file=sys.stderr)
        code = code or ConfigError.exit_code
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
                targets=targets,
                at=options.now or datetime.now(UTC),
                examples=shown or sys.maxsize,
            )
            html.write_text(page, "utf-8", "replace")
    if report.ended:
        # A thread may still be at work on a file, and Python would wait for it.
        sys.stdout.flush()
        os._exit(code)
    if code:
        raise typer.Exit(code)


def _explain(context: typer.Context, code: str, form: Format) -> None:
    """Print the explanation of a code. Raises ConfigError if there is none, or if the call names targets as well."""
    from sitemap_etl.check.explanations import explain, explained

    source = context.get_parameter_source("targets")
    if source is not None and source.name == "COMMANDLINE":
        raise ConfigError("--explain explains a code and checks nothing; leave out the targets")
    explanation = explain(code)
    if form is Format.json:
        put_json({"error": None, "exit": 0, **explanation.to_json()})
    else:
        print(explained(explanation))


def _form(context: typer.Context, form: Format, *, as_json: bool) -> Format:
    """Return the report's format. Raises ConfigError if the command line names two."""
    source = context.get_parameter_source("form")
    if as_json and form is not Format.json and source is not None and source.name == "COMMANDLINE":
        raise ConfigError(f"--json and --format {form} exclude each other; use one of them")
    return Format.json if as_json else form


def _examples(text: str) -> int | None:
    """Return the number of examples, or None for all. Raises ConfigError."""
    if text == "all":
        return None
    if not text.isdecimal() or int(text) < 1:
        raise ConfigError(f"--examples: expected a number from 1 on, or all, got {text!r}")
    return int(text)


@contextmanager
def _url_file(path: Path | None) -> Iterator[UrlFile | None]:
    """Where the listed URLs go; None where nobody asked for them."""
    if path is None:
        yield None
        return
    from sitemap_etl.check.url_file import UrlFile

    with UrlFile(path) as file:
        yield file


@contextmanager
def _written(path: Path) -> Iterator[None]:
    """Where a file is written that was asked for. Raises ConfigError where it can't be."""
    try:
        yield
    except OSError as error:
        raise ConfigError(f"{path}: can't be written: {error.strerror or error}") from error


def _patterns(texts: list[str] | None) -> list[str]:
    """Return the values of a repeatable option. A value can be a list, separated by commas."""
    return [part.strip() for text in texts or () for part in text.split(",")]


def _known(baseline: Path | None, *, write: bool) -> Any:
    """The known findings. Raises ConfigError where there is no baseline to read."""
    if baseline is None and write:
        raise ConfigError("--write-baseline needs --baseline FILE")
    if baseline is None or write:
        return None
    from sitemap_etl.check.baseline import read_baseline

    return read_baseline(baseline)


def _compare(report: Report, policy: Policy, baseline: Path | None, known: Any, *, write: bool) -> None:
    """Mark what the baseline has; write it first, if that was asked for."""
    if baseline is None:
        return
    from sitemap_etl.check.baseline import apply_baseline, read_baseline, write_baseline

    if write and report.ended:
        _not_written(baseline, report)
        return
    if write:
        with _written(baseline):
            count = write_baseline(baseline, report)
        print(f"{baseline}: {count:,} finding{'' if count == 1 else 's'} written.", file=sys.stderr)
        known = read_baseline(baseline)
    apply_baseline(known, baseline.parent, report, policy)


def _not_written(path: Path, report: Report) -> None:
    """Tell that a file was left as it is, because it would not have everything."""
    print(f"{path}: not written, because the check ended early: {report.ended}.", file=sys.stderr)


def _put(form: Format, report: Report, fail_on: Severity, code: int, *, compared: bool) -> None:
    """Print the report in a form for machines."""
    from sitemap_etl.check import formats

    if form is Format.json:
        put_json({"error": None, "exit": code, **report.to_json(fail_on.value)})
    elif form is Format.sarif:
        put_json(formats.sarif(report, code, compared=compared))
    elif form is Format.junit:
        print(formats.junit(report, fail_on.value), end="")
    elif form is Format.gitlab:
        put_json(formats.gitlab(report))
    else:
        for line in formats.github(report):
            print(line)
    sys.stdout.flush()


def _header(text: str) -> tuple[str, str]:
    """Split a header into name and value. Raises ConfigError without the value, which can be a secret."""
    name, colon, value = text.partition(":")
    if not colon:
        raise ConfigError("--header: expected 'Name: value', with a colon after the name")
    return name.strip(), value.strip()
