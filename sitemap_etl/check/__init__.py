"""Reading sitemaps back: anyone's, from a folder, a bucket or the net, and every fault they have.

`check` reads and compares, `Report` is what it found, `CODES` all that it can find, `render_table` shows a
report on a terminal. It knows nothing of site files or state: this is the tool for people without our pipeline.
"""

from __future__ import annotations

from sitemap_etl.check.codes import CODES, Code, Severity
from sitemap_etl.check.crawl import Progress
from sitemap_etl.check.options import Objects, Options
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
    "Progress",
    "Report",
    "Severity",
    "check",
    "render_table",
]
