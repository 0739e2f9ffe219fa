"""Charts as inline SVG: plain rectangles and lines in the page's own colors, with every value as text.

A chart stretches to the width of its place, so its scale and its dates are text below it. All text is escaped, and
nothing is fetched.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from markupsafe import Markup, escape

from sitemap_etl.frozen import Frozen

STEP: Final = 10
"""Width of a point, in units of the chart."""
HEIGHT: Final = 40
_MARK: Final = 4
"""Height of the strip below the chart that marks runs without success."""
_LEAST: Final = 1.5
"""Height of the smallest column that is not zero."""


class Point(Frozen):
    """A run in a chart. `value`: None if the run has none. `words`: its description. `tone`: good, attention or bad.

    `now`: True for the page's own run. `apart`: True if the value says nothing about the others, as in a first publish.
    """

    value: float | None
    words: str
    tone: str = "good"
    now: bool = False


def columns(points: Sequence[Point], label: str) -> Markup:
    """Return a chart with a column for each run, from zero to the greatest. A run that failed has a mark below it."""
    most = max((point.value or 0 for point in points), default=0) or 1
    return _picture(points, label, [_column(at, point, most) for at, point in enumerate(points)])


def line(points: Sequence[Point], label: str) -> Markup:
    """Return a line between the least and the greatest value, for values that hardly change."""
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
    shapes.append(f'<polyline class="line" points="{drawn}"/>')
    if places and points[-1].value is not None:
        x, y = places[-1]
        shapes.append(f'<rect class="point" x="{x - 2:g}" y="{y - 2:.1f}" width="4" height="4"/>')
    return _picture(points, label, shapes)


def cells(points: Sequence[Point], label: str) -> Markup:
    """Return a chart with a cell for each run in the color of its tone. A run without a value has an empty cell."""
    shapes = [
        f'<rect class="cell {point.tone if point.value is not None else "none"}" x="{at * STEP + 1}" y="8" '
        f'width="{STEP - 2}" height="{HEIGHT - 16}"><title>{escape(point.words)}</title></rect>'
        for at, point in enumerate(points)
    ]
    return _picture(points, label, shapes)


def _column(at: int, point: Point, most: float) -> str:
    height = 0.0 if not point.value else max(_LEAST, HEIGHT * point.value / most)
    place = f'x="{at * STEP}" y="0" width="{STEP}" height="{HEIGHT}"'
    shapes = [f'<g><title>{escape(point.words)}</title><rect class="place" {place}/>']
    if point.tone != "good":
        mark = f'x="{at * STEP + 1}" y="{HEIGHT + 1}" width="{STEP - 2}" height="{_MARK - 1}"'
        shapes.append(f'<rect class="mark {point.tone}" {mark}/>')
    if height:
        shapes.append(
            f'<rect class="column{" now" if point.now else ""}" x="{at * STEP + 1}" y="{HEIGHT - height:.1f}" '
            f'width="{STEP - 2}" height="{height:.1f}"/>'
        )
    return "".join([*shapes, "</g>"])


def _picture(points: Sequence[Point], label: str, shapes: Sequence[str]) -> Markup:
    width = max(1, len(points)) * STEP
    head = f'<svg class="chart" viewBox="0 0 {width} {HEIGHT + _MARK}" preserveAspectRatio="none" role="img" '
    base = f'<line class="base" x1="0" y1="{HEIGHT}" x2="{width}" y2="{HEIGHT}"/>'
    # Words and labels are escaped. The rest is numbers and our own names. Markup.format would be ten times as slow, and
    # a page has thousands of points.
    return Markup(f'{head}aria-label="{escape(label)}">{"".join(shapes)}{base}</svg>')  # noqa: S704
