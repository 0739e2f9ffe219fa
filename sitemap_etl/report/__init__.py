"""Reports as self-contained pages: of a run, of all runs of a site, of many sites; runs as metrics.

That of a check is in `check`, which brings along what reads sitemaps: a run needs none of it.
"""

from sitemap_etl.report.index import render_index
from sitemap_etl.report.nights import Around
from sitemap_etl.report.page import render
from sitemap_etl.report.sites import SiteLine, render_note, render_sites

__all__ = ["Around", "SiteLine", "render", "render_index", "render_note", "render_sites"]
