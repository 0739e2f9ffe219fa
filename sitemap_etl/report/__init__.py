"""The report of a run: its summary as one self-contained page."""

from sitemap_etl.report.page import render

__all__ = ["render"]
