"""Since when a listed row is as it is, and by which run: from the manifests that are kept."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from sitemap_etl.errors import Refused
from sitemap_etl.manifest import Manifest
from sitemap_etl.pipeline.listing import Found, PublishedSet, Shelf
from sitemap_etl.pipeline.run import instant
from sitemap_etl.pipeline.state import State


class Provenance:
    """The manifests of a state from one of them back. Each is read once, and only if it is needed."""

    def __init__(self, state: State, manifest: Manifest, shelf: Shelf) -> None:
        self.state = state
        self.shelf = shelf
        self._chain = [manifest]
        self._sets: dict[str, PublishedSet] = {}

    def since(self, found: Found) -> dict[str, Any]:
        """`{at, run_id, how}`: how is added, changed, first publish, or added or changed where that is not known.

        `at` and `run_id` are None where the run is no longer kept and its time is not known; for a first publish
        `before` is then a time at which it was over.
        """
        if found.row["since"] is None:
            return self._first_publish(found.section)
        moment = instant(datetime.fromtimestamp(found.row["since"], UTC))
        for manifest in self._back():
            if manifest.now < moment:
                break
            if manifest.now == moment:
                return {"at": moment, "run_id": manifest.run_id, "how": self._how(manifest, found)}
        return {"at": moment, "run_id": None, "how": "added or changed"}

    def last_listed(self, loc: str) -> dict[str, Any] | None:
        """The newest set before this one that lists the loc, as `{run_id, at}`; None where no kept one does."""
        for manifest in self._back():
            if manifest is self._chain[0]:
                continue
            try:
                if self._set(manifest).find(loc):
                    return {"run_id": manifest.run_id, "at": manifest.now}
            except Refused:
                return None  # its snapshots are no longer kept
        return None

    def _set(self, manifest: Manifest) -> PublishedSet:
        if manifest.run_id not in self._sets:
            self._sets[manifest.run_id] = PublishedSet(manifest, self.shelf)
        return self._sets[manifest.run_id]

    def _first_publish(self, section: str) -> dict[str, Any]:
        oldest = self._chain[0]
        for manifest in self._back():
            if section not in manifest.sections:
                break
            oldest = manifest
        else:
            if oldest.base is not None:  # what was before it is no longer kept
                return {"at": None, "run_id": None, "how": "first publish", "before": oldest.now}
        return {"at": oldest.now, "run_id": oldest.run_id, "how": "first publish"}

    def _how(self, manifest: Manifest, found: Found) -> str:
        if manifest.base is None:
            return "added"
        base = next((older for older in self._back() if older.key == manifest.base), None)
        if base is None:
            return "added or changed"
        try:
            return "changed" if self._set(base).find(found.row["loc"]) else "added"
        except Refused:
            return "added or changed"  # its snapshots are no longer kept

    def _back(self) -> Iterator[Manifest]:
        at = 0
        while True:
            yield self._chain[at]
            at += 1
            if at == len(self._chain):
                base = self._chain[-1].base
                older = None if base is None else self._kept(base)
                if older is None:
                    return
                self._chain.append(older)

    def _kept(self, key: str) -> Manifest | None:
        try:
            return self.state.manifest(key)
        except Refused:
            return None  # forgotten: only the last sets are kept
