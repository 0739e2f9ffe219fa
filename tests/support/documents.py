"""The pages of the documentation and their blocks.

The tests run blocks marked `sh` as written (`tests/test_docs_run.py`). They don't run those marked `shell`, which need
root, an account or a terminal. A block with `title="…"` is a file of that name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
README = (ROOT / "README.md").read_text()
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])
FENCE = re.compile(r"^( *)```(\w*)(?: title=\"([^\"]+)\")?\n(.*?)^ *```", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A fenced block without its indentation. `file`: its file name, or empty."""

    language: str
    file: str
    text: str


def all_blocks(page: Path) -> Iterator[Block]:
    """Return the fenced blocks of a page, in order."""
    for indent, language, file, text in FENCE.findall(page.read_text()):
        yield Block(language, file, "".join(f"{line.removeprefix(indent)}\n" for line in text.splitlines()))


def blocks(page: Path, language: str) -> list[str]:
    """Return the texts of the blocks in one language."""
    return [block.text for block in all_blocks(page) if block.language == language]
