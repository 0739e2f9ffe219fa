"""Who can read the state: its owner, or its group if the site file says so, whatever the umask is."""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.command import call


@pytest.fixture(params=[0o000, 0o022, 0o077])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def write_site(folder: Path, more: str = "") -> Path:
    (folder / "pages.csv").write_text("loc,exclude\n/a,\n/b,sold\n")
    path = folder / "shop.yaml"
    path.write_text(
        f"site: https://shop.example\npublish: ./public\nwork: ./work\nurls: {{respect_robots: false}}\n{more}"
        "sections:\n  p: {from: {csv: pages.csv}}\n"
    )
    return path


def access_of(folder: Path) -> tuple[set[int], set[int]]:
    """Return the modes of the folders, and of the files, in a folder and below it."""
    found: Counter[tuple[bool, int]] = Counter()
    for path in (folder, *folder.rglob("*")):
        mode = path.lstat().st_mode
        found[stat.S_ISDIR(mode), stat.S_IMODE(mode)] += 1
    return {mode for is_folder, mode in found if is_folder}, {mode for is_folder, mode in found if not is_folder}


@pytest.mark.parametrize(
    ("more", "folders", "files"),
    [("", {0o700}, {0o600}), ("work_access: owner\n", {0o700}, {0o600}), ("work_access: group\n", {0o2750}, {0o640})],
)
def test_new_state_files_are_private(tmp_path: Path, umask: int, more: str, folders: set[int], files: set[int]) -> None:
    site = write_site(tmp_path, more)
    for options in (("--dry-run",), (), ("--full",)):
        assert call("run", site, "--no-ping", *options).code == 0
        assert access_of(tmp_path / "work") == (folders, files)
    (tmp_path / "pages.csv").write_text("loc\n/a\n/c\n")
    assert call("run", site, "--no-ping").code == 0
    assert call("rollback", site, "--no-ping").code == 0
    assert access_of(tmp_path / "work") == (folders, files)
    assert call("state", "verify", site).out.count("readable by others") == 0
    assert access_of(tmp_path / "public")[1] == {0o666 & ~umask}


def test_a_new_common_parent_of_state_and_public_files_is_readable(tmp_path: Path, umask: int) -> None:
    site = write_site(tmp_path)
    site.write_text(site.read_text().replace("./public", "./new/public").replace("./work", "./new/below/work"))
    assert call("run", site, "--no-ping").code == 0
    for folder in ("new", "new/below", "new/public"):
        assert stat.S_IMODE((tmp_path / folder).stat().st_mode) == 0o777 & ~umask
    assert access_of(tmp_path / "new/below/work") == ({0o700}, {0o600})


def test_existing_modes_are_kept_and_reported(tmp_path: Path) -> None:
    site = write_site(tmp_path)
    assert call("run", site, "--no-ping").code == 0
    current = tmp_path / "work" / "shop" / "state" / "current.json"
    (tmp_path / "work" / "shop").chmod(0o755)
    current.chmod(0o644)
    (tmp_path / "pages.csv").write_text("loc\n/c\n/a\n")
    assert call("run", site, "--no-ping").code == 0
    assert stat.S_IMODE(current.stat().st_mode) == 0o644
    done = call("state", "verify", site)
    assert done.code == 0
    work = tmp_path / "work" / "shop"
    assert done.out.endswith(f"readable by others:\n  {work}\n  {current}\nto change that: chmod -R go= {work}\n")
    assert call("state", "verify", site, "--json").json["exposed"] == [str(work), str(current)]
