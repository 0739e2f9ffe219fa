"""Where the pages lie in Airflow, and the link from a task to the report of its run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from airflow.sdk import BaseOperatorLink

from sitemap_etl.airflow.compat import HAS_TABS, conf

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator

PREFIX: Final = "sitemaps"
"""The path of our own pages, below that of Airflow."""
REPORT_TAB: Final = "sitemap_report"
"""What the tab of a DAG run is called in an address."""
TAG: Final = "sitemap"
"""The tag of every DAG of a site."""
PLAN: Final = "plan"
RUN: Final = "run"
"""The task and the key of its XCom that say where the run is. What a task is given besides are numbers."""


class ReportLink(BaseOperatorLink):  # type: ignore[misc] # Airflow's types are not followed
    """The button that opens the report of a task's run, in the tab of its DAG run."""

    @property
    def name(self) -> str:
        return "Report"

    def get_link(self, operator: BaseOperator, *, ti_key: Any) -> str:  # noqa: ARG002 - as Airflow calls it
        base = conf.get("api", "base_url", fallback="").rstrip("/")
        dag_run = f"{quote(ti_key.dag_id)}/runs/{quote(ti_key.run_id)}"
        return f"{base}/dags/{dag_run}/plugin/{REPORT_TAB}" if HAS_TABS else f"{base}/{PREFIX}/{dag_run}"
