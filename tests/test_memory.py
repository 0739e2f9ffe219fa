"""The memory that a run has freed stays with the process."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.sites import TestSite, pages

PROGRAM = """
import resource, sys, time
if sys.argv[1] == "keep":
    from sitemap_etl.memory import keep_memory
    keep_memory()
import numpy as np
import pyarrow as pa


def faults(work):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    work()
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def ours():
    held = [(np.ones(size), pa.repeat(1, size)) for size in range(500_000, 2_500_000, 250_000)]


ours()
time.sleep(1)  # what is given back is not at once
print(faults(ours))
"""


def faults(how: str) -> int:
    """Return the page faults for arrays that follow others of their size."""
    unset = {name: value for name, value in os.environ.items() if not name.startswith(("MIMALLOC_", "MALLOC_"))}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, how],
        env={**unset, "MIMALLOC_ALLOW_THP": "0"},  # on every machine a page has one size
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return int(done.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another libc is not told what to keep")
def test_the_allocators_keep_freed_memory_for_the_next_batch() -> None:
    kept, given_back = faults("keep"), faults("default")
    assert kept < 100, "pages of memory were given back"
    assert given_back > 10 * kept + 1_000, "there is nothing to keep: the allocators do so by themselves"


def test_allocator_settings_of_the_environment_are_respected(tmp_path: Path) -> None:
    site = TestSite(tmp_path).section("products", pages(10))
    program = "import os, sys; from sitemap_etl.cli import main; import atexit; "
    program += "atexit.register(lambda: print(os.environ['MIMALLOC_PURGE_DELAY'], os.environ['MIMALLOC_ALLOW_THP'])); "
    done = subprocess.run(
        [sys.executable, "-c", program + "main(sys.argv[1:])", "run", site.path, "--quiet"],
        env={**os.environ, "MIMALLOC_PURGE_DELAY": "25"},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert done.stdout.splitlines()[-1] == "25 0"
