"""Private names of libraries that the package uses. Any release can remove them, so each is listed with its reason."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from importlib.metadata import version

import pytest
from packaging.specifiers import SpecifierSet

from tests.support.airflow import PROJECT

PACKAGE = PROJECT / "sitemap_etl"
PUBLIC = {"_replace", "_asdict", "_exit"}
"""Documented names of `NamedTuple` and `os`."""
LIBRARIES: dict[str, tuple[str, str]] = {
    # name: library, and the versions that have it, by the lowest and the pinned ones that all tests run with
    "_results": ("adbc-driver-manager", ">=1.13,<2"),  # a result is read as a stream, whatever its types are
    "_driver_path": ("adbc-driver-postgresql", ">=1.13,<2"),
    "_result": ("pymysql", ">=1.2,<2"),  # warnings, and the packets of a result that are read without Python per value
    "_rfile": ("pymysql", ">=1.2,<2"),
    "_endpoint": ("botocore", ">=1.44,<2"),  # bounds of each wait, and addresses that are connected to
    "_manager": ("botocore", ">=1.44,<2"),
    "_pool_classes_by_scheme": ("botocore", ">=1.44,<2"),
    "httpx._main": ("httpx", ">=0.28,<1"),  # its command takes a third of the time that httpx takes to load
}


def own_names() -> set[str]:
    """Return the private names that the package defines itself."""
    found = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                found.add(node.name)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                found.add(node.id)
            elif (
                isinstance(node, ast.Attribute)
                and isinstance(node.ctx, ast.Store)
                and ast.unparse(node.value) == "self"
            ):
                found.add(node.attr)
    return found


def private_names() -> Iterator[str]:
    """Yield the private names of other modules and objects that the package uses, and modules as texts."""
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and ast.unparse(node.value) not in {"self", "cls"}:
                yield node.attr
            elif isinstance(node, ast.ImportFrom) and not (node.module or "sitemap_etl").startswith("sitemap_etl"):
                yield from (alias.name for alias in node.names)
                yield from (node.module or "").split(".")
            elif isinstance(node, ast.Constant) and re.fullmatch(r"\w+(?:\.\w+)*\._[a-z]\w*", str(node.value)):
                yield node.value


def test_every_used_private_name_of_a_library_is_listed() -> None:
    private = {name for name in private_names() if re.fullmatch(r"(?:[\w.]+\.)?_[a-z]\w*", name)}
    assert private - own_names() - PUBLIC - {"_getframe"} == LIBRARIES.keys() - own_names()


@pytest.mark.parametrize("name", LIBRARIES)
def test_libraries_with_used_private_names_are_tested_in_supported_versions(name: str) -> None:
    library, range_ = LIBRARIES[name]
    versions = {version(library)}
    for file in ("constraints.txt", ".ci/lowest.txt"):
        pinned = re.search(rf"^{library}==([\w.]+)", (PROJECT / file).read_text(), re.MULTILINE)
        assert pinned is not None
        versions.add(pinned[1])
    assert [tried for tried in versions if tried not in SpecifierSet(range_)] == []
