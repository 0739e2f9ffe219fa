"""The log on stderr: nothing for unchanged runs, all steps on demand, JSON for log collectors."""

from __future__ import annotations

import contextlib
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sitemap_etl.cli.progress import Bars
from tests.support.command import RUN_KEYS, Done, at, call
from tests.support.sites import TestSite, pages
from tests.test_cli_process import on_terminal

DEAD = "http://127.0.0.1:1"
STAGES = ("plan", "extract", "transform", "partition", "render", "publish", "report")


def day(n: int) -> str:
    return f"2026-10-{n % 28 + 1:02}"


@pytest.fixture
def site(tmp_path: Path) -> TestSite:
    return TestSite(tmp_path).section("products", pages(100, lastmod=day))


def run(site: TestSite, night: int, *arguments: object) -> Done:
    return call("run", site.path, *at(f"2026-11-{night:02}T02:00:00Z"), *arguments)


def lines(done: Done) -> list[dict[str, Any]]:
    """Return the log of a call; every line is an object."""
    return [json.loads(line) for line in done.err.splitlines()]


# --- quiet --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("option", ["--quiet", "-q"])
def test_a_run_with_quiet_prints_nothing(site: TestSite, option: str) -> None:
    assert run(site, 1, option) == Done(0, "", "")
    assert len(site.public().locs()) == 100
    assert run(site, 2, option) == Done(0, "", "")
    assert run(site, 3, option, "--log-format", "json") == Done(0, "", "")


def test_a_run_with_quiet_prints_errors_and_warnings(site: TestSite) -> None:
    run(site, 1)
    site.export("products", pages(94, lastmod=day))
    done = run(site, 2, "-q")
    assert (done.code, done.out) == (0, "")
    assert done.err.startswith("warning: products would drop 6 of 100 URLs (6 %")
    site.export("products", pages(50, lastmod=day))
    done = run(site, 3, "-q")
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("Refused: products would drop 50 of 100 URLs")
    (site.folder / "products.csv").unlink()
    done = run(site, 4, "-q")
    assert (done.code, done.out) == (2, "")
    assert len(done.err.splitlines()) == 1


def test_an_unchanged_run_names_the_engine_that_failed_and_the_section_that_was_kept(site: TestSite) -> None:
    site.keys["ping"] = {"http_ping": {"url": f"{DEAD}/?sitemap={{sitemap}}", "patience": 0}}
    site.section("news", pages(30, start=200), on_error="keep")
    done = run(site, 1, "-q")
    assert (done.code, done.out) == (3, "")
    assert "http_ping: " in done.err
    assert "Published. 1 of 1 engine failed: http_ping  run 20261101T020000Z-" in done.err
    del site.keys["ping"]
    (site.folder / "news.csv").unlink()
    done = run(site, 2, "-q")
    assert (done.code, done.out) == (3, "")
    assert done.err.count("news stays as published") == 1


def test_quiet_and_json_print_only_the_object(site: TestSite) -> None:
    done = run(site, 1, "-q", "--json")
    assert (done.code, done.err) == (0, "")
    assert set(done.json) >= RUN_KEYS


@pytest.mark.parametrize("command", ["ping", "rollback"])
def test_other_commands_with_quiet_print_nothing(site: TestSite, command: str, tmp_path: Path) -> None:
    site.keys["ping"] = (
        {"indexnow": {"key": "abcdefgh12345678", "endpoint": DEAD, "patience": 0}} if command == "ping" else {}
    )
    run(site, 1, "--no-ping")
    site.export("products", pages(95, lastmod=day))
    run(site, 2, "--no-ping")
    more = at("2026-11-03T02:00:00Z") if command == "rollback" else ()
    done = call(command, site.path, *more, "-q")
    if command == "rollback":
        assert done == Done(0, "", "")
    else:
        assert (done.code, done.out) == (3, "")
        assert done.err.startswith("warning: indexnow: ")


def test_quiet_and_verbose_contradict_each_other(site: TestSite) -> None:
    done = run(site, 1, "-q", "-v")
    assert (done.code, done.err) == (2, "--quiet and --verbose contradict each other: give one of them\n")


# --- progress -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("option", ["--verbose", "-v"])
def test_verbose_logs_each_step(site: TestSite, option: str) -> None:
    done = run(site, 1, option)
    assert re.search(r"^plan: run 20261101T020000Z-\w{4}; sections: 1, splits: 1; state at /", done.err, re.MULTILINE)
    assert re.search(r"^extract: products: .*/products.csv, 100 rows, \d+\.\d s$", done.err, re.MULTILINE)
    assert re.search(r"^publish: sitemap-products-00001.xml.gz written \([\d,]+ bytes\)$", done.err, re.MULTILINE)
    assert re.search(r"^partition took \d+\.\d s$", done.err, re.MULTILINE)
    assert "took" not in run(site, 2).err


def test_a_terminal_shows_a_progress_bar_for_every_stage(site: TestSite) -> None:
    code, shown = on_terminal("run", site.path, *at("2026-11-01T02:00:00Z"), cwd=site.folder, columns=100)
    assert code == 0, shown
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown)
    assert text.lstrip().startswith("start")
    for stage in STAGES:
        assert re.search(rf"[\r\n]{stage} +━", text), stage
    assert text.rpartition("━")[2].lstrip().count("Published  run") == 1


class Clock:
    """A clock that passes only on request."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@contextlib.contextmanager
def progress(clock: Clock) -> Iterator[tuple[Bars, io.StringIO]]:
    err = io.StringIO()
    with contextlib.redirect_stderr(err), Bars(clock=clock) as bars:
        yield bars, err


def test_a_long_stage_shows_its_estimated_remaining_time() -> None:
    clock = Clock()
    with progress(clock) as (bars, err):
        bars.advance("render", 0, 10)
        for done, now in ((1, 2.0), (2, 40.0), (3, 1_200.0), (4, 13_000.0), (10, 20_000.0)):
            clock.now = now
            bars.advance("render", done, 10)
    assert err.getvalue().splitlines() == [
        "render: 1 of 10",
        "render: 2 of 10, about 3 min left",
        "render: 3 of 10, about 47 min left",
        "render: 4 of 10, about 5 h 25 min left",
        "render: 10 of 10",
    ]


def test_a_slow_split_logs_how_many_rows_it_has_read() -> None:
    clock = Clock()
    with progress(clock) as (bars, err):
        for rows, now in ((100_000, 5.0), (400_000, 16.0), (500_000, 17.0), (900_000, 40.0)):
            clock.now = now
            bars.advance("extract", rows, 0)
    assert err.getvalue().splitlines() == ["extract: 400,000 rows so far", "extract: 900,000 rows so far"]


# --- JSON ---------------------------------------------------------------------------------------------


def test_json_log_lines_name_run_section_and_split_if_known(site: TestSite) -> None:
    site.section("news", pages(30, start=200))
    done = run(site, 1, "--log-format", "json", "--jobs", "4")
    found = lines(done)
    assert done.out.startswith("Published  run ")
    run_id = site.manifest().run_id
    assert {line["run"] for line in found} == {run_id}
    for line in found:
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["time"])
        assert line["level"] == "info"
        assert line["message"]
    for stage in ("extract", "transform"):
        parts = [line for line in found if line.get("stage") == stage]
        assert {(line["section"], line["split"], line["rows"]) for line in parts} == {
            ("products", 0, 100),
            ("news", 1, 30),
        }
    assert {line["section"] for line in found if line.get("stage") == "render"} == {"products", "news"}
    written = {line["file"] for line in found if "file" in line}
    assert written == {"sitemap-products-00001.xml.gz", "sitemap-news-00001.xml.gz", "sitemap.xml"}
    assert (found[-1]["status"], found[-1]["exit"]) == ("published", 0)


def test_an_error_in_a_json_log_has_its_location(site: TestSite) -> None:
    (site.folder / "products.csv").write_text("loc,lastmod\n/a,2026-10-01\n/b\n")
    *_, last = lines(run(site, 1, "--log-format=json"))
    assert (last["level"], last["kind"], last["exit"]) == ("error", "source", 2)
    assert (last["stage"], last["section"], last["split"]) == ("extract", "products", 0)
    assert last["run"].startswith("20261101T020000Z-")
    assert "line 3: expected 2 fields" in last["message"]
    (site.folder / "products.csv").unlink()
    (line,) = lines(run(site, 2, "--log-format=json"))
    assert (line["level"], line["section"]) == ("error", "products")


def test_a_refusal_and_its_warnings_are_logged_as_json(site: TestSite) -> None:
    run(site, 1)
    site.export("products", pages(50, lastmod=day))
    done = run(site, 2, "--log-format", "json")
    *_, last = lines(done)
    assert (done.code, last["level"], last["status"]) == (1, "error", "refused")
    assert last["message"].startswith("Refused: products would drop 50 of 100 URLs")
    site.export("products", pages(94, lastmod=day))
    found = lines(run(site, 3, "--log-format", "json"))
    assert any(line["level"] == "warning" and "would drop 6 of 100" in line["message"] for line in found)


@pytest.mark.parametrize(
    "arguments",
    [("run",), ("run", "nope.yaml"), ("run", "nope.yaml", "--jobs", "0"), ("history", "nope.yaml"), ("rnu",)],
)
def test_an_invalid_call_is_logged_as_json(arguments: tuple[str, ...]) -> None:
    done = call(*arguments, "--log-format", "json")
    assert (done.code, done.out) == (2, "")
    (line,) = lines(done)
    assert (line["level"], line["exit"]) == ("error", 2)


def test_log_context_of_one_command_does_not_leak_into_the_next(site: TestSite) -> None:
    run(site, 1)
    (line,) = lines(call("run", "nope.yaml", "--log-format", "json"))
    assert "run" not in line
