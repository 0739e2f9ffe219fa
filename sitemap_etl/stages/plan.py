"""The start of a run: its reads, its base manifest, and its lease."""

from __future__ import annotations

import codecs
import hashlib
import posixpath
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from http import HTTPStatus
from typing import Final

from sitemap_etl import engines, limits, sources, trail, web
from sitemap_etl.config import DatabaseSource, Section, Site, TableSource
from sitemap_etl.dates import instant
from sitemap_etl.errors import ConfigError, SitemapEtlError, Unavailable
from sitemap_etl.frozen import Frozen
from sitemap_etl.robots import find_unreadable, unread_rules
from sitemap_etl.settings.site import STATE_FOLDER
from sitemap_etl.sources import Split, unpack_schema
from sitemap_etl.sources.files.completeness import Readiness
from sitemap_etl.sources.lake import lake
from sitemap_etl.stages.about import about, note
from sitemap_etl.stages.arrival import await_sources, demand_arrival
from sitemap_etl.stages.clock import moment_of
from sitemap_etl.stages.digests import likely_unchanged
from sitemap_etl.stages.extract import (
    holds,
    label_of,
    plan_splits,
    read_schema,
    reads_changes_only,
    session_of,
    with_section,
    without_section,
)
from sitemap_etl.stages.generation import Generation, digest, other_columns
from sitemap_etl.stages.parameters import BEGINNING, has_secrets, params_digest, params_of, unspoken
from sitemap_etl.stages.run import Environment, Run, check_options, new_run_id, open_work, state_of
from sitemap_etl.stages.tables import asked_of, fingerprint_of, reading_of_table
from sitemap_etl.stages.watermark import also_due, dated_by_day, find_unseen, other_use_of_time
from sitemap_etl.state import layout
from sitemap_etl.state.attempts import put_attempt
from sitemap_etl.state.conditions import demand_conditions
from sitemap_etl.state.lease import release_lease, take_lease
from sitemap_etl.state.mirror import read_mirror
from sitemap_etl.state.records import (
    Asked,
    Attempt,
    Current,
    KnownRobots,
    Manifest,
    Options,
    Plan,
    Reading,
    Unit,
)
from sitemap_etl.state.store import State, put_document
from sitemap_etl.storage import ABSENT, PreconditionFailed, Storage
from sitemap_etl.web import WebError

_SHOWN: Final = 3
"""Lines of robots.txt that a warning names."""
_TYPED: Final = ("postgresql", "mysql", "duckdb")
"""Databases whose columns have the type that they were declared with, whatever is read of them."""


def start_run(
    site: Site,
    options: Options,
    environment: Environment,
    *,
    now: datetime | None = None,
    staging: Storage | None = None,
    final: bool = True,
    pid: int | None = None,
    owner: str = "",
    has_ended: Callable[[str], bool] = lambda _owner: False,
    one_process: bool = False,
    durable: bool = True,
    split_rows: int = limits.SPLIT_ROWS,
    waits: bool = True,
) -> Run:
    """Plan a run, store the plan, and return the run.

    If a source can't be planned, its section is kept as in the last release with `on_error: keep`. With `final` this is
    also done if a source only did not answer. A run that loses its lease can't publish any more.

    `now`: time of the run, by default the clock's (`stages.clock`). `staging`: folder of the run, by default the
    state's `runs/<run_id>`. `pid`: process that holds the lease, by default this one. `owner`: scheduler's run; another
    try of the same run takes the lease over. `has_ended`: returns True if another owner's run has ended: its lease is
    taken over too. `one_process`: this process reads all splits, within `stages.extract.one_moment`. `durable`: staged
    files survive a power cut. `split_rows`: rows per split of a Parquet export. `waits`: wait for sources that are not
    complete; False if a scheduler has waited already.

    Raise ConfigError, InvalidSource, Refused, Unavailable.
    """
    check_options(site, options)
    _check_keys(site, environment)
    if options.ping and not options.dry_run:
        _check_engines(site)
    work = open_work(site, environment)
    state = state_of(site, environment, work, moved=options.moved)
    # The state of another site is refused before anything is written there.
    base = state.manifest(state.current().manifest)
    if waits:
        await_sources(site, options, environment)
    given = now
    now = _moment(work, base, environment.clock(), given, options)
    run_id = new_run_id(now, after="" if base is None else base.run_id, work=work)
    note(run=run_id)
    trail.works_on(run_id=run_id)
    if posixpath.basename(site.work) == STATE_FOLDER and not site.work.startswith("s3://"):
        _keep_out_of_git(site, environment)
    demand_conditions(work)
    before = take_lease(
        work,
        run_id,
        pid=pid,
        owner=owner,
        gives_way=lambda other: other.owner != "" and (other.owner == owner or has_ended(other.owner)),
    )
    try:
        if before is not None:
            state.fence()  # its process may still be there for a while
        current = state.current()  # a run that has just ended may have moved it
        base = state.manifest(current.manifest)
        now = _moment(work, base, now, given, options)
        _check_limit(options, base)
        robots = own_robots(site, state, current, environment, now) if site.urls.respect_robots else OwnRobots()
        published = frozenset(base.sections) if base is not None and base.now <= instant(now) else frozenset()
        read = _Sources(
            site,
            options,
            environment,
            now,
            work,
            current,
            robots.text,
            published,
            final=final,
            one_process=one_process,
            split_rows=split_rows,
        )
        plan = Plan(
            run_id=run_id,
            now=instant(now),
            base=current.manifest,
            site=site.to_json(),
            options=options,
            units=tuple(read.units),
            held=read.held,
            robots=None if robots.text is None else robots.text.decode("latin-1"),
            known_robots=robots.known,
            readings=read.readings,
            params=read.params,
            owner=owner,
            site_file=environment.site_file,
            snapshots=tuple(sorted(read.snapshots)),
            warnings=(*robots.warnings, *read.warnings),
            given=given is not None,
            versions=read.versions,
            made_from=current.made_from,
            expected=_expected(site, options, base, current, now, work),
            promised=read.promised,
            before=None if current.last_run is None else current.last_run.run_id,
        )
        if staging is None:
            staging = (work if durable else open_work(site, environment, durable=False)).sub(layout.run_folder(run_id))
        put_document(staging, layout.PLAN, plan)
        asked = Asked(options.sections, options.full, options.limit)
        begun = Attempt(run_id, plan.now, owner=owner, dry_run=options.dry_run, options=asked, base=plan.base)
        put_attempt(work, begun)
    except BaseException:
        release_lease(work, run_id)
        raise
    for name, reading in read.readings.items():
        if reading.because is not None:
            with about(section=name):
                environment.log(f"section {name} is read in full: {reading.because}")
    return Run(work, staging, plan, environment)


def _moment(
    work: Storage, base: Manifest | None, clock: datetime, given: datetime | None, options: Options
) -> datetime:
    """Return the time of a run. Raise Refused as `moment_of`."""
    return moment_of(
        clock,
        work.now(),
        work.url,
        given=given,
        reason=options.reason,
        placed=None if base is None else datetime.fromisoformat(base.now),
        run_id="" if base is None else base.run_id,
    )


def _keep_out_of_git(site: Site, environment: Environment) -> None:
    """Put a .gitignore into a state folder beside the site file."""
    with suppress(PreconditionFailed):
        environment.open_storage(site.work, access=site.work_access).put(
            ".gitignore", b"*\n", content_type="text/plain", expect=ABSENT
        )


def _check_limit(options: Options, base: Manifest | None) -> None:
    if options.limit is not None and not options.dry_run and base is not None:
        raise ConfigError(
            f"--limit {options.limit} would unlist pages that it does not read: {base.listed:,} URLs are published. "
            "Add --dry-run"
        )


def _expected(
    site: Site, options: Options, base: Manifest | None, current: Current, now: datetime, work: Storage
) -> tuple[str, ...]:
    """Return the sections that are likely unchanged, or none if all have to be rendered anyway.

    The report on what the rules made of their rows must still exist, because it is repeated.
    """
    if base is None or options.full or options.limit is not None or base.now > instant(now):
        return ()
    found = likely_unchanged(site.to_json(), base, current.made_from)
    runs = {name: layout.summary(current.made_from[name].applied_by) for name in found}
    kept = {key for key in {*runs.values()} if work.stat(key) is not None}
    return tuple(name for name in found if runs[name] in kept)


def key_missing(section: Section, environment: Environment) -> str | None:
    """Return the problem if a SELECT uses `:since` but no key is named, or None."""
    source = section.source
    if not isinstance(source, DatabaseSource) or source.key is not None or not reads_changes_only(section, environment):
        return None
    return (
        f"section {section.name}: the SELECT names :since, so its rows are merged with those of earlier runs. Name "
        f"the column that identifies a row, for example:\n  from: {{database: {source.database}, …, key: id}}"
    )


def _check_keys(site: Site, environment: Environment) -> None:
    found = (key_missing(section, environment) for section in site.sections.values())
    problems = [problem for problem in found if problem is not None]
    if problems:
        raise ConfigError(problems)


def _check_engines(site: Site) -> None:
    """Check the packages that engines need before anything is read, not after the release is published."""
    for name in site.ping.engines():
        engines.named(name).demand_extra()


class _Sources:
    """The splits of every section that is read, and how those that keep a mirror are read.

    `robots`: the rules that apply. `published`: sections that stay as published unless they are read. Raise what the
    sources raise, of all of them at once.
    """

    def __init__(
        self,
        site: Site,
        options: Options,
        environment: Environment,
        now: datetime,
        work: Storage,
        current: Current,
        robots: bytes | None,
        published: frozenset[str],
        *,
        final: bool,
        one_process: bool,
        split_rows: int,
    ) -> None:
        self.site = site
        self.options = options
        self.environment = environment
        self.now = now
        self.work = work
        self.current = current
        self.robots = robots
        self.published = published
        self.one_process = one_process
        self.split_rows = split_rows
        self.snapshots: set[str] = set()
        self.warnings: list[str] = []
        self.units: list[Unit] = []
        self.held: dict[str, str] = {}
        self.readings: dict[str, Reading] = {}
        self.params: dict[str, str] = {}
        self.versions: dict[str, str] = {}
        self.promised: dict[str, int] = {}
        problems: list[SitemapEtlError] = []
        for name in [name for name in site.sections if not options.sections or name in options.sections]:
            section = site.sections[name]
            try:
                with about(section=name):
                    self._add(section)
            except SitemapEtlError as error:
                if holds(section, error, final=final):
                    self.held[name] = without_section(name, error)
                else:
                    problems.append(_in_section(name, error))
                    problems[-1].about = {"section": name}
        if len(problems) == 1:
            raise problems[0]
        if problems:
            raise type(problems[0])("\n".join(str(problem) for problem in problems))

    def _add(self, section: Section) -> None:
        source = section.source
        if has_secrets(source):
            self.params[section.name] = params_digest(section.name, source, self.site, self.environment)
        if isinstance(source, TableSource):
            self._add_table(section, source)
            return
        if not section.keyed or self.options.limit is not None or not reads_changes_only(section, self.environment):
            splits = self._splits(section, BEGINNING)
            self._secure(section, splits, BEGINNING)
            if section.keyed and isinstance(source, DatabaseSource):
                self._warn_of_unseen(section, source)
            self.units += [Unit(section.name, split) for split in splits]
            return
        assert isinstance(source, DatabaseSource)
        reading = self._reading(section, source)
        splits = self._splits(section, datetime.fromisoformat(reading.since))
        if reading.mirror is not None:
            problem = self._unlike(section, source, reading, splits)
            if problem is not None:
                since = BEGINNING.isoformat()
                reading = replace(reading, since=since, mirror=None, because=problem)
                splits = self._splits(section, BEGINNING)
        self._secure(section, splits, datetime.fromisoformat(reading.since))
        if reading.mirror is None:
            self._warn_of_unseen(section, source)
        self.readings[section.name] = reading
        self.units += [Unit(section.name, split) for split in splits]

    def _add_table(self, section: Section, source: TableSource) -> None:
        """Plan the read of a table: nothing if its version is published, only changes if it has a key."""
        demand_arrival(section, self.site, self.environment)
        asked = asked_of(section, self.site, self.environment, self.now)
        table = lake.find_table(asked)
        params = params_digest(section.name, source, self.site, self.environment)
        made_from = fingerprint_of(self.site, section, table, params, self.robots)
        whole = self.options.limit is None and not self.options.full
        known = made_from is not None and made_from == self.current.versions.get(section.name)
        if whole and known and section.name in self.published:
            self.environment.detail(
                f"plan: section {section.name} is unchanged: it was made from version {table.version}",
                version=table.version,
            )
            return
        if made_from is not None and self.options.limit is None:
            self.versions[section.name] = made_from
        if source.key is None or self.options.limit is not None:
            splits = lake.plan_table(table, asked, split_rows=self.split_rows)
        else:
            reading, splits = reading_of_table(
                self.site,
                section,
                table,
                asked,
                self._generation(section),
                params=params,
                now=self.now,
                split_rows=self.split_rows,
            )
            self.readings[section.name] = reading
        self.units += [Unit(section.name, split) for split in splits]

    def _generation(self, section: Section) -> Generation:
        return Generation(self.work, self.current.mirrors.get(section.name), full=self.options.full)

    def _secure(self, section: Section, splits: Sequence[Split], since: datetime) -> None:
        """Have the splits of a database read from one snapshot if possible. Otherwise warn of possible losses."""
        source = section.source
        if not isinstance(source, DatabaseSource) or source.split is None:
            return
        name = source.database
        connection = self.environment.connection(name)
        session = session_of(self.site, section, source, "plan")
        asked = self.one_process and len(splits) > 1 and name not in self.snapshots
        if asked and sources.SharedSnapshot.possible(connection, session, label=name):
            self.snapshots.add(name)
        with unspoken(source, self.environment):
            found = sources.split_losses(
                connection,
                source.query,
                splits,
                params=params_of(source, self.site, self.environment, self.now, since),
                key=source.key,
                one_snapshot=name in self.snapshots,
                session=session,
                label=label_of(source),
            )
        for text in found:
            self._warn(section, text)

    def _warn_of_unseen(self, section: Section, source: DatabaseSource) -> None:
        """Warn of rows that no read yields, because the column that is compared with `:since` is NULL."""
        connection = self.environment.connection(source.database)
        unseen = find_unseen(source.query, connection.dialect)
        if unseen is None:
            return
        session = session_of(self.site, section, source, "count")
        params = params_of(source, self.site, self.environment, self.now, BEGINNING)
        try:
            with unspoken(source, self.environment):
                count = sources.count_rows(connection, unseen.count, params, session=session, label=label_of(source))
        except SitemapEtlError as error:  # the SELECT itself is right, and this one is made of it
            self.environment.detail(f"section {section.name}: rows without {unseen.column} are not counted: {error}")
            return
        if count > 0:
            rows, them = ("1 row has", "it") if count == 1 else (f"{count:,} rows have", "them")
            self._warn(
                section,
                f"{rows} NULL in {unseen.column}, which no comparison with :since yields. To list {them}, write in "
                f"place of the comparison: {unseen.line}",
            )

    def _warn(self, section: Section, text: str) -> None:
        self.warnings.append(f"section {section.name}: {text}")
        self.environment.log(f"warning: section {section.name}: {text}")

    def _splits(self, section: Section, since: datetime) -> list[Split]:
        found = demand_arrival(section, self.site, self.environment)
        if found is not None:
            self._note_manifest(section, found)
        return plan_splits(
            section,
            self.site,
            self.environment,
            now=self.now,
            since=since,
            split_rows=self.split_rows,
            files=None if found is None else found.files,
            warn=partial(self._warn, section),
        )

    def _note_manifest(self, section: Section, found: Readiness) -> None:
        """Keep the rows that the manifest of an export promises, and report the files that it does not name."""
        if found.rows is not None and not isinstance(section.source, DatabaseSource) and section.source.query is None:
            self.promised[section.name] = found.rows
        if found.unlisted:
            text = (
                f"section {section.name}: {len(found.unlisted):,} files that the manifest does not name were not read, "
                f"such as {found.unlisted[0]}"
            )
            self.warnings.append(text)
            self.environment.log(f"warning: {text}")

    def _reading(self, section: Section, source: DatabaseSource) -> Reading:
        """Return the plan for a section with a mirror: read the changes since the mirror was made, or everything."""
        connection = self.environment.connection(source.database)
        assert source.key is not None
        session = session_of(self.site, section, source, "plan")
        everything = Reading(
            key=source.key,
            since=BEGINNING.isoformat(),
            read_at=min(sources.clock(connection, session=session, label=source.database), self.now).isoformat(),
            select=digest(source.query),
            params=params_digest(section.name, source, self.site, self.environment),
            deleted=source.deleted,
        )
        reading, mirror = self._generation(section).reading(everything)
        if mirror is None:
            return reading
        age = self.now - datetime.fromisoformat(mirror.full_at)
        if age >= source.full_every or age < timedelta(0):
            because = f"the last full read was {mirror.full_at}"
            return replace(everything, because=because, compared=reading.mirror)
        use = other_use_of_time(source.query, connection.dialect)
        if use is not None:
            self._warn(
                section,
                f"the SELECT names the time ({use}), so rows can appear without being changed. It is read in full "
                f"every run. To read only what changed, add beside the comparison with :since:\n  {also_due(use)}",
            )
            return replace(everything, because=f"its SELECT names the time ({use})")
        since = datetime.fromisoformat(mirror.read_at) - source.overlap
        return replace(reading, since=since.isoformat())

    def _unlike(
        self, section: Section, source: DatabaseSource, reading: Reading, splits: Sequence[Split]
    ) -> str | None:
        """Return the reason why the mirror can't take the columns of an incremental read, or None if it can."""
        assert reading.mirror is not None
        mirror = read_mirror(self.work, reading.mirror)
        since = datetime.fromisoformat(reading.since)
        found = read_schema(section, source, splits, self.site, self.environment, now=self.now, since=since)
        dialect = self.environment.connection(source.database).dialect
        typed = dialect in _TYPED
        column = dated_by_day(source.query, dialect, found, source.overlap)
        if column is not None:
            self._warn(
                section,
                f"the SELECT compares {column}, which has no time of day, with :since. Changes of a day that follow "
                "its read are missing until the next full read. Add beside key:\n  overlap: 2d",
            )
        return other_columns("SELECT", unpack_schema(mirror.schema), found, reading.key, typed=typed)


def _in_section(name: str, error: SitemapEtlError) -> SitemapEtlError:
    if isinstance(error, ConfigError):
        return ConfigError([with_section(name, problem) for problem in error.problems])
    found = type(error)(with_section(name, str(error))) if type(error).__init__ is Exception.__init__ else error
    found.__cause__ = error
    return found


class OwnRobots(Frozen):
    """The robots.txt that applies to a run."""

    text: bytes | None = None  # None if the site has none
    known: KnownRobots | None = None  # record for the state
    warnings: tuple[str, ...] = ()


def own_robots(site: Site, state: State, current: Current, environment: Environment, now: datetime) -> OwnRobots:
    """Return the site's robots.txt: from `publish.root`, else from the site, else as it was last read.

    404 and 410 say that there is none (RFC 9309, 2.3.1.3); from any other answer, also from a page of HTML (a notice of
    maintenance), the rules are unknown, and no disallowed page may be listed because of that. Raise `Unavailable` if
    none was read before either.
    """
    publish = site.publish
    if publish.root is not None:
        stored = environment.open_storage(publish.root, checksums=publish.checksums).get("robots.txt")
        if stored is not None:
            return _robots_read(stored.data, now, environment)
    cause: WebError | None = None
    try:
        answer = web.public_robots(site.site)
        page = answer.body.lstrip(codecs.BOM_UTF8 + b" \t\r\n").startswith(b"<")
        if answer.status == HTTPStatus.OK and not page:
            return _robots_read(answer.body, now, environment)
        if answer.status in (HTTPStatus.NOT_FOUND, HTTPStatus.GONE):
            return OwnRobots(known=KnownRobots(instant(now)))
        problem = f"{site.site}/robots.txt answers {answer.status}" + (" with a page of HTML" if page else "")
    except WebError as error:
        cause, problem = error, str(error)
    known = current.robots
    if known is None:
        raise Unavailable(
            f"{problem}: it is not known which pages it disallows, and there is no earlier copy. Nothing public was "
            "touched. Make sure that it answers 200 with the rules, or 404 if there are none, and run again; or list "
            "pages whatever it says, with urls: {respect_robots: false}"
        ) from cause
    held = "its rules of then hold" if known.key is not None else "there was none then, so that no page is left out"
    warning = f"{problem}. It was last read {_ago(now, known.at)} ({known.at}), and {held}: make sure that it answers"
    environment.log(f"warning: {warning}")
    return OwnRobots(None if known.key is None else state.robots(known.key), known, (warning,))


def _robots_read(text: bytes, now: datetime, environment: Environment) -> OwnRobots:
    warnings = []
    unreadable = find_unreadable(text)
    if unreadable is not None:
        warnings.append(
            f"robots.txt can't be read as its author means it: {unreadable}. Pages that it should disallow are listed. "
            "Save it as UTF-8 text, with one rule a line"
        )
    elif unread := unread_rules(text):
        shown = ", ".join(unread[:_SHOWN])
        warnings.append(
            f"robots.txt has {len(unread):,} lines behind {limits.ROBOTS_BYTES:,} bytes, which crawlers don't read, so "
            f"they don't hold: {shown}{', …' if len(unread) > _SHOWN else ''}. Shorten it"
        )
    for warning in warnings:
        environment.log(f"warning: {warning}")
    known = KnownRobots(instant(now), layout.robots(hashlib.sha256(text).hexdigest()))
    return OwnRobots(text, known, tuple(warnings))


def _ago(now: datetime, moment: str) -> str:
    """Return the age of a moment in words."""
    hours = int((now - datetime.fromisoformat(moment)).total_seconds() // 3600)
    count, unit = (hours // 24, "day") if hours >= 48 else (hours, "hour")
    return "within the last hour" if count < 1 else f"{count} {unit}{'s' if count > 1 else ''} ago"
