"""Kills, faults, races, damage and random runs against the model: `make soak` for an hour, `MINUTES=5` for less.

Everything follows from one seed, which is printed: `make soak SEED=1`. Every trial has its own seed. A failing trial is
reported at once and again at the end, with the command that repeats it:

    make soak TRIAL=kills:123456
    .venv/bin/python -m tests.model --trial nights:123456 --shrink   # the fewest runs that show it (takes minutes)
"""

from __future__ import annotations

import argparse
import os
import platform
import random
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from importlib.metadata import version

from tests import conftest  # noqa: F401 - it loads the profile of all properties
from tests.model.child import processes
from tests.model.damage import Damage
from tests.model.edits import NOT_YET
from tests.model.faults import BucketFaults, FolderFaults
from tests.model.kills import Kills
from tests.model.races import Races
from tests.model.story import TALLY
from tests.model.trial import Outcome, Trial, outcome
from tests.model.world import Bucket, World
from tests.support.proxy import fault_proxy
from tests.support.s3 import s3_server

EXAMPLES, STEPS = 4, 40
RUNS = ("published", "unchanged", "refused", "dry run", "killed", "rolled back", "failed")


def nights(seed: int, *, shrink: bool = False, short: bool = False) -> Outcome:
    """Random sequences of runs, drawn by Hypothesis."""
    from hypothesis import Phase, settings
    from hypothesis import seed as seeded
    from hypothesis.stateful import run_state_machine_as_test

    from tests.model.machine import Nights

    began, before = time.monotonic(), Counter(TALLY)
    found = Outcome("nights", seed)
    how = settings(
        max_examples=EXAMPLES // 2 if short else EXAMPLES,
        stateful_step_count=STEPS,
        database=None,
        phases=(Phase.generate, Phase.shrink) if shrink else (Phase.generate,),
        report_multiple_bugs=False,
    )
    try:
        run_state_machine_as_test(seeded(seed)(Nights), settings=how)
    except Exception as error:  # noqa: BLE001 - the trial is told of, and the next one begins
        found.problem = "".join(traceback.format_exception(error))
    found.seconds = time.monotonic() - began
    found.points = Counter({each: TALLY[each] - before[each] for each in RUNS if TALLY[each] > before[each]})
    found.runs = sum(found.points.values())
    return found


def in_a_folder(kind: type[Trial]) -> Callable[..., Outcome]:
    """A trial with the site in a folder. `plant`: a defect of the store that it must find."""

    def play(seed: int, *, plant: str = "", short: bool = False) -> Outcome:
        world = World()
        world.plant = plant
        return outcome(kind(seed, world, plain=seed % 2 == 0, short=short), seed)

    return play


def in_a_bucket(seed: int, *, plant: str = "", short: bool = False) -> Outcome:
    """Faults of requests: public files and state are in a bucket behind a proxy."""
    with s3_server() as server, fault_proxy(server.endpoint) as proxy:
        world = World(Bucket(server.endpoint, server.bucket()), endpoint=proxy.endpoint)
        world.plant = plant
        found = outcome(BucketFaults(seed, world, proxy, short=short), seed)
    found.kind = "requests"
    return found


KINDS: dict[str, Callable[..., Outcome]] = {
    "nights": nights,
    "kills": in_a_folder(Kills),
    "faults": in_a_folder(FolderFaults),
    "requests": in_a_bucket,
    "races": in_a_folder(Races),
    "damage": in_a_folder(Damage),
}


def trial(kind: str, seed: int) -> Outcome:
    """One trial."""
    return KINDS[kind](seed)


def seeds(seed: int) -> Iterator[tuple[str, int]]:
    """Yield kind and seed of one trial after the other, all kinds in turn; a function of `seed` alone."""
    turn = 0
    while True:
        for kind in KINDS:
            yield kind, random.Random(f"{seed} {turn} {kind}").randrange(10**9)
        turn += 1


def play(seed: int, seconds: float, jobs: int, tell: Callable[[Outcome], None]) -> list[Outcome]:
    """Run trials for this long, `jobs` at a time."""
    end = time.monotonic() + seconds
    coming = seeds(seed)
    found: list[Outcome] = []
    with ProcessPoolExecutor(jobs, mp_context=processes()) as pool:
        running: set[Future[Outcome]] = set()
        while True:
            while len(running) < jobs and time.monotonic() < end:
                running.add(pool.submit(trial, *next(coming)))
            if not running:
                break
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                found.append(future.result())
                tell(found[-1])
    return found


# --- what is told -----------------------------------------------------------------------------------


def table(outcomes: Iterable[Outcome]) -> str:
    """Return a Markdown table of the trials: how many of each kind, and what failed."""
    outcomes = list(outcomes)
    lines = ["| kind | trials | runs | what happened | failed | minutes |", "|---|--:|--:|---|--:|--:|"]
    for kind in KINDS:
        these = [each for each in outcomes if each.kind == kind]
        points = sum((each.points for each in these), Counter[str]())
        told = ", ".join(
            f"{name} {count:,}" for name, count in sorted(points.items(), key=lambda item: (-item[1], item[0]))
        )
        runs = sum(each.runs for each in these)
        failed = sum(bool(each.problem) for each in these)
        minutes = sum(each.seconds for each in these) / 60
        lines.append(f"| {kind} | {len(these):,} | {runs:,} | {told} | {failed} | {minutes:.1f} |")
    return "\n".join(lines)


def versions() -> str:
    """Describe the machine."""
    names = ("sitemap_etl", "pyarrow", "pandas", "boto3", "moto")
    return f"Python {platform.python_version()}, " + ", ".join(f"{name} {version(name)}" for name in names)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--seed", type=int, help="of everything; by default one that nobody chose")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="trials at a time (default: number of CPUs)")
    parser.add_argument("--trial", metavar="KIND:SEED", help="play one trial alone")
    parser.add_argument("--shrink", action="store_true", help="of nights that fail, show as few as show it")
    given = parser.parse_args()

    def tell(each: Outcome) -> None:
        if each.problem:
            print(f"FAILED {each.kind}:{each.seed}\n{each.problem}\nplay it again: {each.replay}\n", flush=True)

    if given.trial:
        kind, _, number = given.trial.partition(":")
        found = [nights(int(number), shrink=True) if given.shrink else trial(kind, int(number))]
        tell(found[0])
    else:
        seed = random.SystemRandom().randrange(10**6) if given.seed is None else given.seed
        print(f"seed {seed}: {given.minutes:g} minutes, {given.jobs} at a time; {versions()}", flush=True)
        found = play(seed, given.minutes * 60, given.jobs, tell)
    print(table(found))
    if NOT_YET:
        print("not done yet, and so not held against it: " + ", ".join(sorted(NOT_YET)))
    failures = [each for each in found if each.problem]
    print("\n" + ("\n".join(f"failed: {each.replay}" for each in failures) or "no failure"))
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
