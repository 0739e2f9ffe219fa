"""Visit a sample of the new pages of a run, for the gate `pages`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import zip_longest

import pyarrow as pa
import pyarrow.compute as pc

from sitemap_etl.pages import FAULTS, Visit, sampled
from sitemap_etl.publish.gates import Visited
from sitemap_etl.publish.moves import Moves
from sitemap_etl.stages.run import Run
from sitemap_etl.state.records import Counts, Rendered


def visit_new(run: Run, rendered: Iterable[Rendered], counts: dict[str, Counts], moves: Moves) -> dict[str, Visited]:
    """Visit new pages of the sections whose gate asks for it, and return the results by section.

    Pages that only moved to another section are not new. The sections take turns.
    """
    drawn = _drawn(run, rendered, moves)
    if not drawn:
        return {}
    found = {name: Visited(new=counts[name].added, drawn=len(locs)) for name, locs in drawn.items()}
    section_of = {loc: name for name, locs in drawn.items() for loc in locs}
    order = [loc for turn in zip_longest(*drawn.values()) for loc in turn if loc is not None]
    budgets = (gate.budget for name in drawn if (gate := run.site.sections[name].gates.pages) is not None)
    seen = sorted(_visits(run, order, max(budgets).total_seconds()), key=lambda visit: visit.url)
    for visit in seen:  # in an order of their own: the examples of the same visits are the same
        name = section_of[visit.url]
        found[name] = found[name] + _counted(visit)
    return found


def _drawn(run: Run, rendered: Iterable[Rendered], moves: Moves) -> dict[str, list[str]]:
    """Return the sampled new pages of each section."""
    staged: dict[str, list[str]] = {}
    for receipt in rendered:
        if receipt.new:
            staged.setdefault(receipt.section, []).extend(receipt.new)
    drawn = {}
    for name, locs in staged.items():
        gate = run.site.sections[name].gates.pages
        assert gate is not None, "render draws for this gate alone"
        new = pa.array(locs, pa.string())
        here = pc.equal(moves.moved.column("section"), name)
        arrived = moves.moved.filter(here).column("loc").combine_chunks()
        new = new.filter(pc.invert(pc.is_in(new, arrived)))
        if len(new):
            drawn[name] = new.take(pa.array(sampled(new, gate.sample))).to_pylist()
    return drawn


def _visits(run: Run, locs: Sequence[str], seconds: float) -> Iterable[Visit]:
    run.environment.log(f"visiting {len(locs):,} new pages, for {seconds:,.0f} seconds at most")
    for done, visit in enumerate(run.environment.visits(locs, seconds), 1):
        run.environment.advance("pages", done, len(locs))
        yield visit


def _counted(visit: Visit) -> Visited:
    """Return one visit as a count."""
    found = Visited()
    if visit.skipped:
        return replace(found, skipped=1)
    if visit.unknown:
        found.open.add(visit.unknown, 1, [visit.url])
        return replace(found, unknown=1)
    for fault in visit.faults:
        said = f"{visit.url} ({fault.detail})" if fault.detail else visit.url
        found.reasons.add(FAULTS[fault.kind], 1, [said])
    return replace(found, judged=1, bad=int(bool(visit.faults)))
