"""Dates of one batch job: the densest hour among new lastmods, the warning and the gate."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sitemap_etl.lastmod import Minutes
from sitemap_etl.lastmod.hours import KEPT
from tests.support.gates import by_name
from tests.support.sites import FIRST_NIGHT, TestSite, pages

LOAD = datetime(2026, 11, 1, 22, 52, tzinfo=UTC)
"""When a batch job begins that is over 17 minutes later: a full hour is between."""


def old(n: int) -> str:
    return f"{FIRST_NIGHT - timedelta(days=40, hours=n % 700, seconds=n):%Y-%m-%dT%H:%M:%SZ}"


def loaded(n: int) -> str:
    """Return the time at which the job writes row n, one of 5,000."""
    return f"{LOAD + timedelta(seconds=n * 17 * 60 // 5_000):%Y-%m-%dT%H:%M:%SZ}"


def redated(folder: Path, count: int, new: Any, of: int | None = None, **keys: Any) -> TestSite:
    """Return a site that has published `of` (all) pages; its export dates the first `count` of them with `new`."""
    of = count if of is None else of
    site = TestSite(folder).section("p", pages(of, lastmod=old, body="one"), **keys)
    assert site.night(1).summary.status == "published"
    site.export("p", pages(of, lastmod=lambda n: new(n) if n < count else old(n), body="two"))
    return site


def about_hours(done: Any) -> list[str]:
    return [warning for warning in done.summary.warnings if "one hour" in warning]


def test_dates_of_one_batch_job_are_a_warning_with_the_hour_and_the_share(tmp_path: Path) -> None:
    done = redated(tmp_path, 5_000, loaded).night(2)
    assert done.summary.status == "published"
    (warning,) = about_hours(done)
    assert warning.startswith(
        "p: 5,000 of 5,000 pages that have a lastmod (100 %) get a new one within one hour, from 2026-11-01T22:52Z"
    )
    assert "p.max_same_hour" not in by_name(done)


def test_the_gate_refuses_dates_of_one_batch_job_until_it_is_forced(tmp_path: Path) -> None:
    site = redated(tmp_path, 3_000, loaded, of=5_000, gates={"max_same_hour": 0.5})
    before = site.public().objects()
    refused = site.night(2)
    assert refused.summary.error.splitlines()[0] == (
        "Refused: p would set the lastmod of 3,000 of 5,000 pages that have one to the same hour, from "
        "2026-11-01T22:52Z (60 %, max_same_hour is 50 %). Nothing public was touched."
    )
    assert "sitemap-etl explain" in refused.summary.error
    assert "--force p.max_same_hour --reason" in refused.summary.error
    assert site.public().objects() == before
    forced = site.night(3, force=("p.max_same_hour",), reason="a new template")
    assert forced.summary.status == "published"
    assert about_hours(forced) == []


def test_the_gate_of_the_site_adds_its_sections(tmp_path: Path) -> None:
    site = TestSite(tmp_path, gates={"max_same_hour": 0.5})
    for night, date in ((1, old), (2, loaded)):
        for name, start in (("a", 0), ("b", 2_000), ("c", 4_000)):
            site.section(name, pages(900, start, lastmod=date))
        done = site.night(night)
    assert [gate.name for gate in done.summary.gates if gate.status == "refused"] == ["max_same_hour"]
    assert "the site would set the lastmod of 2,700 of 2,700 pages" in done.summary.error


@pytest.mark.parametrize("gate", [None, 0.5])
@pytest.mark.parametrize(
    ("count", "of", "new"),
    [
        (900, 5_000, loaded),  # ordinary edits
        (2_500, 5_000, loaded),  # not more than half
        (999, 999, loaded),  # a small section
        (5_000, 5_000, lambda n: f"2026-10-{n % 28 + 1:02}"),  # dates without a time of day
        (1_500, 1_500, lambda n: f"{LOAD - timedelta(minutes=n):%Y-%m-%dT%H:%M:%SZ}"),  # edits over a day
    ],
)
def test_ordinary_dates_pass_the_gate_on_batch_dates(
    tmp_path: Path, gate: float | None, count: int, of: int, new: Any
) -> None:
    gates = {} if gate is None else {"max_same_hour": gate}
    done = redated(tmp_path, count, new, of, gates=gates).night(2)
    assert done.summary.status == "published", done.summary.error
    assert about_hours(done) == []


def test_first_releases_pass_the_gate_on_batch_dates(tmp_path: Path) -> None:
    site = TestSite(tmp_path, gates={"max_same_hour": 0.5, "max_growth": 9})
    site.section("p", pages(2_000, lastmod=loaded))
    site.store.time = FIRST_NIGHT
    assert site.night(2).summary.status == "published"
    site.section("p", pages(6_000, lastmod=loaded)).section("q", pages(3_000, 10_000, lastmod=lambda _: loaded(1)))
    done = site.night(3)
    assert done.summary.status == "published", done.summary.error
    assert about_hours(done) == []


def test_fingerprints_and_views_pass_the_gate_on_batch_dates(tmp_path: Path) -> None:
    """A section with fingerprints has the time of the run; a view repeats dates of other sections."""
    rule = {"fingerprint": ["body"], "until_changed": "lastmod"}
    site = redated(tmp_path, 2_000, old, lastmod=rule, gates={"max_same_hour": 0.1})
    site.keys["gates"] = {"max_same_date": 1, "max_same_hour": 0.1}
    site.section("v", pages(2_000, 5_000, lastmod=old), view=True)
    assert site.night(2).summary.status == "published"
    site.section("v", pages(2_000, 5_000, lastmod=loaded), view=True)
    done = site.night(3)
    assert done.summary.status == "published", done.summary.error
    assert about_hours(done) == []


def test_one_date_for_all_pages_is_reported_by_one_gate_only(tmp_path: Path) -> None:
    done = redated(tmp_path, 2_000, lambda _: loaded(0)).night(2)
    assert [gate.name for gate in done.summary.gates if gate.status == "refused"] == [
        "p.max_same_date",
        "max_same_date",
    ]
    assert about_hours(done) == []


# --- the counts ---------------------------------------------------------------------------------

SECONDS = st.lists(st.integers(0, 4 * 3_600) | st.integers(0, 10_000_000), max_size=60)


def texts(seconds: list[int]) -> pa.Array:
    return pa.array([f"{datetime.fromtimestamp(each, UTC):%Y-%m-%dT%H:%M:%SZ}" for each in seconds], pa.string())


@given(SECONDS)
def test_the_densest_hour_can_begin_at_any_minute(seconds: list[int]) -> None:
    minutes = Counter(each // 60 for each in seconds)
    most = max((sum(minutes[begin + step] for step in range(60)) for begin in minutes), default=0)
    hour, count = Minutes.of(texts(seconds)).densest_hour()
    assert count == most
    if most:
        begin = int(datetime.fromisoformat(hour).timestamp()) // 60
        assert sum(minutes[begin + step] for step in range(60)) == most


@given(st.lists(SECONDS, max_size=5))
def test_counts_per_minute_of_parts_add_up_to_the_whole(parts: list[list[int]]) -> None:
    whole = Minutes.of(texts([each for part in parts for each in part]))
    found = sum((Minutes.stored(Minutes.of(texts(part)).to_store()) for part in parts), Minutes.none())
    assert found == whole
    assert hash(found) == hash(whole)


def test_dates_without_time_and_nulls_are_not_counted() -> None:
    dates = pa.array(["2026-11-01", None, "2026-11-01T00:00:00Z"])
    assert Minutes.of(dates).to_store() == {"2026-11-01T00:00": 1}
    assert Minutes.of(pa.array([], pa.string())).densest_hour() == ("", 0)
    assert Minutes.none() != Counter()


def test_bounded_counts_still_find_the_densest_hour() -> None:
    """20,000 dates in as many minutes, and 20,000 within 17 minutes."""
    spread = [n * 60 for n in range(20_000)]
    batch = [7_000_000 + n % 1_020 for n in range(20_000)]
    stored = Minutes.of(texts(spread + batch)).to_store()
    assert len(stored) == KEPT
    hour, count = Minutes.stored(stored).densest_hour()
    assert (hour, count) == ("1970-03-23T00:26Z", 20_000)
