"""Faults: a folder or a bucket fails a run, once or permanently; the run reports it, and the next one is exact."""

from __future__ import annotations

import errno
from datetime import timedelta
from typing import ClassVar

from tests.model.child import REQUESTS, Done, Running, Trouble
from tests.model.edits import NOT_YET
from tests.model.trial import Trial
from tests.model.world import World
from tests.support.proxy import CORRUPT, FAULTS, Fault, FaultProxy, Seen

FOREVER = 10**6
ERRORS = (errno.EIO, errno.ENOSPC, errno.EROFS, errno.EMFILE, errno.EACCES, errno.ESTALE, errno.EDQUOT)
CONFLICT = Fault("answer", 409, "ConditionalRequestConflict")
FAILED = Fault("answer", 412, "PreconditionFailed")
"""A lie: nothing stands in the way."""


class FolderFaults(Trial):
    """Failing calls of the operating system, and files that can't grow."""

    kind: ClassVar[str] = "faults"

    def trouble(self) -> None:
        self.change()
        self.some_time()
        for _ in range(self.dice.choice([1, 1, 2])):
            self.fault()
            self._pass(timedelta(minutes=21))
        self.some_time()
        self.good_night()

    def fault(self) -> None:
        """Run the site with such a fault."""
        dice = self.dice
        if dice.random() < 0.2:
            trouble = Trouble("short files", int(10 ** (dice.random() * 5)))
            name = "a file that can't grow"
        else:
            error = dice.choice(ERRORS)
            times = dice.choice([1, 1, 3, FOREVER])
            since = dice.choice(["", "/intent-", "/intent-"])
            trouble = Trouble("fail a call", int(250 ** dice.random()), since=since, error=error, times=times)
            name = f"{errno.errorcode[error]}{', from then on' * (times == FOREVER)}"
        if self.troubled(trouble).fired:
            self.points[name] += 1


class BucketFaults(FolderFaults):
    """Failing requests."""

    def __init__(self, seed: int, world: World, proxy: FaultProxy, *, short: bool = False) -> None:
        super().__init__(seed, world, short=short)
        self.proxy = proxy
        self.calm = dict(world.variables)
        self.met = False  # whether the last run met its fault

    def fault(self) -> None:
        dice = self.dice
        lies = [CONFLICT, FAILED] if "bytes that a store changed" in NOT_YET else [CONFLICT, FAILED, CORRUPT]
        fault = dice.choice([*FAULTS, *lies])
        at, times = int(200 ** dice.random()), dice.choice([1, 1, 2, 5, FOREVER])
        # Few requests write on a condition, and fewer write what is new.
        at = at if fault not in (CONFLICT, FAILED, CORRUPT) else at // 16 + 1
        count = 0

        def plan(seen: Seen) -> Fault | None:
            nonlocal count
            # Only of a write with a condition can a store say that it does not hold. What it changes must be caught
            # before anybody reads it, so it is a sitemap that no index names yet.
            headers = {name.lower() for name in seen.headers}
            if fault in (CONFLICT, FAILED) and not headers & {"if-match", "if-none-match"}:
                return None
            sitemap = "/public/" in seen.path and seen.path.endswith(".xml.gz")
            if fault == CORRUPT and not ("if-none-match" in headers and sitemap):
                return None
            count += 1
            return fault if at <= count < at + times else None

        self.world.variables |= {"AWS_MAX_ATTEMPTS": dice.choice(["1", "1", "2"]), "SITEMAP_ETL_S3_TIMEOUT": "0.5"}
        self.proxy.reset()
        self.proxy.plan = plan
        self.troubled(Trouble(REQUESTS))
        if self.met:
            self.points[f"{fault}{', from then on' * (times == FOREVER)}"] += 1

    def end(self, running: Running) -> Done:
        try:
            return super().end(running)
        finally:
            self.met = any(seen.fault for seen in self.proxy.seen)
            self.proxy.reset()
            self.world.variables = dict(self.calm)
