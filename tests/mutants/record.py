"""Which tests run which lines of the package: recorded in a folder, and updated.

New or changed test files are recorded again. If a module has changed, its unchanged lines keep their tests. A new line
has the tests of the lines around it until its test file changes.
"""

from __future__ import annotations

import ast
import difflib
import hashlib
import itertools
import json
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePath

import numpy as np

from tests.mutants.mutations import Mutant

PROJECT = Path(__file__).parents[2]
PACKAGE = PROJECT / "sitemap_etl"
OUTSIDE = {
    "test_airflow_ui.py",
    "test_cli_process.py",
    "test_cli_streams.py",
    "test_crash.py",
    "test_dag.py",
    "test_dag_actions.py",
    "test_demo.py",
    "test_distributed.py",
    "test_docs_run.py",
    "test_faults.py",
    "test_mutants.py",
    "test_real_data.py",
    "test_session.py",
    "test_sources_memory.py",
}
"""Their work is done in other processes, is not the package's, or is too long to be done for each mutant."""
_START = 0.3
"""Seconds that a test costs however short it is."""


def modules() -> dict[str, str]:
    """Return path in the package → source, of every module."""
    return {path.relative_to(PACKAGE).as_posix(): path.read_text() for path in sorted(PACKAGE.rglob("*.py"))}


def _hashes() -> dict[str, str]:
    files = [path for path in sorted((PROJECT / "tests").rglob("test_*.py")) if path.name not in OUTSIDE]
    return {path.relative_to(PROJECT).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@dataclass
class Record:
    """`seconds`: test → its processor time. `lines`: path in the package → line → its tests."""

    seconds: dict[str, float] = field(default_factory=dict)
    lines: dict[str, dict[int, set[str]]] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    hashes: dict[str, str] = field(default_factory=dict)

    def tests_of(self, mutant: Mutant) -> list[str]:
        """Return the tests that run the line of a mutant, those first that are likely to fail soon.

        The test that adds most and the fastest test alternate. A test adds most if it runs the most lines of
        the module, for its time, that earlier ones have not run; tests in files named after the module go
        first. Many lines are run by every whole run of a site: different runs test them differently. Code that
        runs on import belongs to every test that runs a line of the module.
        """
        lines = self.lines.get(mutant.file, {})
        bodies = _bodies(self.sources[mutant.file])
        found = set().union(*(lines.get(line, set()) for line in mutant.place.lines))
        if not bodies.intersection(mutant.place.lines) and any(line in lines for line in mutant.place.lines):
            found = set().union(*lines.values())
        found &= self.seconds.keys()
        fast = sorted(found, key=lambda test: (self.seconds[test], test))
        stem = PurePath(mutant.file).stem
        own = [test for test in fast if stem in PurePath(test.partition("::")[0]).stem]
        most = [*self._differing(own, lines), *self._differing([test for test in fast if test not in own], lines)]
        return list(dict.fromkeys(itertools.chain.from_iterable(zip(most, fast, strict=True))))

    def _differing(self, tests: list[str], lines: dict[int, set[str]]) -> Iterator[str]:
        """Return the tests ordered by what each adds to those before it."""
        runs = np.array([[test in ran for ran in lines.values()] for test in tests], np.float64)
        cost = np.array([self.seconds[test] + _START for test in tests])
        weight = np.ones(len(lines))
        for _ in tests:
            at = int(np.argmax(runs @ weight / cost))
            yield tests[at]
            weight[runs[at] > 0] /= 4
            cost[at] = np.inf


def _bodies(source: str) -> set[int]:
    """Return the lines that run when a function is called; all others run when the module is imported."""
    functions = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef))
    return {line for node in functions for line in range(node.body[0].lineno, (node.end_lineno or 0) + 1)}


def up_to_date(folder: Path, *, jobs: int, record_changed: bool = True) -> Record:
    """Return the record in the folder, after running the tests that it lacks."""
    record = _read(folder / "record.json")
    now, hashes = modules(), _hashes() if record_changed else record.hashes
    record.lines = {
        file: _moved(lines, record.sources[file], now[file]) for file, lines in record.lines.items() if file in now
    }
    record.sources = now
    changed = [file for file, digest in hashes.items() if record.hashes.get(file) != digest]
    gone = {*changed, *(record.hashes.keys() - hashes.keys())}
    record.seconds = {test: each for test, each in record.seconds.items() if test.partition("::")[0] not in gone}
    if changed:
        print(f"recording which lines {len(changed)} test files run", flush=True)
        _run(folder / "parts", changed, jobs)
        for part in sorted((folder / "parts").glob("*.json")):
            _add(record, json.loads(part.read_text()))
            part.unlink()
    record.hashes = hashes
    _write(record, folder / "record.json")
    return record


def _run(folder: Path, files: list[str], jobs: int) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.mutants.recorder", "-p", "no:cacheprovider"]
    command += ["-n", str(jobs), "--dist", "loadfile", *files]
    subprocess.run(command, cwd=PROJECT, env={**os.environ, "MUTANTS_RECORD": str(folder)}, check=False)


def _add(record: Record, part: dict) -> None:
    tests = part["tests"]
    record.seconds |= dict(zip(tests, part["seconds"], strict=True))
    for file, lines in part["lines"].items():
        found = record.lines.setdefault(file, defaultdict(set))
        for line, numbers in lines.items():
            found.setdefault(int(line), set()).update(tests[number] for number in numbers)


def _moved(lines: dict[int, set[str]], before: str, now: str) -> dict[int, set[str]]:
    if before == now:
        return lines
    found: dict[int, set[str]] = {}
    matcher = difflib.SequenceMatcher(None, before.splitlines(), now.splitlines(), autojunk=False)
    for kind, first, last, new, end in matcher.get_opcodes():
        if kind == "equal":
            found |= {new + at + 1: lines[first + at + 1] for at in range(last - first) if first + at + 1 in lines}
        else:
            near = set().union(*(lines.get(line, set()) for line in range(first, last + 2)))
            found |= {line + 1: near for line in range(new, end)}
    return found


def _read(path: Path) -> Record:
    if not path.exists():
        return Record()
    stored = json.loads(path.read_text())
    tests = list(stored["seconds"])
    lines = {
        file: {int(line): {tests[number] for number in numbers} for line, numbers in found.items()}
        for file, found in stored["lines"].items()
    }
    return Record(stored["seconds"], lines, stored["sources"], stored["hashes"])


def _write(record: Record, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    numbers = {test: number for number, test in enumerate(record.seconds)}
    lines = {
        file: {line: [numbers[test] for test in tests if test in numbers] for line, tests in found.items()}
        for file, found in record.lines.items()
    }
    whole = {"seconds": record.seconds, "lines": lines, "sources": record.sources, "hashes": record.hashes}
    path.write_text(json.dumps(whole))
