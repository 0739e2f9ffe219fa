"""Links, FIFOs and devices in the public folder: nothing private is published, and nothing blocks the run."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.command import Done, call

SECRET = "SECRET=abc123\n"
NAMES = ("robots.txt", "sitemap.xml", "sitemap-p-00001.xml.gz")


@pytest.fixture
def site(tmp_path: Path) -> Path:
    home = tmp_path / "www"
    (home / "public").mkdir(parents=True)
    (tmp_path / "private").write_text(SECRET)
    (home / "pages.csv").write_text("loc\n/a\n")
    path = home / "shop.yaml"
    path.write_text(
        "site: https://shop.example\npublish: ./public\nwork: ../work\nurls: {respect_robots: false}\n"
        "sections:\n  p: {from: {csv: pages.csv}}\n"
    )
    return path


def run(site: Path, *options: str) -> Done:
    return call("run", site, "--no-ping", *options)


def public_texts(site: Path) -> str:
    return "".join(path.read_text("latin-1") for path in (site.parent / "public").iterdir() if path.is_file())


@pytest.mark.parametrize("options", [(), ("--adopt",)])
@pytest.mark.parametrize("name", NAMES)
def test_a_symbolic_link_out_of_the_public_folder_is_refused_by_name(
    site: Path, name: str, options: tuple[str, ...]
) -> None:
    link = site.parent / "public" / name
    link.symlink_to("../../private")
    done = run(site, *options)
    assert done.code == 1
    assert f"{link} is a link to {site.parent.parent / 'private'}, outside of {site.parent}" in done.err
    assert "Replace the link by a file, or remove it." in done.err
    assert link.is_symlink()
    assert [path for path in link.parent.iterdir() if path != link] == []
    link.unlink()
    assert run(site).code == 0
    assert SECRET not in public_texts(site)


def test_a_robots_txt_that_is_a_symbolic_link_is_not_changed(site: Path) -> None:
    shared = site.parent / "robots-of-all.txt"
    shared.write_text("User-agent: *\nAllow: /\n")
    link = site.parent / "public" / "robots.txt"
    link.symlink_to("../robots-of-all.txt")
    done = run(site)
    assert done.code == 0
    assert f"{link} is a link to {shared}, so it was left as it is. Add there:" in done.out
    assert (link.is_symlink(), shared.read_text()) == (True, "User-agent: *\nAllow: /\n")
    shared.write_text("Sitemap: https://shop.example/sitemap.xml\n")
    assert "is a link" not in run(site).out


@pytest.mark.parametrize("name", NAMES[1:])
def test_a_sitemap_that_is_a_symbolic_link_inside_the_folder_is_never_replaced(site: Path, name: str) -> None:
    other = site.parent / "other"
    other.write_text("not ours")
    link = site.parent / "public" / name
    link.symlink_to("../other")
    for options in ((), ("--adopt",)):
        assert run(site, *options).code == 1
        assert (link.is_symlink(), other.read_text()) == (True, "not ours")


SPECIAL: dict[str, tuple[Callable[[Path], None], str]] = {
    "FIFO": (os.mkfifo, "is a FIFO"),
    "link to nothing": (lambda path: path.symlink_to("nowhere"), "which does not exist"),
    "link to a device": (lambda path: path.symlink_to("/dev/zero"), "is a link to /dev/zero, outside of"),
}


@pytest.mark.parametrize("kind", SPECIAL)
@pytest.mark.parametrize("name", NAMES)
def test_pipes_and_devices_in_the_public_folder_are_named_and_never_opened(site: Path, name: str, kind: str) -> None:
    place = site.parent / "public" / name
    create, said = SPECIAL[kind]
    create(place)
    for options in (("--dry-run",), (), ("--adopt",)):
        done = run(site, *options)
        assert done.code == 1, done.err
        assert f"{place} {said}" in done.err or (said in done.err and str(place) in done.err)
    assert not place.is_file()
    place.unlink()
    assert run(site).code == 0
