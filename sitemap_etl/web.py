"""What the product asks of the web itself."""

from __future__ import annotations

import httpx

SECONDS = 5.0
"""How long the public site is given to answer."""


def public_robots(site: str) -> bytes | None:
    """What the site answers for its robots.txt; None where it has none, or does not answer."""
    try:
        answer = httpx.get(f"{site}/robots.txt", timeout=SECONDS, follow_redirects=True)
    except httpx.HTTPError:
        return None
    return answer.content if answer.status_code == httpx.codes.OK else None
