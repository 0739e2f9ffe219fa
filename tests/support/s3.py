"""A real S3 server for tests: moto's, on a free port of 127.0.0.1."""

from __future__ import annotations

import io
import logging
import os
import threading
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import boto3
from botocore.config import Config
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import make_server

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
    """A running server. `env`: the variables that a process needs to reach it."""

    endpoint: str

    @property
    def env(self) -> dict[str, str]:
        return {**CREDENTIALS, "AWS_ENDPOINT_URL": self.endpoint}

    def client(self, **config: Any) -> Any:
        """Return a plain boto3 client, for tests to look at objects with. `config`: of botocore."""
        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            region_name="us-east-1",
            config=Config(**config),
            aws_access_key_id=CREDENTIALS["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
        )

    def bucket(self, name: str | None = None) -> str:
        """Return a new, empty bucket."""
        name = name or f"test-{uuid.uuid4().hex[:12]}"
        self.client().create_bucket(Bucket=name)
        return name


_WRITING = threading.Lock()
"""All servers of one process share their buckets."""


def _one_writer(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
    """Answer a request. moto checks the condition of a write before it writes: the lock keeps other writes out."""
    if environ["REQUEST_METHOD"] in ("GET", "HEAD"):
        return _MOTO(environ, start_response)
    length = environ.get("CONTENT_LENGTH")
    if length:  # a client may take its time to send a body
        environ["wsgi.input"] = io.BytesIO(environ["wsgi.input"].read(int(length)))
    with _WRITING:
        return _MOTO(environ, start_response)


_MOTO: Any = DomainDispatcherApplication(create_backend_app)


@contextmanager
def s3_server() -> Iterator[S3Server]:
    """Run moto's S3 server in a thread until the end of the block. Servers of one process share their buckets."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # not a line for every request
    server = make_server("127.0.0.1", 0, _one_writer, threaded=True, request_handler=MotoRequestHandler)
    serving = threading.Thread(target=server.serve_forever, daemon=True)
    serving.start()
    try:
        host, port = server.server_address[:2]
        yield S3Server(f"http://{host}:{port}")
    finally:
        server.shutdown()
        serving.join()
