"""Limits of exports. Beyond them, memory or time would grow without bound, so the file is refused."""

from __future__ import annotations

from sitemap_etl import limits
from sitemap_etl.errors import InvalidSource


def check_columns(path: str, count: int) -> None:
    """Raise InvalidSource if an export has too many columns."""
    if count > limits.EXPORT_COLUMNS:
        raise InvalidSource(
            f"{path} has {count:,} columns: at most {limits.EXPORT_COLUMNS:,} can be read. Export only those that the "
            "section needs"
        )
