"""Moments as text."""

from __future__ import annotations

from datetime import UTC, datetime


def instant(moment: datetime) -> str:
    """YYYY-MM-DDThh:mm:ssZ."""
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
