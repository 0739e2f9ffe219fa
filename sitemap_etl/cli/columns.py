"""Plain text that is never truncated: columns that don't fit continue in another table, long lines are wrapped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate

_GAP = 2


def in_columns(head: Sequence[str], rows: Sequence[Sequence[str]], width: int, *, right: bool = True) -> Iterator[str]:
    """Yield the lines of a table whose first column names the row. Columns beyond `width` continue in another table."""
    widths = [max(len(row[at]) for row in [head, *rows]) for at in range(len(head))]
    start = 1
    while start < len(head):
        used = accumulate((_GAP + each for each in widths[start:]), initial=widths[0])
        fits = max(1, sum(total <= width for total in used) - 1)
        chosen = [0, *range(start, min(start + fits, len(head)))]
        if start > 1:
            yield ""
        for row in [head, *rows]:
            cells = [row[at].rjust(widths[at]) if right and at else row[at].ljust(widths[at]) for at in chosen]
            yield (" " * _GAP).join(cells).rstrip()
        start += fits
