"""Random mutants of the package, each run against the tests of its line: `make mutants N=100 SEED=7`.

A mutant that no test notices shows what the tests leave open. It is printed with its change and its name: kill it
with a test, or mark it in `marks.toml` with the reason. The same mutants again, or one alone:

    .venv/bin/python -m tests.mutants --seed 7
    .venv/bin/python -m tests.mutants --only 3f9a2c61
"""

from __future__ import annotations

import argparse
import difflib
import hashlib
import importlib
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.mutants.mutations import Mutant, mutants
from tests.mutants.record import PROJECT, Record, modules, up_to_date

ROOMS = ("publish", "stages", "state", "diff", "partition", "lastmod", "urls", "render", "engines", "storage")
FOLDER = PROJECT / "build" / "mutants"
MARKS = Path(__file__).with_name("marks.toml")
BUDGET = 90
"""Seconds of tests for one mutant, as recorded; at least one test."""
LONGEST = 10
"""Seconds of one test: a longer one would leave no time for others."""
PATIENCE = 4
"""A mutant may take so many times what its tests took; one that takes longer hangs, and is killed."""
HEAVY = (
    "pandas",
    "pyarrow.dataset",
    "duckdb",
    "boto3",
    "moto.server",
    "hypothesis",
    "httpx",
    "lxml.etree",
    "sqlalchemy",
)
"""What every test would import again, but for the package itself."""
MEMORY = 16 << 30
"""Bytes of address space for one mutant."""


def name_of(mutant: Mutant) -> str:
    """A short name that stays, whatever else moves in the file."""
    return hashlib.sha256("\0".join(mutant.identity).encode()).hexdigest()[:8]


def marked() -> dict[tuple[str, str, str, str], str]:
    """Identity → reason, of every mutant that need not be killed."""
    found = tomllib.loads(MARKS.read_text()).get("mark", [])
    return {(each["file"], each["within"], each["was"], each["now"]): each["reason"] for each in found}


def room_of(file: str) -> str:
    return file.partition("/")[0].removesuffix(".py")


def candidates(rooms: Iterable[str]) -> list[Mutant]:
    """Every mutant of these rooms."""
    return [mutant for file, source in modules().items() if room_of(file) in rooms for mutant in mutants(file, source)]


@dataclass
class Trial:
    """One mutant, and what became of it. `verdict`: killed, hangs, survived, marked or never run."""

    mutant: Mutant
    tests: Sequence[str] = ()
    verdict: str = ""
    by: str = ""
    began: float = 0
    left_out: int = 0
    process: int = 0
    log: Path = field(default_factory=Path)

    @property
    def killed(self) -> bool:
        return self.verdict in ("killed", "hangs")


class Nursery:
    """Runs tests in copies of the project, each in a fork of this process, which has imported what takes long."""

    def __init__(self, jobs: int, record: Record) -> None:
        self.record = record
        self.sources = modules()
        self.free = [self._copy(number) for number in range(jobs)]
        self.busy: dict[Path, Trial] = {}
        for name in HEAVY:
            importlib.import_module(name)

    def _copy(self, number: int) -> Path:
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

    def try_all(self, trials: Iterable[Trial]) -> None:
        """Run each trial's tests against its mutant."""
        for trial in trials:
            while not self.free:
                self._look()
            self._start(trial)
        while self.busy:
            self._look()

    def fails_unchanged(self, tests: Sequence[str]) -> list[str]:
        """Those of the tests that fail without any change: they have killed nothing."""
        log = FOLDER / "unchanged.txt"
        process = self._fork(self.free[0], tests, log, whole=True)
        os.waitpid(process, 0)
        return _failed(log)

    def _start(self, trial: Trial) -> None:
        tree, mutant = self.free.pop(), trial.mutant
        (tree / "sitemap_etl" / mutant.file).write_text(mutant.applied(self.sources[mutant.file]))
        trial.log = FOLDER / "logs" / f"{name_of(mutant)}.txt"
        trial.began = time.monotonic()
        trial.process = self._fork(tree, trial.tests, trial.log)
        self.busy[tree] = trial

    def _fork(self, tree: Path, tests: Sequence[str], log: Path, *, whole: bool = False) -> int:
        log.parent.mkdir(parents=True, exist_ok=True)
        sys.stdout.flush()
        process = os.fork()
        if process:
            return process
        code = 70
        try:
            os.setsid()
            out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(out, 1)
            os.dup2(out, 2)
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
            os.chdir(tree)
            os.environ["PYTHONPATH"] = str(tree)
            sys.path[:] = [str(tree), *(path for path in sys.path if path not in ("", str(PROJECT)))]
            for module in [each for each in sys.modules if each.partition(".")[0] in ("tests", "sitemap_etl")]:
                del sys.modules[module]
            import pytest

            options = ["-q", "-rfE", "--tb=short", "-p", "no:cacheprovider", *([] if whole else ["-x"])]
            code = int(pytest.main([*options, *tests]))
        finally:
            sys.stdout.flush()
            os._exit(code)

    def _look(self) -> None:
        """Take in what has ended, and end what hangs."""
        time.sleep(0.05)
        for tree, trial in list(self.busy.items()):
            ended, status = os.waitpid(trial.process, os.WNOHANG)
            allowed = 120 + PATIENCE * sum(self.record.seconds[test] for test in trial.tests)
            if not ended and time.monotonic() - trial.began < allowed:
                continue
            if not ended:
                trial.verdict = "hangs"
            elif os.waitstatus_to_exitcode(status) == 0:
                trial.verdict = "survived"
            else:
                trial.verdict = "killed"
                trial.by = next(iter(_failed(trial.log)), "")
            with suppress(ProcessLookupError):
                os.killpg(trial.process, signal.SIGKILL)  # also servers that a test left behind
            if not ended:
                os.waitpid(trial.process, 0)
            file = trial.mutant.file
            (tree / "sitemap_etl" / file).write_text(self.sources[file])
            del self.busy[tree]
            self.free.append(tree)
            _tell(trial)


def _failed(log: Path) -> list[str]:
    return re.findall(r"^(?:FAILED|ERROR) (\S+::.+?)(?: - .*)?$", log.read_text(errors="replace"), re.MULTILINE)


def _tell(trial: Trial) -> None:
    mutant = trial.mutant
    took = f"{time.monotonic() - trial.began:.0f} s" if trial.began else ""
    where = f"{mutant.file}:{mutant.place.lines.start}"
    print(
        f"{trial.verdict:>10}  {name_of(mutant)}  {where}  {mutant.was[:60]!r} → {mutant.now[:60]!r}  {took}",
        flush=True,
    )


def chosen(record: Record, mutant: Mutant) -> tuple[list[str], int]:
    """The tests to run against a mutant, and how many more there are that take too long."""
    tests = record.tests_of(mutant)
    found: list[str] = []
    spent = 0.0
    for test in tests:
        seconds = record.seconds[test]
        if not found or (seconds <= LONGEST and spent + seconds <= BUDGET):
            found.append(test)
            spent += seconds
    return found, len(tests) - len(found)


def diff(mutant: Mutant, source: str) -> str:
    lines = difflib.unified_diff(
        source.splitlines(), mutant.applied(source).splitlines(), f"a/{mutant.file}", f"b/{mutant.file}", "", "", 2, ""
    )
    return "\n".join(lines)


def report(trials: Sequence[Trial], sources: Mapping[str, str]) -> str:
    """Per room what became of its mutants; then every survivor with its change."""
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
            by = f"; killed only by {trial.by}, which fails without it too" if trial.by else ""
            lines.append(f"\n{trial.verdict} {name_of(mutant)}: {len(trial.tests)} tests run it{more}{by}")
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
        tests, left_out = chosen(record, mutant)
        trials.append(Trial(mutant, tests, left_out=left_out))
        if mutant.identity in reasons and not given.only:
            trials[-1].verdict = "marked"
        elif not tests:
            trials[-1].verdict = "never run"
    nursery = Nursery(given.jobs, record)
    nursery.try_all(trial for trial in trials if not trial.verdict)
    killers = sorted({trial.by for trial in trials if trial.by})
    broken = set(nursery.fails_unchanged(killers)) if killers else set()
    for trial in trials:
        if trial.by in broken:
            trial.verdict = "survived"
    print(report(trials, nursery.sources))
    sys.exit(any(not trial.killed and trial.verdict != "marked" for trial in trials))


if __name__ == "__main__":
    main()
