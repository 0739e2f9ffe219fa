"""The gates of one run: what is compared with what, in every section and over the site."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

from sitemap_etl.manifest import Counts, Gate, Manifest, evaluate
from sitemap_etl.pipeline.rules import thresholds_of
from sitemap_etl.pipeline.run import Run, instant

COUNTED: Final = ("extracted", "carried", "listed", "duplicates", "excluded", "rejected", "added", "changed", "removed")
WEEK: Final = timedelta(days=7)


def held_gates(
    run: Run, counts: Mapping[str, Mapping[str, int]], dropped: Mapping[str, int], forced: frozenset[str]
) -> list[Gate]:
    """Every gate of every section and of the site, with what `forced` overrules.

    `counts`: of each section, by the names of `COUNTED`. `dropped`: rows of sections that the site file
    no longer has. What a person let through in a section does not stop the site as well.
    """
    base = run.base
    recent = [] if base is None else _last_week(run, base)
    gates: list[Gate] = []
    total: Counter[str] = Counter(removed=sum(dropped.values()))
    let_through: Counter[str] = Counter()
    for name, own in counts.items():
        section = run.site.sections[name]
        published = base.sections.get(name) if base is not None else None
        before = published.listed if published is not None else 0
        largest = max([before, *(entry["sections"].get(name, 0) for entry in recent)])
        found = evaluate(name, _of(own, before, largest), thresholds_of(section.gates), forced)
        gates += found
        if section.view:
            continue
        total.update({key: own[key] for key in COUNTED})
        overruled = {gate.name.rpartition(".")[2] for gate in found if gate.status == "forced"}
        if "max_drop" in overruled:
            let_through.update(removed=own["removed"], bled=max(0, largest - own["listed"]))
        if "max_growth" in overruled:
            let_through.update(added=own["added"])
        if "max_rejected" in overruled:
            let_through.update(rejected=own["rejected"])
    before = base.listed if base is not None else 0
    largest = max([before, *(entry["site"] for entry in recent)])
    site = _of(total, before, largest)
    site = replace(
        site,
        removed=site.removed - let_through["removed"],
        largest=site.largest - let_through["bled"],
        added=site.added - let_through["added"],
        rejected=site.rejected - let_through["rejected"],
    )
    return gates + evaluate(None, site, thresholds_of(run.site.gates), forced)


def _of(counts: Mapping[str, int], published: int, largest: int) -> Counts:
    return Counts(
        published,
        largest,
        counts["listed"],
        counts["added"],
        counts["removed"],
        counts["extracted"],
        counts["rejected"],
    )


def _last_week(run: Run, base: Manifest) -> list[Mapping[str, Any]]:
    """What was listed by the sets of the last seven days."""
    since = instant(run.now - WEEK)
    return [entry for entry in base.history if entry["at"] >= since]
