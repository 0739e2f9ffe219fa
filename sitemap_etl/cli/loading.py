"""Loading modules at less cost."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def loading() -> Iterator[None]:
    """Let the garbage collector rest while modules are imported, and leave alone from then on what they made.

    Nearly all of it stays as long as the process. To look through it again and again takes a tenth of a small run.
    """
    gc.disable()
    try:
        yield
    finally:
        if not gc.get_freeze_count():  # once in a process: what is garbage by then is never collected
            gc.freeze()
        gc.enable()
