"""Publishing against rendering: a first night of a hundred full files, to an S3 server on this machine.

    python -m bench.publish [FILES]

Wall time of both stages, the least of three. The server is moto's, in a process of its own: every byte that is put
passes through Python there, so a real bucket across a network may well be faster.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.splits import export
from demo.bucket import PRIVATE, PUBLIC, Bucket, embedded
from sitemap_etl.config import load
from sitemap_etl.runs.local import run_locally
from sitemap_etl.stages.run import Environment
from sitemap_etl.state.records import Options

FILE_ROWS = 50_000
ROUNDS = 3
SITE = f"""
name: bench
site: https://www.shop.example
work: s3://{PRIVATE}/sitemaps
publish: {{to: "s3://{PUBLIC}", at: "https://www.shop.example/"}}
sections:
  products:
    from: {{parquet: ./export}}
    shards: {{rows: {FILE_ROWS}, fill: 1.0}}
"""


def serve(folder: Path) -> None:
    """The server, until the other side of standard input is closed."""
    with embedded(folder) as bucket:
        print(bucket.endpoint, flush=True)
        sys.stdin.read()


@contextmanager
def server(folder: Path) -> Iterator[Bucket]:
    """A server with empty buckets."""
    command = [sys.executable, "-m", "bench.publish", "--serve", str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield Bucket(process.stdout.readline().strip(), folder)
        finally:
            process.kill()


def night(files: int) -> tuple[float, float]:
    """How long rendering and publishing take, in seconds of wall time."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "site.yaml").write_text(SITE)
        export(folder / "export", files * FILE_ROWS, files, 1)
        with server(folder / "bucket") as bucket:
            os.environ |= bucket.env
            done = run_locally(load(folder / "site.yaml", environ={}), Options(), Environment(environ={}), jobs=2)
        assert done.summary.files.written >= files, done.summary.files
        return done.summary.seconds["render"], done.summary.seconds["publish"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="?", type=int, default=100)
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        serve(arguments.serve)
        return
    nights = [night(arguments.files) for _ in range(ROUNDS)]
    render, publish = (min(seconds) for seconds in zip(*nights, strict=True))
    print(f"{arguments.files} files: render {render:.1f} s, publish {publish:.1f} s: {publish / render:.2f} times")


if __name__ == "__main__":
    main()
