"""The metrics of a site, which each run that is over replaces."""

from __future__ import annotations

from typing import Final

from sitemap_etl.state import layout
from sitemap_etl.state.attempts import last_good, read_attempts
from sitemap_etl.state.records import Attempt
from sitemap_etl.storage import Storage

_TYPE: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"
_LOOK_BACK: Final = 60
"""Runs among which the last that ended well is looked for."""


def metrics_of(work: Storage, name: str, ended: Attempt) -> str:
    """The metrics of a site whose last run is `ended`."""
    from sitemap_etl.report import metrics  # a DAG file is parsed without it

    return metrics.metrics(name, ended, ended if ended.good else last_good(read_attempts(work, _LOOK_BACK)))


def put_metrics(work: Storage, name: str, ended: Attempt) -> None:
    """Keep the metrics of a run that is over. A dry run changes none."""
    if not ended.dry_run:
        work.put(layout.METRICS, metrics_of(work, name, ended).encode(), content_type=_TYPE)
