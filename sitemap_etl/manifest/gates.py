"""The checks that may refuse to publish: pure arithmetic over counts, and the words for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from sitemap_etl import limits

Status = Literal["ok", "warned", "refused", "forced"]


@dataclass(frozen=True)
class Counts:
    """What a gate looks at, of one section or of the site (URLs, rows)."""

    published: int  # listed by the last manifest
    largest: int  # most listed by any set of the last seven days
    listed: int
    added: int
    removed: int  # published URLs that no section lists any more
    extracted: int
    rejected: int


@dataclass(frozen=True)
class Thresholds:
    """The limits of one section or of the site. Shares, but for `min_urls`."""

    max_drop: float = 0.1
    max_growth: float = 1.0
    max_rejected: float = 0.05
    min_urls: int = 1


@dataclass(frozen=True)
class Gate:
    """One check's outcome. `value` and `limit` are shares, or URLs for `min_urls`."""

    name: str  # products.max_drop; without a section: of the site
    status: Status
    value: float
    limit: float
    message: str

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def evaluate(scope: str | None, counts: Counts, limits_: Thresholds, forced: frozenset[str]) -> list[Gate]:
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
    few = "" if holds or not of[1] else f"; a share counts from {limits.SHARE_FROM} on"
    message = f"{would} ({percent(share)}, {gate} is {percent(limit)}{few})"
    status: Status = "ok"
    if holds and share > limit:
        status = "forced" if name in forced else "refused"
    elif holds and share > limit / 2:
        status = "warned"
    return Gate(name, status, share, limit, message)


def _min_urls(scope: str | None, who: str, listed: int, limit: int, forced: frozenset[str]) -> Gate:
    name = f"{scope}.min_urls" if scope else "min_urls"
    status: Status = "ok" if listed >= limit else "forced" if name in forced else "refused"
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
