"""Commands in messages can be pasted: a shell runs the command that is shown, and nothing else."""

from __future__ import annotations

import html
import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sitemap_etl.advice import SITE_FILE, for_file, shell_word
from tests.support.command import call, commands

HARM = "$(touch owned)`touch owned`;touch owned|touch owned&touch owned>owned"
FOLDERS = (
    "it's",
    f"SITE.yaml {HARM}",
    f"'{HARM}'",
    f'"{HARM}\\"',
    "a\n touch owned\n",
    "~ * [a] {b,c} !x #",
    "\x1b[31m\u202eé\U000e0001",
)
PIECES = st.sampled_from(
    ["'", '"', "\\", "$(", ")", "`", SITE_FILE, "sitemap-etl run ", " ", "\n", "!", "#", "*", "\x1b", "é"]
)
NAMES = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])) | st.lists(PIECES).map("".join)
COMMAND = re.compile(r"sitemap-etl (?=[a-z]).*?(?=, which |; or |, or another one|$)", re.MULTILINE)
QUIET = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30, deadline=None)


def recorded(lines: Sequence[str], folder: Path) -> list[list[str]]:
    """Paste lines into a shell whose only program is a recorder. Return the arguments of each call."""
    programs, place = folder / "programs", folder / "place"
    programs.mkdir(exist_ok=True)
    place.mkdir(exist_ok=True)
    recorder = programs / "sitemap-etl"
    recorder.write_text('#!/bin/bash\nprintf \'%s\\0\' $# "$@" >> "$CALLS"\n')
    recorder.chmod(0o755)
    calls = folder / "calls"
    calls.write_bytes(b"")
    environ = {"PATH": str(programs), "CALLS": str(calls), "LC_ALL": "C.UTF-8"}
    for line in lines:
        subprocess.run(["/bin/bash", "-n", "-c", line], check=True, env=environ)
        subprocess.run(["/bin/bash", "-c", line], check=True, env=environ, cwd=place, capture_output=True)
    assert list(place.iterdir()) == [], lines
    parts = [os.fsdecode(part) for part in calls.read_bytes().split(b"\0")[:-1]]
    found: list[list[str]] = []
    while parts:
        end = int(parts[0]) + 1
        found.append(parts[1:end])
        parts = parts[end:]
    return found


def shown(*texts: str) -> list[str]:
    """Return the commands in texts, each from the program's name to where its sentence goes on."""
    return [found[0].rstrip() for text in texts for found in COMMAND.finditer(text)]


@QUIET
@given(st.lists(NAMES.filter(bool).filter(lambda name: not name.endswith("\n")), min_size=1, max_size=20))
def test_a_quoted_word_is_one_argument_in_a_shell(tmp_path: Path, names: list[str]) -> None:
    line = " ".join(["sitemap-etl", *map(shell_word, names)])
    assert line.isprintable()
    (found,) = recorded([line], tmp_path)
    assert found == names


@QUIET
@given(NAMES.filter(bool), NAMES.filter(bool))
def test_the_placeholder_of_the_site_file_is_replaced_once(tmp_path: Path, site_file: str, value: str) -> None:
    message = f"sitemap-etl explain {SITE_FILE} {shell_word(value)} ."
    filled = for_file(message, site_file)
    assert for_file(filled, "another.yaml") == filled or site_file == SITE_FILE
    (found,) = recorded([filled], tmp_path)
    assert found == ["explain", site_file, value, "."]
    assert for_file(message, None) == message


def test_a_value_that_looks_like_the_placeholder_is_not_replaced() -> None:
    text = f"no page https://shop.example/{SITE_FILE}$(touch owned)"
    assert for_file(text, "it's.yaml") == text


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_displayed_command_can_be_pasted_into_a_shell(tmp_path: Path, folder: str) -> None:
    home = tmp_path / "home" / folder
    home.mkdir(parents=True)
    file, export = home / "shop.yaml", home / "pages.csv"
    locs = [f"/{name}-{HARM}/it's-{SITE_FILE}" for name in range(30)]
    export.write_text("loc\n" + "".join(f'"{loc}"\n' for loc in locs))
    file.write_text(
        "site: https://shop.example\npublish: ./public\nwork: ./work\nurls: {respect_robots: false}\n"
        "sections:\n  p: {from: {csv: pages.csv}}\n"
    )
    done = [call("init", home / "new.yaml", "--from", export), call("check", file), call("explain", file, "/x")]
    done += [call("run", file, "--no-ping", "--dry-run"), call("run", file, "--no-ping")]
    export.write_text("loc\n/0\n")
    done += [call("run", file, "--no-ping"), call("status", file), call("history", file)]
    texts = [text for one in done for text in (one.out, one.err)]
    for page in (home / "work").rglob("report.html"):
        codes = re.findall(r"<pre>(sitemap-etl .*?)</pre>", page.read_text("utf-8"), re.DOTALL)
        texts += map(html.unescape, codes)
    pasted = shown(*texts)
    found = recorded(pasted, tmp_path)
    assert len(found) == len(pasted)
    names = set(commands())
    verbs = {next((name for name in (" ".join(one[:2]), one[0]) if name in names), "") for one in found}
    assert verbs >= {"validate", "run", "explain", "publish", "history", "rollback", "check"}
    for one in found:
        assert one[0] == "check" or Path(one[1]).exists(), one
