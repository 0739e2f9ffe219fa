"""Memory of this process: allocators that keep freed memory, the minimum for a run, and errors for lack of memory.

A run allocates batches, windows and files of similar size again and again. Allocators return freed memory to the
system, which clears it before the next use. Keeping it saves an eighth of the processor time, and uses a fifth more
memory.
"""

from __future__ import annotations

import errno
import os
import resource
from typing import Final

from sitemap_etl.errors import MachineError

_MB: Final = 1_000_000
LEAST_ADDRESS_SPACE: Final = 2_000 * _MB
"""Bytes of address space for a run of two jobs. Allocators and threads reserve far more than they use."""

_ARROW: Final = {
    # Arrow's allocator never gives pages back.
    "MIMALLOC_PURGE_DELAY": "-1",
    # Pages of 2 MB are cleared as a whole, which is dear on machines that share theirs; nothing is the faster for them.
    "MIMALLOC_ALLOW_THP": "0",
}
"""Environment variables that mimalloc reads when pyarrow is imported."""
_LIBC: Final = {-1: 1 << 30, -3: 1 << 25}
"""glibc's `M_TRIM_THRESHOLD` (return memory above) and `M_MMAP_THRESHOLD` (its maximum)."""


def keep_memory() -> None:
    """Configure this process's allocators to keep memory. Must be called before pyarrow is imported.

    Raises MachineError if the address space is too small: threads that can't begin would be waited for without end.
    """
    limit = _limit()
    if limit is not None and limit < LEAST_ADDRESS_SPACE:
        raise MachineError(
            f"Not enough memory: {LEAST_ADDRESS_SPACE // _MB:,} MB of address space are needed at least, and this "
            f"process may use {limit // _MB:,} MB. Raise the limit (ulimit -v)"
        )
    import ctypes

    for variable, said in _ARROW.items():
        os.environ.setdefault(variable, said)
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        for option, value in _LIBC.items():
            mallopt(option, value)


def ran_out(error: BaseException) -> bool:
    """Return True if the error or one of its causes is a lack of memory or threads."""
    seen: BaseException | None = error
    known: set[int] = set()  # an error can be the context of its own cause
    while seen is not None and id(seen) not in known:
        known.add(id(seen))
        if isinstance(seen, MemoryError) or (isinstance(seen, OSError) and seen.errno == errno.ENOMEM):
            return True
        if isinstance(seen, RuntimeError | ImportError) and any(words in str(seen) for words in _NO_MEMORY):
            return True
        seen = seen.__cause__ or seen.__context__
    return False


_NO_MEMORY: Final = (
    "can't allocate",
    "can't start new thread",
    "Cannot allocate memory",
    "cannot allocate memory",
    "cannot create shared object descriptor",
    "failed to map segment",
    "out of memory",
)
"""Words of Python and of the dynamic loader."""


def limit_in_words() -> str:
    """Return the limit of this process's address space as the end of a message, or "" if there is none."""
    limit = _limit()
    return "" if limit is None else f". This process may use {limit // _MB:,} MB of address space (ulimit -v)"


def _limit() -> int | None:
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    return None if soft == resource.RLIM_INFINITY else soft
