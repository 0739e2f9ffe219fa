"""`make distributed`: workers that share nothing but a bucket, and die."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.airflow import PROJECT


@pytest.mark.thorough
@pytest.mark.timeout(1_800)  # it waits until Airflow misses the machines that went down
@pytest.mark.skipif(
    shutil.which("redis-server") is None and not os.environ.get("CI"), reason="needs redis-server; .ci/run installs it"
)
def test_a_distributed_run_with_two_killed_workers_publishes_the_files_of_a_local_run(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "demo.distributed", "--keep", str(tmp_path / "logs")]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr[-3000:]}"
    assert "went down in render" in done.stdout
    assert "went down in publish" in done.stdout
    assert "public files equal those of a local run, inflated" in done.stdout
