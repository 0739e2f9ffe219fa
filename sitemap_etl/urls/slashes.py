"""The rule for a slash at the end of a path, `urls.slash`, for whole columns of canonical URLs."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from sitemap_etl.urls.patterns import matching
from sitemap_etl.urls.rules import UrlRules

_RULES: Final = {
    "add": (r"^([a-z]+://[^/?]+/[^?]*[^/?])(\?.*)?$", r"\1/\2"),
    "strip": (r"^([a-z]+://[^/?]+/[^?]*[^/?])/+(\?.*)?$", r"\1\2"),
}
"""The URLs that a rule changes, and what they become: path, slash, query. The path `/` is never changed."""
_FILE: Final = r"^[^?]*/[^/?]+\.[0-9]?[A-Za-z][A-Za-z0-9]{0,5}(?:\?|$)"
"""URLs of files: the last segment has an extension, such as `.html`, `.7z` or `.jsonld`. `/v1.2` is none."""


def with_slash_rule(locs: pa.Array, rules: UrlRules) -> pa.Array:
    """Return the canonical URLs with a slash at the end of their paths, or without one, as the rules say.

    Nulls stay. A result can have one character more than the maximum length. `add` leaves files as they are.
    """
    if rules.slash == "keep" or not len(locs):
        return locs
    adds = rules.slash == "add"
    pattern, replacement = _RULES[rules.slash]
    ends = pc.ends_with(locs, "/")
    some = pc.or_(pc.invert(ends) if adds else ends, pc.match_substring(locs, "?")).fill_null(False)
    if not some.true_count:
        return locs
    locs_of_some = locs.filter(some)
    changes = pc.match_substring_regex(locs_of_some, pattern)
    if adds:
        changes = pc.and_not(changes, pc.match_substring_regex(locs_of_some, _FILE))
    if rules.slash_except:
        changes = pc.and_not(changes, matching(locs_of_some, rules.slash_except, "urls.slash_except"))
    if not changes.true_count:
        return locs
    changed = pc.replace_substring_regex(locs_of_some.filter(changes), pattern, replacement)
    return pc.replace_with_mask(locs, some, pc.replace_with_mask(locs_of_some, changes, changed))
