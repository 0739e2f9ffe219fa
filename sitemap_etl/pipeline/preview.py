"""What publishing a proposal would do to the public files, found without touching one."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from sitemap_etl.pipeline.objects import survey
from sitemap_etl.pipeline.publication import known_etags
from sitemap_etl.pipeline.retired import retired_files
from sitemap_etl.pipeline.robots_file import open_root
from sitemap_etl.pipeline.run import Run
from sitemap_etl.pipeline.standing import Standing
from sitemap_etl.pipeline.target import Target
from sitemap_etl.pipeline.wanted import wanted_set


@dataclass(frozen=True)
class Preview:
    """Keys of public files. `foreign`: in the way, and not ours; `retire`: listed no longer, deleted after the grace.

    `broken_off`: an earlier publish did not end, so that more files may be written than are named.
    """

    write: list[str]
    delete: list[str]
    retire: list[str]
    foreign: list[str]
    unchanged: int
    broken_off: bool
    warnings: list[str]

    def to_json(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if name != "warnings"}


def preview(run: Run, target: Target) -> Preview:
    """Compare the target with what is published, as a publish begins by doing."""
    public = run.public()
    standing = Standing(run, public, ())
    wanted = wanted_set(run, target.drafts, target.extras, standing)
    waiting, due = retired_files(run, wanted, standing, {})
    known = {item.key for item in run.base.retired} if run.base is not None else set()
    foreign = survey(public, wanted.objects(), known_etags(run, standing), adopt=True)
    addresses = [run.site.publish.at + index.file.key for index in wanted.indexes]
    root = open_root(run, addresses)
    write = [item.file.key for item in wanted.objects()]
    if root.naming(addresses) is not None:
        write.append("robots.txt")
    return Preview(
        write=write,
        delete=[item.key for item in due],
        retire=[item.key for item in waiting if item.key not in known],
        foreign=[stat.key for stat in foreign],
        unchanged=len(wanted.keys()) - len(wanted.objects()),
        broken_off=run.state.current().pending is not None,
        warnings=root.warnings,
    )
