"""Parquet files with INT96 timestamps of any bits, which no available library writes."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

JULIAN_1970 = 2_440_588
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MARK = datetime(2001, 2, 3, 4, 5, 6, tzinfo=UTC)
_DAY = 86_400_000_000


def write(path: Path, times: Sequence[tuple[int, int] | None], **columns: pa.Array | Sequence[object]) -> Path:
    """Write a file with a column `changed` of INT96: Julian day and nanoseconds of each value. Return its path."""
    marks = [None if one is None else _MARK + timedelta(seconds=at) for at, one in enumerate(times)]
    table = pa.table({**columns, "changed": pa.array(marks, pa.timestamp("us", "UTC"))})
    pq.write_table(
        table, path, use_deprecated_int96_timestamps=True, use_dictionary=False, compression="none", store_schema=False
    )
    data = bytearray(path.read_bytes())
    for mark, one in zip(marks, times, strict=True):
        if mark is not None and one is not None:
            since = (mark - _EPOCH) // timedelta(microseconds=1)
            written = struct.pack("<qi", since % _DAY * 1000, since // _DAY + JULIAN_1970)
            at = data.index(written)
            data[at : at + 12] = bits(*one)
    path.write_bytes(data)
    return path


def bits(day: int, nanoseconds: int) -> bytes:
    """Return the 12 bytes of a value."""
    return struct.pack("<QI", nanoseconds % 2**64, day % 2**32)


def of_spark(microseconds: int) -> tuple[int, int]:
    """Return the day and the nanoseconds that Spark writes for microseconds since 1970, in its own arithmetic."""
    julian = (microseconds + JULIAN_1970 * _DAY + 2**63) % 2**64 - 2**63
    day = abs(julian) // _DAY * (1 if julian >= 0 else -1)
    return day, (julian - day * _DAY) * 1000


EXAMPLES: Mapping[str, tuple[int, int]] = {
    "2026-01-02T03:04:05Z": of_spark(1_767_323_045_000_000),
    "2600-01-01 00:00:00.000000": of_spark(19_880_899_200_000_000),
    "1500-06-15 12:00:00.000000": of_spark(-14_817_470_400_000_000),
    "9999-12-31 23:59:59.999999": of_spark(253_402_300_799_999_999),
    "290000-12-30 23:00:00.000000": of_spark(9_089_380_393_200_000_000),
    "after 294247-01-10 04:00:54.775806": (200_000_000, 0),
}
"""What a value means, as published or as a message shows it → its bits."""
