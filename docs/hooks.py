"""Additions of `make docs` to the site: the version, codes of `check`, keys of its JSON, tested dependencies."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

PAGES = {
    "reference/check-codes.md": "check-codes.md",
    "reference/json.md": "json.md",
    "reference/tested-versions.md": "tested-versions.md",
}
"""Pages with generated parts, and the file in `build` that has each of them."""


def on_config(config: Any) -> Any:
    """Return the configuration, with the version in the name of the site."""
    version = re.search(r'__version__ = "(.+)"', Path("sitemap_etl/__init__.py").read_text("utf-8"))
    config.site_name = f"{config.site_name} {version[1] if version else ''}".rstrip()
    return config


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Return the text of a page, with its generated parts."""
    built = PAGES.get(page.file.src_uri)
    return Path("build", built).read_text("utf-8") if built else markdown
