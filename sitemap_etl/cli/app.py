"""The commands and their options."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from sitemap_etl import __version__
from sitemap_etl.cli.progress import Bars
from sitemap_etl.cli.show import show_summary
from sitemap_etl.errors import ConfigError, Refused, Unavailable

app = typer.Typer(
    name="sitemap-etl",
    help="Catalogue in, sitemaps out: published to S3 or a folder, told to the search engines.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

SiteFile = Annotated[Path, typer.Argument(metavar="SITE.yaml", help="The site file.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Reason = Annotated[str | None, typer.Option("--reason", help="Why a gate is overruled; the manifest keeps it.")]
Force = Annotated[
    list[str] | None, typer.Option("--force", metavar="GATE", help="Overrule a gate, such as products.max_drop.")
]


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


def _load(path: Path) -> Any:
    from sitemap_etl.site import load

    return load(path, environ=os.environ)


def _put_json(data: Any) -> None:
    print(json.dumps(data, ensure_ascii=False, default=str))


def _moment(text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise ConfigError(f"--now {text}: not a time. Expected ISO 8601, such as 2026-11-20T02:00:00Z") from error
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _exit_code(summary: dict[str, Any]) -> int:
    if summary["status"] == "partial":
        return Unavailable.exit_code
    return Refused.exit_code if summary["error"] else 0


def _console() -> Console:
    """A terminal is as wide as it is; a file or pipe takes whole lines."""
    console = Console()
    return console if console.is_terminal else Console(width=200)


def _tell(summary: dict[str, Any], site_file: Path, *, as_json: bool) -> None:
    if as_json:
        error = summary["error"]
        _put_json({**summary, "error": error.replace("SITE.yaml", str(site_file)) if error else None})
    else:
        show_summary(_console(), summary, str(site_file))
    code = _exit_code(summary)
    if code:
        raise typer.Exit(code)


@app.command()
def validate(
    sites: Annotated[list[Path], typer.Argument(metavar="SITE.yaml...", help="Site files.")],
    connect: Annotated[bool, typer.Option("--connect", help="Also look at every source and storage.")] = False,
) -> None:
    """Check site files; with --connect also that sources and storages answer."""
    from sitemap_etl.pipeline.validation import problems_of

    problems: list[str] = []
    for path in sites:
        try:
            site = _load(path)
        except ConfigError as error:
            problems += error.problems
            continue
        found = problems_of(site, connect=connect)
        problems += [f"{path}: {problem}" for problem in found]
        if not found:
            print(f"{path}: {site.name}, {len(site.sections)} sections: no mistakes")
    if problems:
        raise ConfigError(problems)


@app.command()
def run(
    site_file: SiteFile,
    section: Annotated[list[str] | None, typer.Option(help="Only this section; the others stay as published.")] = None,
    full: Annotated[bool, typer.Option("--full", help="Read everything, and look at every published object.")] = False,
    limit: Annotated[int | None, typer.Option(min=1, help="Read at most so many rows of each split.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be published.")] = False,
    against: Annotated[
        str | None, typer.Option(metavar="URL", help="With --dry-run: compare with a live sitemap.")
    ] = None,
    no_ping: Annotated[bool, typer.Option("--no-ping", help="Tell no engine.")] = False,
    force: Force = None,
    reason: Reason = None,
    jobs: Annotated[int | None, typer.Option(min=1, help="Units at a time; the processors by default.")] = None,
    now: Annotated[str | None, typer.Option(metavar="TIME", help="The time of the run, ISO 8601.")] = None,
    as_json: Json = False,
) -> None:
    """Run the whole job for one site."""
    from sitemap_etl.pipeline.local import ping_locally, run_locally
    from sitemap_etl.pipeline.run import Options, Outside

    if against is not None and not dry_run:
        raise ConfigError("--against goes with --dry-run")
    site = _load(site_file)
    moment = _moment(now)
    options = Options(
        sections=tuple(section or ()),
        full=full,
        limit=limit,
        dry_run=dry_run,
        ping=not no_ping,
        force=tuple(force or ()),
        reason=reason,
    )
    with Bars() as bars:
        outside = Outside(advance=bars.advance)
        if moment is not None:
            fixed = moment
            outside = replace(outside, clock=lambda: fixed)
        finished = run_locally(site, options, outside, jobs=jobs or os.cpu_count() or 1, now=moment)
        summary = finished.summary
        if options.ping:
            summary = ping_locally(finished, outside)
    if against is not None:
        from sitemap_etl.pipeline.comparison import compare_with

        summary = {**summary, "against": compare_with(finished.run, against)}
    _tell(summary, site_file, as_json=as_json)


@app.command()
def publish(
    site_file: SiteFile,
    run_id: Annotated[str, typer.Argument(metavar="RUN_ID", help="A dry or refused run.")],
    force: Force = None,
    reason: Reason = None,
    adopt: Annotated[bool, typer.Option("--adopt", help="Replace objects that are not ours, keeping a copy.")] = False,
    no_ping: Annotated[bool, typer.Option("--no-ping", help="Tell no engine.")] = False,
    as_json: Json = False,
) -> None:
    """Publish a dry or refused run exactly as it was shown."""
    from sitemap_etl.pipeline.local import ping_locally, publish_locally
    from sitemap_etl.pipeline.run import Outside

    with Bars() as bars:
        outside = Outside(advance=bars.advance)
        finished = publish_locally(
            _load(site_file), run_id, outside, force=tuple(force or ()), reason=reason, adopt=adopt
        )
        summary = finished.summary if no_ping else ping_locally(finished, outside)
    _tell(summary, site_file, as_json=as_json)


@app.command()
def schema() -> None:
    """Print the JSON Schema of site files, for editors."""
    from sitemap_etl.site import schema as json_schema

    _put_json(json_schema())


@app.command()
def history(site_file: SiteFile, as_json: Json = False) -> None:
    """List the published sets that are kept, newest first."""
    from sitemap_etl.cli.show import show_history
    from sitemap_etl.pipeline.history import published_sets
    from sitemap_etl.pipeline.run import Outside

    sets = published_sets(_load(site_file), Outside())
    if as_json:
        _put_json({"sets": sets})
    else:
        show_history(_console(), sets)


@app.command()
def rollback(
    site_file: SiteFile,
    run_id: Annotated[
        str | None, typer.Argument(metavar="[RUN_ID]", help="The set to publish again; the one before by default.")
    ] = None,
    reason: Reason = None,
    no_ping: Annotated[bool, typer.Option("--no-ping", help="Tell no engine.")] = False,
    now: Annotated[str | None, typer.Option(metavar="TIME", help="The time of the run, ISO 8601.")] = None,
    as_json: Json = False,
) -> None:
    """Publish an older set again, from its snapshots, as a new run."""
    from sitemap_etl.pipeline.history import roll_back
    from sitemap_etl.pipeline.local import ping_locally
    from sitemap_etl.pipeline.run import Outside

    with Bars() as bars:
        outside = Outside(advance=bars.advance)
        finished = roll_back(_load(site_file), run_id, outside, reason=reason, now=_moment(now))
        summary = finished.summary if no_ping else ping_locally(finished, outside)
    _tell(summary, site_file, as_json=as_json)


@app.command()
def ping(
    site_file: SiteFile,
    engine: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Only this engine.")] = None,
    since: Annotated[str | None, typer.Option(metavar="RUN_ID", help="All that changed after this run.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Every URL of the site.")] = False,
    as_json: Json = False,
) -> None:
    """Tell the engines by hand of what is published."""
    from sitemap_etl.pipeline.history import ping_by_hand
    from sitemap_etl.pipeline.run import Outside

    answers = ping_by_hand(_load(site_file), Outside(), engines=tuple(engine or ()), since=since, everything=everything)
    if as_json:
        _put_json({"engines": answers})
    else:
        for name, answer in answers.items():
            print(f"{name}: {answer['status']}: {answer['message']}")
    failed = [answer for answer in answers.values() if answer["status"] in ("partial", "refused", "unavailable")]
    if failed:
        raise typer.Exit(Unavailable.exit_code)
