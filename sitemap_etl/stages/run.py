"""A run, opened by one of its tasks: its plan, its staging folder, and the results of its tasks.

Tasks pass on the key of a run and a number. Everything else that a task needs is in the run's folder:
the plan, and the results of earlier tasks. Each attempt of a task writes under names that no other attempt uses. The
first result that is stored names the attempt that counts. It never changes, so a process reads it once.
"""

from __future__ import annotations

import os
import re
import secrets
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from datetime import UTC, datetime
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from sitemap_etl import storage as storages
from sitemap_etl.alerts import Alert
from sitemap_etl.config import Site, from_json
from sitemap_etl.connections import Connection, Connections, environment_connections, look_up
from sitemap_etl.errors import ConfigError, DamagedState, Refused
from sitemap_etl.frozen import Frozen
from sitemap_etl.settings import Gates
from sitemap_etl.sources import SharedSnapshot
from sitemap_etl.stages.clock import read_moment
from sitemap_etl.stages.resident import Resident
from sitemap_etl.state import layout
from sitemap_etl.state.records import (
    Aligned,
    Collected,
    Decided,
    Document,
    Extracted,
    Manifest,
    Merging,
    Options,
    Owner,
    Partition,
    Place,
    Plan,
    ReadSplit,
    Rendered,
    Transformed,
)
from sitemap_etl.state.store import State, parse_document, put_document, read_document
from sitemap_etl.storage import ABSENT, PreconditionFailed, Storage
from sitemap_etl.visible import visible

if TYPE_CHECKING:
    from sitemap_etl.pages import Visit

_D = TypeVar("_D", bound=Document)


def _visits(urls: Sequence[str], seconds: float) -> Iterator[Visit]:
    from sitemap_etl.pages import visits  # a DAG file is parsed without it

    return visits(urls, seconds)


Announce = Callable[[str, Mapping[str, Any], Alert], None]
"""Raise `SitemapEtlError` if the message could not be sent."""


class Environment(Frozen):
    """Access to the outside world. Tests and the DAG replace its fields."""

    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ), repr=False)
    connections: Connections | None = None
    open_storage: Callable[..., Storage] = storages.open_storage
    visits: Callable[[Sequence[str], float], Iterator[Visit]] = _visits  # pages, for so many seconds at most
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    pause: Callable[[float], None] = time.sleep  # for so many seconds
    log: Callable[[str], None] = lambda _line: None
    advance: Callable[[str, int, int], None] = lambda _stage, _done, _total: None
    detail: Callable[..., None] = lambda _line, **_facts: None  # what one part of the work came to, in words and facts
    announce: Announce | None = None  # has a notifier of Airflow send a message: its class, its arguments, the message
    label: Callable[[str], None] = lambda _text: None  # name of the current unit
    site_file: str = ""  # where the site was read from, for messages
    explained: Callable[[BaseException], BaseException] = lambda error: error  # meaning of a scheduler's own errors

    def connection(self, connection_id: str) -> Connection:
        """Return the connection with this id. Raise ConfigError if it is unknown or can't be read."""
        return look_up(connection_id, self.connections or environment_connections(self.environ))


class Run:
    """One run's folder, state and plan, opened by one of its tasks. Safe for use by several threads."""

    def __init__(
        self, work: Storage, staging: Storage, plan: Plan, environment: Environment, *, moved: bool = False
    ) -> None:
        """`moved`: as in `Options`, if it is set only now."""
        self.work = work
        self.staging = staging
        self.plan = plan
        self.environment = environment
        self.site = from_json(plan.site)
        self.options = plan.options
        self.now = datetime.fromisoformat(plan.now)
        self.state = state_of(self.site, environment, work, moved=moved or plan.options.moved, site_file=plan.site_file)
        self.snapshots: dict[str, SharedSnapshot] = {}  # by connection, if this process reads all its splits
        self.resident = Resident()  # rows on their way to render, if this process alone does all stages
        self.stopping = (
            threading.Event()
        )  # set when this process ends the run: nobody needs the reads of others any more
        self._receipts: dict[str, Document] = {}
        self._reading = threading.Lock()

    @property
    def run_id(self) -> str:
        return self.plan.run_id

    @property
    def epoch(self) -> int:
        return int(self.now.timestamp())

    @cached_property
    def base(self) -> Manifest | None:
        """The manifest this run compares with.

        Raise Refused if later runs have removed it, DamagedState if the whole state is gone.
        """
        key = self.plan.base
        found = None if key is None else self.state.kept_manifest(key)
        if key is None or found is not None:
            return found
        now = self.state.current().manifest
        if now is None:
            raise DamagedState(
                f"{self.work.url_of(key)} is missing: the state was deleted after this run began. Nothing public was "
                "touched. Restore the state from a backup, and run again"
            )
        if now != key:
            raise Refused(
                f"Overtaken: this run started from {key}, which is no longer kept: other runs have published since, "
                f"the last of them {now}. Nothing public was touched; run again"
            )
        return self.state.manifest(key)

    @cached_property
    def splits(self) -> Counter[str]:
        """Section → its splits."""
        return Counter(unit.section for unit in self.plan.units)

    def read_moment(self) -> datetime:
        """Return the time of rows that are read now. If the run's time was given, it is that time, so the run can be
        repeated.
        """
        if self.plan.given:
            return self.now
        return read_moment(self.now, self.environment.clock(), self.work.now())

    @cached_property
    def goes_back(self) -> bool:
        """Return True if the base release is of a later time than the run, because a clock was fast."""
        return self.base is not None and self.base.now > self.plan.now

    def attempt(self, name: str) -> str:
        """Return a key of this attempt's own."""
        return f"{name}-{secrets.token_hex(3)}"

    def leave(self, name: str, receipt: _D) -> _D:
        """Store the result of this try. If another try was faster, return its result instead."""
        try:
            put_document(self.staging, layout.receipt(name), receipt, expect=ABSENT)
        except PreconditionFailed:
            return self._needed(name, type(receipt))
        with self._reading:
            self._receipts[name] = receipt
        return receipt

    def receipt(self, name: str, kind: type[_D]) -> _D | None:
        """Return the task result with this name, or None."""
        with self._reading:
            known = self._receipts.get(name)
        if known is not None:
            return cast("_D", known)
        found = read_document(self.staging, layout.receipt(name), kind)
        if found is None:
            return None
        with self._reading:
            self._receipts[name] = found[0]
        return found[0]

    def extracted(self, unit: int) -> Extracted:
        """Return the result of an extract task."""
        return self._needed(layout.extract(unit), Extracted)

    def read_split(self, unit: int) -> ReadSplit:
        """Return the meaning of the row numbers of a unit."""
        planned = self.plan.units[unit]
        receipt = self.receipt(layout.extract(unit), Extracted)
        return ReadSplit(planned.section, planned.label, () if receipt is None else receipt.lines)

    def transformed(self, unit: int) -> Transformed:
        """Return the result of a transform task."""
        return self._needed(layout.transform(unit), Transformed)

    def retransformed(self, unit: int) -> Transformed:
        """Return the second result of a transform task that had to run again."""
        return self._needed(layout.again(unit), Transformed)

    def merging(self) -> Merging:
        """Return the plan of merge."""
        return self._needed(layout.MERGE, Merging)

    def merged(self, unit: int) -> Transformed:
        """Return the result of a merge task."""
        return self._needed(layout.merge(unit), Transformed)

    def read_sections(self) -> list[str]:
        """Return the sections that this run reads, in the order of the site file."""
        read = {unit.section for unit in self.plan.units} | set(self.plan.readings)
        return [name for name in self.site.sections if name in read]

    def units_of(self, section: str) -> list[int]:
        """Return the numbers of a section's splits."""
        return [n for n, unit in enumerate(self.plan.units) if unit.section == section]

    def rows_read(self, section: str) -> int:
        """Return the number of rows that were extracted from a section's source."""
        return sum(self.extracted(n).rows for n in self.units_of(section))

    def is_unchanged(self, section: str) -> bool:
        """Return True if no rule was applied to a section's rows, because rows and rules are those of an earlier run.

        Before `decide_sections`, this can still change: a section can be rendered for another reason.
        """
        if section in self.plan.readings:
            if section not in self.merging().untouched:
                return False
            decided = self.receipt(layout.SETTLE, Decided)
            return decided is None or all(self.merging().units[n][0] != section for n in decided.merge)
        units = self.units_of(section)
        if not units or not all(self.transformed(n).unchanged for n in units):
            return False
        decided = self.receipt(layout.SETTLE, Decided)
        return decided is None or not set(decided.again).intersection(units)

    def parts(self, section: str) -> list[Transformed]:
        """Return the results of a section's splits, or of its mirror's buckets. Empty if the section is unchanged."""
        if self.is_unchanged(section):
            return []
        if section in self.plan.readings:
            units = self.merging().units
            return [self.merged(n) for n, (owner, _) in enumerate(units) if owner == section]
        found = [self.transformed(n) for n in self.units_of(section)]
        if not any(part.unchanged for part in found):
            return found
        decided = self.receipt(layout.SETTLE, Decided)
        repeated = () if decided is None else decided.again
        return [
            self.retransformed(n) if n in repeated else part
            for n, part in zip(self.units_of(section), found, strict=True)
        ]

    def partition(self) -> Partition:
        """Return the result of partition."""
        return self._needed(layout.PARTITION, Partition)

    def collected(self, unit: int) -> Collected:
        """Return the result of collect for a render task."""
        return self._needed(layout.collect(unit), Collected)

    def aligned(self) -> Aligned | None:
        """Return the result of align, or None if no rendered section has hreflang clusters.

        Raise Refused if align did not run. A scheduler can follow an outdated graph of tasks.
        """
        return self._needed(layout.ALIGN, Aligned) if self._clustered else None

    @cached_property
    def _clustered(self) -> bool:
        """Return True if a section that is rendered has clusters."""
        return any(self.site.sections[section].alternates is not None for section, _ in self.partition().units)

    def rendered(self, unit: int) -> Rendered:
        """Return the result of a render task."""
        return self._needed(layout.render(unit), Rendered)

    def all_rendered(self) -> list[Rendered]:
        """Return the results of all render tasks."""
        return [self.rendered(unit) for unit in range(len(self.partition().units))]

    def _needed(self, name: str, kind: type[_D]) -> _D:
        """Return a task result that an earlier stage must have stored. Raise Refused if it is missing."""
        found = self.receipt(name, kind)
        if found is None:
            where = self.staging.url_of(layout.receipt(name))
            raise Refused(
                f"{where} is missing: run {self.run_id} did not get that far, or the site file was changed after it "
                "began, so that its DAG no longer has the task that leaves this. Start a new run"
            )
        return found

    def public(self) -> Storage:
        """Return the storage of the public files."""
        return open_public(self.site, self.site.publish.to, self.environment)

    def root(self) -> Storage | None:
        """Return the storage of the site's root, for robots.txt and key files."""
        root = self.site.publish.root
        return None if root is None else open_public(self.site, root, self.environment)


def open_public(site: Site, url: str, environment: Environment) -> Storage:
    """Return the storage of a public folder, as the site's `publish` sets it up."""
    publish = site.publish
    return environment.open_storage(
        url,
        conditional_writes=publish.conditional_writes,
        sse=publish.sse,
        checksums=publish.checksums,
        access="public",
    )


def open_work(site: Site, environment: Environment, *, durable: bool = True) -> Storage:
    """Return the storage at `<work>/<name>`. `durable`: objects outlive a power cut."""
    publish = site.publish
    options: dict[str, Any] = {"checksums": publish.checksums, "durable": durable, "access": site.work_access}
    if site.work.startswith("s3://") == publish.to.startswith("s3://"):  # most likely the same store
        options["conditional_writes"] = publish.conditional_writes
    return environment.open_storage(site.work, **options).sub(site.name)


def state_of(
    site: Site, environment: Environment, work: Storage | None = None, *, moved: bool = False, site_file: str = ""
) -> State:
    """Return the state of a site. Refuse it to a site that publishes elsewhere.

    `work`: its storage, if it is open. `moved`: as in `Options`.
    """

    def place(url: str) -> Place:
        storage = open_public(site, url, environment)
        return Place(storage.place, None if url.startswith("s3://") else url)

    def owner() -> Owner:
        publish = site.publish
        root = None if publish.root is None else place(publish.root)
        return Owner(place(publish.to), root, site_file or environment.site_file, socket.gethostname())

    return State(work or open_work(site, environment), site.name, site.site, owner=owner, moved=moved)


def open_run(key: str, environment: Environment, *, staging: Storage | None = None, moved: bool = False) -> Run:
    """Return the run at `key` (`<work>/<name>/runs/<run_id>`), or in a `staging` of its own. `moved`: as in `Run`.

    Raise Refused if there is no such run, or if a version with another format started it.
    """
    stored = (staging or environment.open_storage(key)).get(layout.PLAN)
    if stored is None:
        raise Refused(
            f"{key}/{layout.PLAN} is missing: there is no such run, or its staging was removed. Start a new run"
        )
    plan = parse_document(stored.data, Plan, f"{key}/{layout.PLAN}")
    site = from_json(plan.site)
    work = open_work(site, environment)
    return Run(work, staging or work.sub(layout.run_folder(plan.run_id)), plan, environment, moved=moved)


_LAST: Final = 0xFFFF
"""The greatest number that a run id of a second can end with."""


def new_run_id(now: datetime, *, after: str = "", work: Storage | None = None) -> str:
    """Return a new run id: YYYYMMDDThhmmssZ-xxxx. `after`: id of a run that has to sort before it, even in the same
    second.

    `work`: storage with the history of runs, whose ids are not used again: two runs must not share a folder. A hundred
    runs can follow each other within a second.
    """
    second = f"{now:%Y%m%dT%H%M%SZ}-"
    first, span = (int(after.removeprefix(second), 16) + 1, 0x100) if after.startswith(second) else (0, 0x8000)
    number = min(first + secrets.randbelow(span), _LAST)
    while number < _LAST and work is not None and work.stat(layout.attempt(f"{second}{number:04x}")) is not None:
        number += 1
    return f"{second}{number:04x}"


COMMAND: Final[Mapping[str, str]] = MappingProxyType(
    {"sections": "--section", "force": "--force", "reason": "--reason", "now": "--now"}
)
"""Option → what the command calls it; the form of a scheduler has words of its own."""


_PLACEHOLDERS: Final = frozenset({"", "reason", "yourreason", "text", "why"})
"""Reasons that say nothing, without punctuation: what messages and documents print in place of one."""


def check_options(site: Site, options: Options, *, said: Mapping[str, str] = COMMAND) -> None:
    """Raise ConfigError if an option names something that the site does not have, or lacks a real reason.

    `said`: the caller's names of the options.
    """
    problems = [
        f"{said['sections']} {visible(name)}: there is no such section. There are: {', '.join(site.sections)}"
        for name in options.sections
        if name not in site.sections
    ]
    gates = set(Gates.model_fields)
    valid = gates | {f"{section}.{gate}" for section in site.sections for gate in gates}
    problems += [
        f"{said['force']} {name}: there is no such gate. Name one as it was shown, such as "
        f"{next(iter(site.sections))}.max_drop"
        for name in options.force
        if name not in valid
    ]
    reason = (options.reason or "").strip()
    if options.force and not reason:
        problems.append(f"{said['force']} wants a {said['reason']}, which the manifest keeps")
    if reason and re.sub(r"[\W_]+", "", reason).casefold() in _PLACEHOLDERS:
        problems.append(
            f"{said['reason']} {visible(reason)}: this is a placeholder. Give the real reason; the manifest keeps it"
        )
    if problems:
        raise ConfigError(problems)
