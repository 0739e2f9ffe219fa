"""Alerts for scheduled runs that miss their deadline (`airflow.done_by`).

The deadline counts from the scheduled time, with one of Airflow's own references. So it is off by one hour when the
clocks change. A reference of our own could name the time of day, but runs would then fail to start on schedulers and
API servers without this package.
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
    """Return the deadline of a site's DAG, or None. Its arguments have names of variables, but no secrets."""
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
    """Send the alert about a late run. The triggerer calls this function at the deadline.

    `context`: holds `dag_run` in the form of Airflow's API.
    """
    run = context["dag_run"]
    if run["run_type"] != "scheduled" or run["state"] not in ("queued", "running"):
        return  # triggered at another time, or its failure was reported

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
