"""Shows the mistakes in site files as an import error of Airflow. The DAGs of all other sites are in sitemaps.py."""

import os
from pathlib import Path

from sitemap_etl.airflow import raise_site_errors

raise_site_errors(os.environ.get("SITEMAP_ETL_SITES") or Path(__file__).resolve().parents[1] / "sites")
