"""A small site on disk: its file, its exports and its runs, and a crawler for its sitemaps."""

from __future__ import annotations

import contextlib
import csv
import gzip
import re
import uuid
import xml.etree.ElementTree as ET
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import yaml

from sitemap_etl.config import Site, load
from sitemap_etl.runs.local import Finished, run_locally
from sitemap_etl.stages.run import Environment, open_work
from sitemap_etl.state.records import Manifest, Options
from sitemap_etl.state.store import State
from sitemap_etl.storage import Storage, open_storage
from tests.support.storages import Clocked

NS = "{http://www.sitemaps.org/schemas/sitemap/0.9}"
DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
"""The C form is faster, if PyYAML has it: every night of a test writes its site file."""
FIRST_NIGHT = datetime(2026, 11, 1, 2, 0, tzinfo=UTC)


@dataclass
class Listed:
    """One URL as a crawler reads it."""

    loc: str
    file: str
    lastmod: str | None = None
    priority: str | None = None
    changefreq: str | None = None
    alternates: dict[str, str] = field(default_factory=dict)
    images: list[str] = field(default_factory=list)


def parse(data: bytes, name: str) -> list[Listed]:
    """Return the entries of one sitemap, read by the parser of the standard library."""
    if name.endswith(".gz"):
        data = gzip.decompress(data)
    found = []
    for url in ET.fromstring(data).findall(f"{NS}url"):
        values = {child.tag.removeprefix(NS): child.text for child in url if child.tag.startswith(NS)}
        links = {child.get("hreflang"): child.get("href") for child in url if child.tag.endswith("}link")}
        images = [e.text or "" for e in url.iter("{http://www.google.com/schemas/sitemap-image/1.1}loc")]
        found.append(Listed(values.pop("loc"), name, **values, alternates=links, images=images))  # type: ignore[arg-type]
    return found


def content(key: str, data: bytes) -> bytes:
    """Return the content of a file: decompressed if possible, and without its fence."""
    if key.endswith(".gz"):
        with contextlib.suppress(OSError, EOFError, zlib.error):
            return gzip.decompress(data)
    if key.endswith(".xml"):
        return re.sub(rb"(<!--[^>]*-->\s*)+\Z", b"", data)
    if key == "robots.txt":
        return re.sub(rb"(?m)^# written by run \S+\n", b"", data)
    return re.sub(rb"(?<=\n)[ \t]+\n\Z", b"", data) if key.endswith(".txt") else data


class Crawler:
    """Follows robots.txt → indexes → sitemaps of a release, as a search engine does."""

    def __init__(self, public: Storage, at: str) -> None:
        self.public = public
        self.at = at

    def read(self, address: str) -> bytes:
        assert address.startswith(self.at), address
        stored = self.public.get(address.removeprefix(self.at))
        assert stored is not None, f"{address} is listed but does not exist"
        return stored.data

    def files(self, index: str = "sitemap.xml") -> list[str]:
        """Return the addresses of the sitemaps in an index."""
        root = ET.fromstring(self.read(self.at + index))
        return [e.text or "" for e in root.iter(f"{NS}loc")]

    def indexes(self) -> list[str]:
        return sorted(s.key for s in self.public.list("sitemap") if s.key.endswith(".xml") and s.key.count("-") <= 1)

    def entries(self, *, views: bool = False) -> list[Listed]:
        """Return every listed URL, file by file."""
        found: list[Listed] = []
        for index in self.indexes():
            for address in self.files(index):
                name = address.removeprefix(self.at)
                if views or not name.startswith("sitemap-recent-"):
                    found += parse(self.read(address), name)
        return found

    def locs(self) -> list[str]:
        return [entry.loc for entry in self.entries()]

    def by_loc(self) -> dict[str, Listed]:
        return {entry.loc: entry for entry in self.entries()}

    def objects(self) -> dict[str, bytes]:
        """Return every public object by key."""
        return {stat.key: self.public.get(stat.key).data for stat in self.public.list()}  # type: ignore[union-attr]

    def contents(self) -> dict[str, bytes]:
        """Return the content of every public object by key."""
        return {key: content(key, data) for key, data in self.objects().items()}


class TestSite:
    """A site file with CSV exports in `folder`. `night(n)` runs it at 2 a.m. of day `n`."""

    __test__ = False
    origin = "https://shop.example"

    def __init__(self, folder: Path, *, to: str = "./public", work: str = "./work", **keys: Any) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.keys: dict[str, Any] = {
            "name": "shop",
            "site": self.origin,
            "work": work,
            "publish": to,
            "sections": {},
            **keys,
        }
        self.environment = Environment(environ={})
        self.store = Clocked(FIRST_NIGHT)
        self._loaded: tuple[Any, Site] | None = None

    def section(self, name: str, rows: Iterable[Mapping[str, Any]] | None = None, **keys: Any) -> TestSite:
        """Add or change a section, and write its export if rows are given."""
        if rows is not None:
            self.export(name, rows)
        self.keys["sections"][name] = {"from": {"csv": f"./{name}.csv"}, **keys}
        return self

    def export(self, name: str, rows: Iterable[Mapping[str, Any]]) -> None:
        rows = list(rows)
        names: list[str] = list(dict.fromkeys(key for row in rows for key in row)) or ["loc"]
        with (self.folder / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, names)
            writer.writeheader()
            writer.writerows(rows)

    @property
    def path(self) -> Path:
        path = self.folder / "shop.yaml"
        new = path.with_suffix(f".{uuid.uuid4().hex}")  # a run of another process may be reading it
        new.write_text(self._text())
        return new.replace(path)

    def _text(self) -> str:
        return yaml.dump(self.keys, Dumper=DUMPER, sort_keys=False, allow_unicode=True)

    def load(self) -> Site:
        site = load(self.path, environ=self.environment.environ)
        self._loaded = (self._text(), dict(self.environment.environ)), site
        return site

    def _places(self) -> Site:
        """Return the site for its folders. It is loaded again only if its keys have changed."""
        known = self._text(), dict(self.environment.environ)
        return self._loaded[1] if self._loaded is not None and self._loaded[0] == known else self.load()

    def night(self, number: int, *, jobs: int = 1, sections: Sequence[str] = (), **options: Any) -> Finished:
        environment = self.at(FIRST_NIGHT + timedelta(days=number - 1))
        return run_locally(self.load(), Options(sections=tuple(sections), **options), environment, jobs=jobs)

    def at(self, time: datetime) -> Environment:
        """Return the environment in which every clock shows this time."""
        self.store.time = time
        return self.store.around(self.environment)

    def state(self) -> State:
        site = self._places()
        return State(open_work(site, self.environment), site.name, site.site)

    def manifest(self) -> Manifest:
        state = self.state()
        manifest = state.manifest(state.current().manifest)
        assert manifest is not None
        return manifest

    def public(self) -> Crawler:
        publish = self._places().publish
        return Crawler(open_storage(publish.to), publish.at)


def pages(count: int, start: int = 0, **columns: Any) -> list[dict[str, Any]]:
    """Return rows /p/000000 … with further columns, whose values may be functions of the number."""
    return [
        {"loc": f"/p/{n:06}", **{key: value(n) if callable(value) else value for key, value in columns.items()}}
        for n in range(start, start + count)
    ]
