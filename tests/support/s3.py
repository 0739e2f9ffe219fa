"""A real S3 server for tests: moto's, on a free port of 127.0.0.1."""

from __future__ import annotations

import logging
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import boto3
from botocore.config import Config
from moto.server import ThreadedMotoServer

CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "AKIATESTTESTTESTTEST",
    "AWS_SECRET_ACCESS_KEY": "test-secret-that-must-never-show",
    "AWS_DEFAULT_REGION": "us-east-1",
    # Nothing from outside: no role of the machine, no files of the developer.
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
}
"""What boto3's chain finds in tests: moto takes any credentials."""


@dataclass(frozen=True)
class S3Server:
    """A running server. `env` is what a process needs to reach it."""

    endpoint: str

    @property
    def env(self) -> dict[str, str]:
        return {**CREDENTIALS, "AWS_ENDPOINT_URL": self.endpoint}

    def client(self, **config: Any) -> Any:
        """A plain boto3 client: what a test looks with, beside the code under test. `config`: of botocore."""
        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            region_name="us-east-1",
            config=Config(**config),
            aws_access_key_id=CREDENTIALS["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
        )

    def bucket(self, name: str | None = None) -> str:
        """A new, empty bucket."""
        name = name or f"test-{uuid.uuid4().hex[:12]}"
        self.client().create_bucket(Bucket=name)
        return name


@contextmanager
def s3_server() -> Iterator[S3Server]:
    """moto's S3 server in a thread, until the end of the block. All servers of one process share their buckets."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # not a line for every request
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        yield S3Server(f"http://{host}:{port}")
    finally:
        server.stop()
