"""The config file of `check`, and the options that its keys stand for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sitemap_etl.cli.check_config import ONLY_TYPED, keys_of
from tests.support.command import Done, call, commands

BROKEN = (
    '<?xml version="1.0" encoding="UTF-8"?>\n<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">'
    "<url><loc>https://shop.example/a</loc><priority>2</priority></url>"
    "<url><loc>https://shop.example/a</loc></url></urlset>"
)
COMMAND = commands()["check"]
PAGES = Path(__file__).parent.parent / "docs"
COMMAND_PAGE = (PAGES / "reference" / "command.md").read_text("utf-8")
OPTIONS = COMMAND_PAGE.partition("\n## `sitemap-etl check ")[2].partition("\n## ")[0]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a sitemap that has an error and a warning."""
    (tmp_path / "public").mkdir()
    (tmp_path / "public" / "sitemap.xml").write_text(BROKEN)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def codes(done: Done) -> dict[str, str]:
    assert done.err.strip() == "" or done.err.startswith("files: "), done.err
    return {finding["code"]: finding["severity"] for finding in done.json["findings"]}


def test_every_option_is_a_key_and_every_key_and_option_is_documented() -> None:
    options = {
        name for param in COMMAND.params for name in (*param.opts, *param.secondary_opts) if name.startswith("--")
    }
    keys = set(keys_of(COMMAND.params))
    assert {f"--{key}" for key in keys - {"targets"}} == {
        name for param in COMMAND.params for name in param.opts[:1] if name.startswith("--")
    } - {f"--{key}" for key in ONLY_TYPED}
    rows = [line for line in OPTIONS.splitlines() if line.startswith("| `--")]
    import re

    assert {name for row in rows for name in re.findall(r"`(--[a-z-]+)", row.split(" | ")[0])} == options - {"--help"}


def test_the_defaults_in_the_documentation_are_the_real_ones() -> None:
    from sitemap_etl.check import Options

    plain = Options()
    for option, value in (
        ("max-files", f"{plain.max_files:,}"),
        ("max-bytes", f"{plain.max_bytes:,}"),
        ("jobs", str(plain.jobs)),
        ("timeout", f"{plain.timeout:g}"),
    ):
        (row,) = (line for line in OPTIONS.splitlines() if line.startswith(f"| `--{option} "))
        assert f"(default: {value}" in row


def test_documented_exit_codes_exist_and_the_example_config_file_is_valid(project: Path) -> None:
    example = (PAGES / "how-to" / "check.md").read_text("utf-8").partition("```toml\n")[2].partition("```")[0]
    (project / ".sitemap-check.toml").write_text(example)
    (project / "sitemap-baseline.json").write_text('{"format": 1, "findings": []}')
    done = call("check", "--json")
    assert (done.code, codes(done)["priority-invalid"]) == (1, "error")
    page = (PAGES / "reference" / "exit-codes.md").read_text("utf-8")
    section = page.partition("\n## `check`")[2].partition("\n## ")[0]
    assert [line.split(" ")[1] for line in section.splitlines() if line.startswith("| ") and line[2].isdigit()] == [
        *("0", "1", "2", "3", "70", "130")
    ]


def test_only_the_nearest_config_file_upwards_counts(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "pyproject.toml").write_text('[tool.sitemap-etl.check]\nignore = ["priority"]\n')
    inner = project / "a" / "b"
    inner.mkdir(parents=True)
    (project / "a" / "pyproject.toml").write_text('[tool.ruff]\nignore = ["E501"]\n')
    monkeypatch.chdir(inner)
    target = project / "public"
    assert set(codes(call("check", target, "--json"))) == {"duplicate"}
    (project / "a" / ".sitemap-check.toml").write_text('ignore = ["dup"]\n')
    assert set(codes(call("check", target, "--json"))) == {"priority-invalid"}
    (project / "a" / "pyproject.toml").write_text('[tool.sitemap-etl.check]\nselect = ["bom"]\n')
    assert set(codes(call("check", target, "--json"))) == {"priority-invalid"}, "of two in a folder, ours"
    assert set(codes(call("check", target, "--json", "--isolated"))) == {"priority-invalid", "duplicate"}


def test_the_command_line_overrides_the_config_file(project: Path) -> None:
    (project / ".sitemap-check.toml").write_text(
        'ignore = ["priority"]\nfail-on = "warning"\nformat = "github"\nfollow = false\njobs = 2\n'
    )
    assert call("check", "public").code == 1
    assert call("check", "public").out.startswith("::warning title=duplicate")
    done = call("check", "public", "--ignore", "dup", "--fail-on", "error", "--json", "--follow")
    assert (done.code, set(codes(done))) == (1, {"priority-invalid"})


def test_targets_and_paths_are_relative_to_the_config_file(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "ci").mkdir()
    (project / "ci" / "check.toml").write_text(
        'targets = ["../public"]\nbaseline = "known.json"\nhtml = "page.html"\nurls = "urls.csv"\n'
    )
    inner = project / "public"
    monkeypatch.chdir(inner)
    assert call("check", "--config", "../ci/check.toml", "--write-baseline").code == 0
    assert sorted(path.name for path in (project / "ci").iterdir()) == [
        "check.toml",
        "known.json",
        "page.html",
        "urls.csv",
    ]
    assert [path.name for path in inner.iterdir()] == ["sitemap.xml"]
    assert call("check", "--config", "../ci/check.toml").code == 0


def test_severities_can_be_a_table_or_a_list(project: Path) -> None:
    for text in (
        '[severity]\npriority = "info"\nduplicate = "off"\n',
        'severity = ["priority=info", "duplicate=off"]\n',
    ):
        (project / ".sitemap-check.toml").write_text(text)
        assert codes(call("check", "public", "--json")) == {"priority-invalid": "info"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("fail_on = 'error'", "fail_on: unknown key; did you mean fail-on?"),
        ("ignroe = []", "ignroe: unknown key; did you mean ignore?"),
        ("no-follow = true", "no-follow: unknown key; write follow = false"),
        ("zzz = 1", "zzz: unknown key; allowed here: allow-private, as, at, baseline"),
        ("json = true", 'json: belongs to the command line: write format = "json"'),
        ("config = 'x'", "config: belongs to the command line: it names this file"),
        ("jobs = 0", "jobs: expected 1 or more, got 0"),
        ("jobs = '4'", 'jobs: expected a whole number, got "4"'),
        ("jobs = true", "jobs: expected a whole number, got true"),
        ("timeout = 'long'", 'timeout: expected a number, got "long"'),
        ("follow = 'no'", 'follow: expected true or false, got "no"'),
        ("ignore = 'bom'", 'ignore: expected a list of texts, got "bom"'),
        ("ignore = [1]", "ignore: expected a list of texts, got [1]"),
        ("fail-on = 'info'", 'fail-on: expected one of error, warning, got "info"'),
        ("at = {a = 1}", "at: expected text, got a table"),
        ("ignore = ['bomb']", "ignore: no code is called 'bomb' or begins so; did you mean bom?"),
        ("[severity]\nbom = 'fatal'", "severity: expected CODE=LEVEL"),
        ("examples = 0", "--examples: expected a number from 1 on, or all, got '0'"),
        ("baseline = 'none.json'", "there is no such baseline"),
        ("html = 'none/page.html'", "there is no folder"),
        ("urls = 'urls.txt'", "--urls: expected a name that ends in .csv or .parquet, got 'urls.txt'"),
        ("fail-on =", "this is not valid TOML"),
    ],
)
def test_an_error_is_reported_with_a_suggestion_before_anything_is_read(project: Path, text: str, said: str) -> None:
    (project / ".sitemap-check.toml").write_text(text)
    done = call("check", "public")
    assert done.code == 2, done.out
    assert said in done.err
    assert done.out == ""


def test_all_errors_of_a_config_file_are_reported_at_once_with_its_name(project: Path) -> None:
    (project / "pyproject.toml").write_text("[tool.sitemap-etl.check]\njobs = 'x'\nignroe = []\n")
    done = call("check", "public", "--json")
    assert (done.code, done.json["kind"], done.json["exit"]) == (2, "config", 2)
    assert f"{project / 'pyproject.toml'}: jobs: " in done.err
    assert f"{project / 'pyproject.toml'}: ignroe: " in done.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--config", "none.toml"), "none.toml: No such file or directory"),
        (("--config", "pyproject.toml"), "pyproject.toml: has no table [tool.sitemap-etl.check]"),
        (("--config", "own.toml", "--isolated"), "--config and --isolated exclude each other"),
        (("--isolated", "--config", "own.toml"), "--config and --isolated exclude each other"),
        (("--json", "--format", "sarif"), "--json and --format sarif exclude each other"),
        (("--write-baseline",), "--write-baseline needs --baseline FILE"),
    ],
)
def test_contradicting_options_are_refused(project: Path, arguments: tuple[str, ...], said: str) -> None:
    (project / "pyproject.toml").write_text("[tool.ruff]\n")
    (project / "own.toml").write_text("jobs = 2\n")
    done = call("check", "public", *arguments)
    assert (done.code, said in done.err) == (2, True), done.err


def test_help_is_shown_whatever_the_config_file_says(project: Path) -> None:
    (project / ".sitemap-check.toml").write_text("nonsense = ")
    for option in ("--help", "-h"):
        done = call("check", option)
        assert (done.code, done.err) == (0, "")
    assert call("schema", "check").code == 0


def test_a_file_that_is_not_utf_8_is_reported(project: Path) -> None:
    (project / ".sitemap-check.toml").write_bytes(b'at = "https://gr\xf6sse.example/"')
    done = call("check", "public")
    assert (done.code, "not valid TOML" in done.err) == (2, True), done.err


# --- the options themselves ---


def test_a_baseline_is_written_and_applied_and_reports_fixed_findings(project: Path) -> None:
    def checked(*more: str) -> Done:
        return call("check", "public", "--baseline", "known.json", *more)

    assert checked("--write-baseline").code == 0
    done = checked()
    assert (done.code, "no new problems found" in done.out) == (0, True)
    assert "2 known findings of the baseline are not shown." in done.out
    (project / "public" / "sitemap.xml").write_text(BROKEN.replace("<url>", "\n\n<url>"))
    assert checked("--fail-on", "warning").code == 0, "lines may move"
    (project / "public" / "sitemap.xml").write_text(BROKEN.replace("<priority>2</priority>", "<lastmod>soon</lastmod>"))
    done = checked()
    assert (done.code, "lastmod-invalid" in done.out) == (1, True)
    gone = "Gone from the baseline: priority-invalid in public/sitemap.xml. Update it with --write-baseline."
    assert gone in " ".join(done.out.split())
    told = checked("--json").json
    assert {f["code"]: f["known"] for f in told["findings"]} == {"duplicate": 1, "lastmod-invalid": 0}
    assert [gone["code"] for gone in told["gone"]] == ["priority-invalid"]


def test_every_output_format_is_printed_with_the_same_exit_code(project: Path) -> None:
    for form, begin in (
        ("json", '{"error": null'),
        ("sarif", '{"$schema"'),
        ("junit", "<?xml"),
        ("github", "::error "),
        ("gitlab", '[{"description"'),
    ):
        done = call("check", "public", "--format", form)
        assert done.code == 1
        assert done.out.startswith(begin)
    assert json.loads(call("check", "public", "--format", "sarif").out)["runs"][0]["invocations"][0]["exitCode"] == 1
    assert call("check", "none", "--format=json").json["kind"] == "config"


def test_the_schema_of_check_is_printed() -> None:
    found = call("schema", "check").json
    assert found["properties"]["format"] == {"description": "The version of this form: 1.", "const": 1}
    assert call("schema").json == call("schema", "site").json != found
    assert call("schema", "chek").code == 2


def test_an_unwritable_report_page_is_reported_after_the_report(project: Path) -> None:
    (project / "page").mkdir()
    done = call("check", "public", "--html", "page")
    assert (done.code, "priority-invalid" in done.out) == (2, True)
    assert done.err.endswith("page: can't be written: Is a directory\n")


def test_the_report_and_the_help_fit_80_columns(project: Path) -> None:
    assert max(map(len, call("check", "--help").out.splitlines())) <= 80
    assert (project / "public").exists()
    assert max(map(len, call("check", "public", "--by-file").out.splitlines())) <= 80


def test_a_failed_check_leaves_no_partial_list_of_urls(project: Path) -> None:
    assert call("check", "none", "--urls", "urls.csv").code == 2
    assert [path.name for path in project.iterdir()] == ["public"]
