"""A laboratory for crashes: runs a site's job in a child process that kills itself at the n-th write.

The child is forked, for each job, from a process that has everything imported: a job costs what it does,
not what Python takes to start. Between two jobs everything the job can see, folder and bucket, can be put
back to what it was.

    with Laboratory(tmp_path) as lab:
        lab.site.section(…); lab.run(1); lab.keep()
        writes = lab.run(2).writes
        for at in range(1, len(writes) + 1):
            lab.restore(); lab.run(2, kill=at); assert not lab.faults(); lab.run(2)
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from sitemap_etl.state.codec import encode
from sitemap_etl.state.records import Manifest
from sitemap_etl.storage import Storage, open_storage
from tests.support.s3 import S3Server
from tests.support.sites import FIRST_NIGHT, TestSite, content
from tests.support.storages import Wrapped, Wrapping

ORIGIN = "http://127.0.0.1:9"
"""Nobody answers there, at once."""
SECONDS = 120
"""A job that takes longer hangs."""


class _Killing(Wrapped):
    def now(self) -> datetime:
        found: datetime = self._outer.now
        return found

    def put(self, key: str, *arguments: Any, **options: Any) -> Any:
        return self._outer.write(self._inner.url_of(key), lambda: self._inner.put(key, *arguments, **options))

    def delete(self, key: str, **options: Any) -> Any:
        return self._outer.write(f"-{self._inner.url_of(key)}", lambda: self._inner.delete(key, **options))


class Killing(Wrapping):
    """Counts writes (puts and deletes) on all storages of a run and kills its process before or after the n-th.

    `since`: counting begins with the first write whose address contains this.
    """

    storage = _Killing

    def __init__(self, now: datetime, at: int = 0, *, before: bool = False, since: str = "") -> None:
        self.now = now
        self.at = at
        self.before = before
        self.since = since
        self.writes: list[str] = []
        self._lock = threading.Lock()

    def write(self, what: str, act: Any) -> Any:
        with self._lock:
            if self.writes or self.since in what:
                self.writes.append(what)
            number = len(self.writes) or -1
        if number == self.at and self.before:
            os.kill(os.getpid(), signal.SIGKILL)
        done = act()
        if number == self.at:
            os.kill(os.getpid(), signal.SIGKILL)
        return done


@dataclass
class Done:
    """Result of a job. `writes`: the addresses it wrote, in order; those of deletes begin with a minus."""

    killed: bool
    status: str = ""
    error: str = ""
    writes: list[str] = field(default_factory=list)


@dataclass
class World:
    """Everything that a crawler and the next run see. Two are equal if their objects have the same content."""

    objects: dict[str, bytes] = field(compare=False)
    manifest: dict[str, Any] | None
    said: dict[str, bytes] = field(init=False)

    def __post_init__(self) -> None:
        self.said = {key: content(key, data) for key, data in self.objects.items()}


class Laboratory:
    """A site in `folder/live`, public files and state there or in a bucket, and the process that runs its jobs."""

    def __init__(
        self, folder: Path, *, s3: S3Server | None = None, env: Mapping[str, str] | None = None, **keys: Any
    ) -> None:
        self.folder = folder
        self.live = folder / "live"
        self.live.mkdir(parents=True, exist_ok=True)
        self.bucket = None if s3 is None else s3.bucket()
        self.client = None if s3 is None else s3.client()
        places: dict[str, Any] = (
            {} if s3 is None else {"to": f"s3://{self.bucket}/public", "work": f"s3://{self.bucket}/work"}
        )
        self.site = TestSite(self.live, **places, site=ORIGIN, **keys)
        self._kept: dict[str, tuple[str, bytes]] = {}
        self._known: dict[str, bytes] = {}
        self._prepared = 1
        env = {**os.environ, **({} if s3 is None else s3.env), "TMPDIR": str(folder), **(env or {})}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.crash"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=env,
            text=True,
            bufsize=1,
            cwd=Path(__file__).parents[2],
        )

    def __enter__(self) -> Laboratory:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(SECONDS)

    # --- what is there ---

    def public(self) -> Storage:
        return open_storage(self.site.load().publish.to)

    def robots(self, text: str) -> None:
        """Write a robots.txt, so that no run requests one from the network."""
        self.public().put("robots.txt", text.encode())

    def world(self) -> World:
        objects = {}
        if self.client is None:
            public = self.public()
            for stat in public.list():
                stored = public.get(stat.key)
                assert stored is not None
                objects[stat.key] = stored.data
        else:
            below = "public/"
            objects = {key.removeprefix(below): self._read(key, etag) for key, etag in self._there(below).items()}
        state = self.site.state()
        manifest = state.manifest(state.current().manifest)
        return World(objects, None if manifest is None else essence(manifest))

    def keep(self) -> None:
        """Save everything as it is."""
        kept = self.folder / "kept"
        if kept.exists():
            shutil.rmtree(kept)
        shutil.copytree(self.live, kept)
        if self.client is not None:
            self._kept = {key: (etag, self._read(key, etag)) for key, etag in self._there().items()}

    def restore(self) -> None:
        """Restore everything as it was saved, except the exports."""
        exports = {path.name: path.read_bytes() for path in self.live.glob("*.csv")}
        shutil.rmtree(self.live)
        shutil.copytree(self.folder / "kept", self.live)
        for name, data in exports.items():
            (self.live / name).write_bytes(data)
        if self.client is None:
            return
        there = self._there()
        if new := [{"Key": key} for key in there.keys() - self._kept.keys()]:
            self.client.delete_objects(Bucket=self.bucket, Delete={"Objects": new, "Quiet": True})
        for key, (etag, data) in self._kept.items():
            if there.get(key) != etag:
                self.client.put_object(Bucket=self.bucket, Key=key, Body=data)

    def _there(self, prefix: str = "") -> dict[str, str]:
        assert self.client is not None
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=prefix)
        return {entry["Key"]: entry["ETag"] for page in pages for entry in page.get("Contents", ())}

    def _read(self, key: str, etag: str) -> bytes:
        """Return an object's bytes. The etag is made from the content: content with a known etag is not read again."""
        assert self.client is not None
        if etag not in self._known:
            self._known[etag] = self.client.get_object(Bucket=self.bucket, Key=key)["Body"].read()
        return self._known[etag]

    # --- what is done ---

    def run(self, night: int, **how: Any) -> Done:
        """Run the site at 2 a.m. of day `n`."""
        return self._do("run", night, **how)

    def prepare(self, night: int) -> Done:
        """Run all stages before publish. `keep` saves what they staged as well."""
        self._prepared = night
        return self._do("prepare", night)

    def publish(self, **how: Any) -> Done:
        """Publish the prepared run of the same day in a process of its own."""
        return self._do("publish", self._prepared, **how)

    def roll_back(self, night: int, **how: Any) -> Done:
        """Publish the previous release again."""
        return self._do("roll_back", night, **how)

    def _do(
        self,
        job: str,
        night: int,
        *,
        kill: int = 0,
        before: bool = False,
        since: str = "",
        environ: Mapping[str, str] | None = None,
    ) -> Done:
        order = {
            "job": job,
            "site": str(self.site.path),
            "now": (FIRST_NIGHT + timedelta(days=night - 1)).isoformat(),
            "staging": str(self.live / "staging"),
            "kill": kill,
            "before": before,
            "since": since,
            "environ": dict(environ or {}),
        }
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(order) + "\n")
        ready, _, _ = select.select([process.stdout], [], [], SECONDS)
        assert ready, f"{job} hangs"
        done = Done(**json.loads(process.stdout.readline()))
        assert kill or not done.killed
        return done


def essence(manifest: Manifest) -> dict[str, Any]:
    """Return what must be equal despite interruptions: everything except run ids and fences."""
    apart = {"etag", "stored", "stored_sha256", "former"}

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: plain(item) for key, item in value.items() if key not in apart}
        if isinstance(value, list | tuple):
            return [plain(item) for item in value]
        return value

    data: dict[str, Any] = plain(encode(manifest))
    for key in ("run_id", "base"):
        del data[key]
    for section in data["sections"].values():
        del section["mirror"]  # it has the run's id
    return data


# --- the process that forks -----------------------------------------------------------------------


def main() -> None:
    """Run each incoming job in a fork, and answer with one line."""
    from sitemap_etl import report
    from sitemap_etl.errors import SitemapEtlError
    from sitemap_etl.state.records import Summary

    for name in ("sitemap_etl.runs.rollback", "boto3", "duckdb", "httpcore", "anyio"):
        __import__(name)
    report.render(Summary())  # compiles its template
    if "AWS_ENDPOINT_URL" in os.environ:
        with contextlib.suppress(SitemapEtlError):
            open_storage("s3://no-such-bucket").stat("k")  # boto3 reads its descriptions of S3
    gc.collect()
    gc.freeze()  # a fork whose collector looks at nothing of this process copies none of its memory
    for line in sys.stdin:
        order = json.loads(line)
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reader)
            with os.fdopen(writer, "w") as out:
                json.dump(_work(order), out)
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as answers:
            answer = answers.read()
        _, status = os.waitpid(pid, 0)
        killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        print(answer if answer and not killed else json.dumps({"killed": killed}), flush=True)


def _work(order: Mapping[str, Any]) -> dict[str, Any]:
    from sitemap_etl.config import load
    from sitemap_etl.errors import SitemapEtlError
    from sitemap_etl.stages.run import Environment

    os.environ.update(order["environ"])
    now = datetime.fromisoformat(order["now"])
    killing = Killing(now, order["kill"], before=order["before"], since=order["since"])
    connections = {name: value for name, value in os.environ.items() if name.startswith("AIRFLOW_CONN_")}
    environment = replace(killing.around(Environment(environ=connections)), clock=lambda: now)
    site = load(Path(order["site"]), environ={})
    status = error = ""
    try:
        status = _JOBS[order["job"]](site, environment, now, order)
    except SitemapEtlError as raised:
        status, error = type(raised).__name__, str(raised)
    return {"killed": False, "status": status, "error": error, "writes": killing.writes}


def _run(site: Any, environment: Any, now: datetime, order: Mapping[str, Any]) -> str:
    from sitemap_etl.runs.local import run_locally
    from sitemap_etl.state.records import Options

    return str(run_locally(site, Options(), environment, jobs=1, now=now).summary.status)


def _prepare(site: Any, environment: Any, now: datetime, order: Mapping[str, Any]) -> str:
    prepare(site, environment, now, environment.open_storage(order["staging"]))
    return "prepared"


def prepare(site: Any, environment: Any, now: datetime, staging: Storage) -> Any:
    """Render a run without publishing it."""
    from sitemap_etl.stages.extract import extract_split
    from sitemap_etl.stages.merge import merge_bucket, plan_merge
    from sitemap_etl.stages.partition import partition
    from sitemap_etl.stages.plan import start_run
    from sitemap_etl.stages.render import render_group
    from sitemap_etl.stages.transform import transform_split
    from sitemap_etl.state.records import Options

    run = start_run(site, Options(), environment, now=now, staging=staging)
    for work in (extract_split, transform_split):
        for n in range(len(run.plan.units)):
            work(run, n)
    for n in range(len(plan_merge(run).units)):
        merge_bucket(run, n)
    for n in range(len(partition(run).units)):
        render_group(run, n)
    return run


def _publish(site: Any, environment: Any, now: datetime, order: Mapping[str, Any]) -> str:
    from sitemap_etl.publish.publish import publish
    from sitemap_etl.publish.summary import finish_run
    from sitemap_etl.stages.run import open_run
    from sitemap_etl.state.lease import release_lease, take_lease

    run = open_run("", environment, staging=environment.open_storage(order["staging"]))
    take_lease(run.work, run.run_id)
    try:
        return str(finish_run(run, publish(run)).status)
    finally:
        release_lease(run.work, run.run_id)


def _roll_back(site: Any, environment: Any, now: datetime, order: Mapping[str, Any]) -> str:
    from sitemap_etl.runs.rollback import roll_back

    return str(roll_back(site, None, environment, reason="test", now=now).summary.status)


_JOBS: dict[str, Any] = {"run": _run, "prepare": _prepare, "publish": _publish, "roll_back": _roll_back}


# --- what must hold of a public set ---------------------------------------------------------------


def listed(objects: Mapping[str, bytes], at: str = f"{ORIGIN}/") -> dict[str, list[str]]:
    """Return the files that list each loc, as a crawler finds them: robots.txt → indexes → sitemaps.

    Raises AssertionError if a listed file does not exist, does not parse, exceeds the limits of the protocol or is
    empty.
    """
    import gzip
    import xml.etree.ElementTree as ET

    from tests.support.sites import NS

    def read(address: str) -> ET.Element:
        assert address.startswith(at), address
        key = address.removeprefix(at)
        assert key in objects, f"{key} is listed and does not exist"
        data = gzip.decompress(objects[key]) if key.endswith(".gz") else objects[key]
        assert len(data) <= 52_428_800, key
        return ET.fromstring(data)

    robots = objects.get("robots.txt", b"").decode()
    indexes = [line.partition(":")[2].strip() for line in robots.splitlines() if line.startswith("Sitemap:")]
    assert len(indexes) == len(set(indexes)), robots
    found: dict[str, list[str]] = {}
    for index in indexes:
        root = read(index)
        assert root.tag == f"{NS}sitemapindex", index
        files = [entry.text or "" for entry in root.iter(f"{NS}loc")]
        assert 0 < len(files) <= 50_000, index
        assert len(files) == len(set(files)), index
        for file in files:
            urlset = read(file)
            assert urlset.tag == f"{NS}urlset", file
            locs = [url.findtext(f"{NS}loc") or "" for url in urlset.findall(f"{NS}url")]
            assert 0 < len(locs) <= 50_000, file
            for loc in locs:
                found.setdefault(loc, []).append(file.removeprefix(at))
    return found


def locs_of(*exports: Iterable[Mapping[str, Any]]) -> set[str]:
    """Return the locs of the rows of these exports."""
    return {f"{ORIGIN}{row['loc']}" for rows in exports for row in rows}


if __name__ == "__main__":
    main()
    os._exit(0)  # libraries report as leaked what the collector was told to leave alone
