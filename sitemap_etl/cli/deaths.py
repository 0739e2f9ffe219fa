"""Report a run whose process died: message, record in the history, alert."""

from __future__ import annotations

import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

from sitemap_etl.errors import MachineError, SitemapEtlError
from sitemap_etl.memory import limit_in_words
from sitemap_etl.trail import Trail


def report(number: int, trail: Trail) -> int:
    """Print how the process died, record that its run failed, and send the alert. Return the exit code.

    `number`: the signal that ended it.
    """
    from sitemap_etl.cli.endings import fail

    if sys.stderr.isatty():
        from rich.console import Console

        Console(stderr=True).show_cursor()  # progress bars hide it
    error = MachineError(_words(number, trail))
    error.run_id = trail.run_id
    if trail.site_file is not None:
        with suppress(SitemapEtlError, OSError, MemoryError):
            _record(Path(trail.site_file), trail, error)
    return fail(sys.argv[1:], error)


def _words(number: int, trail: Trail) -> str:
    died = f"The process of the run was killed by {_name(number)}"
    if trail.files:
        died += f" while it read {' and '.join(dict.fromkeys(trail.files))}"
    elif trail.last is not None:
        died += f". The file opened last was {trail.last}"
    if number == signal.SIGKILL:
        then = "The machine probably ran out of memory: run again with --jobs 1, or with more memory"
    elif number in _CRASHES:
        then = f"A library crashed: {'check that file, and run' if trail.files else 'run'} again"
    else:
        then = "The next run continues from there"
    return f"{died}. {then}{limit_in_words()}"


_CRASHES: Final = (signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGILL, signal.SIGFPE)


def _name(number: int) -> str:
    return signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"


def _record(site_file: Path, trail: Trail, error: MachineError) -> None:
    from sitemap_etl.cli.options import environment_of, read_site
    from sitemap_etl.cli.progress import Bars
    from sitemap_etl.runs.alerts import tell_end
    from sitemap_etl.runs.failures import remember_death
    from sitemap_etl.runs.metrics import measured

    site = read_site(site_file)
    environment = environment_of(Bars(quiet=True), site_file)
    metrics = None if trail.metrics is None else Path(trail.metrics)
    with suppress(MachineError), measured(site, environment, metrics):
        ended = remember_death(site, environment, error, dry_run=trail.dry_run)
        if ended is not None and not trail.dry_run:
            tell_end(site, environment, ended)
        raise error
