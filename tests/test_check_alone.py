"""The distribution sitemap-etl-check: it contains the modules that `check` imports, and works without the others."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from broken_sitemaps import FINE

from sitemap_etl import __version__
from tests.support.website import website

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "packages" / "sitemap-etl-check"
PROJECT = tomllib.loads((FOLDER / "pyproject.toml").read_text())
WHOLE = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
CONTENTS = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
ABSENT = {"adbc_driver_manager", "airflow", "boto3", "botocore", "duckdb", "pandas", "sqlalchemy", "yaml"}
"""Packages that are not installed with it."""
NOT_OF_CHECKS = {"sitemap_etl.check.__main__", "sitemap_etl.check.reference", "sitemap_etl.check.listing"}
"""Modules beside those of `check`, which only the documentation and `compare` import."""
OF_BUCKETS = {
    "sitemap_etl.s3",
    "sitemap_etl.s3.bounds",
    "sitemap_etl.storage.folder",
    "sitemap_etl.storage.local",
    "sitemap_etl.storage.s3",
    "sitemap_etl.storage.s3_answers",
}
"""Modules of storages, which no check imports without the extra s3."""
ELSEWHERE = {"sitemap_etl.cli.bars", "sitemap_etl.kernels.__main__"}
"""Modules for a terminal, and for compiling kernels."""
PROGRAM = f"""
import atexit, sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {ABSENT!r}:
            raise ModuleNotFoundError("No module named " + repr(name), name=name)

sys.meta_path.insert(0, Absent())
ours = lambda: sorted(name for name in sys.modules if name.partition(".")[0] == "sitemap_etl")
atexit.register(lambda: print("loaded:", *ours(), file=sys.stderr))
from sitemap_etl.cli import check
check()
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files of the wheel."""
    folder = tmp_path_factory.mktemp("installed")
    for source, target in CONTENTS.items():
        found, copy = FOLDER / source, folder / target
        copy.parent.mkdir(parents=True, exist_ok=True)
        if found.is_dir():
            shutil.copytree(found, copy, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(found, copy)
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "sitemap.xml").write_bytes(FINE)
    (tmp_path / "broken.xml").write_bytes(FINE.replace(b"https://shop.example/a", b"/a"))
    return tmp_path


def run(installed: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The program, with the files of the wheel alone."""
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(installed), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


def loaded(done: subprocess.CompletedProcess[str]) -> set[str]:
    return set(done.stderr.rpartition("loaded:")[2].split())


def modules(folder: Path) -> set[str]:
    """The names of all modules in a folder."""
    names = {".".join(path.relative_to(folder).with_suffix("").parts) for path in folder.rglob("*.py")}
    return {name.removesuffix(".__init__") for name in names}


def test_the_wheel_contains_the_modules_that_a_check_imports_and_no_more(installed: Path, folder: Path) -> None:
    used: set[str] = set()
    calls = [
        (1, "sitemap.xml", "broken.xml", "--html", "page.html", "--urls", "urls.parquet", "--now", "2026-11-01"),
        (1, "broken.xml", "--format", "sarif", "--baseline", "known.json"),
        (0, "--explain", "loc-relative"),
    ]
    (folder / "known.json").write_text('{"version": 1, "findings": []}')
    assert run(installed, folder, "sitemap.xml", "--baseline", "known.json", "--write-baseline").returncode == 0
    for code, *arguments in calls:
        done = run(installed, folder, *arguments)
        assert done.returncode == code, done.stderr
        used |= loaded(done)
    assert (folder / "page.html").exists()
    assert (folder / "urls.parquet").exists()
    with website() as found:
        found.answers["/sitemap.xml"] = (200, {"Content-Type": "application/xml"}, found.page())
        found.answers["/a"] = (200, {"Content-Type": "text/html"}, b"<html><title>a</title></html>")
        done = run(installed, folder, f"{found.root}/sitemap.xml", "--pages", "1", "--state", "state.json")
        used |= loaded(done)
        assert "/a" in "".join(found.asked)
    assert "Traceback" not in done.stderr
    assert modules(installed) - used == NOT_OF_CHECKS | OF_BUCKETS | ELSEWHERE


@pytest.mark.parametrize("form", ["text", "json", "junit", "github", "gitlab"])
def test_every_form_of_the_report_is_that_of_the_whole_distribution(installed: Path, folder: Path, form: str) -> None:
    call = ["broken.xml", "--at", "https://shop.example/", "--no-robots", "--format", form]
    alone = run(installed, folder, *call)
    program = "import sys; from sitemap_etl.cli import main; main(['check', *sys.argv[1:]])"
    whole = subprocess.run(
        [sys.executable, "-c", program, *call], cwd=folder, capture_output=True, text=True, check=False
    )
    assert alone.returncode == whole.returncode == 1
    assert timeless(alone.stdout) == timeless(whole.stdout)


def timeless(text: str) -> list[str]:
    """Lines without those that say how long the check took."""
    return [
        line.partition('"seconds"')[0] for line in text.splitlines() if " in 0." not in line and "time=" not in line
    ]


@pytest.mark.parametrize("target", ["s3://bucket/maps", "s3://bucket/maps/sitemap.xml", "s3://bucket"])
def test_a_bucket_names_the_extra_that_reads_it(installed: Path, folder: Path, target: str) -> None:
    done = run(installed, folder, target)
    assert done.returncode == 2, done.stderr
    assert "an s3:// address needs the extra s3" in done.stderr
    assert "install sitemap-etl-check[s3]" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_help_and_the_messages_name_the_program(installed: Path, folder: Path) -> None:
    assert run(installed, folder, "--help").stdout.startswith("Usage: sitemap-etl-check [PATH_OR_URL...]")
    assert run(installed, folder, "--version").stdout.strip() == __version__
    for call in (["--bad"], ["--jobs", "x", "sitemap.xml"]):
        wrong = run(installed, folder, *call)
        assert wrong.returncode == 2
        assert "See sitemap-etl-check --help" in wrong.stderr


def test_a_config_file_and_standard_input_are_read(installed: Path, folder: Path) -> None:
    (folder / ".sitemap-check.toml").write_text('targets = ["sitemap.xml"]\nformat = "json"\n')
    done = run(installed, folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("{")


def test_its_requirements_are_among_those_of_the_whole_distribution() -> None:
    project = PROJECT["project"]
    given = {*project["dependencies"], *project["optional-dependencies"]["s3"]}
    assert given <= set(WHOLE["dependencies"])
    assert project["requires-python"] == WHOLE["requires-python"]
    assert PROJECT["build-system"] == tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]
