"""`validate --connect` and runs test a target before they rely on it, and leave nothing there."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from sitemap_etl.errors import Refused
from sitemap_etl.runs.validate import problems_of
from sitemap_etl.state import layout
from sitemap_etl.state.conditions import try_writes
from sitemap_etl.storage import open_storage
from sitemap_etl.storage.s3_answers import bare_etag
from tests.support.proxy import Fault, FaultProxy, Seen
from tests.support.s3 import CREDENTIALS, S3Server
from tests.support.sites import TestSite, pages
from tests.test_storage_answers import HOLD, error
from tests.test_storage_local import child

REFUSED = Fault("answer", 412, body=error("PreconditionFailed", HOLD))
CHECKSUM = Fault("answer", 400, body=error("InvalidArgument", "x-amz-sdk-checksum-algorithm is not supported"))


def site_in(tmp_path: Path, work: str, to: str, **publish: object) -> TestSite:
    site = TestSite(tmp_path, work=work, publish={"to": to, **publish}, site="http://127.0.0.1:9")
    return site.section("p", pages(30))


def problems(site: TestSite) -> list[str]:
    return [problem.text for problem in problems_of(site.load(), connect=True, environment=site.environment)]


def refuses_matches(seen: Seen) -> Fault | None:
    return REFUSED if seen.writes and "If-Match" in seen.headers else None


# --- stores that refuse a right If-Match ------------------------------------------------------------------------------


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_run_names_the_key_to_set_if_a_store_refuses_a_correct_condition(
    tmp_path: Path, proxy: FaultProxy, bucket: str, dry_run: bool
) -> None:
    proxy.plan = refuses_matches
    open_storage(f"s3://{bucket}/public").put("robots.txt", b"")
    site = site_in(tmp_path, f"s3://{bucket}/work", f"s3://{bucket}/public")
    with pytest.raises(Refused, match=r"answers 412 to If-Match .*publish: \{conditional_writes: false\}"):
        site.night(1, dry_run=dry_run)
    assert not [stat for stat in open_storage(f"s3://{bucket}").list() if "probe" in stat.key]
    site.keys["publish"]["conditional_writes"] = False
    assert site.night(2, dry_run=dry_run).summary.status == ("dry_run" if dry_run else "published")


def test_validate_names_the_key_to_set_for_state_and_target(tmp_path: Path, proxy: FaultProxy, bucket: str) -> None:
    proxy.plan = refuses_matches
    site = site_in(tmp_path, f"s3://{bucket}/work", f"s3://{bucket}/public")
    assert [problem.partition(":")[0] for problem in problems(site)] == ["work", "publish.to"]
    assert all("conditional_writes: false" in problem for problem in problems(site))
    assert list(open_storage(f"s3://{bucket}").list()) == []
    site.keys["publish"]["conditional_writes"] = False
    assert problems(site) == []


@pytest.mark.parametrize("written", ['"abc"', 'W/"abc"', "abc"])
def test_etags_are_compared_without_quotes_and_weak_prefix(written: str) -> None:
    assert bare_etag(written) == "abc"


def test_a_store_that_does_not_support_checksums_is_reported_with_the_key_to_set(
    tmp_path: Path, proxy: FaultProxy, bucket: str
) -> None:
    proxy.plan = lambda seen: CHECKSUM if seen.writes else None
    site = site_in(tmp_path, f"s3://{bucket}/work", f"s3://{bucket}/public")
    assert len(problems(site)) == 2
    assert all("Set publish: {checksums: when_required}" in problem for problem in problems(site))
    with pytest.raises(Refused, match="checksums: when_required"):
        site.night(1)


# --- targets that can't be written ------------------------------------------------------------------------------------


@pytest.mark.parametrize("depth", ["public", "srv/www/maps"])
def test_validate_leaves_no_files_in_folders(tmp_path: Path, depth: str) -> None:
    site = site_in(tmp_path / "site", "./state/work", f"./{depth}", at="http://127.0.0.1:9/")
    assert problems(site) == []
    assert sorted(path.name for path in (tmp_path / "site").iterdir()) == ["p.csv", "shop.yaml"]


def test_validate_keeps_existing_folders_and_files(tmp_path: Path) -> None:
    site = site_in(tmp_path, "./work", "./public")
    (tmp_path / "public").mkdir()
    (tmp_path / "work").mkdir()
    (tmp_path / "public" / "index.html").write_text("home")
    assert problems(site) == []
    assert [path.name for path in (tmp_path / "public").iterdir()] == ["index.html"]
    assert list((tmp_path / "work").iterdir()) == []


SCRIPT = """
import os, sys
from sitemap_etl.config import load
from sitemap_etl.runs.validate import problems_of
site = load(sys.argv[1], environ={})
if os.geteuid() == 0:
    problems_of(site, connect=True)  # root may write everywhere, and loads what the other user may not read
    os.setuid(65_534)
print(*[problem.text for problem in problems_of(site, connect=True)], sep="\\n")
"""


@pytest.mark.parametrize("key", ["work", "publish.to", "publish.root"])
def test_validate_names_an_unwritable_folder(key: str) -> None:
    with tempfile.TemporaryDirectory() as made:  # not tmp_path: only its owner may look into the folders above it
        folder = Path(made)
        site = site_in(folder, "./work", "./public", at="http://127.0.0.1:9/", root="./root")
        for name in ("work", "public", "root"):
            (folder / name).mkdir()
            (folder / name).chmod(0o777)
        locked = folder / {"work": "work", "publish.to": "public", "publish.root": "root"}[key]
        locked.chmod(0o555)
        folder.chmod(0o755)
        said, _ = child(SCRIPT, str(site.path)).communicate()
        assert said.startswith(f"{key}: can't write {locked}"), said
        assert len(said.splitlines()) == 1
        assert list(locked.iterdir()) == []
        locked.chmod(0o755)


def test_validate_names_an_unwritable_bucket(tmp_path: Path, proxy: FaultProxy, bucket: str) -> None:
    denied = Fault("answer", 403, body=error("AccessDenied", "Access Denied"))
    proxy.plan = lambda seen: denied if seen.writes and "/public/" in seen.path else None
    site = site_in(tmp_path, f"s3://{bucket}/work", f"s3://{bucket}/public")
    (problem,) = problems(site)
    assert problem.startswith(f"publish.to: can't write s3://{bucket}/public/{layout.PUBLIC_PROBE}")
    assert list(open_storage(f"s3://{bucket}").list()) == []


def test_a_refused_trial_write_leaves_no_object(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Refused):
        try_writes(open_storage(tmp_path / "file" / "public"), layout.PUBLIC_PROBE)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_dry_run_writes_nothing_public(tmp_path: Path, s3: S3Server, bucket: str) -> None:
    del s3
    assert CREDENTIALS
    for to in ("./public", f"s3://{bucket}/public"):
        site = site_in(tmp_path / to[:2].strip("./s"), "./work", to)
        assert site.night(1, dry_run=True).summary.status == "dry_run"
        assert not (site.folder / "public").exists()
    assert list(open_storage(f"s3://{bucket}").list()) == []
