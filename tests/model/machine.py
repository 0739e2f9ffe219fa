"""Random nights: everything that may happen to a site at once, and the model's word after every run."""

from __future__ import annotations

import copy
import random
from collections import Counter
from datetime import timedelta
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from tests.model.hearing import Hearing
from tests.model.model import Model, Night, Row, Set, changed, is_view
from tests.model.settle import INDEX, Seen, Settling
from tests.model.settle import ROBOTS as ROBOTS_TXT
from tests.model.world import BROKEN, CONTRACT, HOWS, KEY, OLD, PAGES, Done, Spec, World, spell, stamp

NOT_YET: frozenset[str] = frozenset()
"""What the product does not do yet as documented; taking an entry out turns its nights on."""

TALLY: Counter[str] = Counter()
"""What the nights of this process were, and what they went through."""

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
        {"group": "item", "hreflang": "lang", "x_default": "en", "cluster": "shop"},
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
section = st.integers(0, len(NAMES) - 1)
numbers = st.sets(st.integers(0, PAGES - 1), min_size=1, max_size=12)
gaps = st.sampled_from(GAPS)


class Nights(RuleBasedStateMachine):
    """Edits of the sources and the site file, and runs; whatever a run leaves is compared with the model."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.model = Model(NOT_YET)
        self.hearing = Hearing()
        self.seen = Seen({}, {})
        self.staged: list[tuple[str, Night, Set | None, dict[str, set[str]]]] = []
        self.edited = True  # since the last run that was published or found nothing to do
        self.vanished = False  # a file that waits to be deleted is gone already: one run more has to see that
        self.broken = False  # a run died, and none has come to its end since
        self.refused: tuple[str, ...] = ()
        self.count = 0
        self.doing = ""

    def teardown(self) -> None:
        self.world.close()

    # --- the sources ---

    @initialize(data=st.data())
    def begin(self, data: st.DataObject) -> None:
        """Two to four sections with some dozens of pages, and their first night."""
        keys = self.world.site.keys
        gates = data.draw(st.sampled_from([{}, OPEN, OPEN]))
        keys["gates"] = dict(gates)
        keys["urls"] = dict(data.draw(st.sampled_from(URLS)))
        keys["keep"] = 5
        if data.draw(st.booleans()):
            keys["recent"] = "3d"
        if data.draw(st.booleans()):
            engine = {
                "key": "${INDEXNOW_KEY}",
                "endpoint": f"{self.world.origin}/indexnow",
                "patience": 0,
                "max_share": 1,
            }
            keys["ping"] = {"indexnow": engine}
        for name in NAMES[: data.draw(st.integers(2, 3))]:
            self._new(data, name)
        self._night()

    def _new(self, data: st.DataObject, name: str) -> None:
        spec = Spec(name, kind=data.draw(st.sampled_from(["csv", "csv", "db"])))
        spec.contract = data.draw(st.sets(st.sampled_from(CONTRACT)))
        spec.loc = data.draw(st.sampled_from(["loc", "loc", "url"]))
        spec.parts = data.draw(st.integers(1, 3))
        if "since" not in NOT_YET and spec.kind == "db" and data.draw(st.booleans()):
            spec.since = {"key": "id", "deleted": "gone", "full_every": "7d", "overlap": "1h"}
        spec.keys["gates"] = {"min_urls": 0}
        for key, choices in RULES.items():
            self._set(spec, key, data.draw(st.sampled_from(choices)))
        start, count = data.draw(st.integers(0, PAGES - 1)), data.draw(st.integers(1, 30))
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

    @rule(at=section, numbers=numbers, how=st.sampled_from(HOWS))
    def add(self, at: int, numbers: set[int], how: str) -> None:
        """New rows, some of pages that are there already: in this section or in another."""
        spec = self._spec(at)
        for number in sorted(numbers):
            spec.rows.append(self.world.row(number, how))

    @rule(at=section, numbers=numbers, column=st.sampled_from(sorted(CELLS)), data=st.data())
    def edit(self, at: int, numbers: set[int], column: str, data: st.DataObject) -> None:
        """New values. Rows of one page stay alike in what places them in a cluster."""
        spec = self._spec(at)
        value = data.draw(st.sampled_from(CELLS[column]))
        pages = {row["loc"].page for row in self._rows(spec, numbers)}
        for row in spec.rows if column in ("lang", "item") else self._rows(spec, numbers):
            if row["loc"].page in pages:
                self._touch(row, **{column: value})

    @rule(
        at=section, numbers=numbers, column=st.sampled_from(["updated", "reviewed", "lastmod", "first"]), data=st.data()
    )
    def date(self, at: int, numbers: set[int], column: str, data: st.DataObject) -> None:
        """New dates: of now, of long ago, in the future, and what is none."""
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
        value = data.draw(st.sampled_from(choices))
        for row in self._rows(self._spec(at), numbers):
            self._touch(row, **{column: value})

    @rule(at=section, numbers=numbers, hours=st.integers(1, 2_000))
    def date_without_zone(self, at: int, numbers: set[int], hours: int) -> None:
        for row in self._rows(self._spec(at), numbers):
            self._touch(row, local=stamp(self.world.now - timedelta(hours=hours)))

    @rule(at=section, numbers=numbers)
    def touch(self, at: int, numbers: set[int]) -> None:
        """The watermark moves, nothing else does."""
        for row in self._rows(self._spec(at), numbers):
            self._touch(row)

    @rule(at=section, numbers=numbers, to=st.integers(0, PAGES - 1))
    def rename(self, at: int, numbers: set[int], to: int) -> None:
        """The same keys, other pages."""
        spec = self._spec(at)
        for step, row in enumerate(self._rows(spec, numbers)):
            number = (to + step) % PAGES
            fresh = self.world.row(number)
            self._touch(row, loc=fresh["loc"], item=fresh["item"], lang=fresh["lang"])

    @rule(at=section, numbers=numbers, how=st.sampled_from(HOWS))
    def respell(self, at: int, numbers: set[int], how: str) -> None:
        by_page = {spell(number, "plain", self.world.origin).page: number for number in range(PAGES)}
        for row in self._rows(self._spec(at), numbers):
            if row["loc"].page in by_page:
                self._touch(row, loc=spell(by_page[row["loc"].page], how, self.world.origin))

    @rule(at=section, to=section, numbers=numbers, stay=st.booleans())
    def move(self, at: int, to: int, numbers: set[int], stay: bool) -> None:
        """Rows go over to another section; with `stay`, both have them."""
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

    @rule(at=section, numbers=numbers, column=st.sampled_from(["body", "updated", "images", "rank", "title"]))
    def double(self, at: int, numbers: set[int], column: str) -> None:
        """A second row for a page, another in one column."""
        spec = self._spec(at)
        for row in self._rows(spec, numbers):
            value = "2021-01-04" if column == "updated" else CELLS[column][2]
            self.world.ids += 1
            spec.rows.append({**row, column: value, "id": self.world.ids})
            self._touch(spec.rows[-1])

    @rule(at=section, numbers=numbers)
    def drop(self, at: int, numbers: set[int]) -> None:
        spec = self._spec(at)
        gone = self._rows(spec, numbers)
        spec.rows = [row for row in spec.rows if not any(row is each for each in gone)]

    @rule(at=section, numbers=numbers, gone=st.sampled_from([1, None]))
    def mark_deleted(self, at: int, numbers: set[int], gone: int | None) -> None:
        for row in self._rows(self._spec(at), numbers):
            self._touch(row, gone=gone)

    @rule(at=section, text=st.sampled_from(sorted(BROKEN)))
    def spoil(self, at: int, text: str) -> None:
        """A row that can't be listed."""
        row = self.world.row(1)
        row["loc"] = type(row["loc"])(text, reason=BROKEN[text])
        self._spec(at).rows.append(row)

    @rule(at=section, seed=st.integers(0, 99), parts=st.integers(1, 3))
    def shuffle(self, at: int, seed: int, parts: int) -> None:
        """Another order, other splits: nothing that anybody may see."""
        edited = self.edited
        spec = self._spec(at)
        random.Random(seed).shuffle(spec.rows)
        spec.parts = parts
        self.edited = edited

    # --- the site file ---

    @rule(at=section, key=st.sampled_from(sorted(RULES)), data=st.data())
    def rules(self, at: int, key: str, data: st.DataObject) -> None:
        spec = self._spec(at)
        if key != "alternates" or not spec.keys.get("view"):
            self._set(spec, key, data.draw(st.sampled_from(RULES[key])))

    @rule(at=section, name=st.sampled_from(CONTRACT))
    def column(self, at: int, name: str) -> None:
        """The source has a column more or less."""
        self._spec(at).contract ^= {name}

    @rule(urls=st.sampled_from(URLS), robots=st.sampled_from(ROBOTS))
    def urls(self, urls: dict[str, Any], robots: list[str]) -> None:
        self.edited = True
        self.world.site.keys["urls"] = dict(urls)
        self.world.robots = robots

    @rule(recent=st.sampled_from([None, "3d", "1d"]))
    def recent(self, recent: str | None) -> None:
        self.edited = True
        self.world.site.keys.pop("recent", None)
        if recent:
            self.world.site.keys["recent"] = recent

    @rule(data=st.data(), name=st.sampled_from(NAMES))
    def section_comes_or_goes(self, data: st.DataObject, name: str) -> None:
        self.edited = True
        if name not in self.world.specs:
            self._new(data, name)
        elif len(self.world.specs) > 1:
            del self.world.specs[name]

    @rule(seed=st.integers(0, 99))
    def reorder(self, seed: int) -> None:
        """Which section comes first decides who lists a page that two have."""
        self.edited = True
        specs = list(self.world.specs.items())
        random.Random(seed).shuffle(specs)
        self.world.specs = dict(specs)

    @rule(at=section, keep=st.sampled_from([True, True, True, False]))
    def break_source(self, at: int, keep: bool) -> None:
        """Until it is fixed, or for one run where nothing keeps the section."""
        spec = self._spec(at)
        spec.broken = True
        if keep:
            spec.keys["on_error"] = "keep"

    @rule(at=section)
    def mend_source(self, at: int) -> None:
        self._spec(at).broken = False

    @rule(at=section)
    def view(self, at: int) -> None:
        """A section becomes one that shows again what others list, or is one no longer."""
        spec = self._spec(at)
        if spec.keys.pop("view", None) is None:
            spec.keys["view"] = True
            spec.keys.pop("alternates", None)

    @rule()
    def engine(self) -> None:
        self.world.up = not self.world.up

    # --- runs ---

    @rule(gap=gaps, full=st.booleans(), ping=st.sampled_from([True, True, False]))
    def night(self, gap: timedelta, full: bool, ping: bool) -> None:
        self._pass(gap)
        self._night(full=full, ping=ping)

    @rule(gap=gaps)
    def quiet_night(self, gap: timedelta) -> None:
        """Twice: what the second one writes, the first one missed."""
        self._pass(gap)
        self._night()
        self._pass(timedelta(hours=1))
        self._night()

    @rule(gap=gaps, at=section)
    def one_section(self, gap: timedelta, at: int) -> None:
        if self._turned():
            return
        self._pass(gap)
        edited = self.edited
        self._night(only=(self._spec(at).name,))
        self.edited = edited

    def _turned(self) -> list[Spec]:
        """Sections that became views, or are none any more, since they were published; those are read before others."""
        base = self.model.current.sections if self.model.current else {}
        specs = self.world.specs.values()
        return [spec for spec in specs if spec.name in base and base[spec.name].view != bool(spec.keys.get("view"))]

    @rule(gap=gaps)
    def dry(self, gap: timedelta) -> None:
        self._pass(gap)
        self._night(dry_run=True)

    @precondition(lambda self: self.refused)
    @rule(gap=gaps)
    def forced(self, gap: timedelta) -> None:
        self._pass(gap)
        self._night(force=self.refused)

    @precondition(lambda self: self.staged)
    @rule(gap=gaps, at=st.integers(0, 9), force=st.booleans())
    def publish_staged(self, gap: timedelta, at: int, force: bool) -> None:
        """A dry or refused run, exactly as it was shown."""
        self._pass(gap)
        run_id, night, base, columns = self.staged.pop(at % len(self.staged))
        refusing = tuple(name for name, answer in night.gates.items() if answer is not False)
        self._begin(f"publish {run_id} of {stamp(night.now)}")
        gates = refusing if force else ()
        done = self.world.publish(run_id, force=gates)
        if base is not self.model.current and self._status(done) != "refused":
            self._expect_error(done, "another set was published since")
        elif base is not self.model.current or (
            self.world.now - night.now > timedelta(days=13) and done.error is not None
        ):
            self._unchanged()
        elif night.refused is not False and not force and (night.refused or self._status(done) == "refused"):
            self._refuses(done)
        else:
            self._settle(night, done, columns, forced=gates, ping=True)

    @rule(gap=gaps, writes=st.integers(0, 25), since=st.sampled_from(["", "/intent-", "/intent-"]))
    def killed(self, gap: timedelta, writes: int, since: str) -> None:
        """A run dies at a write; the lease it held ends after twenty minutes."""
        self._pass(gap)
        self._night(kill=(writes, since))
        self._pass(timedelta(minutes=21))

    @precondition(lambda self: self.model.current is not None)
    @rule(gap=gaps, at=st.integers(0, 99))
    def lost(self, gap: timedelta, at: int) -> None:
        """Somebody deletes a published file; a run that looks at every object puts it back."""
        self._pass(gap)
        key = sorted(self.seen.entries)[at % len(self.seen.entries)]
        path = self.world.folder / "public" / key
        data, broken = path.read_bytes(), self.broken
        path.unlink()
        self.world.lost.add(key)
        for each in (self.seen.objects, self.seen.content):
            del each[key]
        self._tally("a file lost")
        self.broken = self.edited = True
        self._night(full=True)
        self.world.lost.clear()
        self.vanished = self.vanished or key not in self.seen.index
        if not path.exists() and key in self.seen.index:  # the run was refused
            path.write_bytes(data)
            self.broken = broken
            self.seen = self.world.look()

    @precondition(lambda self: self.model.current is not None)
    @rule(gap=gaps, at=st.integers(0, 9), before=st.booleans())
    def rollback(self, gap: timedelta, at: int, before: bool) -> None:
        self._pass(gap)
        kept = [each["run_id"] for each in self.world.history() if not each["current"]]
        if not kept:
            return
        by_id = {each.run_id: each for each in self.model.sets}
        old = by_id[kept[0] if before else kept[at % len(kept)]]
        self._begin(f"roll back to {old.run_id}")
        done = self.world.roll_back(old.run_id)
        self._restored(old, done)

    # --- what each of them leaves ---

    def _pass(self, gap: timedelta) -> None:
        self.world.pass_time(gap + timedelta(seconds=37))

    def _begin(self, doing: str) -> dict[str, Any]:
        """Write sources and site file, which is given."""
        self.count += 1
        self.doing = doing
        site = self.world.write()
        robots = (self.world.folder / "public" / ROBOTS_TXT).read_bytes()  # the site's own rules may be others now
        self.seen.objects[ROBOTS_TXT] = self.seen.content[ROBOTS_TXT] = robots
        return site

    def _night(self, *, kill: tuple[int, str] | None = None, ping: bool = True, **options: Any) -> None:
        only, dry = options.pop("only", ()), options.get("dry_run", False)
        force: tuple[str, ...] = options.get("force", ())
        for spec in self._turned():
            spec.broken = False
        site = self._begin(f"run {options} {only} {kill or ''}")
        sources = {name: self.world.source(spec) for name, spec in self.world.specs.items()}
        columns = {name: source.columns for name, source in sources.items()}
        night = self.model.predict(
            site,
            sources,
            self.world.now,
            only=only,
            full=options.get("full", False),
            force=force,
            disallow=self.world.robots,
        )
        known = {gate for gate in force if gate.rpartition(".")[0] in {"", *site["sections"]}}
        if force:
            options = {**options, "force": tuple(sorted(known)), "reason": "meant"}
            if not known:
                return
        done = self.world.run(ping=ping, kill=kill, sections=only, **options)
        if done.died:
            self._died(night, columns)
        elif night.error:
            self._expect_error(done, night.error)
        elif dry:
            self._shown(night, done, columns)
        elif night.refused is not False and (night.refused or self._status(done) == "refused"):
            self._refuses(done)
            self._stage(night, done, columns)
            self.refused = tuple(name for name, answer in night.gates.items() if answer is not False)
        else:
            self._settle(night, done, columns, forced=tuple(sorted(known)), ping=ping)

    @staticmethod
    def _status(done: Done) -> str:
        return str(done.summary["status"]) if done.summary else "failed"

    def _stage(self, night: Night, done: Done, columns: dict[str, set[str]]) -> None:
        assert done.summary is not None
        self.staged.append((done.summary["run_id"], night, self.model.current, columns))

    def _expect_error(self, done: Done, why: str) -> None:
        self._tally("failed")
        for spec in self.world.specs.values():
            spec.broken = False
        self._fail([f"expected an error: {why}; it ended {self._status(done)}"] if done.error is None else [])
        self._unchanged()

    def _refuses(self, done: Done) -> None:
        self._tally("refused")
        self._fail([] if self._status(done) == "refused" else [f"expected to be refused, it {self._ended(done)}"])
        self._unchanged()

    def _shown(self, night: Night, done: Done, columns: dict[str, set[str]]) -> None:
        """A dry run."""
        self._tally("dry run")
        wanted = {"dry_run"} | ({"refused"} if night.refused is not False else set())
        problems = [] if self._status(done) in wanted else [f"expected {wanted}, it {self._ended(done)}"]
        self._fail(problems + (self._counted(night, done) if done.summary else []))
        self._unchanged()
        self._stage(night, done, columns)

    def _unchanged(self) -> None:
        """Nothing public was touched."""
        seen = self.world.look()
        differ = {
            key
            for key in seen.objects.keys() | self.seen.objects.keys()
            if seen.objects.get(key) != self.seen.objects.get(key)
        }
        self._fail([f"nothing public was to be touched, but {sorted(differ)} is another"] if differ else [])
        self.seen = seen

    def _died(self, night: Night, columns: dict[str, set[str]]) -> None:
        """What stands there is valid, and lists whatever was listed and still is; then the next run goes on."""
        self._tally("killed")
        before = self.seen
        seen = self.world.look()
        locs = {entry.loc for entries in seen.entries.values() for entry in entries}
        was = set(self.model.current.plain()) if self.model.current else set()
        if not self.broken and not night.error:
            # A view shows again what others list, and its files are written in place.
            plain = (listed for name, listed in night.listed.items() if not is_view(night.keys(name)))
            still = {loc for listed in plain for loc in listed}
            lost = (was & still) - locs
            self._fail([f"{sorted(lost)} is unlisted on the way"] if lost else [])
        for key in list(self.model.retired):
            if key in seen.index or seen.objects.get(key) != before.objects.get(key):
                del self.model.retired[key]  # it came back; should it leave again, its two days begin then
        current = self.world.current()
        if current != (self.model.current.run_id if self.model.current else None):
            self._tally("killed after the commit")
            settling = Settling(
                self.model, night.now, night.site, seen, before, clock=self.world.now, doubt=True, died=True
            )
            assert current is not None
            found = settling.night(night, columns, current)
            self._fail(settling.problems)
            self._accept(night, found, ())
        else:
            self.broken = self.broken or seen.objects != before.objects
        self.broken = True
        self.seen = seen

    def _settle(
        self, night: Night, done: Done, columns: dict[str, set[str]], *, forced: tuple[str, ...], ping: bool
    ) -> None:
        """A run that published, or found nothing to do."""
        if done.summary is None:
            self._fail([f"expected a run to its end, it {self._ended(done)}"])
            return
        problems = self._counted(night, done, forced)
        seen = self.world.look()
        settling = Settling(self.model, night.now, night.site, seen, self.seen, clock=self.world.now, doubt=self.broken)
        found = settling.night(night, columns, done.summary["run_id"])
        problems += settling.problems
        same = seen.content == self.seen.content
        exact = same and not self.edited and not self.broken and not self.vanished
        wanted = {"unchanged"} if exact else {"published", "unchanged"} if same else {"published"}
        if night.held:
            wanted = {"partial"}
        elif not self.world.up and ping:
            wanted.add("partial")
        if self._status(done) not in wanted:
            problems.append(f"expected the status {wanted}, it {self._ended(done)}")
        self._tally("unchanged" if same else "published")
        self._fail(problems)
        self._files(done, seen)
        put = bool(done.summary["published"])
        before = self.model.current
        if put:
            self._accept(night, found, forced)
        elif before is not None:
            # What the state remembers beside the set is as of tonight; its mirrors are those it was made with.
            found.run_id, found.now, found.mirrors = before.run_id, before.now, before.mirrors
            self.model.sets = [found if each is before else each for each in self.model.sets]
            self.staged = [
                (run, each, found if base is before else base, names) for run, each, base, names in self.staged
            ]
            self.model.current = found
            self.model.mirrors = dict(night.mirrors)
        self._heard(done, ping=ping)
        self.seen = seen
        self.edited, self.broken, self.refused = False, False, ()
        for name, keys in night.site["sections"].items():
            for key in keys:
                self._tally(f"{key}: {keys[key]}" if key in RULES else f"with {key}")
            self._tally("held" if name in night.held else "read" if name in night.listed else "carried")

    def _accept(self, night: Night, found: Set, forced: tuple[str, ...]) -> None:
        before = self.model.current
        self.model.accept(found, forced)
        quiet = any(
            before is not None and name in before.sections and before.sections[name].definition != section.definition
            for name, section in found.sections.items()
        )
        base = before.sections if before is not None else {}
        # Whether a page that only a view shows is still listed is left open.
        without = {name for name in base.keys() & found.sections if base[name].view != found.sections[name].view}
        self.hearing.published(before, found, quiet=quiet, without=without)

    def _restored(self, old: Set, done: Done) -> None:
        """A rollback."""
        self._tally("rolled back")
        if done.summary is None:
            self._fail([f"expected to be rolled back, it {self._ended(done)}"])
            return
        before = self.model.current
        assert before is not None
        seen = self.world.look()
        settling = Settling(
            self.model, self.world.now, self.world.site.keys, seen, self.seen, clock=self.world.now, doubt=self.broken
        )
        found = settling.rollback(old, done.summary["run_id"])
        problems = settling.problems
        was, now = before.plain(), found.plain()
        both_names = before.sections.keys() & found.sections
        turned = {name for name in both_names if before.sections[name].view != found.sections[name].view}
        for name, counts in done.summary["sections"].items():
            if name in found.sections and not found.sections[name].view:
                section = found.sections[name]
                both = [loc for loc in section.pages if loc in was]
                wanted = {
                    "listed": len(section.pages),
                    "added": len(section.pages) - len(both),
                    "removed": sum(owner == name and loc not in now for loc, (owner, _) in was.items()),
                    "changed": sum(
                        changed(was[loc][1], page.lastmod, page.images, page.links, dated=section.dated)
                        for loc, page in section.pages.items()
                        if loc in was
                    ),
                }
                if turned:
                    wanted = {"listed": wanted["listed"]}
                problems += [
                    f"{name}: {each} {counts[each]}, expected {number}"
                    for each, number in wanted.items()
                    if counts[each] != number
                ]
        self._fail(problems)
        self.model.accept(found)
        self.hearing.published(before, found, quiet=False, without=turned)
        self._heard(done, ping=True)
        self.seen, self.edited, self.broken, self.refused = seen, True, False, ()

    def _heard(self, done: Done, *, ping: bool) -> None:
        silent = "pending on quiet nights" in NOT_YET and done.summary is not None and not done.summary["published"]
        if "ping" in self.world.site.keys and ping and self.model.current is not None and not silent:
            listed = len(self.model.current.plain())
            problems = self.hearing.asked(done.posted, self.world.now, listed, 1, up=self.world.up)
            told = done.summary["engines"] if done.summary else {}
            self._fail([f"{problem}; the summary says {told}" for problem in problems])

    def _counted(self, night: Night, done: Done, forced: tuple[str, ...] = ()) -> list[str]:
        """The summary against what the model counted."""
        assert done.summary is not None
        problems = []
        for name, wanted in night.counts.items():
            counts = done.summary["sections"].get(name)
            if counts is None:
                never = name in night.stay and (night.base is None or name not in night.base.sections)
                problems += [] if never else [f"{name} is not in the summary"]
                continue
            for each, number in wanted.items():
                if counts[each] != number and not (night.turned and each in ("added", "removed")):
                    problems.append(f"{name}: {each} {counts[each]}, expected {number}")
            least, most = (0, counts["listed"]) if night.turned else night.changed[name]
            if not least <= counts["changed"] <= most:
                problems.append(f"{name}: changed {counts['changed']}, expected {least} to {most}")
        for name, reasons in night.reasons.items():
            told = {each: value["count"] for each, value in done.summary["reasons"][name]["rejected"].items()}
            if told != dict(reasons):
                problems.append(f"{name}: rejected {told}, expected {dict(reasons)}")
        told_gates = {each["name"]: each for each in done.summary["gates"]}
        for name, answer in night.gates.items():
            gate = told_gates.get(name, {"status": "absent", "message": ""})
            if answer is not None and (gate["status"] == "refused") != (answer and name not in forced):
                wanted_gate = "refused" if answer else "not refused"
                problems.append(f"gate {name} is {gate['status']}: {gate['message']}; expected {wanted_gate}")
        if night.drift:
            told_drift = done.summary.get("drift", {})
            for name, drift in night.drift.items():
                if told_drift.get(name) != drift:
                    problems.append(f"{name}: drift {told_drift.get(name)}, expected {drift}")
        return problems

    def _files(self, done: Done, seen: Seen) -> None:
        assert done.summary is not None
        before = self.seen.objects
        ours = {key for key in seen.objects if key not in (ROBOTS_TXT, f"{KEY}.txt")}
        written = {key for key in ours if before.get(key) != seen.objects[key]}
        deleted = before.keys() - seen.objects.keys()
        told = done.summary["files"]
        problems = []
        # Where files come, the index is written twice: with the old ones beside the new ones, and without.
        twice = INDEX in written and len(written) > 1
        # What left the set and was not deleted yet is written when it comes back, though it says the same.
        base = self.model.current.content if self.model.current else {}
        back = {key for key in ours - written if key not in base or not key.startswith("sitemap") or ".txt" in key}
        if not self.broken and not len(written) <= told["written"] <= len(written) + twice + len(back):
            problems.append(f"the summary tells of {told['written']} files written, these were: {sorted(written)}")
        if not self.broken and told["deleted"] != len(deleted):
            problems.append(f"the summary tells of {told['deleted']} files deleted, these were: {sorted(deleted)}")
        self._fail(problems)

    def _ended(self, done: Done) -> str:
        if done.summary is None:
            return f"ended with {type(done.error).__name__}: {done.error}"
        return f"ended {done.summary['status']}: {done.summary['error']}"

    def _tally(self, what: str) -> None:
        TALLY[what] += 1

    def _fail(self, problems: list[str]) -> None:
        if problems:
            told = "\n".join(f"  - {problem}" for problem in problems)
            raise AssertionError(
                f"run {self.count} at {stamp(self.world.now)}: {self.doing}\n{told}\n\n{self.world.yaml()}"
            )
