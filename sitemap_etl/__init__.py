"""Build sitemaps from a catalogue, publish them and notify search engines."""

__version__ = "0.1.0"
__contact__ = "https://sitemap-etl.example/check"
"""Where someone who finds our requests in a log can read what they are for.

A placeholder: names under `example` are reserved and lead nowhere. `check --user-agent` names whoever asks instead.
"""
