"""Comparisons with the time in a SELECT that reads changes: `:since`, `:now` and the database's own clock.

A row that is not written again is not read again. So a value that depends on the time is stale until all rows are read.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Final

import pyarrow as pa
import pyarrow.types as pt

from sitemap_etl.frozen import Frozen
from sitemap_etl.sources.parameters import parts

_TIME: Final = (
    r"(?::now\b|\b(?:now|sysdate|getdate|curdate|curtime|unix_timestamp|utc_\w+|\w+_timestamp)[ \t]*\(|"
    r"\b(?:current_(?:timestamp|date|time)|localtime(?:stamp)?|sysdate)\b|'now')"
)
"""The time of a read: `:now`, or a function of a database."""
_WORD: Final = r"(?:\w+|\"[^\"]*\"|`[^`]*`|\[[^\]]*\])"
_OPERAND: Final = rf"(?:{_WORD}\.)*{_WORD}(?:\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))?"
_ANY_TIME: Final = re.compile(_TIME, re.IGNORECASE)
_SINCE: Final = re.compile(
    rf"(?P<of>{_OPERAND})\s*(?:>=?|\bBETWEEN\b)\s*(?:(?!\b(?:AND|OR)\b|[<>=]).)*?:since\b", re.IGNORECASE | re.DOTALL
)
_DUE: Final = re.compile(rf"(?P<of>{_OPERAND})\s*<=?\s*(?:\w+\s*\(\s*)?{_TIME}", re.IGNORECASE)
_BETWEEN: Final = re.compile(rf"\bBETWEEN\b[^<>=]*?:since\b[^<>=]*?\bAND\s+(?:\w+\s*\(\s*)?{_TIME}", re.IGNORECASE)
_DAY: Final = timedelta(days=1)


def other_use_of_time(sql: str, dialect: str) -> str | None:
    """Return how a SELECT uses the time beyond an upper bound for the column that it compares with `:since`, or None.

    An upper bound such as `changed >= :since AND changed < :now` is harmless: the next read starts before it. With a
    column, the result is the comparison without a `:since`, such as `publish_at <= :now`.
    """
    text = _plain(sql, dialect)
    for operand in watermarks(text):
        bounded = rf"{re.escape(operand)}\s*<=?\s*(?:\w+\s*\(\s*)?{_TIME}"
        text = re.sub(bounded, "", text, flags=re.IGNORECASE)
    text = _BETWEEN.sub("", text)
    found = _DUE.search(text) or _ANY_TIME.search(text)
    return None if found is None else " ".join(found[0].split()).rstrip("( ")


def also_due(use: str) -> str:
    """Return the condition that reads rows again when the time passes their date. `use`: as `other_use_of_time`."""
    found = _DUE.fullmatch(use + "(") or _DUE.fullmatch(use)
    return f"OR {'publish_at' if found is None else found['of']} BETWEEN :since AND :now"


def dated_by_day(sql: str, dialect: str, schema: pa.Schema, overlap: timedelta) -> str | None:
    """Return the column without a time of day that a SELECT compares with `:since` directly, or None.

    `schema`: columns of the result, under the same or another name. With an overlap of a day the result is None.
    """
    if overlap >= _DAY:
        return None
    text = _plain(sql, dialect)
    days = {entry.name.casefold() for entry in schema if pt.is_date(entry.type)}
    for operand in watermarks(text, directly=True):
        name = re.split(r"\.", operand)[-1].strip('"`[]')
        shown = re.findall(rf"{re.escape(operand)}\s+AS\s+({_WORD})", text, re.IGNORECASE)
        if not days.isdisjoint(one.strip('"`[]').casefold() for one in (name, *shown)):
            return operand
    return None


def watermarks(text: str, *, directly: bool = False) -> Iterator[str]:
    """Yield the operands that are compared with `:since`. `directly`: only comparisons with nothing but `:since`."""
    for found in _SINCE.finditer(text):
        if not directly or re.fullmatch(rf"{re.escape(found['of'])}\s*>=?\s*:since", found[0]):
            yield found["of"]


class Unseen(Frozen):
    """Rows that a SELECT never yields, because the column that it compares with `:since` is NULL.

    `column`: that column, or expression. `count`: a SELECT of their number, in one row. `line`: the condition that
    yields them, too.
    """

    column: str
    count: str
    line: str


def find_unseen(sql: str, dialect: str) -> Unseen | None:
    """Return how a SELECT that compares a column with `:since` can be asked for the rows that it never yields.

    None if no comparison is recognised, or if the SELECT has the condition already.
    """
    text = _masked(sql, dialect)
    found = [one for match in re.finditer(r":since\b", text) if (one := _comparison(text, match.start())) is not None]
    missing = [one for one in found if not _asks_for_null(text, one.operand)]
    if not missing:
        return None
    alone = len(found) == 1 and re.search(r"\bOR\b", text, re.IGNORECASE) is None
    bounds = _upper_bounds(text, missing[0].operand) if alone else ()
    replaced = sorted({(one.start, one.stop): one for one in (*missing, *bounds)}.values(), key=lambda one: one.start)
    if any(one.stop > other.start for one, other in itertools.pairwise(replaced)):
        return None
    more = _replaced(sql, replaced, "{operand} IS NULL" if alone else "({comparison} OR {operand} IS NULL)")
    count = f"SELECT count(*) FROM ({more}\n) unseen"  # noqa: S608 - the site's own SELECT; values are bound
    if not alone:
        count = f"SELECT ({count}) - (SELECT count(*) FROM ({sql}\n) seen)"  # noqa: S608 - as above
    first = missing[0]
    comparison, column = (" ".join(part.split()) for part in (sql[first.start : first.stop], first.text_of(sql)))
    return Unseen(column, f"SELECT ({count}) AS unseen", f"({comparison} OR {column} IS NULL)")


class _Comparison(Frozen):
    """Position of a comparison in a SELECT. `operand`: the position and text of its column."""

    start: int
    stop: int
    place: tuple[int, int]
    operand: str

    def text_of(self, sql: str) -> str:
        """Return the column as the SELECT writes it."""
        return sql[slice(*self.place)]


_TOKEN: Final = re.compile(
    r"[()]|<=|>=|<>|!=|[<>=,;]|\b(?:AND|OR|NOT|BETWEEN|SELECT|FROM|WHERE|HAVING|QUALIFY|ON|CASE|WHEN|THEN|ELSE|END|GROUP|"
    r"ORDER|LIMIT|OFFSET|FETCH|UNION|EXCEPT|INTERSECT|WINDOW|FOR|JOIN|LEFT|RIGHT|INNER|FULL|CROSS|AS)\b",
    re.IGNORECASE,
)
_Token = tuple[int, int, str]
_COMPARING: Final = frozenset({"<", "<=", ">", ">=", "BETWEEN"})


def _comparison(text: str, at: int) -> _Comparison | None:
    """Return the comparison that a `:since` is the lower bound of; it can stand in calls, such as `date(:since)`."""
    tokens = [(match.start(), match.end(), match[0].upper()) for match in _TOKEN.finditer(text)]
    before = [token for token in tokens if token[0] < at]
    while True:
        start, operator = _leftward(before)
        stop, behind = _rightward(tokens, at, len(text), between=operator is not None and operator[2] == "BETWEEN")
        if operator is not None and operator[2] in (">", ">=", "BETWEEN"):
            return _made(text, start, stop, (start, operator[0]))
        if operator is None and behind is not None and behind[2] in ("<", "<="):
            return _made(text, start, stop, (behind[1], stop))
        if operator is not None or not start or text[start - 1] != "(":
            return None
        # The bound stands in parentheses: a call, or a cast.
        before = [token for token in before if token[1] < start]
        at = _closing(tokens, at)


def _made(text: str, start: int, stop: int, place: tuple[int, int]) -> _Comparison | None:
    start, stop = _trimmed(text, start, stop)
    place = _trimmed(text, *place)
    operand = " ".join(text[slice(*place)].split())
    return _Comparison(start, stop, place, operand) if operand else None


def _trimmed(text: str, start: int, stop: int) -> tuple[int, int]:
    """Return the same place without blanks at its ends."""
    part = text[start:stop]
    return start + len(part) - len(part.lstrip()), stop - len(part) + len(part.rstrip())


def _closing(tokens: list[_Token], at: int) -> int:
    """Return the place after the parentheses around a place."""
    depth = 0
    for start, stop, sign in tokens:
        if start >= at:
            depth += (sign == "(") - (sign == ")")
            if depth < 0:
                return stop
    return at


def _leftward(tokens: list[_Token]) -> tuple[int, _Token | None]:
    """Return the start of the expression whose left side these tokens are, and the comparison in it."""
    depth, operator = 0, None
    for token in reversed(tokens):
        if token[2] == ")":
            depth += 1
        elif token[2] == "(":
            if not depth:
                return token[1], operator
            depth -= 1
        elif not depth and token[2] in _COMPARING:
            operator = operator or token
        elif not depth and token[2] != "AS":
            return token[1], operator
    return 0, operator


def _rightward(tokens: list[_Token], at: int, end: int, *, between: bool = False) -> tuple[int, _Token | None]:
    """Return the end of an expression that continues at a position, and the comparison in it."""
    depth, operator = 0, None
    for token in tokens:
        if token[0] < at:
            continue
        if token[2] == "(":
            depth += 1
        elif token[2] == ")":
            if not depth:
                return token[0], operator
            depth -= 1
        elif not depth and token[2] in _COMPARING:
            operator = operator or token
        elif not depth and token[2] == "AND" and between:
            between = False
        elif not depth and token[2] != "AS":
            return token[0], operator
    return end, operator


def _upper_bounds(text: str, operand: str) -> Iterator[_Comparison]:
    """Yield the comparisons of an operand with something that it is less than."""
    pattern = r"(?<![\w.])" + r"\s*".join(map(re.escape, operand.split())) + r"\s*<=?(?!>)"
    tokens = [(match.start(), match.end(), match[0].upper()) for match in _TOKEN.finditer(text)]
    for match in re.finditer(pattern, text, re.IGNORECASE):
        stop, _ = _rightward(tokens, match.end(), len(text))
        found = _made(text, match.start(), stop, (match.start(), match.start() + len(operand)))
        if found is not None:
            yield found


def _asks_for_null(text: str, operand: str) -> bool:
    """Return True if a SELECT has `operand IS NULL` somewhere."""
    pattern = r"(?<![\w.])" + r"\s*".join(map(re.escape, operand.split())) + r"\s+IS\s+NULL\b"
    return re.search(pattern, text, re.IGNORECASE) is not None


def _replaced(sql: str, comparisons: list[_Comparison], form: str) -> str:
    """Return the SELECT with other conditions in place of these comparisons, which are in order."""
    out, at = [], 0
    for one in comparisons:
        operand = one.text_of(sql)
        out += [sql[at : one.start], form.format(operand=operand, comparison=sql[one.start : one.stop])]
        at = one.stop
    return "".join([*out, sql[at:]])


def _masked(sql: str, dialect: str) -> str:
    """Return the SQL with blanks for comments and quoted text, so that all positions stay the same."""
    kept = []
    for part in parts(sql, dialect):
        if part.kind == "comment":
            kept.append(re.sub(r"[^\n]", " ", part.text))
        elif part.kind == "quoted" and len(part.text) > 1:
            kept.append(part.text[0] + re.sub(r"\W", "_", part.text[1:-1]) + part.text[-1])
        else:
            kept.append(part.text)
    return "".join(kept)


def _plain(sql: str, dialect: str) -> str:
    """Return the SQL without comments and text literals, except SQLite's 'now'."""
    kept = []
    for part in parts(sql, dialect):
        is_text = part.kind == "quoted" and part.text.endswith("'")
        if part.kind != "comment":
            kept.append("''" if is_text and part.text.lower() != "'now'" else part.text)
    return "".join(kept)
