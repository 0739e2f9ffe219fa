"""The changes of a dry or refused run, and its differences from a live sitemap, as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from sitemap_etl.cli.columns import in_columns
from sitemap_etl.state.records import Comparison, Example, Gate, Preview, Summary

_NAMES: Final = 6
"""Number of files that are named. The others are only counted."""


def plan_lines(summary: Summary, plan: Preview, width: int) -> Iterator[str]:
    """Yield changes with examples, files to write and delete, and gates."""
    for section, kinds in summary.examples.items():
        for kind, examples in kinds.items():
            count = summary.sections[section].of(kind) if section in summary.sections else len(examples)
            yield f"{section}: {count:,} {kind}"
            yield from (f"  {loc}" for loc in examples)
    yield _files("to write", plan.files)
    if plan.delete:
        yield _files("to delete", plan.delete)
    if plan.retire:
        yield _files("no longer listed, to be deleted after two days", plan.retire)
    yield f"files: {plan.unchanged:,} unchanged"
    yield from beside(summary, "to be written")
    if plan.unmanaged:
        yield _files("that sitemap-etl did not write; use --adopt to replace them", plan.unmanaged)
    if plan.interrupted:
        yield "files: an earlier publish was interrupted; its files are written again where necessary"
    yield ""
    yield from _gates(summary.gates, width)
    yield ""


def _gates(gates: Sequence[Gate], width: int) -> Iterator[str]:
    """Yield a table of the gates that did not pass, and a line for the others."""
    failed = [_gate(gate) for gate in gates if gate.status != "ok"]
    if failed:
        yield from in_columns(["gate", "now", "limit", "margin", "status"], failed, width)
    passed = [gate for gate in gates if gate.status == "ok"]
    if passed:
        what = f"{'other ' if failed else ''}{'gate' if len(passed) == 1 else 'gates'}"
        nearest = max(passed, key=_fullness)
        name, now, limit, *_ = _gate(nearest)
        rest = f", nearest to its limit: {name} ({now}, limit {limit})" if _fullness(nearest) else ""
        yield f"{len(passed):,} {what} passed{rest}"


def beside(summary: Summary, done: str) -> Iterator[str]:
    """Yield lines about files at the site's root: robots.txt and key files."""
    files = summary.files
    if files.robots_txt:
        listed = any(counts.listed for counts in summary.sections.values())
        yield f"robots.txt: {done}, to name {'the' if listed else 'no'} index"
    if files.key_file:
        yield f"key file of IndexNow: {done}"


def _files(what: str, names: Sequence[str]) -> str:
    shown = ", ".join(names[:_NAMES])
    more = f", … and {len(names) - _NAMES:,} more" if len(names) > _NAMES else ""
    return f"files: {len(names):,} {what}{': ' if names else ''}{shown}{more}"


def _fullness(gate: Gate) -> float:
    """Return the ratio of a gate's value to its limit. 1 is at the limit."""
    part, whole = gate.value, gate.limit
    if gate.name.endswith("min_urls"):
        part, whole = whole, part
    elif gate.status == "ok" and part > whole:
        return 0.0
    return part / whole if whole else float(part > 0)


def _gate(gate: Gate) -> list[str]:
    value, limit = gate.value, gate.limit
    if gate.name.endswith("min_urls"):
        return [gate.name, f"{value:,.0f}", f"{limit:,.0f}", f"{value - limit:+,.0f}", gate.status]
    return [gate.name, _percent(value), _percent(limit), _percent(limit - value), gate.status]


def _percent(share: float) -> str:
    return f"{share * 100:,.2f} %"


def comparison_lines(against: Comparison) -> Iterator[str]:
    """Yield the differences between the run and a live sitemap."""
    yield ""
    files = f"{against.files:,} file{'' if against.files == 1 else 's'}"
    yield f"compared with {against.url}: {against.urls:,} URLs in {files}"
    yield f"  {against.both:,} in both"
    for found, words in (
        (against.only_here, "only in this run"),
        (against.only_there, "only in the live sitemap"),
        (against.other_lastmod, "with a different lastmod"),
        (against.respelled, "spelled differently in the live sitemap"),
    ):
        yield f"  {found.count:,} {words}"
        for example in found.examples:
            yield f"    {_example(example)}"
    if against.repeated:
        yield f"  {against.repeated:,} listed more than once in the live sitemap"
    for problem in against.problems:
        yield f"  could not be read: {problem}"
    yield ""


def _example(example: str | Example) -> str:
    if isinstance(example, str):
        return example
    return f"{example.loc}  this run {example.here or 'none'}, live {example.there or 'none'}"
