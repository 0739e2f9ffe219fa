"""Gates: limits beyond which a run does not publish, with their arithmetic and their messages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final, Literal

from sitemap_etl import limits
from sitemap_etl.dates import instant
from sitemap_etl.frames import Tally
from sitemap_etl.frozen import Frozen
from sitemap_etl.lastmod import Minutes
from sitemap_etl.publish.moves import Moves, is_view, turned
from sitemap_etl.publish.outcomes import Dates, Outcome, Scope, Visited
from sitemap_etl.settings import Gates
from sitemap_etl.stages.run import Run
from sitemap_etl.state.records import Counts, Gate, GateStatus, SetSize

__all__ = [
    "GATES",
    "Dates",
    "GateKind",
    "Outcome",
    "Scope",
    "Visited",
    "evaluate",
    "gates_of",
    "last_week",
    "one_date",
    "one_hour",
    "percent",
]

WEEK: Final = timedelta(days=7)


def gates_of(run: Run, outcomes: Mapping[str, Outcome], moves: Moves, forced: frozenset[str]) -> list[Gate]:
    """Return every gate of every section and of the site, with what `forced` overrules.

    `outcomes`: of each section. What a person let through in a section does not stop the site as well.
    """
    base = run.base
    recent, anew = last_week(run, moves), turned(run)
    gates: list[Gate] = []
    total = Outcome(Counts(removed=sum(moves.dropped.values())))
    lost = shown = 0
    views_only = True
    for name, own in outcomes.items():
        section = run.site.sections[name]
        published = base.sections.get(name) if base is not None else None
        before = published.listed if published is not None and name not in anew else 0
        largest = max([before + moves.net(name), *(size.sections.get(name, 0) for size in recent)])
        scope = _scope(own, before, largest)
        view = is_view(run, name)
        if view:
            scope = replace(scope, dates=Dates())
        elif section.lastmod.kind == "none":
            scope = replace(scope, undated_by_rule=True)
        found = evaluate(name, scope, section.gates, forced)
        gates += found
        if view:
            shown += own.counts.listed
            continue
        views_only = False
        overruled = {gate.name.rpartition(".")[2] for gate in found if gate.status == "forced"}
        if "max_drop" in overruled:
            lost += max(0, largest - own.counts.listed)
        cleared = overruled | ({"max_undated"} if scope.undated_by_rule else set())
        left = own
        for gate in GATES:
            left = gate.clear(left) if gate.name in cleared else left
        total += left
    before = base.listed if base is not None else 0
    largest = max([before, *(size.site for size in recent)])
    site = replace(_scope(total, before, largest), largest=largest - lost)
    if views_only:  # such as a site file with one news section: its pages are all that the site lists
        site = replace(site, listed=shown)
    return gates + evaluate(None, site, run.site.gates, forced)


def _scope(own: Outcome, published: int, largest: int) -> Scope:
    counts = own.counts
    return Scope(
        published,
        largest,
        counts.listed,
        counts.added,
        counts.removed,
        counts.extracted,
        counts.rejected,
        counts.carried,
        own.rejected_read,
        own.dates,
        pages=own.pages,
    )


def last_week(run: Run, moves: Moves) -> list[SetSize]:
    """Return the counts of the last seven days' releases, as if moved pages had always been in their new sections."""
    if run.base is None:
        return []
    since, until = instant(run.now - WEEK), run.plan.now
    anew = turned(run)
    return [
        replace(size, sections={n: max(0, count + moves.net(n)) for n, count in size.sections.items() if n not in anew})
        for size in run.base.history
        if since <= size.at <= until
    ]


def evaluate(scope: str | None, counts: Scope, limits_: Gates, forced: frozenset[str]) -> list[Gate]:
    """Return the outcomes of the gates of one section, or of the site if `scope` is None."""
    found: list[Gate] = []
    for gate in GATES:
        measured = gate.measure(scope or "the site", counts, limits_)
        if measured is not None:
            name = f"{scope}.{gate.name}" if scope else gate.name
            status = "forced" if measured.status == "refused" and name in forced else measured.status
            found.append(Gate(name, status, measured.value, measured.limit, measured.message))
    return found


class Measured(Frozen):
    """The value of a gate and its limit, with the status and message that they have unless the gate is forced."""

    status: GateStatus
    value: float
    limit: float
    message: str


class GateKind(Frozen):
    """A gate.

    `name`: its key in `gates`. `measure`: from the words for its scope, the scope and the limits; None if it is off.
    `clear`: removes the numbers that the forced gate let through from a section's outcome, so that they do not stop the
    site. `most`: the URLs or reasons that a refusal shows (`where_most`). `of_rollback`: it applies to rollbacks too.
    """

    name: str
    measure: Callable[[str, Scope, Gates], Measured | None]
    clear: Callable[[Outcome], Outcome]
    most: Literal["removed", "added", "undated", "changed", "rejected", "pages", ""] = ""
    of_rollback: bool = False


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


_FEW: Final = f"; percentage gates apply from {limits.SHARE_FROM}"
_FEW_ALIKE: Final = f"; this gate applies from {limits.SAME_DATE_FROM:,} such pages"


class Share(Frozen):
    """The share that a gate compares with its limit."""

    part: int
    whole: int
    few: str = _FEW  # words for the message if the numbers are too small
    counted: int | None = None  # number to compare with `least`; None means `whole`
    least: int = limits.SHARE_FROM  # the gate applies from this number on, because small shares mean nothing
    warns: bool = False  # True if the gate only warns beyond its limit

    @property
    def value(self) -> float:
        return _share(self.part, self.whole)

    @property
    def holds(self) -> bool:
        return (self.whole if self.counted is None else self.counted) >= self.least

    def against(self, gate: str, limit: float, would: str) -> Measured:
        """Return the outcome of a gate with this limit. `would`: the beginning of the message, about the run."""
        few = "" if self.holds or not self.part else self.few
        message = f"{would} ({percent(self.value)}, {gate} is {percent(limit)}{few})"
        status: GateStatus = "ok"
        if self.holds and self.value > limit:
            status = "warned" if self.warns else "refused"
        elif self.holds and self.value > limit / 2:
            status = "warned"
        return Measured(status, self.value, limit, message)


def _drop(who: str, c: Scope, gates: Gates) -> Measured:
    published, drop, since = c.published, c.removed, ""
    lost = max(0, c.largest - c.listed)
    if c.largest >= limits.SHARE_FROM and _share(lost, c.largest) > _share(drop, published):
        published, drop, since = c.largest, lost, " against the largest set of the last seven days"
    would = f"{who} would drop {drop:,} of {published:,} URLs{since}"
    return Share(drop, published).against("max_drop", gates.max_drop, would)


def _growth(who: str, c: Scope, gates: Gates) -> Measured:
    would = f"{who} would add {c.added:,} URLs to {c.published:,}"
    return Share(c.added, c.published).against("max_growth", gates.max_growth, would)


def _rejected(who: str, c: Scope, gates: Gates) -> Measured:
    rejected, rows, read = c.rejected, c.extracted + c.carried, ""
    if c.extracted >= limits.ROWS_READ_FROM and _share(c.rejected_read, c.extracted) > _share(rejected, rows):
        rejected, rows, read = c.rejected_read, c.extracted, " that were read"
    would = f"{who} rejects {rejected:,} of {rows:,} rows{read}"
    return Share(rejected, rows).against("max_rejected", gates.max_rejected, would)


def _undated(who: str, c: Scope, gates: Gates) -> Measured:
    lost, known = c.dates.lost, c.dates.known
    would = f"{who} would remove the lastmod of {lost:,} of {known:,} pages that have one"
    return Share(lost, known, warns=c.undated_by_rule).against("max_undated", gates.max_undated, would)


def _same_date(who: str, c: Scope, gates: Gates) -> Measured:
    date, same = c.dates.most
    would = f"{who} would set the lastmod of {same:,} of {c.listed:,} pages to the same value"
    if date:
        would += f", {date}"
    share = Share(same, c.listed, counted=same, least=limits.SAME_DATE_FROM, few=_FEW_ALIKE)
    return share.against("max_same_date", gates.max_same_date, would)


def _same_hour(who: str, c: Scope, gates: Gates) -> Measured | None:
    """Return the outcome of the gate on dates of one batch job, if the site file sets its limit."""
    if gates.max_same_hour is None:
        return None
    hour, pages = c.dates.minutes.densest_hour()
    would = f"{who} would set the lastmod of {pages:,} of {c.dates.known:,} pages that have one to the same hour"
    if hour:
        would += f", from {hour}"
    share = Share(pages, c.dates.known, least=limits.SAME_DATE_FROM, few=_FEW_ALIKE)
    return share.against("max_same_hour", gates.max_same_hour, would)


def _min_urls(who: str, c: Scope, gates: Gates) -> Measured:
    message = f"{who} would list {c.listed:,} URLs (min_urls is {gates.min_urls:,})"
    return Measured("ok" if c.listed >= gates.min_urls else "refused", c.listed, gates.min_urls, message)


def _new_pages(who: str, c: Scope, gates: Gates) -> Measured | None:
    """Return the outcome of the gate on new pages, if it is on. Pages without a clear result only cause a warning."""
    seen, limit = c.pages, gates.pages
    if limit is None or not limit.sample:
        return None
    share, holds = _share(seen.bad, seen.judged), seen.judged >= limits.SHARE_FROM
    said = f"{percent(share)}, max_bad is {percent(limit.max_bad)}"
    if 0 < seen.judged < seen.new:
        from sitemap_etl.pages import Share as SampleShare  # brings the HTTP client along

        low, high = SampleShare(seen.bad, seen.judged, seen.new).interval()
        said += f"; of all {seen.new:,} new pages {percent(low)} to {percent(high)} with 95 % confidence"
    if seen.bad and not holds:
        said += _FEW
    message = f"{who} would list {seen.bad:,} bad pages among {seen.judged:,} new ones that were visited ({said})"
    if seen.unknown:
        message += f"; {seen.unknown:,} more could not be judged ({_most(seen.open)})"
    if seen.skipped:
        message += f"; there was no time for another {seen.skipped:,}"
    status: GateStatus = "ok"
    undecided = _share(seen.unknown, seen.unknown + seen.judged) > limit.max_bad
    if holds and share > limit.max_bad:
        status = "refused"
    elif undecided or (holds and share > limit.max_bad / 2) or (not holds and seen.drawn >= limits.SHARE_FROM):
        status = "warned"
    return Measured(status, share, limit.max_bad, message)


def _without(own: Outcome, **counts: Any) -> Outcome:
    return replace(own, counts=replace(own.counts, **counts))


def _without_dates(own: Outcome, **dates: Any) -> Outcome:
    return replace(own, dates=replace(own.dates, **dates))


GATES: Final = (
    GateKind("max_drop", _drop, lambda own: _without(own, removed=0), "removed", of_rollback=True),
    GateKind("max_growth", _growth, lambda own: _without(own, added=0), "added"),
    GateKind("max_rejected", _rejected, lambda own: replace(_without(own, rejected=0), rejected_read=0), "rejected"),
    GateKind("max_undated", _undated, lambda own: _without_dates(own, lost=0), "undated"),
    GateKind("max_same_date", _same_date, lambda own: _without_dates(own, same=Counter()), "changed"),
    GateKind("max_same_hour", _same_hour, lambda own: _without_dates(own, minutes=Minutes.none()), "changed"),
    GateKind("min_urls", _min_urls, lambda own: own, of_rollback=True),
    GateKind("pages", _new_pages, lambda own: replace(own, pages=Visited()), "pages"),
)
"""Every gate, in the order of reports. The limit of each is the field of `Gates` with its name."""


def one_hour(section: str, dates: Dates) -> str | None:
    """Return a warning if most pages of a section get a new lastmod within one hour, or None."""
    hour, pages = dates.minutes.densest_hour()
    share = _share(pages, dates.known)
    if dates.known < limits.SAME_DATE_FROM or share <= limits.SAME_HOUR_WARNED:
        return None
    return (
        f"{section}: {pages:,} of {dates.known:,} pages that have a lastmod ({percent(share)}) get a new one within "
        f"one hour, from {hour}, as if a batch job had written them. Check that the column says when each page "
        "changed, not when the table was loaded. gates: {max_same_hour: 0.5} refuses such a run"
    )


def _most(reasons: Tally) -> str:
    """Return the most frequent reasons in a few words."""
    return ", ".join(f"{reason.text}: {reason.count:,}" for reason in reasons.ordered()[:3])


def percent(share: float) -> str:
    """Return a share as text, such as 15.5 %."""
    text = f"{share * 100:.1f}" if share < 1 else f"{share * 100:,.0f}"
    return f"{text.removesuffix('.0')} %"


def one_date(section: str, new: Mapping[str, int], total: int) -> str | None:
    """Return a warning if nine tenths of the new lastmods are equal, or None.

    `new`: most frequent lastmods of added and changed rows → rows. `total`: such rows with a lastmod.
    """
    if total < limits.SHARE_FROM or not new:
        return None
    value, count = max(new.items(), key=lambda item: (item[1], item[0]))
    if count < 0.9 * total:
        return None
    return (
        f"{section}: {percent(count / total)} of {total:,} new lastmods are {value}. Engines stop trusting dates that "
        "are all alike: check that the column says when each page changed, not when the table was loaded"
    )
