"""Files that are not what they were when a run planned to read them."""

from __future__ import annotations

from sitemap_etl.errors import Unavailable


def changed(path: str) -> Unavailable:
    """The error for a file that is not the one that was planned."""
    return Unavailable(f"{path} changed while it was read: the export may still be under way")


def gone(path: str) -> Unavailable:
    """The error for a file that is no longer there."""
    return Unavailable(f"{path} was there when it was planned and is gone: the export may be under way")
