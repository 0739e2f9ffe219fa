"""Environment of stages in an Airflow task: connections, log, and label in the grid."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import Connection, get_current_context

from sitemap_etl.airflow.compat import AirflowNotFoundException, as_json
from sitemap_etl.errors import ConfigError
from sitemap_etl.visible import visible_lines

if TYPE_CHECKING:
    from pathlib import Path

    from sitemap_etl.stages.run import Environment

_LOG: Final = logging.getLogger("sitemap_etl")


def environment(site_file: Path | None, **more: Any) -> Environment:
    """Return the environment of a stage in this process. `more`: fields of `Environment` besides."""
    from sitemap_etl.stages.run import Environment

    logging.getLogger("botocore").setLevel(logging.WARNING)  # it logs the origin of its credentials each time
    return Environment(
        connections=connection_of,
        log=log,
        detail=log_detail,
        label=show_label,
        site_file="" if site_file is None else str(site_file),
        **more,
    )


def log(line: str) -> None:
    """Write a line to the task's log."""
    _LOG.log(logging.WARNING if line.startswith("warning: ") else logging.INFO, "%s", visible_lines(line))


def log_detail(line: str, **facts: Any) -> None:
    """Write the outcome of a part of the task's work to its log. Lines about single files need the level DEBUG."""
    _LOG.log(logging.DEBUG if "file" in facts else logging.INFO, "%s", visible_lines(line))


def connection_of(connection_id: str) -> str:
    """Return a connection of Airflow as JSON: of a secrets backend, the environment or the metadata database."""
    try:
        connection: Connection = Connection.get(connection_id)
    except AirflowNotFoundException:
        raise ConfigError(
            f"connection {connection_id!r} is not known: create it in Airflow (Admin, Connections), or set "
            f"AIRFLOW_CONN_{connection_id.upper()} to its URI"
        ) from None
    return as_json(connection)


def show_label(text: str) -> None:
    """Set the label of the current mapped task in the grid."""
    get_current_context()["label"] = text  # read by map_index_template


def owner_of(context: Mapping[str, Any]) -> str:
    """Return the name of the DAG run in the lease."""
    return f"{context['dag'].dag_id}/{context['run_id']}"


def has_ended(owner: str) -> bool:
    """Return True if the owner of a lease is a run of this DAG that has ended or was deleted."""
    context = get_current_context()
    dag_id, _, run_id = owner.partition("/")
    if dag_id != context["dag"].dag_id:
        return False
    return bool(context["ti"].get_dr_count(dag_id, run_ids=[run_id], states=["running"]) == 0)
