"""Waiting for other processes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

SHORTEST, LONGEST = 0.02, 1.0
"""Seconds between two questions: a server that is asked all the time has less time for its work."""


def until(what: Callable[[], Any], seconds: float) -> Any:
    """Return the result of `what` as soon as it is true. The delay is at most a quarter of the wait."""
    began = time.monotonic()
    while not (found := what()):
        waited = time.monotonic() - began
        assert waited < seconds, f"not within {seconds} s"
        time.sleep(min(max(waited / 4, SHORTEST), LONGEST))
    return found
