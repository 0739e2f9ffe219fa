"""Reports as self-contained pages: that of a run, and that of a check."""

from sitemap_etl.report.check import render_check
from sitemap_etl.report.page import render

__all__ = ["render", "render_check"]
