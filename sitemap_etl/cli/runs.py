"""The commands that publish: run, publish and rollback."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sitemap_etl import trail
from sitemap_etl.advice import for_file
from sitemap_etl.cli.loading import loading
from sitemap_etl.cli.logs import Level, put_line
from sitemap_etl.cli.options import (
    LogFormat,
    adopt_option,
    environment_of,
    force_option,
    json_option,
    log_option,
    moment,
    moved_option,
    no_ping_option,
    now_option,
    progress_of,
    quiet_option,
    read_site,
    reason_option,
    site_file_argument,
    verbose_option,
)
from sitemap_etl.cli.output import put, put_error, put_json
from sitemap_etl.cli.pages import Page
from sitemap_etl.cli.progress import Bars
from sitemap_etl.cli.values import File, Number, readable
from sitemap_etl.errors import ConfigError, Refused, Unavailable
from sitemap_etl.memory import keep_memory

if TYPE_CHECKING:
    from sitemap_etl.state.records import Summary


@click.command(cls=Page)
@site_file_argument
@click.option(
    "--section",
    multiple=True,
    metavar="NAME",
    help="Read only this section and leave the others as published (default: all). Can be repeated.",
)
@click.option("--full", is_flag=True, help="Read all rows and verify every published file.")
@click.option(
    "--limit",
    type=Number(1, whole=True),
    metavar="ROWS",
    help="Read at most this many rows of each split (default: all).",
)
@click.option("--dry-run", is_flag=True, help="Show what would be published, without publishing it.")
@click.option("--against", metavar="URL", help="With --dry-run: compare with a live sitemap (default: none).")
@no_ping_option
@force_option
@reason_option
@adopt_option
@moved_option
@click.option("--jobs", type=Number(1, whole=True), metavar="N", help="Parallel workers (default: number of CPUs).")
@click.option(
    "--metrics",
    type=File(),
    metavar="FILE",
    help="Write metrics of the run (OpenMetrics) to a local file, however it ends (default: none).",
)
@now_option
@quiet_option
@verbose_option
@log_option
@json_option
def run(
    site_file: Path,
    section: tuple[str, ...],
    full: bool,
    limit: int | None,
    dry_run: bool,
    against: str | None,
    no_ping: bool,
    force: tuple[str, ...],
    reason: str | None,
    adopt: bool,
    moved: bool,
    jobs: int | None,
    metrics: Path | None,
    now: str | None,
    quiet: bool,
    verbose: bool,
    log_format: LogFormat,
    as_json: bool,
) -> None:
    """Build and publish the sitemaps of a site.

    Reads the sources, lists every page once, writes only files that changed, and notifies search engines.

    Exit code 1: nothing was published, because a gate, the storage or the database refused. 3: a temporary failure, a
    section that was kept as in the last release, or a search engine that failed.
    """
    if against is not None and not dry_run:
        raise ConfigError("--against needs --dry-run")
    with progress_of(quiet=quiet, verbose=verbose, log_format=log_format) as bars:
        keep_memory()
        with loading():
            from sitemap_etl.runs.alerts import watching
            from sitemap_etl.runs.local import ping_locally, run_locally
            from sitemap_etl.runs.metrics import measured
            from sitemap_etl.state.records import Options

        if against is not None:
            from sitemap_etl.runs.compare import check_target

            check_target(against)
        site = read_site(site_file)
        noted = None if metrics is None else str(metrics)
        trail.works_on(site_file=str(site_file.absolute()), dry_run=dry_run, metrics=noted)
        fixed = moment(now)
        options = Options(
            sections=section,
            full=full,
            limit=limit,
            dry_run=dry_run,
            ping=not no_ping,
            force=force,
            reason=reason,
            adopt=adopt,
            moved=moved,
        )
        environment = environment_of(bars, site_file)
        if fixed is not None:
            environment = replace(environment, clock=lambda: fixed)
        with measured(site, environment, metrics), watching(site, environment, dry_run=dry_run) as watched:
            finished = run_locally(site, options, environment, jobs=jobs or os.cpu_count() or 1, now=fixed)
            summary = ping_locally(finished, environment) if options.ping else finished.summary
            watched.summary = summary
        if against is not None:
            from sitemap_etl.runs.compare import compare_with

            summary = replace(summary, against=compare_with(finished.run, finished.published.proposal, against))
    _finish(summary, site_file, bars, as_json=as_json)


@click.command(cls=Page)
@site_file_argument
@click.argument("run_id", metavar="RUN_ID", help="The run ID of a dry or refused run.")
@force_option
@reason_option
@adopt_option
@moved_option
@no_ping_option
@quiet_option
@verbose_option
@log_option
@json_option
def publish(
    site_file: Path,
    run_id: str,
    force: tuple[str, ...],
    reason: str | None,
    adopt: bool,
    moved: bool,
    no_ping: bool,
    quiet: bool,
    verbose: bool,
    log_format: LogFormat,
    as_json: bool,
) -> None:
    """Publish a dry or refused run exactly as its report shows it.

    Reads and renders nothing again. Refuses if another run has been published since.
    """
    with progress_of(quiet=quiet, verbose=verbose, log_format=log_format) as bars:
        from sitemap_etl.runs.local import ping_locally, publish_locally

        environment = environment_of(bars, site_file)
        finished = publish_locally(
            read_site(site_file),
            run_id,
            environment,
            force=force,
            reason=reason,
            adopt=adopt,
            moved=moved,
        )
        summary = finished.summary if no_ping else ping_locally(finished, environment)
    _finish(summary, site_file, bars, as_json=as_json)


@click.command(cls=Page)
@site_file_argument
@click.argument(
    "run_id", required=False, metavar="RUN_ID", help="The release to publish again (default: the previous one)."
)
@click.option(
    "--reason", type=readable, metavar="TEXT", help="Why you roll back (default: none); recorded in the manifest."
)
@click.option("--dry-run", is_flag=True, help="Show what would be published, without publishing it.")
@force_option
@moved_option
@no_ping_option
@now_option
@quiet_option
@verbose_option
@log_option
@json_option
def rollback(
    site_file: Path,
    run_id: str | None,
    reason: str | None,
    dry_run: bool,
    force: tuple[str, ...],
    moved: bool,
    no_ping: bool,
    now: str | None,
    quiet: bool,
    verbose: bool,
    log_format: LogFormat,
    as_json: bool,
) -> None:
    """Publish an older release again, from its snapshots, as a new run.

    No source is read. Only the gates max_drop and min_urls apply. The next run starts from the restored release. If the
    cause is not fixed by then, the bad data is published again.
    """
    with progress_of(quiet=quiet, verbose=verbose, log_format=log_format) as bars:
        from sitemap_etl.runs.local import ping_locally
        from sitemap_etl.runs.rollback import roll_back

        environment = environment_of(bars, site_file)
        finished = roll_back(
            read_site(site_file),
            run_id,
            environment,
            reason=reason,
            dry_run=dry_run,
            force=force,
            moved=moved,
            now=moment(now),
        )
        summary = None if finished is None else finished.summary if no_ping else ping_locally(finished, environment)
    if summary is not None:
        _finish(summary, site_file, bars, as_json=as_json, staged=False)
    elif as_json:
        from sitemap_etl.state.codec import encode
        from sitemap_etl.state.records import Summary

        put_json({**encode(Summary()), "run_id": run_id, "status": "unchanged", "error": None, "exit": 0})
    elif not quiet:
        put(f"The release of run {run_id} is published already. Nothing was written")


def _finish(summary: Summary, site_file: Path, bars: Bars, *, as_json: bool, staged: bool = True) -> None:
    """Print the outcome of a run and exit with its code. `staged`: a dry run can be published by its id."""
    error = for_file(summary.error, str(site_file)) if summary.error else None
    code = _exit_code(summary)
    if as_json:
        from sitemap_etl.state.codec import encode

        put_json({**encode(summary), "error": error, "exit": code})
    elif not bars.quiet:
        from sitemap_etl.cli.show import show_summary

        show_summary(summary, str(site_file), staged=staged)
    sys.stdout.flush()
    if bars.quiet or bars.as_json:
        _log(summary, bars, error, code)
    elif error:
        put_error(error)
    if code:
        raise click.exceptions.Exit(code)


def _log(summary: Summary, bars: Bars, error: str | None, code: int) -> None:
    """Log how a run ended. With --quiet, log nothing if it ended well."""
    from sitemap_etl.cli.show import headline, troubles

    for text in troubles(summary):
        bars.warn(text)
    if bars.as_json:
        level: Level = "error" if error else "warning" if code else "info"
        if level != "info" or not bars.quiet:
            more = {"status": summary.status, "exit": code, "report": summary.report}
            put_line(level, error or headline(summary), **more, seconds=summary.seconds.get("total"))
    elif error:
        put_error(error)
    elif code:
        put_error(f"{headline(summary)}  run {summary.run_id}\n  report: {summary.report}")


def _exit_code(summary: Summary) -> int:
    if summary.error:
        return Refused.exit_code
    return Unavailable.exit_code if summary.status == "partial" else 0
