"""Writes of public objects: each on a condition, and with a fence if a late request can still reach the key.

A fence is a comment that gives an object an ETag which its key never had (`render.fence`). A request of a publish that
died names the ETag that it knew, so it fails.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from dataclasses import replace
from functools import cached_property
from typing import Final

from sitemap_etl.errors import Refused, Unavailable
from sitemap_etl.publish.actual import Actual, Object, content_type, in_threads, look, readable
from sitemap_etl.publish.claim import Claim
from sitemap_etl.publish.plan import FORMER_DIGITS, plain_object
from sitemap_etl.render import fence
from sitemap_etl.stages.run import Run
from sitemap_etl.state.records import File
from sitemap_etl.storage import ABSENT, PreconditionFailed, Stat, Storage, put_verified

_TRIES: Final = 4
"""So often a write is tried that requests of an interrupted publish come before."""


def secure(run: Run, public: Storage, claim: Claim) -> dict[str, File]:
    """Put every object of the interrupted publish again as it is, each with a fence. Return them by key.

    From then on none of its requests changes what is listed, and the set stands still. What is there is a set that
    it meant to be there on the way, whichever of its requests still arrive meanwhile. A file that waits to be
    deleted is left, for no index lists it, and so is an object of others that it had leave to replace.
    """

    def repeat_put(key: str) -> File | None:
        """Return the object as it is stored now, or None if it is missing or unreadable."""
        for tries_left in reversed(range(_TRIES)):
            stored = readable(public, key)
            content = None if stored is None else fence.content(key, stored.data)
            if stored is None or content is None or claim.unmanaged.get(key, "") == stored.stat.etag:
                return None
            item = plain_object(key, content, fence.fenced(key, stored.data, claim.mark), run.plan.now)
            item.expect = stored.stat.etag
            try:
                stat = _put_once(run, public, claim, item, item.data())
            except PreconditionFailed:
                if not tries_left:
                    raise
                continue  # one of its requests came in between
            return replace(item.file, etag=stat.etag)
        return None

    retired = {item.key for item in run.base.retired} if run.base is not None else set()
    keys = sorted(look(public, claim.to_repeat - retired))
    return {file.key: file for file in in_threads(repeat_put, keys) if file is not None}


class Writes:
    """The writes of one publish. `rolled_back`: to a set of before."""

    def __init__(self, run: Run, public: Storage, claim: Claim, actual: Actual, *, rolled_back: bool) -> None:
        self.run = run
        self.public = public
        self.claim = claim
        self.actual = actual
        self.rolled_back = rolled_back

    def comes_back(self, file: File) -> bool:
        """Return True if the key may have had these bytes before. A delayed request may expect them there."""
        known = self.actual.files.get(file.key)
        return (
            file.key in self.actual.touched
            or self.rolled_back
            or (known is not None and known.sha256 == file.sha256)
            or not {None, file.stored_sha256[:FORMER_DIGITS], ""}.isdisjoint(self._former.get(file.key, ()))
        )

    @cached_property
    def _former(self) -> dict[str, set[str | None]]:
        """Key → its recent bytes (`Former.stored`); None: it waits to be deleted."""
        found: dict[str, set[str | None]] = defaultdict(set)
        for former in self.run.base.former if self.run.base is not None else ():
            found[former.key].add(former.stored)
        for item in self.run.base.retired if self.run.base is not None else ():
            found[item.key].add(None)
        return found

    def put(self, item: Object, *, fenced: bool) -> None:
        """Write an object on the condition it has; then it has the file as it is stored, and the next condition.

        `fenced`: under an ETag that the key never had.
        """
        key, data, sha256 = item.file.key, item.data(), item.file.stored_sha256
        if fenced:
            data = fence.fenced(key, data, self.claim.mark)
            sha256 = hashlib.sha256(data).hexdigest()
        for tries_left in reversed(range(_TRIES)):
            try:
                stat = _put_once(self.run, self.public, self.claim, item, data, sha256)
            except PreconditionFailed as error:
                if tries_left and key in self.actual.touched:
                    # A request of an interrupted publish came in between. The claim is looked at again after this.
                    there = self.public.stat(key)
                    item.expect = ABSENT if there is None else there.etag
                    continue
                self.claim.hold()
                raise Refused(
                    f"{error} Publishing stopped there; the published files are valid, and the next run continues from "
                    "them"
                ) from error
            break
        item.file = replace(item.file, stored=len(data), stored_sha256=sha256, etag=stat.etag)
        item.expect = stat.etag


def _put_once(run: Run, public: Storage, claim: Claim, item: Object, data: bytes, sha256: str | None = None) -> Stat:
    claim.hold()
    key = item.file.key
    try:
        return put_verified(
            public,
            key,
            data,
            content_type=content_type(key),
            cache_control=run.site.publish.cache_control,
            expect=item.expect,
            sha256=sha256,
        )
    except Unavailable:
        claim.hold()  # different bytes can be from a run that took over
        raise
