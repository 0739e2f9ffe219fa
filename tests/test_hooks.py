"""`where:` and `transform:`: user code over the rows, with its contract enforced."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from sitemap_etl import limits
from sitemap_etl.errors import ConfigError, InvalidSource
from sitemap_etl.stages.rules import rules_of
from sitemap_etl.transform.batch import says_yes
from sitemap_etl.transform.hooks import where_mask
from tests.support.catalog import of_pages
from tests.support.sites import TestSite, pages

HOOKS = """
import pandas as pd

def half(frame):
    return frame[frame["price"].astype(int) % 2 == 0]

def renamed(frame):
    frame["loc"] = frame["loc"] + "?v=2"
    return frame

def shuffled(frame):
    return frame.sample(frac=1, random_state=3)

def added(frame):
    return pd.concat([frame, frame])

def reset(frame):
    return frame.iloc[1:].reset_index(drop=True)

def invented(frame):
    return pd.DataFrame({"loc": ["/x"]}, index=[10_000])

def without_loc(frame):
    return frame.drop(columns="loc")

def numbers(frame):
    frame["loc"] = 1
    return frame

def nothing(frame):
    return None

def mixed(frame):
    frame["extra"] = [{"a": 1}] + ["text"] * (len(frame) - 1)
    return frame

def some_have_images(frame):
    return frame.assign(images='["/i/1.jpg"]') if (frame["n"] >= 200_000).any() else frame

def broken(frame):
    raise RuntimeError("no connection to the price service")

def twice(frame):
    return pd.concat([frame, frame[["price"]]], axis=1)

def large(frame):
    frame["extra"] = 2**70
    return frame

def empty(frame):
    frame["loc"] = None
    return frame

def joined(frame):
    frame.index = frame.index.astype(float)
    return frame

def leaving(frame):
    raise SystemExit(5)

def seasonal(frame):
    first = frame["loc"].iloc[0]
    frame["season"] = frame["loc"].str.len().apply(lambda length: "winter" if length % 2 else "summer")
    return frame.assign(seen=frame["price"].astype(int))

def priced(frame):
    return frame.assign(season=frame["loc"].str.upper())

def built(frame):
    return pd.DataFrame([row for row in frame.to_dict("records") if int(row["price"]) < 0])

def drops_all(frame):
    return frame.iloc[:0]

def empty_columns(frame):
    return pd.DataFrame({"loc": []})

def without_price(frame):
    return frame.drop(columns="price")

not_a_function = 7
"""


@pytest.fixture
def site(tmp_path: Path) -> Iterator[TestSite]:
    (tmp_path / "shop_hooks.py").write_text(HOOKS)
    sys.path.insert(0, str(tmp_path))
    sys.modules.pop("shop_hooks", None)
    yield TestSite(tmp_path).section("p", pages(10, price=lambda n: n))
    sys.path.remove(str(tmp_path))


def run_with(site: TestSite, hook: str) -> dict[str, int]:
    site.section("p", transform=f"shop_hooks:{hook}")
    return site.night(1).summary.sections["p"]


def test_a_hook_module_of_the_working_folder_precedes_others_of_its_name(
    site: TestSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("elsewhere", "here"):
        (site.folder / name).mkdir()
        (site.folder / name / "twice_there.py").write_text(f"def hook(frame):\n    raise RuntimeError('{name}')\n")
    monkeypatch.syspath_prepend(str(site.folder / "elsewhere"))
    monkeypatch.chdir(site.folder / "here")
    site.section("p", transform="twice_there:hook")
    with pytest.raises(InvalidSource, match="here"):
        site.night(1)


def test_rows_that_do_not_match_where_are_excluded(site: TestSite) -> None:
    site.section("p", where="price::int < 3")
    counts = site.night(1).summary.sections["p"]
    assert (counts.listed, counts.excluded) == (3, 7)


def test_where_uses_renamed_columns_and_null_is_false(site: TestSite) -> None:
    site.section("p", [{"url": "/a", "cost": "1"}, {"url": "/b", "cost": ""}], columns={"loc": "url", "price": "cost"})
    site.keys["sections"]["p"]["where"] = "price::int = 1"
    assert site.night(1).summary.sections["p"].listed == 1


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("nope > 1", r"section p: where: 'nope > 1' can't be evaluated.*columns are: loc, price"),
        ("price::int", r"where: 'price::int' must be true or false, but its type is int32"),
        ("price >", "can't be evaluated"),
        ("(select count(*) from read_csv('/etc/passwd')) > 0", "can't be evaluated"),
        (
            "row_number() over (partition by price order by loc) = 1",
            r"row_number looks at several rows, and `where` sees",
        ),
        ("count(*) > 1", r"count_star looks at several rows"),
        ("loc not in (select unnest(['/p/000001']))", r"it has several SELECTs in it.* SELECT of the source"),
        ("unnest([true, false])", r"unnest makes several rows of one"),
    ],
)
def test_an_invalid_where_is_reported(site: TestSite, where: str, message: str) -> None:
    site.section("p", where=where)
    with pytest.raises(InvalidSource, match=f"(?s){message}"):
        site.night(1)


def test_where_is_applied_to_the_right_rows_across_batches(site: TestSite) -> None:
    rows = pa.table({"loc": [f"/p/{n}" for n in range(400_000)], "n": range(400_000)})
    loaded = site.section("p", where="n % 7 <> 3").load()
    rules = rules_of(loaded, loaded.sections["p"], datetime.now(UTC), None)
    assert (where_mask(rows, rules) == (np.arange(400_000) % 7 != 3)).all()


@pytest.mark.parametrize("zone", ["Asia/Tokyo", "America/New_York"])
def test_the_time_zone_of_where_is_utc_on_every_machine(site: TestSite, zone: str) -> None:
    late = datetime(2026, 1, 2, 23, 30, tzinfo=UTC)
    site.export("p", [{"loc": "/a", "seen": late}, {"loc": "/b", "seen": late + timedelta(hours=1)}])
    site.section("p", where="seen::date >= date '2026-01-03'")
    command = [sys.executable, "-m", "sitemap_etl", "run", site.path]
    done = subprocess.run(command, env={**os.environ, "TZ": zone}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert [loc[-2:] for loc in site.public().locs()] == ["/b"]


def test_a_hook_can_change_the_type_of_the_index(site: TestSite) -> None:
    assert run_with(site, "joined").listed == 10


def test_rows_left_without_a_loc_by_a_hook_are_rejected(site: TestSite) -> None:
    site.keys["gates"] = {"max_rejected": 1, "min_urls": 0}
    assert run_with(site, "empty").rejected == 10


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ({"lastmod": {"fingerprint": ["url"]}}, "uses column 'url', which `columns` renames: it is called 'loc' here"),
        (
            {"lastmod": {"fingerprint": ["nope"]}},
            r"'nope', which the source \(.*p\.csv\) does not have. It has: loc, price",
        ),
    ],
)
def test_rules_use_the_names_that_columns_defines(site: TestSite, rule: dict[str, Any], message: str) -> None:
    site.export("p", [{"url": "/a", "price": 1}])
    site.section("p", columns={"loc": "url"}, **rule)
    with pytest.raises(InvalidSource, match=message):
        site.night(1)


def test_text_in_a_flag_column_is_true_unless_it_means_no() -> None:
    unset = ["0", "0.0", "-0", ".0", "0e0", " false ", "F", "", None]
    values = ["1", "0.1", "yes", "1e0", ".", "00:00", *unset]
    assert says_yes(pa.array(values)).tolist() == [True] * 6 + [False] * len(unset)


def test_rows_dropped_by_a_hook_are_excluded_with_its_name(site: TestSite) -> None:
    counts = run_with(site, "half")
    assert (counts.listed, counts.excluded) == (5, 5)
    assert {entry.loc[-1] for entry in site.public().entries()} == set("02468")


@pytest.mark.parametrize("room", [0, 8_000_000, 10**9], ids=["files", "some of both", "memory"])
def test_a_hook_can_add_a_column_in_some_batches_only(
    site: TestSite, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    monkeypatch.setattr(limits, "RESIDENT_BYTES", room)
    numbers = np.arange(270_000)
    locs = pc.binary_join_element_wise("/p/", pa.array(numbers).cast(pa.string()), "")
    pq.write_table(pa.table({"loc": locs, "n": numbers}), site.folder / "all.parquet")
    site.section("all", transform="shop_hooks:some_have_images", priority={"percentile_of": "n"})
    site.keys["sections"]["all"]["from"] = {"parquet": "./all.parquet"}
    assert site.night(1).summary.sections["all"].listed == len(numbers)
    with_images = sum(data.count(b"<image:image>") for data in site.public().contents().values())
    assert 0 < with_images < len(numbers)


EMPTY_SOURCES = {
    "csv": lambda folder: (folder / "e.csv").write_text("loc,price\n"),
    "parquet": lambda folder: pq.write_table(pa.table({"loc": ["/a"], "price": [1]}).slice(1), folder / "e.parquet"),
    "where": lambda folder: (folder / "e.jsonl").write_text('{"loc": "/a", "price": 1}'),
    "sql": lambda folder: (folder / "e.csv").write_text("loc,price\n/a,1\n"),
}


@pytest.mark.parametrize("kind", EMPTY_SOURCES)
@pytest.mark.parametrize("rule", [{"fingerprint": ["season", "seen"]}, "seen"])
def test_a_hook_is_not_called_without_rows(site: TestSite, kind: str, rule: Any) -> None:
    """Its columns, which a rule names, are then missing."""
    EMPTY_SOURCES[kind](site.folder)
    form = {"sql": "csv", "where": "jsonl"}.get(kind, kind)
    source = {form: f"./e.{form}"}
    if kind == "sql":
        source["query"] = "SELECT * FROM source WHERE price = '2'"
    keys = {"where": "false"} if kind == "where" else {}
    lastmod = rule if isinstance(rule, dict) else {"column": rule, "unit": "s"}
    site.keys["sections"]["e"] = {"from": source, "transform": "shop_hooks:seasonal", "lastmod": lastmod, **keys}
    site.keys["sections"]["e"]["gates"] = {"min_urls": 0}
    counts = site.night(1).summary.sections["e"]
    assert (counts.listed, counts.rejected, counts.excluded) == (0, 0, counts.extracted)


def test_an_incremental_read_without_rows_does_not_call_a_hook(site: TestSite) -> None:
    catalog = of_pages(site.folder / "catalog")
    catalog.read("pages", transform="shop_hooks:priced", lastmod={"fingerprint": ["season"]})
    catalog.night(1)
    before = catalog.public().contents()
    catalog.sql("UPDATE pages SET touched = '2020-01-01'")
    done = catalog.night(2)
    assert (done.summary.sections["pages"].extracted, done.summary.sections["pages"].carried) == (0, 100)
    assert catalog.public().contents() == before


@pytest.mark.parametrize("hook", ["built", "drops_all", "empty_columns"])
def test_a_hook_can_drop_all_rows_and_columns(site: TestSite, hook: str) -> None:
    site.section("p", transform=f"shop_hooks:{hook}", lastmod={"fingerprint": ["price"]}, gates={"min_urls": 0})
    counts = site.night(1).summary.sections["p"]
    assert (counts.listed, counts.rejected, counts.excluded) == (0, 0, 10)


def test_a_column_dropped_by_a_hook_is_reported_with_the_rule_that_reads_it(site: TestSite) -> None:
    site.section("p", transform="shop_hooks:without_price", lastmod={"fingerprint": ["price"]})
    with pytest.raises(InvalidSource, match=r"uses column 'price', which `transform` dropped\. It returned: loc"):
        site.night(1)


def test_a_hook_can_change_rows_and_their_order(site: TestSite) -> None:
    run_with(site, "renamed")
    assert all(loc.endswith("?v=2") for loc in site.public().locs())


def test_a_rejected_url_has_the_right_source_row_after_a_hook_shuffled_rows(site: TestSite) -> None:
    rows = pages(10, price=1)
    rows[7]["loc"] = "https://elsewhere.example/"
    site.export("p", rows)
    site.section("p", transform="shop_hooks:shuffled", gates={"max_rejected": 1})
    run_id = site.night(1).run.run_id
    import pyarrow.parquet as pq

    table = pq.read_table(site.folder / "work" / "shop" / "reports" / run_id / "rejected.parquet")
    assert table.column("row").to_pylist() == [8]  # from 0, below the header


@pytest.mark.parametrize(
    ("hook", "message"),
    [
        (
            "added",
            r"transform shop_hooks:added returned rows that it did not get: a hook may .* not add any",
        ),
        ("reset", r"transform shop_hooks:reset .*keep\s+the index"),
        ("invented", r"transform shop_hooks:invented returned rows that it did not get"),
        ("without_loc", r"transform shop_hooks:without_loc dropped the column 'loc'.*It returned: price"),
        ("numbers", r"transform shop_hooks:numbers returned the column 'loc' as int64, expected text"),
        ("nothing", r"transform shop_hooks:nothing returned NoneType, expected a DataFrame"),
        ("mixed", r"transform shop_hooks:mixed returned a column with values of several types.*extra"),
        ("broken", r"transform shop_hooks:broken raised RuntimeError: no connection to the price service"),
        ("twice", r"transform shop_hooks:twice returned the column 'price' more than once"),
        ("large", r"transform shop_hooks:large returned a column with whole numbers of more than 64"),
        ("leaving", r"transform shop_hooks:leaving raised SystemExit: 5"),
    ],
)
def test_an_invalid_result_of_a_hook_is_reported_with_name_column_and_rule(
    site: TestSite, hook: str, message: str
) -> None:
    with pytest.raises(InvalidSource, match=f"(?s)section p: {message}"):
        run_with(site, hook)
    assert not (site.folder / "public").exists()


@pytest.mark.parametrize("hook", ["shop_hooks:missing", "no_such_module:f", "shop_hooks:not_a_function"])
def test_a_hook_that_cannot_be_imported_is_an_error_in_the_site_file(site: TestSite, hook: str) -> None:
    site.section("p", transform=hook)
    with pytest.raises(ConfigError, match=r"sections\.p\.transform"):
        site.night(1)
