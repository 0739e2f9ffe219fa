"""One column of a sample, and properties of its values.

A sample has at most 1,000 rows, so values are examined one by one.
"""

from __future__ import annotations

import json
import re
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from sitemap_etl.arrow import is_list, is_text
from sitemap_etl.extensions import literals
from sitemap_etl.extensions.nested import Elements
from sitemap_etl.extensions.separated import separated
from sitemap_etl.urls.placeholders import is_placeholder

MOST: Final = 0.8
"""Share of the values that must match for a column to be of a kind."""
ENOUGH: Final = 20
"""Rows from which the same date in all of them is not a coincidence."""
_IMAGE: Final = re.compile(
    r"(?:https?://|/(?!/))[^\s\"]+\.(?:jpe?g|png|gif|webp|avif|svg|bmp|tiff?)(?:[?#][^\s\"]*)?", re.IGNORECASE
)
_LITERAL: Final = re.compile(literals.BEGINS)
_CODE: Final = re.compile(r"\S{1,64}")
_LONGEST: Final = 10_000
"""Characters of a text that are examined: more than any useful address or list of images."""
_FLAG_WORDS: Final = frozenset(
    [
        "0",
        "1",
        "true",
        "false",
        "t",
        "f",
        "yes",
        "no",
        "y",
        "n",
        "ja",
        "nein",
        "j",
        "oui",
        "non",
        "si",
        "active",
        "inactive",
        "aktiv",
        "inaktiv",
        "published",
        "draft",
        "live",
        "hidden",
        "visible",
        "deleted",
        "online",
        "offline",
        "archived",
        "enabled",
        "disabled",
    ]
)
_FLAG_VALUES: Final = 8


class Column:
    """The values of a column, and their apparent kind."""

    def __init__(self, name: str, values: pa.Array) -> None:
        self.name = name
        self.values = values
        self.texts = [text for text in texts_of(values) if not is_placeholder(text)]
        self.filled = len(self.texts) if is_text(values.type) else len(values) - values.null_count
        self.distinct = len(set(self.texts)) / max(len(self.texts), 1)

    @property
    def is_same(self) -> bool:
        """True if all rows have one value, and there are enough rows."""
        return len(self.values) >= ENOUGH and len(self.values.drop_null().unique()) == 1

    def share(self, pattern: re.Pattern[str]) -> float:
        """Return the share of texts that match the pattern completely."""
        return sum(pattern.fullmatch(text) is not None for text in self.texts) / max(len(self.texts), 1)

    @property
    def images(self) -> float:
        """Share of values that are an image's URL, or a list of such URLs."""
        plain = [text for text in self.texts if not _LITERAL.match(text)]
        found = separated(Elements(np.arange(len(plain)), pa.array(plain, pa.string()), len(plain)))
        urls_of = zip(found.owner.tolist(), found.values.to_pylist(), strict=True)
        bad = {row for row, url in urls_of if not _is_image(url)}
        lists = [_elements(text) for text in self.texts if _LITERAL.match(text)]
        good = len(plain) - len(bad) + sum(bool(urls) and all(map(_is_image, urls)) for urls in lists)
        return good / max(len(self.texts), 1)

    @property
    def is_key(self) -> bool:
        """True if every row has a different value: an integer, or a text without whitespace."""
        kind = self.values.type
        plain = pt.is_integer(kind) or (pt.is_string(kind) and self.share(_CODE) == 1)
        return plain and not self.values.null_count and len(self.values.unique()) == len(self.values) > 1

    @property
    def is_flag(self) -> bool:
        """True if the column can tell which rows are pages: booleans, or few words with a typical one among them."""
        kind = self.values.type
        if pt.is_boolean(kind):
            return True
        if not (is_text(kind) or pt.is_integer(kind)):
            return False
        distinct = self.values.drop_null().unique()
        if not 1 <= len(distinct) <= _FLAG_VALUES:
            return False
        words = {str(value).strip().lower() for value in distinct.to_pylist()}
        return len(words) * 2 <= len(self.values) and (words <= {"0", "1"} or bool(words & (_FLAG_WORDS - {"0", "1"})))


def texts_of(values: pa.Array) -> list[str]:
    """Return the non-blank texts of a column. Lists are returned as JSON; other types have no texts."""
    kind = values.type
    if is_list(kind):
        return [json.dumps(value, default=str) for value in values.drop_null().to_pylist() if value]
    if not is_text(kind):
        return []
    found = (v.decode("utf-8", "replace") if isinstance(v, bytes) else v for v in values.drop_null().to_pylist())
    return [text.strip()[:_LONGEST] for text in found if text.strip()]


def _is_image(url: str) -> bool:
    return _IMAGE.fullmatch(url) is not None


def _elements(text: str) -> list[str]:
    """Return the texts of a list that is written as text."""
    try:
        found = literals.value_of(text)
    except (ValueError, RecursionError):
        return []
    several = found if isinstance(found, list) else [found]
    return [str(one.get("loc", "")) if isinstance(one, dict) else str(one) for one in several]
