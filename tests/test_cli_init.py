"""`init`: a first site file that validates and runs, from what an export shows."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from tests.support.command import call


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_from_a_csv_it_writes_a_file_that_runs_as_it_is(tmp_path: Path) -> None:
    Path("pages.csv").write_text(
        "url,title,updated_at\nhttps://shop.example/a,A,2026-10-01\nhttps://shop.example/b,B,2026-10-02T10:00:00Z\n"
    )
    done = call("init", "--from", "pages.csv")
    assert done.code == 0
    assert "Next: sitemap-etl validate site.yaml --connect" in done.out
    keys = yaml.safe_load(Path("site.yaml").read_text())
    assert keys["site"] == "https://shop.example"
    section = keys["sections"]["pages"]
    assert section == {"from": {"csv": "pages.csv"}, "columns": {"loc": "url"}, "lastmod": "updated_at"}
    assert call("validate", "site.yaml", "--connect").code == 0
    assert call("run", "site.yaml", "--json").json["sections"]["pages"]["listed"] == 2
    assert (tmp_path / "public" / "sitemap.xml").exists()


def test_from_parquet_with_columns_of_the_contract_no_rule_is_needed() -> None:
    table = pa.table({"loc": ["/a", "/b"], "lastmod": pa.array([20_000, 20_001], pa.date32())})
    pq.write_table(table, "pages.parquet")
    assert call("init", "sites/shop.yaml", "--from", "pages.parquet", "--site", "https://Shop.example/").code == 0
    keys = yaml.safe_load(Path("sites/shop.yaml").read_text())
    assert keys["site"] == "https://shop.example"
    assert list(keys["sections"]["pages"]) == ["from"]
    assert call("run", "sites/shop.yaml").code == 0


@pytest.mark.parametrize(
    ("value", "rule"),
    [
        ("2026-10-01 10:00:00", {"column": "modified", "timezone": "UTC"}),
        ("1790000000", {"column": "modified", "unit": "s"}),
        ("1790000000123", {"column": "modified", "unit": "ms"}),
        ("next week", "none"),
    ],
)
def test_dates_that_need_a_word_more_get_a_guess_and_a_note(value: str, rule: object) -> None:
    Path("pages.csv").write_text(f"loc,modified\nhttps://shop.example/a,{value}\n")
    done = call("init", "--from", "pages.csv", "--json")
    assert yaml.safe_load(Path("site.yaml").read_text())["sections"]["pages"]["lastmod"] == rule
    assert any("modified" in note for note in done.json["notes"])
    assert call("run", "site.yaml").code == 0


def test_another_delimiter_is_found() -> None:
    Path("pages.csv").write_text("loc;title\nhttps://shop.example/a;A\n")
    assert call("init", "--from", "pages.csv").code == 0
    assert call("run", "site.yaml", "--json").json["sections"]["pages"]["listed"] == 1


def test_a_column_for_loc_that_is_not_found_is_asked_for() -> None:
    Path("pages.csv").write_text("name,price\nLamp,3\n")
    done = call("init", "--from", "pages.csv", "--site", "https://shop.example")
    assert "no column looks like the address of a page" in done.out
    assert "The columns are: name, price" in done.out
    assert call("validate", "site.yaml").code == 0


def test_from_nothing_it_writes_a_template_that_validates() -> None:
    done = call("init")
    assert done.code == 0
    assert "site: https://www.example.com is a placeholder for the origin of your pages" in done.out
    assert call("validate", "site.yaml").code == 0


def test_it_replaces_nothing() -> None:
    Path("site.yaml").write_text("mine")
    done = call("init")
    assert done.code == 2
    assert done.err.startswith("site.yaml already exists, and init never replaces a file")
    assert Path("site.yaml").read_text() == "mine"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--from", "nope.csv"], "there is no file"),
        (["--site", "shop.example"], "--site shop.example: "),
        (["site.txt"], "the name of a site file must end in .yaml"),
    ],
)
def test_a_wrong_call_writes_nothing(arguments: list[str], said: str) -> None:
    done = call("init", *arguments)
    assert done.code == 2
    assert said in done.err
    assert not list(Path().iterdir())
