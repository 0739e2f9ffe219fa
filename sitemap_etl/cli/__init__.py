"""The command: options, exit codes, and nothing else. `main` is the entry point.

0 success · 1 refused, or `check` found problems · 2 invalid site file or usage · 3 something did not
answer, and trying again may help · 65 damaged state · 70 a defect of sitemap-etl · 130 interrupted.

app                          the commands by name
runs, sites, state, status, sitemaps, upkeep  the commands
options, values, pages       shared options; types of values; groups and help pages
output                       everything that is printed, and its encoding
completion                   completion by a shell
show, plan, explain, columns printed results
supervision, deaths          a run as a child process, and the report if it is killed
progress, bars, logs         progress on stderr: lines, bars on a terminal, lines of JSON
loading                      what is imported, at less cost
endings, interruption, streams  errors as messages and exit codes; Ctrl-C; output that nobody reads
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
from collections.abc import Sequence
from typing import NoReturn

from sitemap_etl.cli.supervision import is_wanted, supervise


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command and exit with its code. `arguments`: those of the process by default."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    # Looking for plugins of pydantic, pydantic reads the metadata of every package that is installed.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    # No matrix is multiplied here, and the threads that wait for one to be are busy waiting when they begin.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        code = supervise() if arguments is None and is_wanted(given) else None
        if code is None:
            from sitemap_etl.cli.endings import run

            code = run(given)
    except KeyboardInterrupt:  # before there was anything to interrupt
        code = _ended(given, "Interrupted. Nothing was done.", "interrupted", 130)
    except Exception as error:  # noqa: BLE001 - whatever it is, the exit code says that it is a defect
        from sitemap_etl.errors import defect
        from sitemap_etl.memory import ran_out

        if ran_out(error):
            code = _ended(given, "Out of memory. Nothing was done.", "machine", 3)
        else:
            sys.excepthook(type(error), error, error.__traceback__)
            code = _ended(given, defect(error), "defect", 70)
    finally:
        signal.signal(signal.SIGTERM, before)
        atexit.unregister(_end)
        atexit.register(_end)
    sys.exit(code)


def _end() -> None:
    """Let no signal change the exit code of a process that has nothing left to do but to end."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)


def _ended(arguments: Sequence[str], said: str, kind: str, code: int) -> int:
    """Report why a command ended that had not begun. Return its exit code."""
    if "--json" in arguments:
        import json

        print(json.dumps({"status": "failed", "error": said, "kind": kind, "exit": code}))
    print(said, file=sys.stderr)
    return code


__all__ = ["main"]
