"""The report of a run: its summary as one page, complete in itself."""

from sitemap_etl.report.page import render

__all__ = ["render"]
