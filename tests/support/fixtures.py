"""Fixtures for the test servers, imported by a conftest or a test file."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.proxy import FaultProxy, fault_proxy
from tests.support.s3 import S3Server, s3_server


@pytest.fixture(scope="session")
def moto() -> Iterator[S3Server]:
    """moto's S3 server, one for the session."""
    with s3_server() as server:
        yield server


def reachable(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> S3Server:
    """Return the server after setting the environment of this process to reach it."""
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL_S3", "AWS_REGION", "AWS_MAX_ATTEMPTS"):
        monkeypatch.delenv(name, raising=False)
    for name, value in server.env.items():
        monkeypatch.setenv(name, value)
    return server


@pytest.fixture
def s3(moto: S3Server, monkeypatch: pytest.MonkeyPatch) -> S3Server:
    """The S3 server, reachable through the environment of this process."""
    return reachable(moto, monkeypatch)


@pytest.fixture(params=["moto", "seaweedfs"])
def each_s3(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> S3Server:
    """Each of two independent S3 servers, as `s3`: for rules that apply to every store."""
    return reachable(request.getfixturevalue(request.param), monkeypatch)


@pytest.fixture
def bucket(s3: S3Server) -> str:
    """The name of a new, empty bucket, reachable through the environment."""
    return s3.bucket()


@pytest.fixture
def proxy(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultProxy]:
    """A proxy in front of the S3 server of AWS_ENDPOINT_URL. Requests time out after a second."""
    with fault_proxy(s3.endpoint) as running:
        monkeypatch.setenv("AWS_ENDPOINT_URL", running.endpoint)
        monkeypatch.setenv("SITEMAP_ETL_S3_TIMEOUT", "1")
        yield running
