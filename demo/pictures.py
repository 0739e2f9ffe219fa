"""`make pictures`: the pictures of reports and of Airflow in the documentation, taken after some runs of the demo."""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

from demo import reports
from demo.browser import Operator, operator
from demo.bucket import embedded
from demo.catalogue import make
from demo.surroundings import PROJECT, Home

IMAGES = PROJECT / "docs" / "images"
SITE = "sites/demo.yaml"
NIGHTS = 6
"""Nights before the one that Airflow runs: a trend needs some."""
LOOKS: tuple[Literal["light", "dark"], ...] = ("light", "dark")
SIZE = {"width": 1200, "height": 720}
_READY = 240


def main() -> int:
    """Take the pictures, and return the exit code."""
    parser = argparse.ArgumentParser(prog="make pictures", description=__doc__)
    parser.add_argument("--to", type=Path, default=IMAGES, help="the folder they are put into")
    folder = parser.parse_args().to
    reports.take(folder)
    with tempfile.TemporaryDirectory() as scratch:
        home = Home(Path(scratch))
        last = _nights(home)
        with _airflow(home) as (address, password):
            run = None
            for look in LOOKS:
                with operator(address, look=look, viewport=SIZE) as someone:
                    someone.log_in("admin", password)
                    run = run or _run(someone, last + timedelta(days=1))
                    _take(someone, run, folder, look)
    return 0


def _nights(home: Home) -> datetime:
    """Let some nights go by, with the command; gives the time of the last."""
    first = datetime.now(UTC).replace(hour=2, minute=0, second=0, microsecond=0) - timedelta(days=NIGHTS)
    for night in range(NIGHTS):
        make(home.catalogue, night + 1)
        now = first + timedelta(days=night)
        with embedded(home.bucket) as bucket:
            environ = home.environ() | bucket.env
            command = [sys.executable, "-m", "sitemap_etl", "run", SITE, "--now", f"{now:%Y-%m-%dT%H:%M:%SZ}"]
            subprocess.run(  # noqa: S603 - our own
                [*command, "--reason", "a picture", "--jobs", "1"], cwd=PROJECT, env=environ, check=True
            )
    make(home.catalogue, NIGHTS + 1)
    return now


@contextmanager
def _airflow(home: Home) -> Iterator[tuple[str, str]]:
    """`make airflow` on this home, until the end of the block; gives its address and the password."""
    shown = home.folder / "shown"
    with shown.open("w") as out:
        serving = subprocess.Popen(  # noqa: S603 - our own
            [sys.executable, "-m", "demo.serve", "--home", str(home.folder), "--port", "0"],
            cwd=PROJECT,
            stdout=out,
            start_new_session=True,
        )
    try:
        deadline = time.monotonic() + _READY
        while not (found := re.search(r"(http://\S+)/dags/demo[\s\S]*password +(\S+)", shown.read_text())):
            if serving.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(shown.read_text())
            time.sleep(0.5)
        yield found[1], found[2]
    finally:
        os.killpg(serving.pid, signal.SIGINT)
        serving.wait()


def _run(someone: Operator, now: datetime) -> str:
    """A run of the DAG, to its end; gives its id."""
    run = someone.trigger("demo", {"now": f"{now:%Y-%m-%dT%H:%M:%SZ}", "reason": "a picture"})
    someone.wait_for_run()
    return run


def _take(someone: Operator, run: str, folder: Path, look: str) -> None:
    """The pictures in one look: all sites, the tab of the run, the tab of the DAG."""

    def save(name: str, height: int = SIZE["height"]) -> None:
        someone.page.mouse.move(0, 0)
        shown: Any = {"x": 0, "y": 0, "width": SIZE["width"], "height": height}
        someone.page.screenshot(path=folder / f"airflow-{name}-{look}.png", animations="disabled", clip=shown)

    someone.open("/plugin/sitemaps")
    someone.frame("Sitemaps").get_by_role("link", name="demo").wait_for()
    save("sites", 460)
    someone.open(f"/dags/demo/runs/{run}")
    someone.tab("Sitemap report").get_by_role("heading", name="Sections").wait_for()
    save("report")
    someone.open("/dags/demo")
    someone.tab("Sitemap").get_by_role("heading", name="The last runs").wait_for()
    save("runs")


if __name__ == "__main__":
    sys.exit(main())
