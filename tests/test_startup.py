"""Which libraries a command loads: only those that it uses."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.s3 import S3Server
from tests.support.sites import TestSite, pages
from tests.support.website import website

PROGRAM = """
import atexit, sys
heavy = {"pandas", "pyarrow", "numpy", "duckdb", "boto3", "httpx", "jinja2", "pydantic", "airflow"}
heavy |= {"sqlalchemy", "rich", "typer"}
atexit.register(lambda: print("loaded:", *sorted(heavy & {name.partition(".")[0] for name in sys.modules})))
from sitemap_etl.cli import main
main(sys.argv[1:])
"""


def loaded(*arguments: object, cwd: Path) -> set[str]:
    """Return the libraries that a command has loaded at its end."""
    command = [sys.executable, "-c", PROGRAM, *map(str, arguments)]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.rpartition("loaded:")[2].split())


@pytest.fixture
def site(tmp_path: Path) -> TestSite:
    return TestSite(tmp_path).section("products", pages(100, lastmod="2026-10-01"))


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_help_and_version_load_no_library_for_data_settings_or_requests(option: str, tmp_path: Path) -> None:
    assert loaded(option, cwd=tmp_path) == set()


def test_a_run_over_exports_loads_neither_pandas_nor_duckdb_nor_the_client_of_s3(site: TestSite) -> None:
    assert not loaded("run", site.path, cwd=site.folder) & {"pandas", "duckdb", "boto3", "rich"}


def test_a_run_without_web_requests_loads_no_http_client(site: TestSite) -> None:
    site.night(1)  # of what is published for the first time the site itself is asked
    assert loaded("run", site.path, cwd=site.folder) == {"numpy", "pyarrow", "pydantic", "jinja2"}


@pytest.mark.thorough
@pytest.mark.parametrize(
    "output", [("--html", "page.html"), ("--urls", "urls.csv"), ("--urls", "urls.parquet"), ("--format", "sarif")]
)
def test_no_output_of_a_check_loads_pandas_duckdb_or_the_client_of_s3(output: tuple[str, str], tmp_path: Path) -> None:
    (tmp_path / "sitemap.txt").write_text("https://shop.example/a\n")
    assert not loaded("check", "sitemap.txt", *output, cwd=tmp_path) & {"pandas", "duckdb", "boto3"}


@pytest.mark.thorough
def test_a_predicate_loads_duckdb_and_a_hook_pandas(site: TestSite) -> None:
    site.section("products", where="loc is not null")
    assert loaded("run", site.path, cwd=site.folder) & {"pandas", "duckdb"} == {"duckdb"}
    (site.folder / "hooks.py").write_text("def same(frame):\n    return frame\n")
    site.section("products", where=None, transform="hooks:same")
    assert "pandas" in loaded("run", site.path, cwd=site.folder)


OWN = """
import atexit, sys
atexit.register(lambda: print("loaded:", *(name for name in sys.modules if name.startswith("sitemap_etl.cli."))))
from sitemap_etl.cli import main
main(sys.argv[1:])
"""
COMMANDS = {f"sitemap_etl.cli.{name}" for name in ("runs", "sitemaps", "sites", "state", "status", "upkeep")}


@pytest.mark.parametrize(
    ("command", "module"), [(["--help"], None), (["schema", "--help"], "sites"), (["state", "verify", "-h"], "upkeep")]
)
def test_a_call_imports_only_the_module_of_its_command(command: list[str], module: str | None) -> None:
    done = subprocess.run([sys.executable, "-c", OWN, *command], capture_output=True, text=True, check=True)
    found = COMMANDS & set(done.stdout.rpartition("loaded:")[2].split())
    assert found == ({f"sitemap_etl.cli.{module}"} if module else set())


BUILT = """
from sitemap_etl.settings import Secret, Settings

def below(kind):
    return {kind, *(one for child in kind.__subclasses__() for one in below(child))}

print(*sorted(kind.__name__ for kind in below(Settings) | {Secret} if kind.__pydantic_complete__))
"""


def test_importing_the_settings_builds_no_validator() -> None:
    """The validator of the site includes all others, and is built when a site file is read."""
    done = subprocess.run([sys.executable, "-c", BUILT], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_the_help_of_a_command_loads_no_more_than_the_general_help(tmp_path: Path) -> None:
    assert loaded("check", "--help", cwd=tmp_path) == set()


@pytest.mark.thorough
@pytest.mark.parametrize("options", [(), ("--at", "https://shop.example/"), ("--json",)])
def test_check_of_files_loads_only_libraries_for_columns(options: tuple[str, ...], site: TestSite) -> None:
    site.night(1)
    public = site.folder / "public"
    for target in (public, public / "sitemap.xml"):
        assert loaded("check", target, *options, cwd=site.folder) == {"numpy", "pyarrow", "rich"}


@pytest.mark.thorough
def test_check_over_http_loads_the_http_client_and_check_of_a_bucket_the_s3_client(
    site: TestSite, s3: S3Server, bucket: str
) -> None:
    site.keys["publish"] = {
        "to": f"s3://{bucket}/maps",
        "at": "https://www.shop.example/",
        "root": f"s3://{bucket}/maps",
    }
    site.night(1)
    assert loaded("check", f"s3://{bucket}/maps", cwd=site.folder) == {"numpy", "pyarrow", "rich", "boto3"}
    with website() as found:
        found.answers["/s.xml"] = (200, {"Content-Type": "application/xml"}, found.page())
        assert loaded("check", f"{found.root}/s.xml", cwd=site.folder) == {"numpy", "pyarrow", "rich", "httpx"}


HOOK = '''
import pandas as pd
import pyarrow as pa


def mixed(frame):
    """Columns of every make, through pandas and through pyarrow."""
    frame["title"] = pd.Series(["a", None] * (len(frame) // 2), index=frame.index)
    frame["kind"] = pd.Categorical(["x"] * len(frame))
    frame["seen"] = pd.to_datetime(["2026-10-01", None] * (len(frame) // 2))
    assert pa.array(pd.Series([1.0, None])).null_count == 1
    assert pa.array(frame["seen"]).null_count == len(frame) // 2
    assert pa.types.is_dictionary(pa.array(frame["kind"].array).type)
    return frame
'''


@pytest.mark.thorough
def test_pandas_columns_made_by_a_hook_are_recognized(site: TestSite) -> None:
    (site.folder / "hooks.py").write_text(HOOK)
    site.section("products", transform="hooks:mixed")
    assert "pandas" in loaded("run", site.path, cwd=site.folder)
    assert (site.folder / "public" / "sitemap.xml").exists()
