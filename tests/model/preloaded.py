"""Everything that a run imports, for the process from which runs are forked: this makes a run cheap."""

from __future__ import annotations

import anyio
import boto3
import duckdb
import httpcore
import pyarrow.csv
import pyarrow.dataset

from sitemap_etl import report
from sitemap_etl.state.records import Summary
from tests.model import planted, world

__all__ = ["anyio", "boto3", "duckdb", "httpcore", "planted", "pyarrow", "world"]

report.render(Summary())  # compiles its template
