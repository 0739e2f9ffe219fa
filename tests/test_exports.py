"""Sites whose sections are exports other than plain CSV, in whole runs and as tasks of a scheduler."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from sitemap_etl.config import load
from sitemap_etl.errors import InvalidSource, Refused
from sitemap_etl.explain.answers import json_of
from sitemap_etl.explain.explain import explain
from sitemap_etl.runs import tasks
from sitemap_etl.runs.validate import problems_of
from sitemap_etl.stages.run import Environment
from sitemap_etl.state.records import Options
from tests.support.sites import TestSite

SECRET = "a-secret-word"


def lines(path: Path, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    data = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)


@pytest.fixture
def shop(tmp_path: Path) -> TestSite:
    """Products in JSON lines in a folder per day, and a stock list from a spreadsheet."""
    site = TestSite(tmp_path, urls={"respect_robots": False})
    site.environment = Environment(environ={"SHOP": SECRET})
    for day, begin in (("2026-10-01", 0), ("2026-10-02", 25)):
        rows = [
            {"loc": f"/p/{n}", "sku": n, "images": [f"/i/{n}.jpg"], "alternates": {"de": f"/p/{n}", "en": f"/en/{n}"}}
            for n in range(begin, begin + 25)
        ]
        lines(tmp_path / f"products/day={day}/part-0.jsonl.gz", rows)
    (tmp_path / "products/_SUCCESS").touch()
    stock = "Artikel;Größe;Geändert am\r\n" + "".join(f"{n};{n % 10};0{n % 9 + 1}.10.2026\r\n" for n in range(50))
    (tmp_path / "stock.csv").write_bytes(stock.encode("cp1252"))
    site.keys["sections"]["products"] = {"from": {"jsonl": "./products"}, "lastmod": "day"}
    return site


def over(site: TestSite, query: str, **keys: Any) -> None:
    """Give the section a SELECT."""
    stock = {"csv": "./stock.csv", "delimiter": ";", "encoding": "cp1252"}
    source = {"jsonl": "./products", "tables": {"stock": stock}, "query": query, "params": {"shop": "${SHOP}"}}
    site.keys["sections"]["products"] = {"from": source, **keys}


JOINED = """
    SELECT source.loc, stock."Geändert am" AS changed FROM source JOIN stock ON stock."Artikel"::INT = source.sku
    WHERE stock."Größe"::INT > 0 AND :now > '2026-01-01' AND :since < '1990-01-01' AND :shop <> :site
"""
LASTMOD = {"column": "changed", "format": "%d.%m.%Y"}


def test_nested_values_and_folder_names_become_columns(shop: TestSite) -> None:
    shop.night(1)
    found = shop.public().by_loc()
    assert len(found) == 50
    page = found["https://shop.example/p/30"]
    assert page.lastmod == "2026-10-02"
    assert page.images == ["https://shop.example/i/30.jpg"]
    assert page.alternates == {"de": "https://shop.example/p/30", "en": "https://shop.example/en/30"}


def test_a_run_without_changes_writes_nothing_and_a_changed_line_changes_its_page(shop: TestSite) -> None:
    shop.night(1)
    before = shop.public().objects()
    shop.night(2)
    assert shop.public().objects() == before
    path = shop.folder / "products/day=2026-10-02/part-0.jsonl.gz"
    lines(path, [{"loc": f"/p/{n}", "sku": n, "images": []} for n in range(25, 49)])
    shop.night(3)
    assert sorted(shop.public().locs()) == sorted(f"https://shop.example/p/{n}" for n in range(49))


def test_a_row_is_reported_by_its_line(shop: TestSite) -> None:
    path = shop.folder / "products/day=2026-10-02/part-1.jsonl"
    path.write_text('\n{"loc": "/x", "exclude": null}\n\n{"loc": "/gone", "exclude": "sold out"}\n')
    run_id = shop.night(1).run.run_id
    (answer,) = explain(shop.load(), ["https://shop.example/gone"], shop.environment)
    said = json_of(answer)
    (row,) = said["set_aside"]["rows"]
    assert (row["row"], row["run_id"]) == (4, run_id)
    assert row["source"].endswith("day=2026-10-02/part-1.jsonl")
    assert "(line 4 of " in said["sentence"]


def test_a_select_over_several_exports_binds_parameters(shop: TestSite) -> None:
    over(shop, JOINED, lastmod=LASTMOD)
    shop.night(1)
    found = shop.public().by_loc()
    assert len(found) == 45
    assert found["https://shop.example/p/1"].lastmod == "2026-10-02"


def test_scheduler_tasks_publish_the_same_from_exports(shop: TestSite) -> None:
    over(shop, JOINED, lastmod=LASTMOD)
    site = load(shop.path, environ=shop.environment.environ)
    started = tasks.start(site, Options(), shop.environment, owner="nightly")
    if started.bundles:
        for part in started.bundles:
            tasks.extract(started.key, part, shop.environment)
        for part in tasks.partition(started.key, shop.environment):
            tasks.render(started.key, part, shop.environment)
    else:
        tasks.build(started.key, shop.environment)
    tasks.publish(started.key, shop.environment)
    assert len(shop.public().locs()) == 45
    other = Environment(environ={"SHOP": "another"})
    started = tasks.start(site, Options(), shop.environment, owner="later")
    with pytest.raises(Refused, match=r"params.shop .* the value is not what it was"):
        tasks.extract(started.key, started.bundles[0], other) if started.bundles else tasks.build(started.key, other)


def test_no_message_and_no_state_has_a_secret_parameter(shop: TestSite) -> None:
    over(shop, "SELECT loc, :shop::INT AS n FROM source")
    with pytest.raises(InvalidSource) as caught:
        shop.night(1)
    assert "Conversion Error" in str(caught.value)
    assert SECRET not in str(caught.value)
    over(shop, JOINED, lastmod=LASTMOD)
    shop.night(2)
    assert not [path for path in shop.folder.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]


def test_a_broken_line_keeps_the_section_if_on_error_is_keep(shop: TestSite) -> None:
    shop.keys["sections"]["products"]["on_error"] = "keep"
    shop.night(1)
    (shop.folder / "products/day=2026-10-02/part-2.jsonl").write_text('{"loc": "/new"}\n{"loc": \n')
    finished = shop.night(2)
    assert len(shop.public().locs()) == 50
    assert "part-2.jsonl line 2: expected a JSON object" in str(finished.summary)


def test_a_run_and_validate_report_files_that_are_not_read(shop: TestSite) -> None:
    told: list[str] = []
    environment = Environment(environ={"SHOP": SECRET}, log=told.append)
    assert problems_of(shop.load(), connect=True, environment=environment) == []
    expected = "section products: 1 file is not read, of another kind, hidden or empty: _SUCCESS"
    assert told == [expected]
    told.clear()
    shop.environment = environment
    shop.night(1)
    assert told.count(expected) == 1
