"""Looking into a file a second time, for the line and text of what only the comparison of all files found."""

from __future__ import annotations

import re
from typing import Final

from sitemap_etl.check.document import opened
from sitemap_etl.check.marks import resolved_text
from sitemap_etl.check.read import unpacked
from sitemap_etl.check.report import Faults
from sitemap_etl.check.sources import Source

_HREF: Final = re.compile(r"\shref\s*=\s*(?:\"([^\"]*)\"|'([^']*)')")
_READ_AGAIN: Final = 50
"""Files that are read a second time for the sake of an example."""


class Again:
    """Line and text of places in files; the last file is kept, and no more than 50 are opened."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._left = _READ_AGAIN
        self._name = ""
        self._data = b""

    def look(self, source: Source, at: int) -> tuple[int, str] | None:
        """(line, URL) at a byte offset, None where the file can't be had again."""
        if source.name != self._name:
            if self._left <= 0:
                return None
            self._left -= 1
            self._name, self._data = source.name, self._read(source)
        if not self._data:
            return None
        line = self._data.count(b"\n", 0, at) + 1
        text = self._data[at : at + 8192].decode(errors="replace")
        if not text.startswith("<"):
            return line, text.splitlines()[0].strip() if text else ""
        tag, _, rest = text.partition(">")
        href = _HREF.search(tag)
        return line, resolved_text(href[1] or href[2] or "" if href else rest.partition("</")[0])

    def _read(self, source: Source) -> bytes:
        faults = Faults(source.name)
        taken = source.take(self._max_bytes + 1, faults)
        if taken is None:
            return b""
        data, whole = unpacked(taken, source.name, faults, self._max_bytes)
        document = opened(data, source.name, faults, whole=whole)
        return b"" if document is None else document.data
