"""Discouraged words are in no text for readers: messages, help, the report, documentation."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = sorted({*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")} - {ROOT / "CHANGELOG.md"})
SOURCES = sorted([*(ROOT / "sitemap_etl").rglob("*.py"), *(ROOT / "dags").glob("*.py")])
TEMPLATES = sorted([*(ROOT / "sitemap_etl").rglob("*.jinja"), *(ROOT / "sitemap_etl").rglob("*.toml")])

GIVEN_UP = [
    r"catalogue in, sitemaps out",
    r"not every engine took it",
    r"rows that are not listed as they came",
    r"\bnoted: ",
    r"in the way and not ours",
    r"\btell (no|the|one|search) engines?",
    r"\btells (the|one|search) engines?",
    r"units at a time",
    r"stands? twice",
    r"lacks the SELECT",
    r"a share counts from",
    r"views begin with",
    r"slow bleed",
    r"the other side's rights",
    r"default that leaked",
    r"a look before each write",
    r"is taken for a yes",
    r"all waits together",
    r"moving in\b",
    r"\bre-bases?\b",
    r"(?-i:\bmend(ed|s|ing)?\b)",
    r"found the text",
    r"\bowed\b",
    r"\bunheard\b",
    r"\bbroken[_ ]off\b",
    r"\bforeign (object|file)s?\b",
    r"see what wrote",
    r"differs by slash",
    r"\btombstones?\b",
    r"\bdoubtful\b",
    r"\bdeparted\b",
    r"\bset aside\b",
    r"moved house",
]
REASONS = {"news: publication_date is no date", "alternate: hreflang is no language that Google takes"}
"""Reasons of rows, which are keys of JSON."""
NAMES = {"mend", "owed", "set_aside"}
"""Keys of JSON and of the state, which keep their names."""
KEYS = re.compile(rf"`[a-z_.\[\]]*\b({'|'.join(sorted(NAMES))})`")
"""The same in a document: `findings[].mend`."""


def shown(path: Path) -> Iterator[tuple[int, str]]:
    """Return the texts of a module other than documentation of code: messages, help, texts of the report."""
    tree = ast.parse(path.read_text("utf-8"))
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    commands = path.parent.name in ("cli", "dags")
    kept: set[int] = set()
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        for at, statement in enumerate(body if isinstance(body, list) else ()):
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                # The docstring of a command is its help, that of a DAG its page.
                is_help = commands and at == 0 and isinstance(node, documented)
                if not is_help:
                    kept.add(id(statement.value))
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in kept:
            yield node.lineno, node.value


def _texts() -> Iterator[tuple[str, str]]:
    for path in SOURCES:
        for line, text in shown(path):
            if text not in NAMES:
                yield f"{path.relative_to(ROOT)}:{line}", text
    for path in (*TEMPLATES, *PAGES):
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
            yield f"{path.relative_to(ROOT)}:{number}", KEYS.sub("", line)


@cache
def texts() -> list[tuple[str, str]]:
    """Return place and text of everything that readers see. They are read once, and not at import."""
    return list(_texts())


@pytest.mark.parametrize("words", GIVEN_UP)
def test_texts_for_readers_contain_no_retired_words(words: str) -> None:
    pattern = re.compile(words, re.IGNORECASE | re.MULTILINE)
    found = [f"{where}: {text[:120]}" for where, text in texts() if pattern.search(text)]
    assert found == []


ONLY_IN_THE_REPOSITORY = re.compile(
    r"(?<![\w/])(docs|dags|demo|tests)/\w|\w\.md\b|\bCONTRIBUTING\b|\b(Make|Docker)file\b"
    r"|constraints\.txt|\bmake (test|demo)\b"
)


def test_no_text_of_the_package_points_to_a_file_that_a_wheel_does_not_contain() -> None:
    """Only comments of a template or a table can, and the module that links pages of the documentation."""
    shown_texts = [(where, text) for where, text in texts() if where.startswith("sitemap_etl/") and text[:1] != "#"]
    shown_texts = [one for one in shown_texts if not one[0].startswith("sitemap_etl/check/reference.py:")]
    shown_texts.append(("sitemap_etl/README.md", (ROOT / "sitemap_etl" / "README.md").read_text("utf-8")))
    assert [(where, text) for where, text in shown_texts if ONLY_IN_THE_REPOSITORY.search(text)] == []


def test_texts_for_readers_are_found_in_the_code() -> None:
    assert len(texts()) > 5_000
    assert any("is a site file, not a sitemap. To check it: " in text for _, text in texts())


DECODED = {
    "gives": r"; gives\b|^Gives\b|\bNone where\b",
    "software that is told": r"\b(?:is|are|was|were|be|been) told\b|\btold of\b|\btells? of\b|\bhears?\b|\bknows? of\b",
    "where for if": r"(?:(?:^|[.;:] )W|[.;(] w)here "
    r"(?:a|an|the|it|they|no|there|that|this|all|nothing|one|none|some|its?)\b",
    "night for run": r"\bnights?\b",
    "lies": r"\blies\b|\banew\b|\bto be had\b",
    "no for not a": r"(?<![Tt]here) (?:is|are|was|were) no (?!longer|more|less|such)\w+",
    "private words": r"\b(?:unheard|owed|departed|spared)\b",
}
"""Forms that had a plainer one in each place where they were found, in docstrings, comments and messages."""


def _prose(path: Path) -> Iterator[tuple[int, str]]:
    """Yield line and text of the docstrings, the comments and the messages of a module."""
    source = path.read_text("utf-8")
    tree = ast.parse(source)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        for statement in body if isinstance(body, list) else ():
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                yield statement.lineno, " ".join(str(statement.value.value).split())
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string.lstrip("# ")
    # A message has blanks. Other texts are names, keys and patterns.
    yield from ((line, text) for line, text in shown(path) if text.strip().count(" ") > 2)


@cache
def prose() -> list[tuple[str, str]]:
    return [(f"{path.relative_to(ROOT)}:{line}", text) for path in SOURCES for line, text in _prose(path)]


@pytest.mark.parametrize("name", DECODED)
def test_no_docstring_comment_or_message_has_a_discouraged_phrase(name: str) -> None:
    pattern = re.compile(DECODED[name], re.MULTILINE)
    assert [
        f"{where}: {found[0]}: {text[:160]}"
        for where, text in prose()
        if (found := pattern.search(text)) and text not in REASONS
    ] == []


OPENING = re.compile(r"(?:What|Whether|Where|How|Which|Why|Of|As)\b")


def test_a_docstring_begins_with_a_verb_or_a_noun() -> None:
    nodes = [(path, node) for path in SOURCES for node in ast.walk(ast.parse(path.read_text("utf-8")))]
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docs = [(path, ast.get_docstring(node) or "") for path, node in nodes if isinstance(node, kinds)]
    assert len([text for _, text in docs if text]) > 3_000
    assert [f"{path.relative_to(ROOT)}: {text[:80]}" for path, text in docs if OPENING.match(text)] == []


ARTICLE = re.compile(r"(?:A|An|The|Each|Every|These|Those|Its|True) ")


def test_the_docstring_of_a_function_does_not_begin_with_an_article() -> None:
    found = []
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            if is_function and not any("property" in ast.unparse(one) for one in node.decorator_list):
                text = ast.get_docstring(node) or ""
                found += [f"{path.relative_to(ROOT)}:{node.lineno}: {text[:80]}"] if ARTICLE.match(text) else []
    assert found == []


def test_docstrings_and_comments_are_found() -> None:
    assert len(prose()) > 8_000
