"""Random nights for as long as one likes: `make soak MINUTES=60`; a few of them are among the tests (`test_nights`).

Every round has a seed of its own. A round that fails is told with its seed at once, and again at the end:

    .venv/bin/python -m tests.model.soak --seed 123456          # the same nights again
    .venv/bin/python -m tests.model.soak --seed 123456 --shrink # and as few of them as show it (takes minutes)
"""

from __future__ import annotations

import argparse
import random
import sys
import time
import traceback

from hypothesis import Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests import conftest  # noqa: F401 - it loads the profile of all properties
from tests.model import machine

EXAMPLES, STEPS = 4, 40
KINDS = ("published", "unchanged", "refused", "dry run", "killed", "killed after the commit", "rolled back", "failed")


def play(number: int, *, shrink: bool = False) -> str | None:
    """One round; gives what went wrong."""
    phases = (Phase.generate, Phase.shrink) if shrink else (Phase.generate,)
    how = settings(
        max_examples=EXAMPLES,
        stateful_step_count=STEPS,
        database=None,
        phases=phases,
        report_multiple_bugs=False,
    )
    try:
        run_state_machine_as_test(seed(number)(machine.Nights), settings=how)
    except Exception as error:  # noqa: BLE001 - the round is told of, and the next one begins
        return "".join(traceback.format_exception(error))
    return None


def replay(number: int) -> str:
    """The command that plays a round again."""
    return f".venv/bin/python -m tests.model.soak --seed {number}"


def table(rounds: int, minutes: float, failures: list[int]) -> str:
    """What was played."""
    tally = machine.TALLY
    nights = sum(tally[kind] for kind in KINDS)
    lines = [f"{rounds:,} rounds of {nights:,} runs in {minutes:.0f} minutes", ""]
    lines += [f"{tally[kind]:>9,}  {kind}" for kind in KINDS]
    lines += ["", *(f"{tally[what]:>9,}  {what}" for what in sorted(tally) if what not in KINDS)]
    if machine.NOT_YET:
        lines += ["", "not done yet, and so not held against it: " + ", ".join(sorted(machine.NOT_YET))]
    lines.append("")
    again = [f"{number:>9}  failed: {replay(number)}" for number in failures]
    return "\n".join(lines + (again or ["no failure"]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--seed", type=int, help="play the round of this seed alone")
    parser.add_argument("--shrink", action="store_true")
    given = parser.parse_args()
    began, rounds, failures = time.monotonic(), 0, []
    while not rounds or (given.seed is None and time.monotonic() - began < given.minutes * 60):
        number = random.SystemRandom().randrange(10**9) if given.seed is None else given.seed
        rounds += 1
        problem = play(number, shrink=given.shrink)
        if problem is not None:
            failures.append(number)
            print(f"seed {number}:\n{problem}\n", flush=True)
    print(table(rounds, (time.monotonic() - began) / 60, failures))
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
