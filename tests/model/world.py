"""The environment of the runs: sources, site file, clock, a search engine, and a crawler."""

from __future__ import annotations

import contextlib
import csv
import os
import re
import shutil
import sqlite3
import tempfile
import xml.etree.ElementTree as ET
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import yaml

from sitemap_etl.runs.history import published_sets
from sitemap_etl.state.codec import encode
from sitemap_etl.storage.folder import is_temporary
from tests.model.alive import visits
from tests.model.child import Done, Order, Running, Task, Trouble, perform, variables
from tests.model.planted import planted
from tests.model.records import Row, Source, Spelled
from tests.model.settle import INDEX, ROBOTS, Seen
from tests.support.engines import Reply, Request, Side
from tests.support.s3 import CREDENTIALS, S3Server
from tests.support.sites import NS, TestSite, content, parse
from tests.support.storages import Clocked, Died

START = datetime(2021, 3, 1, 2, 0, 17, tzinfo=UTC)
"""Long ago, so that the clock of no source is behind it."""
ORIGIN = "http://shop.example"
"""Reached through a proxy on loopback. Always the same, for the hashes of URLs decide some things: a seed means the
same nights."""
KEY = "0123456789abcdef0123456789abcdef"
OLD = "https://old.example"
PAGES = 60
PUBLIC = "public/"
ATOM = "{http://www.w3.org/2005/Atom}"
SIGNALS = ("id", "updated", "reviewed", "local", "first", "body", "title", "sales", "rank", "freq", "item", "lang")
STANDING = ("live", "exclude", "touched", "gone")
TEXTS = ("body", "title")
"""Columns that the second table of a joined export has."""
CONTRACT = ("lastmod", "priority", "changefreq", "images")
"""Columns that a source has or has not."""


def path_of(number: int) -> str:
    """The canonical path of a page."""
    match number % 10:
        case 0 if number == 0:
            return "/"
        case 3:
            return quote(f"/p/{number:02}-größe")
        case 5:
            return f"/p/{number:02}?colour=red&size=2"
        case 7:
            return f"/p/{number:02}/a/b/c"
        case 8:
            return f"/x/{number:02}"
    return f"/p/{number:02}"


HOWS = ("plain", "absolute", "bare", "raw", "small", "dots", "fragment", "space", "scheme", "tracking", "old")
BROKEN = {
    "": "missing loc",
    "NULL": "placeholder",
    "https://elsewhere.example/p": "foreign origin",
    "ftp://shop.example/p": "not http or https",
    "/p/a\tb": "control character",
    "https://me:secret@shop.example/": "user name or password",
}


def spell(number: int, how: str, origin: str) -> Spelled:
    """Return one of the spellings that a source may have for a page."""
    path = path_of(number)
    match how:
        case "absolute":
            text = origin + path
        case "bare":
            text = path[1:] if number else "/"
        case "raw":
            text = path.replace("gr%C3%B6%C3%9Fe", "größe")
        case "small":
            text = path.replace("%C3%B6%C3%9F", "%c3%b6%c3%9f").replace("/p/", "/%70/")
        case "dots":
            text = "/away/.." + path
        case "fragment":
            text = path + "#reviews"
        case "space":
            text = f" {path} "
        case "scheme":
            text = origin.replace("http://", "HTTP://") + path
        case "tracking":
            more = "utm_source=mail"
            return Spelled(f"{path}{'&' if '?' in path else '?'}{more}", path, tracking=more)
        case "old":
            return Spelled("https://OLD.example:443" + path, path, origin=OLD)
        case _:
            text = path
    return Spelled(text, path)


def stamp(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S}"


@dataclass
class Spec:
    """A section: its rows, how they are read, and its keys in the site file except `from`."""

    name: str
    rows: list[Row] = field(default_factory=list)
    keys: dict[str, Any] = field(default_factory=dict)
    kind: str = "csv"  # or db
    parts: int = 1
    contract: set[str] = field(default_factory=set)
    loc: str = "loc"  # what the source calls it
    broken: bool = False
    since: dict[str, str] | None = None  # key, deleted, full_every, overlap of an incremental read
    marked: bool = False  # an export whose writer puts a marker last, without which it is not whole
    joined: bool = False  # an export of two tables, which a SELECT joins

    @property
    def columns(self) -> set[str]:
        return {*SIGNALS, *STANDING, *self.contract, self.loc}


def _put_csv(path: Path, names: list[str], rows: list[list[Any]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(names)
        writer.writerows(rows)


class Folder:
    """The public objects in a folder, read as a web server does, without the code under test."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def objects(self) -> dict[str, bytes]:
        """Return every object by its key, without temporary files of killed writers."""
        return {path.name: path.read_bytes() for path in sorted(self.path.glob("*")) if not is_temporary(path.name)}

    def put(self, key: str, data: bytes) -> None:
        self.path.mkdir(exist_ok=True)
        (self.path / key).write_bytes(data)

    def remove(self, key: str) -> None:
        (self.path / key).unlink()


class Bucket:
    """The public objects in a bucket. `endpoint`: of the server itself, past any proxy."""

    def __init__(self, endpoint: str, name: str) -> None:
        self.endpoint = endpoint
        self.name = name
        # Bytes that were changed on their way are read as they are: the code under test has to find them.
        self._client = S3Server(endpoint).client(response_checksum_validation="when_required")

    def __reduce__(self) -> tuple[type[Bucket], tuple[str, str]]:
        return Bucket, (self.endpoint, self.name)

    def objects(self) -> dict[str, bytes]:
        """Return every object by its key."""
        keys = [
            each["Key"] for each in self._client.list_objects_v2(Bucket=self.name, Prefix=PUBLIC).get("Contents", ())
        ]
        return {
            key.removeprefix(PUBLIC): self._client.get_object(Bucket=self.name, Key=key)["Body"].read() for key in keys
        }

    def put(self, key: str, data: bytes) -> None:
        self._client.put_object(Bucket=self.name, Key=PUBLIC + key, Body=data)

    def remove(self, key: str) -> None:
        self._client.delete_object(Bucket=self.name, Key=PUBLIC + key)


class World:
    """A site, its sources and the clock, in its own folder; public files and state there, or in a bucket.

    `endpoint`: the address of the bucket for runs, if that is not the server itself.
    """

    def __init__(self, bucket: Bucket | None = None, *, endpoint: str = "") -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="nights-"))
        self.side = Side(self._answer)
        self.up = True
        self.posted: list[str] = []
        self.public: Folder | Bucket = bucket or Folder(self.folder / "public")
        places = (
            {} if bucket is None else {"to": f"s3://{bucket.name}/{PUBLIC[:-1]}", "work": f"s3://{bucket.name}/work"}
        )
        self.site = TestSite(self.folder, site=ORIGIN, **places)
        self.clock = Clocked(START)
        environ = {"INDEXNOW_KEY": KEY, "AIRFLOW_CONN_CATALOG": f"sqlite:///{self.folder}/catalog.db"}
        self.site.environment = self.clock.around(replace(self.site.environment, environ=environ, visits=visits))
        self.time_file = self.folder / "time"
        self.time_file.write_text(START.isoformat())
        self.plant = ""  # a defect of the store, for runs in processes of their own
        self.runs = 0
        self.variables = dict.fromkeys(("HTTP_PROXY", "http_proxy"), self.side.url)
        self.variables |= dict.fromkeys(("NO_PROXY", "no_proxy"), "127.0.0.1")
        if bucket is not None:
            self.variables |= {**CREDENTIALS, "AWS_ENDPOINT_URL": endpoint or bucket.endpoint}
        self.specs: dict[str, Spec] = {}
        self.ids = 0
        self.robots: list[str] = []
        self.lost: set[str] = set()  # public files that somebody deleted

    def close(self) -> None:
        self.side.__exit__()
        shutil.rmtree(self.folder)

    @property
    def origin(self) -> str:
        return ORIGIN

    @property
    def endpoint(self) -> str:
        """Of the search engine."""
        return f"{self.side.url}/indexnow"

    @property
    def now(self) -> datetime:
        return self.clock.time

    def pass_time(self, span: timedelta) -> None:
        self.clock.time += span
        self.time_file.write_text(self.now.isoformat())
        # Temporary files are as old as the clock of the machine says, which stands still here.
        if span >= timedelta(days=1):
            for path in self.temporary():
                os.utime(path, (0, 0))

    def temporary(self) -> list[Path]:
        """Return the files that killed writers left in the folders of the site."""
        return [path for path in self.folder.rglob("*.tmp") if is_temporary(path.name)]

    # --- sources ---

    def row(self, number: int, how: str = "plain") -> Row:
        """Return a row for a page, as any section has them."""
        self.ids += 1
        return {
            "id": self.ids,
            "loc": spell(number, how, self.origin),
            "updated": "2021-01-05",
            "reviewed": None,
            "local": "2021-01-06 07:08:09",
            "first": "2020-12-24T12:00:00Z" if number % 2 else None,
            "body": f"body of {number}",
            "title": f"Page & {number}",
            "sales": number * 7 % 40,
            "rank": f"0.{number % 10}5",
            "freq": "daily",
            "item": f"i{number // 3}",
            "lang": ("en", "de", "fr")[number % 3],
            "live": "yes",
            "exclude": None,
            "touched": stamp(self.now),
            "gone": None,
            "lastmod": "2021-02-03T04:05:06Z",
            "priority": "0.5",
            "changefreq": "weekly",
            "images": None,
        }

    def source(self, spec: Spec) -> Source:
        """Return the rows as the model reads them."""
        names = (*SIGNALS, *STANDING, *spec.contract)
        rows = [{**{name: row[name] for name in names}, spec.loc: row["loc"]} for row in spec.rows]
        return Source(rows, spec.columns, spec.broken)

    def write(self) -> dict[str, Any]:
        """Write sources and site file; return the site file."""
        self._write_robots()
        sections = {}
        for name, spec in self.specs.items():
            sections[name] = {"from": self._write(spec), **spec.keys}
            if spec.loc != "loc":
                sections[name]["columns"] = {"loc": spec.loc}
        self.site.keys["sections"] = sections
        return dict(self.site.keys)

    def _write(self, spec: Spec) -> dict[str, Any]:
        names = sorted(spec.columns)
        values = [[row["loc"].text if name == spec.loc else row[name] for name in names] for row in spec.rows]
        if spec.kind == "db":
            self._table(spec, names, values)
            query = f"SELECT {', '.join(names)} FROM {spec.name}"
            if spec.since is not None:
                return {"database": "catalog", "query": f"{query} WHERE touched >= :since", **spec.since}
            split = {"split": {"column": "id", "parts": spec.parts}} if spec.parts > 1 else {}
            return {"database": "catalog", "query": query, **split}
        found: dict[str, Any] = {}
        marker = self.folder / f"{spec.name}.done"
        marker.unlink(missing_ok=True)
        if spec.joined:
            found |= self._texts(spec, values, names)
            values = [[value for name, value in zip(names, row, strict=True) if name not in TEXTS] for row in values]
            names = [name for name in names if name not in TEXTS]
        files = [self.folder / f"{spec.name}-{part}.csv" for part in range(spec.parts)]
        for part, path in enumerate(files):
            if spec.broken and not spec.marked:
                path.unlink(missing_ok=True)
            else:
                shown = values[part :: spec.parts]
                _put_csv(path, names, shown[len(shown) // 2 :] if spec.broken else shown)
        if spec.marked:
            found["expect"] = {"marker": marker.name}
            if not spec.broken:
                marker.touch()
        return {"csv": [f"./{path.name}" for path in files], **found}

    def _texts(self, spec: Spec, values: list[list[Any]], names: list[str]) -> dict[str, Any]:
        """Write the texts of the rows as a table; return the keys that read it, besides the export."""
        texts = self.folder / f"{spec.name}-texts.csv"
        own = [names.index(name) for name in ("id", *TEXTS)]
        _put_csv(texts, ["id", *TEXTS], [[row[at] for at in own] for row in values])
        shown = ", ".join(f"{'texts' if name in TEXTS else 'source'}.{name}" for name in names)
        query = f"SELECT {shown} FROM source JOIN texts ON source.id = texts.id"
        return {"query": query, "tables": {"texts": {"csv": f"./{texts.name}"}}}

    def _table(self, spec: Spec, names: list[str], values: list[list[Any]]) -> None:
        with contextlib.closing(sqlite3.connect(self.folder / "catalog.db")) as database, database:
            database.execute(f"DROP TABLE IF EXISTS {spec.name}")
            if not spec.broken:
                kinds = {"id": "INTEGER", "sales": "INTEGER", "gone": "INTEGER"}
                columns = ", ".join(f"{name} {kinds.get(name, 'TEXT')}" for name in names)
                database.execute(f"CREATE TABLE {spec.name} ({columns})")
                places = ", ".join("?" * len(names))
                database.executemany(f"INSERT INTO {spec.name} VALUES ({places})", values)

    def _write_robots(self) -> None:
        """Return the site's own rules, before the managed block."""
        text = self.public.objects().get(ROBOTS, b"").decode()
        ours = text[text.index("# sitemap_etl") :] if "# sitemap_etl" in text else ""
        if text != self._rules() + ours:
            self.public.put(ROBOTS, (self._rules() + ours).encode())

    def _rules(self) -> str:
        return "User-agent: *\n" + "".join(f"Disallow: {pattern}\n" for pattern in self.robots) + "\n"

    # --- runs ---

    def run(self, *, ping: bool = True, kill: tuple[int, str] | None = None, **options: Any) -> Done:
        """Run in this process. `kill`: it dies after this many writes, from the first whose address contains this."""
        if kill is not None:
            self.clock.die(kill[0], since=kill[1])
        return self._do(self._task("run", ping=ping, **options))

    def publish(self, run_id: str, *, force: tuple[str, ...] = (), ping: bool = True) -> Done:
        reason = "meant" if force else None
        return self._do(self._task("publish", run_id, ping=ping, force=force, reason=reason))

    def roll_back(self, run_id: str | None, *, ping: bool = True) -> Done:
        return self._do(self._task("roll_back", run_id, ping=ping))

    def begin(
        self,
        trouble: Trouble,
        kept: Collection[str] = (),
        *,
        ahead: timedelta = timedelta(),
        ping: bool = True,
        **options: Any,
    ) -> Running:
        """Start a run in a process of its own, in which `trouble` happens.

        `kept`: URLs that must be listed at every moment. `ahead`: how far the store's clock stays before that
        of the run.
        """
        self.runs += 1
        time = self.time_file
        if ahead:
            time = self.folder / f"time-{self.runs}"
            time.write_text((self.now + ahead).isoformat())
        order = Order(
            task=self._task("run", ping=ping, **options),
            folder=self.folder,
            public=self.public,
            time=time,
            start=self.clock.start,
            written=dict(self.clock.written),
            environ=dict(self.site.environment.environ),
            variables=self.variables,
            trouble=trouble,
            kept=frozenset(kept),
            plant=self.plant,
        )
        return Running(order)

    def end(self, running: Running) -> Done:
        """Wait for a run in a process of its own."""
        done = running.end()
        self.clock.written.update(running.written)
        done.posted, self.posted = self.posted, []
        return done

    def _task(self, act: str, *arguments: Any, ping: bool, **options: Any) -> Task:
        if "sections" in options:
            options["sections"] = tuple(options["sections"])
        return Task(self.site.path, act, arguments, options, ping)

    def _do(self, task: Task) -> Done:
        self.posted = []
        self.runs += 1
        with variables(self.variables):
            try:
                done = perform(task, planted(self.plant, self.site.environment))
            except Died:
                done = Done(died=True)
            finally:
                self.clock.revive()
        done.posted, self.posted = self.posted, []
        return done

    def history(self) -> list[dict[str, Any]]:
        """What `sitemap-etl history` shows."""
        with variables(self.variables):
            return [encode(each) for each in published_sets(self.site.load(), self.site.environment)]

    def current(self) -> str | None:
        """Return the run whose release is published."""
        return next((each["run_id"] for each in self.history() if each["current"]), None)

    def ended_quietly(self, now: datetime) -> bool:
        """Return whether the run at this time found that there is nothing to do."""
        with variables(self.variables):
            last = self.site.state().current().last_run
        return last is not None and datetime.fromisoformat(last.at) == now and last.status == "unchanged"

    def yaml(self) -> str:
        return yaml.safe_dump(self.site.keys, sort_keys=False, allow_unicode=True)

    # --- what others see ---

    def _answer(self, request: Request) -> Reply:
        if request.method == "GET":
            found = self.public.objects().get(request.path.lstrip("/"))
            return Reply(404) if found is None else Reply(200, found)
        if not self.up:
            return Reply(503)
        self.posted += request.json["urlList"]
        return Reply(200, "{}")

    def look(self) -> Seen:
        """Read everything that is public, following robots.txt → index → sitemaps.

        An index that robots.txt does not name is not read: nothing was committed yet, or the release is empty.
        Raises AssertionError if a listed file is missing or doesn't parse.
        """
        objects = self.public.objects()
        robots = objects[ROBOTS].decode()
        assert robots.startswith(self._rules()), "the site's own rules in robots.txt are others"
        named = f"Sitemap: {self.origin}/{INDEX}" in robots
        assert INDEX in objects or not named, "robots.txt names an index that is not there"
        return read_set(objects, frozenset(self.lost), named=named)


def read_set(objects: dict[str, bytes], lost: frozenset[str] = frozenset(), *, named: bool = True) -> Seen:
    """Return the release as a crawler reads it from its index, if that is `named` to it.

    Raises AssertionError if a listed file is missing (except those in `lost`), or doesn't parse.
    """
    seen = Seen(objects, {key: content(key, data) for key, data in objects.items()})
    if INDEX not in objects or not named:
        return seen
    for each in ET.fromstring(objects[INDEX]).findall(f"{NS}sitemap"):
        key = (each.findtext(f"{NS}loc") or "").removeprefix(ORIGIN + "/")
        assert key not in seen.index, f"{key} is listed twice"
        seen.index[key] = each.findtext(f"{NS}lastmod") or ""
        if key in lost and key not in objects:
            continue
        assert key in objects, f"{key} is listed and does not exist"
        seen.entries[key] = parse(objects[key], key)
        assert seen.entries[key], f"{key} is empty"
    for key, data in seen.content.items():
        if key.endswith(".txt.gz"):
            seen.texts[key] = data.decode().splitlines()
        elif match := re.fullmatch(r"\w+\.(rss|atom)\.xml", key):
            seen.feeds[key] = list(items(ET.fromstring(data), match[1]))
    return seen


def items(feed: ET.Element, format_: str) -> Iterable[tuple[str, str]]:
    """Return loc and title of each item."""
    if format_ == "rss":
        for item in feed.iter("item"):
            yield item.findtext("link") or "", item.findtext("title") or ""
    for entry in feed.findall(f"{ATOM}entry"):
        link = entry.find(f"{ATOM}link")
        assert link is not None
        yield link.get("href") or "", entry.findtext(f"{ATOM}title") or ""
