"""What a person sees of an explanation: the sentence, then the facts it rests on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from rich.console import Console

from sitemap_etl.explain.explain import row_in_words, run_in_words
from sitemap_etl.urls import REASONS

_ROWS: Final = 5
"""Set-aside rows of one URL that are shown; JSON has more."""


def show_answers(console: Console, answers: Sequence[Mapping[str, Any]]) -> None:
    """One block a URL, a blank line between them."""
    for at, answer in enumerate(answers):
        if at:
            console.print()
        console.print(answer["sentence"], style="bold", highlight=False, markup=False, soft_wrap=True)
        for name, text in _facts(answer):
            console.print(f"  {name:<13}{text}", highlight=False, markup=False, soft_wrap=True)


def _facts(answer: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if answer["canonical"] not in (None, answer["url"]):
        yield "loc", answer["canonical"]
    if answer["reason"] is not None:
        yield "no loc", f"{answer['reason']}: {REASONS.get(answer['reason'], '')}"
    if answer["listed"] is not None:
        yield from _listed(answer["listed"])
    for view in answer["views"]:
        yield "also in", f"{view['file']} (the view {view['section']})"
    yield from _set_aside(answer["set_aside"])
    if answer["last_listed"] is not None:
        yield "last listed", run_in_words(answer["last_listed"])
    for near in answer["nearest"]:
        differs = f" (differs by {', '.join(near['differs'])})" if near["differs"] else ""
        yield "nearest", f"{near['loc']}{differs}"
    if answer["published"] is not None:
        back = answer["published"]["rolled_back_to"]
        yield "published", run_in_words(answer["published"]) + (f", a rollback to {back}" if back else "")
    if answer["read_by"] is not None:
        yield "last read", f"{run_in_words(answer['read_by'])} ({answer['read_by']['status']})"
    for section, why in answer["not_read"].items():
        yield "not read", f"{section}: {why}"
    if answer["later"] is not None:
        yield from _later(answer["later"])


def _listed(listed: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "section", listed["section"] + (" (a view)" if listed["view"] else "")
    index = f", in {listed['index']}" if listed["index"] else ""
    yield "file", f"{listed['file']} (number {listed['number']}{index})"
    yield "lastmod", f"{listed['lastmod'] or 'none'}, {_since(listed['since'])}"
    if listed["priority"] is not None:
        yield "priority", f"{listed['priority']:.1f}"
    if listed["changefreq"] is not None:
        yield "changefreq", listed["changefreq"]
    if listed["images"]:
        yield "images", f"{listed['images']:,}"
    if listed["cluster"] is not None:
        languages = ", ".join(listed["cluster"]["hreflang"] or ())
        yield "cluster", f"{listed['cluster']['group']}" + (f" ({languages})" if languages else "")
    for link in listed["alternates"]:
        yield "alternate", f"{link['hreflang']} {link['href']}"


def _since(since: Mapping[str, Any]) -> str:
    if since["how"] == "first publish":
        if since["run_id"] is None:
            return f"unchanged since the section's first publish, before {since['before'][:10]}"
        return f"unchanged since the section's first publish: {run_in_words(since)}"
    if since["run_id"] is None:
        return f"{since['how']} by the run of {since['at'][:10]} {since['at'][11:16]} UTC, which is no longer kept"
    return f"since {run_in_words(since)}, which {since['how']} the page"


def _set_aside(aside: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for kind, count in aside["counts"].items():
        rows = [row for row in aside["rows"] if row["answer"] == kind]
        for row in rows[:_ROWS]:
            meaning = REASONS.get(row["reason"], "")
            source_loc = "" if row["loc"] is None else f"    {row['loc']}"
            yield kind, f"{row['section']}: {row_in_words(row)}{source_loc}" + (f"    {meaning}" if meaning else "")
        if count > min(len(rows), _ROWS):
            yield kind, f"and {count - min(len(rows), _ROWS):,} more rows"


def _later(later: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if later["listed"] is not None:
        would = f"would list it in section {later['listed']['section']}, lastmod {later['listed']['lastmod'] or 'none'}"
    else:
        would = "would not list it"
    yield "newest run", f"{run_in_words(later).removesuffix(',')}: {would}"
    yield from _set_aside(later["set_aside"])
    for near in later["nearest"]:
        yield "nearest", f"{near['loc']} (differs by {', '.join(near['differs'])})"
