from __future__ import annotations

import gzip
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sitemap_etl import sources
from sitemap_etl.errors import ConfigError, InvalidSource, Unavailable
from sitemap_etl.settings import CsvExport, CsvFormat, JsonlExport, ParquetExport


@pytest.fixture
def parquet(tmp_path: Path) -> Path:
    for at in range(2):
        ids = range(at * 1000, at * 1000 + 1000)
        table = pa.table({"id": ids, "slug": pa.array([f"p-{i}" for i in ids]), "gone": [i % 10 == 0 for i in ids]})
        pq.write_table(table, tmp_path / f"{at}.parquet")
    return tmp_path


def export(kind: str, path: object) -> sources.Export:
    forms = {"csv": CsvExport, "jsonl": JsonlExport, "parquet": ParquetExport}
    return forms[kind].model_validate({kind: str(path)})


def rows(kind: str, path: object, sql: str, **options: object) -> pa.Table:
    plan = sources.plan_query({"source": export(kind, path)}, sql, label="sql/a.sql")
    assert len(plan) == 1
    split = sources.Split.from_json(plan[0].to_json())
    return pa.Table.from_batches(
        sources.read(split, **options), sources.columns(split) if "columns" not in options else None
    )


def test_sql_runs_over_all_files_as_one_table(parquet: Path) -> None:
    found = rows("parquet", parquet, "SELECT '/' || slug AS loc, id FROM source WHERE NOT gone;")
    assert found.schema == pa.schema([("loc", pa.string()), ("id", pa.int64())])
    assert sorted(found["id"].to_pylist()) == [i for i in range(2000) if i % 10]


def test_the_source_can_be_named_more_than_once(parquet: Path, tmp_path: Path) -> None:
    text = tmp_path / "a.csv.gz"
    text.write_bytes(gzip.compress(b"loc,parent\n/a,\n/b,/a\n/c,/a\n"))
    found = rows(
        "csv", text, "SELECT a.loc, count(*) AS children FROM source a JOIN source b ON b.parent = a.loc GROUP BY 1"
    )
    assert found.to_pylist() == [{"loc": "/a", "children": 2}]
    assert rows("parquet", parquet, "SELECT 1 AS x FROM source JOIN source b USING (id)").num_rows == 2000


def test_the_result_has_plain_types_and_times_in_utc(parquet: Path) -> None:
    found = rows(
        "parquet",
        parquet,
        "SELECT TIMESTAMPTZ '2026-01-02 00:00+01' AS t, uuid() AS u, 'a'::ENUM('a') AS e, [slug] AS l, "
        "1.5 AS d, sum(id) AS s FROM source GROUP BY ALL LIMIT 1",
    )
    assert [str(kind) for kind in found.schema.types][:4] == [
        "timestamp[us, tz=UTC]",
        "string",
        "string",
        "list<item: string>",
    ]
    assert found["t"].to_pylist() == [datetime(2026, 1, 1, 23, tzinfo=ZoneInfo("UTC"))]


def test_batches_respect_the_bounds_and_columns_can_be_selected(parquet: Path) -> None:
    (split,) = sources.plan_query({"source": export("parquet", parquet)}, "SELECT * FROM source")
    found = list(sources.read(split, columns=["id"], batch_rows=700))
    assert all(batch.num_rows <= 700 for batch in found)
    assert sum(batch.num_rows for batch in found) == 2000
    assert found[0].schema.names == ["id"]


@pytest.mark.parametrize(
    ("sql", "told"),
    [
        ("SELEC 1", "syntax error"),
        ("SELECT lok FROM source", 'Referenced column "lok" not found'),
        ("SELECT * FROM elsewhere", "elsewhere does not exist"),
        ("SELECT 1; SELECT 2", "expected one SELECT"),
        ("COPY source TO 'x.csv'", "expected one SELECT"),
        ("CREATE TABLE t AS SELECT 1", "expected one SELECT"),
        ("", "expected one SELECT"),
        ("SELECT * FROM read_csv('/etc/passwd')", "disabled by configuration"),
        ("SELECT * FROM 'https://example.com/a.parquet'", "disabled by configuration"),
    ],
)
def test_invalid_sql_or_sql_that_reads_other_files_is_reported_while_planning(
    parquet: Path, sql: str, told: str
) -> None:
    with pytest.raises(InvalidSource, match=rf"sql/a\.sql.*{told}"):
        sources.plan_query({"source": export("parquet", parquet)}, sql, label="sql/a.sql")


def test_a_value_that_sql_cannot_cast_is_reported_while_reading(parquet: Path) -> None:
    with pytest.raises(InvalidSource, match=r"sql/a\.sql over .*Conversion Error.*'p-"):
        rows("parquet", parquet, "SELECT CAST(slug AS INT) AS x FROM source")


def test_a_broken_row_is_reported_with_sql_as_without(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("loc,id\n/a,1\n/b\n")
    with pytest.raises(InvalidSource, match=r"a\.csv line 3: expected 2 fields"):
        rows("csv", path, "SELECT loc FROM source")


def test_a_file_changed_since_planning_can_be_retried_with_a_new_run(parquet: Path) -> None:
    (split,) = sources.plan_query({"source": export("parquet", parquet)}, "SELECT * FROM source")
    (parquet / "1.parquet").unlink()
    with pytest.raises(Unavailable, match="is gone"):
        list(sources.read(split))


def test_a_probe_returns_the_columns_of_the_result(parquet: Path) -> None:
    (split,) = sources.plan_query(
        {"source": export("parquet", parquet)}, "SELECT slug AS loc, id / 2 AS half FROM source"
    )
    found = sources.columns(split)
    assert found == pa.schema([("loc", pa.string()), ("half", pa.float64())])


def test_a_result_without_rows_has_no_batches(parquet: Path) -> None:
    (split,) = sources.plan_query({"source": export("parquet", parquet)}, "SELECT id FROM source WHERE id < 0")
    assert list(sources.read(split)) == []


def test_a_query_prints_no_progress_and_installs_no_extensions(parquet: Path) -> None:
    """DuckDB's progress bar goes to stdout, where the command prints its JSON."""
    names = (
        "enable_progress_bar",
        "autoinstall_known_extensions",
        "autoload_known_extensions",
        "enable_external_access",
    )
    asked = ", ".join(f"current_setting('{name}')::BOOLEAN AS {name}" for name in names)
    assert rows("parquet", parquet, f"SELECT {asked} FROM source LIMIT 1").to_pylist() == [dict.fromkeys(names, False)]


def test_other_exports_can_be_tables_and_params_are_bound(parquet: Path, tmp_path: Path) -> None:
    (tmp_path / "stock.csv").write_text("id;amount\n1;5\n2;0\n3;7\n")
    (tmp_path / "notes.jsonl").write_text('{"id": 1, "tags": ["a", "b"]}\n{"id": 3, "tags": []}\n')
    tables = {
        "source": export("parquet", parquet),
        "stock": CsvExport(csv=(str(tmp_path / "stock.csv"),), delimiter=";"),
        "Notes": export("jsonl", tmp_path / "notes.jsonl"),
    }
    params = {
        "least": 6,
        "now": datetime(2026, 1, 2, tzinfo=ZoneInfo("UTC")),
        "site": "https://shop.example",
        "no": None,
    }
    sql = """SELECT :site || '/' || slug AS loc, len(tags) AS tags, :now AS lastmod, ':least' AS text, :no IS NULL AS no
             FROM source JOIN stock ON stock.id::INT = source.id JOIN notes ON notes.id = source.id
             WHERE amount::INT >= :least"""
    (split,) = sources.plan_query(tables, sql, params=params)
    assert [row for batch in sources.read(split, params=params) for row in batch.to_pylist()] == [
        {"loc": "https://shop.example/p-3", "tags": 0, "lastmod": params["now"], "text": ":least", "no": True}
    ]
    with pytest.raises(ConfigError, match=r"names the parameter :leest, which has no value .did you mean :least"):
        sources.plan_query(tables, sql.replace(">= :least", ">= :leest"), params=params)


def test_a_broken_row_of_any_table_is_reported_with_its_line(parquet: Path, tmp_path: Path) -> None:
    (tmp_path / "stock.csv").write_text("id,amount\n1,5\n2\n")
    tables = {"source": export("parquet", parquet), "stock": export("csv", tmp_path / "stock.csv")}
    (split,) = sources.plan_query(tables, "SELECT slug AS loc FROM source JOIN stock ON stock.id::INT = source.id")
    with pytest.raises(InvalidSource, match=r"stock\.csv line 3: expected 2 fields"):
        list(sources.read(split))


def test_a_split_planned_by_an_earlier_version_is_read(parquet: Path, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("loc;id\n/a;1\n")
    of = {"source": export("parquet", parquet)}
    (split,) = sources.plan_query(of, "SELECT count(*) AS n FROM source")
    detail = dict(split.detail)
    table = {key: value for key, value in detail.pop("tables")["source"].items() if key != "partitions"}
    table["files"] = [file[:3] for file in table["files"]]
    (batch,) = sources.read(sources.Split("query", split.label, {**detail, "of": table}))
    assert batch.to_pylist() == [{"n": 2000}]
    (split,) = sources.plan_csv(tmp_path / "a.csv", CsvFormat(delimiter=";"))
    detail = {key: split.detail[key] for key in ("columns", "delimiter")}
    detail["files"] = [file[:3] for file in split.detail["files"]]
    (batch,) = sources.read(sources.Split("csv", split.label, detail))
    assert batch.to_pylist() == [{"loc": "/a", "id": "1"}]
