"""`init` for rows nested in another object, and for folders of files without known suffixes."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sitemap_etl import sources
from sitemap_etl.config import load
from sitemap_etl.errors import InvalidSource
from sitemap_etl.runs.init import start_site
from sitemap_etl.runs.local import run_locally
from sitemap_etl.sources.files.files import NothingFound, locate
from sitemap_etl.stages.run import Environment
from sitemap_etl.state.records import Options
from sitemap_etl.storage import open_storage
from tests.support.sites import Crawler

S = "https://shop.example"
PAGES = [{"url": f"{S}/lamps/{n}", "updated": f"2026-10-{n:02}T10:00:00Z"} for n in range(1, 21)]


def listed(folder: Path, export: Path) -> list[str]:
    """Return the pages that a run lists with the site file that `init` writes."""
    path = folder / "shop.yaml"
    start_site(path, exports=[str(export)], site=S)
    site = load(path, environ={})
    run_locally(site, Options(ping=False), Environment(environ={}), jobs=1)
    return sorted(entry.loc for entry in Crawler(open_storage(site.publish.to), site.publish.at).entries())


ENVELOPES: dict[str, Any] = {
    "DynamoDB": [{"Item": {"url": {"S": row["url"]}, "updated": {"S": row["updated"]}}} for row in PAGES],
    "Elasticsearch": [{"_index": "p", "_id": str(n), "_source": row} for n, row in enumerate(PAGES)],
    "Debezium": [{"op": "c", "payload": {"after": row, "source": {"db": "shop"}}} for row in PAGES],
    "one list": [{"count": len(PAGES), "data": PAGES}],
    "pages of lists": [{"data": PAGES[:10]}, {"data": PAGES[10:]}],
    "a name with blanks": [{"The Row": row} for row in PAGES],
}


@pytest.mark.parametrize("kind", ENVELOPES)
@pytest.mark.parametrize("form", ["jsonl.gz", "parquet"])
def test_init_turns_nested_fields_into_columns(tmp_path: Path, kind: str, form: str) -> None:
    export = tmp_path / f"rows.{form}"
    if form == "parquet":
        pq.write_table(pa.Table.from_pylist(ENVELOPES[kind]), export)
    else:
        export.write_bytes(gzip.compress("".join(json.dumps(row) + "\n" for row in ENVELOPES[kind]).encode()))
    assert listed(tmp_path, export) == sorted(row["url"] for row in PAGES)
    assert "lastmod: updated" in (tmp_path / "shop.yaml").read_text()


def test_a_note_names_the_nested_field_that_contains_the_rows(tmp_path: Path) -> None:
    export = tmp_path / "rows.jsonl"
    export.write_text("".join(json.dumps(row) + "\n" for row in ENVELOPES["DynamoDB"]))
    started = start_site(tmp_path / "shop.yaml", exports=[str(export)], site=S)
    assert "the rows are nested in Item: a SELECT makes columns of their fields" in started.notes


def test_nested_columns_stay_nested_if_there_is_a_top_level_url(tmp_path: Path) -> None:
    export = tmp_path / "rows.jsonl"
    export.write_text("".join(json.dumps({**row, "more": {"a": 1, "url": "x"}}) + "\n" for row in PAGES))
    start_site(tmp_path / "shop.yaml", exports=[str(export)], site=S)
    assert "query" not in (tmp_path / "shop.yaml").read_text()


CSV = "loc,lastmod\n" + "".join(f"{row['url']},{row['updated']}\n" for row in PAGES)
FOLDERS: dict[str, dict[str, bytes]] = {
    "Redshift": {"0000_part_00": CSV.encode(), "0001_part_00": CSV.replace("/lamps/", "/chairs/").encode()},
    "Redshift, compressed": {"0000_part_00.gz": gzip.compress(CSV.encode())},
    "text": {"p.txt": CSV.encode()},
    "tabs": {"p.tsv": CSV.replace(",", "\t").encode()},
    "upper case": {"P.CSV": CSV.encode()},
    "lines": {"000000_0": "".join(json.dumps({"loc": row["url"]}) + "\n" for row in PAGES).encode()},
    "folders": {"day=1/000000_0": CSV.encode(), "_SUCCESS": b"", ".crc": b"x"},
}


@pytest.mark.parametrize("kind", FOLDERS)
def test_a_folder_without_known_suffixes_is_read_by_a_pattern(tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "unload"
    for name, data in FOLDERS[kind].items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    found = listed(tmp_path, folder)
    assert set(found) >= {row["url"] for row in PAGES}
    assert f"unload/{'**/' * (kind == 'folders')}*" in (tmp_path / "shop.yaml").read_text()


def test_a_folder_of_parquet_files_without_suffixes_is_recognized(tmp_path: Path) -> None:
    (tmp_path / "athena").mkdir()
    pq.write_table(pa.Table.from_pylist(PAGES), tmp_path / "athena" / "20261120_101010_00001_abcde_4f6d")
    assert len(listed(tmp_path, tmp_path / "athena")) == len(PAGES)


def test_a_run_over_files_without_suffixes_suggests_a_pattern(tmp_path: Path) -> None:
    (tmp_path / "unload").mkdir()
    (tmp_path / "unload" / "0000_part_00").write_text(CSV)
    (tmp_path / "unload" / "_SUCCESS").write_text("")
    with pytest.raises(
        InvalidSource,
        match=r"no file matches .*/unload/\*\*/\*\.csv. The folder has 1 file of other names, such as 0000_part_00. To "
        r"read them, write a pattern: .*/unload/\*$",
    ):
        sources.plan_csv(tmp_path / "unload")


def test_no_pattern_is_suggested_for_an_empty_folder(tmp_path: Path) -> None:
    with pytest.raises(NothingFound) as caught:
        locate(tmp_path, (".csv",))
    assert caught.value.pattern == ""
