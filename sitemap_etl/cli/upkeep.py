"""The commands about the state folder: state verify and state forget."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sitemap_etl.advice import shell_word
from sitemap_etl.cli.options import json_option, read_site, site_file_argument
from sitemap_etl.cli.output import put, put_json
from sitemap_etl.cli.pages import Page
from sitemap_etl.cli.values import readable
from sitemap_etl.errors import DamagedState

if TYPE_CHECKING:
    from sitemap_etl.runs.forget import Forgotten
    from sitemap_etl.runs.verify import Verified


@click.command(cls=Page)
@site_file_argument
@click.option(
    "--repair", is_flag=True, help="Restore what the published files have, and remove what the next run recreates."
)
@json_option
def verify(site_file: Path, repair: bool, as_json: bool) -> None:
    """Read the whole state: what is intact, what is damaged or missing, and what the loss costs.

    Changes nothing without --repair. Exit code 65: something is damaged and was not repaired.
    """
    from sitemap_etl.runs.verify import verify_state
    from sitemap_etl.stages.run import Environment
    from sitemap_etl.state.codec import encode

    site = read_site(site_file)
    found = verify_state(site, Environment(), repair=repair)
    code = 0 if found.sound else DamagedState.exit_code
    if as_json:
        left = [one.key for one in found.broken if one.repaired is None]
        error = f"damaged or missing: {', '.join(left)}" if left else None
        status = "failed" if left else "done"
        put_json({"status": status, "error": error, "exit": code, **encode(found)})
    else:
        put(*_lines(found, repair=repair, group=site.work_access == "group"))
    if code:
        raise click.exceptions.Exit(code)


def _lines(found: Verified, *, repair: bool, group: bool) -> Iterator[str]:
    """Yield the counts of what was read, then each broken object with its damage, its cost, and what was done.

    `repair`: what can be repaired was. `group`: the group can read the state.
    """
    intact = ", ".join(f"{count:,} {kind}" for kind, count in found.whole.items()) or "nothing"
    yield f"{found.place}"
    yield f"intact: {intact}"
    for one in found.broken:
        yield ""
        yield f"{'repaired' if one.repaired else 'BROKEN'}: {one.key}"
        yield f"  problem: {one.problem}"
        yield f"  cost:    {one.cost}"
        if one.repaired:
            yield f"  done:    {one.repaired}"
    if found.exposed:
        yield ""
        yield "readable by others:"
        yield from (f"  {path}" for path in found.exposed)
        yield f"to change that: chmod -R {'g=rX,o=' if group else 'go='} {shell_word(found.place)}"
    left = sum(one.repaired is None for one in found.broken)
    if left:
        yield ""
        advice = (
            ", or run this command with --repair, which restores snapshots from published files and removes what "
            "the next run recreates"
        )
        yield f"{left:,} of these are not repaired: restore them from a backup of the state{'' if repair else advice}"


@click.command(cls=Page)
@site_file_argument
@click.option(
    "--key",
    multiple=True,
    type=readable,
    metavar="KEY",
    help="Key of a row, in a section with `key:` (default: none). Can be repeated.",
)
@click.option(
    "--url",
    multiple=True,
    type=readable,
    metavar="URL",
    help="URL of a row, in any section (default: none). Can be repeated.",
)
@click.option(
    "--section", metavar="NAME", help="The section whose keys are meant (default: the only one that has them)."
)
@json_option
def forget(site_file: Path, key: tuple[str, ...], url: tuple[str, ...], section: str | None, as_json: bool) -> None:
    """Remove rows from all objects of the state folder and from the reports.

    The rows must already be gone from the source and from the current release. If it is interrupted, repeat it.
    """
    from sitemap_etl.runs.forget import forget_rows
    from sitemap_etl.stages.run import Environment
    from sitemap_etl.state.codec import encode

    found = forget_rows(read_site(site_file), Environment(), keys=key, urls=url, section=section)
    if as_json:
        put_json({"status": "done", "error": None, "exit": 0, **encode(found)})
    else:
        put(*_told(found))


def _told(found: Forgotten) -> Iterator[str]:
    """Yield the lines of the result: rewritten and removed objects, and places that could not be reached."""
    yield f"{found.place}"
    for done, counts in (("rewritten", found.rewritten), ("removed", found.removed)):
        shown = ", ".join(f"{count:,} {kind}" for kind, count in counts.items() if count)
        yield f"{done}: {shown or 'nothing'}"
    if found.run_id is not None:
        yield f"The current release is now that of {found.run_id}; no public file was changed."
        yield "Not reached:"
    yield from (f"  {text}" for text in found.left)
