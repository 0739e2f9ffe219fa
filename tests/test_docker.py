"""What the image and the compose file run, without Docker: their scripts, commands and references."""

from __future__ import annotations

import fnmatch
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.documents import ROOT
from tests.support.s3 import S3Server
from tests.support.seaweedfs import server_program

BIN = Path(sys.executable).parent
NIGHTLY = ROOT / "docker" / "nightly"
DOCKERFILE = (ROOT / "Dockerfile").read_text()


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    """Return the compose file with resolved anchors and merges, as Docker reads it."""
    found = yaml.safe_load((ROOT / "compose.yaml").read_text())
    assert isinstance(found, dict)
    return found


@pytest.fixture
def night(tmp_path: Path) -> dict[str, str]:
    """Return an environment in which `sitemap-etl run` ends with CODE, and notes that it was called."""
    (tmp_path / "bin").mkdir()
    fake = tmp_path / "bin" / "sitemap-etl"
    fake.write_text('#!/bin/sh\necho "$@" >> "$CALLS"\n[ -z "${WAIT:-}" ] || exec sleep 60\nexit "${CODE:-0}"\n')
    fake.chmod(0o755)
    return {
        "PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin",
        "CALLS": str(tmp_path / "calls"),
    }


def run(script: Path, *arguments: str, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["sh", str(script), *arguments], env=env, capture_output=True, text=True, check=False)


def calls(night: dict[str, str]) -> list[str]:
    return Path(night["CALLS"]).read_text().splitlines()


@pytest.mark.parametrize("code", [0, 1, 3, 70])
def test_the_container_runs_every_site_and_ends_with_the_worst_exit_code(code: int, night: dict[str, str]) -> None:
    done = run(NIGHTLY, "a.yaml", "b.yaml", env={**night, "NIGHTLY_ONCE": "1", "CODE": str(code)})
    assert done.returncode == code
    assert calls(night) == ["run a.yaml", "run b.yaml"]


@pytest.mark.parametrize("at", ["25:00", "2", "02:60", "noon"])
def test_an_invalid_time_is_refused(at: str, night: dict[str, str]) -> None:
    done = run(NIGHTLY, "a.yaml", env={**night, "NIGHTLY_AT": at})
    assert (done.returncode, at in done.stderr) == (2, True)


@pytest.mark.parametrize("waiting", ["for the run", "for the next night"])
def test_a_stopped_container_ends_at_once(waiting: str, night: dict[str, str]) -> None:
    """Docker sends SIGTERM, and kills after ten seconds."""
    env = {**night, "WAIT": "1"} if waiting == "for the run" else night
    with subprocess.Popen(["sh", str(NIGHTLY), "a.yaml"], env=env, stderr=subprocess.PIPE, text=True) as running:
        if waiting == "for the run":
            while not Path(night["CALLS"]).exists():
                assert running.poll() is None
                time.sleep(0.02)
        else:
            assert running.stderr is not None
            assert any("next at 02:00" in line for line in running.stderr)
        running.send_signal(signal.SIGTERM)
        assert running.wait(60) == 143
    assert calls(night) == ["run a.yaml"]


def _stages() -> list[str]:
    return re.split(r"^FROM ", DOCKERFILE, flags=re.MULTILINE)[1:]


def test_the_image_runs_as_a_user_and_has_a_health_check() -> None:
    last = _stages()[-1]
    assert re.findall(r"^USER (\S+)$", last, re.MULTILINE) == ["10001"]
    assert 'CMD ["sitemap-etl", "status", "."]' in last
    assert last.startswith("python:3.11-slim")
    assert all(stage.startswith("python:3.11") for stage in _stages())


def test_everything_that_the_image_copies_exists_and_is_in_the_build_context() -> None:
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    sent = [line[1:] for line in ignored if line.startswith("!")]
    copied = [
        source
        for line in re.findall(r"^COPY (?!--from)(.*)$", DOCKERFILE, re.MULTILINE)
        for source in line.split()[:-1]
    ]
    assert copied
    assert [source for source in copied if not (ROOT / source).exists()] == []
    assert [source for source in copied if not any(fnmatch.fnmatch(source, f"{one}*") for one in sent)] == []


def test_the_image_has_the_tested_versions(tmp_path: Path) -> None:
    """The Dockerfile uses all pins of constraints.txt."""
    (command,) = re.findall(r"^RUN (sed .*? > pins\.txt)", DOCKERFILE, re.MULTILINE)
    shutil.copy(ROOT / "constraints.txt", tmp_path)
    subprocess.run(["sh", "-c", command], cwd=tmp_path, check=True)
    pins = (tmp_path / "pins.txt").read_text().splitlines()
    assert len(pins) == len(re.findall(r"^\S+==", (ROOT / "constraints.txt").read_text(), re.MULTILINE))
    assert not [pin for pin in pins if "\\" in pin or "--hash" in pin]


def test_everything_that_the_compose_file_mounts_exists(compose: dict[str, Any]) -> None:
    named = set(compose["volumes"])
    mounts = [mount for service in compose["services"].values() for mount in service.get("volumes", [])]
    assert mounts
    for mount in mounts:
        source = mount.split(":")[0]
        assert source in named or (ROOT / source).exists(), mount
    for service in compose["services"].values():
        assert set(service.get("depends_on", {})) <= set(compose["services"])
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))


@pytest.mark.thorough
def test_the_job_of_the_compose_file_publishes_its_site(compose: dict[str, Any], s3: S3Server, tmp_path: Path) -> None:
    """Its buckets are created, twice; then the script of the image runs the site."""
    services = compose["services"]
    client = s3.client()
    for bucket in (listed["Name"] for listed in client.list_buckets()["Buckets"]):
        if bucket in ("shop-public", "shop-private"):
            for listed in client.list_objects_v2(Bucket=bucket).get("Contents", []):
                client.delete_object(Bucket=bucket, Key=listed["Key"])
            client.delete_bucket(Bucket=bucket)
    shop = tmp_path / "shop"
    shutil.copytree(ROOT / "docker" / "shop", shop)
    env = {**s3.env, "PATH": f"{BIN}:/usr/bin:/bin", "LANG": "C.UTF-8"}
    program, option = services["buckets"]["entrypoint"]
    assert (program, option) == ("python", "-c")
    for _ in range(2):
        subprocess.run([str(BIN / "python"), option, *services["buckets"]["command"]], env=env, check=True)
    job = services["sitemaps"]
    assert (job["entrypoint"], "working_dir" in job) == (["nightly"], False)
    once = {
        **env,
        "NIGHTLY_ONCE": "1",
        "NIGHTLY_AT": job["environment"]["NIGHTLY_AT"],
    }
    done = subprocess.run(
        ["sh", str(NIGHTLY), *job["command"]], cwd=shop, env=once, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in shop.iterdir()) == ["exports", "shop.yaml"]  # it is mounted for reading
    keys = {listed["Key"] for listed in client.list_objects_v2(Bucket="shop-public")["Contents"]}
    assert "sitemap.xml" in keys
    health = subprocess.run([str(BIN / "sitemap-etl"), "status", "."], cwd=shop, env=env, check=False)
    assert health.returncode == 0


def test_the_store_and_the_job_have_the_same_keys(compose: dict[str, Any]) -> None:
    (identity,) = yaml.safe_load((ROOT / "docker" / "s3.json").read_text())["identities"]
    (key,) = identity["credentials"]
    for name in ("buckets", "sitemaps"):
        environment = compose["services"][name]["environment"]
        assert environment["AWS_ACCESS_KEY_ID"] == key["accessKey"]
        assert environment["AWS_SECRET_ACCESS_KEY"] == key["secretKey"]
        assert environment["AWS_ENDPOINT_URL"] == "http://store:8333"


def test_the_store_accepts_the_options_of_the_compose_file(compose: dict[str, Any]) -> None:
    program = server_program()
    if program is None:
        assert not os.environ.get("CI"), "the second S3 server is missing"
        pytest.skip("weed is not installed")
    command, *options = compose["services"]["store"]["command"]
    known = subprocess.run([program, "help", command], capture_output=True, text=True, check=False)
    for option in options:
        name = option.partition("=")[0]
        assert re.search(rf"^\s+{re.escape(name)}\b", known.stdout + known.stderr, re.MULTILINE), option


def test_the_script_of_the_image_can_be_run() -> None:
    scripts = shlex.split(re.findall(r"^COPY (docker/.*) \S+$", DOCKERFILE, re.MULTILINE)[0])
    assert [ROOT / name for name in scripts] == [NIGHTLY]
    assert os.access(NIGHTLY, os.X_OK)
