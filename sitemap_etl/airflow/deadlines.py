"""Telling people that a scheduled run is not done at the time of day when it should be.

Airflow's own reference points fit runs that the clock started: such a run is due so long after the time that it is
scheduled for. A reference of ours could name the time of day itself, but every scheduler and API server without this
package would then fail to start runs. So a night on which the clocks change is an hour off.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from sitemap_etl.advice import SITE_FILE, for_file
from sitemap_etl.airflow import compat, remote
from sitemap_etl.settings import Site
from sitemap_etl.settings.schedule import time_of_day


def deadline_of(site: Site, site_file: Path) -> Any:
    """The deadline of a site's DAG; None where it has none. What goes with it holds references, and no secret."""
    if site.airflow.done_by is None or not compat.HAS_DEADLINES:
        return None
    assert site.schedule is not None
    assert site.schedule.cron is not None
    begins = time_of_day(site.schedule.cron)
    assert begins is not None
    due = datetime.strptime(site.airflow.done_by, "%H:%M") - datetime.strptime(begins, "%H:%M")  # noqa: DTZ007 - two times of one day
    told: dict[str, Any] = {
        "name": site.name,
        "site": site.site,
        "site_file": str(site_file),
        "done_by": f"{site.airflow.done_by} {site.schedule.timezone}",
        "notify": site.notify.model_dump(mode="json", by_alias=True, exclude_none=True),
    }
    if site.airflow.python is not None:
        told["python"] = site.airflow.python
    return compat.deadline(
        reference=compat.DeadlineReference.DAGRUN_LOGICAL_DATE,
        interval=due if due > timedelta(0) else due + timedelta(days=1),
        callback=compat.AsyncCallback(missed, told),
    )


async def missed(
    name: str,
    site: str,
    site_file: str,
    done_by: str,
    notify: dict[str, Any],
    context: Mapping[str, Any],
    python: str | None = None,
) -> None:
    """Tell those whom `notify` names that a run is late. The triggerer calls it, at the deadline.

    `context`: `dag_run` as Airflow's API shows it.
    """
    run = context["dag_run"]
    if run["run_type"] != "scheduled" or run["state"] not in ("queued", "running"):
        return  # somebody triggered it at a time of their own, or it failed and that was told

    def tell() -> None:  # all triggers share one thread, which waits for no import and no answer
        from sitemap_etl.airflow.notifiers import announcing

        reason = f"The run {run['dag_run_id']} should have been done by {done_by}, and is still {run['state']}"
        look = for_file(f"sitemap-etl status {SITE_FILE}", site_file)
        late = {"name": name, "site": site, "now": str(run["logical_date"]), "reason": reason, "look": look}
        arguments = {"notify": notify, "alert": late}
        if python is not None:
            remote.perform(python, Path(site_file), "report_late", arguments, announcing(context))
            return
        from sitemap_etl.runs import calls
        from sitemap_etl.stages.run import Environment

        world = Environment(announce=announcing(context), log=logging.getLogger("sitemap_etl").warning)
        calls.perform("report_late", None, arguments, calls.Scheduler(world))

    await asyncio.to_thread(tell)
