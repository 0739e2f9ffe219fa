"""The command as a process: Ctrl-C, SIGTERM, a closed pipe, a terminal."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import sqlite3
import struct
import subprocess
import sys
import termios
import time
from contextlib import closing
from fcntl import ioctl
from pathlib import Path

import pytest

from tests.support.command import PROGRAM, process
from tests.support.sites import TestSite, pages

HOOK = """
import time
from pathlib import Path


def wait(frame):
    Path("waiting").touch()
    while not Path("go on").exists():
        time.sleep(0.01)
    return frame
"""


@pytest.fixture
def site(tmp_path: Path) -> TestSite:
    """A published site whose next run waits in a hook until it is released."""
    site = TestSite(tmp_path).section("products", pages(100, lastmod="2026-10-01"))
    site.night(1)
    site.export("products", pages(101, lastmod="2026-11-01"))
    (tmp_path / "hooks.py").write_text(HOOK)
    site.section("products", transform="hooks:wait")
    return site


def begun(site: TestSite, *arguments: object) -> subprocess.Popen[str]:
    """Start a run, and return once it has come to its hook."""
    running = process("run", site.path, *arguments, cwd=site.folder)
    until(lambda: (site.folder / "waiting").exists() or running.poll() is not None)
    assert running.poll() is None, running.communicate()
    return running


def until(condition) -> None:
    while not condition():
        time.sleep(0.01)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_ends_with_exit_code_130_and_changes_nothing(site: TestSite, number: int) -> None:
    before = site.public().objects()
    running = begun(site, "--json")
    running.send_signal(number)
    (site.folder / "go on").touch()
    out, err = running.communicate(timeout=60)
    assert running.returncode == 130
    assert json.loads(out)["status"] == "failed"
    assert "Interrupted. The published files are valid, and the next run continues from there." in err
    assert "Traceback" not in err
    assert site.public().objects() == before


def test_an_interrupted_run_releases_its_lease(site: TestSite) -> None:
    running = begun(site)
    assert site.state().storage.get("state/lease.json") is not None
    running.send_signal(signal.SIGINT)
    (site.folder / "go on").touch()
    running.communicate(timeout=60)
    assert site.state().storage.get("state/lease.json") is None
    assert process("run", site.path, cwd=site.folder).wait(60) == 0


@pytest.mark.thorough
def test_a_second_interruption_ends_the_run_at_once(site: TestSite) -> None:
    """Even if the running work never ends. The dead process holds no lease."""
    before = site.public().objects()
    running = begun(site, "--json")
    running.send_signal(signal.SIGINT)
    time.sleep(0.5)
    assert running.poll() is None
    running.send_signal(signal.SIGINT)
    out, _ = running.communicate(timeout=60)
    assert running.returncode == 130
    assert json.loads(out)["kind"] == "interrupted"
    assert site.public().objects() == before
    (site.folder / "go on").touch()
    assert process("run", site.path, cwd=site.folder).wait(60) == 0


SLOW_END = """
import atexit, os, time

def slow():
    open("ending", "w").close()
    while not os.path.exists("end"):
        time.sleep(0.01)

atexit.register(slow)
from sitemap_etl.cli import main
main()
"""


@pytest.mark.thorough
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_during_exit_does_not_change_the_exit_code(site: TestSite, number: int) -> None:
    (site.folder / "go on").touch()
    running = subprocess.Popen(
        [sys.executable, "-c", SLOW_END, "run", str(site.path), "--json"],
        cwd=site.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    until(lambda: (site.folder / "ending").exists() or running.poll() is not None)
    assert running.poll() is None
    running.send_signal(number)
    (site.folder / "end").touch()
    out, _ = running.communicate(timeout=60)
    assert (json.loads(out)["status"], running.returncode) == ("published", 0)


def test_unreadable_rows_of_a_database_do_not_keep_the_process_alive(site: TestSite) -> None:
    """Nobody reads the next rows of the driver; no thread can be started for them while the process ends."""
    with closing(sqlite3.connect(site.folder / "catalog.db")) as database, database:
        database.execute("CREATE TABLE pages (loc TEXT)")
        database.execute("INSERT INTO pages VALUES (CAST(x'2fe4' AS TEXT))")
    site.keys["sections"] = {"pages": {"from": {"database": "catalog", "query": "SELECT loc FROM pages"}}}
    done = subprocess.run(
        [sys.executable, "-m", "sitemap_etl", "run", str(site.path)],
        check=False,
        env={**os.environ, "AIRFLOW_CONN_CATALOG": f"sqlite:///{site.folder}/catalog.db"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2
    assert "column 'loc' can't be read as string" in done.stderr


STRUCK = """
import os, signal, sys

signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where the tests run in the background of a shell

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            try:
                os.kill(os.getpid(), {number})
            except KeyboardInterrupt:
                if {swallowed}:  # as code in C does that can't tell an exception from another
                    raise AttributeError("half made") from None
                raise

sys.meta_path.insert(0, Finder())
from sitemap_etl.cli import main
main()
"""


@pytest.mark.thorough
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(
    ("module", "swallowed"),
    [("sitemap_etl.cli.endings", False), ("numpy.dtypes", False), ("sitemap_etl.stages.run", True)],
)
def test_a_signal_during_imports_is_an_interruption(site: TestSite, module: str, swallowed: bool, number: int) -> None:
    program = STRUCK.format(module=module, number=int(number), swallowed=swallowed)
    done = subprocess.run(
        [sys.executable, "-c", program, "run", str(site.path), "--json"],
        check=False,
        cwd=site.folder,
        capture_output=True,
        text=True,
        timeout=60,
    )
    told = json.loads(done.stdout)
    assert (done.returncode, told["exit"], told["kind"]) == (130, 130, "interrupted")
    assert done.stderr.startswith("Interrupted. ")


@pytest.mark.thorough
@pytest.mark.parametrize("arguments", [("schema",), ("run", "shop.yaml", "--json"), ("history", "shop.yaml")])
def test_a_closed_pipe_on_stdout_is_not_an_error(site: TestSite, arguments: tuple[str, ...]) -> None:
    (site.folder / "go on").touch()
    assert site.path.name == "shop.yaml"
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [*PROGRAM, *arguments], cwd=site.folder, stdout=write, stderr=subprocess.PIPE, text=True, check=False
    )
    os.close(write)
    assert "Traceback" not in done.stderr
    assert "BrokenPipe" not in done.stderr
    assert done.returncode == 0


def on_terminal(*arguments: object, cwd: Path, columns: int) -> tuple[int, str]:
    """Call the command on a terminal with this many columns; return exit code and output."""
    leader, follower = pty.openpty()
    ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    environ = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "LINES", "CI", "NO_COLOR")}
    running = subprocess.Popen(
        [*PROGRAM, *map(str, arguments)],
        cwd=cwd,
        env={**environ, "TERM": "xterm-256color"},
        stdin=follower,
        stdout=follower,
        stderr=follower,
        start_new_session=True,
    )
    os.close(follower)
    shown = b""
    while True:
        ready, _, _ = select.select([leader], [], [], 60)
        assert ready, shown
        try:
            data = os.read(leader, 65536)
        except OSError:  # Linux' word for the end of a terminal
            break
        if not data:
            break
        shown += data
    os.close(leader)
    return running.wait(60), shown.decode()


@pytest.mark.parametrize("columns", [80, 200])
def test_a_terminal_shows_names_and_numbers_in_full(site: TestSite, columns: int) -> None:
    (site.folder / "go on").touch()
    site.keys["gates"] = {"max_rejected": 1, "max_drop": 1}
    odd = [{"loc": "https://elsewhere.example/x"}, {"loc": "/hidden", "exclude": "sold out"}, {"loc": "/p/000050"}]
    site.export("products", [*pages(130, start=50, lastmod="2026-11-01"), *odd])
    code, shown = on_terminal("run", site.path, cwd=site.folder, columns=columns)
    assert code == 0, shown
    for name in ("extracted", "listed", "duplicates", "excluded", "rejected", "added", "changed", "removed"):
        assert f" {name}" in shown
    assert "…" not in shown.partition("Published")[2]
    assert "render" in shown.partition("Published")[0], "bars while it runs"
    assert "render: 1 of 1" not in shown
