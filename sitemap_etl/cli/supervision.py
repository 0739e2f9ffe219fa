"""Run a command in a child process, and report its death if a library crashes or the machine runs out of memory.

A process that is killed leaves no message, no record and no alert: its parent sees to that. The parent forks before
anything but the standard library is imported, so that it costs a few milliseconds and megabytes. It passes signals on
and exits with the child's code. If the parent itself is killed, so is the child.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from typing import Final

from sitemap_etl import trail

COMMANDS: Final = ("run",)
"""Commands that run unattended. A person sees how others end."""
_PASSED_ON: Final = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2}
_FROM_KERNEL: Final = 0x80
"""`si_code` of a signal from the terminal, which sends it to the child too."""
_PR_SET_PDEATHSIG: Final = 1  # linux/prctl.h


def is_wanted(arguments: Sequence[str]) -> bool:
    """Return True if a child is to run this command. Linux only: elsewhere, nobody can tell who sent a signal."""
    command = next((text for text in arguments if not text.startswith("-")), None)
    return command in COMMANDS and hasattr(signal, "sigwaitinfo")


def supervise() -> int | None:
    """Fork. In the child, return None: it runs the command. In the parent, return the child's exit code, or 3 if it
    was killed.
    """
    note, parent = os.memfd_create("trail"), os.getpid()
    waited = {*_PASSED_ON, signal.SIGCHLD}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, waited)
    ends = signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # if it is ignored, no exit status is left
    child = os.fork()
    if child == 0:
        _begin(note, parent)
        signal.signal(signal.SIGCHLD, ends)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return None
    code = os.waitstatus_to_exitcode(_wait(child, waited))
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    if code >= 0:
        return code
    from sitemap_etl.cli.deaths import report

    return report(-code, trail.read(note))


def _wait(child: int, waited: set[signal.Signals]) -> int:
    """Pass signals on until the child has ended. Return its status."""
    while True:
        came = signal.sigwaitinfo(waited)
        if came.si_signo == signal.SIGCHLD:
            pid, status = os.waitpid(child, os.WNOHANG)
            if pid:
                return status
        elif came.si_code != _FROM_KERNEL:
            os.kill(child, came.si_signo)


def _begin(note: int, parent: int) -> None:
    """Keep a note for the parent, and die with it."""
    import ctypes

    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it was killed before
        os.kill(os.getpid(), signal.SIGKILL)
    trail.begin(note)
