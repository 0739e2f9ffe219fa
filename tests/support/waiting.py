"""Waiting for what other processes do."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any


def until(what: Callable[[], Any], seconds: float) -> Any:
    """What `what` gives, as soon as it is true."""
    deadline = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < deadline, f"not within {seconds} s"
        time.sleep(0.05)
    return found
