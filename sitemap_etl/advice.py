"""Commands in messages, as a person pastes them into a shell."""

from __future__ import annotations

import shlex
from typing import Final

SITE_FILE: Final = "SITE.yaml"
"""Stands in messages for the site's file, which what raises them does not know."""


def for_file(text: str, site_file: str | None) -> str:
    """Return a message whose commands name the site's file; unchanged if that is not known."""
    return text.replace(SITE_FILE, shlex.quote(site_file)) if site_file else text
