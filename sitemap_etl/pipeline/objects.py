"""Public objects of one publish: what must be written, what is there, whose it is."""

from __future__ import annotations

import os.path
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final, TypeVar

from sitemap_etl.errors import Refused
from sitemap_etl.manifest import File
from sitemap_etl.storage import ABSENT, Expect, Stat, Storage

THREADS: Final = 16
"""Requests to a store at a time."""
_LIST_FROM: Final = 100
"""Keys from which on one listing is cheaper than asking for each."""

_T = TypeVar("_T")
_R = TypeVar("_R")

CONTENT_TYPES: Final = {
    ".gz": "application/gzip",
    ".rss.xml": "application/rss+xml",
    ".atom.xml": "application/atom+xml",
    ".xml": "application/xml",
    ".txt": "text/plain; charset=utf-8",
}


def content_type(key: str) -> str:
    """The content type of a published key. Gzipped files are application/gzip, without a Content-Encoding."""
    return next((kind for ending, kind in CONTENT_TYPES.items() if key.endswith(ending)), "application/octet-stream")


@dataclass
class Object:
    """One object to be written. `data` gives its bytes as stored. `expect`: `survey` fills it in, a write renews it."""

    file: File
    data: Callable[[], bytes]
    expect: Expect = None


def in_threads(work: Callable[[_T], _R], items: Sequence[_T]) -> list[_R]:
    """Do `work` for each item, several at a time; the first error ends it."""
    if len(items) < 2:
        return [work(item) for item in items]
    with ThreadPoolExecutor(THREADS) as pool:
        futures = [pool.submit(work, item) for item in items]
        try:
            return [future.result() for future in futures]
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise


def look(storage: Storage, keys: Iterable[str]) -> dict[str, Stat]:
    """What is under these keys now, with ETags; absent ones are left out."""
    wanted = sorted(set(keys))
    if len(wanted) >= _LIST_FROM:
        there = {stat.key: stat for stat in storage.list(os.path.commonprefix(wanted))}
        found = {key: there[key] for key in wanted if key in there}
        asked = [key for key, stat in found.items() if stat.etag is None]
    else:
        found, asked = {}, wanted
    for key, stat in zip(asked, in_threads(storage.stat, asked), strict=True):
        if stat is not None:
            found[key] = stat
        else:
            found.pop(key, None)
    return found


def survey(
    storage: Storage, objects: Sequence[Object], ours: Mapping[str, set[str | None]], *, adopt: bool
) -> list[Stat]:
    """Fill in what each write expects; gives the foreign objects that `adopt` lets it replace.

    `ours`: key → ETags under which an object there is known to be ours; None among them: whatever is
    there (an earlier publish was broken off). Raises Refused where an object is foreign.
    """
    there = look(storage, (item.file.key for item in objects))
    foreign: list[Stat] = []
    for item in objects:
        stat = there.get(item.file.key)
        item.expect = ABSENT if stat is None else stat.etag
        known = ours.get(item.file.key, set())
        if stat is not None and stat.etag not in known and None not in known:
            foreign.append(stat)
    if foreign and not adopt:
        shown = "\n".join(
            f"  {storage.url_of(stat.key)}  {stat.size:,} bytes, written {stat.modified:%Y-%m-%dT%H:%M:%SZ}"
            for stat in foreign[:5]
        )
        more = f"\n  … and {len(foreign) - 5:,} more" if len(foreign) > 5 else ""
        count = f"{len(foreign):,} object{'s are' if len(foreign) > 1 else ' is'}"
        raise Refused(
            f"{count} in the way that no manifest of this state wrote. Nothing public was touched.\n{shown}{more}\n"
            "  to replace them, keeping a copy in the state: sitemap-etl publish SITE.yaml RUN_ID --adopt"
        )
    return foreign
