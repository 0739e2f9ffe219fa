"""Check sitemaps of any origin, in a folder, in a bucket or on the web.

`check` reads and compares the files. `Report` holds the findings, `CODES` lists all kinds of findings, and
`render_table` prints a report on a terminal. The package does not depend on site files or state, so it works without
the pipeline.
"""

from __future__ import annotations

from sitemap_etl.check.codes import CODES, Code, Severity
from sitemap_etl.check.crawl import Progress
from sitemap_etl.check.options import Objects, Options
from sitemap_etl.check.policy import Policy, severities
from sitemap_etl.check.report import FileStats, Finding, Report
from sitemap_etl.check.sets import check
from sitemap_etl.check.table import render_table

__all__ = [
    "CODES",
    "Code",
    "FileStats",
    "Finding",
    "Objects",
    "Options",
    "Policy",
    "Progress",
    "Report",
    "Severity",
    "check",
    "render_table",
    "severities",
]
