"""When a page last changed: dates of the source, fingerprints of its content, and the rule that joins them.

A lastmod is text everywhere: `YYYY-MM-DD` where the source has a date, `YYYY-MM-DDThh:mm:ssZ` (UTC)
where it has an instant. Both are valid in W3C-DTF and in the XSD, and they sort as they read.
"""

from __future__ import annotations

from .cells import fingerprint
from .dates import REASONS, from_column, newest_of, until
from .decision import resolve
from .definition import HASH_VERSION, Kinds, agreed, comparable, kinds, rule_id

__all__ = [
    "HASH_VERSION",
    "REASONS",
    "Kinds",
    "agreed",
    "comparable",
    "fingerprint",
    "from_column",
    "kinds",
    "newest_of",
    "resolve",
    "rule_id",
    "until",
]
