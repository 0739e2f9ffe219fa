"""Visiting pages that a sitemap lists: a sample that can be drawn again, and what became of each page.

`sampled` draws, `Visitor` asks politely and judges, `Share` says how far a sample speaks for all. Nothing here knows of
sitemaps, site files or state: `check` and the publish stage both use it.
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
