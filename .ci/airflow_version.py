"""Try the DAG with the Airflow of this interpreter: one site in one task, one in tasks of every stage.

    build/env/airflow-3.0.6/bin/python .ci/airflow_version.py [PYTHON]

`.ci/airflow` makes such an environment. It needs Airflow and sitemap_etl, and no tools for tests. PYTHON runs the tasks
(`airflow.python`): then it needs the libraries that read site files, and no others.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from dataclasses import dataclass
from datetime import timedelta
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import NoReturn

NEW = tuple(map(int, version("apache-airflow").split(".")[:2])) >= (3, 2)
SITE = """
site: https://shop.example
schedule: {{cron: "0 2 * * *", timezone: Europe/Berlin}}
work: ../work
publish: {{to: ../public-{name}, at: "https://shop.example/"}}
airflow: {{small: {small}, retries: 1{python}}}
notify: {{webhook: "https://127.0.0.1:1/"}}
sections:
  pages: {{from: {{csv: ../pages.csv}}}}
  walks: {{from: {{csv: ../walks.csv}}, alternates: {{group: walk, hreflang: lang}}}}
"""
FORMS = {"one_task": 2_000_000, "all_tasks": 0}
LATE = "with_deadline"
"""A site that is only loaded, because Airflow tests no DAG with a deadline without its scheduler."""


def fail(said: str) -> NoReturn:
    """End the process with what is wrong."""
    sys.exit(f"Airflow {version('apache-airflow')}: {said}")


def write(folder: Path) -> None:
    """Write two sites with their exports, and the DAG files of a user."""
    for name in ("dags", "sites", "home"):
        (folder / name).mkdir()
    # The interpreter of the tasks, if the environment of Airflow has the package alone.
    python = f", python: {json.dumps(sys.argv[1])}" if sys.argv[1:] else ""
    for name, small in FORMS.items():
        (folder / "sites" / f"{name}.yaml").write_text(SITE.format(name=name, small=small, python=python))
    late = SITE.format(name=LATE, small=0, python=python).replace("retries: 1", 'done_by: "05:00"')
    (folder / "sites" / f"{LATE}.yaml").write_text(late)
    pages = [f"/pages/{n},2026-01-01" for n in range(50)]
    (folder / "pages.csv").write_text("\n".join(["loc,lastmod", *pages, ""]))
    (folder / "walks.csv").write_text("loc,walk,lang\n/en/1,1,en\n/de/1,1,de\n")
    sites = json.dumps(str(folder / "sites"))
    importing = "from sitemap_etl.airflow import"
    dags = f"{importing} site_dags\nglobals().update(site_dags({sites}))\n"
    (folder / "dags" / "sitemaps.py").write_text(dags)
    (folder / "dags" / "broken.py").write_text(f"{importing} raise_site_errors\nraise_site_errors({sites})  # no DAG\n")


def published(folder: Path, name: str) -> dict[str, tuple[bytes, int]]:
    """Return the published files of a site, with the moments of writing."""
    public = folder / f"public-{name}"
    return {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in public.glob("*")}


class Airflow:
    """An Airflow in this process, with a database of its own."""

    def __init__(self, folder: Path) -> None:
        for name in [name for name in os.environ if name.startswith(("AIRFLOW", "SITEMAP_ETL"))]:
            del os.environ[name]
        os.environ |= {
            "AIRFLOW_HOME": str(folder / "home"),
            "AIRFLOW__CORE__DAGS_FOLDER": str(folder / "dags"),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{folder / 'home' / 'airflow.db'}?timeout=60",
            "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
        }
        from airflow.dag_processing.bundles.manager import DagBundlesManager
        from airflow.utils.db import initdb

        initdb()
        DagBundlesManager().sync_bundles_to_db()
        module = import_module("airflow.dag_processing.dagbag" if NEW else "airflow.models.dagbag")
        named = {"bundle_name": "dags-folder"} if NEW else {}
        bag = module.DagBag(str(folder / "dags"), bundle_path=folder / "dags", **named)
        if bag.import_errors or sorted(bag.dags) != sorted([*FORMS, LATE]):
            fail(f"the DAG files make {sorted(bag.dags)}, with these import errors: {bag.import_errors}")
        if hasattr(module, "sync_bag_to_db"):  # serialises the DAGs
            module.sync_bag_to_db(bag, "dags-folder", None)
        else:
            bag.sync_to_db("dags-folder", None)
        self._dags = bag.dags

    def run(self, name: str) -> Run:
        """Run a DAG to its end. A task that is to be tried again is tried at once."""
        dag = self._dags[name]
        for task in dag.tasks:
            values = {"retry_delay": timedelta(0), "retry_exponential_backoff": 0 if NEW else False}
            if hasattr(task, "partial_kwargs"):
                task.partial_kwargs.update(values)
            else:
                for key, value in values.items():
                    setattr(task, key, value)
        found = dag.test(logical_date=None, run_conf={})
        instances = found.get_task_instances()
        tries = max(one.try_number for one in instances)
        return Run(str(found.state), {one.task_id: str(one.state) for one in instances}, tries, events_of(found.run_id))


@dataclass(frozen=True)
class Run:
    """The end of a DAG run. `tries`: of the task that was tried most often. `events`: assets that it has updated."""

    state: str
    tasks: dict[str, str]
    tries: int
    events: list[str]


def events_of(run_id: str) -> list[str]:
    """Return the assets that a run has updated."""
    from airflow.models.asset import AssetEvent, AssetModel
    from airflow.utils.session import create_session
    from sqlalchemy import select

    joined = select(AssetModel.uri).join(AssetEvent, AssetEvent.asset_id == AssetModel.id)
    with create_session() as session:
        return list(session.scalars(joined.where(AssetEvent.source_run_id == run_id)))


def try_sites(folder: Path, airflow: Airflow) -> None:
    """Publish both sites, change nothing, refuse a broken source at once, and publish again."""
    pages = folder / "pages.csv"
    text = pages.read_text()
    for name in FORMS:
        first = airflow.run(name)
        files = published(folder, name)
        if first.state != "success" or "sitemap.xml" not in files or first.events != [f"x-sitemap://{name}"]:
            fail(f"{name}: nothing was published: {first}")
        pages.write_text("url,lastmod\n/pages/1,2026-01-01\n")
        broken = airflow.run(name)
        pages.write_text(text)
        if (broken.state, broken.tries) != ("failed", 1) or published(folder, name) != files:
            fail(f"{name}: a run with a broken source was not refused at once: {broken}")
        if (folder / "work" / name / "state" / "lease.json").exists():
            fail(f"{name}: a failed run has left its lease")
        again = airflow.run(name)
        if again.state != "success" or published(folder, name) != files:
            fail(f"{name}: a run without changes has written files: {again}")


def main() -> None:
    """Try both sites in a folder of their own."""
    with tempfile.TemporaryDirectory(prefix="sitemap_etl-airflow-") as scratch:
        folder = Path(scratch)
        write(folder)
        try_sites(folder, Airflow(folder))
    print(f"Airflow {version('apache-airflow')}: the DAGs load, publish, and refuse a broken source at once")


if __name__ == "__main__":
    main()
