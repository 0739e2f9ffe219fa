"""Addresses of our pages in Airflow, and the link from a task to the report of its run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from airflow.sdk import BaseOperatorLink

from sitemap_etl.airflow.compat import HAS_TABS, conf

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator

PREFIX: Final = "sitemaps"
"""Path of our pages, relative to Airflow's."""
REPORT_TAB: Final = "sitemap_report"
"""Name of the tab of a DAG run in addresses."""
TAG: Final = "sitemap"
"""Tag of every DAG of a site."""
PLAN: Final = "plan"
RUN: Final = "run"
"""XCom: the folder of the run. Pages take only the id of the run from it."""


class ReportLink(BaseOperatorLink):  # type: ignore[misc] # Airflow's types are not followed
    """Button of a task that opens the report of its run in the tab of the DAG run."""

    @property
    def name(self) -> str:
        """Label of the button."""
        return "Report"

    def get_link(self, operator: BaseOperator, *, ti_key: Any) -> str:  # noqa: ARG002 - as Airflow calls it
        """Return the address of the report."""
        base = conf.get("api", "base_url", fallback="").rstrip("/")
        dag_run = f"{quote(ti_key.dag_id)}/runs/{quote(ti_key.run_id)}"
        return f"{base}/dags/{dag_run}/plugin/{REPORT_TAB}" if HAS_TABS else f"{base}/{PREFIX}/{dag_run}"
