"""The publish stage: show a run's proposal, refuse it, or publish it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from sitemap_etl.advice import SITE_FILE, shell_word
from sitemap_etl.errors import Refused
from sitemap_etl.frames import Tally
from sitemap_etl.publish.actual import Actual, Unmanaged, survey
from sitemap_etl.publish.claim import demand_base
from sitemap_etl.publish.commit import Outcome, known_etags, publish_target
from sitemap_etl.publish.distinct import check_distinct
from sitemap_etl.publish.gates import GATES, Visited, gates_of, last_week
from sitemap_etl.publish.moves import dropped_entries, most_of, net_changes
from sitemap_etl.publish.plan import Target, desired_set, retired_files
from sitemap_etl.publish.proposal import Proposal, propose, with_removed
from sitemap_etl.publish.robots import open_root
from sitemap_etl.publish.served import served_otherwise
from sitemap_etl.publish.views import feed_objects, recent_drafts, with_tops
from sitemap_etl.stages.decide import digests_of_run
from sitemap_etl.stages.digests import SectionDigests
from sitemap_etl.stages.merge import generations
from sitemap_etl.stages.published import same_definition
from sitemap_etl.stages.run import Run
from sitemap_etl.state import layout
from sitemap_etl.state.changes import packed
from sitemap_etl.state.records import ROBOTS_TXT, MadeFrom, Manifest, Mirror, Preview, SectionState


@dataclass
class Published:
    """The result of publishing a run."""

    status: Literal["published", "unchanged", "dry_run", "refused"]
    proposal: Proposal
    outcome: Outcome | None = None  # result of the publish; None if nothing was published
    error: Refused | None = None  # reason for a refusal
    warnings: list[str] = field(default_factory=list)
    preview: Preview | None = None  # changes that publishing would make; None if it was published

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
    """Publish the rendered files of a run, or return the reason why not. Arguments that are None come from the run's
    options.

    Raise Refused if rows are unaccounted for or another run was first. The result has refusals that a person can
    overrule: by a gate, or because of objects that this state does not manage.
    """
    proposal = propose(run, force)
    dry_run = run.options.dry_run if dry_run is None else dry_run
    warnings = [*run.plan.warnings, *proposal.warnings]
    if not run.site.publish.conditional_writes:
        warnings.append(
            "publish.conditional_writes is false: two runs at the same moment can overwrite each other's files unseen"
        )
    target = _target(run, proposal, reason)
    check_distinct(run, (draft.entry for draft in target.drafts), target.sections)
    error = outcome = None
    if proposal.refused:
        if not dry_run:
            demand_base(run, run.state.current())  # its gates don't matter if it was overtaken
        error = refusal(run, proposal)
    if error is None and not dry_run:
        try:
            outcome = publish_target(run, target, adopt=run.options.adopt if adopt is None else adopt)
        except Unmanaged as in_the_way:
            error = in_the_way
    if outcome is None:
        seen, more = preview(run, target)
        return Published("dry_run" if dry_run else "refused", proposal, None, error, warnings + more, seen)
    warnings += outcome.warnings
    if outcome.status == "published" and outcome.manifest is not None and run.site.publish.check:
        warnings += served_otherwise(run, outcome.manifest)
    return Published(outcome.status, proposal, outcome, None, warnings)


def _target(run: Run, proposal: Proposal, reason: str | None) -> Target:
    sections = with_tops(run, with_removed(run, proposal), proposal.drafts)
    read = run.partition().read
    made = generations(run, read)
    for name in made:
        sections[name] = replace(sections[name], mirror=layout.mirror(name, run.run_id))
    old_keys = {(e.section, e.number): e.file.key for e in run.base.entries} if run.base is not None else {}
    silent_because = reason_not_to_notify(run, proposal)
    rendered = run.all_rendered() if run.base is not None else []
    return Target(
        changes=packed(net_changes(run, rendered, dropped_entries(run), proposal.moves)),
        quiet_because=silent_because,
        drafts=[*recent_drafts(run, proposal.drafts, sections), *proposal.drafts],
        sections=sections,
        counts=proposal.counts,
        gates=proposal.gates,
        week=last_week(run, proposal.moves),
        moves_to=proposal.moves.moves_to(old_keys),
        extras=feed_objects(run, sections),
        generations=made,
        mirrors={name: layout.mirror(name, run.run_id) if name in made else None for name in read},
        versions={name: _version(run, proposal, name) for name in [*read, *_lost_pages(proposal, read)]},
        made_from=_made_from(run, proposal, sections, made),
        forced=tuple(gate.name for gate in proposal.gates if gate.status == "forced"),
        reason=reason or run.options.reason,
    )


def _made_from(
    run: Run, proposal: Proposal, sections: Mapping[str, SectionState], mirrors: Mapping[str, Mirror]
) -> dict[str, MadeFrom | None]:
    """Return the record of the inputs of each section for the next run (`stages.decide.digests_of_run`)."""
    planned = run.partition()
    rendered: dict[str, int | None] = {}
    for name in planned.sections:
        receipts = [receipt for receipt in run.all_rendered() if receipt.section == name]
        tells = any(receipt.notes.total for receipt in receipts)
        dated = sum(shard.rows - (shard.undated or 0) for receipt in receipts for shard in receipt.shards)
        rendered[name] = None if tells else dated
    digests = SectionDigests(run, planned.read, (draft.entry for draft in proposal.drafts), sections)
    return digests_of_run(run, digests, rendered, mirrors)


def _version(run: Run, proposal: Proposal, name: str) -> str | None:
    """Return the digest of the inputs of a section of a table, or None if the next run has to read it.

    It has to if another section lists a page in its place, and if a rule can make something else of its rows.
    """
    repeatable = not proposal.counts[name].duplicates and all(part.repeatable for part in run.parts(name))
    return run.plan.versions.get(name) if repeatable else None


def _lost_pages(proposal: Proposal, read: Collection[str]) -> list[str]:
    """Return the sections that were not read and lost pages to earlier ones: the next run has to read them."""
    return [name for name, counts in proposal.counts.items() if name not in read and counts.duplicates]


def reason_not_to_notify(run: Run, proposal: Proposal) -> str | None:
    """Return the reason why engines should not be notified of single URLs this time, or None if they should."""
    if run.base is None:
        return "it is the first publish of this state: every URL would count as new"
    reset = [
        name
        for name, state in proposal.sections.items()
        if name in run.base.sections and not same_definition(run.base.sections[name], state)
    ]
    if reset:
        return f"the fingerprints of {', '.join(reset)} were reset: it is not known what changed this time"
    return None


def refusal(run: Run, proposal: Proposal) -> Refused:
    """Build the refusal: what, how much, where most of it is, how to look and how to publish anyway.

    A gate of the site is left out if it is refused only because gates of its sections are.
    """
    named = [gate for gate in proposal.refused if "." in gate.name]
    forced = frozenset(gate.name for gate in proposal.gates if gate.status == "forced")
    if named:
        names = forced | {gate.name for gate in named}
        asked = gates_of(run, proposal.outcomes, proposal.moves, names)
        named += [gate for gate in asked if gate.status == "refused"]
    else:
        named = proposal.refused
    lines: list[str] = []
    for gate in named:
        lines.append(f"Refused: {gate.message}. Nothing public was touched.")
        lines += [line for line in where_most(run, proposal, gate.name) if line not in lines]
    if run.plan.owner:  # whoever reads this has Airflow's UI open
        refused = ", ".join(gate.name for gate in named)
        lines.append(f"  in Airflow: trigger the DAG {run.site.name}, with force {refused} and a reason")
    options = " ".join(f"--force {gate.name}" for gate in named)
    lines.append(f'  publish: sitemap-etl publish {SITE_FILE} {run.run_id} {options} --reason "…"')
    return Refused("\n".join(lines))


def where_most(run: Run, proposal: Proposal, gate: str) -> list[str]:
    """Return lines on most of the URLs that a gate refuses: a common path, and an example."""
    section, _, name = gate.rpartition(".")
    most = next(kind.most for kind in GATES if kind.name == name)
    if most in ("removed", "added"):
        found = most_of(run, proposal.moves, most, section or None)
        if found is None:
            return []
        prefix, count, example = found
        return [
            f"  most of them: {prefix}… ({count:,})    e.g. {example}",
            _look(example),
        ]
    if most in ("undated", "changed"):
        examples = [
            loc
            for receipt in run.all_rendered()
            if not section or receipt.section == section
            for loc in receipt.examples.get(most, ())
        ]
        return [f"  e.g. {examples[0]}", _look(examples[0])] if examples else []
    if most == "rejected":
        rejected = Tally()
        for each, tallies in proposal.reasons.items():
            if section in ("", each) and "rejected" in tallies:
                rejected.merge(tallies["rejected"])
        return _most_frequent(rejected)
    if most == "pages":
        return _most_frequent(
            sum((proposal.pages[each] for each in proposal.pages if section in ("", each)), Visited()).reasons
        )
    return []


def _look(loc: str) -> str:
    return f"  look:    sitemap-etl explain {SITE_FILE} {shell_word(loc)}"


def _most_frequent(tally: Tally) -> list[str]:
    """Return lines with the most frequent reasons and their examples."""
    return [
        f"  {reason.text}: {reason.count:,}" + (f"    e.g. {reason.examples[0]}" if reason.examples else "")
        for reason in tally.ordered()[:3]
    ]


def preview(run: Run, target: Target) -> tuple[Preview, list[str]]:
    """Compare the target with the public files, as a publish does first. Return the result and warnings."""
    public = run.public()
    actual = Actual(run, public)
    desired = desired_set(run, target.drafts, target.extras, actual)
    waiting, due = retired_files(run, desired, actual, {})
    known = {item.key for item in run.base.retired} if run.base is not None else set()
    unmanaged = survey(public, desired.objects(), known_etags(run, actual), adopt=True)
    addresses = [run.site.publish.at + index.file.key for index in desired.indexes]
    root = open_root(run, addresses, [run.site.publish.at + key for key in sorted(desired.keys())])
    write = [item.file.key for item in desired.objects()]
    if root.naming(addresses) is not None:
        write.append(ROBOTS_TXT)
    seen = Preview(
        write=tuple(write),
        delete=tuple(item.key for item in due),
        retire=tuple(item.key for item in waiting if item.key not in known),
        unmanaged=tuple(stat.key for stat in unmanaged),
        unchanged=len(desired.keys()) - len(desired.objects()),
        interrupted=run.state.current().pending is not None,
        key_file=root.key is not None,
    )
    return seen, root.warnings
