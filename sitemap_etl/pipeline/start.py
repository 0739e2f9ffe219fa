"""The start of a run: what it will read, from which manifest, and that nobody else is at it."""

from __future__ import annotations

import json
import os
import socket
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from sitemap_etl import limits
from sitemap_etl.errors import ConfigError, InvalidSource, Refused, SitemapEtlError
from sitemap_etl.manifest import Manifest
from sitemap_etl.pipeline.raw import plan_splits, reads_changes_only
from sitemap_etl.pipeline.robots_file import public_robots
from sitemap_etl.pipeline.run import (
    PLAN,
    Options,
    Outside,
    Plan,
    Run,
    check_options,
    instant,
    new_run_id,
    open_work,
    plan_json,
)
from sitemap_etl.pipeline.state import State, dumps
from sitemap_etl.site import Section, Site
from sitemap_etl.storage import ABSENT, PreconditionFailed, Storage

LEASE: Final = "state/lease.json"
LEASE_TIME: Final = timedelta(minutes=20)
"""How long a run that gives no sign of life keeps others from starting."""
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def start_run(
    site: Site,
    options: Options,
    outside: Outside,
    *,
    now: datetime | None = None,
    staging: Storage | None = None,
    final: bool = True,
    pid: int | None = None,
    owner: str = "",
    durable: bool = True,
    split_rows: int = limits.SPLIT_ROWS,
) -> Run:
    """Fix what a run does and give it. `staging`: where it stages, the state's `runs/<run_id>` by default.

    A section whose source can't be planned is kept as published where the site file says so; `final`:
    also where the source only did not answer. `pid`: the process the lease belongs to, this one by default.
    `owner`: what a scheduler calls its run; another try of it takes the lease over. `durable`: what is staged
    outlives a power cut. `split_rows`: rows of a split of a Parquet export. Raises ConfigError, InvalidSource,
    Refused, Unavailable.
    """
    check_options(site, options)
    now = now or outside.clock()
    work = open_work(site, outside)
    state = State(work, site.name, site.site)
    state.current()  # another site's state is told before anything is written there
    run_id = new_run_id(now)
    take_lease(work, run_id, pid=pid, owner=owner)
    current = state.current()  # a run that has just ended may have moved it
    base = state.manifest(current.manifest)
    if options.limit is not None and not options.dry_run and base is not None:
        release_lease(work, run_id)
        raise ConfigError(
            f"--limit {options.limit} would take down what it does not read: {base.listed:,} URLs are published. "
            "Add --dry-run"
        )
    chosen = [name for name in site.sections if not options.sections or name in options.sections]
    units: list[dict[str, Any]] = []
    kept: dict[str, str] = {}
    read_since: dict[str, str] = {}
    carries: list[str] = []
    problems: list[SitemapEtlError] = []
    for name in chosen:
        section = site.sections[name]
        since = _since(base, name, full=options.full)
        read_since[name] = since.isoformat()
        try:
            splits = plan_splits(section, site, outside, now=now, since=since, split_rows=split_rows)
        except SitemapEtlError as error:
            if section.on_error == "keep" and (final or isinstance(error, (InvalidSource, Refused))):
                kept[name] = str(error)
                continue
            problems.append(_in_section(name, error))
            continue
        if since > EPOCH and reads_changes_only(section, outside):
            _check_incremental(section)
            carries.append(name)
        units += [{"section": name, "split": split.to_json(), "label": split.label} for split in splits]
    if problems:
        release_lease(work, run_id)
        raise problems[0] if len(problems) == 1 else type(problems[0])("\n".join(str(problem) for problem in problems))
    robots = None
    if site.urls.respect_robots:
        found = _own_robots(site, outside)
        robots = None if found is None else found.decode("latin-1")
    plan = Plan(
        run_id=run_id,
        now=instant(now),
        base=current.manifest,
        site=site.to_json(),
        options=asdict(options),
        units=units,
        kept=kept,
        robots=robots,
        read_since=read_since,
        carries=carries,
        owner=owner,
    )
    if staging is None:
        staging = (work if durable else open_work(site, outside, durable=False)).sub(f"runs/{run_id}")
    staging.put(PLAN, plan_json(plan), content_type="application/json")
    return Run(work, staging, plan, outside)


def _check_incremental(section: Section) -> None:
    """Raises ConfigError for a rule that needs every row of the section each time."""
    if section.priority.kind == "percentile_of":
        raise ConfigError(
            f"section {section.name}: priority: percentile_of ranks all rows, but the SELECT names :since and yields "
            "only what changed. Take :since out, or give the priority as a column"
        )
    if section.view:
        raise ConfigError(
            f"section {section.name}: a view is written anew each time, but the SELECT names :since. Take :since out"
        )


def _in_section(name: str, error: SitemapEtlError) -> SitemapEtlError:
    if isinstance(error, ConfigError):
        return ConfigError([f"section {name}: {problem}" for problem in error.problems])
    told = type(error)(f"section {name}: {error}") if type(error).__init__ is Exception.__init__ else error
    told.__cause__ = error
    return told


def _since(base: Manifest | None, section: str, *, full: bool) -> datetime:
    """What `:since` is: when the published rows of the section were read, or the epoch."""
    state = base.sections.get(section) if base is not None else None
    if full or state is None or state.read_at is None:
        return EPOCH
    return datetime.fromisoformat(state.read_at)


def _own_robots(site: Site, outside: Outside) -> bytes | None:
    """The site's robots.txt: as it lies under `publish.root`, else as the site answers."""
    publish = site.publish
    if publish.root is not None:
        stored = outside.open_storage(publish.root, checksums=publish.checksums).get("robots.txt")
        if stored is not None:
            return stored.data
    return public_robots(site.site)


@dataclass(frozen=True)
class Lease:
    """Who is at this site, since when, until when (by the store's clock)."""

    run_id: str
    since: str
    until: str
    host: str
    pid: int
    owner: str = ""

    def describe(self) -> str:
        who = self.owner or f"process {self.pid} on {self.host}"
        return f"run {self.run_id}, since {self.since} ({who})"

    def is_of(self, run_id: str, owner: str) -> bool:
        """Whether this is the run's own lease, or that of an earlier try of it."""
        return self.run_id == run_id or (owner != "" and self.owner == owner)


def take_lease(work: Storage, run_id: str, *, pid: int | None = None, owner: str = "") -> None:
    """Take the lease, or renew it. Raises Refused where another live run holds it.

    It only spares two runs the same work: what is published rests on the claim. A holder whose time is
    over, or whose process on this host is gone, has lost it.
    """
    now = work.now()
    stored = work.get(LEASE)
    held = None if stored is None else Lease(**json.loads(stored.data))
    mine = held is not None and held.is_of(run_id, owner)
    if held is not None and not mine and datetime.fromisoformat(held.until) > now and not _is_gone(held):
        raise Refused(
            f"Another run is under way: {held.describe()}. Its lease ends {held.until}. Nothing was done; "
            "start again when it is through"
        )
    since = held.since if held is not None and mine else instant(now)
    pid = os.getpid() if pid is None else pid
    lease = Lease(run_id, since, instant(now + LEASE_TIME), socket.gethostname(), pid, owner)
    body = dumps({**asdict(lease)})
    try:
        work.put(LEASE, body, content_type="application/json", expect=ABSENT if stored is None else stored.stat.etag)
    except PreconditionFailed:
        stored = work.get(LEASE)
        other = None if stored is None else Lease(**json.loads(stored.data))
        if other is not None and other.is_of(run_id, owner):
            return  # another task of this run renewed it at the same moment
        who = "another run" if other is None else other.describe()
        raise Refused(f"Another run is under way: {who}. Nothing was done; start again when it is through") from None


def release_lease(work: Storage, run_id: str, *, owner: str = "") -> None:
    """Give the lease back, if it is still this run's."""
    stored = work.get(LEASE)
    if stored is not None and Lease(**json.loads(stored.data)).is_of(run_id, owner):
        try:
            work.delete(LEASE, expect=stored.stat.etag)
        except PreconditionFailed:
            return


def _is_gone(lease: Lease) -> bool:
    """Whether the holder was a process of this host that is no longer there."""
    if lease.host != socket.gethostname() or lease.pid == 0:
        return False
    if lease.pid == os.getpid():
        return True
    return not Path(f"/proc/{lease.pid}").exists() if Path("/proc").is_dir() else not _answers(lease.pid)


def _answers(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
