"""A run: what it fixed at its start, where it stages, and the receipts of its tasks.

Tasks pass on the key of a run and a number. Whatever a task needs besides lies in the run's folder:
the plan, and the receipts of the tasks before it. Every attempt writes under names of its own; its
receipt, put last and only where there is none, names the attempt that counts.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from sitemap_etl import storage as storages
from sitemap_etl.config import Site, from_json
from sitemap_etl.errors import ConfigError, Refused
from sitemap_etl.manifest import Manifest
from sitemap_etl.state.store import State, dumps
from sitemap_etl.storage import ABSENT, PreconditionFailed, Storage

PLAN: Final = "plan.json"


@dataclass(frozen=True)
class Environment:
    """What a stage reaches the world with; tests and the DAG give their own.

    `connections`: connection id → URI. `environ`: where secrets are read at the stage that uses them.
    """

    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ), repr=False)
    connections: Callable[[str], str] | None = None
    open_storage: Callable[..., Storage] = storages.open_storage
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    log: Callable[[str], None] = lambda _line: None
    advance: Callable[[str, int, int], None] = lambda _stage, _done, _total: None
    label: Callable[[str], None] = lambda _text: None  # what the unit at hand is, in words


@dataclass(frozen=True)
class Options:
    """What the person who starts a run asked for."""

    sections: tuple[str, ...] = ()  # none: all
    full: bool = False
    limit: int | None = None  # rows of a section
    dry_run: bool = False
    ping: bool = True
    force: tuple[str, ...] = ()
    reason: str | None = None
    adopt: bool = False


@dataclass(frozen=True)
class Plan:
    """What a run fixed when its first task started."""

    run_id: str
    now: str  # YYYY-MM-DDThh:mm:ssZ
    base: str | None  # key of the manifest it starts from
    site: dict[str, Any]  # Site.to_json()
    options: dict[str, Any]
    units: list[dict[str, Any]]  # splits: {section, split}
    kept: dict[str, str]  # sections that stay as published, and why
    robots: str | None = None  # the site's robots.txt as it was, Latin-1
    read_since: dict[str, str] = field(default_factory=dict)  # section → what `:since` is
    carries: list[str] = field(default_factory=list)  # sections of which only what changed is read
    owner: str = ""  # what a scheduler calls this run


class Run:
    """One run's folder, state and plan, opened by one of its tasks."""

    def __init__(self, work: Storage, staging: Storage, plan: Plan, environment: Environment) -> None:
        self.work = work
        self.staging = staging
        self.plan = plan
        self.environment = environment
        self.site = from_json(plan.site)
        self.options = Options(
            **{**plan.options, "sections": tuple(plan.options["sections"]), "force": tuple(plan.options["force"])}
        )
        self.now = datetime.fromisoformat(plan.now)
        self.state = State(work, self.site.name, self.site.site)
        self._base: Manifest | None = None

    @property
    def run_id(self) -> str:
        return self.plan.run_id

    @property
    def epoch(self) -> int:
        return int(self.now.timestamp())

    @property
    def base(self) -> Manifest | None:
        """The manifest this run compares with."""
        if self._base is None and self.plan.base is not None:
            self._base = self.state.manifest(self.plan.base)
        return self._base

    def attempt(self, name: str) -> str:
        """A key of this attempt's own."""
        return f"{name}-{secrets.token_hex(3)}"

    def receipt(self, name: str) -> dict[str, Any] | None:
        """What the attempt that counts left, or None."""
        stored = self.staging.get(f"{name}.json")
        return None if stored is None else json.loads(stored.data)

    def need(self, name: str) -> dict[str, Any]:
        """A receipt that must be there: the stage before this one left it."""
        found = self.receipt(name)
        if found is None:
            raise Refused(f"{self.staging.url_of(name + '.json')} is missing: run {self.run_id} did not get that far")
        return found

    def leave(self, name: str, receipt: dict[str, Any]) -> dict[str, Any]:
        """Put this attempt's receipt; where another attempt was first, its receipt is the answer."""
        try:
            self.staging.put(f"{name}.json", dumps(receipt), content_type="application/json", expect=ABSENT)
        except PreconditionFailed:
            return self.need(name)
        return receipt

    def public(self) -> Storage:
        """Where the files go."""
        publish = self.site.publish
        return self.environment.open_storage(
            publish.to,
            conditional_writes=publish.conditional_writes,
            sse=publish.sse,
            checksums=publish.checksums,
        )

    def root(self) -> Storage | None:
        """What serves the site's root: robots.txt and key files go there."""
        publish = self.site.publish
        if publish.root is None:
            return None
        return self.environment.open_storage(
            publish.root,
            conditional_writes=publish.conditional_writes,
            sse=publish.sse,
            checksums=publish.checksums,
        )


def open_work(site: Site, environment: Environment, *, durable: bool = True) -> Storage:
    """The storage at `<work>/<name>`. `durable`: what is put there outlives a power cut."""
    publish = site.publish
    options: dict[str, Any] = {"checksums": publish.checksums, "durable": durable}
    if site.work.startswith("s3://") == publish.to.startswith("s3://"):  # most likely the same store
        options["conditional_writes"] = publish.conditional_writes
    return environment.open_storage(site.work, **options).sub(site.name)


def open_run(key: str, environment: Environment, *, staging: Storage | None = None) -> Run:
    """The run at `key` (`<work>/<name>/runs/<run_id>`), or in a `staging` of its own.

    Raises Refused where there is no such run.
    """
    stored = (staging or environment.open_storage(key)).get(PLAN)
    if stored is None:
        raise Refused(f"{key}/{PLAN} is missing: there is no such run, or its staging was removed")
    plan = Plan(**json.loads(stored.data))
    site = from_json(plan.site)
    work = open_work(site, environment)
    return Run(work, staging or work.sub(f"runs/{plan.run_id}"), plan, environment)


def new_run_id(now: datetime) -> str:
    """YYYYMMDDThhmmssZ-xxxx."""
    return f"{now:%Y%m%dT%H%M%SZ}-{secrets.token_hex(2)}"


def check_options(site: Site, options: Options) -> None:
    """Raises ConfigError where the call names what the site does not have."""
    problems = [
        f"--section {name}: there is no such section. There are: {', '.join(site.sections)}"
        for name in options.sections
        if name not in site.sections
    ]
    gates = {"max_drop", "max_growth", "max_rejected", "min_urls"}
    valid = gates | {f"{section}.{gate}" for section in site.sections for gate in gates}
    problems += [
        f"--force {name}: there is no such gate. Name one as it was shown, such as {next(iter(site.sections))}.max_drop"
        for name in options.force
        if name not in valid
    ]
    if options.force and not (options.reason or "").strip():
        problems.append("--force wants a --reason, which the manifest keeps")
    if problems:
        raise ConfigError(problems)


def plan_json(plan: Plan) -> bytes:
    """A plan as it lies in the run's folder. Its keys keep their order: of two sections the first in the file wins."""
    return json.dumps(asdict(plan), ensure_ascii=False).encode()
