"""Every reason of the code for a row or a value is in the table of docs/reference/reasons.md, and no other."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from sitemap_etl import lastmod, priority, urls
from sitemap_etl.extensions.pages import KINDS
from sitemap_etl.publish.addresses import BARE

ROOT = Path(__file__).parent.parent
PLACES = {"count": 0, "_count": 0, "add": 0, "add_rows": 0, "_note": 1, "drop": 1, "_drop": 1, "_aside": 2, "parsed": 2}
"""Functions that take a reason, and at which place."""
URLS = {"canonical": 0}
"""Functions that take what a URL is of, and add why it is none."""
MODULES = ("extensions", "transform", "lastmod", "priority.py", "partition", "stages")
ANY = "…"


def texts(node: ast.expr, scope: list[ast.AST]) -> set[str]:
    """Return the texts of an expression; unknown parts are `…`. Nothing for a value that is only passed on."""
    if isinstance(node, ast.Constant):
        return {node.value} if isinstance(node.value, str) else set()
    if isinstance(node, ast.JoinedStr):
        found = {""}
        for part in node.values:
            more = {part.value} if isinstance(part, ast.Constant) else inner(part, scope)
            found = {left + right for left in found for right in more}
        return found
    if isinstance(node, ast.Name):
        return set().union(*(texts(value, scope) for value in values_of(node.id, scope)))
    return set()


def inner(part: ast.expr, scope: list[ast.AST]) -> set[str]:
    assert isinstance(part, ast.FormattedValue)
    known = texts(part.value, scope) if part.format_spec is None else set()
    return known or {ANY}


def values_of(name: str, scope: list[ast.AST]) -> Iterator[ast.expr]:
    """Return what is assigned to a name: by `=`, or by a `for` over a literal."""
    for node in (inside for outer in scope for inside in ast.walk(outer)):
        match node:
            case ast.Assign(targets=[ast.Name(id=found)], value=value) if found == name:
                yield value
            case ast.AnnAssign(target=ast.Name(id=found), value=ast.expr() as value) if found == name:
                yield value
            case ast.For(target=target, iter=ast.Tuple(elts=rows)):
                targets = target.elts if isinstance(target, ast.Tuple) else [target]
                for place, one in enumerate(targets):
                    if isinstance(one, ast.Name) and one.id == name:
                        yield from (row.elts[place] if isinstance(row, ast.Tuple) else row for row in rows)


def trees() -> list[ast.Module]:
    tops = [ROOT / "sitemap_etl" / module for module in MODULES]
    paths = [path for top in tops for path in ([top] if top.is_file() else sorted(top.glob("*.py")))]
    return [ast.parse(path.read_text()) for path in paths]


def given() -> set[str]:
    """Return the reasons in the code."""
    found = {*urls.REASONS, *urls.NOTES, *lastmod.REASONS, *priority.REASONS, BARE, "excluded by the source"}
    modules = trees()
    assigned = [node for tree in modules for node in tree.body if isinstance(node, (ast.Assign, ast.AnnAssign))]
    constants = ast.Module([node for node in assigned if re.match(r"[A-Z_]+\b", ast.unparse(node))], [])
    for function in [node for tree in modules for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]:
        for call in [node for node in ast.walk(function) if isinstance(node, ast.Call)]:
            name = getattr(call.func, "attr", getattr(call.func, "id", ""))
            place = {**PLACES, **URLS}.get(name)
            if place is not None and len(call.args) > place:
                said = texts(call.args[place], [function, constants])
                found |= {f"{text}: {ANY}" for text in said} if name in URLS else said
    found |= {f"{kind} {ANY}" for kind in KINDS}
    return found - {ANY, f"{ANY} {ANY}", f"{ANY}: {ANY}", f"{ANY}: too long"}


def documented() -> list[str]:
    return re.findall(r"^\| `([^`]+)` \|", (ROOT / "docs" / "reference" / "reasons.md").read_text(), re.MULTILINE)


def covers(one: str, other: str) -> bool:
    """Return whether a text with `…` matches another."""
    return re.fullmatch(re.escape(one).replace(re.escape(ANY), ".+"), other) is not None


def test_every_reason_in_the_code_is_documented() -> None:
    rows = documented()
    assert [reason for reason in sorted(given()) if not any(covers(row, reason) for row in rows)] == []


def test_every_documented_reason_is_in_the_code() -> None:
    reasons = given()
    rows = documented()
    assert len(rows) == len(set(rows)) > 50
    assert [row for row in rows if not any(covers(row, one) or covers(one, row) for one in reasons)] == []


def test_the_search_for_reasons_in_the_code_is_complete() -> None:
    """Constants, formatted texts, loops and names of other modules."""
    expected = {"deleted", "where", "no key", "image: twice on a page", "news: title is missing", "transform …"}
    assert expected | {"listed already by section …", "video: … is missing"} <= given()
