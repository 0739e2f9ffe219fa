"""robots.txt and the IndexNow key file: what the root of the site must say about this set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from http import HTTPStatus

from sitemap_etl import robots
from sitemap_etl.errors import Refused
from sitemap_etl.stages.ping import key_file, why
from sitemap_etl.stages.run import Run
from sitemap_etl.storage import ABSENT, Expect, Storage, put_verified
from sitemap_etl.web import WebError, public_robots


@dataclass
class RootFile:
    """One object under the root. `data`: what is there now; None: nothing."""

    storage: Storage
    key: str
    data: bytes | None
    expect: Expect

    def write(self, data: bytes) -> None:
        """Replace it, if it is still as it was read."""
        kind = "text/plain; charset=utf-8"
        stat = put_verified(self.storage, self.key, data, content_type=kind, expect=self.expect)
        self.data, self.expect = data, stat.etag


@dataclass
class Root:
    """What is to be written under the root. `robots`: None where it is not ours to write."""

    name: str
    robots: RootFile | None = None
    key_file: RootFile | None = None
    key: bytes | None = None  # what the key file is to hold; None: as it does
    warnings: list[str] = field(default_factory=list)

    def naming(self, indexes: Sequence[str]) -> bytes | None:
        """The robots.txt that names these indexes (addresses) in this site's block; None: it stays as it is."""
        if self.robots is None:
            return None
        existing = self.robots.data
        data = robots.with_block(existing, self.name, list(indexes))
        return data if data != (existing or b"") else None

    def writes(self, indexes: Sequence[str]) -> bool:
        """Whether anything must be written so that these indexes are named."""
        return self.key is not None or self.naming(indexes) is not None


def open_root(run: Run, indexes: Sequence[str]) -> Root:
    """The root of the site, to name `indexes` (addresses) there.

    robots.txt is not created where something else answers for it, and not written where our lines would do
    harm; the lines to add are a warning then.
    """
    storage = run.root()
    root = Root(run.site.name)
    lines = "\n".join(f"  Sitemap: {address}" for address in indexes)
    if storage is None:
        text = _served(run.site.site)
        named = set() if text is None else set(robots.sitemaps(text))
        if text is not None and not set(indexes) <= named:
            root.warnings.append(f"{run.site.site}/robots.txt does not name this sitemap. Add to it:\n{lines}")
        return root
    _add_key_file(run, storage, root)
    found = _read(storage, "robots.txt")
    if found.data is None and _served(run.site.site) is not None:
        root.warnings.append(
            f"{storage.url_of('robots.txt')} does not exist, but {run.site.site}/robots.txt is answered by something "
            f"else: it was not created. Add there:\n{lines}"
        )
        return root
    root.robots = found
    try:
        root.naming(indexes)
    except Refused as error:
        root.robots = None
        root.warnings.append(f"{error} The lines:\n{lines}")
    return root


def _served(site: str) -> bytes | None:
    """The robots.txt that answers at the site's address; None where there is none, or no answer."""
    try:
        answer = public_robots(site)
    except WebError:
        return None
    return answer.body if answer.status == HTTPStatus.OK else None


def _read(storage: Storage, key: str) -> RootFile:
    stored = storage.get(key)
    if stored is None:
        return RootFile(storage, key, None, ABSENT)
    return RootFile(storage, key, stored.data, stored.stat.etag)


def _add_key_file(run: Run, storage: Storage, root: Root) -> None:
    """The file that proves the IndexNow key, where it is not there yet. Its name is a secret: no manifest has it."""
    if run.site.ping.indexnow is None or not run.options.ping:
        return
    try:
        found = key_file(run.site, run.environment)
    except Exception as error:  # noqa: BLE001 - an engine holds up no publish
        root.warnings.append(f"the key file of IndexNow was not written: {why(error)}")
        return
    if found is None:
        return
    name, data = found
    root.key_file = _read(storage, name)
    if (root.key_file.data or b"").strip() != data:
        root.key = data
