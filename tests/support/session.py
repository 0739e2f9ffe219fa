"""`make test`: the tests in parallel, then those that run alone, one after the other.

    python -m tests.support.session [FILE …]

In CI, at most three failed tests are retried once, alone, with the same seed. If they pass, the session passes and
names them as unstable. Tests of crashes, races, faults and properties are never retried: rare failures are what they
look for.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from tests.support.documents import ROOT
from tests.support.examples import ALL, IN_CI

FAILED: Final = "SITEMAP_ETL_FAILED"
"""The variable that names the file which the failed tests of a session are written to."""
UNSTABLE: Final = ROOT / "build" / "unstable.txt"
AT_MOST: Final = 3
NOTHING: Final = 5
"""What pytest ends with if no test was chosen."""
SIDE_BY_SIDE: Final = ("-n", "auto", "--dist", "loadfile")
ONCE: Final = (
    "test_concurrency",
    "test_crash",
    "test_exports_fuzz",
    "test_faults",
    "test_flips",
    "test_late_requests",
    "test_lease",
    "test_load_faults",
    "test_protocol",
    "test_soak",
    "test_storage_contract",
    "test_storage_faults",
)
"""The files of crashes, races and faults."""


def may_be_tried_again(report: pytest.TestReport) -> bool:
    """Return whether a failed test may be retried once."""
    return "hypothesis" not in report.keywords and Path(report.fspath).stem not in ONCE


def failures(folder: Path) -> dict[str, bool]:
    """Return the failed tests of a session, and whether each may be retried."""
    found: dict[str, bool] = {}
    for path in folder.glob("*.json"):
        found |= json.loads(path.read_text())
    return found


def again(failed: dict[str, bool]) -> list[str]:
    """Return the tests to retry: none if there are more than three, or one that must not be retried."""
    return sorted(failed) if len(failed) <= AT_MOST and all(failed.values()) else []


def files_with_tests_alone(files: Sequence[str]) -> list[str]:
    """Return those of these test files (by default all) that have a test which runs alone."""
    paths = [ROOT / file for file in files] or sorted((ROOT / "tests").rglob("test_*.py"))
    return [str(path.relative_to(ROOT)) for path in paths if "@pytest.mark.alone\n" in path.read_text("utf-8")]


def run(folder: Path, files: Sequence[str]) -> int:
    """Run the tests of these files, or all. Return the exit code of the session."""
    chosen = "" if IN_CI or ALL else " and not thorough"
    more = ["--durations=50", "--maxfail=20"] if IN_CI else []
    codes = [_pytest(folder / "first.json", *SIDE_BY_SIDE, "-m", f"not alone{chosen}", *more, *files)]
    if alone := files_with_tests_alone(files):
        codes.append(_pytest(folder / "alone.json", "-q", "-m", f"alone{chosen}", *more, *alone))
    failed = failures(folder)
    tried = again(failed) if IN_CI and failed and set(codes) <= {0, 1, NOTHING} else []
    if tried and _pytest(folder / "again", *tried) == 0:
        UNSTABLE.parent.mkdir(exist_ok=True)
        UNSTABLE.write_text("Unstable: failed once, and passed alone.\n" + "".join(f"  {test}\n" for test in tried))
        sys.stdout.write(UNSTABLE.read_text())
        return 0
    return next((code for code in codes if code not in (0, NOTHING)), 0)


def _pytest(failed: Path, *arguments: str) -> int:
    sys.stdout.flush()
    command = [sys.executable, "-m", "pytest", *arguments]
    return subprocess.run(command, cwd=ROOT, env=os.environ | {FAILED: str(failed)}, check=False).returncode


if __name__ == "__main__":
    import tempfile

    UNSTABLE.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as made:
        sys.exit(run(Path(made), sys.argv[1:]))
