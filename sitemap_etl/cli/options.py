"""What the commands share: options, reading the site file, printing."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from sitemap_etl.cli.streams import is_unicode
from sitemap_etl.config import Site, load
from sitemap_etl.errors import ConfigError

SiteFile = Annotated[Path, typer.Argument(metavar="SITE.yaml", help="The site file.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object, whatever happens.")]
Reason = Annotated[
    str | None, typer.Option("--reason", metavar="TEXT", help="Why a gate is overruled; the manifest keeps it.")
]
Force = Annotated[
    list[str] | None,
    typer.Option("--force", metavar="GATE", help="Overrule a gate, such as products.max_drop. May be repeated."),
]
Adopt = Annotated[bool, typer.Option("--adopt", help="Replace objects that are not ours; the state keeps a copy.")]
Moved = Annotated[
    bool, typer.Option("--moved", help="The state is another site's or place's, and is meant to be this one's now.")
]
NoPing = Annotated[bool, typer.Option("--no-ping", help="Tell no engine.")]
Now = Annotated[
    str | None, typer.Option("--now", metavar="TIME", help="The time of the run, ISO 8601. Default: the clock.")
]


def read_site(path: Path) -> Site:
    """The site of a file. Raises ConfigError with every mistake, Refused where its state lies in two places."""
    site = load(path, environ=os.environ)
    if site.says_work:
        return site
    from sitemap_etl.runs.work import with_work
    from sitemap_etl.stages.run import Environment

    return with_work(site, path, Environment())


def put_json(data: Any) -> None:
    """Print one JSON object, which says the same on a stream that takes only ASCII."""
    print(json.dumps(data, ensure_ascii=not is_unicode(), default=str))


def moment(text: str | None) -> datetime | None:
    """The time that `--now` names. Raises ConfigError."""
    if text is None:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise ConfigError(f"--now {text}: not a time. Expected ISO 8601, such as 2026-11-20T02:00:00Z") from error
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def console() -> Console:
    """Where results go. A terminal is as wide as it is; a file or pipe takes whole lines."""
    paper = Console()
    return paper if paper.is_terminal else Console(width=200)
