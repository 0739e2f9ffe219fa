"""Makes a DAG of every site file in a folder: the one of SITEMAP_ETL_SITES, or `sites/` beside the folder of DAGs."""

import os
from pathlib import Path

from sitemap_etl.airflow import site_dags

globals().update(site_dags(os.environ.get("SITEMAP_ETL_SITES") or Path(__file__).resolve().parents[1] / "sites"))
