"""hreflang values: the subset of BCP 47 that Google supports.

An ISO 639-1 language, optionally with an ISO 15924 script and an ISO 3166-1 country, or x-default
(https://developers.google.com/search/docs/specialty/international/localized-versions). A country alone, `es-419`, `EU`,
`UN`, `UK` and three-letter languages are not supported.
"""

from __future__ import annotations

import re
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sitemap_etl.arrow import is_list, mask_of, plain
from sitemap_etl.extensions import nested, texts
from sitemap_etl.extensions.codes import COUNTRIES, LANGUAGES, SCRIPTS
from sitemap_etl.extensions.nested import Elements
from sitemap_etl.frames import EXAMPLES, Tally

X_DEFAULT: Final = "x-default"
REASON: Final = "alternate: hreflang is no language that Google takes"
_TAG: Final = re.compile(r"([a-z]{2})(?:[-_]([a-z]{4}))?(?:[-_]([a-z]{2}))?", re.IGNORECASE | re.ASCII)


def hreflang_tag(text: str) -> str | None:
    """Return the tag in its usual case (`en`, `zh-Hant-TW`, `x-default`), or None if Google doesn't support it.

    Case doesn't matter, and `_` is read as `-`, as in locale names of many systems.
    """
    text = text.strip()
    if text.lower().replace("_", "-") == X_DEFAULT:
        return X_DEFAULT
    match = _TAG.fullmatch(text)
    if match is None:
        return None
    language, script, country = match[1].lower(), (match[2] or "").title(), (match[3] or "").upper()
    if language not in LANGUAGES or (script and script not in SCRIPTS) or (country and country not in COUNTRIES):
        return None
    return "-".join(part for part in (language, script, country) if part)


def hreflang_tags(values: pa.Array | pa.ChunkedArray, tally: Tally) -> pa.Array:
    """Return the `hreflang_tag` of each text, null if it has none. Invalid texts are counted; blanks and nulls are not.

    Each distinct text is parsed once.
    """
    encoded = texts.cleaned(plain(values)).dictionary_encode()
    distinct = encoded.dictionary.to_pylist()
    tags = pa.array([hreflang_tag(text) for text in distinct], pa.string())
    if tags.null_count:
        counts = pc.value_counts(encoded.indices.drop_null())
        bad = {
            code: n
            for code, n in zip(*(counts.field(at).to_pylist() for at in (0, 1)), strict=True)
            if not tags[code].is_valid
        }
        tally.add(REASON, sum(bad.values()), [distinct[code] for code in sorted(bad)[:EXAMPLES]])
    return tags.take(encoded.indices)


def hreflang_lists(column: pa.Array | pa.ChunkedArray, tally: Tally) -> pa.Array:
    """Return the tags of each row: list<string>, null if a row has none.

    `column`: text with one tag, or a list of texts, native or JSON. Invalid tags are removed and counted.
    """
    values = plain(column)
    found = nested.elements(values) if is_list(values.type) else _one_each(texts.cleaned(values), tally)
    tags = hreflang_tags(found.values, tally)
    found = Elements(found.owner, tags, found.rows)
    return found.where(mask_of(pc.is_valid(tags))).to_lists(pa.list_(pa.string()))


def _one_each(values: pa.Array, tally: Tally) -> Elements:
    """Return the tags of rows of text. Each text is one tag or a JSON list."""
    as_json = pc.fill_null(pc.starts_with(values, "["), fill_value=False)
    if not pc.any(as_json).as_py():
        return Elements(np.arange(len(values)), values, len(values))
    lists = nested.parsed(pc.if_else(as_json, values, pa.scalar(None, pa.string())), tally, REASON)
    rows = [
        [tag for tag in found if isinstance(tag, str)] if isinstance(found, list) else [text] if text else []
        for found, text in zip(
            lists, pc.if_else(as_json, pa.scalar(None, pa.string()), values).to_pylist(), strict=True
        )
    ]
    return nested.flattened(rows, texts.spelled)
