"""Words that exports, spreadsheets and programs write for a missing value: never the address of a page or an image."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

PLACEHOLDERS: Final = (
    r"\N",  # MySQL, PostgreSQL
    "NULL",
    "(null)",
    "<null>",
    "None",  # Python
    "nan",  # Python and numpy, and the next two pandas
    "NaT",
    "<NA>",
    "undefined",  # JavaScript
    "N/A",
    "#N/A",  # spreadsheets, with the rest
    "#NULL!",
    "#DIV/0!",
    "#VALUE!",
    "#REF!",
    "#NAME?",
    "#NUM!",
)
"""In any case. docs/reference/urls.md lists the same words."""
_LOWER: Final = frozenset(word.lower() for word in PLACEHOLDERS)
_LONGEST: Final = max(map(len, PLACEHOLDERS))
_VALUES: Final = pa.array(sorted(_LOWER), pa.string())


def is_placeholder(text: str) -> bool:
    """Return whether a text without blanks around it is one of the words."""
    return len(text) <= _LONGEST and text.lower() in _LOWER


def find_placeholders(texts: pa.Array, lengths: np.ndarray, among: np.ndarray) -> np.ndarray:
    """Return the rows that are one of the words: a mask (bool), one a row.

    `texts`: string or large_string. `lengths`: their bytes. `among`: the rows to look at (bool).
    """
    short = among & (lengths <= _LONGEST)
    if short.any():
        rows = texts.filter(pa.array(short)).cast(pa.string())
        short[short] = np.asarray(pc.is_in(pc.ascii_lower(rows), value_set=_VALUES))
    return short
