"""The start of a run: what it will read, from which manifest, and that nobody else is at it."""

from __future__ import annotations

from datetime import UTC, datetime
from http import HTTPStatus
from typing import Final

from sitemap_etl import limits
from sitemap_etl.config import Section, Site
from sitemap_etl.dates import instant
from sitemap_etl.errors import ConfigError, InvalidSource, Refused, SitemapEtlError
from sitemap_etl.stages.extract import plan_splits, reads_changes_only
from sitemap_etl.stages.run import Environment, Run, check_options, new_run_id, open_work
from sitemap_etl.state import layout
from sitemap_etl.state.lease import release_lease, take_lease
from sitemap_etl.state.records import Manifest, Options, Plan, Unit
from sitemap_etl.state.store import State, put_document
from sitemap_etl.storage import Storage
from sitemap_etl.web import WebError, public_robots

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


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
    now = now or environment.clock()
    work = open_work(site, environment)
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
    units: list[Unit] = []
    held: dict[str, str] = {}
    read_since: dict[str, str] = {}
    carries: list[str] = []
    problems: list[SitemapEtlError] = []
    for name in chosen:
        section = site.sections[name]
        since = _since(base, name, full=options.full)
        read_since[name] = since.isoformat()
        try:
            splits = plan_splits(section, site, environment, now=now, since=since, split_rows=split_rows)
        except SitemapEtlError as error:
            if section.on_error == "keep" and (final or isinstance(error, (InvalidSource, Refused))):
                held[name] = str(error)
                continue
            problems.append(_in_section(name, error))
            continue
        if since > EPOCH and reads_changes_only(section, environment):
            _check_incremental(section)
            carries.append(name)
        units += [Unit(name, split) for split in splits]
    if problems:
        release_lease(work, run_id)
        raise problems[0] if len(problems) == 1 else type(problems[0])("\n".join(str(problem) for problem in problems))
    robots = None
    if site.urls.respect_robots:
        found = _own_robots(site, environment)
        robots = None if found is None else found.decode("latin-1")
    plan = Plan(
        run_id=run_id,
        now=instant(now),
        base=current.manifest,
        site=site.to_json(),
        options=options,
        units=tuple(units),
        held=held,
        robots=robots,
        since=read_since,
        carries=tuple(carries),
        owner=owner,
    )
    if staging is None:
        staging = (work if durable else open_work(site, environment, durable=False)).sub(layout.run_folder(run_id))
    put_document(staging, layout.PLAN, plan)
    return Run(work, staging, plan, environment)


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


def _own_robots(site: Site, environment: Environment) -> bytes | None:
    """The site's robots.txt: as it lies under `publish.root`, else as the site answers."""
    publish = site.publish
    if publish.root is not None:
        stored = environment.open_storage(publish.root, checksums=publish.checksums).get("robots.txt")
        if stored is not None:
            return stored.data
    try:
        answer = public_robots(site.site)
    except WebError:
        return None
    return answer.body if answer.status == HTTPStatus.OK else None
