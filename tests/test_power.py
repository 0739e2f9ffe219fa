"""The power fails at a random moment of a run: everything is lost that was not synced. Nothing invalid is public."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.command import PROGRAM, at
from tests.support.examples import ALL
from tests.support.power import Change, Disk, built, changes
from tests.support.sites import TestSite, pages

LOSSES = 500 if ALL else 40
ROWS = 60
SMALL = {"rows": 20, "fill": 0.9}
needs_cc = pytest.mark.skipif(shutil.which("cc") is None and not os.environ.get("CI"), reason="needs a C compiler")


def site_of(folder: Path) -> TestSite:
    folder.mkdir()
    return TestSite(folder).section("products", pages(ROWS, lastmod="2026-10-01"), shards=SMALL)


def change(site: TestSite) -> None:
    """Add, change and remove rows."""
    site.export("products", [*pages(5, lastmod="2026-11-01"), *pages(ROWS + 30, 10, lastmod="2026-10-01")])


def record(site: TestSite, library: Path, log: Path) -> list[Change]:
    """Run the command. Return what it changed in the folder of the site."""
    environ = {"LD_PRELOAD": str(library), "POWER_LOG": str(log), "POWER_ROOT": str(site.folder)}
    command = [*PROGRAM, "run", str(site.path), "--quiet", *at("2026-11-02T02:00:00Z")]
    done = subprocess.run(command, cwd=site.folder, env=os.environ | environ, check=False, capture_output=True)
    assert done.returncode == 0, done.stderr
    return changes(log)


@pytest.mark.thorough
@pytest.mark.timeout(1_800)
@needs_cc
def test_after_a_power_loss_the_release_is_valid_and_the_next_run_publishes(tmp_path: Path) -> None:
    library = built(tmp_path)
    site = site_of(tmp_path / "site")
    site.night(1)
    before = set(site.public().locs())
    change(site)
    begin = tmp_path / "begin"
    shutil.copytree(site.folder, begin)
    made = record(site, library, tmp_path / "log")
    after = set(site.public().locs())
    assert len(made) > 50
    for seed in range(LOSSES):
        chance = random.Random(seed)
        shutil.rmtree(site.folder)
        shutil.copytree(begin, site.folder)
        disk = Disk(site.folder)
        for each in made[: chance.randrange(len(made) + 1)]:
            disk.apply(each)
        disk.fail(chance)
        listed = set(site.public().locs())
        assert before & after <= listed <= before | after, f"seed {seed}"
        site.night(3)
        assert set(site.public().locs()) == after, f"seed {seed}"


@pytest.mark.thorough
@needs_cc
def test_a_run_without_syncs_would_be_found(tmp_path: Path) -> None:
    """The trial above can fail: a program that syncs no file leaves empty ones."""
    library = built(tmp_path)
    site = site_of(tmp_path / "site")
    begin = tmp_path / "begin"
    shutil.copytree(site.folder, begin)
    made = record(site, library, tmp_path / "log")
    shutil.rmtree(site.folder)
    shutil.copytree(begin, site.folder)
    disk = Disk(site.folder)
    for each in made:
        if each.kind != "sync file":
            disk.apply(each)
    disk.fail(random.Random(0))
    assert {path.stat().st_size for path in (site.folder / "public").iterdir()} == {0}
