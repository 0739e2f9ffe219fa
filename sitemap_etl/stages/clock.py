"""Decide the time of a run, and refuse clocks that are wrong.

Fingerprints date pages with it, so it must not be before the last release or in the future. It is compared with the
time of the last release and with the clock of the store that holds the state.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from sitemap_etl.advice import SITE_FILE
from sitemap_etl.dates import instant
from sitemap_etl.errors import ConfigError, Refused
from sitemap_etl.limits import CLOCK_OFF, CLOCK_SKEW

_DAY: Final = timedelta(days=1)
"""Upper bound of the duration of a run."""
_LAST_YEAR: Final = 9998
"""Last year whose times can still be calculated with."""


def written(text: str | None, *, said: str = "--now") -> datetime | None:
    """Return the time that a person gave, in UTC if it has no zone. `said`: name of the option, for messages.

    Raise ConfigError.
    """
    if text is None or not text.strip():
        return None
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError as error:
        raise ConfigError(f"{said} {text}: expected a time in ISO 8601, such as 2026-11-20T02:00:00Z") from error
    if not 1970 <= found.year <= _LAST_YEAR:
        raise ConfigError(f"{said} {text}: expected a year from 1970 to {_LAST_YEAR}")
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def moment_of(
    clock: datetime,
    store: datetime,
    where: str,
    *,
    given: datetime | None,
    reason: str | None,
    placed: datetime | None = None,
    run_id: str = "",
) -> datetime:
    """Return the time of a run: `given`, or the time of this machine's `clock`.

    `store`: time by the clock of the state's store at address `where`. `placed`, `run_id`: time and run of the last
    release; None if it does not matter. A time less than ten minutes before the release counts as the release's time.

    Raise Refused for a time more than an hour from the store's, or ten minutes and more before the release. A `given`
    time with a `reason` is accepted.
    """
    now = given or clock
    ahead = placed is not None and placed > store + timedelta(seconds=CLOCK_OFF)
    behind = placed is not None and now <= placed - timedelta(seconds=CLOCK_SKEW)
    off = abs(now - store) > timedelta(seconds=CLOCK_OFF)
    meant = given is not None and bool((reason or "").strip())
    if (behind or off) and not meant:
        said = "--now" if given is not None else "The clock of this run"
        others = []
        if off or ahead:
            others.append(f"the clock of {where} says {instant(store)}")
        if behind and placed is not None:
            others.append(f"the last release is from {instant(placed)} (run {run_id})")
        wrong = "earlier dates than they have" if behind else "dates that are not true"
        raise Refused(
            f"{said} says {instant(now)}, but {' and '.join(others)}: pages would get {wrong}. Nothing was changed. "
            + _advice(store, given=given, ahead=ahead, behind=behind, off=off, run_id=run_id)
        )
    return now if placed is None or behind else max(now, placed)


def _advice(store: datetime, *, given: datetime | None, ahead: bool, behind: bool, off: bool, run_id: str) -> str:
    meant = f'--now {instant(given or store)} --reason "…" (in a DAG, the parameters now and reason)'
    if behind and ahead:
        return (
            "That release was published by a clock that was fast. Publish it again with the right time: sitemap-etl "
            f"rollback {SITE_FILE} {run_id}; or go on from it: {meant}. Dates in the future are left out"
        )
    if given is not None:
        return f"If it is meant, say why; the manifest keeps the reason: {meant}"
    return f"Correct the clock{' of this machine' if off else ''}. If the time is meant, say so and why: {meant}"


def read_moment(now: datetime, clock: datetime, store: datetime) -> datetime:
    """Return the time at which rows are read now. Later dates in these rows can't be true. `now`: time of the run.

    It is the earlier one of this machine's `clock` and the `store`'s. If that is before the run, or a day or more after
    it, one of the clocks is wrong or the run's time was given. Then it is `now`.
    """
    found = min(clock, store)
    return found if now <= found < now + _DAY else now
