"""Reports as self-contained HTML pages of a run, of all runs of a site, and of many sites, and runs as metrics.

Each name is imported when it is first used: a run needs nothing of the page of a check, and a check nothing of the
others.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from sitemap_etl.report.index import render_index
    from sitemap_etl.report.nights import Around
    from sitemap_etl.report.page import render
    from sitemap_etl.report.sites import SiteLine, render_note, render_sites

__all__ = ["Around", "SiteLine", "render", "render_index", "render_note", "render_sites"]

_MODULES: Final = {
    "Around": "nights",
    "SiteLine": "sites",
    "render": "page",
    "render_index": "index",
    "render_note": "sites",
    "render_sites": "sites",
}
"""The module that has each name."""


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = found
    return found
