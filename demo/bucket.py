"""The embedded bucket: moto's S3 server, which holds everything in memory, kept in a folder between runs."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from demo.surroundings import free_port

PUBLIC, PRIVATE = "demo-public", "demo-private"
ROBOTS = b"User-agent: *\nDisallow: /internal/\n"
CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "demo",
    "AWS_SECRET_ACCESS_KEY": "demo",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": "/dev/null",
    "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
}
"""moto takes any credentials; nobody's own are used."""
_HEADERS = ("ContentType", "CacheControl")


@dataclass(frozen=True)
class Bucket:
    """The running server. `folder`: where its objects are kept, one file each, and its port.

    The state of the demo belongs to the address of the bucket, so that the next one has the same.
    """

    endpoint: str
    folder: Path

    @property
    def env(self) -> dict[str, str]:
        """What a process needs to reach it."""
        return {**CREDENTIALS, "AWS_ENDPOINT_URL": self.endpoint}

    def client(self) -> Any:
        """A boto3 client of it."""
        import boto3

        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            region_name="us-east-1",
            aws_access_key_id="demo",
            aws_secret_access_key="demo",  # noqa: S106 - moto takes any
        )

    def get(self, bucket: str, key: str) -> bytes:
        """An object's bytes."""
        body: bytes = self.client().get_object(Bucket=bucket, Key=key)["Body"].read()
        return body

    def keys(self, bucket: str, prefix: str = "") -> list[tuple[str, int]]:
        """The objects and their sizes in bytes."""
        pages = self.client().get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
        return [(item["Key"], item["Size"]) for page in pages for item in page.get("Contents", ())]

    def load(self) -> None:
        """Put what was kept; a new bucket gets a robots.txt, as a site has one."""
        client = self.client()
        for bucket in (PUBLIC, PRIVATE):
            client.create_bucket(Bucket=bucket)
        kept = self.folder / "objects.json"
        if not kept.is_file():
            client.put_object(Bucket=PUBLIC, Key="robots.txt", Body=ROBOTS, ContentType="text/plain")
            return
        for name, headers in json.loads(kept.read_text()).items():
            bucket, _, key = name.partition("/")
            client.put_object(Bucket=bucket, Key=key, Body=(self.folder / name).read_bytes(), **headers)

    def keep(self) -> None:
        """Write every object to the folder, beside what was kept before, then in its place."""
        client = self.client()
        beside = self.folder.with_name(f"{self.folder.name}.new")
        shutil.rmtree(beside, ignore_errors=True)
        objects: dict[str, dict[str, str]] = {}
        for bucket in (PUBLIC, PRIVATE):
            for key, _ in self.keys(bucket):
                found = client.get_object(Bucket=bucket, Key=key)
                objects[f"{bucket}/{key}"] = {name: found[name] for name in _HEADERS if name in found}
                path = beside / bucket / key
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(found["Body"].read())
        beside.mkdir(parents=True, exist_ok=True)
        (beside / "objects.json").write_text(json.dumps(objects, indent=1))
        (beside / "port").write_text(self.endpoint.rpartition(":")[2])
        shutil.rmtree(self.folder, ignore_errors=True)
        beside.rename(self.folder)


@contextmanager
def embedded(folder: Path) -> Iterator[Bucket]:
    """The bucket with what `folder` keeps; kept there again at the end of the block."""
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # not a line for every request
    kept = folder / "port"
    preferred = free_port(int(kept.read_text())) if kept.is_file() else 0
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=preferred, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        bucket = Bucket(f"http://{host}:{port}", folder)
        bucket.load()
        try:
            yield bucket
        finally:
            bucket.keep()
    finally:
        server.stop()
