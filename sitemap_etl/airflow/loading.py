"""Time limits of Airflow for DAG files. If one is exceeded, an import error names the setting to raise."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from sitemap_etl.airflow.compat import (
    IMPORT_LIMIT,
    PROCESS_LIMIT,
    AirflowTaskTimeout,
    dag_serialiser,
    parse_limit,
)
from sitemap_etl.errors import ConfigError

_TRIED: Final = 3
"""Number of DAGs that are serialized to measure the time of one. The fastest counts, so that delays do no harm."""
_FEW: Final = 25
"""Number of DAGs below which the time is not measured."""
_LATEST: Final = 0.95
"""Share of the process's time after which loading stops, so that the error still reaches Airflow."""


class LoadTime:
    """Time that it takes to load a folder of site files, in the process that parses DAG files.

    Airflow interrupts an import that takes too long, with its own message. It ends a process that takes too long, and
    reports nothing. Other processes have no such limits.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._serialise = dag_serialiser()
        self._limit = parse_limit(PROCESS_LIMIT) if self._serialise is not None else 0.0
        self._began = time.monotonic() - _age()

    @contextmanager
    def limited(self) -> Iterator[None]:
        """Replace Airflow's error about a slow import with one that names the setting."""
        try:
            yield
        except AirflowTaskTimeout as error:
            raise too_slow(self._folder, IMPORT_LIMIT, 2 * parse_limit(IMPORT_LIMIT)) from error

    def demand_time(self) -> None:
        """Raise ConfigError if Airflow is about to end the process."""
        if self._limit > 0 and time.monotonic() - self._began > self._limit * _LATEST:
            raise too_slow(self._folder, PROCESS_LIMIT, 2 * self._limit)

    def demand_time_for(self, dags: Mapping[str, Any]) -> None:
        """Raise ConfigError if Airflow will end the process before these DAGs are serialized."""
        if self._limit <= 0 or self._serialise is None or len(dags) < _FEW:
            return
        each = []
        for dag in list(dags.values())[:_TRIED]:
            before = time.monotonic()
            self._serialise(dag)
            each.append(time.monotonic() - before)
        needed = time.monotonic() - self._began + min(each) * (len(dags) - _TRIED)
        if needed > self._limit:
            raise too_slow(self._folder, PROCESS_LIMIT, 2 * needed)


def too_slow(folder: Path, setting: tuple[str, str], enough: float) -> ConfigError:
    """Return the error about a limit of Airflow. `enough`: the seconds to suggest, with a margin for busy machines."""
    section, key = setting
    return ConfigError(
        f"{folder}: its site files take longer to become DAGs than the {parse_limit(setting):.0f} seconds that Airflow "
        f"allows ({key} in section {section}). Set AIRFLOW__{section.upper()}__{key.upper()}={enough:.0f} for the DAG "
        "processor, or write a DAG file for each site, with sitemap_etl.airflow.site_dag"
    )


def _age() -> float:
    """Return the seconds since this process started, which include loading Airflow's modules."""
    stat = Path("/proc/self/stat")
    if not stat.exists():  # not Linux
        return 0.0
    ticks = int(stat.read_bytes().rpartition(b")")[2].split()[19])
    return max(time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK"), 0.0)
