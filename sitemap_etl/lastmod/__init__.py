"""Lastmods: dates of the source, fingerprints of content, and the rule that combines them.

A lastmod is published and stored as text: `YYYY-MM-DD` if the source has a date, `YYYY-MM-DDThh:mm:ssZ` (UTC) if it has
an instant. Both are valid in W3C-DTF and in the XSD, and their text order is their order in time. Until rendering, a
lastmod is a *moment*, a number with the same order.
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
