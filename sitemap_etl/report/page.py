"""A run's summary as one HTML file: no script, no request to anywhere, every text escaped."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from sitemap_etl import __version__
from sitemap_etl.urls import REASONS

COUNTED: Final = ("extracted", "carried", "listed", "duplicates", "excluded", "rejected", "added", "changed", "removed")
"""The counts of a section, in the order of the columns."""
HEADLINES: Final = {
    "published": "Published",
    "unchanged": "Nothing changed",
    "dry_run": "Dry run",
    "refused": "Refused",
    "partial": "Published in part",
    "failed": "Failed",
}
_LEADS: Final = {
    "unchanged": "The public files are as they should be; nothing was written.",
    "dry_run": "Nothing public was touched.",
    "refused": "Nothing public was touched.",
}
_KINDS: Final = (
    ("rejected", "Rejected", "could not be listed"),
    ("excluded", "Excluded", "a rule asked for it"),
    ("duplicates", "Duplicates", "listed already"),
    ("notes", "Noted", "listed, but a value was left out or mended"),
)
_SHOWN_REASONS: Final = 200
"""Reasons of one kind that are shown: an `exclude` column may hold as many texts as rows."""
_UNITS: Final = ("bytes", "KB", "MB", "GB", "TB")


@cache
def _template() -> Template:
    environment = Environment(
        loader=PackageLoader("sitemap_etl.report", ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["number"] = number
    environment.filters["size"] = size
    environment.filters["duration"] = duration
    environment.filters["visible"] = visible
    return environment.get_template("page.html.jinja")


def render(summary: Mapping[str, Any]) -> str:
    """The page of a summary (what `--json` prints). Keys that an older summary lacks are taken as empty."""
    sections = summary.get("sections") or {}
    gates = _gates(summary.get("gates") or ())
    clusters = summary.get("clusters") or {"aligned": 0, "notes": {}}
    views = set(summary.get("views") or ())
    return _template().render(
        title=f"{headline(summary)}: {summary.get('name') or ''} {summary.get('run_id') or ''}",
        bytes=summary.get("bytes") or 0,
        headline=headline(summary),
        lead=lead(summary),
        tone=tone(summary),
        error=str(summary.get("error") or "").replace("RUN_ID", str(summary.get("run_id"))),
        facts=list(_facts(summary)),
        sections=sections,
        views=views,
        total=_total(sections, views),
        kept=summary.get("kept") or {},
        gates=gates,
        gate_names=list(dict.fromkeys(name for cells in gates.values() for name in cells)),
        told_gates=[gate for gate in summary.get("gates") or () if gate["status"] != "ok"],
        forced_because=summary.get("reason") or "",
        reasons=list(_reasons(summary)),
        clusters=clusters,
        cluster_rows=[_reason("", reason, entry) for reason, entry in clusters["notes"].items()],
        examples=summary.get("examples") or {},
        files=summary.get("files") or {},
        show_plan=summary.get("status") in ("dry_run", "refused"),
        beside=str(summary.get("report") or "").rpartition("/")[0],
        version=__version__,
        index=summary.get("index") or [],
        warnings=summary.get("warnings") or [],
        engines=[(name, answer, details_of(answer)) for name, answer in (summary.get("engines") or {}).items()],
        kinds=[("came in", COUNTED[:2]), ("became", COUNTED[2:6]), ("against the last set", COUNTED[6:])],
        seconds=_seconds(summary.get("seconds") or {}),
        commands=list(_commands(summary)),
    )


def headline(summary: Mapping[str, Any]) -> str:
    """One word or three for what became of the run."""
    status = str(summary.get("status", "failed"))
    if status == "partial" and not summary.get("kept"):
        return "Published, but not every engine took it"
    if status == "partial" and not summary.get("published"):
        return "Nothing written, and not every section was read"
    if status == "dry_run" and summary.get("error"):
        return "Dry run that a gate would refuse"
    return HEADLINES.get(status, status)


def tone(summary: Mapping[str, Any]) -> str:
    """good, attention or bad: what colours the head of the page."""
    status = summary.get("status")
    if status in ("refused", "failed") or (status == "dry_run" and summary.get("error")):
        return "bad"
    if status == "partial" or summary.get("warnings") or any(g["status"] != "ok" for g in summary.get("gates") or ()):
        return "attention"
    return "good"


def lead(summary: Mapping[str, Any]) -> str:
    """The sentence below the headline: what is listed and what the run changed."""
    total = _total(summary.get("sections") or {}, summary.get("views") or ())
    listed, added, changed, removed = (total[name] for name in ("listed", "added", "changed", "removed"))
    status = summary.get("status")
    written = (summary.get("files") or {}).get("written", 0)
    changes = f"{added:,} added, {changed:,} changed, {removed:,} removed"
    told = f"{_several(listed, 'URL')} listed: {changes}."
    if status in ("refused", "dry_run"):
        would = "would have listed" if status == "refused" else "would list"
        told = f"It {would} {_several(listed, 'URL')}: {changes}."
    elif written:
        told += f" {_several(written, 'file')} written."
    warnings = len(summary.get("warnings") or ())
    noticed = f" {_several(warnings, 'warning')}." if warnings else ""
    return f"{_LEADS.get(str(status), '')} {told}{noticed}".strip()


def _several(count: int, what: str) -> str:
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def _facts(summary: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "Run", str(summary.get("run_id"))
    yield "Site", f"{summary.get('name') or ''} ({summary.get('site') or ''})"
    yield "Time of the run", moment(str(summary.get("now") or ""))
    base = str(summary.get("base") or "").removeprefix("state/manifest-").removesuffix(".json")
    yield "Compared with", f"run {base}" if base else "nothing: the first publish of this state"
    options = summary.get("options") or {}
    if options.get("sections"):
        yield "Asked for", f"only {', '.join(options['sections'])}; the others stay as published"
    if options.get("limit") is not None:
        yield "Asked for", f"at most {options['limit']:,} rows of each split"
    if options.get("full"):
        yield "Asked for", "everything read and every published object looked at (--full)"


def _total(sections: Mapping[str, Mapping[str, int]], views: Collection[str]) -> dict[str, int]:
    """The counts of the site: views show again what others list and are left out."""
    counted = [counts for name, counts in sections.items() if name not in views]
    return {name: sum(counts.get(name, 0) for counts in counted) for name in COUNTED}


def _gates(gates: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, dict[str, Any]]]:
    """The gates by section (empty: the site, first) and name."""
    by_scope: dict[str, dict[str, dict[str, Any]]] = {"": {}} if gates else {}
    for gate in gates:
        scope, _, name = str(gate["name"]).rpartition(".")
        by_scope.setdefault(scope, {})[name] = _gate(gate, name)
    return by_scope


def _gate(gate: Mapping[str, Any], name: str) -> dict[str, Any]:
    """A gate as it is shown; `bar` is how much of the limit is used: 50 is all, 100 is twice and more."""
    value, limit = float(gate["value"]), float(gate["limit"])
    if name == "min_urls":
        return {"status": gate["status"], "value": f"{value:,.0f}", "limit": f"at least {limit:,.0f}", "bar": None}
    used = value / limit if limit else (2.0 if value else 0.0)
    return {
        "status": gate["status"],
        "value": percent(value),
        "limit": f"of {percent(limit)}",
        "bar": round(min(used, 2.0) * 50, 1),
    }


def _reasons(summary: Mapping[str, Any]) -> Iterator[tuple[str, str, list[dict[str, Any]], int]]:
    """(kind, what it means, rows of {section, reason, count, examples}, how many reasons are left out)."""
    by_section: Mapping[str, Mapping[str, Any]] = summary.get("reasons") or {}
    for kind, title, meaning in _KINDS:
        rows = [
            _reason(section, reason, entry)
            for section, kinds in by_section.items()
            for reason, entry in (kinds.get(kind) or {}).items()
        ]
        if rows:
            rows.sort(key=lambda row: -row["count"])
            yield title, meaning, rows[:_SHOWN_REASONS], max(0, len(rows) - _SHOWN_REASONS)


def _reason(section: str, reason: str, entry: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "section": section,
        "reason": reason,
        "meaning": REASONS.get(reason, ""),
        "count": entry["count"],
        "examples": entry["examples"],
    }


def _seconds(seconds: Mapping[str, float]) -> list[tuple[str, float, float]]:
    """(stage, seconds, share of the longest in percent), the total last."""
    longest = max((value for stage, value in seconds.items() if stage != "total"), default=0.0)
    stages = [(stage, value) for stage, value in seconds.items() if stage != "total"]
    rows = [(stage, value, round(100 * value / longest, 1) if longest else 0.0) for stage, value in stages]
    if "total" in seconds:
        rows.append(("total", seconds["total"], 0.0))
    return rows


def _commands(summary: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """(what for, the command)."""
    run_id = summary.get("run_id")
    example = next(
        (locs[0] for kinds in (summary.get("examples") or {}).values() for locs in kinds.values() if locs),
        f"{summary.get('site') or ''}/…",
    )
    yield "Why a URL is listed, or not", f"sitemap-etl explain SITE.yaml {_quoted(example)}"
    if summary.get("status") in ("refused", "dry_run"):
        refused = [gate["name"] for gate in summary.get("gates") or () if gate["status"] == "refused"]
        force = "".join(f" --force {name}" for name in refused)
        reason = ' --reason "…"' if refused else ""
        yield "Publish this run as it was shown", f"sitemap-etl publish SITE.yaml {run_id}{force}{reason}"
    else:
        yield "The sets that are kept", "sitemap-etl history SITE.yaml"
        yield "Publish the set before this one again", 'sitemap-etl rollback SITE.yaml --reason "…"'
    for address in (summary.get("index") or [])[:1]:
        yield "Read the published files as a crawler does", f"sitemap-etl check {_quoted(address)}"


def _quoted(text: str) -> str:
    """The text as a shell takes it literally."""
    import shlex

    return shlex.quote(text)


def number(value: Any) -> str:
    """1,234."""
    return f"{value:,}" if isinstance(value, int) else str(value)


def visible(text: str) -> str:
    """The text with characters that can't be seen written out as their code points."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in text)


def percent(share: float) -> str:
    """15.5 %."""
    text = f"{share * 100:.1f}" if share < 1 else f"{share * 100:,.0f}"
    return f"{text.removesuffix('.0')} %"


def size(count: int) -> str:
    """Bytes as people read them: 1.4 MB."""
    value, unit = float(count), 0
    while value >= 1_000 and unit < len(_UNITS) - 1:
        value, unit = value / 1_000, unit + 1
    return f"{count:,} bytes" if unit == 0 else f"{value:.1f} {_UNITS[unit]}"


def duration(seconds: float) -> str:
    """0.4 s, 12 min 5 s, 2 h 10 min."""
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds >= 0.05 else "< 0.1 s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def moment(text: str) -> str:
    """2026-11-01 02:00 UTC, of a time as the summary has it."""
    return f"{text[:10]} {text[11:16]} UTC" if len(text) == 20 and text.endswith("Z") else text


def details_of(answer: Mapping[str, Any]) -> Sequence[tuple[str, str]]:
    """What an engine's answer says besides its message, one short line each."""
    return [
        (str(name), str(value)) for name, value in (answer.get("details") or {}).items() if value not in (None, [], {})
    ]
