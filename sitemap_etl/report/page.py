"""The summary of a run as one HTML file, without scripts or external requests, and with all text escaped."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from sitemap_etl import __version__, lastmod, priority, urls
from sitemap_etl.advice import for_file, shell_word
from sitemap_etl.frames import Reason
from sitemap_etl.report.nights import ALONE, Around, counted, engines, figures, links, nights, reasons, usual_seconds
from sitemap_etl.report.paper import moment, several, template
from sitemap_etl.state.layout import run_of_manifest
from sitemap_etl.state.records import COUNTED, Answered, Gate, Shape, Summary

HEADLINES: Final = {
    "published": "Published",
    "unchanged": "Nothing changed",
    "dry_run": "Dry run",
    "refused": "Refused",
    "partial": "Partly published",
    "failed": "Failed",
}
_LEADS: Final = {
    "unchanged": "The published files are up to date; nothing was written.",
    "dry_run": "Nothing was published.",
    "refused": "Nothing was published.",
}
_KINDS: Final = (
    ("rejected", "Rejected rows", "they could not be listed"),
    ("excluded", "Excluded rows", "a rule leaves them out"),
    ("duplicates", "Duplicate rows", "the page is listed already"),
    ("notes", "Altered rows", "they are listed, but a value was dropped or corrected"),
    ("pages", "Visited new pages", "what the gate on new pages found"),
)
_MEANINGS: Final = {**urls.REASONS, **urls.NOTES, **lastmod.REASONS, **priority.REASONS}
_SHOWN_REASONS: Final = 200
"""Maximum number of reasons of one kind. An `exclude` column can have as many texts as rows."""


def render(summary: Summary, around: Around = ALONE) -> str:
    """Return the HTML page of a summary. `around`: the runs to compare with, and the way to their pages."""
    gates = _gates(summary.gates)
    own = summary.run_id
    views = set(summary.views)
    usual = usual_seconds(around.runs, own)
    return template("page.html.jinja").render(
        title=f"{headline(summary)}: {summary.name or ''} {summary.run_id or ''}",
        site=summary.site or "",
        bytes=summary.bytes,
        headline=headline(summary),
        lead=lead(summary),
        tone=tone(summary),
        error=for_file(summary.error or "", summary.site_file),
        links=links(around),
        figures=figures(around.runs, own) if len(around.runs) > 1 else [],
        over_time=reasons(around.runs, own) if len(around.runs) > 1 else [],
        asked=list(engines(around.runs, own)) if len(around.runs) > 1 else [],
        nights=nights(around.runs, own, around.root) if len(around.runs) > 1 else [],
        columns=counted(around.runs),
        ages=(ages := _ages(summary.shape)),
        shapes=list(_shapes(summary.shape, ages)),
        facts=list(_facts(summary)),
        sections=summary.sections,
        views=views,
        total=summary.total,
        held=summary.kept,
        unaltered=summary.quiet,
        gates=gates,
        gates_not_ok=_gates([gate for gate in summary.gates if gate.status != "ok"]),
        gates_passed=gates_passed(summary.gates),
        gate_notes=[gate for gate in summary.gates if gate.status != "ok"],
        forced_because=summary.reason if any(gate.status == "forced" for gate in summary.gates) else None,
        reasons=list(_reasons(summary)),
        clusters=summary.clusters,
        cluster_rows=[_reason("", reason) for reason in summary.clusters.notes.ordered()],
        examples=summary.examples,
        files=list(_files(summary)),
        beside=(summary.report or "").rpartition("/")[0],
        version=__version__,
        index=summary.index,
        warnings=[for_file(text, summary.site_file) for text in summary.warnings],
        engines=[(name, answer, details_of(answer)) for name, answer in summary.engines.items()],
        kinds=_kinds(summary),
        column_names={"carried": "reused"},
        seconds=_seconds(summary.seconds, usual),
        has_usual=bool(usual),
        commands=list(_commands(summary)),
    )


def _kinds(summary: Summary) -> list[tuple[str, list[str]]]:
    """Return the columns of the table of sections by kind. Results that no section has are left out."""
    always = {"extracted", "listed"}
    shown = [name for name in COUNTED if name in always or any(counts.of(name) for counts in summary.sections.values())]
    kinds = (
        ("rows read", COUNTED[:2]),
        ("result", COUNTED[2:6]),
        ("compared with the last release", COUNTED[6:]),
    )
    found = [(kind, [name for name in names if name in shown]) for kind, names in kinds]
    return [(kind, names) for kind, names in found if names]


AGE_NAMES: Final = ("no lastmod", "today", "to 7 days", "to 30 days", "to 90 days", "to a year", "to 3 years", "older")


def _by_age(shape: Shape) -> dict[str, int]:
    """Return the numbers of pages by the age of their lastmod. Early versions recorded only those without one."""
    return dict(zip(AGE_NAMES, (shape.undated, *shape.ages), strict=False))


def _ages(shape: Mapping[str, Shape]) -> list[str]:
    """Return the ages that some page has."""
    found = [_by_age(one) for one in shape.values()]
    return [age for age in AGE_NAMES if any(by_age.get(age) for by_age in found)] or ["lastmod"]


def _shapes(shape: Mapping[str, Shape], shown: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield the ages of pages and the fill of files of each section, as percentages."""
    for name, found in shape.items():
        by_age = _by_age(found)
        pages = sum(by_age.values())
        fullest = max(found.fill, default=0) or 1
        yield {
            "name": name,
            "files": found.files,
            "pages": pages,
            "ages": [(percent(by_age.get(age, 0) / pages), round(100 * by_age.get(age, 0) / pages)) for age in shown]
            if found.ages and pages
            else [],
            "fill": [(count, round(100 * count / fullest)) for count in found.fill],
            "unrecorded": found.unrecorded,
        }


def headline(summary: Summary) -> str:
    """Return the outcome of the run in a few words."""
    status = summary.status
    if status == "partial" and not summary.kept:
        failed = [name for name, answer in summary.engines.items() if answer.failed]
        return f"Published. {len(failed)} of {several(len(summary.engines), 'engine')} failed: {', '.join(failed)}"
    if status == "partial" and not summary.published:
        return "Nothing changed, but not every section could be read"
    if status == "dry_run" and summary.error:
        return "Dry run: a gate would refuse this run"
    if summary.rolled_back_to is not None:
        return f"Rolled back to {summary.rolled_back_to}"
    return HEADLINES.get(status, status)


def tone(summary: Summary) -> str:
    """Return the tone of the page's header: good, attention or bad."""
    if summary.status in ("refused", "failed") or (summary.status == "dry_run" and summary.error):
        return "bad"
    if summary.status == "partial" or summary.warnings or any(gate.status != "ok" for gate in summary.gates):
        return "attention"
    return "good"


def lead(summary: Summary) -> str:
    """Return the sentence below the headline, with the listed and changed URLs."""
    total = summary.total
    changes = f"{total.added:,} added, {total.changed:,} changed, {total.removed:,} removed"
    text = f"{several(total.listed, 'URL')} listed: {changes}."
    if summary.status in ("refused", "dry_run"):
        would = "would have listed" if summary.status == "refused" else "would list"
        text = f"The run {would} {several(total.listed, 'URL')}: {changes}."
    elif summary.files.written:
        text += f" {several(summary.files.written, 'file')} written."
    warnings = f" {several(len(summary.warnings), 'warning')}." if summary.warnings else ""
    return f"{_LEADS.get(summary.status, '')} {text}{warnings}".strip()


def _facts(summary: Summary) -> Iterator[tuple[str, str]]:
    yield "Run", str(summary.run_id)
    yield "Site", f"{summary.name or ''} ({summary.site or ''})"
    yield "Time", moment(summary.now or "")
    base = run_of_manifest(summary.base or "")
    yield "Compared with", f"run {base}" if base else "nothing: this is the first publish"
    if summary.reason:
        yield "Reason given", summary.reason
    options = summary.options
    if options.sections:
        yield "Options", f"only {', '.join(options.sections)} (--section); the other sections stay as published"
    if options.limit is not None:
        yield "Options", f"at most {options.limit:,} rows of each split (--limit)"
    if options.full:
        yield "Options", "all rows read and all published files verified (--full)"


def _files(summary: Summary) -> Iterator[tuple[str, int]]:
    """Yield the numbers of files, without those that are zero. The first is what the run wrote, or would write."""
    files = summary.files
    first = "written" if files.to_write is None else "to write"
    found = {
        "written": files.written,
        "to write": files.to_write or 0,
        "unchanged": files.unchanged,
        "deleted": files.deleted,
        "to delete": files.to_delete or 0,
    }
    yield from ((name, count) for name, count in found.items() if count or name == first)


def _gates(gates: Sequence[Gate]) -> dict[str, dict[str, dict[str, Any]]]:
    """Return the gates by section and name. The section of the site's own gates is "", and comes first."""
    by_scope: dict[str, dict[str, dict[str, Any]]] = {"": {}} if gates else {}
    for gate in gates:
        scope, _, name = gate.name.rpartition(".")
        by_scope.setdefault(scope, {})[name] = _gate(gate, name)
    return {scope: cells for scope, cells in by_scope.items() if cells}


def gates_passed(gates: Sequence[Gate]) -> str:
    """Return how many gates passed, in words."""
    passed = sum(gate.status == "ok" for gate in gates)
    return several(passed, "other gate" if passed < len(gates) else "gate") + " passed"


def _gate(gate: Gate, name: str) -> dict[str, Any]:
    """Return a gate as shown. `bar`: the used share of the limit; 50 is the limit, 100 is twice the limit or more."""
    value, limit = gate.value, gate.limit
    if name == "min_urls":
        return {"status": gate.status, "value": f"{value:,.0f}", "limit": f"minimum {limit:,.0f}", "bar": None}
    used = value / limit if limit else (2.0 if value else 0.0)
    return {
        "status": gate.status,
        "value": percent(value),
        "limit": f"limit {percent(limit)}",
        "bar": round(min(used, 2.0) * 50, 1),
    }


def _reasons(summary: Summary) -> Iterator[tuple[str, str, list[dict[str, Any]], int, str]]:
    """Yield (title, meaning, rows, number of reasons that are left out, file with all rows) for each kind."""
    for kind, title, meaning in _KINDS:
        rows = [
            _reason(section, reason)
            for section, kinds in summary.reasons.items()
            if kind in kinds
            for reason in kinds[kind].ordered()
        ]
        if rows:
            rows.sort(key=lambda row: -row["count"])
            file = "" if kind in ("notes", "pages") else f"{kind}.parquet"
            yield title, meaning, rows[:_SHOWN_REASONS], max(0, len(rows) - _SHOWN_REASONS), file


def _reason(section: str, reason: Reason) -> dict[str, Any]:
    return {
        "section": section,
        "reason": reason.text,
        "meaning": reason.advice or _MEANINGS.get(reason.text, ""),
        "count": reason.count,
        "examples": [example for example in reason.examples if example.strip()],
    }


def _seconds(seconds: Mapping[str, float], usual: Mapping[str, float]) -> list[dict[str, Any]]:
    """Return the stages with their usual time, and both as shares of the longest stage. The total comes last."""
    stages = [stage for stage in seconds if stage != "total"]
    longest = max((max(seconds[stage], usual.get(stage, 0.0)) for stage in stages), default=0.0) or 1.0
    return [
        {
            "stage": stage,
            "value": seconds[stage],
            "share": round(100 * seconds[stage] / longest, 1),
            "usual": usual.get(stage),
            "mark": round(100 * usual[stage] / longest, 1) if stage in usual and stage != "total" else None,
        }
        for stage in (*stages, *(["total"] if "total" in seconds else []))
    ]


def _commands(summary: Summary) -> Iterator[tuple[str, str]]:
    """Yield (purpose, command). The error of a refused run has its own commands."""
    file = shell_word(summary.site_file or "SITE.yaml")
    examples = [(kind, loc) for kinds in summary.examples.values() for kind, locs in kinds.items() for loc in locs]
    examples.sort(key=lambda example: example[0] != "removed")
    example = examples[0][1] if examples else f"{summary.site or ''}/…"
    yield "Show why a URL is listed or not", f"sitemap-etl explain {file} {shell_word(example)}"
    if summary.status in ("refused", "dry_run"):
        if summary.error is None:
            yield "Publish this run as shown here", f"sitemap-etl publish {file} {summary.run_id}"
    else:
        yield "List the releases", f"sitemap-etl history {file}"
        yield "Go back to the previous release", f'sitemap-etl rollback {file} --reason "…"'
    for address in summary.index[:1]:
        yield "Check the published files as a crawler sees them", f"sitemap-etl check {shell_word(address)}"


def percent(share: float) -> str:
    """Return a share as a percentage: 15.5 %."""
    text = f"{share * 100:.1f}" if share < 1 else f"{share * 100:,.0f}"
    return f"{text.removesuffix('.0')} %"


def details_of(answer: Answered) -> Sequence[tuple[str, str]]:
    """Return the details of an engine's answer, as (name, value)."""
    return [(str(name), str(value)) for name, value in answer.details.items() if value not in (None, [], {})]
