"""Races: several concurrent runs of one site. One is stopped past its lease while others run, or all start at once."""

from __future__ import annotations

from datetime import timedelta
from typing import ClassVar

from tests.model.child import Done, Running, Trouble
from tests.model.story import Asked
from tests.model.trial import Trial, point

LEASE = timedelta(minutes=21)
SLEEPS = (timedelta(minutes=25), timedelta(hours=7), timedelta(hours=30))
"""Less than the two days for which the keys of an interrupted publish are remembered."""
SINCE = ("", "/snapshots/", "/intent-", "/intent-", "/public/", "/public/", "/state/manifest-")
READ = ("/snapshots/", "/intent-", "/public/")
"""A run that wrote such a key has read its sources."""


class Races(Trial):
    kind: ClassVar[str] = "races"

    def trouble(self) -> None:
        self.change()
        self.some_time()
        if self.dice.random() < 0.7:
            self._overslept()
        else:
            self._together()
        self._pass(LEASE)
        self.good_night()

    # --- one sleeps while another runs ---------------------------------------------------------------

    def _overslept(self) -> None:
        dice = self.dice
        trouble = Trouble("stop", dice.randint(1, 12), since=dice.choice(SINCE), before=dice.random() < 0.6)
        asked = self.ask(ping=False)
        assert asked is not None
        sleeper = self.world.begin(trouble, asked.kept, ping=False, **asked.options)
        if not sleeper.wait():
            self.answer(asked, self.end(sleeper))
            return
        self.points[f"asleep at {point(sleeper)}"] += 1
        try:
            committed = self.overtaken()
            if committed:
                self.adopt(asked)
            else:
                before = self.seen
                self._look_at(asked)
                self.found_nothing_to_do(asked, before)
                # Whoever runs next takes over from it, and puts again what it may have put.
                self.broken = self.broken or any("/intent-" in write for write in sleeper.writes)
            base = self.world.current()
            self._meanwhile(sleeper)
        finally:
            sleeper.go_on()
        self._awake(asked, sleeper, base, committed=committed)

    def _meanwhile(self, sleeper: Running) -> None:
        """Run others meanwhile, one of which may be killed."""
        dice = self.dice
        self._pass(dice.choice(SLEEPS))
        if any(part in write for write in sleeper.writes for part in READ) and dice.random() < 0.6:
            self.change()
        if dice.random() < 0.25:
            trouble = Trouble("kill", dice.randint(1, 15), since="/intent-", before=dice.random() < 0.5)
            if self.troubled(trouble).fired:
                self.points["and the next one is killed"] += 1
            self._pass(LEASE)
        self.good_night()

    def _awake(self, asked: Asked, sleeper: Running, base: str | None, *, committed: bool) -> None:
        """Continue the stopped run: it may publish if no other has, and else is refused."""
        writes = len(sleeper.writes)
        publishing = any("/intent-" in write for write in sleeper.writes)
        done = self.end(sleeper)
        if self.overtaken():
            if base != (self.model.current.run_id if self.model.current else None):
                self._fail(["a run that slept was committed over a set that it did not start from"])
            self.answer(asked, done, troubled=True)
            return
        status = self._status(done)
        idle = status in ("unchanged", "refused", "failed") or (status == "partial" and not self._wrote(done))
        if not committed and done.code not in (1, 3) and not idle:
            self._fail([f"expected a run that slept to be refused, it {self._ended(done)}"])
        late = [write for write in sleeper.writes[writes:] if "/public/" in write]
        if publishing and late:
            # A write that was under way: what it may have done the next run finds.
            self.points["a late write"] += 1
            self._look_at(asked, whole=False)
        else:
            self._unchanged()

    def _look_at(self, asked: Asked, *, whole: bool = True) -> None:
        """Check that the public files are valid, and that pages of all sources stay listed if they are known."""
        seen = self.world.look()
        lost = asked.kept - {entry.loc for entries in seen.entries.values() for entry in entries} if whole else None
        self._fail([f"{sorted(lost)} is unlisted on the way"] if lost else [])
        if seen.objects != self.seen.objects:
            self.broken = self.edited = True
        self.seen = seen

    # --- all at once ----------------------------------------------------------------------------------

    def _together(self) -> None:
        """Start two or three runs of the same day at once; some find the lease of another expired."""
        asked = self.ask(ping=False)
        assert asked is not None
        steps = [timedelta(), *(self.dice.choice([timedelta(), LEASE, 2 * LEASE]) for _ in range(2))]
        runs = [
            self.world.begin(Trouble(), asked.kept, ahead=step, ping=False, now=asked.night.now, **asked.options)
            for step in steps[: self.dice.randint(2, 3)]
        ]
        ends = [self.end(running) for running in runs]
        self.points[f"{len(runs)} at once"] += 1
        self._pass(2 * LEASE)
        ran = [done for done in ends if done.summary is not None]
        won = [done for done in ran if self._wrote(done)]
        for done in ends:
            if done.summary is None and done.code not in (1, 3) and not asked.night.error:
                self._fail([f"expected to publish or to be refused, it {self._ended(done)}"])
        if len(won) > 1:
            self._fail([f"{len(won)} runs of the same night were published"])
        if self.overtaken() and not won:
            self.adopt(asked)
        elif won or ran:
            self.answer(asked, (won or ran)[0], troubled=True)
        else:
            self.points["none of them published"] += 1
            self._look_at(asked)

    def _wrote(self, done: Done) -> bool:
        assert done.summary is not None
        return done.summary["status"] in ("published", "partial") and bool(done.summary["published"])
