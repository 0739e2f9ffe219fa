"""Reports as self-contained pages: that of a run, that of all runs of a site, and that of a check; runs as metrics."""

from sitemap_etl.report.check import render_check
from sitemap_etl.report.index import render_index
from sitemap_etl.report.nights import Around
from sitemap_etl.report.page import render

__all__ = ["Around", "render", "render_check", "render_index"]
