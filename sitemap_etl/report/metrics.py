"""A run as metrics in Prometheus' text format: gauges in one file, which each run replaces.

The text is valid OpenMetrics 1.0 and has no timestamps, because the textfile collector of node_exporter rejects them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Final

from sitemap_etl.state.records import COUNTED, Attempt

STATUSES: Final = ("published", "unchanged", "partial", "refused", "failed", "interrupted")

Sample = tuple[Mapping[str, str], float]


def metrics(name: str, last: Attempt, good: Attempt | None) -> str:
    """Return the metrics of a site. `last`: its last run. `good`: its last successful run, if known."""
    lines: list[str] = []
    for metric, help_, samples in _families(last, good):
        found = list(samples)
        if found:
            lines += [f"# HELP sitemap_etl_{metric} {help_}", f"# TYPE sitemap_etl_{metric} gauge"]
        for labels, value in found:
            shown = ",".join(f'{label}="{_escaped(text)}"' for label, text in {"site": name, **labels}.items())
            lines.append(f"sitemap_etl_{metric}{{{shown}}} {value:.15g}")
    return "\n".join([*lines, "# EOF", ""])


def _families(last: Attempt, good: Attempt | None) -> Iterator[tuple[str, str, Iterable[Sample]]]:
    """Yield the name, help text and samples of each metric."""
    total = sum(value for stage, value in last.seconds.items() if stage == "total")
    yield "last_run_timestamp_seconds", "When the last run ended.", [({}, _seconds(last.ended or last.now))]
    yield "last_run_ok", "Whether the last run did everything that it was to do.", [({}, float(last.good))]
    yield (
        "last_run_status",
        "What became of the last run.",
        (({"status": status}, float(last.status == status)) for status in STATUSES),
    )
    if good is not None:
        yield "last_ok_timestamp_seconds", "When the last run ended that went well.", [({}, _seconds(good.ended))]
    if total:
        yield "run_seconds", "How long the last run took.", [({}, total)]
    yield (
        "stage_seconds",
        "How long each stage of the last run took.",
        (({"stage": stage}, value) for stage, value in last.seconds.items() if stage != "total"),
    )
    yield (
        "rows",
        "Rows and URLs of the last run, by section and what became of them.",
        (
            ({"section": section, "what": what}, float(counts.of(what)))
            for section, counts in last.sections.items()
            for what in COUNTED
        ),
    )
    if last.sections:
        files = {"written": last.files.written, "unchanged": last.files.unchanged, "deleted": last.files.deleted}
        yield "urls", "URLs that the last run lists, or would list.", [({}, float(last.listed))]
        yield "files", "Public files of the last run.", (({"what": what}, float(n)) for what, n in files.items())
        yield "bytes", "Bytes that the last run wrote to public files.", [({}, float(last.bytes))]
        yield "warnings", "Warnings of the last run.", [({}, float(len(last.warnings)))]
    yield (
        "gate_value",
        "Gates that warned, refused or were forced: the share, or the URLs.",
        (({"gate": gate.name, "status": gate.status}, gate.value) for gate in last.gates),
    )
    yield "gate_limit", "The limits of those gates.", (({"gate": gate.name}, gate.limit) for gate in last.gates)
    yield "section_held", "Sections that stay as published.", (({"section": name}, 1.0) for name in last.kept)
    yield (
        "engine_ok",
        "Whether a search engine took what it was sent.",
        (({"engine": name}, float(not answer.failed)) for name, answer in last.engines.items()),
    )
    yield (
        "engine_sent",
        "What was sent to a search engine.",
        (({"engine": name}, float(answer.sent)) for name, answer in last.engines.items()),
    )


def _seconds(instant: str) -> float:
    return datetime.fromisoformat(instant).timestamp()


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
