"""The rule for a slash at the end of a path, `urls.slash`, for whole columns of canonical URLs."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from sitemap_etl.urls.patterns import matching
from sitemap_etl.urls.rules import UrlRules

_RULES: Final = {
    "add": (r"^([a-z]+://[^/?]+/[^?]*[^/?])(\?.*)$", r"\1/\2"),
    "strip": (r"^([a-z]+://[^/?]+/[^?]*[^/?])/+(\?.*)$", r"\1\2"),
}
"""The URLs with a query that a rule changes, and their new form. The path `/` is never changed."""
_EXTENSION: Final = r"[^/?]\.[0-9]?[A-Za-z][A-Za-z0-9]{0,5}"
"""End of a file's path, such as `.html`, `.7z` or `.jsonld`. `/v1.2` is not a file."""
_EXTENSION_LENGTH: Final = 9


def with_slash_rule(locs: pa.Array, rules: UrlRules) -> pa.Array:
    """Return the canonical URLs with a slash at the end of their paths, or without one, as the rules say.

    Nulls stay. A result can have one character more than the maximum length. `add` leaves files as they are.
    """
    if rules.slash == "keep" or not len(locs):
        return locs
    queries = pc.match_substring(locs, "?").fill_null(False)
    ends = pc.ends_with(locs, "/")
    paths = pc.and_not((pc.invert(ends) if rules.slash == "add" else ends).fill_null(False), queries)
    for mask, form in ((paths, _paths), (queries, _queries)):
        if mask.true_count:
            some = locs.filter(mask)
            changes, changed = form(some, rules.slash)
            if rules.slash_except:
                changes = pc.and_not(changes, matching(some, rules.slash_except, "urls.slash_except"))
            locs = pc.replace_with_mask(locs, mask, pc.if_else(changes, changed, some))
    return locs


def _paths(locs: pa.Array, slash: str) -> tuple[pa.BooleanArray, pa.Array]:
    """Return a mask of the URLs to change, and their new form. `locs`: without a query, in the other form."""
    if slash == "add":
        ends = pc.utf8_slice_codeunits(locs, -_EXTENSION_LENGTH)
        return pc.invert(pc.match_substring_regex(ends, f"{_EXTENSION}$")), pc.binary_join_element_wise(locs, "/", "")
    stripped = pc.ascii_rtrim(locs, "/")
    return pc.match_substring_regex(stripped, "^[a-z]+://[^/]+/"), stripped


def _queries(locs: pa.Array, slash: str) -> tuple[pa.BooleanArray, pa.Array]:
    """Return a mask of the URLs to change, and their new form. `locs`: with a query."""
    pattern, replacement = _RULES[slash]
    changes = pc.match_substring_regex(locs, pattern)
    if slash == "add":
        changes = pc.and_not(changes, pc.match_substring_regex(locs, rf"^[^?]*{_EXTENSION}\?"))
    return changes, pc.replace_substring_regex(locs, pattern, replacement)
