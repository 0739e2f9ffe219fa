"""A run in a process of its own that can be stopped and killed anywhere, and whose file operations can fail.

The processes are forked from one that has imported everything, so a run is cheap. Through a pipe, a run reports every
write before it happens, every moment at which the public files were invalid, and its result.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import multiprocessing
import os
import resource
import signal
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any, Protocol

from sitemap_etl.config import load
from sitemap_etl.errors import SitemapEtlError
from sitemap_etl.runs.local import Finished, ping_locally, publish_locally, run_locally
from sitemap_etl.runs.rollback import roll_back
from sitemap_etl.stages.run import Environment
from sitemap_etl.state.codec import encode
from sitemap_etl.state.records import Options
from tests.support.storages import Clocked

SECONDS = 120
"""A run that takes longer between two writes hangs."""
CODES = {1, 2, 3, 65}
"""What a run may end with that was stopped by anything but itself; 70 would be a defect."""
REQUESTS = "requests fail"
"""The trouble that a proxy makes: any request may, on a busy machine, as they are given little time."""
CALLS = {"open", "os.rename", "os.link", "os.remove", "os.mkdir", "os.rmdir", "os.scandir", "os.listdir"}
"""Calls of the system that Python tells of before it makes them."""


@dataclass
class Done:
    """Result of a run: a summary, an error (`code`: exit code of the command; `defect`: its traceback), or killed."""

    summary: dict[str, Any] | None = None
    error: str = ""
    code: int = 0
    defect: str = ""
    died: bool = False
    posted: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Task:
    """The order to a process: site file, `run`, `publish` or `roll_back` with arguments and options, engines."""

    path: Path
    act: str
    arguments: tuple[Any, ...]
    options: Mapping[str, Any]
    ping: bool


def perform(task: Task, environment: Environment) -> Done:
    """Run it in this process, and report the result as the command would."""
    try:
        site = load(task.path, environ=environment.environ)
        finished = _ACTS[task.act](site, environment, *task.arguments, **task.options)
        summary = ping_locally(finished, environment) if task.ping else finished.summary
    except SitemapEtlError as error:
        return Done(error=f"{type(error).__name__}: {error}", code=error.exit_code, defect=_defect(error))
    except (OSError, MemoryError) as error:  # the command has words for those of the machine
        return Done(error=f"{type(error).__name__}: {error}", code=3)
    except Exception as error:  # noqa: BLE001 - a defect is what this looks for
        return Done(error=f"{type(error).__name__}: {error}", code=70, defect=_traceback(error))
    return Done(summary=json.loads(json.dumps(encode(summary))))


def _defect(error: SitemapEtlError) -> str:
    return _traceback(error) if error.exit_code not in CODES else ""


def _traceback(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))


def _run(site: Any, environment: Environment, *, now: datetime | None = None, **options: Any) -> Finished:
    return run_locally(site, Options(**options), environment, jobs=1, now=now)


def _publish(site: Any, environment: Environment, run_id: str, **options: Any) -> Finished:
    return publish_locally(site, run_id, environment, adopt=False, **options)


def _roll_back(site: Any, environment: Environment, run_id: str | None) -> Finished:
    force = [
        f"{scope}{gate}" for scope in ("", *(f"{name}." for name in site.sections)) for gate in ("max_drop", "min_urls")
    ]
    finished = roll_back(site, run_id, environment, reason="a test", force=force)
    assert finished is not None
    return finished


_ACTS: dict[str, Callable[..., Finished]] = {"run": _run, "publish": _publish, "roll_back": _roll_back}


@contextlib.contextmanager
def variables(changes: Mapping[str, str]) -> Iterator[None]:
    """The environment of this process with these variables."""
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


# --- what is asked of the process -----------------------------------------------------------------


@dataclass(frozen=True)
class Trouble:
    """What happens to a run, and when.

    `kill`, `stop`: at the `at`-th write, counted from the first whose address contains `since`, `before` it or
    after. `kill at a call`, `fail a call`: from that write on, at the `at`-th call that opens, names or lists a
    file of the site; the latter `times` times, with the `error` number. `short files`: no file can grow beyond `at`
    bytes. `kill at a moment`: this many `seconds` after its start. `requests fail`: caused outside of the process.
    """

    how: str = "nothing"
    at: int = 1
    since: str = ""
    before: bool = False
    error: int = 0
    times: int = 1
    seconds: float = 0

    @property
    def kills(self) -> bool:
        return self.how.startswith("kill")


def processes() -> ForkServerContext:
    """Starts processes that have everything imported."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.model.preloaded"])
    return context


class Place(Protocol):
    """Public objects, read beside the code under test."""

    def objects(self) -> dict[str, bytes]:
        """Every object by its key."""


@dataclass(frozen=True)
class Order:
    """The order to a process. `time`: the file with the time of the store."""

    task: Task
    folder: Path
    public: Place
    time: Path
    start: datetime
    written: dict[str, datetime]
    environ: dict[str, str]
    variables: dict[str, str]
    trouble: Trouble
    kept: frozenset[str]
    plant: str = ""


class Running:
    """A run in a process of its own. `writes`: addresses written so far; `stopped`: the process is stopped."""

    def __init__(self, order: Order) -> None:
        self.order = order
        self.writes: list[str] = []
        self.written: dict[str, datetime] = {}
        self.problems: list[str] = []
        self.stopped = False
        self.fired = order.trouble.how == REQUESTS
        self._done: Done | None = None
        context = processes()
        self._pipe, theirs = context.Pipe(duplex=False)
        self.process = context.Process(target=_work, args=(order, theirs))
        self.process.start()
        theirs.close()

    def wait(self) -> bool:
        """Wait until it is stopped or has ended; return whether it is stopped."""
        timer: threading.Timer | None = None
        while not self.stopped:
            if not self._pipe.poll(SECONDS):
                self.problems.append(f"nothing happened for {SECONDS} seconds")
                self.process.kill()
            try:
                kind, what = self._pipe.recv()
            except EOFError:
                break
            match kind:
                case "begin" if self.order.trouble.how == "kill at a moment":
                    timer = threading.Timer(self.order.trouble.seconds, self.process.kill)
                    timer.start()
                case "write":
                    self.writes.append(what)
                    self.written[what] = datetime.fromisoformat(self.order.time.read_text())
                case "fired":
                    self.fired = True
                case "stopped":
                    self.stopped = self.fired = True
                case "problem":
                    self.problems.append(what)
                case "done":
                    self._done = what
        if timer is not None:
            timer.cancel()
        return self.stopped

    def go_on(self) -> None:
        """Continue after a stop."""
        self.stopped = False
        assert self.process.pid is not None
        os.kill(self.process.pid, signal.SIGCONT)

    def end(self) -> Done:
        """Wait for its end. Raises AssertionError if it reported an invalid state or had an impossible result."""
        self.wait()
        self.process.join()
        self._pipe.close()
        killed = self.process.exitcode == -signal.SIGKILL
        done = self._done or Done(died=True)
        if self._done is None and not (killed and (self.order.trouble.kills or self.problems)):
            self.problems.append(f"it ended with {self.process.exitcode} and without a word")
        if done.defect:
            self.problems.append(f"it ended with a traceback:\n{done.defect}")
        if done.error and (done.code not in CODES or not done.error.partition(": ")[2]):
            self.problems.append(f"it ended with {done.code}: {done.error}")
        self.fired = self.fired or (killed and self._done is None)
        assert not self.problems, "\n".join(self.problems)
        return done


# --- in the process ---------------------------------------------------------------------------------


class _Tell:
    """Read the messages of the process, one at a time."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self._lock = threading.Lock()

    def __call__(self, kind: str, what: Any = None) -> None:
        with self._lock:
            self._pipe.send((kind, what))


class _Watched(Clocked):
    """Storages that report every write, and verify the public files after each write to them.

    Writes happen one at a time, even those of several processes to the public files, so the verified state existed
    at one moment.
    """

    def __init__(self, order: Order, tell: _Tell) -> None:
        self.order = order
        self.tell = tell
        self.turn = threading.Lock()
        self.looking = threading.local()
        self.number = 0
        self.kept = order.kept
        super().__init__(order.start)
        self.written = order.written

    @property
    def time(self) -> datetime:
        return datetime.fromisoformat(self.order.time.read_text())

    @time.setter
    def time(self, _moment: datetime) -> None:
        """Use the same time in all processes."""

    def write(self, url: str, act: Callable[[], Any]) -> Any:
        trouble = self.order.trouble
        with self.turn:
            self.tell("write", url)
            self.number += bool(self.number or trouble.since in url)
            fires = trouble.how in ("kill", "stop") and self.number == trouble.at
            if fires and trouble.before:
                self._fire()
            try:
                done = self._look_after(act) if "/public/" in url else act()
            finally:
                self.written[url] = self.time
            if fires and not trouble.before:
                self._fire()
            return done

    def _fire(self) -> None:
        if self.order.trouble.kills:
            self.tell("fired")
            os.kill(os.getpid(), signal.SIGKILL)
        self.tell("stopped")
        # To this thread: of a signal to the process it might go on for a moment, and stop with a lock held.
        signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)
        # Whoever published meanwhile may list others.
        self.kept = frozenset()

    def _look_after(self, act: Callable[[], Any]) -> Any:
        with (self.order.folder / "turn").open("a") as turn:
            fcntl.flock(turn, fcntl.LOCK_EX)
            try:
                return act()
            finally:
                self.looking.at = True
                self._look()
                self.looking.at = False

    def _look(self) -> None:
        from tests.model.world import read_set

        try:
            seen = read_set(self.order.public.objects())
        except Exception as error:  # noqa: BLE001 - whatever a reader stumbles over
            self.tell("problem", f"meanwhile, {error}")
            return
        missing = self.kept - {entry.loc for entries in seen.entries.values() for entry in entries}
        if missing:
            self.tell("problem", f"meanwhile, {sorted(missing)} is not listed")


class _Calls:
    """Calls of the operating system for files of the site: the n-th kills the process, or fails."""

    def __init__(self, order: Order, watched: _Watched) -> None:
        self.trouble = order.trouble
        self.below = tuple(str(order.folder / name) for name in ("public", "work"))
        self.watched = watched
        self.number = 0

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event not in CALLS or not arguments or getattr(self.watched.looking, "at", False):
            return
        path = arguments[0]
        if not isinstance(path, str | Path) or not str(path).startswith(self.below):
            return
        if self.trouble.since and not self.watched.number:
            return
        self.number += 1
        if not self.trouble.at <= self.number < self.trouble.at + self.trouble.times:
            return
        if self.number == self.trouble.at:
            self.watched.tell("fired")
        if self.trouble.kills:
            os.kill(os.getpid(), signal.SIGKILL)
        raise OSError(self.trouble.error, os.strerror(self.trouble.error), str(path))


def _work(order: Order, pipe: Connection) -> None:
    from tests.model.alive import visits
    from tests.model.planted import planted

    tell = _Tell(pipe)
    os.environ.update(order.variables)
    # What a run that is killed leaves there goes with the site's folder.
    tempfile.tempdir = str(order.folder)
    watched = _Watched(order, tell)
    environment = watched.around(planted(order.plant, Environment(environ=order.environ, visits=visits)))
    tell("begin")
    if order.trouble.how in ("kill at a call", "fail a call"):
        sys.addaudithook(_Calls(order, watched))
    if order.trouble.how == "short files":
        resource.setrlimit(resource.RLIMIT_FSIZE, (order.trouble.at, order.trouble.at))
        tell("fired")
    tell("done", perform(order.task, environment))
    pipe.close()
    os._exit(0)
