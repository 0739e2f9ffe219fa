"""publish and ping as stages: what a task or the command calls once everything is rendered."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from sitemap_etl.errors import Refused
from sitemap_etl.manifest import Manifest
from sitemap_etl.pipeline.acknowledged import net_changes
from sitemap_etl.pipeline.borders import NAME as PARTITION
from sitemap_etl.pipeline.departed import with_departed
from sitemap_etl.pipeline.gates import held_gates
from sitemap_etl.pipeline.preview import Preview, preview
from sitemap_etl.pipeline.proposal import Proposal, propose
from sitemap_etl.pipeline.publication import Outcome, publish_target
from sitemap_etl.pipeline.run import Run
from sitemap_etl.pipeline.served import served_otherwise
from sitemap_etl.pipeline.target import Target
from sitemap_etl.pipeline.views import feed_objects, recent_drafts, with_tops


@dataclass
class Published:
    """What became of a run: the proposal, and what publishing it did (None: it was not published)."""

    status: str  # published, unchanged, dry_run, refused
    proposal: Proposal
    outcome: Outcome | None = None
    error: Refused | None = None
    warnings: list[str] = field(default_factory=list)
    preview: Preview | None = None  # what publishing would do, where it was not done

    @property
    def manifest(self) -> Manifest | None:
        return self.outcome.manifest if self.outcome is not None else None


def publish(
    run: Run,
    *,
    dry_run: bool | None = None,
    force: frozenset[str] | None = None,
    reason: str | None = None,
    adopt: bool | None = None,
) -> Published:
    """Publish what a run rendered, or say why not. What is None is as the run was started with.

    Raises Refused where the accounting does not hold, an object is foreign, or another run was first.
    A gate's refusal is in the answer.
    """
    proposal = propose(run, force)
    dry_run = run.options.dry_run if dry_run is None else dry_run
    warnings = list(proposal.warnings)
    if not run.site.publish.conditional_writes:
        warnings.append(
            "publish.conditional_writes is false: two runs at the same moment can overwrite each other's files unseen"
        )
    target = _target(run, proposal, reason)
    if proposal.refused or dry_run:
        seen = preview(run, target)
        error = refusal(run, proposal) if proposal.refused else None
        status = "dry_run" if dry_run else "refused"
        return Published(status, proposal, None, error, warnings + seen.warnings, seen)
    outcome = publish_target(run, target, adopt=run.options.adopt if adopt is None else adopt)
    warnings += outcome.warnings
    if outcome.status == "published" and outcome.manifest is not None:
        warnings += served_otherwise(run, outcome.manifest)
    return Published(outcome.status, proposal, outcome, None, warnings)


def _target(run: Run, proposal: Proposal, reason: str | None) -> Target:
    sections = with_tops(run, with_departed(run, proposal))
    old_keys = {(e.section, e.number): e.file.key for e in run.base.entries} if run.base is not None else {}
    quiet = quiet_because(run, proposal)
    planned = run.need(PARTITION)
    rendered = [run.need(f"render/{n}") for n in range(len(planned["units"]))] if run.base is not None else []
    return Target(
        changes=net_changes(run, rendered, proposal.moves),
        quiet_because=quiet,
        drafts=[*recent_drafts(run, proposal.drafts), *proposal.drafts],
        sections=sections,
        counts=proposal.counts,
        gates=[gate.to_json() for gate in proposal.gates],
        gives=proposal.moves.gives(old_keys),
        extras=feed_objects(run, sections),
        forced=tuple(gate.name for gate in proposal.gates if gate.status == "forced"),
        reason=reason or run.options.reason,
    )


def quiet_because(run: Run, proposal: Proposal) -> str | None:
    """Why engines should not be told of single URLs this time; None where they should."""
    if run.base is None:
        return "it is the first publish of this state: every URL would count as new"
    rebased = [
        name
        for name, state in proposal.sections.items()
        if name in run.base.sections and run.base.sections[name].rule != state.rule
    ]
    if rebased:
        return f"the fingerprint of {', '.join(rebased)} has another definition: what changed this time can't be told"
    return None


def refusal(run: Run, proposal: Proposal) -> Refused:
    """The words of a refusal: what, how much, where most of it is, how to look and how to publish anyway.

    A site's gate that is refused only for what its sections' gates are refused for is not told twice.
    """
    told = [gate for gate in proposal.refused if "." in gate.name]
    forced = frozenset(gate.name for gate in proposal.gates if gate.status == "forced")
    if told:
        names = forced | {gate.name for gate in told}
        held = held_gates(run, proposal.counts, proposal.moves.dropped, names)
        told += [gate for gate in held if gate.status == "refused"]
    else:
        told = proposal.refused
    lines: list[str] = []
    for gate in told:
        lines.append(f"Refused: {gate.message}. Nothing public was touched.")
        lines += [line for line in where_most(run, proposal, gate.name) if line not in lines]
    options = " ".join(f"--force {gate.name}" for gate in told)
    lines.append(f'  publish: sitemap-etl publish SITE.yaml {run.run_id} {options} --reason "…"')
    return Refused("\n".join(lines))


def where_most(run: Run, proposal: Proposal, gate: str) -> list[str]:
    """Where most of what a gate objects to lies: a prefix of paths, and an example."""
    from sitemap_etl.pipeline.examples import most_of

    section, _, name = gate.rpartition(".")
    kind = {"max_drop": "removed", "max_growth": "added"}.get(name)
    if kind is not None:
        found = most_of(run, kind, section or None)
        if found is None:
            return []
        prefix, count, example = found
        return [
            f"  most of them: {prefix}… ({count:,})    e.g. {example}",
            f"  look:    sitemap-etl explain SITE.yaml {example}",
        ]
    if name == "max_rejected":
        tally = proposal.reasons.get(section, {}).get("rejected")
        if tally is None:
            return []
        return [
            f"  {reason}: {entry['count']:,}    e.g. {entry['examples'][0] if entry['examples'] else ''}"
            for reason, entry in list(tally.to_json().items())[:3]
        ]
    return []


def as_counts(proposal: Proposal) -> dict[str, dict[str, Any]]:
    """The counts of each section, for the JSON."""
    return {name: dict(counts) for name, counts in proposal.counts.items()}
