"""The policies of docs/how-to/iam.md: sufficient for every request, and without an action that no request needs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sitemap_etl.config import load
from sitemap_etl.runs.local import run_locally
from sitemap_etl.stages.run import Environment
from sitemap_etl.state.records import Options
from tests.support.command import call
from tests.support.documents import DOCS, all_blocks
from tests.support.proxy import Fault, FaultProxy, Seen, fault_proxy
from tests.support.s3 import S3Server
from tests.support.storages import Clocked

PAGE = DOCS / "how-to" / "iam.md"
FILES = {block.file: block.text for block in all_blocks(PAGE)}
BUCKETS = ("shop-public", "shop-private", "shop-exports")
Need = tuple[str, str]
"""An action, and the ARN of what it is done to."""


def needs(seen: Seen) -> Iterator[Need]:
    """Return the permissions of a request, by the table of actions of the S3 API.

    https://docs.aws.amazon.com/AmazonS3/latest/userguide/using-with-s3-policy-actions.html
    """
    url = urlsplit(seen.path)
    bucket, _, key = unquote(url.path).lstrip("/").partition("/")
    query = parse_qs(url.query, keep_blank_values=True)
    whole, one = f"arn:aws:s3:::{bucket}", f"arn:aws:s3:::{bucket}/{key}"
    match seen.method, bool(key):
        case (("GET" | "HEAD"), True):
            yield "s3:GetObject", one
            if seen.status == 404:  # without it S3 answers 403
                yield "s3:ListBucket", whole
        case (("GET" | "HEAD"), False) if not query or {"list-type", "prefix"} & set(query):
            yield "s3:ListBucket", whole
        case "PUT", True:
            yield "s3:PutObject", one
            if copied := seen.headers.get("x-amz-copy-source"):
                yield "s3:GetObject", f"arn:aws:s3:::{unquote(copied).lstrip('/')}"
        case "POST", True if {"uploads", "uploadId"} & set(query):
            yield "s3:PutObject", one
        case "DELETE", True if "uploadId" not in query:
            yield "s3:DeleteObject", one
        case _:
            raise AssertionError(f"which action does this need? {seen}")


@dataclass
class Policy:
    """Return a policy of the page, as pairs of patterns."""

    name: str
    grants: list[Need] = field(init=False)

    def __post_init__(self) -> None:
        document = json.loads(FILES[self.name])
        assert {statement["Effect"] for statement in document["Statement"]} == {"Allow"}
        self.grants = [
            (action, resource)
            for statement in document["Statement"]
            for action in statement["Action"]
            for resource in statement["Resource"]
        ]

    def lacks(self, needed: set[Need]) -> list[Need]:
        return sorted(need for need in needed if not any(covers(grant, need) for grant in self.grants))

    def exceeds(self, needed: set[Need]) -> list[Need]:
        return [grant for grant in self.grants if not any(covers(grant, need) for need in needed)]


def covers(grant: Need, need: Need) -> bool:
    assert not re.search(r"[*?\[]", grant[0])
    return grant[0] == need[0] and fnmatchcase(need[1], grant[1])


@pytest.fixture
def site(s3: S3Server, tmp_path: Path) -> Path:
    """The site file of the page, its three buckets, and an export that makes two files."""
    client = s3.client()
    for bucket in BUCKETS:
        client.create_bucket(Bucket=bucket)
        for listed in client.list_objects_v2(Bucket=bucket).get("Contents", []):
            client.delete_object(Bucket=bucket, Key=listed["Key"])
    path = tmp_path / "shop.yaml"
    path.write_text(f"{FILES['s3.yaml'].rstrip()}\n    shards: {{rows: 100}}\n")
    export(s3, tmp_path, 120)
    return path


def export(s3: S3Server, folder: Path, rows: int) -> None:
    local = folder / "pages.parquet"
    pq.write_table(pa.table({"loc": [f"/p/{n:06}" for n in range(rows)]}), local)
    s3.client().upload_file(str(local), "shop-exports", "pages/pages.parquet")


def done(*arguments: object, code: int = 0) -> str:
    """Call the command, which must end with this code; return its output."""
    found = call(*arguments)
    assert found.code == code, found.out + found.err
    return found.out


@pytest.fixture
def recorded(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultProxy]:
    """Record every request of the command."""
    with fault_proxy(s3.endpoint) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.endpoint)
        yield proxy


def live(s3: S3Server, site: Path) -> None:
    """Run the site in every way: refused, adopting, unchanged, forced, deleting; a rollback and manual commands."""
    s3.client().put_object(Bucket="shop-public", Key="sitemaps/sitemap.xml", Body=b"<old/>")
    s3.client().put_object(Bucket="shop-public", Key="robots.txt", Body=b"User-agent: *\n")
    done("validate", "--connect", site)
    done("run", site, code=1)
    done("run", site, "--adopt")
    done("run", site)
    export(s3, site.parent, 10)
    done("run", site, "--force", "pages.max_drop", "--reason", "a test")
    later = Clocked(datetime.now(UTC) + timedelta(days=3))
    run_locally(load(site, environ={}), Options(full=True), later.around(Environment(environ={})), jobs=2)
    done("rollback", site, "--now", later.time.isoformat(), "--reason", "a test")
    done("state", "verify", site)


@pytest.mark.thorough
def test_the_policy_of_the_job_allows_exactly_what_runs_request(s3: S3Server, site: Path, recorded: FaultProxy) -> None:
    live(s3, site)
    needed = {need for seen in recorded.seen for need in needs(seen)}
    deleted = {resource for action, resource in needed if action == "s3:DeleteObject"}
    assert any("shop-public/sitemaps/sitemap-pages-" in resource for resource in deleted)
    policy = Policy("policy of the job")
    assert policy.lacks(needed) == []
    assert policy.exceeds(needed) == []


@pytest.mark.thorough
def test_the_policy_of_readers_allows_exactly_what_read_only_commands_request(
    s3: S3Server, site: Path, recorded: FaultProxy
) -> None:
    export(s3, site.parent, 10)
    done("run", site)
    recorded.reset()
    done("status", site)
    done("history", site)
    done("explain", site, "/p/000001")
    done("state", "verify", site)
    needed = {need for seen in recorded.seen for need in needs(seen)}
    policy = Policy("policy of readers")
    assert policy.lacks(needed) == []
    assert policy.exceeds(needed) == []


def test_a_store_that_answers_403_for_missing_objects_is_reported(
    s3: S3Server, site: Path, recorded: FaultProxy
) -> None:
    """The page says why `s3:ListBucket` is there."""
    recorded.always(Fault("answer", 403, "AccessDenied"), contains="shop-private")
    found = call("run", site)
    assert found.code == 1, found.err
    assert "s3:ListBucket" in found.err
