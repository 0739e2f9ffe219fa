"""The site's robots.txt and IndexNow key file, and their changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final

import pyarrow as pa

from sitemap_etl import robots, web
from sitemap_etl.errors import Refused
from sitemap_etl.frozen import Frozen
from sitemap_etl.stages.ping import key_file, why
from sitemap_etl.stages.run import Run
from sitemap_etl.state.records import ROBOTS_TXT
from sitemap_etl.storage import ABSENT, Expect, PreconditionFailed, Storage, put_verified
from sitemap_etl.web import WebError

_TRIES: Final = 3
"""So often robots.txt is written, and read again where somebody else has just changed it."""


@dataclass
class RootFile:
    """One object under the root. `data`: its bytes now, or None if it is missing. `link`: the target, if it is one."""

    storage: Storage
    key: str
    data: bytes | None
    expect: Expect
    link: str | None = None

    def write(self, data: bytes) -> None:
        """Replace it, if it is still as it was read."""
        kind = "text/plain; charset=utf-8"
        stat = put_verified(self.storage, self.key, data, content_type=kind, expect=self.expect)
        self.data, self.expect = data, stat.etag


@dataclass
class Root:
    """Objects to write under the root. `robots`: None if it is not ours to write."""

    name: str
    robots: RootFile | None = None
    key_file: RootFile | None = None
    key: bytes | None = None  # new content of the key file; None: unchanged
    warnings: list[str] = field(default_factory=list)

    def naming(self, indexes: Sequence[str], mark: str | None = None) -> bytes | None:
        """Return the robots.txt that names these indexes (addresses) in this site's block; None: it stays as it is.

        `mark`: the block has to bear it. Without, one that it bears stays as long as the indexes do.
        """
        if self.robots is None:
            return None
        existing = self.robots.data or b""
        data = robots.with_block(existing, self.name, list(indexes), mark=mark)
        same = existing if mark is not None else robots.without_mark(existing, self.name)
        return data if data != same else None

    def name_indexes(self, indexes: Sequence[str], mark: str | None, hold: Callable[[], None]) -> bool:
        """Write the robots.txt that `naming` returns. Return True if it was written.

        `hold` makes sure, before each write, that this run still has the claim.

        A file that somebody changed meanwhile is read again. Raise PreconditionFailed if that keeps happening.
        """
        for tries_left in reversed(range(_TRIES)):
            data = self.naming(indexes, mark)
            if data is None or self.robots is None:
                return False
            hold()
            try:
                self.robots.write(data)
            except PreconditionFailed:
                if not tries_left:
                    raise
                self.robots = _read(self.robots.storage, self.robots.key)
            else:
                return True
        return False

    def writes(self, indexes: Sequence[str], mark: str | None = None) -> bool:
        """Return True if robots.txt must be written to name these indexes, under this mark if there is one."""
        return self.key is not None or self.naming(indexes, mark) is not None


def open_root(run: Run, indexes: Sequence[str], files: Sequence[str]) -> Root:
    """Return the root of the site, to name `indexes` (addresses) there. `files`: the addresses of the whole set.

    robots.txt is not created where something else answers for it, and not written where our lines would do
    harm; the lines to add are a warning then. So is a robots.txt that keeps crawlers from the files.
    """
    storage = run.root()
    root = Root(run.site.name)
    lines = "\n".join(f"  Sitemap: {address}" for address in indexes)
    found = None if storage is None else _read(storage, ROBOTS_TXT)
    stored = None if found is None else found.data
    served = _served(run.site.site) if stored is None else _Served(stored)
    host = "/".join(run.site.publish.at.split("/")[:3])
    root.warnings += _disallowed(host, served if host == run.site.site else _served(host), files)
    if storage is None or found is None:
        if served.text is None or not set(indexes) <= set(robots.sitemaps(served.text)):
            said = (
                "does not name this sitemap" if served.text is not None else f"{served.problem}, and names no sitemap"
            )
            root.warnings.append(
                f"{run.site.site}/robots.txt {said}: engines accept pages outside of {run.site.publish.at} only if it "
                f"does. Add to it:\n{lines}"
            )
        return root
    _add_key_file(run, storage, root)
    if found.data is None and served.text is not None:
        root.warnings.append(
            f"{storage.url_of('robots.txt')} does not exist, but another program answers {run.site.site}/robots.txt, "
            f"so it was not created. Add there:\n{lines}"
        )
        return root
    if found.link is not None:
        if not set(indexes) <= set(robots.sitemaps(found.data or b"")):
            root.warnings.append(
                f"{storage.url_of(ROBOTS_TXT)} is a link to {found.link}, so it was left as it is. Add there:\n{lines}"
            )
        return root
    root.robots = found
    try:
        root.naming(indexes)
    except Refused as error:
        root.robots = None
        root.warnings.append(f"{error} The lines:\n{lines}")
    return root


def named_by_others(run: Run, indexes: Sequence[str]) -> list[str]:
    """Return the names of other site files whose block in robots.txt names one of these indexes (addresses)."""
    storage = run.root()
    found = None if storage is None else storage.get(ROBOTS_TXT)
    if found is None:
        return []
    named = robots.named_in(found.data)
    return [name for name, listed in named.items() if name != run.site.name and not listed.isdisjoint(indexes)]


class _Served(Frozen):
    """The robots.txt of a host."""

    text: bytes | None = None  # None if there is none, or no answer
    problem: str = ""  # reason in words if `text` is None


def _served(host: str) -> _Served:
    """Return the robots.txt that a host serves."""
    try:
        answer = web.public_robots(host)
    except WebError as error:
        return _Served(problem=error.words)
    return _Served(answer.body) if answer.status == HTTPStatus.OK else _Served(problem=f"answers {answer.status}")


def _disallowed(host: str, served: _Served, files: Sequence[str]) -> list[str]:
    """Return a warning if the host's robots.txt disallows some of the files."""
    if served.text is None:
        return []
    hidden = pa.array(files, pa.string()).filter(robots.disallowed(pa.array(files, pa.string()), served.text))
    if not len(hidden):
        return []
    example = hidden[0].as_py()
    warning = (
        f"{host}/robots.txt disallows {len(hidden):,} of the {len(files):,} files of this sitemap, such as {example}: "
        f"engines will not read them. Add below its User-agent: *\n  Allow: {example.removeprefix(host)}"
    )
    return [warning]


def _read(storage: Storage, key: str) -> RootFile:
    stored = storage.get(key)
    if stored is None:
        return RootFile(storage, key, None, ABSENT)
    return RootFile(storage, key, stored.data, stored.stat.etag, stored.stat.link)


def _add_key_file(run: Run, storage: Storage, root: Root) -> None:
    """Return the file that proves the IndexNow key, if it is missing. Its name is a secret, so no manifest has it."""
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
