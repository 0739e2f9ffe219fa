"""Mutants of every kind of input, some with a piece repeated up to megabytes: no crash, and bounded memory.

Time is measured in `bench/linear.py`.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys

from tests.support.examples import ALL, IN_CI
from tests.support.readers import READERS

SECONDS, LONGEST = (60, 3_000_000) if ALL else (5, 1_000_000)
MEGABYTES = 600


def test_no_input_crashes_a_reader_or_takes_much_memory() -> None:
    seed = 1 if IN_CI else random.randrange(1_000_000)
    command = [sys.executable, "-m", "tests.support.readers", str(seed), str(SECONDS), str(LONGEST)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, (seed, ended.stderr[-2_000:])
    found = json.loads(ended.stdout)
    assert set(found["tried"]) == set(READERS)
    assert found["escaped"] == {}, seed
    assert max(found["highest"].values()) < MEGABYTES, (seed, found["highest"])
