"""The log on stderr as JSON, one object per line, for log collectors."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final, Literal

from sitemap_etl.cli.output import put_log
from sitemap_etl.stages.about import subject

Level = Literal["info", "warning", "error"]
OPTION: Final = "--log-format"


def put_line(level: Level, message: str, **more: Any) -> None:
    """Write a line with `time`, `level`, `message`, the current run, section and split, and further fields."""
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    known = {name: value for name, value in more.items() if value is not None}
    line = {"time": now, "level": level, "message": message, **subject(), **known}
    put_log(line)


def is_asked(arguments: Sequence[str]) -> bool:
    """Return True if a call asks for the JSON log, even if the call is wrong in other ways."""
    pairs = zip(["", *arguments], [*arguments, ""], strict=True)
    return any(value == f"{OPTION}=json" or (text, value) == (OPTION, "json") for text, value in pairs)
