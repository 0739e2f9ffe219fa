"""The interpreters and versions that pyproject.toml, CI and the documentation name are the same."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys

from packaging.version import Version

from tests.support.tested_versions import PROJECT, ROOT, bounded, pins, with_table

PAGE = ROOT / "docs/reference/tested-versions.md"
CLASSIFIER = "Programming Language :: Python :: 3."


def test_each_lower_bound_is_the_version_that_the_lane_of_lowest_versions_installs() -> None:
    installed = pins(".ci/lowest.txt")
    for requirement in (one for requirements in bounded().values() for one in requirements):
        (bound,) = [Version(one.version) for one in requirement.specifier if one.operator == ">="]
        release = installed[requirement.name].release
        assert release[: len(bound.release)] == bound.release, f"{requirement}: run .ci/lowest"
        assert not any(release[len(bound.release) :]), f"{requirement} is tried with {installed[requirement.name]} only"


def test_an_upper_bound_of_a_dependency_has_a_reason() -> None:
    lines = (ROOT / "pyproject.toml").read_text().splitlines()
    limited = [line for line in lines if re.match(r'\s+"[\w.\[\],-]+[^"#]*<', line)]
    assert limited
    assert [line for line in limited if " # " not in line] == []


def test_ci_searches_interpreters_from_the_oldest_supported() -> None:
    oldest = runpy.run_path(str(ROOT / ".ci/interpreters.py"))["OLDEST"]
    assert PROJECT["requires-python"] == f">={'.'.join(map(str, oldest))}"
    done = subprocess.run([sys.executable, ROOT / ".ci/interpreters.py"], capture_output=True, text=True, check=False)
    found = [tuple(map(int, line.split("\t")[0].split("."))) for line in done.stdout.splitlines()]
    assert found == sorted(found)
    assert all(version >= oldest for version in found)


def test_documentation_classifiers_and_ci_name_the_same_interpreters() -> None:
    page = PAGE.read_text("utf-8")
    versions = dict(re.findall(r"^\| (3\.\d+) \| ([\d., ()\w]+) \|", page, re.MULTILINE))
    assert list(versions) == [
        f"3.{one.removeprefix(CLASSIFIER)}" for one in PROJECT["classifiers"] if CLASSIFIER in one
    ]
    assert all(tried.startswith(f"{minor}.") for minor, tried in versions.items())
    assert f">={next(iter(versions))}" == PROJECT["requires-python"]


def test_the_page_of_tested_versions_has_a_row_for_each_dependency() -> None:
    shown = with_table(PAGE.read_text("utf-8"))
    rows = re.findall(r"^\| ([\w-]+) \| (?:`(\w+)`)? +\| ([\d.a-z]+) \| ([\d.a-z]+) \|$", shown, re.MULTILINE)
    assert [(name, extra) for name, extra, *_ in rows] == [
        (one.name, extra) for extra, requirements in bounded().items() for one in requirements
    ]
    assert all(Version(lowest) <= Version(newest) for *_, lowest, newest in rows)
