"""The command: exit codes, one JSON object in every case, messages that say what to do."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest

from sitemap_etl import __version__
from sitemap_etl.cli.columns import in_columns
from sitemap_etl.cli.endings import _Call
from tests.support.command import RUN_KEYS, Done, at, call, commands, process
from tests.support.sites import TestSite, pages

OF_SITES = ("init", "validate", "run", "publish", "ping", "status", "history", "report", "rollback", "explain")
COMMANDS = (*OF_SITES, "check", "schema")
DEAD = "http://127.0.0.1:1"


@pytest.fixture
def site(tmp_path: Path) -> TestSite:
    return TestSite(tmp_path).section("products", pages(100, lastmod="2026-10-01"))


def run(site: TestSite, night: int, *arguments: object) -> Done:
    return call("run", site.path, *at(f"2026-11-{night:02}T02:00:00Z"), *arguments)


def shown(done: Done, word: str) -> list[str]:
    """Return the arguments of the command that a message shows after `word`."""
    line = next(line for line in (done.out + done.err).splitlines() if line.strip().startswith(word))
    return shlex.split(line.partition("sitemap-etl ")[2].replace("…", "a reason"))


# --- the command itself -------------------------------------------------------------------------------


def test_the_version_is_printed() -> None:
    assert call("--version") == Done(0, f"{__version__}\n", "")


def test_help_has_one_line_for_every_command() -> None:
    done = call("--help")
    assert done.code == 0
    for name in COMMANDS:
        assert f"\n  {name} " in done.out
    assert "..." not in done.out.partition("Commands:")[2]


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_every_command_fits_into_80_columns(name: str) -> None:
    done = call(name, "--help")
    assert done.code == 0
    assert done.out.startswith(f"Usage: sitemap-etl {name}")
    assert max(len(line) for line in done.out.splitlines()) <= 80


@pytest.mark.parametrize("name", ["", *COMMANDS, "state", "state verify", "state forget"])
def test_every_command_takes_h_for_help(name: str) -> None:
    assert call(*name.split(), "-h") == call(*name.split(), "--help")


def test_python_m_is_the_same_command(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "sitemap_etl", "--version"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{__version__}\n", "")


WITH_VALUES = {
    f"{name} {param.opts[0]}": param
    for name, command in commands().items()
    for param in command.params
    if isinstance(param, click.Option) and not param.is_flag
}


@pytest.mark.parametrize("name", WITH_VALUES)
def test_help_shows_the_default_of_every_option_with_a_value(name: str) -> None:
    assert re.search(r"\(default: [^)]+\)", WITH_VALUES[name].help or ""), name


def test_a_shell_completes_commands_and_options(tmp_path: Path) -> None:
    def completed(*words: str) -> list[str]:
        environ = {"_SITEMAP_ETL_COMPLETE": "bash_complete", "COMP_WORDS": " ".join(words)}
        environ["COMP_CWORD"] = str(len(words) - 1)
        running = process(cwd=tmp_path, **environ)
        out, err = running.communicate(timeout=120)
        assert (running.returncode, err) == (0, "")
        return out.split()

    assert completed("sitemap-etl", "r") == ["plain,run", "plain,report", "plain,rollback"]
    assert "plain,--dry-run" in completed("sitemap-etl", "run", "--d")
    assert completed("sitemap-etl", "state", "v") == ["plain,verify"]
    assert completed("sitemap-etl", "check", "--fail-on", "w") == ["plain,warning"]


def test_paths_are_completed_by_the_shell(tmp_path: Path) -> None:
    for words in (["run", "si"], ["check", "pub"], ["run", "x.yaml", "--metrics", "m"]):
        environ = {"_SITEMAP_ETL_COMPLETE": "bash_complete", "COMP_WORDS": " ".join(["sitemap-etl", *words])}
        running = process(cwd=tmp_path, **environ, COMP_CWORD=str(len(words)))
        assert running.communicate(timeout=120) == (f"file,{words[-1]}\n", "")


def with_shell(option: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Call the command in bash. The shell is recognized by its parent processes."""
    command = ["bash", "-c", f"{shlex.quote(sys.executable)} -m sitemap_etl {option}; exit $?"]
    return subprocess.run(command, env={**os.environ, **environ}, capture_output=True, text=True, check=False)


def test_the_completion_of_a_shell_can_be_shown() -> None:
    done = with_shell("--show-completion")
    assert done.returncode == 0, done.stderr
    assert "_SITEMAP_ETL_COMPLETE=bash_complete" in done.stdout


def test_the_completion_of_a_shell_is_installed_once_and_works(tmp_path: Path) -> None:
    (tmp_path / ".bashrc").write_bytes(b"alias x=y # \xe9")
    for _ in range(2):
        done = with_shell("--install-completion", HOME=str(tmp_path))
        assert done.returncode == 0, done.stderr
    script = tmp_path / ".bash_completions" / "sitemap-etl.sh"
    assert (tmp_path / ".bashrc").read_bytes() == b"alias x=y # \xe9\nsource '%s'\n" % bytes(script)
    loaded = subprocess.run(
        ["bash", "-c", f"source {shlex.quote(str(script))} && complete -p sitemap-etl"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "-F _sitemap_etl_completion sitemap-etl" in loaded.stdout


def test_a_call_without_arguments_shows_the_help_and_fails() -> None:
    done = call()
    assert (done.code, done.out) == (2, "")
    assert "Commands:" in done.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["rnu"], "No such command 'rnu'. Did you mean 'run'? See sitemap-etl --help"),
        (["run"], "Missing argument 'SITE.yaml'. See sitemap-etl run --help"),
        (
            ["run", "x.yaml", "--sectoin", "a"],
            "(Did you mean one of: '--json', '--section'?) See sitemap-etl run --help",
        ),
        (["run", "x.yaml", "y"], "unexpected extra argument"),
        (
            ["run", "x.yaml", "--limit", "0"],
            "--limit: expected a whole number, 1 or more, got '0'. See sitemap-etl run",
        ),
        (["run", "x.yaml", "--jobs", "two"], "--jobs: expected a whole number, 1 or more, got 'two'. "),
        (
            ["check", "x", "--as", "yahoo"],
            "--as: expected one of googlebot, bingbot, got 'yahoo'. See sitemap-etl check",
        ),
        (["run", "x.yaml", "--against", "https://shop.example/sitemap.xml"], "--against needs --dry-run"),
        (["check"], "PATH_OR_URL"),
        (["check", "x.xml", "--fail-on", "info"], "--fail-on"),
    ],
)
def test_an_invalid_call_is_reported_in_one_line_with_exit_code_2(arguments: list[str], said: str) -> None:
    done = call(*arguments)
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert len(done.err.splitlines()) == 1
    with_json = call(*arguments, "--json")
    assert with_json.code == 2
    assert with_json.json["status"] == "failed"
    assert with_json.json["error"]


def test_an_invalid_time_is_reported(site: TestSite) -> None:
    done = call("run", site.path, "--now", "tomorrow")
    assert done.code == 2
    assert "--now tomorrow: expected a time in ISO 8601, such as 2026-11-20T02:00:00Z" in done.err


# --- a run --------------------------------------------------------------------------------------------


def test_a_run_ends_with_exit_code_0_and_prints_what_it_published(site: TestSite) -> None:
    done = run(site, 1)
    assert done.code == 0
    assert done.out.startswith("Published  run 20261101T020000Z-")
    assert "files: 2 written" in done.out
    assert "index: https://shop.example/sitemap.xml" in done.out


def test_progress_goes_to_stderr_in_plain_lines(site: TestSite) -> None:
    done = run(site, 1)
    assert {"extract: 1 of 1", "transform: 1 of 1", "render: 1 of 1", "publish: 2 of 2"} <= set(done.err.splitlines())
    assert "\x1b" not in done.out + done.err


def test_a_run_without_changes_ends_with_exit_code_0_and_says_so(site: TestSite) -> None:
    run(site, 1)
    done = run(site, 2)
    assert done.code == 0
    assert done.out.startswith("Nothing changed, nothing was written")


def test_the_output_of_a_run_ends_with_its_duration_and_the_most_changed_sections(site: TestSite) -> None:
    for n in range(4):
        site.section(f"s{n}", pages(40, start=1_000 * (n + 1)))
    run(site, 1)
    site.export("products", pages(103, lastmod="2026-10-01"))
    site.export("s1", pages(38, start=2_001))
    site.export("s2", pages(39, start=3_000))
    site.export("s3", pages(41, start=4_000))
    *_, most, time = run(site, 2).out.splitlines()
    assert most == "most changes: products (3 added), s1 (2 removed), s2 (1 removed)"
    assert re.fullmatch(r"time: (\d+\.\d s|< 0\.1 s|\d+ min \d+ s)", time)
    assert "most changes" not in run(site, 3).out


def test_up_to_three_sections_are_not_listed_again_below_their_table(site: TestSite) -> None:
    assert "most changes" not in run(site, 1).out


def test_the_json_of_a_run_always_has_every_key(site: TestSite) -> None:
    """Published, unchanged, dry, refused by a gate, refused otherwise, a broken source, a broken file."""
    statuses = []
    for night, change, options in (
        (1, lambda: None, ()),
        (2, lambda: None, ()),
        (3, lambda: None, ("--dry-run",)),
        (4, lambda: site.export("products", pages(10)), ()),
        (5, (site.folder / "products.csv").unlink, ()),
        (6, lambda: site.keys.update(colour="red"), ()),
    ):
        change()
        done = run(site, night, "--json", *options)
        assert set(done.json) >= RUN_KEYS
        assert set(done.json["files"]) >= {"written", "unchanged", "deleted"}
        statuses.append((done.json["status"], done.code, bool(done.json["error"])))
    assert statuses == [
        ("published", 0, False),
        ("unchanged", 0, False),
        ("dry_run", 0, False),
        ("refused", 1, True),
        ("failed", 2, True),
        ("failed", 2, True),
    ]


def test_a_run_with_a_kept_section_ends_with_exit_code_3(site: TestSite) -> None:
    site.section("news", pages(30, start=200), on_error="keep")
    run(site, 1)
    (site.folder / "news.csv").unlink()
    done = run(site, 2, "--json")
    assert (done.code, done.json["status"]) == (3, "partial")
    assert done.json["sections"]["news"]["carried"] == 30


def test_a_refusal_shows_the_amount_the_section_and_what_to_do(site: TestSite) -> None:
    run(site, 1)
    site.export("products", pages(50, lastmod="2026-10-01"))
    done = run(site, 2)
    assert done.code == 1
    first, most, look = done.err[done.err.index("Refused") :].splitlines()[:3]
    assert first == (
        "Refused: products would drop 50 of 100 URLs (50 %, max_drop is 10 %). Nothing public was touched."
    )
    assert most == "  most of them: /p/… (50)    e.g. https://shop.example/p/000050"
    assert look == f"  look:    sitemap-etl explain {site.path} https://shop.example/p/000050"


def test_the_commands_a_refusal_shows_can_be_run_as_they_are(site: TestSite) -> None:
    run(site, 1)
    site.export("products", pages(50, lastmod="2026-10-01"))
    refused = run(site, 2)
    assert "listed" in call(*shown(refused, "look:")).out
    assert call(*shown(refused, "publish:")).code == 0
    assert len(site.public().locs()) == 50
    assert site.manifest().reason == "a reason"


def test_an_object_not_managed_is_named_and_can_be_adopted_as_shown(site: TestSite) -> None:
    (site.folder / "public").mkdir()
    (site.folder / "public" / "sitemap.xml").write_text("<old/>")
    done = run(site, 1, "--json")
    assert (done.code, done.json["status"]) == (1, "refused")
    assert str(site.folder / "public" / "sitemap.xml") in done.json["error"]
    assert done.json["sections"]["products"]["listed"] == 100
    assert done.json["plan"]["unmanaged"] == ["sitemap.xml"]
    assert "not created by this state" in Path(done.json["report"]).read_text()
    arguments = shown(done, "to replace them")
    assert arguments == ["publish", str(site.path), done.json["run_id"], "--adopt"]
    assert call(*arguments).code == 0
    assert len(site.public().locs()) == 100


def test_forcing_a_gate_requires_a_reason(site: TestSite) -> None:
    done = call("run", site.path, "--force", "products.max_drop")
    assert (done.code, done.err) == (2, "--force wants a --reason, which the manifest keeps\n")


@pytest.mark.parametrize("reason", ["…", "...", "“…”", "<reason>", "Your reason", "-"])
def test_a_placeholder_is_not_a_reason(site: TestSite, reason: str) -> None:
    done = call("run", site.path, "--force", "products.max_drop", "--reason", reason)
    assert (done.code, f"--reason {reason}: this is a placeholder" in done.err) == (2, True), done.err
    run(site, 1)
    assert "this is a placeholder" in call("rollback", site.path, "--reason", reason).err


def test_a_run_under_way_makes_another_one_end_with_exit_code_1_naming_it(site: TestSite) -> None:
    run(site, 1)
    from sitemap_etl.state.lease import take_lease

    # Process 0 is nobody's on this machine: its lease counts until its time is over.
    take_lease(site.state().storage, "20261101T030000Z-beef", pid=0, owner="shop/nightly")
    done = run(site, 2, "--json")
    assert (done.code, done.json["status"]) == (1, "refused")
    assert "Another run is in progress: run 20261101T030000Z-beef, since " in done.json["error"]


# --- a dry run ----------------------------------------------------------------------------------------


def test_a_dry_run_lists_exactly_the_files_that_publishing_writes(site: TestSite) -> None:
    site.keys["recent"] = "3d"
    site.keys["gates"] = {"max_growth": 9}
    site.section("products", shards={"rows": 50, "fill": 1}, feed={"formats": ["atom"], "title": "New"})
    run(site, 1)
    site.export("products", pages(140, lastmod=lambda n: "2026-11-01" if n == 7 else "2026-10-01"))
    before = site.public().objects()
    dry = run(site, 2, "--dry-run", "--json")
    assert site.public().objects() == before
    assert dry.json["plan"]["delete"] == []
    assert call("publish", site.path, dry.json["run_id"], "--no-ping").code == 0
    after = site.public().objects()
    written = {key for key in after if after[key] != before.get(key)}
    assert set(dry.json["plan"]["write"]) == written
    assert {"sitemap-recent-00001.xml.gz", "products.atom.xml", "sitemap.xml"} <= written
    assert dry.json["plan"]["unchanged"] == len(set(after) - written - {"robots.txt"})


def test_a_dry_run_lists_the_files_it_would_retire_and_delete(site: TestSite) -> None:
    site.keys["gates"] = {"max_drop": 1}
    site.section("products", shards={"rows": 50, "fill": 1})
    site.night(1)
    site.export("products", pages(50, lastmod="2026-10-01"))
    dry = site.night(2, dry_run=True).summary.plan
    assert dry is not None
    assert dry.retire == ("sitemap-products-00002.xml.gz",)
    site.night(2)
    later = site.night(9, dry_run=True).summary.plan
    assert later is not None
    assert later.delete == ("sitemap-products-00002.xml.gz",)


def test_a_dry_run_shows_changes_with_examples_and_the_gate_nearest_to_its_limit(site: TestSite) -> None:
    run(site, 1)
    site.export("products", pages(98, lastmod=lambda n: "2026-11-01" if n == 7 else "2026-10-01"))
    done = run(site, 2, "--dry-run")
    assert done.code == 0
    assert "products: 1 changed\n  https://shop.example/p/000007\n" in done.out
    assert "products: 2 removed\n  https://shop.example/p/000098\n" in done.out
    assert " gates passed, nearest to its limit: products.max_drop (2.00 %, limit 10.00 %)\n" in done.out
    assert "margin" not in done.out
    assert shown(done, "to publish exactly this")[0] == "publish"


def test_a_dry_run_lists_objects_that_are_not_managed(site: TestSite) -> None:
    (site.folder / "public").mkdir()
    (site.folder / "public" / "sitemap.xml").write_text("<old/>")
    done = run(site, 1, "--dry-run")
    assert done.code == 0
    assert "files: 1 that sitemap-etl did not write; use --adopt to replace them: sitemap.xml" in done.out


# --- the others ---------------------------------------------------------------------------------------


def test_history_lists_releases_with_their_reasons(site: TestSite) -> None:
    assert call("history", site.path).out == "Nothing has been published yet.\n"
    run(site, 1)
    site.export("products", pages(50, lastmod="2026-10-01"))
    run(site, 2, "--force", "products.max_drop", "--force", "max_drop", "--reason", "range discontinued")
    done = call("history", site.path)
    newest, oldest = done.out.splitlines()[1:]
    assert newest.split()[0].startswith("20261102")
    assert "current" in newest
    assert "“range discontinued”" in newest
    assert oldest.split()[1:4] == ["published", "100", "2"]
    assert "“a test's time”" in oldest
    assert [entry["listed"] for entry in call("history", site.path, "--json").json["sets"]] == [50, 100]


def test_a_run_that_was_published_is_not_published_again(site: TestSite) -> None:
    done = run(site, 1, "--json")
    again = call("publish", site.path, done.json["run_id"])
    assert again.code == 1
    assert f"Run {done.json['run_id']} was published already. Nothing was written" in again.err
    shown = run(site, 2, "--dry-run", "--json").json["run_id"]
    assert call("publish", site.path, shown).code == 0


def test_a_run_with_a_limit_of_rows_is_not_published(site: TestSite) -> None:
    """With `--limit` a run shows what it would do; publishing would remove what it did not read."""
    run(site, 1)
    shown = run(site, 2, "--limit", 95, "--dry-run", "--json").json["run_id"]
    done = call("publish", site.path, shown)
    assert done.code == 1
    assert (
        f"Run {shown} read 95 rows of each split (--limit), and would unlist the pages that it did not read" in done.err
    )
    assert len(site.public().locs()) == 100


def test_explain_ends_with_exit_code_1_if_a_url_is_not_listed(site: TestSite) -> None:
    run(site, 1)
    assert call("explain", site.path, "/p/000001").code == 0
    done = call("explain", site.path, "/p/000001", "/p/nothing", "--json")
    assert (done.code, done.json["exit"], done.json["status"]) == (1, 1, "done")
    assert call("explain", site.path, "https://other.example/").code == 1


def counts_of_files(text: str, *words: str) -> list[int]:
    return [int(re.search(rf"^files: (\d+) {word}", text, re.MULTILINE)[1]) for word in words]  # type: ignore[index]


def test_a_dry_run_counts_the_same_files_as_the_run_that_follows(site: TestSite) -> None:
    site.keys["publish"] = "./public"
    site.keys["recent"] = "3d"
    site.section("products", shards={"rows": 50, "fill": 1}, feed={"formats": ["atom"], "title": "New"})
    dry, done = run(site, 1, "--dry-run"), run(site, 1)
    assert counts_of_files(dry.out, "to write") == counts_of_files(done.out, "written")
    assert "robots.txt: to be written, to name the index" in dry.out
    assert "robots.txt: written, to name the index" in done.out
    site.export("products", pages(100, lastmod=lambda n: "2026-11-01" if n == 7 else "2026-10-01"))
    dry, done = run(site, 2, "--dry-run"), run(site, 2)
    assert counts_of_files(dry.out, "to write") == counts_of_files(done.out, "written")
    assert "robots.txt" not in dry.out.partition("gate ")[0] + done.out
    as_json = run(site, 3, "--dry-run", "--json").json["files"]
    assert (as_json["to_write"], as_json["robots_txt"], as_json["key_file"]) == (0, False, False)
    assert (as_json["written"], as_json["deleted"]) == (0, 0)


def test_robots_txt_names_no_index_once_nothing_is_listed(site: TestSite) -> None:
    site.keys["publish"] = "./public"
    run(site, 1)
    site.export("products", [])
    forced = [f"--force={name}" for name in ("products.min_urls", "min_urls", "products.max_drop", "max_drop")]
    gone = run(site, 2, *forced, "--reason", "the end")
    assert "robots.txt: written, to name no index" in gone.out
    assert b"Sitemap:" not in site.public().objects()["robots.txt"]


def test_ping_without_engines_says_so(site: TestSite) -> None:
    run(site, 1)
    done = call("ping", site.path, "--json")
    assert (done.code, done.json["status"]) == (2, "failed")
    assert done.json["error"].startswith("shop: the site file has no search engines. Add one under ping:")


def test_a_failed_engine_ends_with_exit_code_3_after_publishing(site: TestSite) -> None:
    site.keys["ping"] = {"http_ping": {"url": f"{DEAD}/?sitemap={{sitemap}}", "patience": 0}}
    done = run(site, 1, "--json")
    assert (done.code, done.json["status"], done.json["published"]) == (3, "partial", True)
    assert done.json["engines"]["http_ping"]["status"] == "unavailable"
    assert len(site.public().locs()) == 100
    by_hand = call("ping", site.path, "--json")
    assert (by_hand.code, by_hand.json["status"]) == (3, "partial")


def test_schema_prints_a_json_schema() -> None:
    assert call("schema").json["$schema"].startswith("https://json-schema.org/")


def test_validate_reports_all_errors_of_all_files_at_once(site: TestSite, tmp_path: Path) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text("site: shop.example\npublish: ./public\nsectoins: {}\n")
    done = call("validate", site.path, bad)
    assert done.code == 2
    assert done.out == f"{site.path}: valid (shop, 1 section)\n"
    assert done.err.splitlines()[0].endswith("problems:")
    assert "did you mean sections?" in done.err
    assert [entry["name"] for entry in call("validate", site.path, bad, "--json").json["sites"]] == ["shop", None]


def test_validate_connect_tests_sources_storages_and_secrets(
    site: TestSite, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("INDEXNOW_KEY", raising=False)
    site.keys["ping"] = {"indexnow": {"key": "${INDEXNOW_KEY}"}}
    site.section("products", lastmod="updated_at")
    (tmp_path / "away.csv").write_text("url, loc\n/a,/b\n")
    site.keys["sections"]["away"] = {"from": {"csv": "./away.csv"}}
    assert call("validate", site.path).code == 0
    done = call("validate", site.path, "--connect")
    assert done.code == 2
    assert "section products: a rule uses the column 'updated_at', which the source (" in done.err
    assert f"section away: the source ({tmp_path / 'away.csv'}) has no column 'loc'. It has: url, \" loc\"" in done.err
    assert "INDEXNOW_KEY" in done.err


def test_validate_connect_ends_with_exit_code_3_if_a_service_does_not_answer(
    site: TestSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_CATALOG", "postgresql://reader:geheim@127.0.0.1:1/shop")
    site.keys["sections"]["more"] = {"from": {"database": "catalog", "query": "SELECT loc FROM pages"}}
    done = call("validate", site.path, "--connect")
    assert done.code == 3
    assert "section more: " in done.err
    assert "geheim" not in done.err


@pytest.mark.parametrize(
    "arguments",
    [
        ("run",),
        ("validate", "--connect"),
        ("publish", "20261101T020000Z-beef"),
        ("history",),
        ("report",),
        ("rollback",),
        ("ping",),
        ("explain", "/p/1"),
    ],
)
def test_an_unreachable_store_ends_every_command_with_exit_code_3(
    site: TestSite, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    for name, value in {
        "AWS_ENDPOINT_URL": DEAD,
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "geheim",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_MAX_ATTEMPTS": "1",
        "SITEMAP_ETL_S3_TIMEOUT": "1",
    }.items():
        monkeypatch.setenv(name, value)
    site.keys |= {"work": "s3://private/work", "ping": {"http_ping": {"url": f"{DEAD}/?s={{sitemap}}"}}}
    name, *rest = arguments
    done = call(name, site.path, *rest)
    assert done.code == 3, done.err
    assert "geheim" not in done.err
    with_json = call(name, site.path, *rest, "--json")
    assert (with_json.code, with_json.json["status"]) == (3, "failed")


def test_report_prints_the_path_of_the_last_report_or_of_a_run(site: TestSite, tmp_path: Path) -> None:
    done = call("report", site.path)
    assert (done.code, done.err) == (2, "shop: no run has a report. There are no reports yet\n")
    first = run(site, 1, "--json").json
    second = run(site, 2, "--dry-run", "--json").json
    assert call("report", site.path) == Done(0, f"{second['report']}\n", "")
    assert call("report", site.path, first["run_id"]).out == f"{first['report']}\n"
    site.path.with_name("products.csv").unlink()
    assert run(site, 3).code == 2
    assert call("report", site.path).out == f"{second['report']}\n", "a run that failed has no report"
    Path(second["report"]).unlink()
    found = call("report", site.path, "--json").json
    assert (found["run_id"], found["report"], found["path"]) == (first["run_id"], *[first["report"]] * 2)
    done = call("report", site.path, "20200101T000000Z-0000")
    assert done.code == 2
    assert "run 20200101T000000Z-0000 has no report. The last reports are of " in done.err
    assert call("report", site.path, "../x").code == 2


def test_report_opens_a_browser(site: TestSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    address = run(site, 1, "--json").json["report"]
    opened = tmp_path / "opened"
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\nprintf %s "$1" > {opened}\n')
    browser.chmod(0o755)
    monkeypatch.setenv("BROWSER", f"{browser} %s")
    program = process("report", site.path, "--open", cwd=tmp_path)
    assert (program.communicate()[0], program.returncode) == (f"{address}\n", 0)
    assert opened.read_text() == Path(address).as_uri()


def test_a_report_in_a_bucket_is_downloaded(site: TestSite, bucket: str) -> None:
    site.keys["work"] = f"s3://{bucket}/work"
    first = run(site, 1, "--json").json
    found = call("report", site.path, "--json").json
    assert found["report"] == first["report"] == f"s3://{bucket}/work/shop/reports/{first['run_id']}/report.html"
    path = Path(found["path"])
    assert "<title>" in path.read_text()
    assert path.name == f"shop-{first['run_id']}.html"
    path.unlink()
    path.parent.rmdir()


def test_an_operating_system_error_is_reported_without_a_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    assert _Call(["run", "x.yaml"]).tell(OSError(28, "No space left on device", "/tmp/x")) == 3
    told = capsys.readouterr().err
    assert told == "No space left on device (/tmp/x). The published files are valid; fix that and run again\n"


def test_a_bug_is_reported_as_such_and_json_output_stays_one_object(capsys: pytest.CaptureFixture[str]) -> None:
    assert _Call(["run", "x.yaml", "--json"]).tell(ZeroDivisionError("division by zero")) == 70
    out = capsys.readouterr().out
    told = Done(70, out, "").json
    assert (told["kind"], told["exit"], told["status"]) == ("defect", 70, "failed")


@pytest.mark.parametrize("options", [(), ("--dry-run",)])
def test_refusing_gates_are_shown_as_a_table_and_the_others_in_one_line(
    site: TestSite, options: tuple[str, ...]
) -> None:
    for n in range(6):
        site.section(f"s{n}", pages(40, start=1_000 * (n + 1)))
    run(site, 1)
    site.export("s3", pages(33, start=4_000))
    done = run(site, 2, *options)
    lines = done.out.splitlines()
    at = next(at for at, line in enumerate(lines) if line.split() == ["gate", "now", "limit", "margin", "status"])
    assert lines[at + 1].split() == ["s3.max_drop", "17.50", "%", "10.00", "%", "-7.50", "%", "refused"]
    assert lines[at + 2].startswith("47 other gates passed, nearest to its limit: max_drop (2.06 %, limit 10.00 %)")


def test_a_table_that_is_too_wide_continues_below_without_cutting_values() -> None:
    lines = list(in_columns(["section", "extracted", "listed", "removed"], [["s" * 30, "1", "22", "333"]], 50))
    assert lines == [
        "section".ljust(30) + "  extracted  listed",
        "s" * 30 + "          1      22",
        "",
        "section".ljust(30) + "  removed",
        "s" * 30 + "      333",
    ]
