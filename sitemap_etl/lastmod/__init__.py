"""When a page last changed: dates of the source, fingerprints of its content, and the rule that joins them.

A lastmod is published and remembered as text: `YYYY-MM-DD` where the source has a date, `YYYY-MM-DDThh:mm:ssZ` (UTC)
where it has an instant. Both are valid in W3C-DTF and in the XSD, and they sort as they read. Until then it is a
*moment*, a number that sorts alike.
"""

from __future__ import annotations

from .cells import fingerprint
from .dates import REASONS, moments, newest_of, texts, until
from .decision import resolve
from .definition import HASH_VERSION, Kinds, agreed, comparable, kinds, rule_id
from .hours import Minutes

__all__ = [
    "HASH_VERSION",
    "REASONS",
    "Kinds",
    "Minutes",
    "agreed",
    "comparable",
    "fingerprint",
    "kinds",
    "moments",
    "newest_of",
    "resolve",
    "rule_id",
    "texts",
    "until",
]
