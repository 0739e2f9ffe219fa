"""Whether time is linear: an input of twice the size takes at most three times as long, for every reader.

The middle of a valid input is replaced by a piece, repeated. Of the pieces the one with the largest ratio is shown.
Processor time, the least of some tries; ratios of times below 50 ms are noise and left out.

    python -m bench.linear [bytes] [reader …]
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.support.readers import READERS, TOKENS

TRIES = 3
MOST = 3.0
LEAST_SECONDS = 0.05


def seconds(read: Callable[[bytes, Path], None], data: bytes, scratch: Path) -> float:
    """Return the least processor time of some tries."""
    best = float("inf")
    for _ in range(TRIES):
        begin = time.process_time()
        read(data, scratch)
        best = min(best, time.process_time() - begin)
    return best


def grown(valid: bytes, token: bytes, size: int) -> bytes:
    """Return the input with a piece repeated in its middle."""
    middle = len(valid) // 2
    return valid[:middle] + token * (size // len(token)) + valid[middle:]


def ratio(
    valid: bytes, read: Callable[[bytes, Path], None], token: bytes, size: int, scratch: Path
) -> tuple[float, float]:
    """Return the time of the larger input, and by how much it is longer. A ratio above the limit gets other tries."""
    for _ in range(TRIES):
        small = seconds(read, grown(valid, token, size), scratch)
        large = seconds(read, grown(valid, token, 2 * size), scratch)
        found = large / small if large > LEAST_SECONDS else 0.0
        if found <= MOST:
            break
    return large, found


def main(size: int, names: list[str]) -> int:
    beyond = 0
    print(f"{size:,} and {2 * size:,} bytes; {len(TOKENS)} pieces each")
    print("| reader | longest | largest ratio | of the piece |\n|---|---:|---:|---|")
    with tempfile.TemporaryDirectory() as scratch:
        for name in names or READERS:
            valid, read = READERS[name]
            rows = [(*ratio(valid, read, token, size, Path(scratch)), token) for token in dict.fromkeys(TOKENS)]
            _, most, token = max(rows, key=lambda row: row[1])
            beyond += most > MOST
            print(f"| {name} | {max(row[0] for row in rows):.2f} s | {most:.1f} | `{token!r}` |", flush=True)
    return int(beyond > 0)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000, sys.argv[2:]))
