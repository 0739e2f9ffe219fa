"""Kills: a run dies at a write, at a system call or at any moment; sometimes the runs that continue it die too."""

from __future__ import annotations

from datetime import timedelta
from typing import ClassVar

from tests.model.child import Trouble
from tests.model.trial import Trial, point

SINCE = ("", "/intent-", "/intent-", "/public/", "/state/manifest-")


class Kills(Trial):
    kind: ClassVar[str] = "kills"

    def trouble(self) -> None:
        dice = self.dice
        self.change()
        self.some_time()
        for _ in range(dice.choice([1, 1, 1, 2, 2, 3])):
            running = self.troubled(self._kill())
            if running.fired:
                self.points[point(running)] += 1
            self._pass(timedelta(minutes=21))
            if dice.random() < 0.3:
                self.change()
        self.some_time()
        self.good_night()

    def _kill(self) -> Trouble:
        dice = self.dice
        match dice.choice(["write", "write", "call", "moment"]):
            case "write":
                return Trouble("kill", dice.randint(1, 20), since=dice.choice(SINCE), before=dice.random() < 0.5)
            case "call":
                return Trouble("kill at a call", int(250 ** dice.random()), since=dice.choice(SINCE))
            case _:
                return Trouble("kill at a moment", seconds=dice.random() * 0.5)
