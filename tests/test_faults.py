"""An S3 store that fails at any request: a typed error or none, valid files, and a successful retry."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sitemap_etl.errors import Unavailable
from tests.support.crash import Laboratory, World, listed
from tests.support.examples import ALL, kind_of_key
from tests.support.proxy import FAULTS, Fault, FaultProxy, Seen, fault_proxy
from tests.support.s3 import S3Server
from tests.support.sites import TestSite, pages
from tests.support.storages import Wrapped, Wrapping
from tests.test_crash import SMALLER, check, prepared, source_of

CONDITIONS = {"If-Match", "If-None-Match"}


@pytest.fixture
def faulty(s3: S3Server) -> Iterator[FaultProxy]:
    with fault_proxy(s3.endpoint) as running:
        yield running


def requests_of(lab: Laboratory, proxy: FaultProxy) -> list[Seen]:
    """Return the requests of an undisturbed publish."""
    lab.restore()
    proxy.reset()
    assert lab.publish().status == "published"
    return list(proxy.seen)


def survives(lab: Laboratory, proxy: FaultProxy, number: int, fault: Fault, before: set[str], world: World) -> str:
    """Publish with this fault at this request, then again without; return the status of the first."""
    lab.restore()
    proxy.reset()
    proxy.at(number, fault)
    done = lab.publish(environ={"AWS_MAX_ATTEMPTS": "1", "SITEMAP_ETL_S3_TIMEOUT": "0.7"})
    assert done.status in ("published", "Unavailable", "Refused", "Denied"), (number, fault)
    assert done.status == "published" or done.error
    proxy.reset()
    after = lab.world()
    check(after, before, source_of(SMALLER))
    # What was committed is published, also where the tidying up after it failed.
    again = lab.run(2) if after.manifest == world.manifest else lab.publish()
    assert again.status in ("published", "unchanged"), (number, fault, again.error)
    assert lab.world() == world, (number, fault)
    return done.status


@pytest.mark.thorough
def test_after_any_failed_request_of_a_publish_files_are_valid_and_a_retry_completes_it(
    tmp_path: Path, moto: S3Server, each_s3: S3Server
) -> None:
    """Faults up to the commit: one at a write of each kind, a fourth of the others, and each sixteenth read.

    Claim and commit have two faults each: one instead of the request, and one after it was done. A publish can
    distinguish only these, and the two stores have different ones of each kind. The second store is used only for
    conditional writes, which stores implement differently. `test_storage_faults` has each fault at each request of
    every storage call, for both.

    The failing request is not retried by itself.
    """
    is_moto = each_s3 == moto
    with (
        fault_proxy(each_s3.endpoint) as faulty,
        Laboratory(tmp_path, s3=each_s3, env={"AWS_ENDPOINT_URL": faulty.endpoint}) as lab,
    ):
        before, world, _ = prepared(lab, SMALLER)
        seen = requests_of(lab, faulty)
        swaps = [request.number for request in seen if request.writes and request.path.endswith("/current.json")]
        statuses = []
        kinds_seen: set[str] = set()
        for request in seen[: swaps[-1] + 1]:
            kinds = [FAULTS[request.number % len(FAULTS)]]
            if request.number in swaps:
                at = swaps.index(request.number)
                kinds = list(FAULTS[at % 2 + (0 if is_moto else 2) :: 4])
            elif request.writes:
                if not is_moto and not CONDITIONS & request.headers.keys():
                    continue
                kind = kind_of_key(request.path)
                if not ALL and kind in kinds_seen and request.number % 4:
                    continue
                kinds_seen.add(kind)
            elif request.number % 16:
                continue
            statuses += [survives(lab, faulty, request.number, fault, before, world) for fault in kinds]
    assert statuses.count("Unavailable") > len(statuses) / 4


@pytest.mark.thorough
def test_a_temporary_fault_does_not_change_the_result(tmp_path: Path, s3: S3Server, faulty: FaultProxy) -> None:
    """With the usual retries: at the claim, then at the index."""
    env = {"AWS_ENDPOINT_URL": faulty.endpoint, "SITEMAP_ETL_S3_TIMEOUT": "0.7"}
    with Laboratory(tmp_path, s3=s3, env=env) as lab:
        lab.site.section("products", pages(30))
        lab.robots("")
        for night, fault in enumerate(FAULTS, 1):
            lab.site.export("products", pages(30 + night))
            faulty.once(fault, method="PUT", contains="current.json" if night % 2 else "sitemap.xml")
            done = lab.run(night)
            assert done.status == "published", done.error
            assert any(request.fault == fault for request in faulty.seen)


class _Altering(Wrapped):
    def put(self, key: str, data: Any, **options: Any) -> Any:
        outer: Any = self._outer
        if outer.fits in key and isinstance(data, bytes):
            data = data[:-1] + bytes([data[-1] ^ 1])
        return self._inner.put(key, data, **options)


class Altering(Wrapping):
    """A store that changes a byte of an object, and reports success."""

    storage = _Altering

    def __init__(self, fits: str) -> None:
        self.fits = fits


@pytest.mark.parametrize("key", ["-00001.xml.gz", "sitemap.xml", "robots.txt"])
def test_a_store_that_changes_bytes_is_detected(tmp_path: Path, key: str) -> None:
    site = TestSite(tmp_path)
    site.section("products", pages(30))
    environment = site.environment
    site.environment = Altering(key).around(environment)
    with pytest.raises(Unavailable, match="does not contain what was written"):
        site.night(1)
    assert site.state().current().manifest is None
    site.environment = environment
    assert site.night(1).summary.status == "published"
    assert len(listed(site.public().objects(), f"{site.origin}/")) == 30


@pytest.mark.thorough
def test_a_store_without_conditional_writes_works_with_a_warning_on_each_run(
    tmp_path: Path, s3: S3Server, faulty: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It answers 501 to If-Match and If-None-Match, as some do."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", faulty.endpoint)
    unknown = Fault("answer", 501, "NotImplemented")
    faulty.plan = lambda seen: unknown if seen.writes and CONDITIONS & seen.headers.keys() else None
    bucket = s3.bucket()
    to = {"to": f"s3://{bucket}/public", "conditional_writes": False}
    site = TestSite(tmp_path, work=f"s3://{bucket}/work", publish=to, site="http://127.0.0.1:9")
    site.section("products", pages(30))
    for night in (1, 2, 3):
        site.export("products", pages(30 + night // 2))
        done = site.night(night)
        assert done.summary.status == ("unchanged" if night == 3 else "published")
        assert any("conditional_writes is false" in warning for warning in done.summary.warnings)
    assert len(site.public().locs()) == 31
