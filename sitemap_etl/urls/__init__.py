"""Canonical URLs: the form in which a loc is listed, or the reason why it is not.

`canonicalize` and `excluded` work on columns; `canonical_url` and `origin` on one URL. The rules, for
users, are in docs/reference/urls.md.
"""

from sitemap_etl.urls.columns import Canonical, as_joined, as_listed, canonical_urls, canonicalize, merge_foreign
from sitemap_etl.urls.notes import NOTES, made_of_no_address, noted, suspected
from sitemap_etl.urls.parameters import SESSION_FAMILIES, SESSIONS, TRACKING, TRACKING_FAMILIES
from sitemap_etl.urls.patterns import check_pattern, excluded
from sitemap_etl.urls.placeholders import PLACEHOLDERS, is_placeholder
from sitemap_etl.urls.rules import NO_ADDRESSES, REASONS, STRIP, UrlRules
from sitemap_etl.urls.spelling import canonical_url, origin

__all__ = [
    "NOTES",
    "NO_ADDRESSES",
    "PLACEHOLDERS",
    "REASONS",
    "SESSIONS",
    "SESSION_FAMILIES",
    "STRIP",
    "TRACKING",
    "TRACKING_FAMILIES",
    "Canonical",
    "UrlRules",
    "as_joined",
    "as_listed",
    "canonical_url",
    "canonical_urls",
    "canonicalize",
    "check_pattern",
    "excluded",
    "is_placeholder",
    "made_of_no_address",
    "merge_foreign",
    "noted",
    "origin",
    "suspected",
]
