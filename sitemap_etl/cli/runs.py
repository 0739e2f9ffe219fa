"""The commands that publish: run, publish and rollback."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sitemap_etl.advice import for_file
from sitemap_etl.cli.loading import loading
from sitemap_etl.cli.logs import Level, put_line
from sitemap_etl.cli.options import (
    Adopt,
    Force,
    Json,
    Log,
    LogFormat,
    Moved,
    NoPing,
    Now,
    Quiet,
    Reason,
    SiteFile,
    Verbose,
    environment_of,
    moment,
    progress_of,
    put_json,
    read_site,
    readable,
)
from sitemap_etl.cli.progress import Bars
from sitemap_etl.errors import ConfigError, Refused, Unavailable
from sitemap_etl.memory import keep_memory
from sitemap_etl.visible import visible_lines

if TYPE_CHECKING:
    from sitemap_etl.state.records import Summary


def run(
    site_file: SiteFile,
    section: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Read only this section and leave the others as published (default: all). Can be repeated.",
        ),
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Read all rows and verify every published file.")] = False,
    limit: Annotated[
        int | None,
        typer.Option(min=1, metavar="ROWS", help="Read at most this many rows of each split (default: all)."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be published, without publishing it.")
    ] = False,
    against: Annotated[
        str | None, typer.Option(metavar="URL", help="With --dry-run: compare with a live sitemap (default: none).")
    ] = None,
    no_ping: NoPing = False,
    force: Force = None,
    reason: Reason = None,
    adopt: Adopt = False,
    moved: Moved = False,
    jobs: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Parallel workers (default: number of CPUs).")
    ] = None,
    metrics: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write metrics of the run (OpenMetrics) to a local file, however it ends (default: none).",
        ),
    ] = None,
    now: Now = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
    log_format: Log = LogFormat.text,
    as_json: Json = False,
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
        fixed = moment(now)
        options = Options(
            sections=tuple(section or ()),
            full=full,
            limit=limit,
            dry_run=dry_run,
            ping=not no_ping,
            force=tuple(force or ()),
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


def publish(
    site_file: SiteFile,
    run_id: Annotated[str, typer.Argument(metavar="RUN_ID", help="The run ID of a dry or refused run.")],
    force: Force = None,
    reason: Reason = None,
    adopt: Adopt = False,
    moved: Moved = False,
    no_ping: NoPing = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    log_format: Log = LogFormat.text,
    as_json: Json = False,
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
            force=tuple(force or ()),
            reason=reason,
            adopt=adopt,
            moved=moved,
        )
        summary = finished.summary if no_ping else ping_locally(finished, environment)
    _finish(summary, site_file, bars, as_json=as_json)


def rollback(
    site_file: SiteFile,
    run_id: Annotated[
        str | None, typer.Argument(metavar="RUN_ID", help="The set to publish again (default: the previous one).")
    ] = None,
    reason: Annotated[
        str | None,
        typer.Option(
            "--reason",
            parser=readable,
            metavar="TEXT",
            help="Why you roll back (default: none); recorded in the manifest.",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be published, without publishing it.")
    ] = False,
    force: Force = None,
    moved: Moved = False,
    no_ping: NoPing = False,
    now: Now = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
    log_format: Log = LogFormat.text,
    as_json: Json = False,
) -> None:
    """Publish an older set again, from its snapshots, as a new run.

    No source is read. Of the gates, max_drop and min_urls apply. The next run starts from the restored set: if the
    cause is not fixed by then, it is published again.
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
            force=tuple(force or ()),
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
        print(f"The set of run {run_id} is the one that is published. Nothing was written")


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
        print(visible_lines(error), file=sys.stderr)
    if code:
        raise typer.Exit(code)


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
        print(visible_lines(error), file=sys.stderr)
    elif code:
        print(f"{headline(summary)}  run {summary.run_id}\nreport: {summary.report}", file=sys.stderr)


def _exit_code(summary: Summary) -> int:
    if summary.error:
        return Refused.exit_code
    return Unavailable.exit_code if summary.status == "partial" else 0
