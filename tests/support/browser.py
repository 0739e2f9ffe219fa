"""A real headless browser that opens report pages and measures them."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Page, sync_playwright

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
PHONE = 390
"""Width of a common phone, in pixels."""
needs_browser = pytest.mark.skipif(
    PROGRAM is None and not os.environ.get("CI"), reason="there is no Chromium; .ci/run installs one"
)
_OPTIONS = ("--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking", "--hide-scrollbars")
_PROBE = """() => {
  for (const one of document.querySelectorAll("details")) one.open = true;
  return {
    width: document.documentElement.scrollWidth,
    window: innerWidth,
    scripts: document.scripts.length,
    images: document.images.length,
    frames: frames.length,
    loaded: performance.getEntriesByType("resource").map(entry => entry.name),
    paper: getComputedStyle(document.body).backgroundColor,
    text: document.body.innerText,
    links: [...document.links].map(link => link.href),
    focusable: [...document.querySelectorAll("a[href], summary, .scroll")].every(one => one.tabIndex >= 0),
    wide: [...document.querySelectorAll("main *")].filter(one => one.getBoundingClientRect().right > innerWidth + 1
      && !one.closest("pre, svg")).length,
  };
}"""


@dataclass(frozen=True)
class Seen:
    """Measures of a page in a browser. `wide`: number of elements that extend beyond the window."""

    width: int
    window: int
    scripts: int
    images: int
    frames: int
    loaded: list[str]
    paper: str
    text: str
    links: list[str]
    focusable: bool
    wide: int


@contextmanager
def opened(address: str, *, width: int = 1200, dark: bool = False) -> Iterator[Page]:
    """Open an address in a window of this width, until the end of the block."""
    assert PROGRAM is not None
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=PROGRAM, args=list(_OPTIONS))
        try:
            page = browser.new_page(viewport={"width": width, "height": 1400}, color_scheme="dark" if dark else "light")
            page.goto(address)
            yield page
        finally:
            browser.close()


def look(text: str, *, width: int = 1200, dark: bool = False, picture: Path | None = None) -> Seen:
    """Return the measures of a page with all its disclosures open. `picture`: file for a screenshot."""
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / "page.html"
        file.write_text(text, encoding="utf-8")
        with opened(file.as_uri(), width=width, dark=dark) as page:
            seen = Seen(**page.evaluate(_PROBE))
            if picture is not None:
                page.screenshot(path=picture)
    return seen
