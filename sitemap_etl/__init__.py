"""Build sitemaps from a catalogue, publish them and notify search engines."""

__version__ = "0.1.0"
