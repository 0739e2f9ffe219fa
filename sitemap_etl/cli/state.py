"""The commands about releases: history, report, explain and ping."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from sitemap_etl.cli.options import (
    LogFormat,
    environment_of,
    json_option,
    log_option,
    progress_of,
    quiet_option,
    read_site,
    site_file_argument,
    verbose_option,
)
from sitemap_etl.cli.output import put, put_error, put_json
from sitemap_etl.cli.pages import Page
from sitemap_etl.cli.values import readable
from sitemap_etl.errors import Unavailable


@click.command(cls=Page)
@site_file_argument
@json_option
def history(site_file: Path, as_json: bool) -> None:
    """List the runs of a site and the releases that are stored, newest first."""
    from sitemap_etl.cli.show import show_history
    from sitemap_etl.runs.history import published_sets
    from sitemap_etl.runs.status import past_runs
    from sitemap_etl.stages.run import Environment
    from sitemap_etl.state.codec import encode

    site, environment = read_site(site_file), Environment()
    sets, attempts = published_sets(site, environment), past_runs(site, environment)
    if as_json:
        put_json({"status": "done", "error": None, "exit": 0, "sets": encode(sets), "runs": encode(attempts)})
    else:
        show_history(sets, attempts)


@click.command(cls=Page)
@site_file_argument
@click.argument("run_id", required=False, metavar="RUN_ID", help="The run (default: the last one with a report).")
@click.option("--open", "opens", is_flag=True, help="Also open the report in a browser.")
@json_option
def report(site_file: Path, run_id: str | None, opens: bool, as_json: bool) -> None:
    """Print the path of a run's report.

    A report in a bucket is downloaded into a temporary file.
    """
    from sitemap_etl.runs.page import find_report
    from sitemap_etl.stages.run import Environment

    found = find_report(read_site(site_file), Environment(), run_id)
    if opens:
        import webbrowser

        if not webbrowser.open(found.path.absolute().as_uri()):
            put_error("No browser could be opened")
    if as_json:
        entry = {"run_id": found.run_id, "report": found.address, "path": str(found.path)}
        put_json({"status": "done", "error": None, "exit": 0, **entry})
    else:
        put(str(found.path))


@click.command(cls=Page)
@site_file_argument
@click.argument("urls", nargs=-1, required=True, type=readable, metavar="URL...", help="URLs, or paths on the site.")
@json_option
def explain(site_file: Path, urls: tuple[str, ...], as_json: bool) -> None:
    """Show why URLs are listed or not.

    Uses the state folder and reports; reads no source. Exit code 1: a URL is not listed.
    """
    from sitemap_etl.cli.explain import show_answers
    from sitemap_etl.explain.answers import json_of
    from sitemap_etl.explain.explain import explain as explain_urls
    from sitemap_etl.stages.run import Environment

    answers = explain_urls(read_site(site_file), urls, Environment())
    code = 0 if all(answer.listed is not None for answer in answers) else 1
    if as_json:
        put_json({"status": "done", "error": None, "exit": code, "urls": [json_of(answer) for answer in answers]})
    else:
        show_answers(answers)
        sys.stdout.flush()
    if code:
        raise click.exceptions.Exit(code)


@click.command(cls=Page)
@site_file_argument
@click.option(
    "--engine", multiple=True, metavar="NAME", help="Notify only this engine (default: all). Can be repeated."
)
@click.option(
    "--since", metavar="RUN_ID", help="Send everything that changed after this run (default: what is pending)."
)
@click.option("--all", "everything", is_flag=True, help="Send every URL of the site.")
@quiet_option
@verbose_option
@log_option
@json_option
def ping(
    site_file: Path,
    engine: tuple[str, ...],
    since: str | None,
    everything: bool,
    quiet: bool,
    verbose: bool,
    log_format: LogFormat,
    as_json: bool,
) -> None:
    """Notify search engines of published pages.

    Without options, sends the changes that are pending. Exit code 3: an engine failed.
    """
    with progress_of(quiet=quiet, verbose=verbose, log_format=log_format) as bars:
        from sitemap_etl.runs.ping import ping_by_hand
        from sitemap_etl.state.codec import encode

        environment = environment_of(bars, site_file)
        answers = ping_by_hand(read_site(site_file), environment, engines=engine, since=since, everything=everything)
    failed = [name for name, answer in answers.items() if answer.failed]
    code = Unavailable.exit_code if failed else 0
    if as_json:
        error = f"{len(failed)} of {len(answers)} engines failed: {', '.join(failed)}" if failed else None
        put_json({"status": "partial" if failed else "done", "error": error, "exit": code, "engines": encode(answers)})
    elif not quiet:
        for name, answer in answers.items():
            put(f"{name}: {answer.status}: {answer.message}")
    if quiet:
        for name in failed:
            bars.warn(f"{name}: {answers[name].message}")
    if code:
        raise click.exceptions.Exit(code)
