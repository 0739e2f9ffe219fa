"""What can be wrong with a text sitemap: one URL a line, nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sitemap_etl.check.report import Faults


def lines(data: bytes) -> tuple[Any, np.ndarray]:
    """The lines of a text and the byte offset of each; a final newline begins no line."""
    ends = np.flatnonzero(np.frombuffer(data, np.uint8) == ord("\n"))
    if not len(ends) or ends[-1] != len(data) - 1:
        ends = np.append(ends, len(data))
    starts = np.append([0], ends[:-1] + 1)
    bytes_ = np.frombuffer(data, np.uint8)
    carriage = (ends > starts) & (bytes_[np.maximum(ends - 1, 0)] == ord("\r"))
    offsets = np.empty(2 * len(starts) + 1, np.int32)
    offsets[0:-1:2] = starts
    offsets[1::2] = ends - carriage
    offsets[-1] = len(data)
    pieces = pa.StringArray.from_buffers(len(offsets) - 1, pa.py_buffer(offsets), pa.py_buffer(data))
    return pieces.take(pa.array(np.arange(0, 2 * len(starts), 2))), starts


def check_text(data: bytes, faults: Faults) -> tuple[Any, np.ndarray]:
    """The URLs of a text sitemap and their places; what is none is reported."""
    texts, at = lines(data)
    trimmed = pc.utf8_trim_whitespace(texts)
    blank = pc.equal(trimmed, "").to_numpy(zero_copy_only=False)
    faults.rows("text-blank", blank, None, at)
    url = pc.match_substring_regex(trimmed, "^(?:[A-Za-z][A-Za-z0-9+.-]*://|/)").to_numpy(zero_copy_only=False)
    other = ~blank & ~url
    if other.any() and not url.any():
        faults.add(
            "not-a-sitemap", line=1, example=trimmed[int(np.flatnonzero(other)[0])].as_py(), detail="no line is a URL"
        )
    else:
        faults.rows("text-not-url", other, texts, at)
    kept = np.flatnonzero(url)
    return texts.take(pa.array(kept)), at[kept]
