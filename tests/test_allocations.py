"""A run in which one allocation of Python or a library fails: it ends with a message, or as without the failure."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from tests.support.command import PROGRAM
from tests.support.examples import ALL
from tests.support.sites import TestSite, pages

SOURCE = Path(__file__).parent / "support" / "failing_malloc.c"
FIRST, LAST = 50, 160_000
"""Between these allocations, a run of few rows imports its libraries, reads and publishes."""
POINTS = 1_000 if ALL else 12
MESSAGES = ("Out of memory", "Not enough memory", "The process of the run was killed by SIG")


@pytest.fixture(scope="module")
def failing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An allocator to preload."""
    library = tmp_path_factory.mktemp("allocator") / "failing.so"
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", library, SOURCE], check=True)
    return library


def run(site: TestSite, **environ: str) -> subprocess.CompletedProcess[str]:
    command = [*PROGRAM, "run", str(site.path), "--quiet", "--full"]
    return subprocess.run(
        command, cwd=site.folder, env=os.environ | environ, capture_output=True, text=True, check=False, timeout=300
    )


@pytest.mark.thorough
@pytest.mark.timeout(1_800)
@pytest.mark.skipif(shutil.which("cc") is None and not os.environ.get("CI"), reason="needs a C compiler")
def test_a_run_ends_with_one_message_if_any_memory_allocation_fails(tmp_path: Path, failing: Path) -> None:
    site = TestSite(tmp_path).section("products", pages(50))
    ends: Counter[int] = Counter()
    for point in range(POINTS):
        number = FIRST + (LAST - FIRST) * point // POINTS
        done = run(site, LD_PRELOAD=str(failing), FAIL_AT=str(number))
        said = f"allocation {number}: exit code {done.returncode}\n{done.stderr}"
        ends[done.returncode] += 1
        if done.returncode == 70:  # Python's own code takes a failed allocation for something else
            assert done.stderr.rstrip().endswith("This is a defect of sitemap_etl: please report it"), said
        else:
            assert done.returncode in (0, 3), said
            assert sum(done.stderr.count(words) for words in MESSAGES) == (1 if done.returncode else 0), said
    assert ends[0]
    assert ends[3]
    assert ends[70] <= POINTS / 10
    site.export("products", pages(51))
    assert run(site).returncode == 0
    assert len(site.public().locs()) == 51
