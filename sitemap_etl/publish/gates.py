"""Gates: limits beyond which a run does not publish, with their arithmetic and their messages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Final

from sitemap_etl import limits
from sitemap_etl.dates import instant
from sitemap_etl.frames import Tally
from sitemap_etl.frozen import Frozen
from sitemap_etl.lastmod import Minutes
from sitemap_etl.publish.moves import Moves, is_view, turned
from sitemap_etl.publish.outcomes import Dates, Outcome, Scope, Visited
from sitemap_etl.settings import Gates, NewPages
from sitemap_etl.stages.run import Run
from sitemap_etl.state.records import Counts, Gate, GateStatus, SetSize

__all__ = [
    "Dates",
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
        total += _left(own, overruled | ({"max_undated"} if scope.undated_by_rule else set()))
    before = base.listed if base is not None else 0
    largest = max([before, *(size.site for size in recent)])
    site = replace(_scope(total, before, largest), largest=largest - lost)
    if views_only:  # such as a site file with one news section: its pages are all that the site lists
        site = replace(site, listed=shown)
    return gates + evaluate(None, site, run.site.gates, forced)


def _left(own: Outcome, overruled: Collection[str]) -> Outcome:
    """Return the outcome of a section without the numbers that its forced gates have let through."""
    counts, dates = own.counts, own.dates
    if "max_drop" in overruled:
        counts = replace(counts, removed=0)
    if "max_growth" in overruled:
        counts = replace(counts, added=0)
    if "max_rejected" in overruled:
        own = replace(own, rejected_read=0)
        counts = replace(counts, rejected=0)
    if "max_undated" in overruled:
        dates = replace(dates, lost=0)
    if "max_same_date" in overruled:
        dates = replace(dates, same=Counter())
    if "max_same_hour" in overruled:
        dates = replace(dates, minutes=Minutes.none())
    if "pages" in overruled:
        own = replace(own, pages=Visited())
    return replace(own, counts=counts, dates=dates)


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
    who = scope or "the site"
    c = counts
    published, drop = c.published, c.removed
    since = ""
    lost = max(0, c.largest - c.listed)
    if c.largest >= limits.SHARE_FROM and _share(lost, c.largest) > _share(drop, published):
        published, drop, since = c.largest, lost, " against the largest set of the last seven days"
    drops = f"{who} would drop {drop:,} of {published:,} URLs{since}"
    grows = f"{who} would add {c.added:,} URLs to {c.published:,}"
    rejected, rows, read = c.rejected, c.extracted + c.carried, ""
    if c.extracted >= limits.ROWS_READ_FROM and _share(c.rejected_read, c.extracted) > _share(rejected, rows):
        rejected, rows, read = c.rejected_read, c.extracted, " that were read"
    rejects = f"{who} rejects {rejected:,} of {rows:,} rows{read}"
    undated = f"{who} would remove the lastmod of {c.dates.lost:,} of {c.dates.known:,} pages that have one"
    date, same = c.dates.most
    alike = f"{who} would set the lastmod of {same:,} of {c.listed:,} pages to the same value"
    if date:
        alike += f", {date}"
    few = f"; percentage gates apply from {limits.SHARE_FROM}"
    unlike = f"; this gate applies from {limits.SAME_DATE_FROM:,} such pages"
    return [
        _share_gate(scope, "max_drop", Share(drop, published, few=few), limits_.max_drop, drops, forced),
        _share_gate(scope, "max_growth", Share(c.added, c.published, few=few), limits_.max_growth, grows, forced),
        _share_gate(scope, "max_rejected", Share(rejected, rows, few=few), limits_.max_rejected, rejects, forced),
        _share_gate(
            scope,
            "max_undated",
            Share(c.dates.lost, c.dates.known, few=few, warns=c.undated_by_rule),
            limits_.max_undated,
            undated,
            forced,
        ),
        _share_gate(
            scope,
            "max_same_date",
            Share(same, c.listed, counted=same, least=limits.SAME_DATE_FROM, few=unlike),
            limits_.max_same_date,
            alike,
            forced,
        ),
        *_same_hour(scope, who, c.dates, limits_.max_same_hour, forced),
        _min_urls(scope, who, c.listed, limits_.min_urls, forced),
        *_new_pages(scope, who, c.pages, limits_.pages, forced),
    ]


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


class Share(Frozen):
    """The share that a gate compares with its limit."""

    part: int
    whole: int
    few: str  # words for the message if the numbers are too small
    counted: int | None = None  # number to compare with `least`; None means `whole`
    least: int = limits.SHARE_FROM  # the gate applies from this number on, because small shares mean nothing
    warns: bool = False  # True if the gate only warns beyond its limit

    @property
    def value(self) -> float:
        return _share(self.part, self.whole)

    @property
    def holds(self) -> bool:
        return (self.whole if self.counted is None else self.counted) >= self.least


def _share_gate(scope: str | None, gate: str, of: Share, limit: float, would: str, forced: frozenset[str]) -> Gate:
    """Return the outcome of a gate on a share."""
    name = f"{scope}.{gate}" if scope else gate
    few = "" if of.holds or not of.part else of.few
    message = f"{would} ({percent(of.value)}, {gate} is {percent(limit)}{few})"
    status: GateStatus = "ok"
    if of.holds and of.value > limit:
        status = "warned" if of.warns else "forced" if name in forced else "refused"
    elif of.holds and of.value > limit / 2:
        status = "warned"
    return Gate(name, status, of.value, limit, message)


def _same_hour(
    scope: str | None, who: str, dates: Dates, limit: float | None, forced: frozenset[str]
) -> Iterator[Gate]:
    """Yield the gate on dates of one batch job, if the site file sets its limit."""
    if limit is None:
        return
    hour, pages = dates.minutes.densest_hour()
    would = f"{who} would set the lastmod of {pages:,} of {dates.known:,} pages that have one to the same hour"
    if hour:
        would += f", from {hour}"
    few = f"; this gate applies from {limits.SAME_DATE_FROM:,} such pages"
    share = Share(pages, dates.known, least=limits.SAME_DATE_FROM, few=few)
    yield _share_gate(scope, "max_same_hour", share, limit, would, forced)


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


def _min_urls(scope: str | None, who: str, listed: int, limit: int, forced: frozenset[str]) -> Gate:
    name = f"{scope}.min_urls" if scope else "min_urls"
    status: GateStatus = "ok" if listed >= limit else "forced" if name in forced else "refused"
    return Gate(name, status, listed, limit, f"{who} would list {listed:,} URLs (min_urls is {limit:,})")


def _new_pages(
    scope: str | None, who: str, seen: Visited, limit: NewPages | None, forced: frozenset[str]
) -> Iterator[Gate]:
    """Yield the gate on new pages, if it is on. Pages without a clear result only cause a warning."""
    if limit is None or not limit.sample:
        return
    name = f"{scope}.pages" if scope else "pages"
    share, holds = _share(seen.bad, seen.judged), seen.judged >= limits.SHARE_FROM
    said = f"{percent(share)}, max_bad is {percent(limit.max_bad)}"
    if 0 < seen.judged < seen.new:
        from sitemap_etl.pages import Share as SampleShare  # brings the HTTP client along

        low, high = SampleShare(seen.bad, seen.judged, seen.new).interval()
        said += f"; of all {seen.new:,} new pages {percent(low)} to {percent(high)} with 95 % confidence"
    if seen.bad and not holds:
        said += f"; percentage gates apply from {limits.SHARE_FROM}"
    message = f"{who} would list {seen.bad:,} bad pages among {seen.judged:,} new ones that were visited ({said})"
    if seen.unknown:
        message += f"; {seen.unknown:,} more could not be judged ({_most(seen.open)})"
    if seen.skipped:
        message += f"; there was no time for another {seen.skipped:,}"
    status: GateStatus = "ok"
    undecided = _share(seen.unknown, seen.unknown + seen.judged) > limit.max_bad
    if holds and share > limit.max_bad:
        status = "forced" if name in forced else "refused"
    elif undecided or (holds and share > limit.max_bad / 2) or (not holds and seen.drawn >= limits.SHARE_FROM):
        status = "warned"
    yield Gate(name, status, share, limit.max_bad, message)


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
