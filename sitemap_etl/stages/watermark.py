"""How a SELECT that reads changes compares with the time: `:since`, `:now` and the database's own clock.

A row that is not written again is not read again. So a value that depends on the time is stale until all rows are read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Final

import pyarrow as pa
import pyarrow.types as pt

from sitemap_etl.sources.parameters import parts

_TIME: Final = (
    r"(?::now\b|\b(?:now|sysdate|getdate|curdate|curtime|unix_timestamp|utc_\w+|\w+_timestamp)[ \t]*\(|"
    r"\b(?:current_(?:timestamp|date|time)|localtime(?:stamp)?|sysdate)\b|'now')"
)
"""The moment of a read, as `:now` or as one of the databases says it."""
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
    """Return how a SELECT names the time, if it does more than bound a column that it compares with `:since`.

    An upper bound such as `changed >= :since AND changed < :now` is harmless: the next read begins before it. With a
    column, the result is the comparison that `:since` lacks, such as `publish_at <= :now`.
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
    """Return the column without a time of day that a SELECT compares with `:since` as it is, or None.

    `schema`: of the result, which has the column under its name or another one. An overlap of a day is enough.
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
    """Yield the operands that are compared with `:since`. `directly`: only those compared with nothing but it."""
    for found in _SINCE.finditer(text):
        if not directly or re.fullmatch(rf"{re.escape(found['of'])}\s*>=?\s*:since", found[0]):
            yield found["of"]


def _plain(sql: str, dialect: str) -> str:
    """Return the SQL without comments and without texts, except for SQLite's 'now'."""
    kept = []
    for part in parts(sql, dialect):
        is_text = part.kind == "quoted" and part.text.endswith("'")
        if part.kind != "comment":
            kept.append("''" if is_text and part.text.lower() != "'now'" else part.text)
    return "".join(kept)
