"""What `make docs` adds to a page: the sections of the codes of `check`, which are in the package alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

PAGE = "reference/check-codes.md"


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Return the text of a page, which `make docs` has written to build for this one."""
    return Path("build", "check-codes.md").read_text("utf-8") if page.file.src_uri == PAGE else markdown
