"""Additions of `make docs` to pages: codes of `check` and keys of its JSON, which are in the package alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

PAGES = {"reference/check-codes.md": "check-codes.md", "reference/json.md": "json.md"}
"""Pages with generated parts, and the file in `build` that has each of them."""


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Return the text of a page, with its generated parts."""
    built = PAGES.get(page.file.src_uri)
    return Path("build", built).read_text("utf-8") if built else markdown
