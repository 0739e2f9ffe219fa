"""Errors and durations as text."""

from __future__ import annotations

from sitemap_etl.errors import ConfigError, Refused, SitemapEtlError, Unavailable


def message(error: SitemapEtlError) -> str:
    """Return the text of an error with its kind in front."""
    if isinstance(error, ConfigError) and len(error.problems) > 1:
        return "\n".join([f"{len(error.problems)} problems:", *(f"  {problem}" for problem in error.problems)])
    text = str(error)
    if isinstance(error, Unavailable):
        return f"Unavailable: {text}"
    if isinstance(error, Refused) and not text.startswith(("Refused", "Overtaken", "Another run")):
        return f"Refused: {text}"
    return text


def duration(seconds: float) -> str:
    """Return a duration as text, such as 45 s, 12 min or 3 h 20 min."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
