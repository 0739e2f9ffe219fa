"""Random mutants of the package, each run against the tests of its line: `make mutants N=100 SEED=7`.

A mutant that no test notices shows what the tests leave open. It is printed with its change and its name: kill it
with a test, or mark it in `marks.toml` with the reason. The same mutants again, or one alone:

    .venv/bin/python -m tests.mutants --seed 7
    .venv/bin/python -m tests.mutants --only 3f9a2c61
"""

from __future__ import annotations

import argparse
import ast
import difflib
import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
import time
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from tests.mutants.keeper import NOWHERE
from tests.mutants.mutations import Mutant, mutants
from tests.mutants.record import PROJECT, Record, modules, up_to_date

ROOMS = ("publish", "stages", "state", "diff", "partition", "lastmod", "urls", "render", "engines", "storage")
FOLDER = PROJECT / "build" / "mutants"
MARKS = Path(__file__).with_name("marks.toml")
BUDGET = 90
"""Seconds of tests for one mutant, as recorded; at least one test."""
LONGEST = 10
"""Seconds of one test: a longer one would leave no time for others."""
FURTHER = 300
"""Seconds of further tests, of any length, for a mutant that survives those of its budget."""
PATIENCE = 4
"""A mutant may keep a processor busy for so many times what its tests did; one that does longer hangs."""


def name_of(mutant: Mutant) -> str:
    """Return a short name that stays the same when other code of the file moves."""
    return hashlib.sha256("\0".join(mutant.identity).encode()).hexdigest()[:8]


def marked() -> dict[tuple[str, str, str, str], str]:
    """Return change → reason, of every mutant that need not be killed."""
    found = tomllib.loads(MARKS.read_text()).get("mark", [])
    return {change(each["file"], each["within"], each["was"], each["now"]): each["reason"] for each in found}


@cache
def change(file: str, within: str, was: str, now: str) -> tuple[str, str, str, str]:
    """Return an identity that is the same for every version of Python."""
    return file, within, as_here(was), as_here(now)


def as_here(code: str) -> str:
    """Return code as this version of Python writes its syntax tree: versions differ in the quotes of f-strings."""
    head = " pass" if code.endswith(":") else ""  # of an if or a while
    try:
        return ast.unparse(ast.parse(code + head)).partition("\n")[0]
    except SyntaxError:  # a part that is none alone, such as the bounds of a slice
        return code


def room_of(file: str) -> str:
    return file.partition("/")[0].removesuffix(".py")


def candidates(rooms: Iterable[str]) -> list[Mutant]:
    """Return every mutant of these packages."""
    return [mutant for file, source in modules().items() if room_of(file) in rooms for mutant in mutants(file, source)]


@dataclass
class Trial:
    """One mutant and its result. `verdict`: killed, hangs, survived, marked or never run."""

    mutant: Mutant
    tests: Sequence[str] = ()
    verdict: str = ""
    by: str = ""
    left_out: int = 0

    @property
    def killed(self) -> bool:
        return self.verdict in ("killed", "hangs")


class Nursery:
    """Keepers (`keeper.py`), each with its own copy of the project."""

    def __init__(self, jobs: int, record: Record) -> None:
        self.record = record
        self.sources = modules()
        self.files = sorted(record.hashes)
        self.free: SimpleQueue[Kept] = SimpleQueue()
        self.jobs = jobs
        for keeper in [Kept(_copy(number), self.files) for number in range(jobs)]:
            keeper.hear()  # it has imported everything: from here on its files may be changed
            self.free.put(keeper)

    def try_all(self, trials: Iterable[Trial]) -> None:
        """Run each trial's tests against its mutant."""
        with ThreadPoolExecutor(self.jobs) as threads:
            list(threads.map(self._try, trials))

    def fails_unchanged(self, tests: Sequence[str]) -> list[str]:
        """Return the tests that fail without any change: they don't count as kills."""
        keeper = self.free.get()
        found = keeper.ask(tests, *self._limits(tests), whole=True)
        self.free.put(keeper)
        return list(found["failed"])

    def _limits(self, tests: Sequence[str]) -> tuple[float, float]:
        recorded = sum(self.record.seconds[test] for test in tests)
        return 30 + PATIENCE * recorded, 600 + 10 * PATIENCE * recorded

    def _try(self, trial: Trial) -> None:
        keeper, mutant = self.free.get(), trial.mutant
        began = time.monotonic()
        file = keeper.tree / "sitemap_etl" / mutant.file
        source = mutant.applied(self.sources[mutant.file])
        module = "sitemap_etl." + mutant.file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        file.write_text(source)  # for the processes that a test starts
        try:
            found = keeper.ask(trial.tests, *self._limits(trial.tests), module=module, source=source)
        finally:
            file.write_text(self.sources[mutant.file])
            self.free.put(keeper)
        trial.by = next(iter(found["failed"]), "")
        trial.verdict = "hangs" if found["hangs"] else "killed" if found["code"] else "survived"
        if found["code"] == NOWHERE:
            trial.verdict = "never run"
        _tell(trial, time.monotonic() - began)


class Kept:
    """The process of a keeper, seen from this process."""

    def __init__(self, tree: Path, files: Sequence[str]) -> None:
        self.tree = tree
        orders, self._orders = os.pipe()
        self._answers, answers = os.pipe()
        command = [sys.executable, "-m", "tests.mutants.keeper", str(orders), str(answers), *files]
        log = (tree.parent / f"{tree.name}.txt").open("w")
        environ = {**os.environ, "PYTHONPATH": str(tree)}
        self._process = subprocess.Popen(
            command, cwd=tree, env=environ, pass_fds=(orders, answers), stdout=log, stderr=log
        )
        os.close(orders)
        os.close(answers)
        self._said = os.fdopen(self._answers)

    def ask(
        self,
        tests: Sequence[str],
        busy: float,
        wait: float,
        *,
        module: str = "",
        source: str | None = None,
        whole: bool = False,
    ) -> dict[str, Any]:
        """Return the result of the tests."""
        order = {"module": module, "source": source, "tests": tests, "all": whole, "busy": busy, "wait": wait}
        data = memoryview((json.dumps(order) + "\n").encode())
        while data:
            data = data[os.write(self._orders, data) :]
        return self.hear()

    def hear(self) -> dict[str, Any]:
        """Return the next answer. Raises RuntimeError if the keeper has ended: its log says why."""
        answer = self._said.readline()
        if not answer:
            raise RuntimeError(f"a keeper has ended: see {self.tree}.txt")
        return dict(json.loads(answer))


def _copy(number: int) -> Path:
    tree = FOLDER / "trees" / str(number)
    shutil.rmtree(tree, ignore_errors=True)
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=PROJECT,
        capture_output=True,
        check=True,
        text=True,
    )
    for name in filter(None, listed.stdout.split("\0")):
        if (PROJECT / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(PROJECT / name, tree / name)
    return tree


def _tell(trial: Trial, seconds: float) -> None:
    mutant = trial.mutant
    where = f"{mutant.file}:{mutant.place.lines.start}"
    change = f"{mutant.was[:60]!r} → {mutant.now[:60]!r}"
    print(f"{trial.verdict:>10}  {name_of(mutant)}  {where}  {change}  {seconds:.0f} s  {trial.by}", flush=True)


def chosen(
    record: Record, mutant: Mutant, budget: float = BUDGET, longest: float = LONGEST, tried: Sequence[str] = ()
) -> tuple[list[str], int]:
    """Return the tests for a mutant within this many seconds, and how many more would take too long."""
    tests = [test for test in record.tests_of(mutant) if test not in tried]
    found: list[str] = []
    spent = 0.0
    for test in tests:
        seconds = record.seconds[test]
        if not found or (seconds <= longest and spent + seconds <= budget):
            found.append(test)
            spent += seconds
    return found, len(tests) - len(found)


def diff(mutant: Mutant, source: str) -> str:
    lines = difflib.unified_diff(
        source.splitlines(), mutant.applied(source).splitlines(), f"a/{mutant.file}", f"b/{mutant.file}", "", "", 2, ""
    )
    return "\n".join(lines)


def report(trials: Sequence[Trial], sources: Mapping[str, str]) -> str:
    """Print the results per package; then every survivor with its change."""
    rooms: dict[str, Counter[str]] = defaultdict(Counter)
    for trial in trials:
        rooms[room_of(trial.mutant.file)]["killed" if trial.killed else trial.verdict] += 1
    total = sum(rooms.values(), Counter[str]())
    lines = [f"{'':12}{'killed':>9}{'survived':>10}{'never run':>11}{'marked':>8}"]
    for room, found in [*sorted(rooms.items()), ("all", total)]:
        lines.append(
            f"{room:12}{found['killed']:>9}{found['survived']:>10}{found['never run']:>11}{found['marked']:>8}"
        )
    asked = len(trials) - total["marked"]
    lines.append(f"{total['killed'] / max(asked, 1):.1%} of {asked} were killed")
    for trial in trials:
        if trial.verdict in ("survived", "never run"):
            mutant = trial.mutant
            more = f", {trial.left_out} more left out" if trial.left_out else ""
            lines.append(f"\n{trial.verdict} {name_of(mutant)}: {len(trial.tests)} tests run it{more}")
            lines.append(f"    file = {mutant.file!r}, within = {mutant.place.within!r}")
            lines.append(f"    was = {mutant.was!r}\n    now = {mutant.now!r}")
            lines.append(diff(mutant, sources[mutant.file]))
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--number", type=int, default=100, help="so many mutants")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--rooms", nargs="+", default=ROOMS)
    parser.add_argument("--only", nargs="+", default=(), help="the mutants of these names")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--budget", type=float, default=BUDGET, help="seconds of tests for one mutant, as recorded")
    parser.add_argument("--as-recorded", action="store_true", help="record nothing anew, whatever has changed")
    given = parser.parse_args()
    seed = random.SystemRandom().randrange(10**6) if given.seed is None else given.seed
    every, reasons = candidates(given.rooms), marked()
    if given.only:
        picked = [mutant for mutant in every if name_of(mutant) in given.only]
    else:
        picked = random.Random(seed).sample(every, min(given.number, len(every)))
        print(f"{len(picked)} of {len(every):,} mutants, seed {seed}", flush=True)
    record = up_to_date(FOLDER, jobs=given.jobs, record_changed=not given.as_recorded)
    trials = []
    for mutant in picked:
        tests, left_out = chosen(record, mutant, given.budget)
        trials.append(Trial(mutant, tests, left_out=left_out))
        if change(*mutant.identity) in reasons and not given.only:
            trials[-1].verdict = "marked"
        elif not tests:
            trials[-1].verdict = "never run"
    nursery = Nursery(given.jobs, record)
    left, sound = [trial for trial in trials if not trial.verdict], set[str]()
    while left:
        nursery.try_all(left)
        killers = sorted({trial.by for trial in left if trial.by} - sound)
        broken = set(nursery.fails_unchanged(killers))
        sound |= {*killers} - broken
        left = [trial for trial in left if trial.by in broken]
        for trial in left:  # it was killed by a test that fails without it, too: the others decide
            trial.tests, trial.by = [test for test in trial.tests if test not in broken], ""
    alive = [trial for trial in trials if trial.verdict == "survived" and trial.left_out]
    for trial in alive:  # what took too long to be run for every mutant decides on those that are left
        trial.tests, trial.left_out = chosen(record, trial.mutant, FURTHER, FURTHER, trial.tests)
    nursery.try_all(alive)
    print(report(trials, nursery.sources))
    sys.exit(any(not trial.killed and trial.verdict != "marked" for trial in trials))


if __name__ == "__main__":
    main()
