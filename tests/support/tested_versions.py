"""The table of dependencies in the documentation, from pyproject.toml and the files of pinned versions.

`make docs` writes it: `python -m tests.support.tested_versions PAGE FILE`.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
OTHERS = {"airflow", "distributed", "dev"}
"""Extras whose versions are tried in another way, or that no user installs."""
BLOCK = re.compile(r"(<!-- dependencies begin -->\n).*?(<!-- dependencies end -->)", re.DOTALL)
_PIN = re.compile(r"^([\w.-]+)(?:\[[^\]]*\])?==([\w.]+)", re.MULTILINE)


def bounded() -> dict[str, list[Requirement]]:
    """Return the dependencies of the package that have tested bounds, by their extra (empty for the base)."""
    extras = {extra: texts for extra, texts in PROJECT["optional-dependencies"].items() if extra not in OTHERS}
    wanted = {"": PROJECT["dependencies"], **extras}
    return {extra: [Requirement(text) for text in texts] for extra, texts in wanted.items()}


def pins(file: str) -> dict[str, Version]:
    """Return the version of each package in a file of pinned versions: the newest one if it has several."""
    found: dict[str, Version] = {}
    for name, number in _PIN.findall((ROOT / file).read_text("utf-8")):
        found[name] = max(Version(number), found.get(name, Version("0")))
    return found


def table() -> str:
    """Return the table in Markdown, a line for each dependency."""
    lowest, newest = pins(".ci/lowest.txt"), pins("constraints.txt")
    lines = ["| package | extra | lowest | newest |", "| --- | --- | --- | --- |"]
    for extra, requirements in bounded().items():
        shown = f"`{extra}`" if extra else ""
        lines += [f"| {one.name} | {shown} | {lowest[one.name]} | {newest[one.name]} |" for one in requirements]
    return "\n".join(lines) + "\n"


def with_table(text: str) -> str:
    """Return the document with the table in its place."""
    return BLOCK.sub(lambda found: found[1] + table() + found[2], text)


if __name__ == "__main__":
    page, built = Path(sys.argv[1]), Path(sys.argv[2])
    built.write_text(with_table(page.read_text("utf-8")), "utf-8")
