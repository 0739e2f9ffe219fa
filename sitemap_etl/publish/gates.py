"""The checks that may refuse to publish: what is compared with what, the arithmetic, and the words for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

from sitemap_etl import limits
from sitemap_etl.dates import instant
from sitemap_etl.settings import Gates
from sitemap_etl.stages.run import Run
from sitemap_etl.state.records import Counts, Gate, GateStatus, Manifest, SetSize

WEEK: Final = timedelta(days=7)


@dataclass(frozen=True)
class Scope:
    """What a gate looks at, of one section or of the site (URLs, rows)."""

    published: int  # listed by the last manifest
    largest: int  # most listed by any set of the last seven days
    listed: int
    added: int
    removed: int  # published URLs that no section lists any more
    extracted: int
    rejected: int


def gates_of(run: Run, counts: Mapping[str, Counts], dropped: Mapping[str, int], forced: frozenset[str]) -> list[Gate]:
    """Every gate of every section and of the site, with what `forced` overrules.

    `counts`: of each section. `dropped`: rows of sections that the site file no longer has. What a person let
    through in a section does not stop the site as well.
    """
    base = run.base
    recent = [] if base is None else _last_week(run, base)
    gates: list[Gate] = []
    total = Counts(removed=sum(dropped.values()))
    let_through = Counts()
    bled = 0
    for name, own in counts.items():
        section = run.site.sections[name]
        published = base.sections.get(name) if base is not None else None
        before = published.listed if published is not None else 0
        largest = max([before, *(size.sections.get(name, 0) for size in recent)])
        found = evaluate(name, _scope(own, before, largest), section.gates, forced)
        gates += found
        if section.view:
            continue
        total += own
        overruled = {gate.name.rpartition(".")[2] for gate in found if gate.status == "forced"}
        if "max_drop" in overruled:
            let_through += Counts(removed=own.removed)
            bled += max(0, largest - own.listed)
        if "max_growth" in overruled:
            let_through += Counts(added=own.added)
        if "max_rejected" in overruled:
            let_through += Counts(rejected=own.rejected)
    before = base.listed if base is not None else 0
    largest = max([before, *(size.site for size in recent)])
    site = _scope(total, before, largest)
    site = replace(
        site,
        removed=site.removed - let_through.removed,
        largest=site.largest - bled,
        added=site.added - let_through.added,
        rejected=site.rejected - let_through.rejected,
    )
    return gates + evaluate(None, site, run.site.gates, forced)


def _scope(counts: Counts, published: int, largest: int) -> Scope:
    return Scope(published, largest, counts.listed, counts.added, counts.removed, counts.extracted, counts.rejected)


def _last_week(run: Run, base: Manifest) -> list[SetSize]:
    """What was listed by the sets of the last seven days."""
    since = instant(run.now - WEEK)
    return [size for size in base.history if size.at >= since]


def evaluate(scope: str | None, counts: Scope, limits_: Gates, forced: frozenset[str]) -> list[Gate]:
    """Every gate of one section (`scope` is its name) or of the site (None)."""
    who = scope or "the site"
    c = counts
    published, drop = c.published, c.removed
    since = ""
    bled = max(0, c.largest - c.listed)
    if c.largest >= limits.SHARE_FROM and _share(bled, c.largest) > _share(drop, published):
        published, drop, since = c.largest, bled, " against the largest set of the last seven days"
    drops = f"{who} would drop {drop:,} of {published:,} URLs{since}"
    grows = f"{who} would add {c.added:,} URLs to {c.published:,}"
    rejects = f"{who} rejects {c.rejected:,} of {c.extracted:,} rows"
    return [
        _share_gate(scope, "max_drop", (drop, published), limits_.max_drop, drops, forced),
        _share_gate(scope, "max_growth", (c.added, c.published), limits_.max_growth, grows, forced),
        _share_gate(scope, "max_rejected", (c.rejected, c.extracted), limits_.max_rejected, rejects, forced),
        _min_urls(scope, who, c.listed, limits_.min_urls, forced),
    ]


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


def _share_gate(
    scope: str | None, gate: str, of: tuple[int, int], limit: float, would: str, forced: frozenset[str]
) -> Gate:
    """A gate over a share, `of` (part, whole). It holds from `limits.SHARE_FROM` on: of less, a share says nothing."""
    name = f"{scope}.{gate}" if scope else gate
    share = _share(*of)
    holds = of[1] >= limits.SHARE_FROM
    few = "" if holds or not of[1] else f"; percentage gates apply from {limits.SHARE_FROM}"
    message = f"{would} ({percent(share)}, {gate} is {percent(limit)}{few})"
    status: GateStatus = "ok"
    if holds and share > limit:
        status = "forced" if name in forced else "refused"
    elif holds and share > limit / 2:
        status = "warned"
    return Gate(name, status, share, limit, message)


def _min_urls(scope: str | None, who: str, listed: int, limit: int, forced: frozenset[str]) -> Gate:
    name = f"{scope}.min_urls" if scope else "min_urls"
    status: GateStatus = "ok" if listed >= limit else "forced" if name in forced else "refused"
    return Gate(name, status, listed, limit, f"{who} would list {listed:,} URLs (min_urls is {limit:,})")


def percent(share: float) -> str:
    """A share as people read it: 15.5 %."""
    text = f"{share * 100:.1f}" if share < 1 else f"{share * 100:,.0f}"
    return f"{text.removesuffix('.0')} %"


def one_date(section: str, new: Mapping[str, int], total: int) -> str | None:
    """A warning where nine tenths of the new lastmods are one and the same.

    `new`: the most frequent lastmods of added and changed rows → rows; `total`: such rows that have one.
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
