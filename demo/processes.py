"""Programs that run beside each other, each in a session of its own, of which nothing is left at the end."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

STOP_SECONDS = 20
_PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h
Processes = dict[str, subprocess.Popen[bytes]]


@dataclass(frozen=True)
class Command:
    """What is started: a program with its arguments, its environment, and its folder."""

    arguments: Sequence[str]
    environ: Mapping[str, str]
    folder: Path


@contextmanager
def running(commands: Mapping[str, Command], logs: Path) -> Iterator[Processes]:
    """The programs by name, each with a log `<name>.log`. More can be added with `start`."""
    adopt()
    processes: Processes = {}
    try:
        for name, command in commands.items():
            processes[name] = start(command, logs / f"{name}.log")
        yield processes
    finally:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)  # once is enough; a second Ctrl-C must leave nothing behind
        end(list(processes.values()))


def start(command: Command, log: Path) -> subprocess.Popen[bytes]:
    """Start a program in a session of its own."""
    with log.open("ab") as out:
        return subprocess.Popen(  # noqa: S603 - our own
            command.arguments,
            env=command.environ,
            cwd=command.folder,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )


def kill(process: subprocess.Popen[bytes]) -> None:
    """End a program and all that runs below it at once, as if its machine had gone down."""
    known: dict[int, psutil.Process] = {}
    _find({process.pid}, known)
    for one in known.values():
        with contextlib.suppress(psutil.NoSuchProcess):
            one.kill()
    process.wait()


def ended(processes: Processes) -> str | None:
    """A program that ended by itself."""
    return next((name for name, process in processes.items() if process.poll() is not None), None)


def end(processes: list[subprocess.Popen[bytes]]) -> None:
    """End the components and all that ran under them: first kindly, then for good."""
    sessions = {process.pid for process in processes}
    known: dict[int, psutil.Process] = {}
    _find(sessions, known)  # while all parents are there to be asked for their children
    for process in reversed(processes):
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
    deadline = time.monotonic() + STOP_SECONDS
    while left := _left(sessions, known):
        if time.monotonic() > deadline:
            for one in left:
                with contextlib.suppress(psutil.NoSuchProcess):
                    one.kill()
        time.sleep(0.1)


def adopt() -> None:
    """Become the parent of whatever loses its own below here, so that it can be reaped. Linux only; else init does."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _reap() -> None:
    """Take note of every child that ended, adopted ones too."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _left(sessions: set[int], known: dict[int, psutil.Process]) -> list[psutil.Process]:
    """What still runs of the sessions, and of what was ever seen below them in sessions of its own."""
    _reap()
    _find(sessions, known)
    return [one for one in known.values() if _runs(one)]


def _runs(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _find(sessions: set[int], known: dict[int, psutil.Process]) -> None:
    """Add the processes of the sessions, and what runs below them, to the known ones."""
    for pid in psutil.pids():
        with contextlib.suppress(OSError, psutil.Error):
            if os.getsid(pid) in sessions:
                for process in (one := psutil.Process(pid), *one.children(recursive=True)):
                    known.setdefault(process.pid, process)
