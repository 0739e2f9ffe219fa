"""A site that many tests start with: it is run once, and restored for each test."""

from __future__ import annotations

import shutil
from copy import copy, deepcopy
from typing import Generic, TypeVar

from tests.support.sites import TestSite
from tests.support.storages import Clocked

_Site = TypeVar("_Site", bound=TestSite)


class Kept(Generic[_Site]):
    """A site as it is now. It stays in its folder because its state records the path."""

    def __init__(self, site: _Site) -> None:
        self._site = site
        self._folder = site.folder.with_name(f"{site.folder.name}-kept")
        shutil.copytree(site.folder, self._folder)

    def put_back(self) -> _Site:
        """Return the site restored after an earlier test changed its files, keys, environment or clock."""
        shutil.rmtree(self._site.folder)
        shutil.copytree(self._folder, self._site.folder)
        site = copy(self._site)
        site.keys = deepcopy(self._site.keys)
        site.store = Clocked(self._site.store.start)
        site.store.time, site.store.written = self._site.store.time, dict(self._site.store.written)
        return site
