"""Events between two runs: changed sources, a changed site file, an engine that fails or recovers."""

from __future__ import annotations

import copy
import random
from datetime import timedelta
from typing import Any

from tests.model.records import Row
from tests.model.world import BROKEN, CONTRACT, OLD, PAGES, Spec, World, spell, stamp

NOT_YET: frozenset[str] = frozenset()
"""What the product does not do yet as documented; taking an entry out turns its nights on."""

NAMES = ("a", "b", "c", "d")
OPEN = {"max_drop": 1, "max_growth": 1_000, "max_rejected": 1, "max_undated": 1}
GAPS = [timedelta(minutes=3), timedelta(minutes=25), timedelta(hours=7), timedelta(days=1), timedelta(days=1)]
GAPS += [timedelta(days=2, hours=1), timedelta(days=8), timedelta(days=20)]
LASTMODS: list[Any] = [
    None,
    "updated",
    "none",
    {"column": "local", "timezone": "Europe/Berlin"},
    {"column": "local", "timezone": "America/New_York"},
    {"newest_of": ["updated", "reviewed"]},
    {"fingerprint": ["body"]},
    {"fingerprint": ["title", "body"], "until_changed": "updated"},
    {"fingerprint": ["title"], "first_seen": True},
    {"fingerprint": ["body"], "until_changed": "first", "first_seen": True},
]
RULES: dict[str, list[Any]] = {
    "lastmod": LASTMODS,
    "priority": [None, 0.25, 1, "rank", {"column": "rank"}, {"percentile_of": "sales"}, {"depth": True}, "none"],
    "changefreq": [None, "weekly", "freq", {"column": "freq"}, "none"],
    "alternates": [
        None,
        {"group": "item", "hreflang": "lang"},
        *[{"group": "item", "hreflang": "lang", "x_default": "en", "cluster": "shop"}] * 2,
    ],
    "where": [None, "live = 'yes'", "live <> 'no'"],
    "transform": [None, "tests.model.hooks:without_drafts", "tests.model.hooks:shouted"],
    "feed": [None, {"formats": ["rss"], "title": "News", "items": 3}, {"title": "All", "items": 8}],
    "formats": [None, ["xml", "text"]],
    "shards": [{"rows": 6}, {"rows": 10, "fill": 0.8}, {"rows": 20, "fill": 0.5}],
    "on_error": [None, "keep"],
}
URLS: list[dict[str, Any]] = [
    {},
    {"same_as": [OLD]},
    {"same_as": [OLD], "strip": ["tracking"]},
    {"strip": ["tracking"], "exclude": ["/x/"]},
    {"same_as": [OLD], "exclude": ["*a/b/c$", "/p/1"]},
    {"same_as": [OLD], "strip": ["tracking"], "respect_robots": True},
]
ROBOTS = [[], ["/x/"], ["/p/2", "*colour="]]
CELLS: dict[str, list[Any]] = {
    "body": ["one", "two", "three"],
    "title": ["One", "Two & more", "<Three>"],
    "sales": [0, 3, 3, 11, 40, None],
    "rank": ["0.35", "1.0", "0", "1.5", "high", None],
    "freq": ["daily", " Weekly", "often", None],
    "lang": ["en", "de", "fr", "en_gb", "klingon", None],
    "item": ["i1", "i2", None],
    "live": ["yes", "yes", "no", "draft", None],
    "exclude": ["sold out", "hidden", None, None],
    "images": [
        None,
        "[]",
        '["/i/1.jpg"]',
        '["/i/2.jpg", "/i/1.jpg", "/i/2.jpg"]',
        "[broken",
        '["ftp://x/1.jpg", "/i/3.jpg"]',
    ],
    "priority": ["0.5", "0.25", None],
    "changefreq": ["weekly", "never", None],
}


class Edits:
    """A site whose sources and rules change. `edited`: since the last run that was published or unchanged."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.edited = True

    def _new(self, dice: random.Random, name: str) -> None:
        spec = Spec(name, kind=dice.choice(["csv", "csv", "db"]))
        spec.contract = {each for each in CONTRACT if dice.random() < 0.5}
        spec.loc = dice.choice(["loc", "loc", "url"])
        spec.parts = dice.randint(1, 3)
        if "since" not in NOT_YET and spec.kind == "db" and dice.random() < 0.5:
            spec.since = {"key": "id", "deleted": "gone", "full_every": "7d", "overlap": "1h"}
        aside = random.Random(f"{name} {self.world.ids}")  # the dice of earlier seeds fall as they did
        spec.marked, spec.joined = (spec.kind == "csv" and aside.random() < 0.4 for _ in range(2))
        spec.keys["gates"] = {"min_urls": 0}
        for key, choices in RULES.items():
            self._set(spec, key, dice.choice(choices))
        start, count = dice.randint(0, PAGES - 1), dice.randint(1, 30)
        spec.rows = [self.world.row(number) for number in range(start, min(start + count, PAGES))]
        self.world.specs[name] = spec

    @staticmethod
    def _set(spec: Spec, key: str, value: Any) -> None:
        if value is None:
            spec.keys.pop(key, None)
        else:
            spec.keys[key] = copy.deepcopy(value)

    def _spec(self, at: int) -> Spec:
        specs = list(self.world.specs.values())
        self.edited = True
        return specs[at % len(specs)]

    def _rows(self, spec: Spec, numbers: set[int]) -> list[Row]:
        """Rows of the section, picked by their position."""
        return [row for at, row in enumerate(spec.rows) if at in numbers]

    def _touch(self, row: Row, **values: Any) -> None:
        row.update(values)
        row["touched"] = stamp(self.world.now)

    def add(self, at: int, numbers: set[int], how: str) -> None:
        """Add rows, some of pages that exist already: in this section or in another."""
        spec = self._spec(at)
        for number in sorted(numbers):
            spec.rows.append(self.world.row(number, how))

    def edit(self, at: int, numbers: set[int], column: str, dice: random.Random) -> None:
        """Change values. Rows of the same page keep equal values for clusters."""
        spec = self._spec(at)
        value = dice.choice(CELLS[column])
        pages = {row["loc"].page for row in self._rows(spec, numbers)}
        for row in spec.rows if column in ("lang", "item") else self._rows(spec, numbers):
            if row["loc"].page in pages:
                self._touch(row, **{column: value})

    def date(self, at: int, numbers: set[int], column: str, dice: random.Random) -> None:
        """Set other dates: current, old, future and invalid ones."""
        now = self.world.now
        choices = [
            f"{now:%Y-%m-%d}",
            f"{now:%Y-%m-%dT%H:%M:%SZ}",
            f"{now - timedelta(hours=30):%Y-%m-%dT%H:%M:%S}.250+01:00",
            f"{now + timedelta(days=3):%Y-%m-%dT%H:%M:%SZ}",
            f"{now + timedelta(days=2):%Y-%m-%d}",
            "2020-10-11 12:13 +0200",
            "1970-01-01",
            "2021-02-30",
            "01.02.2021",
            None,
        ]
        value = dice.choice(choices)
        for row in self._rows(self._spec(at), numbers):
            self._touch(row, **{column: value})

    def swap(self, at: int, numbers: set[int], column: str) -> None:
        """Exchange a value between two rows, so that the section has the same values as before."""
        rows = [row for row in self._rows(self._spec(at), numbers) if row.get("gone") is None][:2]
        if len(rows) == 2:
            one, other = rows
            mine, theirs = one[column], other[column]
            self._touch(one, **{column: theirs})
            self._touch(other, **{column: mine})

    def date_without_zone(self, at: int, numbers: set[int], hours: int) -> None:
        for row in self._rows(self._spec(at), numbers):
            self._touch(row, local=stamp(self.world.now - timedelta(hours=hours)))

    def touch(self, at: int, numbers: set[int]) -> None:
        """Change only the watermark."""
        for row in self._rows(self._spec(at), numbers):
            self._touch(row)

    def rename(self, at: int, numbers: set[int], to: int) -> None:
        """Change the pages of existing keys."""
        spec = self._spec(at)
        for step, row in enumerate(self._rows(spec, numbers)):
            number = (to + step) % PAGES
            fresh = self.world.row(number)
            self._touch(row, loc=fresh["loc"], item=fresh["item"], lang=fresh["lang"])

    def respell(self, at: int, numbers: set[int], how: str) -> None:
        by_page = {spell(number, "plain", self.world.origin).page: number for number in range(PAGES)}
        for row in self._rows(self._spec(at), numbers):
            if row["loc"].page in by_page:
                self._touch(row, loc=spell(by_page[row["loc"].page], how, self.world.origin))

    def move(self, at: int, to: int, numbers: set[int], stay: bool) -> None:
        """Move rows to another section; with `stay`, both have them."""
        left, right = self._spec(at), self._spec(to)
        rows = self._rows(left, numbers)
        if left is right:
            return
        for row in rows:
            self.world.ids += 1
            right.rows.append({**row, "id": self.world.ids})
            self._touch(right.rows[-1])
        if not stay:
            left.rows = [row for row in left.rows if not any(row is each for each in rows)]

    def double(self, at: int, numbers: set[int], column: str) -> None:
        """Add a second row for a page, different in one column."""
        spec = self._spec(at)
        for row in self._rows(spec, numbers):
            value = "2021-01-04" if column == "updated" else CELLS[column][2]
            self.world.ids += 1
            spec.rows.append({**row, column: value, "id": self.world.ids})
            self._touch(spec.rows[-1])

    def drop(self, at: int, numbers: set[int]) -> None:
        spec = self._spec(at)
        gone = self._rows(spec, numbers)
        spec.rows = [row for row in spec.rows if not any(row is each for each in gone)]

    def mark_deleted(self, at: int, numbers: set[int], gone: int | None) -> None:
        for row in self._rows(self._spec(at), numbers):
            self._touch(row, gone=gone)

    def spoil(self, at: int, text: str) -> None:
        """Add a row that can't be listed."""
        row = self.world.row(1)
        row["loc"] = type(row["loc"])(text, reason=BROKEN[text])
        self._spec(at).rows.append(row)

    def shuffle(self, at: int, seed: int, parts: int) -> None:
        """Change the order and the splits: nothing that is visible."""
        edited = self.edited
        spec = self._spec(at)
        random.Random(seed).shuffle(spec.rows)
        spec.parts = parts
        self.edited = edited

    # --- the site file ---

    def rules(self, at: int, key: str, dice: random.Random) -> None:
        spec = self._spec(at)
        self._set(spec, key, dice.choice(RULES[key]))

    def column(self, at: int, name: str) -> None:
        """Add or remove a column of the source."""
        self._spec(at).contract ^= {name}

    def urls(self, urls: dict[str, Any], robots: list[str]) -> None:
        self.edited = True
        self.world.site.keys["urls"] = dict(urls)
        self.world.robots = robots

    def recent(self, recent: str | None) -> None:
        self.edited = True
        self.world.site.keys.pop("recent", None)
        if recent:
            self.world.site.keys["recent"] = recent

    def section_comes_or_goes(self, dice: random.Random, name: str) -> None:
        self.edited = True
        if name not in self.world.specs:
            self._new(dice, name)
        elif len(self.world.specs) > 1:
            del self.world.specs[name]

    def reorder(self, seed: int) -> None:
        """Change the order of sections, which decides who lists a shared page."""
        self.edited = True
        specs = list(self.world.specs.items())
        random.Random(seed).shuffle(specs)
        self.world.specs = dict(specs)

    def break_source(self, at: int, keep: bool) -> None:
        """Break a source until it is fixed, or for one run if no setting keeps the section."""
        spec = self._spec(at)
        spec.broken = True
        if keep:
            spec.keys["on_error"] = "keep"

    def mend_source(self, at: int) -> None:
        self._spec(at).broken = False

    def view(self, at: int) -> None:
        """Turn a section into a view, or a view into a section."""
        spec = self._spec(at)
        if spec.keys.pop("view", None) is None:
            spec.keys["view"] = True

    def engine(self) -> None:
        self.world.up = not self.world.up
