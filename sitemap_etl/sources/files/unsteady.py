"""Files that have changed since a run planned to read them, or since they were stored."""

from __future__ import annotations

from sitemap_etl.errors import InvalidSource, Unavailable


def changed(path: str) -> Unavailable:
    """Return the error for a file that has changed since it was planned."""
    return Unavailable(f"{path} changed while it was read: the export may still be under way")


def gone(path: str) -> Unavailable:
    """Return the error for a file that no longer exists."""
    return Unavailable(f"{path} was there when it was planned and is gone: the export may be under way")


def damaged(path: str, why: str) -> InvalidSource:
    """Return the error for an object whose bytes don't match its checksum."""
    return InvalidSource(
        f"{path} is damaged: {why}. Upload it again; if its writer stores wrong checksums, set verify: false on the "
        "export"
    )
