"""The world of the nights: sources, site file, clock, a search engine, and what a crawler reads of it all."""

from __future__ import annotations

import contextlib
import csv
import json
import re
import shutil
import sqlite3
import tempfile
import xml.etree.ElementTree as ET
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import yaml

from sitemap_etl.errors import SitemapEtlError
from sitemap_etl.runs.local import Finished, ping_locally, publish_locally, run_locally
from sitemap_etl.runs.rollback import published_sets, roll_back
from sitemap_etl.state.codec import encode
from sitemap_etl.state.records import Options
from tests.model.model import Row, Source, Spelled
from tests.model.settle import INDEX, ROBOTS, Seen
from tests.support.engines import Reply, Request, Side
from tests.support.sites import NS, TestSite, content, parse
from tests.support.storages import Clocked, Died

START = datetime(2021, 3, 1, 2, 0, 17, tzinfo=UTC)
"""Long ago, so that the clock of no source is behind it."""
PORT = 47_611
"""Of the site on loopback. Always the same, for the hashes of URLs decide some things: a seed means the same nights."""
KEY = "0123456789abcdef0123456789abcdef"
OLD = "https://old.example"
PAGES = 60
ATOM = "{http://www.w3.org/2005/Atom}"
SIGNALS = ("id", "updated", "reviewed", "local", "first", "body", "title", "sales", "rank", "freq", "item", "lang")
STANDING = ("live", "exclude", "touched", "gone")
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
    "https://elsewhere.example/p": "foreign origin",
    "ftp://shop.example/p": "not http or https",
    "/p/a\tb": "control character",
    "https://me:secret@shop.example/": "user name or password",
}


def spell(number: int, how: str, origin: str) -> Spelled:
    """One of the ways in which a source may name a page."""
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
    """A section: its rows, how they are read, and its keys in the site file, `from` apart."""

    name: str
    rows: list[Row] = field(default_factory=list)
    keys: dict[str, Any] = field(default_factory=dict)
    kind: str = "csv"  # or db
    parts: int = 1
    contract: set[str] = field(default_factory=set)
    loc: str = "loc"  # what the source calls it
    broken: bool = False
    since: dict[str, str] | None = None  # key, deleted, full_every, overlap of an incremental read

    @property
    def columns(self) -> set[str]:
        return {*SIGNALS, *STANDING, *self.contract, self.loc}


@dataclass
class Done:
    """How a run ended."""

    summary: dict[str, Any] | None = None
    error: SitemapEtlError | None = None
    died: bool = False
    posted: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


class World:
    """A site on loopback in a folder of its own."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="nights-"))
        try:
            self.side = Side(self._answer, port=PORT)
        except OSError:  # another process has it
            self.side = Side(self._answer)
        self.up = True
        self.posted: list[str] = []
        self.site = TestSite(self.folder, site=self.side.url)
        self.clock = Clocked(START)
        environ = {"INDEXNOW_KEY": KEY, "AIRFLOW_CONN_CATALOG": f"sqlite:///{self.folder}/catalog.db"}
        self.site.environment = self.clock.around(replace(self.site.environment, environ=environ))
        self.specs: dict[str, Spec] = {}
        self.ids = 0
        self.robots: list[str] = []
        self.lost: set[str] = set()  # public files that somebody deleted

    def close(self) -> None:
        self.side.__exit__()
        shutil.rmtree(self.folder)

    @property
    def origin(self) -> str:
        return self.side.url

    @property
    def now(self) -> datetime:
        return self.clock.time

    def pass_time(self, span: timedelta) -> None:
        self.clock.time += span

    # --- sources ---

    def row(self, number: int, how: str = "plain") -> Row:
        """A row for a page, as any section has them."""
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
        """The rows as the model reads them."""
        names = (*SIGNALS, *STANDING, *spec.contract)
        rows = [{**{name: row[name] for name in names}, spec.loc: row["loc"]} for row in spec.rows]
        return Source(rows, spec.columns, spec.broken)

    def write(self) -> dict[str, Any]:
        """Write sources and site file; gives the site file."""
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
        files = [self.folder / f"{spec.name}-{part}.csv" for part in range(spec.parts)]
        for part, path in enumerate(files):
            if spec.broken:
                path.unlink(missing_ok=True)
                continue
            with path.open("w", newline="", encoding="utf-8") as file:
                writer = csv.writer(file)
                writer.writerow(names)
                writer.writerows(values[part :: spec.parts])
        return {"csv": [f"./{path.name}" for path in files]}

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
        """The site's own rules, before our block."""
        path = self.folder / "public" / ROBOTS
        text = path.read_text() if path.exists() else ""
        ours = text[text.index("# sitemap_etl") :] if "# sitemap_etl" in text else ""
        if text != self._rules() + ours:
            path.parent.mkdir(exist_ok=True)
            path.write_text(self._rules() + ours)

    def _rules(self) -> str:
        return "User-agent: *\n" + "".join(f"Disallow: {pattern}\n" for pattern in self.robots) + "\n"

    # --- runs ---

    def run(self, *, ping: bool = True, kill: tuple[int, str] | None = None, **options: Any) -> Done:
        if kill is not None:
            self.clock.die(kill[0], since=kill[1])
        options["sections"] = tuple(options.get("sections", ()))
        site, environment = self.site.load(), self.site.environment
        return self._do(lambda: run_locally(site, Options(ping=ping, **options), environment, jobs=1), ping=ping)

    def publish(self, run_id: str, *, force: tuple[str, ...] = (), ping: bool = True) -> Done:
        site, environment = self.site.load(), self.site.environment
        reason = "meant" if force else None
        return self._do(
            lambda: publish_locally(site, run_id, environment, force=force, reason=reason, adopt=False), ping=ping
        )

    def roll_back(self, run_id: str | None, *, ping: bool = True) -> Done:
        site, environment = self.site.load(), self.site.environment
        return self._do(lambda: roll_back(site, run_id, environment, reason="a test"), ping=ping)

    def _do(self, act: Any, *, ping: bool) -> Done:
        self.posted = []
        try:
            finished: Finished = act()
            summary = ping_locally(finished, self.site.environment) if ping else finished.summary
        except SitemapEtlError as error:
            return Done(error=error, posted=self.posted)
        except Died:
            return Done(died=True, posted=self.posted)
        finally:
            self.clock.revive()
        return Done(summary=json.loads(json.dumps(encode(summary))), posted=self.posted)

    def history(self) -> list[dict[str, Any]]:
        """What `sitemap-etl history` shows."""
        return [encode(each) for each in published_sets(self.site.load(), self.site.environment)]

    def current(self) -> str | None:
        """The run whose set is in place."""
        return next((each["run_id"] for each in self.history() if each["current"]), None)

    def yaml(self) -> str:
        return yaml.safe_dump(self.site.keys, sort_keys=False, allow_unicode=True)

    # --- what others see ---

    def _answer(self, request: Request) -> Reply:
        if request.method == "GET":
            file = self.folder / "public" / request.path.lstrip("/")
            return Reply(200, file.read_bytes()) if file.is_file() else Reply(404)
        if not self.up:
            return Reply(503)
        self.posted += request.json["urlList"]
        return Reply(200, "{}")

    def look(self) -> Seen:
        """Read everything that is public, following robots.txt → index → sitemaps.

        Raises AssertionError where a reader would stumble: a file that is listed and not there, or doesn't parse.
        """
        public = self.folder / "public"
        objects = {path.name: path.read_bytes() for path in sorted(public.glob("*"))}
        seen = Seen(objects, {key: content(key, data) for key, data in objects.items()})
        assert objects[ROBOTS].decode().startswith(self._rules()), "the site's own rules in robots.txt are others"
        if INDEX not in objects:
            assert f"{self.origin}/{INDEX}" not in objects.get(ROBOTS, b"").decode(), "robots.txt names no index"
            return seen
        assert f"Sitemap: {self.origin}/{INDEX}" in objects[ROBOTS].decode(), "robots.txt does not name the index"
        for each in ET.fromstring(objects[INDEX]).findall(f"{NS}sitemap"):
            key = (each.findtext(f"{NS}loc") or "").removeprefix(self.origin + "/")
            assert key not in seen.index, f"{key} is listed twice"
            seen.index[key] = each.findtext(f"{NS}lastmod") or ""
            if key in self.lost and key not in objects:
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
    """loc and title of each item."""
    if format_ == "rss":
        for item in feed.iter("item"):
            yield item.findtext("link") or "", item.findtext("title") or ""
    for entry in feed.findall(f"{ATOM}entry"):
        link = entry.find(f"{ATOM}link")
        assert link is not None
        yield link.get("href") or "", entry.findtext(f"{ATOM}title") or ""
