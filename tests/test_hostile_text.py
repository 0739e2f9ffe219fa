"""Text of a source acts on no terminal and no log: every subcommand over values with control characters."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import pytest

from tests.support.command import call

ESCAPE = "\x1b]0;owned\x07\x1b[31m"
HOSTILE = f"{ESCAPE}\n::error::owned\r\n\x9b2J\u202e"
"""A title for the terminal, colours, a line that is a command of GitHub Actions, C1 controls and bidirectional text."""
ACTS = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
COMMANDS = {
    "run": ("run", "--no-ping"),
    "run again": ("run", "--no-ping", "--full", "-v"),
    "dry run": ("run", "--no-ping", "--dry-run"),
    "validate": ("validate", "--connect"),
    "history": ("history",),
    "status": ("status",),
    "explain": ("explain", "https://shop.example/excluded"),
    "explain a date": ("explain", "https://shop.example/dated"),
    "explain nothing": ("explain", f"https://shop.example/{HOSTILE}"),
    "an unknown section": ("run", "--section", f"a{HOSTILE}"),
    "verify": ("state", "verify"),
}


@pytest.fixture
def site(tmp_path: Path) -> Path:
    with (tmp_path / "pages.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["loc", "exclude", "lastmod", "images", f"title{HOSTILE}"])
        writer.writerow(["/a", "", "2026-01-01", "", "x"])
        writer.writerow([f"/rejected{HOSTILE}", "", "2026-01-01", "", "x"])
        writer.writerow(["/excluded", f"sold out{HOSTILE}", "2026-01-01", "", "x"])
        writer.writerow(["/dated", "", f"never{HOSTILE}", "", "x"])
        writer.writerow(["/pictured", "", "2026-01-01", f"https://shop.example/{HOSTILE}", "x"])
    path = tmp_path / "shop.yaml"
    path.write_text(
        "site: https://shop.example\npublish: ./public\ngates: {max_rejected: 1}\n"
        "sections:\n  p: {from: {csv: pages.csv}}\n"
    )
    assert call("run", path, "--no-ping").code == 0
    return path


@pytest.mark.parametrize("name", COMMANDS)
def test_no_output_for_people_holds_a_character_that_acts(site: Path, name: str) -> None:
    command, *options = COMMANDS[name]
    words = [command, options.pop(0)] if command == "state" else [command]
    for extra in ((), ("--json",)):
        done = call(*words, site, *options, *extra)
        for stream, text in (("stdout", done.out), ("stderr", done.err)):
            if extra and stream == "stdout":
                json.loads(text)
                continue
            assert ACTS.findall(text) == [], (stream, text)
            assert [line for line in text.splitlines() if line.lstrip().startswith("::")] == [], stream


def test_no_line_of_init_acts(site: Path) -> None:
    done = call("init", site.parent / "other.yaml", "--from", site.parent / "pages.csv")
    assert ACTS.findall(done.out + done.err) == []
    assert "::error::" not in [line.strip()[:9] for line in (done.out + done.err).splitlines()]
