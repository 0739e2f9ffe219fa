"""A session of tests ends, whatever a test does to its process, and names that test."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.airflow import PROJECT
from tests.support.session import SIDE_BY_SIDE, files_of, folders

OTHERS = "import pytest\n@pytest.mark.parametrize('n', range(3))\ndef test_fine(n): pass\n"
KILLED = "import os, signal\ndef test_bad(): os.kill(os.getpid(), signal.SIGKILL)\n"
CRASHED = "import ctypes\ndef test_bad(): ctypes.string_at(0)\n"
ASLEEP = "import time\ndef test_bad(): time.sleep(1_000)\n"
DEAF = """import signal, time
def test_bad():
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
    time.sleep(1_000)
"""


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("test", "said"),
    [
        (KILLED, "crashed while running 'test_a.py::test_bad'"),
        (CRASHED, "Segmentation fault"),
        (ASLEEP, "Timeout (>1.0s)"),
        (DEAF, "crashed while running 'test_a.py::test_bad'"),
    ],
    ids=["killed", "crashed", "asleep", "deaf to the signal of its time"],
)
def test_a_session_ends_with_the_name_of_the_test_that_killed_its_process_or_hangs(
    tmp_path: Path, test: str, said: str
) -> None:
    """The options of `make test` and of pyproject.toml, with shorter time limits."""
    for name in "abcd":
        (tmp_path / f"test_{name}.py").write_text(OTHERS if name > "a" else OTHERS + test + OTHERS.partition("\n")[2])
    options = ["2" if option == "auto" else option for option in SIDE_BY_SIDE]
    patience = ["-o", "timeout=1", "-o", "faulthandler_timeout=3"]
    command = [sys.executable, "-m", "pytest", "-c", str(PROJECT / "pyproject.toml"), "--rootdir", str(tmp_path)]
    # Of the plugins those that these options need: the others only take time to start, in three processes.
    plugins = ["-p", "xdist", "-p", "pytest_timeout", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, *options, *patience, *plugins, str(tmp_path)],
        cwd=tmp_path,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    shown = done.stdout + done.stderr
    assert done.returncode == 1, shown
    assert "FAILED test_a.py::test_bad" in shown
    assert said in shown


def test_the_tests_of_a_package_are_those_of_its_folder_or_of_its_module() -> None:
    found = files_of("urls")
    assert "tests/urls/test_urls.py" in found
    assert all(file.startswith("tests/urls/test_") for file in found)
    assert files_of("diff") == ["tests/test_diff.py"]
    assert files_of("no_such_package") == []


def test_a_folder_of_tests_is_named_after_a_package_or_a_kind_of_test() -> None:
    packages = {path.parent.name for path in (PROJECT / "sitemap_etl").glob("*/__init__.py")}
    kinds = {"contract", "model", "programs", "project", "scenarios"}
    assert folders() <= packages | kinds
