"""The command: options, exit codes, and nothing else. `main` is the entry point.

0 success · 1 refused, or `check` found problems · 2 invalid site file or usage · 3 something did not
answer, and trying again may help · 65 damaged state · 70 a defect of sitemap-etl · 130 interrupted.

app                          the commands by name
runs, sites, state, sitemaps  the commands
options, pages               shared options; help pages
show, plan, explain, columns printed results
progress                     progress on stderr
endings, streams             errors and Ctrl-C as messages and exit codes; output that nobody reads
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NoReturn


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command and exit with its code. `arguments`: those of the process by default."""
    try:
        from sitemap_etl.cli.endings import run

        code = run(list(sys.argv[1:] if arguments is None else arguments))
    except KeyboardInterrupt:  # before there was anything to interrupt
        code = 130
    sys.exit(code)


__all__ = ["main"]
