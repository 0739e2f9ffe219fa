"""The command: options, exit codes, and nothing else. `main` is the entry point.

0 done · 1 refused, or `check` found faults · 2 the site file or the call is wrong · 3 something did not
answer, and trying again may help · 130 interrupted.
"""

from sitemap_etl.cli.main import main

__all__ = ["main"]
