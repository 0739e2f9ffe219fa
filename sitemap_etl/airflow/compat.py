"""Differences between versions of Airflow. Other modules import from `airflow.sdk` only.

This module has every name that is not in `airflow.sdk` of Airflow 3.0. Features that older versions lack are listed in
docs/reference/airflow-versions.md.
"""

from __future__ import annotations

import json
import sys
from importlib import import_module
from types import FrameType, MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from airflow import __version__

__all__ = [
    "AirflowFailException",
    "AirflowNotFoundException",
    "AirflowTaskTimeout",
    "AssetOrTimeSchedule",
    "AsyncCallback",
    "CronTriggerTimetable",
    "DeadlineReference",
    "RetryDecision",
    "RetryPolicy",
    "conf",
]

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import timedelta

    from airflow.sdk import Connection

VERSION: Final = tuple(int(part) for part in __version__.split(".")[:2])
"""Major and minor version of Airflow."""

if VERSION >= (3, 2):
    from airflow.sdk import AssetOrTimeSchedule, CronTriggerTimetable
    from airflow.sdk.configuration import conf
    from airflow.sdk.exceptions import AirflowFailException, AirflowNotFoundException, AirflowTaskTimeout
else:
    from airflow.configuration import conf
    from airflow.exceptions import AirflowFailException, AirflowNotFoundException, AirflowTaskTimeout
    from airflow.timetables.assets import AssetOrTimeSchedule
    from airflow.timetables.trigger import CronTriggerTimetable

IMPORT_LIMIT: Final = ("core", "dagbag_import_timeout")
"""Setting with the maximum seconds for the import of a DAG file."""
PROCESS_LIMIT: Final = ("dag_processor", "dag_file_processor_timeout")
"""Setting for the seconds after which the process that imports and serialises a DAG file is killed."""
_DEFAULT_LIMITS: Final[Mapping[tuple[str, str], float]] = MappingProxyType({IMPORT_LIMIT: 30.0, PROCESS_LIMIT: 50.0})

BACKOFF: Final = 2.0 if VERSION >= (3, 2) else True
"""Growth of the pause before each retry: a factor, or True to double it."""
HAS_RETRY_POLICIES: Final = VERSION >= (3, 3)
"""True if a policy can decide on retries. Older versions only have an exception that is never retried."""
HAS_DEADLINES: Final = VERSION >= (3, 2)
"""True if DAGs can have deadlines (`airflow.done_by`). The experimental ones of Airflow 3.1 are not used."""
HAS_TABS: Final = VERSION >= (3, 1)
"""True if plugins can add tabs to Airflow's pages."""

if HAS_RETRY_POLICIES:
    from airflow.sdk import RetryDecision, RetryPolicy
else:
    RetryDecision = RetryPolicy = None
if HAS_DEADLINES:
    from airflow.sdk import (  # type: ignore[attr-defined] # the stub file of airflow.sdk lacks them
        AsyncCallback,
        DeadlineAlert,
        DeadlineReference,
    )
else:
    AsyncCallback = DeadlineAlert = DeadlineReference = None

_LATER: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        "AirflowPlugin": ("airflow.plugins_manager", "airflow.sdk.plugins_manager"),
        "DateTimeTrigger": ("airflow.providers.standard.triggers.temporal",) * 2,
        "DagModel": ("airflow.models.dag",) * 2,
        "DagTag": ("airflow.models.dag",) * 2,
        "DagRun": ("airflow.models.dagrun",) * 2,
        "GetUserDep": ("airflow.api_fastapi.core_api.security",) * 2,
        "Pool": ("airflow.models.pool",) * 2,
        "XComModel": ("airflow.models.xcom",) * 2,
        "create_session": ("airflow.utils.session",) * 2,
        "get_auth_manager": ("airflow.api_fastapi.app",) * 2,
        "get_hook_lineage_collector": ("airflow.lineage.hook", "airflow.sdk.lineage"),
        "hookimpl": ("airflow.listeners",) * 2,
        "requires_access_dag": ("airflow.api_fastapi.core_api.security",) * 2,
    }
)
"""Name → its module before Airflow 3.2, and since. It is imported when it is first asked for."""


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    before, since = _LATER[name]
    return getattr(import_module(since if VERSION >= (3, 2) else before), name)


def deadline(*, reference: Any, interval: timedelta, callback: Any) -> Any:
    """Return a deadline of a DAG. In Airflow 3.2, deadlines have no name."""
    named = {"name": "done_by"} if VERSION >= (3, 3) else {}
    return DeadlineAlert(**named, reference=reference, interval=interval, callback=callback)


def run_types() -> dict[str, Any]:
    """Return the argument of a DAG that forbids backfills, or nothing if this Airflow has none."""
    if VERSION < (3, 2):
        return {}
    from airflow.utils.types import DagRunType

    return {"allowed_run_types": [kind.value for kind in DagRunType if kind is not DagRunType.BACKFILL_JOB]}


def check_clock(clock: Any) -> None:
    """Plan a first run with a timetable. Raise any exception that Airflow raises."""
    from airflow.timetables.base import TimeRestriction

    clock.validate()
    if VERSION >= (3, 2):
        from airflow.serialization.encoders import coerce_to_core_timetable  # workers don't have it

        clock = coerce_to_core_timetable(clock)
    restriction = TimeRestriction(None, None, catchup=False)
    clock.next_dagrun_info(last_automated_data_interval=None, restriction=restriction)


def event_extra(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the data of an asset event. Airflow 3.0 accepts no lists or mappings, so they become JSON there."""
    if VERSION >= (3, 1):
        return dict(facts)
    return {name: json.dumps(value) if isinstance(value, (list, dict)) else value for name, value in facts.items()}


def as_json(connection: Connection) -> str:
    """Return a connection as JSON."""
    if VERSION >= (3, 1):
        return str(connection.as_json())
    names = ("conn_type", "host", "login", "password", "schema", "port", "extra")
    return json.dumps({name: value for name in names if (value := getattr(connection, name)) is not None})


def parse_limit(setting: tuple[str, str]) -> float:
    """Return a limit of Airflow for DAG files, in seconds. 0 means no limit."""
    return float(conf.getfloat(*setting, fallback=_DEFAULT_LIMITS[setting]))


def dag_serialiser() -> Callable[[Any], Any] | None:
    """Return the function that turns a DAG into JSON, or None if this is not the process that parses DAG files."""
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_code.co_name != "_parse_file_entrypoint":
        frame = frame.f_back
    if frame is None:
        return None
    module = import_module("airflow.serialization.serialized_objects")
    found: Callable[[Any], Any] = (module.DagSerialization if VERSION >= (3, 2) else module.SerializedDAG).to_dict
    return found
