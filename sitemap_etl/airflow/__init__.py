"""The Airflow integration, and the only package that imports Airflow.

DAG files import the names of `__all__` from here. Every process of Airflow loads the plugin or
a DAG, so heavy modules are imported only when they are used.
"""

from __future__ import annotations

from importlib import metadata
from typing import TYPE_CHECKING, Any, Final

from sitemap_etl.errors import ConfigError

if TYPE_CHECKING:
    from sitemap_etl.airflow.factory import raise_site_errors, site_dag, site_dags

__all__ = ["raise_site_errors", "site_dag", "site_dags"]

_OLDEST: Final = 3
"""The oldest major version of Airflow with the Task SDK, from which DAG files import."""


def _demand_airflow_3() -> None:
    try:
        found = metadata.version("apache-airflow")
    except metadata.PackageNotFoundError:  # only parts of Airflow 3 are installed; Airflow 2 has no parts
        return
    if int(found.partition(".")[0]) < _OLDEST:
        raise ConfigError(f"sitemap_etl needs Airflow 3.0 or later, and this is Airflow {found}: upgrade Airflow")


_demand_airflow_3()


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from sitemap_etl.airflow import factory

    return getattr(factory, name)
