"""A site as an earlier release left it: its state, its exports, what it had published."""

from __future__ import annotations

import json
import tarfile
from dataclasses import dataclass
from pathlib import Path

from tests.support.sites import TestSite

ARCHIVE = Path(__file__).parents[1] / "data" / "state-format-1.tar.xz"


@dataclass
class Released:
    """`dry`, `refused`: runs that it staged and did not publish."""

    site: TestSite
    dry: str
    refused: str


def released(folder: Path, name: str) -> Released:
    """Unpack `at_rest` (five nights, a refused and a dry run) or `interrupted` (a publish that was killed as well)."""
    with tarfile.open(ARCHIVE) as archive:
        for member in archive.getmembers():
            top, _, rest = member.name.partition("/")
            if top != name:
                continue
            path = folder / rest
            path.parent.mkdir(parents=True, exist_ok=True)
            file = archive.extractfile(member)
            assert file is not None
            data = file.read()
            if path.suffix in (".json", ".yaml"):
                data = data.replace(b"{folder}", str(folder).encode())
            path.write_bytes(data)
    site = TestSite(folder)
    import yaml

    site.keys = yaml.safe_load((folder / "shop.yaml").read_text())
    site.environment.environ["AIRFLOW_CONN_CATALOG"] = f"sqlite:///{folder / 'catalog.db'}"  # type: ignore[index]
    items = site.keys["sections"]["items"]["from"]  # a key is asked for beside :since
    items |= {"query": items["query"].replace("select slug", "select id, slug"), "key": "id"}
    runs = json.loads((folder / "runs.json").read_text())
    return Released(site, runs["dry"], runs["refused"])
