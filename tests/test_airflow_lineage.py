"""What lineage collectors of Airflow receive: from a real collector, registered by a plugin."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from sitemap_etl.airflow.lineage import exports_of
from sitemap_etl.config import load
from tests.support.airflow import PROJECT

PLUGIN = """
from airflow.sdk.lineage import HookLineageReader
from airflow.sdk.plugins_manager import AirflowPlugin

class Gathers(AirflowPlugin):
    name = "gathers"
    hook_lineage_readers = [HookLineageReader]
"""
TASK = """
import json, sys
from pathlib import Path
from airflow.sdk.lineage import get_hook_lineage_collector
from sitemap_etl.airflow.lineage import note_published, note_sources
from sitemap_etl.config import load

site = load(Path(sys.argv[1]), environ={})
note_sources(None, site)
note_published(None, site)
gathered = get_hook_lineage_collector().collected_assets
print(json.dumps([[one.asset.uri for one in found] for found in (gathered.inputs, gathered.outputs)]))
"""


@pytest.fixture
def site_file(tmp_path: Path) -> Path:
    sections = {
        "pages": {"from": {"csv": ["pages.csv", "more/part-*.csv"]}},
        "articles": {"from": {"parquet": "s3://exports/articles/day=*/*.parquet"}},
        "products": {"from": {"database": "catalog", "query": "SELECT loc FROM products"}},
    }
    file = tmp_path / "shop.yaml"
    file.write_text(
        yaml.safe_dump({"site": "https://shop.example", "publish": "./public", "sections": sections}, sort_keys=False)
    )
    return file


def test_lineage_names_exports_by_address_and_a_pattern_by_its_folder(site_file: Path) -> None:
    folder = f"file://{site_file.parent}"
    found = list(exports_of(load(site_file, environ={})))
    assert found == [f"{folder}/pages.csv", f"{folder}/more", "s3://exports/articles"]


@pytest.mark.thorough
def test_the_lineage_collector_gets_inputs_and_outputs(site_file: Path) -> None:
    plugins = site_file.parent / "plugins"
    plugins.mkdir()
    (plugins / "gathers.py").write_text(PLUGIN)
    environ = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")}
    environ |= {"AIRFLOW_HOME": str(site_file.parent / "home"), "AIRFLOW__CORE__PLUGINS_FOLDER": str(plugins)}
    command = [sys.executable, "-c", TASK, str(site_file)]
    done = subprocess.run(command, cwd=PROJECT, env=environ, capture_output=True, text=True, check=True)
    inputs, outputs = json.loads(done.stdout.splitlines()[-1])
    folder = f"file://{site_file.parent}"
    assert sorted(inputs) == sorted([f"{folder}/pages.csv", f"{folder}/more", "s3://exports/articles"])
    assert outputs == [f"{folder}/public"]
