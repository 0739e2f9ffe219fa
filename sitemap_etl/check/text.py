"""Mistakes in plain text: in a text sitemap, and in the parts of a robots.txt that are about sitemaps."""

from __future__ import annotations

import re
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sitemap_etl.arrow import mask_of, over
from sitemap_etl.check.report import Faults
from sitemap_etl.limits import ROBOTS_BYTES
from sitemap_etl.render.fence import without_blank_line
from sitemap_etl.robots import lines_of, read_part

_FIELD: Final = re.compile(r"\s*([A-Za-z][A-Za-z-]*)\s*:")
_SITEMAP: Final = re.compile(r"\s*sitemap\s*:\s*([^#\r\n]*)", re.IGNORECASE)
_IGNORED: Final = re.compile(rb"^[ \t]*sitemap[ \t]*:", re.IGNORECASE | re.MULTILINE)
_ABSOLUTE: Final = re.compile(r"https?://[^/?#\s]", re.IGNORECASE)


def _lines(data: bytes) -> tuple[Any, np.ndarray]:
    """Return the lines of a text and the byte offset of each; a final newline begins no line."""
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
    return over(pa.string(), offsets, data).take(pa.array(np.arange(0, 2 * len(starts), 2))), starts


def check_text(data: bytes, faults: Faults) -> tuple[Any, np.ndarray]:
    """Return the URLs of a text sitemap and their positions. Report other lines."""
    texts, at = _lines(without_blank_line(data))
    trimmed = pc.utf8_trim_whitespace(texts)
    blank = mask_of(pc.equal(trimmed, ""))
    faults.rows("text-blank", blank, None, at)
    url = mask_of(pc.match_substring_regex(trimmed, "^(?:[A-Za-z][A-Za-z0-9+.-]*://|/)"))
    other = ~blank & ~url
    if other.any() and not url.any():
        faults.add(
            "not-a-sitemap",
            line=1,
            example=trimmed[int(np.flatnonzero(other)[0])].as_py(),
            detail="none of the lines is a URL",
        )
    else:
        faults.rows("text-not-url", other, texts, at)
    kept = np.flatnonzero(url)
    return texts.take(pa.array(kept)), at[kept]


def check_robots(data: bytes, faults: Faults) -> tuple[Any, np.ndarray]:
    """Return the sitemaps that a robots.txt names, absolute ones only, and the places of their lines; faults are
    reported.
    """
    part = read_part(data)
    if len(data) > ROBOTS_BYTES:
        ignored = sum(1 for _ in _IGNORED.finditer(data, len(part)))
        lines = f", and crawlers ignore {ignored:,} Sitemap lines" if ignored else ""
        faults.add("robots-large", at=ROBOTS_BYTES, detail=f"{len(data):,} bytes{lines}")
    assert faults.lines is not None
    urls: list[str] = []
    at: list[int] = []
    fields = others = 0
    example = ""
    for number, line in enumerate(lines_of(part), 1):
        bare = line.partition("#")[0].strip("\ufeff \t")
        if not bare:
            continue
        if _FIELD.match(bare) is None:
            others += 1
            example = example or line
            continue
        fields += 1
        named = _SITEMAP.match(line.lstrip("\ufeff"))
        if named is None:
            continue
        url = named[1].strip()
        if _ABSOLUTE.match(url):
            urls.append(url)
            at.append(faults.lines.offset(number, 1))
        else:
            faults.add("robots-sitemap-relative", line=number, example=line.strip())
    if others and (not fields or data.lstrip().startswith(b"<")):  # styles of an HTML page look like fields
        faults.add("robots-not-text", line=1, example=example)
    return pa.array(urls, pa.string()), np.array(at, np.int64)
