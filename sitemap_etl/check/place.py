"""The location of a file, and its URLs that are elsewhere."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass
class Away:
    """URLs that a file may not list by its location alone; judged once all robots.txt files are known.

    `origin` is theirs; `at`, `line` and `example` are of the first.
    """

    code: str
    origin: str
    count: int
    at: int
    example: str
    line: int | None = None


@dataclass
class Place:
    """The location of a file and its URLs elsewhere. `address` is None if it is unknown.

    away: by code and origin, in the order of the file.
    """

    address: str | None = None
    away: dict[tuple[str, str], Away] = field(default_factory=dict)
    origins: dict[str, int] = field(default_factory=dict)

    def add(self, code: str, where: str, rows: np.ndarray, locs: Any, offsets: np.ndarray) -> None:
        """Count `rows` as URLs elsewhere, of the origin `where`."""
        if (code, where) in self.away:
            self.away[code, where].count += len(rows)
        else:
            first = int(rows[0])
            self.away[code, where] = Away(code, where, len(rows), int(offsets[first]), locs[first].as_py())
