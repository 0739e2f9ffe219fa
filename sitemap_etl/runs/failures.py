"""Record runs that failed or were interrupted, with the reason and time."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Final, Literal

from sitemap_etl.config import Site
from sitemap_etl.dates import instant
from sitemap_etl.errors import DamagedState, Refused, SitemapEtlError, Unavailable
from sitemap_etl.memory import ran_out
from sitemap_etl.publish.claim import Overtaken
from sitemap_etl.publish.reports import put_overview
from sitemap_etl.stages.ping import why
from sitemap_etl.stages.run import Environment, Run, new_run_id, open_work, state_of
from sitemap_etl.state.attempts import put_attempt, read_attempt, read_attempts
from sitemap_etl.state.lease import release_lease
from sitemap_etl.state.records import Attempt
from sitemap_etl.state.store import AnothersState, State
from sitemap_etl.storage import Storage

_MACHINE = (OSError, MemoryError)


def remember_failure(
    site: Site,
    environment: Environment,
    error: BaseException,
    run: Run | None = None,
    *,
    owner: str = "",
    dry_run: bool = False,
) -> None:
    """Record the failure of a run and its reason.

    `run`: None if it failed before it began. `owner`, the scheduler's run, and `dry_run` are then all that is known.

    Raise nothing: if the state can't be reached, or is not this site's, the error alone has to do. A run that was
    published before, and is tried again, stays what it was.
    """
    with suppress(SitemapEtlError, *_MACHINE):
        work = run.work if run is not None else open_work(site, environment)
        if run is None and _is_anothers(site, environment, work):
            return
        now = environment.clock()
        known = None if run is None else read_attempt(work, run.run_id)
        if known is not None and (known.published or known.good or (known.ended and isinstance(error, Overtaken))):
            return
        ended = failure(error, environment, known or _begun(run, now, owner, dry_run=dry_run))
        put_attempt(work, ended)
        put_overview(work, site.name, site.site, ended)


def remember_death(site: Site, environment: Environment, error: SitemapEtlError, *, dry_run: bool) -> Attempt | None:
    """Record that the process of a run was killed, and release its lease. Return the record.

    Raise nothing. Return None if there is nothing to record: the run had ended, or a dry run had not begun.
    """
    if error.run_id is None and dry_run:
        return None
    with suppress(SitemapEtlError, *_MACHINE):
        work = open_work(site, environment)
        if error.run_id is None:
            if _is_anothers(site, environment, work):
                return None
            known = _begun(None, environment.clock(), "", dry_run=dry_run)
        else:
            known = read_attempt(work, error.run_id) or Attempt(error.run_id, instant(environment.clock()))
            if known.status not in _UNEXPLAINED:
                return None
            release_lease(work, error.run_id)
        ended = failure(error, environment, known)
        put_attempt(work, ended)
        put_overview(work, site.name, site.site, ended)
        return ended
    return None


def failure(
    error: BaseException, environment: Environment, known: Attempt | None = None, *, run_id: str | None = None
) -> Attempt:
    """Return the record of a failed run.

    `known`: its record so far. `run_id`: None if the run had not begun.
    """
    now = instant(environment.clock())
    known = known or Attempt(run_id or "", now)
    return replace(known, ended=now, status=_status(error), kind=_kind(error), error=_words(error))


def _is_anothers(site: Site, environment: Environment, work: Storage) -> bool:
    """Return True if the state is known to belong to another site."""
    try:
        try:
            state_of(site, environment, work).current()
        except Unavailable:  # the published files can't be read
            State(work, site.name, site.site).current()
    except AnothersState:
        return True
    except (DamagedState, Refused):  # this can be the failure to record
        pass
    return False


def remember_abandoned(site: Site, work: Storage, owner: str, environment: Environment) -> None:
    """Record that a scheduler's run was killed or marked as failed without a record of its end. Raises nothing."""
    with suppress(SitemapEtlError, *_MACHINE):
        known = last_of(owner, read_attempts(work, LAST))
        gone = known and given_up(known, environment)
        if gone is not None and gone != known:
            put_attempt(work, gone)
            put_overview(work, site.name, site.site, gone)


def last_of(owner: str, attempts: Iterable[Attempt]) -> Attempt | None:
    """Return the first record with this owner. Records are ordered newest first, and each try of the plan adds one."""
    return next((one for one in attempts if one.owner == owner), None)


def given_up(known: Attempt, environment: Environment) -> Attempt:
    """Return the record of a run that its scheduler gave up, with status `failed` if it has no reason yet."""
    if known.status not in _UNEXPLAINED:
        return known
    ended = instant(environment.clock())
    return replace(known, ended=ended, status="failed", kind="interrupted", error=_ABANDONED)


_UNEXPLAINED: Final = ("running", "interrupted")
_ABANDONED: Final = "A task of the run was killed or lost, or marked as failed: the scheduler's log says which"
LAST: Final = 20
"""Number of recent records in which a scheduler's run is looked up."""


def _begun(run: Run | None, now: datetime, owner: str, *, dry_run: bool) -> Attempt:
    if run is None:
        return Attempt(new_run_id(now), instant(now), owner=owner, dry_run=dry_run)
    return Attempt(run.run_id, run.plan.now, owner=run.plan.owner, dry_run=run.options.dry_run, base=run.plan.base)


def _status(error: BaseException) -> Literal["refused", "interrupted", "failed"]:
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    return error.status if isinstance(error, SitemapEtlError) else "failed"


def _kind(error: BaseException) -> str:
    if ran_out(error):
        return "machine"
    if isinstance(error, SitemapEtlError):
        return error.kind
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    return "machine" if isinstance(error, _MACHINE) else SitemapEtlError.kind


def _words(error: BaseException) -> str:
    """Return the reason as text. A defect's own text is left out, because it can contain a secret."""
    if ran_out(error):
        return "Out of memory"
    if isinstance(error, KeyboardInterrupt):
        return "Interrupted"
    if isinstance(error, OSError):
        return f"{error.strerror or error}{f' ({error.filename})' if error.filename else ''}"
    return why(error)
