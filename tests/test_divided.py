"""The division of a section's rows changes no published byte: empty batches first, columns in many chunks."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sitemap_etl.stages.transform import ENTRY_BYTES, read_digest
from tests.support.sites import TestSite

HOOKS = """
import pandas as pd

def as_it_is(frame):
    return frame

def in_chunks(frame):
    parts = [frame.iloc[:3], frame.iloc[3:3], frame.iloc[3:4], frame.iloc[4:]]
    return pd.concat(parts)
"""
RULES: dict[str, dict[str, Any]] = {
    "all columns": {},
    "newest of": {"lastmod": {"newest_of": ["updated", "reviewed"]}},
    "a zone": {"lastmod": {"column": "local", "timezone": "Europe/Berlin"}},
    "fingerprint": {"lastmod": {"fingerprint": ["title", "rank"], "until_changed": "updated"}},
    "percentile": {"priority": {"percentile_of": "rank"}, "changefreq": "freq", "where": "rank <> 4"},
    "clusters": {"alternates": {"group": "item", "hreflang": "lang", "x_default": "en"}},
}


def table(count: int = 20) -> pa.Table:
    """Return rows with a value in every column that a section may have, and some nulls."""
    numbers = range(count)
    return pa.table(
        {
            "loc": [f"/p/{n % 17:02}" if n % 5 else f"/größe/{n}" for n in numbers],
            "lastmod": pa.array([None if n % 4 == 0 else f"2026-10-{n % 9 + 1:02}" for n in numbers], pa.string()),
            "exclude": pa.array(["sold out" if n % 7 == 3 else None for n in numbers], pa.string()),
            "images": [json.dumps([f"/i/{n}.jpg", f"/i/{n % 3}.jpg"]) if n % 3 else None for n in numbers],
            "updated": [f"2026-09-{n % 20 + 1:02}" for n in numbers],
            "reviewed": pa.array([None if n % 2 else f"2026-09-{n % 25 + 1:02}" for n in numbers], pa.string()),
            "local": [f"2026-08-{n % 20 + 1:02} 23:30:00" for n in numbers],
            "title": [f"Page {n % 6}" for n in numbers],
            "rank": pa.array([None if n == 9 else n * 7 % 11 for n in numbers], pa.int64()),
            "freq": ["daily" if n % 2 else "weekly" for n in numbers],
            "item": [f"i{n % 6}" for n in numbers],
            "lang": [("en", "de", "fr", None)[n // 6 % 4] for n in numbers],
        }
    )


def published(folder: Path, parts: Sequence[pa.Table], **keys: Any) -> dict[str, bytes]:
    """Return the public objects after two runs over these files; a page has changed in the second."""
    site = TestSite(folder, gates={"max_rejected": 1})
    site.keys["sections"]["p"] = {"from": {"parquet": "./export/*.parquet"}, "shards": {"rows": 6}, **keys}
    (folder / "export").mkdir()
    for number, part in enumerate(parts):
        pq.write_table(part, folder / "export" / f"{number}.parquet", row_group_size=7)
    counts = [site.night(1).summary.sections["p"]]
    last = folder / "export" / f"{len(parts) - 1}.parquet"
    column = pa.array([*pq.read_table(last).column("title").to_pylist()[:-1], "New"], pa.string())
    whole = pq.read_table(last)
    pq.write_table(whole.set_column(whole.schema.get_field_index("title"), "title", column), last)
    counts.append(site.night(2).summary.sections["p"])
    assert all(each.extracted == 20 and each.listed > 10 for each in counts)
    return site.public().objects()


@pytest.mark.parametrize("rules", RULES)
def test_empty_batches_before_the_first_rows_change_nothing(tmp_path: Path, rules: str) -> None:
    rows = table()
    none = rows.slice(0, 0)
    whole = published(tmp_path / "whole", [rows], **RULES[rules])
    divided = published(tmp_path / "divided", [none, none, rows.slice(0, 1), none, rows.slice(1)], **RULES[rules])
    assert divided == whole


@pytest.mark.parametrize("rules", RULES)
def test_columns_in_many_chunks_give_the_same_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rules: str
) -> None:
    (tmp_path / "dividing_hooks.py").write_text(HOOKS)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "dividing_hooks", raising=False)
    whole, chunked = (
        published(tmp_path / hook, [table()], transform=f"dividing_hooks:{hook}", **RULES[rules])
        for hook in ("as_it_is", "in_chunks")
    )
    assert chunked == whole


@pytest.mark.parametrize(
    "beside", [{}, {"images": 120 * 40}, {"videos": 1_500 * 2}, {"alternates": 160 * 3}, {"title": 30}]
)
def test_the_size_of_a_window_includes_all_columns_of_its_rows(tmp_path: Path, beside: dict[str, int]) -> None:
    """A dry run keeps the sizes of rows with which partition planned."""
    count = 2_000
    video = {"thumbnail_loc": "/t.jpg", "title": "T", "description": "D", "content_loc": "/v.mp4"}
    columns = {
        "images": [[f"/i/{n}.jpg" for n in range(40)]] * count,
        "videos": [[video, {**video, "title": "U"}]] * count,
        "alternates": [json.dumps({"en": "/e", "de": "/d", "fr": "/f"})] * count,
        "title": ["x" * 30] * count,
    }
    site = TestSite(tmp_path)
    read = {"feed": {"formats": ["rss"], "title": "All"}} if "title" in beside else {}  # by feeds only
    site.keys["sections"]["p"] = {"from": {"parquet": "./p.parquet"}, **read}
    locs = [f"/p/{n:06}" for n in range(count)]
    pq.write_table(pa.table({"loc": locs, **{name: columns[name] for name in beside}}), tmp_path / "p.parquet")
    run = site.night(1, dry_run=True).run
    found, _ = read_digest(run.staging, run.transformed(0))
    besides = {sample["bytes"] - len(sample["loc"]) for sample in found.to_pylist()}
    assert besides == {ENTRY_BYTES + sum(beside.values())}
