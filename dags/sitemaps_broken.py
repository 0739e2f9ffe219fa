"""Shows every mistake in the site files as an import error. It holds no DAG: those of airflow are in sitemaps.py.

Airflow takes back all DAGs of a file that has an import error. So the site files that can't be read are
told from a file of their own, and the DAGs of the others stay.
"""

from __future__ import annotations

import os
from pathlib import Path

from sitemap_etl.airflow.assets import problems_of
from sitemap_etl.config import read_folder
from sitemap_etl.errors import ConfigError

SITES = Path(os.environ.get("SITEMAP_ETL_SITES") or Path(__file__).resolve().parent.parent / "sites")

folder = read_folder(SITES, environ=os.environ)
problems = [
    *folder.problems,
    *(f"{folder.files[name]}: {problem}" for name, site in folder.sites.items() for problem in problems_of(site)),
]
if problems:
    raise ConfigError(problems)
