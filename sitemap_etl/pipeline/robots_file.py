"""robots.txt and the IndexNow key file: what the root of the site must say about this set."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx

from sitemap_etl import robots
from sitemap_etl.errors import Refused
from sitemap_etl.pipeline.run import Run
from sitemap_etl.pipeline.submission import key_file
from sitemap_etl.storage import ABSENT, Storage

SECONDS = 5.0
"""How long the public site is given to answer."""


@dataclass(frozen=True)
class Write:
    """One object under the root, with the condition it is written on."""

    storage: Storage
    key: str
    data: bytes
    expect: Any


@dataclass
class RobotsWrite:
    """What is to be written under the root. `data`: the new robots.txt, None where it stays."""

    storage: Storage | None = None
    data: bytes | None = None
    expect: Any = None
    key_file: Write | None = None
    warnings: list[str] = field(default_factory=list)

    def writes(self) -> Iterator[Write]:
        if self.key_file is not None:
            yield self.key_file
        if self.storage is not None and self.data is not None:
            yield Write(self.storage, "robots.txt", self.data, self.expect)


def robots_write(run: Run, indexes: Sequence[str]) -> RobotsWrite:
    """The robots.txt that names `indexes` (addresses) in this site's block, and how to write it.

    It is not created where something else answers for it; the lines to add are a warning then.
    """
    root = run.root()
    result = RobotsWrite(root, key_file=_key_file(run, root))
    lines = "\n".join(f"  Sitemap: {address}" for address in indexes)
    if root is None:
        text = public_robots(run.site.site)
        named = set() if text is None else set(robots.sitemaps(text))
        if text is not None and not set(indexes) <= named:
            result.warnings.append(f"{run.site.site}/robots.txt does not name this sitemap. Add to it:\n{lines}")
        return result
    stored = root.get("robots.txt")
    if stored is None and public_robots(run.site.site) is not None:
        result.warnings.append(
            f"{root.url_of('robots.txt')} does not exist, but {run.site.site}/robots.txt is answered by something else: "
            f"it was not created. Add there:\n{lines}"
        )
        return result
    existing = None if stored is None else stored.data
    try:
        data = robots.with_block(existing, run.site.name, list(indexes))
    except Refused as error:
        result.warnings.append(f"{error} The lines:\n{lines}")
        return result
    if data != existing:
        result.data = data
        result.expect = ABSENT if stored is None else stored.stat.etag
    return result


def _key_file(run: Run, root: Storage | None) -> Write | None:
    """The file that proves the IndexNow key, where it is not there yet. Its name is a secret: no manifest has it."""
    if root is None or run.site.ping.indexnow is None or not run.options.ping:
        return None
    found = key_file(run.site, run.outside)
    if found is None:
        return None
    name, data = found
    stored = root.get(name)
    if stored is not None and stored.data.strip() == data:
        return None
    return Write(root, name, data, ABSENT if stored is None else stored.stat.etag)


def public_robots(site: str) -> bytes | None:
    """What the site answers for its robots.txt; None where it has none, or does not answer."""
    try:
        answer = httpx.get(f"{site}/robots.txt", timeout=SECONDS, follow_redirects=True)
    except httpx.HTTPError:
        return None
    return answer.content if answer.status_code == httpx.codes.OK else None
