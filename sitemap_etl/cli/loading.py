"""Loading modules at less cost."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache


@contextmanager
def loading() -> Iterator[None]:
    """Let the garbage collector rest while modules are imported, and leave alone from then on what they made.

    Nearly all of it stays as long as the process. To look through it again and again takes a tenth of a small run.
    """
    gc.disable()
    try:
        yield
    finally:
        _freeze()
        gc.enable()


@cache
def _freeze() -> None:
    """Leave alone what there is, once in a process: garbage of that moment is never collected."""
    gc.freeze()
