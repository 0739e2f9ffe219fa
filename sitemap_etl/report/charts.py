"""Small pictures as inline SVG: plain rectangles and lines in the page's own colours, each with its figures as text.

They stretch to the width of their place. Every text in them is escaped; nothing is fetched.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup, escape

STEP: Final = 10
"""Width of a point, in units of the picture."""
HEIGHT: Final = 40
_LEAST: Final = 1.5
"""Height of the smallest column that is not nothing."""


@dataclass(frozen=True)
class Point:
    """A run in a picture. `value`: None where it has none. `words`: said of it; `tone`: good, attention or bad."""

    value: float | None
    words: str
    tone: str = "good"
    now: bool = False


def columns(points: Sequence[Point], label: str) -> Markup:
    """A column for each run, from nothing to the greatest; a run that failed is marked over the whole height."""
    most = max((point.value or 0 for point in points), default=0) or 1
    return _picture(points, label, [_column(at, point, most) for at, point in enumerate(points)])


def line(points: Sequence[Point], label: str) -> Markup:
    """A line between the least and the greatest value: for what hardly changes."""
    values = [point.value for point in points if point.value is not None]
    low, high = (min(values), max(values)) if values else (0.0, 0.0)
    span = (high - low) or 1
    places = [
        (at * STEP + STEP / 2, HEIGHT - 4 - (HEIGHT - 8) * (point.value - low) / span if high > low else HEIGHT / 2)
        for at, point in enumerate(points)
        if point.value is not None
    ]
    drawn = " ".join(f"{x:g},{y:.1f}" for x, y in places)
    shapes = [_column(at, Point(None, point.words, point.tone, point.now), 1) for at, point in enumerate(points)]
    shapes.append(Markup('<polyline class="line" points="{}"/>').format(drawn))
    if places and points[-1].value is not None:
        x, y = places[-1]
        shapes.append(
            Markup('<rect class="point" x="{}" y="{}" width="4" height="4"/>').format(f"{x - 2:g}", f"{y - 2:.1f}")
        )
    return _picture(points, label, shapes)


def cells(points: Sequence[Point], label: str) -> Markup:
    """A cell for each run in the colour of its tone; one without a value is empty."""
    shapes = [
        Markup('<rect class="cell {}" x="{}" y="8" width="{}" height="{}"><title>{}</title></rect>').format(
            point.tone if point.value is not None else "none", at * STEP + 1, STEP - 2, HEIGHT - 16, point.words
        )
        for at, point in enumerate(points)
    ]
    return _picture(points, label, shapes)


def _column(at: int, point: Point, most: float) -> Markup:
    height = 0.0 if not point.value else max(_LEAST, HEIGHT * point.value / most)
    parts = [
        Markup('<g><title>{}</title><rect class="place" x="{}" y="0" width="{}" height="{}"/>').format(
            point.words, at * STEP, STEP, HEIGHT
        )
    ]
    if point.tone != "good":
        parts.append(
            Markup('<rect class="mark {}" x="{}" y="0" width="{}" height="{}"/>').format(
                point.tone, at * STEP, STEP, HEIGHT
            )
        )
    if height:
        parts.append(
            Markup('<rect class="column{}" x="{}" y="{}" width="{}" height="{}"/>').format(
                " now" if point.now else "", at * STEP + 1, f"{HEIGHT - height:.1f}", STEP - 2, f"{height:.1f}"
            )
        )
    return Markup("").join([*parts, Markup("</g>")])


def _picture(points: Sequence[Point], label: str, shapes: Sequence[Markup]) -> Markup:
    width = max(1, len(points)) * STEP
    head = Markup(
        '<svg class="chart" viewBox="0 0 {} {}" preserveAspectRatio="none" role="img" aria-label="{}">'
    ).format(width, HEIGHT, escape(label))
    base = Markup('<line class="base" x1="0" y1="{0}" x2="{1}" y2="{0}"/>').format(HEIGHT, width)
    return Markup("").join([head, *shapes, base, Markup("</svg>")])
