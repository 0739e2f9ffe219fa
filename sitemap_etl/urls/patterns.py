"""Patterns as robots.txt has them, matched against whole columns of canonical URLs.

A pattern is matched from the beginning of the path and goes on into the query. "*" stands for any
characters, also none; a "$" at the end anchors it there; without it, a pattern matches all that begins
with it (RFC 9309 section 2.2.3). Everything else stands for itself, in canonical spelling.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sitemap_etl.arrow import joined
from sitemap_etl.errors import ConfigError
from sitemap_etl.frozen import Frozen
from sitemap_etl.urls.spelling import spell

_TOGETHER: Final = 10_000
"""Characters of expressions that are matched at once."""


class Expression(Frozen):
    """All paths that begin with `prefix` and where `rest`, an RE2 expression, matches what follows."""

    prefix: str
    rest: str = ""


def check_pattern(pattern: str) -> str:
    """Return the pattern in canonical spelling. Raise `ValueError` with the expected form."""
    if not pattern.startswith(("/", "*")):
        raise ValueError(f'{pattern!r} must begin with "/" or "*": a pattern is matched from the beginning of the path')
    if any(ord(c) < 0x20 for c in pattern):
        raise ValueError(f"{pattern!r} contains a control character")
    body, end = (pattern[:-1], "$") if pattern.endswith("$") else (pattern, "")
    return spell(body) + end


def excluded(locs: pa.Array | pa.ChunkedArray, patterns: Sequence[str]) -> pa.BooleanArray:
    """Return a mask of the canonical URLs that a pattern of `urls.exclude` matches. False for nulls.

    Raise `ConfigError` naming the patterns that are none.
    """
    problems, expressions = [], []
    for pattern in patterns:
        try:
            expressions.append(_expression(check_pattern(pattern)))
        except ValueError as error:
            problems.append(f"urls.exclude: {error}")
    if problems:
        raise ConfigError(problems)
    return matched(locs, expressions)


def _expression(pattern: str) -> Expression:
    body, end = (pattern[:-1], "$") if pattern.endswith("$") else (pattern, "")
    first, *others = re.sub(r"\*+", "*", body).split("*")
    rest = "".join(".*" + re.escape(other) for other in others)
    return Expression(first, rest + end if end else rest.removesuffix(".*"))


def matched(locs: pa.Array | pa.ChunkedArray, expressions: Iterable[Expression]) -> pa.BooleanArray:
    """Return a mask of the canonical URLs whose path and query one of the expressions matches. False for nulls."""
    if isinstance(locs, pa.ChunkedArray):
        expressions = tuple(expressions)
        parts = [matched(chunk, expressions) for chunk in locs.chunks]
        return joined(parts, pa.bool_())
    hits = pa.array(np.zeros(len(locs), np.bool_))
    origin = _origin_of_all(locs)
    if origin is None:  # hosts differ
        locs, origin = pc.replace_substring_regex(locs, "^https?://[^/]*", ""), ""
    everywhere = []
    for expression in dict.fromkeys(expressions):
        regex = re.escape(expression.prefix) + expression.rest
        if expression.rest and expression.prefix in {"", "/"}:
            everywhere.append(regex)
            continue
        begins = pc.starts_with(locs, pattern=origin + expression.prefix).fill_null(False)
        if expression.rest and begins.true_count:
            exact = pc.match_substring_regex(locs.filter(begins), f"^{re.escape(origin)}{regex}")
            begins = pc.replace_with_mask(begins, begins, exact)
        hits = pc.or_(hits, begins)
    for some in _grouped(everywhere):
        regex = f"^{re.escape(origin)}(?:{'|'.join(some)})"
        hits = pc.or_(hits, pc.match_substring_regex(locs, regex).fill_null(False))
    return hits


def _grouped(regexes: Sequence[str]) -> Iterator[list[str]]:
    """Yield the expressions in groups that RE2 can match at once: it refuses larger ones."""
    group: list[str] = []
    for regex in regexes:
        if group and sum(map(len, group)) + len(regex) > _TOGETHER:
            yield group
            group = []
        group.append(regex)
    if group:
        yield group


def _origin_of_all(locs: pa.Array) -> str | None:
    """Return the origin that all rows have, or None."""
    first = pc.index(locs.is_valid(), True).as_py()
    if first < 0:
        return ""
    loc = locs[first].as_py()
    origin = loc[: loc.index("/", loc.index("//") + 2)]
    alike = pc.all(pc.starts_with(locs, pattern=origin + "/"), min_count=0).as_py()
    return origin if alike else None
