"""A real browser that opens a page without a window, and says what it made of it."""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
needs_browser = pytest.mark.skipif(
    PROGRAM is None and not os.environ.get("CI"), reason="there is no Chromium; .ci/run installs one"
)
_QUIET = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--hide-scrollbars"),
)
_PROBE = """
<script>
for (const one of document.querySelectorAll("details")) one.open = true;
const seen = {
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
document.documentElement.setAttribute("data-seen", JSON.stringify(seen));
</script>
"""


@dataclass(frozen=True)
class Seen:
    """What a browser made of a page. `wide`: elements that reach beyond the window."""

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


def look(page: str, *, width: int = 1200, dark: bool = False, picture: Path | None = None) -> Seen:
    """Open a page in a window of this width; its disclosures are open. `picture`: where a screenshot is put."""
    assert PROGRAM is not None
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / "page.html"
        file.write_text(page.replace("</body>", f"{_PROBE}</body>"), encoding="utf-8")
        options = [*_QUIET, f"--user-data-dir={scratch}/profile", f"--window-size={width},1400"]
        options += [f"--blink-settings=preferredColorScheme={0 if dark else 1}"]
        done = subprocess.run(
            [PROGRAM, *options, "--dump-dom", file.as_uri()], capture_output=True, text=True, timeout=120, check=True
        )
        if picture is not None:
            options.append(f"--screenshot={picture}")
            subprocess.run([PROGRAM, *options, file.as_uri()], capture_output=True, timeout=120, check=True)
    found = re.search(r'data-seen="([^"]*)"', done.stdout)
    assert found, done.stdout[:500]
    return Seen(**json.loads(html.unescape(found[1])))
