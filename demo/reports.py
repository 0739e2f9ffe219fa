"""Take pictures of the reports of a good and of a refused run, for the documentation."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, Literal

from demo.browser import operator

RUNS: Final = 12
"""Runs before the good one, so that the charts show a trend."""
LOOKS: Final[tuple[Literal["light", "dark"], ...]] = ("light", "dark")
SITE: Final = """\
site: https://shop.example
publish: ./public
sections:
  pages:
    from: {csv: exports/pages.csv}
  products:
    from: {csv: exports/products.csv}
"""


def take(folder: Path) -> None:
    """Put `report-good-*.png` and `report-refused-*.png` into the folder."""
    shop = Path(tempfile.gettempdir(), "shop")  # commands in the pictures name it
    shop.mkdir()
    try:
        for name, page in runs_of(shop).items():
            for look in LOOKS:
                with operator("", look=look, viewport={"width": 1000, "height": 760}) as someone:
                    someone.page.goto(page.as_uri())
                    someone.page.screenshot(path=folder / f"report-{name}-{look}.png", animations="disabled")
    finally:
        shutil.rmtree(shop)


def runs_of(shop: Path) -> dict[str, Path]:
    """Publish a shop for some days, and return the reports of its last good run and of a refused one."""
    (shop / "exports").mkdir()
    (shop / "shop.yaml").write_text(SITE)
    day = datetime.now(UTC).replace(hour=2, minute=0, second=0, microsecond=0) - timedelta(days=RUNS + 1)
    for at in range(RUNS):
        _export(shop, at, 900 + 8 * at)
        _run(shop, day + timedelta(days=at))
    good = _latest(shop)
    _export(shop, RUNS, 500)
    _run(shop, day + timedelta(days=RUNS), codes=(1,))
    return {"good": good, "refused": _latest(shop)}


def _export(shop: Path, day: int, count: int) -> None:
    """Write the exports of a day. Some products change each day, and one has no valid address."""
    pages = [f"/page/{n},2026-10-{1 + n % 20:02}" for n in range(40)]
    products = [f"/lamps/lamp-{n},2026-{9 + (n + day) % 40 // 39:02}-{1 + n % 20:02}" for n in range(count)]
    for name, rows in (("pages", pages), ("products", [*products, "mailto:shop@shop.example,2026-10-01"])):
        (shop / "exports" / f"{name}.csv").write_text("\n".join(["loc,lastmod", *rows]) + "\n")


def _run(shop: Path, now: datetime, codes: Sequence[int] = (0,)) -> None:
    command = [sys.executable, "-m", "sitemap_etl", "run", "shop.yaml", "--quiet", "--now", f"{now:%Y-%m-%dT%H:%M:%SZ}"]
    done = subprocess.run(  # noqa: S603 - our own
        [*command, "--reason", "a demo"], cwd=shop, check=False, capture_output=True, text=True
    )
    if done.returncode not in codes:
        raise RuntimeError(done.stdout + done.stderr)


def _latest(shop: Path) -> Path:
    """Return the report of the newest run."""
    return max((shop / ".sitemap-etl").rglob("report.html"), key=lambda path: path.parent.name)
