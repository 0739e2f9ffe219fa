"""Build sitemaps from a catalog, publish them and notify search engines."""

__version__ = "0.1.0"
