"""The pages are easy to read: short sentences, and no discouraged phrases."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.documents import DOCS, FENCE, README, ROOT

PAGES = sorted([*DOCS.rglob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"])
WORDS = 25
LONG = 0.02
"""Share of the sentences of a page that can have more words than that. One sentence is never too many."""
PATTERNS = {
    "where for if": r"(?:^|[.;:,(] )[Ww]here (?:a|an|the|it|they|no|there|that|this|all|nothing|one|none|some|its?)\b",
    "a pronoun far from its noun": r"\b(?:those|that) of\b|\bof (?:it|them|which|whom)\b|\bof (?:its|their) own\b",
    "lies, stands": r"\b(?:lies|stands|lay|stood)\b|\banew\b|\bis to be had\b",
    "night for run": r"\bnights?\b",
    "software that is told": r"\b(?:is|are|was|were|be|been) told\b|\btold of\b|\btells? of\b|\bhears?\b|\bknows? of\b",
    "private words": r"\b(?:settled?|spared|untouched|receipt|spool|lately|owed|unheard|departed)\b",
}
"""Forms that had another, plainer one in each place where they were found."""
TITLES = {DOCS / "dev" / "testing.md", DOCS / "explanation" / "reliability.md"}
"""Pages that name the kinds of trials of `make soak`, of which one is called nights."""


def prose(page: Path) -> str:
    """Return the text of a page without code, tables, HTML and comments."""
    text = FENCE.sub("", page.read_text("utf-8"))
    text = re.sub(r"<!--.*?-->|<[a-z/][^>]*>|`[^`\n]*`", "code", text, flags=re.DOTALL)
    return re.sub(r"^(?:\|.*|    .*)$", "", text, flags=re.MULTILINE)


def sentences(page: Path) -> list[str]:
    """Return the sentences of a page. An item of a list is at least one."""
    parts = re.split(r"(?<=[.!?]) +|\n\n+|\n(?=[-*#]|\d+\. )", prose(page))
    return [" ".join(part.split()) for part in parts if len(part.split()) > 3]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_page_has_short_sentences(page: Path) -> None:
    found = sentences(page)
    long = [sentence for sentence in found if len(sentence.split()) > WORDS]
    assert len(long) <= max(1, LONG * len(found)), long


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_page_has_none_of_the_discouraged_phrases(page: Path) -> None:
    text = prose(page)
    patterns = {name: form for name, form in PATTERNS.items() if name != "night for run" or page not in TITLES}
    assert {name: found for name, form in patterns.items() if (found := re.findall(form, text, re.MULTILINE))} == {}


@pytest.mark.parametrize(
    ("page", "part"), [("check-codes.md", "codes"), ("json.md", "keys"), ("tested-versions.md", "dependencies")]
)
def test_generated_documentation_is_not_copied_into_its_page(page: str, part: str) -> None:
    assert f"<!-- {part} begin -->\n<!-- {part} end -->" in (DOCS / "reference" / page).read_text("utf-8")


def test_the_documentation_stays_short() -> None:
    """`wc -w` counts the same."""
    assert sum(len(page.read_text("utf-8").split()) for page in DOCS.rglob("*.md")) < 40_000


def test_sentences_are_extracted_from_a_page() -> None:
    assert README.startswith("# sitemap_etl")
    assert len(sentences(ROOT / "README.md")) > 20
    assert sum(len(sentences(page)) for page in PAGES) > 1_500
