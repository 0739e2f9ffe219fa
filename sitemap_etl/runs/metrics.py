"""Write the metrics of a run to a local file, for a collector that reads files."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from sitemap_etl.config import Site
from sitemap_etl.errors import SitemapEtlError
from sitemap_etl.publish.reports import metrics_of
from sitemap_etl.runs.failures import failure
from sitemap_etl.runs.status import past_runs
from sitemap_etl.stages.run import Environment, open_work
from sitemap_etl.state.records import Attempt

_MODE: Final = 0o644
"""File mode. The collector can be another user."""


_LAST: Final = 20
"""Number of recent records in which the last run that was not a dry run is looked up."""


@contextmanager
def measured(site: Site, environment: Environment, file: Path | None) -> Iterator[None]:
    """Write the metrics to `file` when the run ends, even if it fails. A failed write is logged as a warning."""
    if file is None:
        yield
        return
    try:
        yield
    except BaseException as error:
        _write(site, environment, file, failure(error, environment))
        raise
    _write(site, environment, file, None)


def _write(site: Site, environment: Environment, file: Path, failed: Attempt | None) -> None:
    text = None if failed is None else _alone(site, failed)
    with suppress(SitemapEtlError, OSError):
        ended = next((one for one in past_runs(site, environment, _LAST) if not one.dry_run), None)
        text = text if ended is None else metrics_of(open_work(site, environment), site.name, ended)
    if text is None:
        return
    try:
        _replace(file, text)
    except OSError as error:
        environment.log(f"warning: --metrics {file} can't be written: {error.strerror or error}")


def _alone(site: Site, failed: Attempt) -> str:
    """Return the metrics of a run whose state can't be read."""
    from sitemap_etl.report.metrics import metrics

    return metrics(site.name, failed, None)


def _replace(file: Path, text: str) -> None:
    """Replace the file atomically, because a collector can read it at any time."""
    number, name = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
    try:
        with os.fdopen(number, "w", encoding="utf-8") as new:
            new.write(text)
        Path(name).chmod(_MODE)
        Path(name).replace(file)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
