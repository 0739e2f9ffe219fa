"""A folder of site files whose DAGs a real Airflow runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from tests.support.airflow import Airflow
from tests.support.command import call

STAGES = ["plan", "build", "extract", "decide", "retransform", "partition", "render", "publish", "ping"]
CLUSTERS = ["clusters", "collect", "align"]
SITE = "https://shop.example"


class Shop:
    """A folder with a site file, its exports and its target."""

    def __init__(self, folder: Path, running: Airflow) -> None:
        self.folder = folder
        self.sites = folder / "sites"
        self.sites.mkdir()
        self.public = folder / "public"
        self.airflow = running
        self.environ: dict[str, str] = {}

    def site(self, stem: str = "shop", /, **keys: Any) -> None:
        """Write a site file. `pages` is its section unless `keys` has other ones."""
        given = {
            "site": SITE,
            "publish": {"to": "../public", "at": f"{SITE}/"},
            "work": "../work",
            "sections": {"pages": {"from": {"csv": "../pages.csv"}}},
        }
        (self.sites / f"{stem}.yaml").write_text(yaml.safe_dump({**given, **keys}, sort_keys=False))

    def pages(self, count: int, name: str = "pages", *, day: int = 1) -> None:
        lines = [f"/{name}/{n},2026-01-{day:02}" for n in range(count)]
        (self.folder / f"{name}.csv").write_text("\n".join(["loc,lastmod", *lines, ""]))

    def run(self, conf: dict[str, Any] | None = None, dag: str = "shop") -> Any:
        return self.airflow.run(self.sites, dag, conf, **self.environ)

    def publish(self) -> None:
        """Publish an earlier release with the command, which takes a tenth of the time of a DAG run."""
        assert call("run", self.sites / "shop.yaml").code == 0

    def files(self) -> dict[str, tuple[bytes, int]]:
        """Return the published files with their modification times."""
        return {
            str(path.relative_to(self.public)): (path.read_bytes(), path.stat().st_mtime_ns)
            for path in self.public.rglob("*")
            if path.is_file()
        }

    def lease(self) -> Path:
        return self.folder / "work" / "shop" / "state" / "lease.json"

    def summary(self) -> dict[str, Any]:
        return json.loads(max((self.folder / "work" / "shop" / "reports").glob("*/summary.json")).read_text())
