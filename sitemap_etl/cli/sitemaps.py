"""The command that checks sitemaps: check."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import Annotated

import typer

from sitemap_etl.cli.options import Json, Now, console, moment, put_json
from sitemap_etl.cli.progress import Bars
from sitemap_etl.errors import Unavailable


class Severity(StrEnum):
    """The lowest severity that makes the exit code 1."""

    error = "error"
    warning = "warning"


def check(
    targets: Annotated[
        list[str],
        typer.Argument(metavar="PATH_OR_URL...", help="Files, folders, and s3://, http:// or https:// addresses."),
    ],
    fail_on: Annotated[
        Severity, typer.Option(metavar="error|warning", help="The lowest severity that makes the exit code 1.")
    ] = Severity.error,
    at: Annotated[
        str | None, typer.Option(metavar="URL", help="The public address of the given folder, bucket or file.")
    ] = None,
    no_follow: Annotated[
        bool, typer.Option("--no-follow", help="Do not check the files that an index or robots.txt lists.")
    ] = False,
    no_robots: Annotated[bool, typer.Option("--no-robots", help="Do not fetch robots.txt from the hosts.")] = False,
    allow_private: Annotated[
        bool, typer.Option("--allow-private", help="Let public sitemaps lead to private addresses.")
    ] = False,
    max_files: Annotated[int | None, typer.Option(min=1, metavar="N", help="Maximum number of files to read.")] = None,
    max_bytes: Annotated[
        int | None, typer.Option(min=1, metavar="BYTES", help="Maximum uncompressed bytes to read of a file.")
    ] = None,
    timeout: Annotated[
        float | None, typer.Option(min=0.1, metavar="SECONDS", help="Time limit for each step of a request.")
    ] = None,
    jobs: Annotated[int | None, typer.Option(min=1, metavar="N", help="Number of files to read in parallel.")] = None,
    now: Now = None,
    as_json: Json = False,
) -> None:
    """Check any sitemap, index, feed or robots.txt for problems.

    Also checks the files that an index lists, and all sitemaps of a folder. All targets are checked as
    one set. Exit code 1: problems were found. 3: the only problem is that something did not respond.
    """
    from sitemap_etl.check import Options, render_table
    from sitemap_etl.check import check as check_all
    from sitemap_etl.storage import open_storage

    limits = {"max_files": max_files, "max_bytes": max_bytes, "timeout": timeout, "jobs": jobs}
    options = Options(
        at=at,
        follow=not no_follow,
        robots=not no_robots,
        allow_private=allow_private,
        now=moment(now),
        open_s3=open_storage,
        **{name: value for name, value in limits.items() if value is not None},  # type: ignore[arg-type]  # each is of its own type
    )
    with Bars() as bars:
        report = check_all(
            targets, options=options, progress=lambda done, known, _name: bars.advance("check", done, known)
        )
    code = report.exit_code(fail_on.value)
    if code and {f.code for f in report.findings if f.severity == "error"} == {"unreachable"}:
        code = Unavailable.exit_code
    if as_json:
        put_json({"error": None, "exit": code, **report.to_json(fail_on.value)})
    else:
        render_table(report, console())
        sys.stdout.flush()
    if code:
        raise typer.Exit(code)
