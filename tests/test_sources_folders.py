"""Folders of exports: columns from folder names, and files that are not read."""

from __future__ import annotations

import json
import os
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sitemap_etl import sources
from sitemap_etl.errors import InvalidSource
from sitemap_etl.settings import CsvExport, JsonlExport, ParquetExport

FORMS: dict[str, type[sources.Export]] = {"csv": CsvExport, "jsonl": JsonlExport, "parquet": ParquetExport}


def write(path: Path, kind: str, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if kind == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    elif kind == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        lines = [",".join(rows[0]), *(",".join(map(str, row.values())) for row in rows)]
        path.write_text("\n".join(lines) + "\n")


def export(kind: str, *paths: Path) -> sources.Export:
    return FORMS[kind].model_validate({kind: [str(path) for path in paths]})


def rows(plan: list[sources.Split], **options: Any) -> list[dict[str, Any]]:
    splits = [sources.Split.from_json(split.to_json()) for split in plan]
    found = [row for split in splits for batch in sources.read(split, **options) for row in batch.to_pylist()]
    return sorted(found, key=lambda row: str(row.get("loc")))


@pytest.fixture(params=FORMS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def partitioned(tmp_path: Path, kind: str) -> Path:
    top = tmp_path / "exports"
    write(top / f"dt=2026-11-20/shop=1/land=de%2Fat/part-0.{kind}", kind, [{"loc": "/a"}])
    write(top / f"dt=2026-11-21/shop=22/land=__HIVE_DEFAULT_PARTITION__/part-0.{kind}", kind, [{"loc": "/b"}])
    return top


def test_folder_names_of_the_form_key_value_become_columns(partitioned: Path, kind: str) -> None:
    first = {"loc": "/a", "dt": date(2026, 11, 20), "shop": 1, "land": "de/at"}
    second = {"loc": "/b", "dt": date(2026, 11, 21), "shop": 22, "land": None}
    expected = [first, second]
    if kind == "csv":
        expected = [{name: None if value is None else str(value) for name, value in row.items()} for row in expected]
    plan = sources.plan_export(export(kind, partitioned))
    assert rows(plan) == expected
    assert sources.columns(plan[0]).names == ["loc", "dt", "shop", "land"]
    assert rows(plan, columns=["dt"]) == [{"dt": row["dt"]} for row in expected]
    select = "SELECT loc, dt, shop, land FROM source WHERE dt >= '2026-11-21'"
    assert rows(sources.plan_query({"source": export(kind, partitioned)}, select)) == expected[1:]


def test_folder_values_of_mixed_types_are_text(tmp_path: Path) -> None:
    for number, name in enumerate(("day=2026-11-20/n=01/at=2026-02-28", "day=latest/n=2/at=2026-02-30")):
        write(tmp_path / name / "a.parquet", "parquet", [{"loc": f"/{number}"}])
    assert rows(sources.plan_export(export("parquet", tmp_path))) == [
        {"loc": "/0", "day": "2026-11-20", "n": "01", "at": "2026-02-28"},
        {"loc": "/1", "day": "latest", "n": "2", "at": "2026-02-30"},  # a day that the calendar does not have
    ]


def test_a_column_of_the_files_overrides_a_folder_name_and_is_reported(tmp_path: Path, kind: str) -> None:
    write(tmp_path / f"dt=2026-11-20/a.{kind}", kind, [{"loc": "/a", "dt": "yesterday"}])
    told: list[str] = []
    assert rows(sources.plan_export(export(kind, tmp_path), note=told.append)) == [{"loc": "/a", "dt": "yesterday"}]
    assert told == ["dt in the names of folders is not read: the files have a column of that name"]


def test_files_of_a_folder_that_are_not_read_are_reported(tmp_path: Path, kind: str) -> None:
    write(tmp_path / f"part-0.{kind}", kind, [{"loc": "/a"}])
    for name in (
        "_SUCCESS",
        f".part-0.{kind}.crc",
        f"_temporary/part-1.{kind}",
        "notes.txt",
        f"part-2.{kind}",
        "x.orc",
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"" if name.startswith(("_SUCCESS", "part-2")) else b"x")
    told: list[str] = []
    assert rows(sources.plan_export(export(kind, tmp_path), note=told.append)) == [{"loc": "/a"}]
    assert len(told) == 1
    assert told[0].startswith("6 files are not read, of another kind, hidden or empty: ")
    assert "_SUCCESS" in told[0]
    assert "and 1 more" in told[0]
    told.clear()
    assert rows(sources.plan_export(export(kind, tmp_path / f"part-0.{kind}"), note=told.append)) == [{"loc": "/a"}]
    assert told == []


def test_a_folder_of_empty_files_only_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"")
    with pytest.raises(InvalidSource, match=r"a\.csv is empty: expected a first row"):
        sources.plan_export(export("csv", tmp_path))


@pytest.mark.parametrize("asked", ["", "/*.csv", "/b.csv"])
def test_a_named_pipe_is_never_opened(tmp_path: Path, asked: str) -> None:
    (tmp_path / "a.csv").write_text("loc\n/a\n")
    os.mkfifo(tmp_path / "b.csv")
    if asked == "/b.csv":
        with pytest.raises(InvalidSource, match=r"b\.csv is a named pipe, a device or a socket"):
            sources.plan_csv(f"{tmp_path}{asked}")
        return
    notes: list[str] = []
    (split,) = sources.plan_csv(f"{tmp_path}{asked}", note=notes.append)
    assert [file[0] for file in split.detail["files"]] == [str(tmp_path / "a.csv")]
    assert "b.csv" in notes[0]
