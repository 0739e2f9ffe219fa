"""Print explanations on the terminal: the answer in a sentence, then the facts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from sitemap_etl.cli.output import put, put_headline
from sitemap_etl.explain.answers import Explained, Later, Listing, Since, row_in_words
from sitemap_etl.explain.reports import Rows
from sitemap_etl.urls import REASONS

_ROWS: Final = 5
"""Number of unlisted rows of a URL that are shown. JSON has more."""


def show_answers(answers: Sequence[Explained]) -> None:
    """Print one block for each URL, separated by blank lines."""
    for at, answer in enumerate(answers):
        if at:
            put("")
        put_headline(answer.sentence())
        put(*(f"  {name:<13}{text}" for name, text in _facts(answer)))


def _facts(answer: Explained) -> Iterator[tuple[str, str]]:
    if answer.asked.canonical not in (None, answer.asked.text):
        yield "loc", str(answer.asked.canonical)
    if answer.reason is not None:
        yield "not a loc", f"{answer.reason}: {REASONS.get(answer.reason, '')}"
    if answer.listed is not None:
        yield from _listed(answer.listed)
    for view in answer.views:
        yield "also in", f"{view.file} (the view {view.section})"
    yield from _not_listed(answer.rows)
    if answer.last_listed is not None:
        yield "last listed", answer.last_listed.in_words()
    for near in answer.nearest:
        differs = f" (differs in {', '.join(near.differs)})" if near.differs else ""
        yield "nearest", f"{near.loc}{differs}"
    if answer.published is not None:
        back = answer.published.rolled_back_to
        yield "published", answer.published.in_words() + (f", a rollback to {back}" if back else "")
    if answer.read_by is not None:
        yield "last read", f"{answer.read_by.in_words()} ({answer.read_by.status})"
    for section, why in answer.not_read.items():
        yield "not read", f"{section}: {why}"
    if answer.later is not None:
        yield from _later(answer.later)


def _listed(listed: Listing) -> Iterator[tuple[str, str]]:
    yield "section", listed.section + (" (a view)" if listed.view else "")
    index = f", in {listed.index}" if listed.index else ""
    yield "file", f"{listed.file} (number {listed.number}{index})"
    yield "lastmod", f"{listed.lastmod or 'none'}{_since(listed.since)}"
    if listed.priority is not None:
        yield "priority", f"{listed.priority:.1f}"
    if listed.changefreq is not None:
        yield "changefreq", listed.changefreq
    if listed.images:
        yield "images", f"{listed.images:,}"
    if listed.cluster is not None:
        languages = ", ".join(listed.cluster.hreflang)
        yield "cluster", f"{listed.cluster.group}" + (f" ({languages})" if languages else "")
    for link in listed.alternates:
        yield "alternate", f"{link.hreflang} {link.href}"


def _since(since: Since | None) -> str:
    if since is None:
        return ""
    if since.how == "first publish":
        if since.run_id is None:
            return f", unchanged since the section's first publish, before {(since.before or '')[:10]}"
        return f", unchanged since the section's first publish: {since.run.in_words()}"
    if since.run_id is None:
        at = since.at or ""
        return f", {since.how} by the run of {at[:10]} {at[11:16]} UTC, which is no longer in the state"
    return f", since {since.run.in_words()}, which {since.how} the page"


def _not_listed(found: Rows) -> Iterator[tuple[str, str]]:
    for kind, count in found.counts.items():
        rows = found.of(kind)[:_ROWS]
        for row in rows:
            meaning = REASONS.get(row.reason, "")
            source_loc = "" if row.loc is None else f"    {row.loc}"
            yield kind, f"{row.section}: {row_in_words(row)}{source_loc}" + (f"    {meaning}" if meaning else "")
        if count > len(rows):
            yield kind, f"and {count - len(rows):,} more rows"


def _later(later: Later) -> Iterator[tuple[str, str]]:
    if later.listed is not None:
        would = f"would list it in section {later.listed.section}, lastmod {later.listed.lastmod or 'none'}"
    else:
        would = "would not list it"
    yield "newest run", f"{later.run.in_words().removesuffix(',')}: {would}"
    yield from _not_listed(later.rows)
    for near in later.nearest:
        yield "nearest", f"{near.loc} (differs in {', '.join(near.differs)})"
