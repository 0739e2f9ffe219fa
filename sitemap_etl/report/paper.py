"""The templates of all pages."""

from __future__ import annotations

import sys
from contextlib import suppress
from functools import cache
from importlib.util import cache_from_source
from pathlib import Path
from typing import Any, Final

from jinja2 import BytecodeCache, Environment, PackageLoader, StrictUndefined, Template
from jinja2.bccache import Bucket

from sitemap_etl.visible import visible_lines

_COMPILED: Final = "shown"
"""Part of the names of compiled templates. Change it with the options of the environment, which are compiled in."""
_UNITS: Final = ("bytes", "KB", "MB", "GB", "TB")


class _Compiled(BytecodeCache):
    """Cache of compiled templates beside their sources, as Python caches modules, if the folder is writable.

    Compiling a template takes longer than everything else that a page needs.
    """

    def get_cache_key(self, name: str, filename: str | None = None) -> str:
        return cache_from_source(filename or name, optimization=_COMPILED)

    def load_bytecode(self, bucket: Bucket) -> None:
        with suppress(OSError):
            bucket.bytecode_from_string(Path(bucket.key).read_bytes())

    def dump_bytecode(self, bucket: Bucket) -> None:
        if sys.dont_write_bytecode:
            return
        path = Path(bucket.key)
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(bucket.bytecode_to_string())


@cache
def template(name: str) -> Template:
    """Return a template, which encodes every text: first its invisible characters, then HTML."""
    environment = Environment(
        loader=PackageLoader("sitemap_etl.report", ""),
        bytecode_cache=_Compiled(),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["number"] = number
    environment.filters["size"] = size
    environment.filters["duration"] = duration
    environment.filters["address"] = address
    return environment.get_template(name)


def _shown(value: Any) -> Any:
    """Return a value for a page: every text with its invisible characters as code points."""
    return visible_lines(value) if type(value) is str else value


def several(count: int, what: str) -> str:
    """Return a count with its noun: 1 file, 2 files."""
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def number(value: Any) -> str:
    """Return an integer with thousands separators: 1,234. Any other value is returned as text."""
    return f"{value:,}" if isinstance(value, int) else str(value)


def size(count: int) -> str:
    """Return a number of bytes with a unit: 1.4 MB."""
    value, unit = float(count), 0
    while value >= 1_000 and unit < len(_UNITS) - 1:
        value, unit = value / 1_000, unit + 1
    return f"{count:,} bytes" if unit == 0 else f"{value:.1f} {_UNITS[unit]}"


def duration(seconds: float) -> str:
    """Return seconds with units: 0.4 s, 12 min 5 s, 2 h 10 min."""
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds >= 0.05 else "< 0.1 s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def moment(text: str) -> str:
    """Return a time of a record in the form 2026-11-01 02:00 UTC."""
    return f"{text[:10]} {text[11:16]} UTC" if len(text) == 20 and text.endswith("Z") else text


def address(text: str, site: str) -> bool:
    """Return True if the text is an address on the site. Pages link to no other address of a source."""
    return text.startswith(f"{site}/") and text.isprintable() and " " not in text
