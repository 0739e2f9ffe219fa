"""The package means the same on every Python that it supports, 3.11.0 included."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import sitemap_etl

ROOT = Path(sitemap_etl.__file__).parent
POSSESSIVE = re.compile(r"[\])}][*+?}]\+|[\])]\{[0-9,]*\}\+|\(\?>")
RESERVED = "()*+,"
"""Characters of URLs that look like a possessive quantifier in a list of them."""


def texts(path: Path) -> list[str]:
    """All literals in a module, bytes as text."""
    values = (node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant))
    return [
        value.decode("latin-1") if isinstance(value, bytes) else value
        for value in values
        if isinstance(value, str | bytes)
    ]


@pytest.mark.parametrize("path", sorted(ROOT.rglob("*.py")), ids=lambda path: str(path.relative_to(ROOT)))
def test_no_pattern_is_possessive_or_atomic(path: Path) -> None:
    """CPython matched both wrongly before 3.11.5 (gh-106052): too little, without an error."""
    found = [text for text in texts(path) if POSSESSIVE.search(text.replace(RESERVED, ""))]
    assert found == []
