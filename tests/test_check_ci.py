"""`check` in pipelines: the action of GitHub, the hook of pre-commit, and the report of GitLab."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from broken_sitemaps import FINE
from test_check_formats import HOSTILE, report

from sitemap_etl.check import Finding, Report
from sitemap_etl.check.formats import gitlab
from tests.support.command import call

ROOT = Path(__file__).parent.parent
QUALITY = {
    "type": "array",
    "items": {
        "type": "object",
        "required": ["description", "check_name", "fingerprint", "severity", "location"],
        "properties": {
            "description": {"type": "string", "minLength": 1},
            "check_name": {"type": "string"},
            "fingerprint": {"type": "string", "minLength": 1},
            "severity": {"enum": ["info", "minor", "major", "critical", "blocker"]},
            "location": {
                "type": "object",
                "required": ["path", "lines"],
                "properties": {
                    "path": {"type": "string"},
                    "lines": {"type": "object", "required": ["begin"], "properties": {"begin": {"type": "integer"}}},
                },
            },
        },
    },
}
"""The report that GitLab's documentation of Code Quality describes."""


def loaded(name: str) -> Any:
    return yaml.safe_load((ROOT / name).read_text("utf-8"))


@pytest.mark.parametrize("hostile", ["", HOSTILE], ids=["tame", "hostile"])
def test_a_gitlab_report_has_the_documented_format(hostile: str) -> None:
    issues = gitlab(report(hostile))
    jsonschema.Draft202012Validator(QUALITY).validate(issues)
    assert len(issues) == len(report(hostile).new)
    assert len({issue["fingerprint"] for issue in issues}) == len(issues)
    assert all(issue["description"].isprintable() and issue["location"]["path"].isprintable() for issue in issues)


def test_gitlab_fingerprints_stay_the_same_when_lines_move() -> None:
    one, other = (gitlab(Report([Finding("loc-relative", "a.xml", line)]))[0]["fingerprint"] for line in (4, 9))
    assert one == other


# --- GitHub ---


def run_check(folder: Path, **inputs: str) -> subprocess.CompletedProcess[str]:
    """Run the step that checks as a runner would: expressions become variables of its environment."""
    action = loaded("action.yml")
    given = {name: about.get("default", "") for name, about in action["inputs"].items()} | inputs
    step = action["runs"]["steps"][-1]
    env = {
        name: re.sub(r"\$\{\{ inputs\.([a-z-]+) \}\}", lambda found: given[found[1]], value)
        for name, value in step["env"].items()
    }
    assert not re.search(r"\$\{\{", step["run"]), "an expression in a script runs what its text says"
    bin_ = folder / "runner" / "sitemap-etl" / "bin"
    bin_.mkdir(parents=True, exist_ok=True)
    command = bin_ / "sitemap-etl"
    command.write_text(f"#!{sys.executable}\nfrom sitemap_etl.cli import main\nmain()\n", encoding="utf-8")
    command.chmod(0o755)
    script = folder / "step.sh"
    script.write_text(step["run"], encoding="utf-8")
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", str(script)],
        cwd=folder,
        env={**os.environ, "RUNNER_TEMP": str(folder / "runner"), **env},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_action_annotates_the_files_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "public").mkdir()
    (tmp_path / "public" / "sitemap.xml").write_bytes(FINE.replace(b"https://shop.example/a", b"/a"))
    done = run_check(tmp_path, targets="public\n")
    assert done.returncode == 1
    assert done.stdout.startswith("::error title=loc-relative,file=public/sitemap.xml,line=")


def test_the_action_passes_inputs_unchanged(tmp_path: Path) -> None:
    name = "a $(touch pwned) ' b.xml"
    (tmp_path / name).write_bytes(FINE)
    done = run_check(
        tmp_path, targets=f"{name}\n", options="--severity\nlastmod-missing=off\n", at="https://shop.example/"
    )
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "pwned").exists()


def test_the_inputs_of_the_action_are_documented() -> None:
    page = (ROOT / "docs" / "how-to" / "check-in-ci.md").read_text("utf-8")
    action = loaded("action.yml")
    assert action["runs"]["using"] == "composite"
    assert all(step["shell"] == "bash" for step in action["runs"]["steps"])
    assert all(name in page for name in action["inputs"] if name != "options")


# --- pre-commit ---


def test_the_hook_checks_sitemaps_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (hook,) = loaded(".pre-commit-hooks.yaml")
    chosen = re.compile(hook["files"])
    yes = ["sitemap.xml", "public/sitemap-1.xml.gz", "public/news-sitemap.xml", "robots.txt", "static/sitemap.txt"]
    no = ["pom.xml", "public/feed.xml", "sitemap.py", "sitemap.xml.jinja", "docs/robots.txt.md"]
    assert [name for name in yes if not chosen.search(name)] == []
    assert [name for name in no if chosen.search(name)] == []
    program, *arguments = hook["entry"].split()
    assert (program, hook["language"]) == ("sitemap-etl", "python")
    monkeypatch.chdir(tmp_path)
    Path("sitemap.xml").write_bytes(FINE)
    assert call(*arguments, "sitemap.xml").code == 0
    Path("sitemap.xml").write_bytes(b"<urlset>")
    assert call(*arguments, "sitemap.xml").code == 1
