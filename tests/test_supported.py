"""The interpreters and versions that pyproject.toml, CI and the documentation name are the same."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
OTHERS = {"airflow", "distributed", "dev"}
"""Extras that have lanes of their own or that no user installs."""
CLASSIFIER = "Programming Language :: Python :: 3."


def pins() -> dict[str, Version]:
    """Return the versions of .ci/lowest.txt."""
    lines = (ROOT / ".ci/lowest.txt").read_text()
    return {
        name: Version(number) for name, number in re.findall(r"^([\w.-]+)(?:\[.*?\])?==([\w.]+)", lines, re.MULTILINE)
    }


def test_each_lower_bound_is_the_version_that_the_lane_of_lowest_versions_installs() -> None:
    wanted = [Requirement(text) for text in PROJECT["dependencies"]]
    for extra, texts in PROJECT["optional-dependencies"].items():
        wanted += [] if extra in OTHERS else [Requirement(text) for text in texts]
    installed = pins()
    for requirement in wanted:
        (bound,) = [Version(one.version) for one in requirement.specifier if one.operator == ">="]
        release = installed[requirement.name].release
        assert release[: len(bound.release)] == bound.release, f"{requirement}: run .ci/lowest"
        assert not any(release[len(bound.release) :]), f"{requirement} is tried with {installed[requirement.name]} only"


def test_an_upper_bound_says_what_breaks_beyond_it() -> None:
    lines = (ROOT / "pyproject.toml").read_text().splitlines()
    limited = [line for line in lines if re.match(r'\s+"[\w.\[\],-]+[^"#]*<', line)]
    assert limited
    assert [line for line in limited if " # " not in line] == []


def test_ci_looks_for_interpreters_from_the_oldest_that_may_be_used() -> None:
    oldest = runpy.run_path(str(ROOT / ".ci/interpreters.py"))["OLDEST"]
    assert PROJECT["requires-python"] == f">={'.'.join(map(str, oldest))}"
    done = subprocess.run([sys.executable, ROOT / ".ci/interpreters.py"], capture_output=True, text=True, check=False)
    found = [tuple(map(int, line.split("\t")[0].split("."))) for line in done.stdout.splitlines()]
    assert found == sorted(found)
    assert all(version >= oldest for version in found)
