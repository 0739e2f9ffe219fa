"""The commands that look at what was published, and tell of it: history, explain, ping."""

from __future__ import annotations

from typing import Annotated

import typer

from sitemap_etl.cli.options import Json, SiteFile, console, put_json, read_site
from sitemap_etl.cli.progress import Bars
from sitemap_etl.errors import Unavailable


def history(site_file: SiteFile, as_json: Json = False) -> None:
    """List the published sets that are kept, newest first."""
    from sitemap_etl.cli.show import show_history
    from sitemap_etl.runs.rollback import published_sets
    from sitemap_etl.stages.run import Environment
    from sitemap_etl.state.codec import encode

    sets = published_sets(read_site(site_file), Environment())
    if as_json:
        put_json({"status": "done", "error": None, "exit": 0, "sets": encode(sets)})
    else:
        show_history(console(), sets)


def explain(
    site_file: SiteFile,
    urls: Annotated[list[str], typer.Argument(metavar="URL...", help="URLs, or paths on the site.")],
    as_json: Json = False,
) -> None:
    """Say why URLs are listed, or not: from state and reports, without asking the source."""
    from sitemap_etl.cli.explain import show_answers
    from sitemap_etl.explain.answers import json_of
    from sitemap_etl.explain.explain import explain as explain_urls
    from sitemap_etl.stages.run import Environment

    answers = explain_urls(read_site(site_file), urls, Environment())
    if as_json:
        put_json({"status": "done", "error": None, "exit": 0, "urls": [json_of(answer) for answer in answers]})
    else:
        show_answers(console(), answers)


def ping(
    site_file: SiteFile,
    engine: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Only this engine. May be repeated.")] = None,
    since: Annotated[str | None, typer.Option(metavar="RUN_ID", help="All that changed after this run.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Every URL of the site.")] = False,
    as_json: Json = False,
) -> None:
    """Tell the engines by hand of what is published.

    Without options: what they have not heard yet. Exit code 3: an engine failed.
    """
    from sitemap_etl.runs.rollback import ping_by_hand
    from sitemap_etl.stages.run import Environment
    from sitemap_etl.state.codec import encode

    with Bars() as bars:
        environment = Environment(advance=bars.advance, log=bars.say)
        answers = ping_by_hand(
            read_site(site_file), environment, engines=tuple(engine or ()), since=since, everything=everything
        )
    failed = [name for name, answer in answers.items() if answer.failed]
    code = Unavailable.exit_code if failed else 0
    if as_json:
        error = f"not every engine took it: {', '.join(failed)}" if failed else None
        put_json({"status": "partial" if failed else "done", "error": error, "exit": code, "engines": encode(answers)})
    else:
        for name, answer in answers.items():
            print(f"{name}: {answer.status}: {answer.message}")
    if code:
        raise typer.Exit(code)
