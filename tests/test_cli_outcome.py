"""The outcome of a run as a terminal shows it."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.command import call
from tests.support.sites import TestSite, pages


@pytest.fixture
def site(tmp_path: Path) -> TestSite:
    return TestSite(tmp_path, gates={"max_rejected": 1})


def test_text_of_a_source_cannot_control_the_terminal(site: TestSite) -> None:
    rows = [*pages(3), {"loc": "/x\rPublished\x1b[2J\x07"}, {"loc": "/y", "lastmod": "some\rday\x1b]0;title\x07"}]
    done = call("run", site.section("a", rows).path)
    assert [c for c in done.out if not c.isprintable() and c != "\n"] == []
    assert r"/x\u000dPublished\u001b[2J\u0007" in done.out
    assert r"some\u000dday\u001b]0;title\u0007" in done.out


@pytest.mark.parametrize(("terminal", "bold"), [("xterm", True), ("dumb", False)])
def test_the_headline_is_bold_on_a_terminal(site: TestSite, terminal: str, bold: bool) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "sitemap_etl", "run", str(site.section("a", pages(3)).path)]
    environ = {**os.environ, "TERM": terminal}
    subprocess.run(command, stdout=theirs, stderr=subprocess.DEVNULL, env=environ, check=True)
    os.close(theirs)
    shown = os.read(ours, 1 << 16)
    os.close(ours)
    assert shown.startswith(b"\x1b[1mPublished\x1b[0m  run " if bold else b"Published  run ")
