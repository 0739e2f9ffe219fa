"""A rule that depends on the time is applied in every run, even to unchanged rows."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from sitemap_etl import transform
from sitemap_etl.arrow import mask_of
from sitemap_etl.duckdb_session import names_the_time
from sitemap_etl.transform import Rules
from sitemap_etl.transform.batch import Batch
from tests.support.catalog import of_pages
from tests.support.lake import Delta, rows
from tests.support.sites import FIRST_NIGHT, TestSite

OLD = "older than 30 days"
OPEN = {"max_drop": 1, "max_growth": 99, "min_urls": 0}
DATES = [f"{FIRST_NIGHT - timedelta(days=age):%Y-%m-%d}" for age in (0, 29)]
"""Dates of two pages. The first two runs list both, the third one only the first."""


@pytest.fixture
def rule(monkeypatch: pytest.MonkeyPatch) -> None:
    """Add a rule that drops URLs older than 30 days, if rules are enabled."""
    real = transform._exclude_by_rule

    def with_age(batch: Batch, loc: pa.Array, rules: Rules) -> pa.Array:
        loc = real(batch, loc, rules)
        oldest = f"{rules.now - timedelta(days=30):%Y-%m-%d}"
        dates = batch.table.column("lastmod").cast(pa.string())
        stay = batch.drop(mask_of(pc.less(dates, oldest)), OLD, batch.excluded, loc)
        return loc if stay is None else loc.filter(pa.array(stay))

    monkeypatch.setattr(transform, "_exclude_by_rule", with_age)


def export(folder: Path) -> TestSite:
    site = TestSite(folder, gates=OPEN)
    return site.section("p", [{"loc": f"/p/{n}", "lastmod": date} for n, date in enumerate(DATES)])


def mirror(folder: Path) -> TestSite:
    site = of_pages(folder)
    site.keys["gates"] = OPEN
    site.sql("DELETE FROM pages WHERE id NOT IN (1, 2)")
    for number, date in enumerate(DATES, 1):
        site.sql(f"UPDATE pages SET lastmod = '{date}' WHERE id = {number}")
    return site


def delta(folder: Path) -> TestSite:
    table = Delta(str(folder / "lake" / "products"), feed=False)
    some = rows(0, 2)
    table.append(some.set_column(some.schema.get_field_index("lastmod"), "lastmod", pa.array(DATES)))
    site = TestSite(folder / "site", gates=OPEN)
    site.keys["sections"]["p"] = {"from": table.source}
    return site


@pytest.mark.usefixtures("rule")
@pytest.mark.parametrize("make", [export, mirror, delta])
def test_a_rule_that_depends_on_the_time_is_applied_to_unchanged_rows(
    tmp_path: Path, make: Callable[[Path], TestSite]
) -> None:
    site = make(tmp_path)
    found = []
    for night in (1, 2, 3, 4):
        (counts,) = site.night(night).summary.sections.values()
        found.append((counts.listed, counts.excluded))
    assert found == [(2, 0), (2, 0), (1, 1), (1, 1)]


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("lastmod < now()", True),
        ("lastmod < CURRENT_DATE", True),
        ("lastmod < ago('30 days')", True),
        ("age(lastmod) < INTERVAL 1 DAY", True),
        ("random() < 0.5", True),
        ("age < 30 AND today = 'yes'", False),
        ("b.now > 1 -- now()", False),
        ("title <> 'now()'", False),
        ("SELECT loc, now() AS lastmod FROM source", True),
        ("SELECT loc, age FROM source WHERE lastmod > :since::TIMESTAMP;", False),
        ("this is no SQL (", True),
    ],
)
def test_sql_functions_of_time_are_found_but_not_columns_with_their_names(sql: str, expected: bool) -> None:
    assert names_the_time(sql) is expected
