"""Site files that `init` writes, and whether they run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from tests.support.command import call


def started(source: object, *more: object) -> dict[str, Any]:
    """Run `init` and return the site file that it writes, with the JSON of `init` under `json`."""
    done = call("init", "--from", source, *more, "--json")
    assert done.code == 0, done.out
    site: dict[str, Any] = yaml.safe_load(Path("site.yaml").read_text(encoding="utf-8"))
    return site | {"json": done.json}


def runs(listed: int) -> dict[str, Any]:
    """Check that the site passes `validate --connect` and a dry run lists this many pages. Return the run's JSON."""
    checked = call("validate", "site.yaml", "--connect")
    assert checked.code == 0, checked.err
    done = call("run", "site.yaml", "--dry-run", "--json")
    assert done.code == 0, done.out
    sections = done.json["sections"].values()
    assert sum(section["listed"] for section in sections) == listed
    assert sum(section["rejected"] + section["excluded"] for section in sections) == 0
    found: dict[str, Any] = done.json
    return found
