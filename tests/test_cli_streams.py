"""The command's streams: closed pipes, full disks, closed streams and streams for ASCII only."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.command import PROGRAM, Done
from tests.support.sites import TestSite, pages
from tests.test_cli_process import on_terminal

COMMAND = "from sitemap_etl.cli import main; main()"
SHELL = f"{shlex.quote(sys.executable)} -c '{COMMAND}'"
NARROW = [
    pytest.param({"PYTHONIOENCODING": "ascii"}, id="ascii"),
    pytest.param({"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, id="the C locale"),
    pytest.param({"PYTHONIOENCODING": "cp1252:strict"}, id="cp1252"),
]


@pytest.fixture
def site(tmp_path: Path) -> TestSite:
    """A site that has not been published yet."""
    return TestSite(tmp_path).section("products", pages(100, lastmod="2026-10-01"))


def shell(site: TestSite, line: str) -> tuple[int, str]:
    """Run a line of bash in which `etl` is the command; return its exit code and output."""
    assert site.path.name == "shop.yaml"
    script = f'etl() {{ {SHELL} "$@"; }}; {line}'
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=site.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


LEFT = [
    "etl run shop.yaml 2>&1 | head -c 1 >/dev/null; exit ${PIPESTATUS[0]}",
    "etl run shop.yaml 2>&1 | true; exit ${PIPESTATUS[0]}",
    "etl run shop.yaml --json | true; exit ${PIPESTATUS[0]}",
    "etl run shop.yaml 2> >(true)",
    "etl run shop.yaml 2>&-",
    "etl run shop.yaml <&- >&- 2>&-",
    "etl run shop.yaml 2>/dev/full",
    "etl run shop.yaml >/dev/full",
    "trap '' PIPE; etl run shop.yaml 2>&1 | true; exit ${PIPESTATUS[0]}",
]


@pytest.mark.thorough
@pytest.mark.parametrize("line", LEFT)
def test_a_run_with_closed_streams_publishes_and_keeps_its_exit_code(site: TestSite, line: str) -> None:
    code, said = shell(site, line)
    assert code == 0, said
    assert len(site.public().locs()) == 100
    assert "Traceback" not in said


@pytest.mark.thorough
@pytest.mark.parametrize("line", LEFT[1:3])
def test_a_run_with_closed_streams_can_be_refused(site: TestSite, line: str) -> None:
    site.night(1)
    site.export("products", pages(10))
    assert shell(site, line)[0] == 1
    assert len(site.public().locs()) == 100


def test_output_for_a_closed_stream_is_not_written_into_other_files(site: TestSite) -> None:
    """An opened file gets the number of a closed stream, and output would be written into it."""
    assert shell(site, "etl run shop.yaml <&- >&- 2>&-")[0] == 0
    assert {entry.loc for entry in site.public().entries()} == {f"{site.origin}/p/{n:06}" for n in range(100)}
    robots = (site.folder / "public" / "robots.txt").read_text()
    assert [line for line in robots.splitlines() if not line.startswith(("#", "Sitemap:"))] == []


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("explain shop.yaml /p/000001 /p/999999", 1),
        ("explain shop.yaml /p/000001 --json", 0),
        ("history shop.yaml", 0),
        ("check public --at https://other.example/", 1),
        ("validate shop.yaml", 0),
        ("schema", 0),
        ("run --help", 0),
        ("run", 2),
    ],
)
def test_a_command_whose_pipe_is_closed_keeps_its_exit_code(site: TestSite, command: str, code: int) -> None:
    site.night(1)
    left, said = shell(site, f"etl {command} 2>&1 | true; exit ${{PIPESTATUS[0]}}")
    assert left == code, said
    assert said == ""


@pytest.mark.thorough
def test_output_to_a_full_disk_is_reported(site: TestSite) -> None:
    site.night(1)
    for command in ("history shop.yaml", "schema", "explain shop.yaml /p/000001 --json", "run shop.yaml --json -q"):
        code, said = shell(site, f"etl {command} >/dev/full")
        assert (code, said) == (3, "stdout could not be written: No space left on device\n")


def started(site: TestSite, environ: dict[str, str], *arguments: object) -> subprocess.CompletedProcess[bytes]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("LC_", "LANG", "PYTHON"))}
    return subprocess.run(
        [*PROGRAM, *map(str, arguments)], cwd=site.folder, env={**kept, **environ}, capture_output=True, check=False
    )


ONE_BY_ONE = """
import json, sys
from sitemap_etl.cli import main
for arguments in json.loads(sys.argv[1]):
    try:
        main(arguments)
    except SystemExit as ended:
        for stream in (sys.stdout, sys.stderr):
            print("\\f", ended.code, "\\f", sep="", end="", file=stream, flush=True)
"""


def one_by_one(
    site: TestSite, environ: dict[str, str], calls: Sequence[tuple[str, ...]]
) -> dict[tuple[str, ...], Done]:
    """Call the command several times in one process with these streams."""
    done = subprocess.run(
        [sys.executable, "-c", ONE_BY_ONE, json.dumps(calls)],
        cwd=site.folder,
        env={**os.environ, **environ},
        capture_output=True,
        check=True,
    )
    out, err = (stream.decode("ascii").split("\f") for stream in (done.stdout, done.stderr))
    assert len(out) == len(err) == 2 * len(calls) + 1, done
    return {
        call: Done(int(code), said, complained)
        for call, said, code, complained in zip(calls, out[::2], out[1::2], err[::2], strict=False)
    }


@pytest.mark.thorough
@pytest.mark.parametrize("environ", NARROW[1:])
def test_the_output_of_a_run_fits_a_stream_of_another_encoding(site: TestSite, environ: dict[str, str]) -> None:
    site.export("products", [*pages(100), {"loc": "/größe/✓", "exclude": "ausverkauft – heute ✓"}])
    assert site.path.exists()
    for arguments in (("run", "shop.yaml"), ("check", "public", "--at", "https://shop.example/", "größe ✓.xml")):
        done = started(site, environ, *arguments)
        assert b"Traceback" not in done.stderr
        assert b"Encode" not in done.stderr
        assert done.returncode == (0 if arguments[0] == "run" else 1), done


@pytest.mark.thorough
def test_characters_that_a_stream_cannot_encode_are_replaced(site: TestSite) -> None:
    environ = {"PYTHONIOENCODING": "ascii"}
    odd = [{"loc": "/größe/✓", "exclude": "ausverkauft – heute"}, {"loc": "ftp://ü.example/"}]
    site.export("products", [*pages(100), *odd])
    calls = [
        (("validate", "shop.yaml"), 0),
        (("run", "shop.yaml", "--dry-run"), 0),
        (("run", "shop.yaml"), 0),
        (("history", "shop.yaml"), 0),
        (("explain", "shop.yaml", "/größe/✓"), 1),
        (("publish", "shop.yaml", "größe"), 2),
        (("rollback", "shop.yaml", "größe"), 2),
        (("ping", "shop.yaml"), 2),
        (("check", "public", "--at", "https://other.example/"), 1),
        (("check", "größe ✓.xml"), 2),
        (("init", "größe.txt"), 2),
    ]
    plain = [arguments for arguments, _ in calls]
    told = [
        arguments for arguments, code in calls if not code or arguments[0] in ("check", "explain")
    ]  # others say it in the same way
    helped = [(name, "--help") for name in ("run", "check")]
    codes = {**dict(calls), **dict.fromkeys(helped, 0)}
    assert site.path.exists()
    for arguments, done in one_by_one(site, environ, [*plain, *helped]).items():
        assert done.code == codes[arguments], (arguments, done)
        assert "Traceback" not in done.err
        assert "Encode" not in done.err
    for arguments, done in one_by_one(site, environ, [(*each, "--json") for each in told]).items():
        assert done.code == codes[arguments[:-1]], (arguments, done)
        assert done.json["exit"] == done.code


@pytest.mark.thorough
@pytest.mark.parametrize("environ", NARROW)
def test_command_line_text_is_read_in_any_locale(site: TestSite, environ: dict[str, str]) -> None:
    """Invalid UTF-8 in a reason, a URL or the name of a site file as well."""
    site.export("products", [*pages(100), {"loc": "/größe"}])
    name, reason, url = map(os.fsdecode, (b"gr\xf6.yaml", b"f\xfcr", b"/gr\xf6\xdfe"))
    site.path.rename(site.folder / name)
    done = started(site, environ, "run", name, "--json", "--force", "products.max_drop", "--reason", reason)
    assert (done.returncode, json.loads(done.stdout)["status"]) == (0, "published"), done.stderr
    done = started(site, environ, "explain", name, "/größe", url, "--json")
    listed, broken = json.loads(done.stdout)["urls"]
    assert listed["canonical"] == "https://shop.example/gr%C3%B6%C3%9Fe"
    assert broken["canonical"] is None


@pytest.mark.thorough
def test_json_is_equivalent_on_an_ascii_stream(site: TestSite) -> None:
    site.export("products", [*pages(100), {"loc": "/hidden", "exclude": "geschlossen – für heute ✓"}])
    site.night(1)
    narrow, wide = (
        json.loads(started(site, {"PYTHONIOENCODING": encoding}, "explain", "shop.yaml", "/hidden", "--json").stdout)
        for encoding in ("ascii", "utf-8")
    )
    assert narrow == wide
    assert "für heute ✓" in json.dumps(wide, ensure_ascii=False)


def test_an_ascii_terminal_shows_progress_bars(site: TestSite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    code, shown = on_terminal("run", site.path, cwd=site.folder, columns=100)
    assert code == 0, shown
    assert shown.isascii()
    assert "render" in shown.partition("Published")[0]
