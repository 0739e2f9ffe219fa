"""State of a site: last run, current release, failures, pending notifications and blockers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import field, replace
from datetime import datetime, timedelta
from typing import Final

from sitemap_etl.config import Site
from sitemap_etl.dates import instant
from sitemap_etl.errors import DamagedState, Refused, SitemapEtlError, Unavailable
from sitemap_etl.publish.retention import kept_manifests
from sitemap_etl.stages.clock import moment_of
from sitemap_etl.stages.ping import engines_of, pending_runs
from sitemap_etl.stages.run import Environment, open_work, state_of
from sitemap_etl.state import layout
from sitemap_etl.state.attempts import read_attempts
from sitemap_etl.state.lease import holder
from sitemap_etl.state.records import Attempt, Current, Lease, Manifest, Record
from sitemap_etl.state.store import State
from sitemap_etl.storage import Storage

NIGHTS: Final = 30
"""Runs in a trend."""
_READ: Final = 60
"""Records that are read for the trend, because some runs fail and some are dry runs."""


class PublishedSet(Record):
    """The set that is public."""

    run_id: str
    now: str
    listed: int
    files: int


class SiteStatus(Record):
    """State of a site. `problems`: reasons why it isn't healthy, most urgent first.

    `last`: the last run that has ended, dry runs excluded. `failed`: runs that failed since the last good one, newest
    first. `last_good`: end of the last good run. `running`: the run in progress. `pending`: by engine, runs whose
    changes it has not accepted. `blocked`: reasons why the next run can't start. `notes`: what the next run does
    besides. `trend`: URLs of the last good runs, oldest first.
    """

    name: str
    site: str
    healthy: bool = True
    problems: tuple[str, ...] = ()
    last: Attempt | None = None
    last_good: str | None = None
    failed: tuple[Attempt, ...] = ()
    running: str | None = None
    published: PublishedSet | None = None
    pending: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    blocked: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    trend: tuple[int, ...] = ()
    read_at: str = ""  # by the clock of the store


def status_of(site: Site, environment: Environment, *, max_age: timedelta | None) -> SiteStatus:
    """Return the state of a site. An unreadable state is a problem of the site, not an error.

    `max_age`: maximum age of the last good run, or None for any age.
    """
    found = SiteStatus(site.name, site.site)
    try:
        found = _Look(site, environment).status(found)
    except (Unavailable, Refused, DamagedState) as error:
        found = replace(found, blocked=(*found.blocked, str(error)))
    problems = tuple(_problems(found, max_age))
    return replace(found, healthy=not problems, problems=problems)


def past_runs(site: Site, environment: Environment, most: int | None = None) -> list[Attempt]:
    """Return the recorded runs, newest first: all, or at most `most`."""
    work = open_work(site, environment)
    lease = holder(work)
    published: str | None = None
    with suppress(DamagedState, Refused):
        published = State(work, site.name, site.site).current().manifest
    return [_settled(one, lease, published) for one in read_attempts(work, most)]


class _Look:
    """One look at the state of a site."""

    def __init__(self, site: Site, environment: Environment) -> None:
        self.site = site
        self.environment = environment
        self.work: Storage = open_work(site, environment)
        self.state: State = state_of(site, environment, self.work)
        self.blocked: list[str] = []
        self.notes: list[str] = []

    def status(self, found: SiteStatus) -> SiteStatus:
        """Fill in everything that can be read. Damaged objects block the next run."""
        now = self.work.now()
        lease = holder(self.work)
        current, manifest = self._set()
        published = None if current is None else current.manifest
        attempts = [_settled(one, lease, published) for one in read_attempts(self.work, _READ)]
        if not attempts and current is not None and current.last_run is not None:  # a release that kept no records
            last = current.last_run
            attempts = [Attempt(last.run_id, last.at, last.at, last.status)]  # type: ignore[arg-type]  # was written by one
        over = [one for one in attempts if one.status != "running" and not one.dry_run]
        good = next((at for at, one in enumerate(over) if one.good), len(over))
        self._clock(now, manifest)
        if current is not None and current.pending is not None and lease is None:
            self.notes.append("a publish was interrupted: the next run finishes or undoes it")
        return replace(
            found,
            last=over[0] if over else None,
            last_good=over[good].ended if good < len(over) else None,
            failed=tuple(over[:good]),
            running=None if lease is None else lease.describe(),
            published=None if manifest is None else _published(manifest),
            pending=dict(self._pending()) if manifest is not None else {},
            blocked=tuple(self.blocked),
            notes=tuple(self.notes),
            trend=tuple(self._trend(over, current)),
            read_at=instant(now),
        )

    def _set(self) -> tuple[Current | None, Manifest | None]:
        current = None
        try:
            current = self.state.current()
            return current, self.state.manifest(current.manifest)
        except (DamagedState, Refused) as error:
            self.blocked.append(str(error))
            return current, None

    def _clock(self, store: datetime, manifest: Manifest | None) -> None:
        """Report a blocker if a run that started now would be refused because of its time."""
        try:
            moment_of(
                self.environment.clock(),
                store,
                self.work.url,
                given=None,
                reason=None,
                placed=None if manifest is None else datetime.fromisoformat(manifest.now),
                run_id="" if manifest is None else manifest.run_id,
            )
        except Refused as error:
            self.blocked.append(str(error))

    def _pending(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        for engine in engines_of(self.site):
            try:
                runs = pending_runs(self.state, engine)
            except SitemapEtlError as error:
                self.notes.append(f"what {engine} has heard can't be read: {error}")
                continue
            if runs:
                yield engine, tuple(runs)

    def _trend(self, over: list[Attempt], current: Current | None) -> list[int]:
        shown = [one.listed for one in over if one.good and one.sections][:NIGHTS]
        if not shown and current is not None:
            shown = [manifest.listed for _, manifest in kept_manifests(self.state, self.site.keep)]
        return shown[::-1]


def _settled(attempt: Attempt, lease: Lease | None, published: str | None) -> Attempt:
    """Return the record of a run. If it was killed, mark it as interrupted, published or not."""
    alive = lease is not None and lease.run_id == attempt.run_id
    if attempt.status != "running" or alive:
        return attempt
    done = published == layout.manifest(attempt.run_id)
    after = ", after it had published; the next run does what was left" if done else ""
    why = f"It was killed, or its machine went down{after}"
    return replace(attempt, status="interrupted", published=attempt.published or done, error=why)


def _published(manifest: Manifest) -> PublishedSet:
    return PublishedSet(manifest.run_id, manifest.now, manifest.listed, sum(1 for _ in manifest.files()))


def _problems(found: SiteStatus, max_age: timedelta | None) -> Iterator[str]:
    yield from (f"the next run is blocked: {why}" for why in found.blocked)
    last = found.last
    if last is None:
        if not found.blocked and found.running is None:
            yield "it was never run"
        return
    if last.status == "partial":
        yield from (f"section {name} stays as published: {why}" for name, why in last.kept.items())
        failed = {name: answer for name, answer in last.engines.items() if answer.failed}
        yield from (f"{name} failed: {answer.message}" for name, answer in failed.items())
        if not last.kept and not failed:
            yield "the last run was only partly published"
    elif last.failed:
        yield f"the last run {_DID[last.status]}: {(last.error or 'no reason was kept').removeprefix('Refused: ')}"
    if max_age is not None and found.read_at:
        limit = f"limit {_hours(max_age)}"
        if found.last_good is None:
            yield f"no run has ended well ({limit})"
        elif (age := _age(found.last_good, found.read_at)) > max_age:
            yield f"the last run that ended well was {_hours(age)} ago ({limit})"


_DID: Final = {"failed": "failed", "refused": "was refused", "interrupted": "was interrupted"}


def _age(then: str, now: str) -> timedelta:
    return datetime.fromisoformat(now) - datetime.fromisoformat(then)


def _hours(age: timedelta) -> str:
    hours = age / timedelta(hours=1)
    return f"{hours:,.0f} hours" if hours >= 2 else f"{age / timedelta(minutes=1):,.0f} minutes"
