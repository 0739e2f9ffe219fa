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


def half_on_www(number: int) -> list[dict[str, str]]:
    """Return rows of which half are on www, and the other half on the site."""
    return [{"loc": f"https://{'www.' if n % 2 else ''}shop.example/p/{n}"} for n in range(number)]


def test_a_first_run_with_half_of_its_rows_rejected_says_so_in_the_first_line(tmp_path: Path) -> None:
    site = TestSite(tmp_path).section("a", half_on_www(40))
    for option, first in (((), "Refused"), (("--dry-run",), "Dry run, would be refused")):
        done = call("run", site.path, *option)
        assert done.code == 1
        line, _, rest = done.out.partition("\n")
        assert line.startswith(f"{first}: a rejects 20 of 40 rows (50 %, max_rejected is 5 %)  run ")
        assert "20 of 40 rows are on https://www.shop.example, not on https://shop.example." in rest
        assert "  if they are the same pages, write: urls: {same_as: [https://www.shop.example]}\n" in done.err


def test_a_first_publish_of_few_rows_names_the_rejected_half_in_the_first_line(tmp_path: Path) -> None:
    """Percentage gates don't apply below 20 URLs, so such a run is published."""
    site = TestSite(tmp_path).section("a", half_on_www(10))
    first, second = call("run", site.path), call("run", site.path, "--full")
    assert (first.code, second.code) == (0, 0)
    assert first.out.startswith("Published, but 5 of 10 rows were rejected  run ")
    assert "urls: {same_as: [https://www.shop.example]}" in first.out
    assert second.out.startswith("Nothing changed")


def test_a_refusal_proposes_the_other_spellings_of_the_site_only(tmp_path: Path) -> None:
    site = TestSite(tmp_path, urls={"same_as": ["http://shop.example"]})
    rows = [{"loc": f"https://{host}/p/{n}"} for n, host in enumerate(["shop.example"] * 30 + ["www.shop.example"] * 5)]
    site.section("a", [*rows, *({"loc": f"https://cdn.example/{n}"} for n in range(9))])
    done = call("run", site.path)
    assert done.code == 1
    assert "write: urls: {same_as: [http://shop.example, https://www.shop.example]}\n" in done.err
