"""The last runs of a site side by side: charts, a table, and the usual range of each count."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from statistics import median
from typing import Final

from markupsafe import Markup

from sitemap_etl.frozen import Frozen
from sitemap_etl.report.charts import Point, cells, columns, line
from sitemap_etl.report.paper import moment, number
from sitemap_etl.state.records import Answered, Attempt

SHOWN: Final = 30
"""Runs in a chart."""
_ENOUGH: Final = 7
"""Successful runs that a usual range needs."""
_REASONS: Final = 5
"""Reasons of rejected rows that have a chart, the most frequent ones."""
_FAR: Final = 0.25
_FEW: Final = 20
"""Distance from the median, as a share and in URLs, from which a value outside the usual range is unusual."""
_TONES: Final = {"partial": "attention", "refused": "bad", "failed": "bad", "interrupted": "bad"}
_ANSWERS: Final = {"accepted": "good", "nothing": "good", "skipped": "good", "partial": "attention"}


class Figure(Frozen):
    """A chart with its name, the value of the last run, the usual range, a remark on an unusual value, and its axes."""

    name: str
    value: str
    usual: str
    unusual: str
    picture: Markup
    first: str
    last: str
    scale: str = ""


class Night(Frozen):
    """A run in the table behind the pictures."""

    run_id: str
    when: str
    status: str
    tone: str
    report: str | None
    error: str
    counts: tuple[int | None, ...]
    seconds: float | None
    now: bool


class Around(Frozen):
    """The context of a run's page. `runs`: the runs to compare with and the run itself, oldest first.

    `root`: relative path of the folder of all reports. `earlier`, `later`: IDs of the neighboring runs with a page.
    """

    runs: Sequence[Attempt] = ()
    root: str = "../"
    earlier: str | None = None
    later: str | None = None


ALONE: Final = Around()
"""The context of a page without other runs."""


def links(around: Around) -> list[tuple[str, str]]:
    """Return links to other pages, as (text, address)."""
    if not around.runs:
        return []
    found = [("Earlier run", around.earlier), ("Later run", around.later)]
    ways = [(words, page_of(run_id, around.root)) for words, run_id in found if run_id is not None]
    return [*ways, ("Latest run", f"{around.root}latest.html"), ("All runs", f"{around.root}index.html")]


COLUMNS: Final = ("listed", "added", "changed", "removed", "rejected")
"""The counts that have a chart."""


def page_of(run_id: str, root: str) -> str:
    """Return the relative address of a run's page. `root`: `../` from another run's page, "" from the folder itself."""
    return f"{root}{run_id}/report.html"


def tone_of(status: str) -> str:
    """Return the tone of a status: good, attention or bad."""
    return _TONES.get(status, "good")


def counted(runs: Sequence[Attempt]) -> tuple[str, ...]:
    """Return the counts that have a chart and a column. Those that are zero in every run are left out."""
    return tuple(name for name in COLUMNS if name == "listed" or any(_count(run, name) for run in runs))


def nights(runs: Sequence[Attempt], own: str | None, root: str) -> list[Night]:
    """Return the runs for the table, newest first. `own`: the run whose page it is."""
    names = counted(runs)
    return [_night(run, own, root, names) for run in reversed(runs)]


def _night(run: Attempt, own: str | None, root: str, names: Sequence[str]) -> Night:
    return Night(
        run_id=run.run_id,
        when=moment(run.now),
        status=run.status.replace("_", " "),
        tone=tone_of(run.status),
        report=page_of(run.run_id, root) if run.report is not None else None,
        error=(run.error or "").partition("\n")[0].removeprefix("Refused: "),
        counts=tuple(_count(run, what) for what in names),
        seconds=run.seconds.get("total"),
        now=run.run_id == own,
    )


def figures(runs: Sequence[Attempt], own: str | None) -> list[Figure]:
    """Return charts of the counts of the runs, without those that are zero in every run.

    `runs`: oldest first.
    """
    return [_figure(runs, own, what, partial(_count, what=what)) for what in counted(runs)]


def reasons(runs: Sequence[Attempt], own: str | None) -> list[Figure]:
    """Return charts of the most frequent reasons of rejected rows."""
    total: Counter[str] = Counter()
    for run in runs:
        for found in run.rejected.values():
            total.update(found)

    def of(reason: str) -> Callable[[Attempt], int | None]:
        return lambda run: sum(found.get(reason, 0) for found in run.rejected.values()) if run.sections else None

    return [_figure(runs, own, reason, of(reason)) for reason, _ in total.most_common(_REASONS)]


def engines(runs: Sequence[Attempt], own: str | None) -> Iterator[Figure]:
    """Yield a row of cells for each engine, and charts of the errors and warnings that Search Console reports."""
    names = dict.fromkeys(name for run in runs for name in run.engines)
    for name in names:
        points = [_answer(run, run.engines.get(name), own) for run in runs]
        asked = [run.engines[name] for run in runs if name in run.engines]
        failed = sum(answer.failed for answer in asked)
        words = f"{name}: asked {len(asked)} times, failed {failed} times"
        last = next((run.engines[name].status for run in reversed(runs) if name in run.engines), "")
        yield Figure(name, last, f"failed in {failed} of {len(asked)} runs", "", cells(points, words), *_dates(runs))
    for what in ("errors", "warnings"):
        if any(_google(run, what) is not None for run in runs):
            yield _figure(runs, own, f"{what} that Google reports", partial(_google, what=what))


def usual_seconds(runs: Sequence[Attempt], own: str | None) -> dict[str, float]:
    """Return the median seconds of each stage in earlier successful runs."""
    earlier = [run for run in runs if run.good and run.run_id != own]
    stages = dict.fromkeys(stage for run in earlier for stage in run.seconds)
    return {stage: median(run.seconds[stage] for run in earlier if stage in run.seconds) for stage in stages}


def _google(run: Attempt, what: str) -> int | None:
    answer = run.engines.get("search_console")
    indexes = {} if answer is None else answer.details.get("indexes")
    if not isinstance(indexes, dict):
        return None
    found = [one.get(what) for one in indexes.values() if isinstance(one, dict)]
    counts = [int(one) for one in found if isinstance(one, int | float)]
    return sum(counts) if counts else None


def _count(run: Attempt, what: str) -> int | None:
    return run.total.of(what) if run.sections else None


def _answer(run: Attempt, answer: Answered | None, own: str | None) -> Point:
    said = "not asked" if answer is None else answer.status
    tone = _ANSWERS.get(said, "bad")
    return Point(None if answer is None else 1, f"{moment(run.now)}: {said}", tone, run.run_id == own)


def _figure(runs: Sequence[Attempt], own: str | None, name: str, value_of: Callable[[Attempt], int | None]) -> Figure:
    points = [_point(run, value_of(run), own) for run in runs]
    mine = next((value_of(run) for run in runs if run.run_id == own), None)
    if own is None and runs:
        mine = value_of(runs[-1])
    earlier = [value for run in runs if run.good and run.run_id != own and (value := value_of(run)) is not None]
    usual, unusual = "", ""
    if len(earlier) >= _ENOUGH:
        low, high = min(earlier), max(earlier)
        usual = f"usually {low:,}" if low == high else f"usually {low:,} to {high:,}"
        unusual = _unusual(mine, earlier)
    shown = "–" if mine is None else number(mine)
    label = f"{name}: {shown}{f', {usual}' if usual else ''}; {len(runs)} runs"
    draw = line if name == "listed" else columns
    values = [point.value for point in points if point.value is not None]
    top = max(values, default=0.0)
    bottom = min(values, default=0.0) if draw is line else 0.0
    scale = "" if not values else f"{bottom:,.0f} to {top:,.0f}" if bottom != top else f"{top:,.0f}"
    return Figure(name, shown, usual, unusual, draw(points, label), *_dates(runs), scale)


def _dates(runs: Sequence[Attempt]) -> tuple[str, str]:
    """Return the days of the first and the last run of a chart."""
    return runs[0].now[:10], runs[-1].now[:10]


def _unusual(value: int | None, earlier: Sequence[int]) -> str:
    if value is None or min(earlier) <= value <= max(earlier):
        return ""
    middle = median(earlier)
    if abs(value - middle) <= max(_FEW, _FAR * middle):
        return ""
    return "unusually many" if value > middle else "unusually few"


def _point(run: Attempt, value: int | None, own: str | None) -> Point:
    said = run.status.replace("_", " ") if value is None or run.status in _TONES else ""
    words = ", ".join(text for text in (f"{value:,}" if value is not None else "", said) if text)
    return Point(value, f"{moment(run.now)}: {words}", tone_of(run.status), run.run_id == own)
