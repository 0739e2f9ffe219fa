"""The test files of a package: `python -m tests.support.packages urls` prints them, for `make test P=urls`.

A file belongs to the package in its name, and to the packages that it imports most.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Final

from tests.support.documents import ROOT

TESTS: Final = ROOT / "tests"
CALLED: Final = {
    "dag": "airflow",
    "distributed": "airflow",
    "served": "publish",
    "storage": "s3",
    "tables": "sources",
    "names": "sources",
}
"""First words of the names of files → the package they are about, if that has another name."""
EVERYWHERE: Final = ("errors", "limits", "frames", "__version__")
"""What tests of all packages import."""


@cache
def packages() -> set[str]:
    """Return the names of the packages and modules in `sitemap_etl`."""
    found = {path.stem for path in (ROOT / "sitemap_etl").iterdir() if (path / "__init__.py").exists()}
    return found | {path.stem for path in (ROOT / "sitemap_etl").glob("[a-z]*.py")}


@cache
def packages_of(path: Path) -> set[str]:
    """Return the packages that a test file belongs to, or none if it is about the whole product."""
    called = path.stem.removeprefix("test_")
    found = {name for name in packages() if f"{called}_".startswith(f"{name}_")}
    found |= {CALLED[word] for word in [called.partition("_")[0]] if word in CALLED}
    counts = _imported(path)
    return found | {name for name, count in counts.items() if count == max(counts.values())}


def files_of(package: str) -> list[Path]:
    """Return the test files of a package."""
    return [path for path in sorted(TESTS.glob("test_*.py")) if package in packages_of(path)]


def _imported(path: Path) -> Counter[str]:
    """Return the number of imports of a file from each package."""
    found: Counter[str] = Counter()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.partition(".")[0] == "sitemap_etl":
            _, *inner = node.module.split(".")
            found.update(inner[:1] or [alias.name for alias in node.names])
        elif isinstance(node, ast.Import):
            found.update(alias.name.split(".")[1] for alias in node.names if alias.name.startswith("sitemap_etl."))
    return Counter({name: count for name, count in found.items() if name not in EVERYWHERE})


if __name__ == "__main__":
    (wanted,) = sys.argv[1:]
    chosen = files_of(wanted)
    if not chosen:
        sys.exit(f"P={wanted}: no such package. There are: {', '.join(sorted(filter(files_of, packages())))}")
    sys.stdout.write(" ".join(str(path.relative_to(ROOT)) for path in chosen) + "\n")
