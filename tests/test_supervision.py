"""A run whose process is killed: message, exit code, history, alert, and the next run."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
from pathlib import Path

import psutil
import pytest

from sitemap_etl import trail
from sitemap_etl.memory import ran_out
from tests.support.command import PROGRAM, process
from tests.support.engines import Reply, Side
from tests.support.sites import TestSite, pages
from tests.support.waiting import until

HOOKS = """
import os
import time
from pathlib import Path


def work(frame):
    if "DIE" in os.environ:
        os.kill(os.getpid(), int(os.environ["DIE"]))
    while Path("slow").exists():
        Path("waiting").write_text(str(os.getpid()))
        time.sleep(0.01)
    return frame
"""


@pytest.fixture
def site(tmp_path: Path) -> TestSite:
    (tmp_path / "hooks.py").write_text(HOOKS)
    return TestSite(tmp_path).section("products", pages(10), transform="hooks:work")


def waiting(site: TestSite) -> tuple[subprocess.Popen[str], psutil.Process]:
    """Start a run. Return its parent, and the child, which waits in a hook."""
    (site.folder / "slow").touch()
    parent = process("run", site.path, cwd=site.folder)
    noted = site.folder / "waiting"
    until(lambda: (noted.exists() and noted.read_text()) or parent.poll() is not None, 60)
    return parent, psutil.Process(int(noted.read_text()))


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (signal.SIGKILL, "The machine probably ran out of memory: run again with --jobs 1"),
        (signal.SIGSEGV, "A library crashed: run again"),
        (signal.SIGHUP, "The next run continues from there"),
    ],
)
def test_a_killed_run_is_reported_and_recorded_and_the_next_one_publishes(
    site: TestSite, number: signal.Signals, words: str
) -> None:
    with Side(lambda _request: Reply(200)) as ear:
        site.keys["notify"] = {"webhook": f"{ear.url}/hook", "on": ["failed"]}
        dead = process("run", site.path, "--metrics", "run.prom", cwd=site.folder, DIE=str(int(number)))
        _, err = dead.communicate()
        assert dead.returncode == 3
        assert f"The process of the run was killed by {number.name}" in err
        assert f"The file opened last was {site.folder}/products." in err
        assert words in err
        assert 'status="failed"} 1\n' in (site.folder / "run.prom").read_text()
        (told,) = ear.requests
        assert words in told.json["reason"]
        assert told.json["status"] == "failed"
        history = process("history", site.path, "--json", cwd=site.folder)
        (attempt,) = json.loads(history.communicate()[0])["runs"]
        assert (attempt["status"], attempt["kind"]) == ("failed", "machine")
        assert words in attempt["error"]
        again = process("run", site.path, cwd=site.folder)
        again.communicate()
        assert again.returncode == 0
        assert len(ear.requests) == 1


def test_a_killed_run_prints_one_json_object_and_a_dry_run_sends_nothing(site: TestSite) -> None:
    with Side(lambda _request: Reply(200)) as ear:
        site.keys["notify"] = {"webhook": f"{ear.url}/hook", "on": ["failed"]}
        dead = process("run", site.path, "--dry-run", "--json", cwd=site.folder, DIE=str(int(signal.SIGABRT)))
        out, _ = dead.communicate()
        assert json.loads(out)["kind"] == "machine"
        assert json.loads(out)["exit"] == dead.returncode == 3
        assert ear.requests == []


def test_a_run_ends_if_its_caller_ignores_the_ends_of_children(site: TestSite) -> None:
    command = ["bash", "-c", 'trap \'\' CHLD; exec "$0" "$@"', *PROGRAM, "run", str(site.path)]
    done = subprocess.run(command, cwd=site.folder, capture_output=True, check=False, timeout=120)
    assert done.returncode == 0
    assert done.stdout.startswith(b"Published")


def test_a_signal_to_the_parent_ends_the_child_gracefully(site: TestSite) -> None:
    parent, child = waiting(site)
    assert child.ppid() == parent.pid
    parent.terminate()
    _, err = parent.communicate()
    assert parent.returncode == 130
    assert err.count("Interrupted") == 1
    assert not child.is_running()


def test_a_signal_to_the_whole_group_counts_once(site: TestSite) -> None:
    """As sent by `timeout` and a service manager: to the parent, to the child, and passed on by the parent."""
    parent, child = waiting(site)
    os.killpg(parent.pid, signal.SIGTERM)
    _, err = parent.communicate()
    assert parent.returncode == 130
    assert err.count("Interrupted") == 1
    assert not child.is_running()


def test_a_killed_parent_takes_the_child_with_it(site: TestSite) -> None:
    parent, child = waiting(site)
    parent.kill()
    parent.communicate()
    until(lambda: not child.is_running(), 60)


def test_a_run_with_too_little_address_space_is_refused_before_reading(site: TestSite) -> None:
    command = ["bash", "-c", 'ulimit -v 1000000; exec "$0" "$@"', *PROGRAM, "run", str(site.path)]
    done = subprocess.run(command, cwd=site.folder, capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert "Not enough memory: 2,000 MB of address space are needed at least" in done.stderr
    assert not (site.folder / "public").exists() or not any((site.folder / "public").glob("*.xml*"))


def test_cyclic_exception_contexts_are_searched_once() -> None:
    first, second = ValueError("first"), OSError(errno.ENOMEM, "no memory")
    first.__context__, second.__context__ = second, first
    assert ran_out(first)
    second.errno = errno.EIO
    assert not ran_out(first)


def test_the_note_for_a_killed_run_names_the_files_being_read(tmp_path: Path) -> None:
    with (tmp_path / "note").open("w+b") as note:
        child = os.fork()
        if child == 0:
            trail.begin(note.fileno())
            trail.works_on(site_file="shop.yaml", run_id="r1", dry_run=True)
            with trail.reads("a.csv"), trail.reads("b.csv"):
                pass
            with trail.reads("c.csv"):
                os.kill(os.getpid(), signal.SIGKILL)
        os.waitpid(child, 0)
        assert trail.read(note.fileno()) == trail.Trail("shop.yaml", "r1", True, None, "c.csv", ["c.csv"])


def test_an_incomplete_note_counts_as_empty(tmp_path: Path) -> None:
    with (tmp_path / "note").open("w+b") as note:
        note.write(b'{"site_file": "sh')
        note.flush()
        assert trail.read(note.fileno()) == trail.Trail()
