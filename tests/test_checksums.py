"""Checksums of an input: one changed byte never changes a row silently."""

from __future__ import annotations

import base64
import bz2
import gzip
import hashlib
import io
import json
import lzma
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sitemap_etl import sources
from sitemap_etl.errors import InvalidSource
from sitemap_etl.settings import CsvExport
from sitemap_etl.sources.files import object_sums
from tests.support import flips
from tests.support.s3 import S3Server

COUNT = 60
TEXT = b"loc,lastmod\n" + b"".join(b"/p/%05d,2026-10-%02d\n" % (at, at % 28 + 1) for at in range(COUNT))
LINES = b"".join(b'{"loc": "/p/%05d", "n": %d}\n' % (at, at) for at in range(COUNT))
TABLE = pa.table(
    {"loc": [f"/p/{at:05}" for at in range(COUNT)], "lastmod": [f"2026-10-{at % 28 + 1:02}" for at in range(COUNT)]}
)


def zipped(method: int) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        archive.writestr("a.csv", TEXT)
    return out.getvalue()


def named_gzip() -> bytes:
    out = io.BytesIO()
    with gzip.GzipFile("pages.csv", "wb", fileobj=out, mtime=5) as file:
        file.write(TEXT)
    return out.getvalue()


def parquet(**options: Any) -> bytes:
    out = io.BytesIO()
    pq.write_table(TABLE, out, write_page_checksum=True, **options)
    return out.getvalue()


ZSTD = base64.b64decode(
    "KLUv/QRoxQIAcgQOEKB7cD3xAeBkZZPdlPmvGh4A9QgZ49+9m3lXNRMT8wgZ49+9m3lXNRMP81xRA4olwFGpsYKCUSgnqBGQbz1r"
    "BuDnEBAhEYMHO9QH0FOvD4WfOx9YaoyIBFo="
)
"""Twenty rows in a frame with a checksum, as `zstd --check` writes it. Arrow's own writer leaves it out."""
HALF = TEXT.index(b"\n", len(TEXT) // 2) + 1
CONTAINERS: dict[str, Callable[[], bytes]] = {
    "plain.csv.gz": lambda: gzip.compress(TEXT, mtime=0),
    "named.csv.gz": named_gzip,
    "members.csv.gz": lambda: gzip.compress(TEXT[:HALF], mtime=0) + gzip.compress(TEXT[HALF:], mtime=0),
    "stored.csv.gz": lambda: gzip.compress(TEXT, 0, mtime=0),
    "lines.jsonl.gz": lambda: gzip.compress(LINES, mtime=0),
    "a.csv.bz2": lambda: bz2.compress(TEXT),
    "a.csv.xz": lambda: lzma.compress(TEXT),
    "a.csv.zst": lambda: ZSTD,
    "deflated.csv.zip": lambda: zipped(zipfile.ZIP_DEFLATED),
    "stored.csv.zip": lambda: zipped(zipfile.ZIP_STORED),
    "snappy.parquet": parquet,
    "plain.parquet": lambda: parquet(compression="none", use_dictionary=False),
    "v2.parquet": lambda: parquet(compression="none", data_page_version="2.0"),
    "zstd.parquet": lambda: parquet(compression="zstd"),
    "groups.parquet": lambda: parquet(compression="none", row_group_size=20, data_page_size=100),
}
STEP = 7
"""Of the changes, every seventh is tried: each byte is reached by one of the four masks, nearly."""


@pytest.mark.parametrize("name", CONTAINERS)
def test_a_changed_byte_is_refused_or_changes_no_row(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(CONTAINERS[name]())
    found = subprocess.run(
        [sys.executable, "-m", "tests.support.flips", str(path), str(STEP)], capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stderr[-2000:]
    counts = json.loads(found.stdout)
    assert counts["wrong"] == []
    assert counts["refused"] > counts["same"]


def test_a_parquet_page_that_duckdb_skips_is_noticed_by_the_number_of_rows(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    whole = bytearray(parquet(compression="none", use_dictionary=False))
    assert whole[4:6] == b"\x15\x00"  # the kind of the first page, in its header
    whole[5] = 0x10  # a kind that no reader knows
    path.write_bytes(whole)
    export = flips.export_of(path)
    for query in (
        "SELECT loc FROM source",
        "SELECT * FROM source ORDER BY lastmod",
        "SELECT count(loc) AS n FROM source",
    ):
        with pytest.raises(InvalidSource, match=r"a\.parquet: .*(gave 0 of 60 rows|expected length 0)") as error:
            [list(sources.read(split)) for split in sources.plan_query({"source": export}, query)]
        assert "Traceback" not in str(error.value)


# --- writers whose checksums are wrong ---


def wrong_gzip() -> bytes:
    one, two = gzip.compress(TEXT[:HALF], mtime=0), named_gzip()
    return one[:-8] + bytes(8) + two[:-8] + bytes(8) + bytes(20)


def wrong_zip() -> bytes:
    """Return an archive with another checksum in both its places."""
    sum_ = zlib.crc32(TEXT).to_bytes(4, "little")
    data = zipped(zipfile.ZIP_DEFLATED)
    assert data.count(sum_) == 2
    return data.replace(sum_, b"\1\2\3\4")


def wrong_parquet(**options: Any) -> bytes:
    """Return a file with a value that differs from its page's checksum."""
    data = parquet(compression="none", use_dictionary=False, write_statistics=False, **options)
    return data.replace(b"/p/00007", b"/p/90007", 1)


WRONG: dict[str, tuple[Callable[[], bytes], str]] = {
    "a.csv.gz": (wrong_gzip, "/p/00007"),
    "a.csv.zip": (wrong_zip, "/p/00007"),
    "a.parquet": (wrong_parquet, "/p/90007"),
    "v2.parquet": (lambda: wrong_parquet(data_page_version="2.0"), "/p/90007"),
}


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("sql", [None, "SELECT * FROM source ORDER BY loc"])
def test_wrong_checksums_are_refused_unless_the_site_file_says_so(tmp_path: Path, name: str, sql: str | None) -> None:
    made, expected = WRONG[name]
    path = tmp_path / name
    path.write_bytes(made())

    def read(**keys: Any) -> list[str]:
        export = flips.export_of(path, **keys)
        plan = sources.plan_export(export) if sql is None else sources.plan_query({"source": export}, sql)
        stored = [sources.Split.from_json(json.loads(json.dumps(split.to_json()))) for split in plan]
        return [row["loc"] for split in stored for batch in sources.read(split) for row in batch.to_pylist()]

    with pytest.raises(InvalidSource, match=name.replace(".", r"\.") if sql is None else "."):
        read()
    assert expected in read(verify=False)


@pytest.mark.parametrize("cut", [5, 15, 60, -9, -3])
def test_without_checksums_a_cut_file_is_still_refused(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "a.csv.gz"
    path.write_bytes(named_gzip()[:cut])
    with pytest.raises(InvalidSource):
        flips.rows(path, verify=False)


# --- objects in S3 ---


@given(st.lists(st.binary(max_size=3_000), max_size=5), st.sampled_from(["CRC32C", "CRC64NVME"]))
def test_a_crc_equals_its_bit_by_bit_definition(pieces: list[bytes], name: str) -> None:
    bits, polynomial = (32, 0x82F63B78) if name == "CRC32C" else (64, 0x9A6C9329AC4BC9B5)
    value = ones = (1 << bits) - 1
    for byte in b"".join(pieces):
        value ^= byte
        for _ in range(8):
            value = value >> 1 ^ (polynomial if value & 1 else 0)
    expected = base64.b64encode((value ^ ones).to_bytes(bits // 8, "big")).decode()
    kept = object_sums.sum_of({f"Checksum{name}": expected})
    assert kept is not None
    for piece in pieces:
        kept.update(piece)
    assert kept.mismatch() is None
    kept.update(b"x")
    assert kept.mismatch() is not None


@pytest.mark.parametrize(
    ("answer", "name"),
    [
        ({"ChecksumCRC32": "y/Q5Jg=="}, "CRC32"),
        ({"ChecksumCRC32C": "4waSgw=="}, "CRC32C"),
        ({"ChecksumCRC64NVME": "rosUhgp5mIg="}, "CRC64NVME"),
        ({"ChecksumSHA1": "98O8HYCOBHMq32eZZczDTKeuNEE="}, "SHA1"),
        ({"ChecksumSHA256": "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="}, None),
        ({"ResponseMetadata": {"HTTPHeaders": {"content-md5": "JfnnlDI7RTiF9RgfG2JNCw=="}}}, "MD5"),
    ],
)
def test_the_checksums_of_s3_are_recognized(answer: dict[str, Any], name: str | None) -> None:
    kept = object_sums.sum_of(answer)
    assert kept is not None
    kept.update(b"1234")
    kept.update(b"56789")
    assert (kept.mismatch() is None) == (name is not None)


@pytest.mark.parametrize(
    "answer",
    [{}, {"ChecksumCRC32": "NSRBwg==-3"}, {"ChecksumCRC32": "NSRBwg==", "ChecksumType": "COMPOSITE"}],
)
def test_a_composite_checksum_is_ignored(answer: dict[str, Any]) -> None:
    assert object_sums.sum_of(answer) is None


LARGE = b"loc,note\n" + b"".join(
    b"/p/%07d,%s\n" % (at, hashlib.md5(b"%d" % at).hexdigest().encode()) for at in range(60_000)
)


@pytest.mark.parametrize("text", [TEXT, LARGE], ids=["small", "large"])
@pytest.mark.parametrize("name", ["CRC32", "SHA256", "CRC64NVME"])
def test_an_object_read_completely_is_compared_with_its_checksum(
    s3: S3Server, monkeypatch: pytest.MonkeyPatch, text: bytes, name: str
) -> None:
    for key, value in s3.env.items():
        monkeypatch.setenv(key, value)
    bucket = s3.bucket()
    kept = object_sums.Sum(name, "")
    kept.update(text)
    right = (kept.mismatch() or "").split(" is ")[1].split(",")[0]
    path = f"s3://{bucket}/a.csv"
    for body, whole in ((text, True), (text.replace(b"/p/", b"/q/", 1), False)):
        s3.client().put_object(
            Bucket=bucket, Key="a.csv", Body=body, ChecksumAlgorithm=name, **{f"Checksum{name}": right}
        )
        export = CsvExport(csv=(path,))
        if whole:
            (split,) = sources.plan_export(export)
            assert sum(batch.num_rows for batch in sources.read(split)) == text.count(b"\n") - 1
            continue
        with pytest.raises(InvalidSource, match=r"a\.csv is damaged: .*verify: false"):
            [list(sources.read(split)) for split in sources.plan_export(export)]
        (split,) = sources.plan_export(CsvExport(csv=(path,), verify=False))
        assert sum(batch.num_rows for batch in sources.read(split)) == text.count(b"\n") - 1
