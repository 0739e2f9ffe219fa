"""Sites of an earlier version: the state, the public files and the catalog.

`tests/data/saved-states.tar.xz` has five, written by the first version with states of format 2. To save those of a
version with a new format, run its `python -m tests.support.saved ARCHIVE`, and keep the former archive.
"""

from __future__ import annotations

import io
import sqlite3
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml

from sitemap_etl.runs.rollback import roll_back
from sitemap_etl.storage import Storage, open_storage
from tests.support.sites import FIRST_NIGHT, Crawler, TestSite
from tests.support.storages import Died, Wrapped, Wrapping

ARCHIVE: Final = Path(__file__).parents[1] / "data" / "saved-states.tar.xz"
PUBLIC: Final = "s3://shop-public"
WORK: Final = "s3://shop-private"
CATALOG: Final = "catalog.sql"
OPEN_GATES: Final = {"max_drop": 1, "max_growth": 1_000, "max_undated": 1}


class _Bucket(Wrapped):
    """A folder with the address of a bucket, which stays the same wherever a state is unpacked."""

    def __init__(self, inner: Storage, outer: Wrapping, url: str) -> None:
        super().__init__(inner, outer)
        self.url = self.place = url

    def url_of(self, key: str) -> str:
        return f"{self.url}/{key}"

    def sub(self, prefix: str) -> Any:
        return _Bucket(self._inner.sub(prefix), self._outer, f"{self.url}/{prefix}")


class SavedSite(TestSite):
    """A site that reads an SQLite database and publishes to a folder with the address of a bucket."""

    def __init__(self, folder: Path, keys: dict[str, Any] | None = None) -> None:
        super().__init__(folder, to=PUBLIC, work=WORK)
        self.keys["publish"] = {"to": PUBLIC, "check": False}
        self.keys["gates"] = OPEN_GATES
        self.keys.update(keys or {})
        self.environment = replace(
            self.environment,
            environ={"AIRFLOW_CONN_CATALOG": f"sqlite:///{folder}/catalog.db"},
            open_storage=self._open,
        )

    def _open(self, url: str, **options: Any) -> Any:
        bucket = str(url).removeprefix("s3://")
        return _Bucket(open_storage(self.folder / bucket, **options), Wrapping(), str(url))

    def sql(self, text: str, rows: Iterable[tuple[Any, ...]] = ()) -> None:
        """Change the catalog: one statement for each of the rows, or a script."""
        with closing(sqlite3.connect(self.folder / "catalog.db")) as database, database:
            if rows:
                database.executemany(text, rows)
            else:
                database.executescript(text)

    def table(self, name: str, count: int, lang: str = "en") -> None:
        """Make a table of pages in the catalog."""
        self.sql(f"CREATE TABLE {name} (id INTEGER PRIMARY KEY, loc, lastmod, title, gone, lang, pair, touched)")
        self.sql(
            f"INSERT INTO {name} VALUES (?, ?, ?, ?, 0, ?, ?, '2026-10-01')",
            [(n, f"/{name}/{n:03}", f"2026-09-{n % 28 + 1:02}", f"Page {n}", lang, f"p{n}") for n in range(count)],
        )

    def read(self, name: str, query: str, source: dict[str, Any] | None = None, **keys: Any) -> None:
        """Add a section that reads the catalog."""
        self.keys["sections"][name] = {"from": {"database": "catalog", "query": query, **(source or {})}, **keys}

    def public(self) -> Crawler:
        return Crawler(self.environment.open_storage(PUBLIC), f"{self.origin}/")


ROWS: Final = "SELECT id, loc, lastmod, title FROM {}"
CHANGES: Final = "SELECT id, loc, lastmod, title, gone FROM {} WHERE touched >= :since"
FINGERPRINTED: Final = {"lastmod": {"fingerprint": ["title"], "until_changed": "lastmod"}, "shards": {"rows": 15}}


def notes(site: SavedSite) -> None:
    """Leave rejected, excluded, duplicate and noted rows, and fingerprints."""
    site.table("goods", 40)
    site.sql(
        "UPDATE goods SET loc = 'ftp://x' WHERE id = 4; UPDATE goods SET loc = '/goods/007' WHERE id = 8;"
        "UPDATE goods SET lastmod = '2031-01-01' WHERE id = 9; UPDATE goods SET loc = '/a&amp;b' WHERE id = 10"
    )
    site.read("goods", ROWS.format("goods"), where="id <> 12", **FINGERPRINTED)
    site.night(1)
    site.sql("UPDATE goods SET title = 'Another' WHERE id IN (11, 31)")
    site.night(2)
    site.night(3)


def mirror(site: SavedSite) -> None:
    """Leave the mirror of an incremental section, after changed and deleted rows."""
    site.table("goods", 60)
    source = {"key": "id", "deleted": "gone", "full_every": "60d", "split": {"column": "id", "parts": 3}}
    site.read("goods", CHANGES.format("goods"), source, shards={"rows": 15})
    site.night(1)
    site.sql("UPDATE goods SET title = 'Another', lastmod = '2026-11-02', touched = '2026-11-02' WHERE id = 5")
    site.night(2)
    site.sql("UPDATE goods SET gone = 1, touched = '2026-11-03' WHERE id = 8")
    site.night(3)


def clusters(site: SavedSite) -> None:
    """Leave hreflang clusters over two sections, a view and a feed."""
    rule = {"group": "pair", "hreflang": "lang", "x_default": "en", "cluster": "shop"}
    for name, lang in (("goods", "en"), ("german", "de")):
        site.table(name, 20, lang)
        site.read(name, f"SELECT loc, lastmod, title, lang, pair FROM {name}", alternates=rule, shards={"rows": 15})
    site.keys["sections"]["goods"]["feed"] = {"items": 10}
    site.read("top", "SELECT loc, lastmod FROM german WHERE id > 12", view=True)
    site.night(1)
    site.sql("UPDATE german SET pair = 'p19' WHERE id = 3")
    site.night(2)


def rolled_back(site: SavedSite) -> None:
    """Leave a release restored by a rollback, with fingerprints in one section and a mirror in another."""
    site.table("goods", 40)
    site.table("pages", 30)
    site.read("goods", ROWS.format("goods"), **FINGERPRINTED)
    site.read("pages", CHANGES.format("pages"), {"key": "id", "deleted": "gone", "full_every": "60d"})
    site.night(1)
    site.sql("UPDATE goods SET title = 'Another' WHERE id = 4")
    second = site.night(2).run.run_id
    site.sql("UPDATE pages SET title = 'Another', lastmod = '2026-11-03', touched = '2026-11-03' WHERE id = 5")
    site.night(3)
    roll_back(site.load(), second, site.at(FIRST_NIGHT.replace(day=4)), reason="a broken export")
    site.sql("UPDATE pages SET title = 'Page 5', lastmod = '2026-09-06', touched = '2026-11-05' WHERE id = 5")


def interrupted(site: SavedSite) -> None:
    """Leave a publish killed between its public writes, of two sections that exchange pages."""
    site.table("goods", 40)
    site.table("pages", 40)
    for name in ("goods", "pages"):
        site.read(name, ROWS.format(name))
    site.night(1)
    site.sql(
        "UPDATE goods SET loc = '/pages/' || substr(loc, 8) WHERE id < 9;"
        "UPDATE pages SET loc = '/goods/' || substr(loc, 8) WHERE id < 9"
    )
    site.store.die(2, since=PUBLIC)
    try:
        site.night(2)
    except Died:
        return
    raise AssertionError("the run ended before it was killed")


MAKERS: Final[dict[str, Callable[[SavedSite], None]]] = {
    maker.__name__: maker for maker in (notes, mirror, clusters, rolled_back, interrupted)
}


@cache
def _files() -> dict[str, dict[str, bytes]]:
    """Return the files of each saved state by name and path."""
    found: dict[str, dict[str, bytes]] = {}
    with tarfile.open(ARCHIVE) as archive:
        for member in archive:
            name, _, path = member.name.partition("/")
            file = archive.extractfile(member)
            assert file is not None
            found.setdefault(name, {})[path] = file.read()
    return found


def saved(folder: Path, name: str) -> SavedSite:
    """Unpack a saved state, and return its site."""
    for path, data in _files()[name].items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)
    site = SavedSite(folder, yaml.safe_load((folder / "shop.yaml").read_text("utf-8")))
    site.sql((folder / CATALOG).read_text("utf-8"))
    return site


def _packed(name: str, folder: Path) -> dict[str, bytes]:
    site = SavedSite(folder)
    MAKERS[name](site)
    site.load()  # writes the site file as it is now
    with closing(sqlite3.connect(folder / "catalog.db")) as database:
        (folder / CATALOG).write_text("\n".join(database.iterdump()) + "\n", encoding="utf-8")
    files = {str(path.relative_to(folder)): path for path in sorted(folder.rglob("*")) if path.is_file()}
    kept = {key: path.read_bytes() for key, path in files.items() if key.startswith("shop") or key == CATALOG}
    packed = {key: data for key, data in kept.items() if not key.endswith((".html", "/.lock"))}
    assert not [key for key, data in packed.items() if str(folder).encode() in data]
    return packed


def save(path: Path) -> None:
    """Make all states and write the archive."""
    with tarfile.open(path, "w:xz", preset=9) as archive:
        for name in MAKERS:
            with tempfile.TemporaryDirectory() as folder:
                for key, data in _packed(name, Path(folder)).items():
                    member = tarfile.TarInfo(f"{name}/{key}")
                    member.size = len(data)
                    archive.addfile(member, io.BytesIO(data))


if __name__ == "__main__":
    save(Path(sys.argv[1]))
