"""A state belongs to one site and one target: a copy of a project cannot use it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from sitemap_etl.cli.options import read_site
from sitemap_etl.errors import ConfigError, Refused
from sitemap_etl.runs.ping import ping_by_hand
from sitemap_etl.runs.verify import verify_state
from sitemap_etl.s3 import S3Client
from sitemap_etl.state.store import AnothersState
from tests.support.command import call
from tests.support.s3 import S3Server, s3_server
from tests.support.sites import TestSite, pages


def shop(folder: Path, **keys: Any) -> TestSite:
    return TestSite(folder, **keys).section("p", pages(50, lastmod="2026-10-01"))


def shared(folder: Path) -> tuple[TestSite, TestSite]:
    """A published site, and a copy of its project that has the same state."""
    one = shop(folder / "one", work="../work")
    one.night(1)
    other = shop(folder / "other", work="../work")
    other.export("p", pages(48, lastmod="2026-10-01"))
    return one, other


def everything(folder: Path) -> Mapping[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.suffix != ".yaml"}


def current(site: TestSite) -> Path:
    return Path(site.load().work) / "shop" / "state" / "current.json"


COMMANDS = [
    ("run",),
    ("run", "--dry-run"),
    ("publish", "20261101T020000Z-beef"),
    ("rollback",),
    ("ping",),
]


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_a_copied_project_is_refused_with_both_folders_before_anything_is_written(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    one, other = shared(tmp_path)
    other.keys["ping"] = {"http_ping": {"url": "http://127.0.0.1:1/?s={sitemap}"}}
    before = everything(tmp_path)
    name, *rest = arguments
    done = call(name, other.path, *rest, "--json")
    assert (done.code, done.json["status"], done.json["kind"]) == (1, "refused", "refused")
    for shown in (str(one.folder / "public"), str(other.folder / "public"), "--moved", "Nothing was written"):
        assert shown in done.json["error"]
    assert everything(tmp_path) == before
    assert one.night(2).summary.status == "unchanged"


def test_read_only_commands_work_in_a_copied_project(tmp_path: Path) -> None:
    _, other = shared(tmp_path)
    assert call("history", other.path).code == 0
    assert call("explain", other.path, "/p/000001").code == 0


@pytest.mark.parametrize("name", ["run", "rollback"])
def test_a_move_is_confirmed_once_and_the_old_folder_is_then_refused(tmp_path: Path, name: str) -> None:
    one, other = shared(tmp_path)
    one.export("p", pages(51, lastmod="2026-10-01"))
    one.night(2)
    moved = call(name, other.path, "--moved", "--no-ping")
    assert moved.code == 0, moved.err
    assert len(other.public().locs()) in (48, 50)
    assert call("run", other.path).code == 0
    with pytest.raises(AnothersState, match="other/public"):
        one.night(9)


def test_a_dry_run_with_a_move_publishes_the_move(tmp_path: Path) -> None:
    one, other = shared(tmp_path)
    run_id = call("run", other.path, "--dry-run", "--moved", "--json").json["run_id"]
    assert call("publish", other.path, run_id).code == 1
    assert one.night(2).summary.status == "unchanged"
    assert call("publish", other.path, run_id, "--moved").code == 0
    assert len(other.public().locs()) == 48


def test_a_dry_run_is_not_published_to_a_target_that_was_written_since(tmp_path: Path) -> None:
    site = shop(tmp_path)
    run_id = site.night(1, dry_run=True).summary.run_id
    site.keys["publish"] = "./elsewhere"
    done = call("publish", site.path, run_id)
    assert (done.code, "now says" in done.err) == (1, True)
    assert not (tmp_path / "public").exists()


def test_the_project_that_publishes_to_a_target_is_named(tmp_path: Path) -> None:
    one = shop(tmp_path / "one", work="../work")
    assert call("run", one.path).code == 0
    other = shop(tmp_path / "other", work="../work")
    assert f"by {one.folder / 'shop.yaml'} on " in call("run", other.path).err


def test_the_state_of_another_site_is_refused_but_a_change_to_https_is_accepted(tmp_path: Path) -> None:
    site = shop(tmp_path, site="http://127.0.0.1:9")
    site.night(1)
    site.keys |= {"site": "https://127.0.0.1:9", "gates": {"max_drop": 1, "max_growth": 9}}
    with pytest.raises(Refused, match=r"shop \(http://127.0.0.1:9\)"):
        site.night(2)
    assert site.night(2, moved=True).summary.status == "published"
    assert site.night(3).summary.status == "unchanged"
    assert {loc[:5] for loc in site.public().locs()} == {"https"}


def test_a_changed_root_is_refused_and_an_added_root_is_accepted(tmp_path: Path) -> None:
    publish = {"to": "./public/maps", "at": "http://127.0.0.1:9/maps/"}
    site = shop(tmp_path, site="http://127.0.0.1:9", publish=publish)
    site.night(1)
    site.keys["publish"] = {**publish, "root": "./public"}
    assert site.night(2).summary.status == "published"
    site.keys["publish"] = {**publish, "root": "./elsewhere"}
    with pytest.raises(AnothersState, match=r"robots.txt in .*/public\n[^\n]*robots.txt in .*/elsewhere"):
        site.night(3)
    site.keys["publish"] = publish
    assert site.night(4).summary.status == "unchanged", "one that is gone is no other either"


def test_symbolic_links_are_resolved_to_compare_folders(tmp_path: Path) -> None:
    site = shop(tmp_path, publish="./live/public")
    for release in ("one", "two"):
        (tmp_path / release).mkdir()
    (tmp_path / "live").symlink_to("one")
    site.night(1)
    site.keys["publish"] = "./one/public"
    site.night(2)
    site.keys["publish"] = "./live/public"
    site.night(3)
    shutil.copytree(tmp_path / "one", tmp_path / "two", dirs_exist_ok=True)
    (tmp_path / "live").unlink()
    (tmp_path / "live").symlink_to("two")
    site.night(4)
    site.keys["publish"] = "./one/public"
    with pytest.raises(AnothersState):
        site.night(5)


def test_buckets_of_the_same_name_at_two_stores_are_different(tmp_path: Path, s3: S3Server, bucket: str) -> None:
    site = shop(tmp_path, publish={"to": f"s3://{bucket}/maps", "at": "https://shop.example/"})
    site.night(1)
    site.night(2)
    with s3_server() as elsewhere, pytest.MonkeyPatch.context() as patch:
        elsewhere.client().create_bucket(Bucket=bucket)
        patch.setenv("AWS_ENDPOINT_URL", elsewhere.endpoint)
        with pytest.raises(AnothersState) as refused:
            site.night(3)
    for endpoint in (s3.endpoint, elsewhere.endpoint):
        assert f"s3://{bucket}/maps at {endpoint}" in str(refused.value)


@pytest.mark.parametrize(
    ("endpoint", "store"),
    [
        ("https://s3.eu-central-1.amazonaws.com", None),
        ("https://s3.cn-north-1.amazonaws.com.cn", None),
        ("http://minio:9000", "http://minio:9000"),
    ],
)
def test_all_regions_of_aws_are_the_same_store(endpoint: str, store: str | None) -> None:
    assert S3Client(endpoint=endpoint).store == store


# --- a state that was repaired ----------------------------------------------------------------------


def repaired(folder: Path) -> TestSite:
    """A site whose `current.json` was lost: its target is known from the manifest only."""
    site = shop(folder)
    site.night(1)
    current(site).unlink()
    assert verify_state(site.load(), site.environment, repair=True).sound
    assert json.loads(current(site).read_text()).get("owner") is None
    return site


def test_a_repaired_state_is_accepted_for_the_same_target(tmp_path: Path) -> None:
    site = repaired(tmp_path)
    site.night(2)
    assert json.loads(current(site).read_text())["owner"]["to"]["real"] == str(tmp_path / "public")


def test_a_repaired_state_is_refused_for_another_target(tmp_path: Path) -> None:
    site = repaired(tmp_path)
    site.keys["publish"] = "./elsewhere"
    before = everything(tmp_path)
    with pytest.raises(AnothersState, match=f"(?s){tmp_path}/public\n.*{tmp_path}/elsewhere"):
        site.night(2)
    assert everything(tmp_path) == before


# --- where state lies by default --------------------------------------------------------------------


def without_work(folder: Path, **keys: Any) -> TestSite:
    site = shop(folder, **keys)
    del site.keys["work"]
    return site


def test_the_default_state_folder_is_next_to_the_site_file_and_ignored_by_git(tmp_path: Path) -> None:
    for folder in (tmp_path / "one", tmp_path / "copy"):
        site = without_work(folder)
        assert call("run", site.path).code == 0
        assert len(site.public().locs()) == 50
        assert (folder / ".sitemap-etl" / "shop" / "state" / "current.json").exists()
        assert (folder / ".sitemap-etl" / ".gitignore").read_text() == "*\n"
    assert not (tmp_path / "work").exists()


def test_the_default_state_folder_is_refused_if_it_would_be_public(tmp_path: Path) -> None:
    site = without_work(tmp_path / "htdocs" / "sites", publish={"to": "./maps", "at": "https://shop.example/maps/"})
    site.keys["publish"]["root"] = ".."
    with pytest.raises(ConfigError, match=rf"work is missing.*work: {tmp_path}/.sitemap-etl"):
        site.load()
    site.keys["work"] = f"{tmp_path}/.sitemap-etl"
    assert site.load().work == f"{tmp_path}/.sitemap-etl"


def test_the_default_state_folder_is_refused_if_it_is_not_writable(tmp_path: Path) -> None:
    site = without_work(tmp_path)
    (tmp_path / ".sitemap-etl").write_text("no folder")
    done = call("run", site.path)
    assert (done.code, "work: /" in done.err) == (2, True)
    with pytest.raises(ConfigError, match="work is missing"):
        read_site(site.path)


def test_validate_says_that_a_dag_needs_the_key_work(tmp_path: Path) -> None:
    site = without_work(tmp_path)
    assert "work" not in call("validate", site.path).out
    site.keys["schedule"] = "0 2 * * *"
    done = call("validate", site.path)
    assert done.code == 0
    assert "Airflow can't run it: work is missing. A DAG has no default for it" in done.out
    assert "work: /srv/sitemap-etl" in done.out


def test_engines_are_not_notified_of_releases_of_another_target(tmp_path: Path) -> None:
    _, other = shared(tmp_path)
    other.keys["ping"] = {"http_ping": {"url": "http://127.0.0.1:1/?s={sitemap}", "patience": 0}}
    with pytest.raises(AnothersState):
        ping_by_hand(other.load(), other.environment, engines=(), since=None, everything=False)


def test_a_changed_site_address_is_refused_if_a_section_is_not_read(tmp_path: Path) -> None:
    site = TestSite(tmp_path).section("a", pages(30)).section("b", pages(30, start=100), on_error="keep")
    site.night(1)
    site.keys |= {"site": "https://new.example", "gates": {"max_drop": 1}}
    before = site.public().objects()
    (tmp_path / "b.csv").unlink()
    for sections in ((), ("a",)):
        with pytest.raises(Refused, match=r"b was not read, .* of another site than https://new\.example, such as "):
            site.night(2, sections=sections, moved=True)
    assert site.public().objects() == before
    site.export("b", pages(30, start=100))
    assert site.night(3, moved=True).summary.status == "published"
