"""The command: options, exit codes, and nothing else. `main` is the entry point.

0 success · 1 refused, or `check` found problems · 2 invalid site file or usage · 3 something did not
answer, and trying again may help · 65 damaged state · 70 a defect of sitemap-etl · 130 interrupted.

app                          the commands by name
runs, sites, state, status, sitemaps, upkeep  the commands
options, values, pages       shared options; types of values; groups and help pages
output                       everything that is printed, and its encoding
completion                   completion by a shell
show, plan, explain, columns printed results
progress, bars, logs         progress on stderr: lines, bars on a terminal, lines of JSON
loading                      what is imported, at less cost
endings, interruption, streams  errors as messages and exit codes; Ctrl-C; output that nobody reads
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import sys
from collections.abc import Sequence
from typing import NoReturn


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command and exit with its code. `arguments`: those of the process by default."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    # Looking for plugins of pydantic, pydantic reads the metadata of every package that is installed.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    # No matrix is multiplied here, and the threads that wait for one to be are busy waiting when they begin.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        from sitemap_etl.cli.endings import run

        code = run(given)
    except KeyboardInterrupt:  # before there was anything to interrupt
        code = _interrupted(given)
    finally:
        signal.signal(signal.SIGTERM, before)
        atexit.unregister(_end)
        atexit.register(_end)
    sys.exit(code)


def _end() -> None:
    """Let no signal change the exit code of a process that has nothing left to do but to end."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)


def _interrupted(arguments: Sequence[str]) -> int:
    """Report that somebody interrupted a command that had not begun. Return its exit code."""
    said = "Interrupted. Nothing was done."
    if "--json" in arguments:
        print(json.dumps({"status": "failed", "error": said, "kind": "interrupted", "exit": 130}))
    print(said, file=sys.stderr)
    return 130


__all__ = ["main"]
