"""Waiting for sources that are not there yet, without a worker: the triggerer holds the task between two looks.

It needs nothing but its clock for that, neither the site file nor the right to read a source.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from airflow.sdk import BaseOperator

from sitemap_etl.airflow.compat import DateTimeTrigger


class AwaitSources(BaseOperator):  # type: ignore[misc] # Airflow's types are not followed
    """Ends when there is nothing more to wait for. `look`: returns when to look again, or None."""

    def __init__(self, *, look: Callable[[Mapping[str, Any]], datetime | None], **options: Any) -> None:
        super().__init__(**options)
        self.look = look

    def execute(self, context: Mapping[str, Any], event: object = None) -> None:  # noqa: ARG002 - as Airflow calls it
        """Look, and defer the task until the next look if there is one."""
        again = self.look(context)
        if again is not None:
            self.defer(trigger=DateTimeTrigger(moment=again), method_name="execute")
