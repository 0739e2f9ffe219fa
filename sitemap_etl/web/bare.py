"""`httpx` without its command, which imports rich and pygments and takes a third of the loading time."""

from __future__ import annotations

import sys

_COMMAND = "httpx._main"

sys.modules.setdefault(_COMMAND, None)  # type: ignore[arg-type] # None: not to be found
try:
    import httpx as httpx  # noqa: PLC0414 - for those who import it from here
finally:
    if sys.modules[_COMMAND] is None:
        del sys.modules[_COMMAND]
