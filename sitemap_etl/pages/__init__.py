"""Visit a sample of the pages that a sitemap lists, and judge each answer.

`sampled` draws a reproducible sample. `Visitor` requests the pages politely and judges them. `Share` estimates the
share of the whole from a sample. The package does not depend on sitemaps, site files or state. `check` and the publish
stage both use it.
"""

from __future__ import annotations

from sitemap_etl.pages.agents import CRAWLERS, OURSELVES, Agent
from sitemap_etl.pages.judgement import FAULTS, Fault, Kind, is_refusal
from sitemap_etl.pages.sample import Share, sampled
from sitemap_etl.pages.visit import Visit, Visitor, visits

__all__ = [
    "CRAWLERS",
    "FAULTS",
    "OURSELVES",
    "Agent",
    "Fault",
    "Kind",
    "Share",
    "Visit",
    "Visitor",
    "is_refusal",
    "sampled",
    "visits",
]
