"""One random site under one kind of trouble, determined by one seed; and its result."""

from __future__ import annotations

import random
import re
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import ClassVar

from tests.model.child import Done, Running, Trouble
from tests.model.edits import CELLS, GAPS, NAMES, ROBOTS, RULES, URLS
from tests.model.story import Story
from tests.model.world import CONTRACT, HOWS, PAGES, World


@dataclass
class Outcome:
    """Result of a trial. `points`: where or how trouble happened → how often; `problem`: what was found, or empty."""

    kind: str
    seed: int
    runs: int = 0
    points: Counter[str] = field(default_factory=Counter)
    problem: str = ""
    seconds: float = 0

    @property
    def replay(self) -> str:
        """Return the command that repeats this trial."""
        return f"make soak TRIAL={self.kind}:{self.seed}"


SWAPPED = ("updated", "body", "title", "sales", "freq", "images")
Change = Callable[[Story, random.Random, int, set[int]], object]
OF_ROWS: tuple[Change, ...] = (
    lambda story, dice, at, numbers: story.add(at, numbers, dice.choice(HOWS)),
    lambda story, dice, at, numbers: story.add(at, numbers, "plain"),
    lambda story, dice, at, numbers: story.edit(at, numbers, dice.choice(sorted(CELLS)), dice),
    lambda story, dice, at, numbers: story.date(at, numbers, dice.choice(["updated", "lastmod", "first"]), dice),
    lambda story, dice, at, numbers: story.rename(at, numbers, dice.randrange(PAGES)),
    lambda story, dice, at, numbers: story.respell(at, numbers, dice.choice(HOWS)),
    lambda story, dice, at, numbers: story.move(at, dice.randrange(len(NAMES)), numbers, dice.random() < 0.3),
    lambda story, dice, at, numbers: story.move(at, dice.randrange(len(NAMES)), numbers, False),
    lambda story, dice, at, numbers: story.double(at, numbers, dice.choice(["body", "updated", "images", "title"])),
    lambda story, dice, at, numbers: story.drop(at, numbers),
    lambda story, dice, at, numbers: story.swap(at, numbers, dice.choice(SWAPPED)),
    lambda story, dice, at, numbers: story.mark_deleted(at, numbers, dice.choice([1, None])),
)
OF_RULES: tuple[Change, ...] = (
    lambda story, dice, at, numbers: Story.rules(
        story, at, dice.choice(sorted(RULES)), dice
    ),  # Hypothesis has `rules` too
    lambda story, dice, at, numbers: story.column(at, dice.choice(CONTRACT)),
    lambda story, dice, at, numbers: story.urls(dice.choice(URLS), dice.choice(ROBOTS)),
    lambda story, dice, at, numbers: story.recent(dice.choice([None, "3d", "1d"])),
    lambda story, dice, at, numbers: story.section_comes_or_goes(dice, dice.choice(NAMES)),
    lambda story, dice, at, numbers: story.reorder(dice.randrange(99)),
    lambda story, dice, at, numbers: story.shuffle(at, dice.randrange(99), dice.randint(1, 3)),
)


class Trial(Story):
    """A site under one kind of trouble.

    `plain`: its rules stay, and need nothing that only the state knows. `short`: trouble happens once, and few runs
    follow.
    """

    kind: ClassVar[str]

    def __init__(self, seed: int, world: World, *, plain: bool = False, short: bool = False) -> None:
        super().__init__(world)
        self.dice = random.Random(seed)
        self.plain = plain
        self.short = short
        self.points: Counter[str] = Counter()

    def play(self) -> None:
        """Run the whole trial. Raises AssertionError if the site is not as it must be."""
        self.begin(self.dice)
        for _ in range(1 if self.short else self.dice.randint(2, 4)):
            self.trouble()
        if not self.short:
            self.leave()

    def trouble(self) -> None:
        """Make changes and trouble, followed by an undisturbed run."""
        raise NotImplementedError

    def lay_out(self, dice: random.Random) -> None:
        super().lay_out(dice)
        if self.plain:
            self.world.site.keys.pop("recent", None)
            for spec in self.world.specs.values():
                spec.since = None
                spec.keys["lastmod"] = "updated"

    def change(self) -> None:
        """Make the changes between two runs."""
        dice = self.dice
        changes = OF_ROWS if self.plain else OF_ROWS + OF_RULES
        for _ in range(dice.randint(1, 5)):
            numbers = set(dice.sample(range(PAGES), dice.randint(1, 12)))
            dice.choice(changes)(self, dice, dice.randrange(len(NAMES)), numbers)

    def some_time(self) -> None:
        """Until the next night."""
        self._pass(self.dice.choice(GAPS))

    def good_night(self, *, full: bool = False) -> None:
        """Run without trouble, forced if a gate refuses."""
        self._night(full=full)
        if self.refused:
            self._pass(timedelta(minutes=25))
            self._night(full=full, force=self.refused)

    def troubled(self, trouble: Trouble) -> Running:
        """Run with this trouble, and compare what it left with the model."""
        asked = self.ask(ping=self.dice.random() < 0.7)
        assert asked is not None
        running = self.world.begin(trouble, asked.kept, ping=asked.ping, **asked.options)
        done = self.end(running)
        self.answer(asked, done, troubled=running.fired)
        return running

    def end(self, running: Running) -> Done:
        """Wait for a run. Raises AssertionError with its description if it saw or did something forbidden."""
        try:
            return self.world.end(running)
        except AssertionError as error:
            self._fail([f"{error} (with {running.order.trouble}, after {len(running.writes)} writes: {last(running)})"])
            raise

    def leave(self) -> None:
        """Run some more times: what trouble left is deleted when it expires.

        Temporary files of a killed writer are deleted when something is written to their folder.
        """
        before = self.seen.objects
        self._pass(timedelta(days=3))
        self.good_night()
        self._pass(timedelta(days=16))
        self.add(0, {self.dice.randrange(PAGES)}, "plain")
        self.good_night(full=True)
        self._pass(timedelta(hours=1))
        self.good_night()
        spared = [self.world.folder / "public"] if self.seen.objects == before else []
        if left := [path for path in self.world.temporary() if path.parent not in spared]:
            self._fail([f"temporary files are left: {', '.join(str(path) for path in left)}"])


def last(running: Running) -> str:
    """Return the last write that a run began, without its folder."""
    return running.writes[-1].replace(str(running.order.folder), "") if running.writes else "none"


POINTS = {
    "a public file deleted": r"^-.*/public/",
    "robots.txt": r"/public/robots\.txt$",
    "an index": r"/public/sitemap(-\d+)?\.xml$",
    "a sitemap": r"/public/sitemap-.*\.xml\.gz$",
    "another public file": r"/public/",
    "the lease": r"/state/lease\.json$",
    "an intent": r"^[^-].*/state/intent-",
    "a manifest": r"^[^-].*/state/manifest-",
    "current.json": r"/state/current\.json$",
    "what engines hear": r"^[^-].*/state/(changes|ledger)/",
    "another object of the state": r"^[^-].*/state/",
    "staging": r"^[^-].*/runs/",
    "a report": r"^[^-].*/reports/",
    "what is removed from the state": r"^-",
}


def point(running: Running) -> str:
    """Return what a run was writing last."""
    at = running.writes[-1] if running.writes else ""
    return next((name for name, pattern in POINTS.items() if re.search(pattern, at)), "before any write")


def outcome(trial: Trial, seed: int) -> Outcome:
    """Run a trial; return its result."""
    began = time.monotonic()
    found = Outcome(trial.kind, seed, points=trial.points)
    try:
        trial.play()
    except Exception as error:  # noqa: BLE001 - the trial is told of, and the next one begins
        found.problem = "".join(traceback.format_exception(error))
    finally:
        found.runs, found.seconds = trial.world.runs, time.monotonic() - began
        trial.world.close()
    return found
