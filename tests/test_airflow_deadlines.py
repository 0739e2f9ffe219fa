"""Scheduled runs that are not done in time: when they are due, and who is notified."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from sitemap_etl.config import load
from sitemap_etl.errors import ConfigError
from tests.support.engines import Reply, Side

SITE = {
    "name": "shop",
    "site": "https://shop.example",
    "publish": "./public",
    "sections": {"pages": {"from": {"csv": "pages.csv"}}},
}
RUN = {
    "dag_run_id": "scheduled__2026-11-22T01:00:00+00:00",
    "run_type": "scheduled",
    "state": "running",
    "logical_date": "2026-11-22T01:00:00Z",
}


def deadline(folder: Path, schedule: Any, done_by: str, **notify: Any) -> Any:
    from sitemap_etl.airflow.deadlines import deadline_of  # Airflow takes more than a second to import

    file = folder / "shop.yaml"
    notify = notify or {"webhook": "${HOOK}"}
    file.write_text(yaml.safe_dump({**SITE, "schedule": schedule, "airflow": {"done_by": done_by}, "notify": notify}))
    return deadline_of(load(file, environ={}), file)


@pytest.mark.parametrize(
    ("schedule", "done_by", "hours"),
    [
        ("0 2 * * *", "05:00", 3),
        ({"cron": "30 22 * * mon", "timezone": "Europe/Berlin"}, "05:00", 6.5),
        ("@daily", "00:00", 24),
        ({"assets": ["exports"], "or_cron": "0 4 * * *"}, "04:30", 0.5),
    ],
)
def test_a_run_is_due_at_the_next_deadline_after_its_start(
    tmp_path: Path, schedule: Any, done_by: str, hours: float
) -> None:
    assert deadline(tmp_path, schedule, done_by).interval == timedelta(hours=hours)


@pytest.mark.parametrize("schedule", [None, "*/5 * * * *", "0 2,14 * * *", "@hourly", {"assets": ["exports"]}])
def test_a_deadline_as_time_of_day_needs_a_schedule_with_a_time_of_day(tmp_path: Path, schedule: Any) -> None:
    with pytest.raises(ConfigError, match="done_by: needs a schedule that begins at one time of day"):
        deadline(tmp_path, schedule, "05:00")


def test_a_deadline_without_anyone_to_notify_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="done_by: no message would be sent"):
        deadline(tmp_path, "0 2 * * *", "05:00", on=["failed"], webhook="https://hooks.example/1")


def test_notify_says_which_run_is_late_and_how_to_look_at_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from sitemap_etl.airflow.deadlines import missed as late

    notifier = {"class": "tests.support.notifier.FileNotifier", "args": {"path": str(tmp_path / "told")}}
    with Side(lambda _request: Reply(200)) as ear:
        monkeypatch.setenv("HOOK", f"{ear.url}/hook?token=s3cret")
        given = deadline(tmp_path, "0 2 * * *", "05:00", webhook="${HOOK}", airflow={"team": notifier}).callback.kwargs
        assert "s3cret" not in json.dumps(given)
        asyncio.run(late(**given, context={"dag_run": RUN}))
        for other in ({"state": "failed"}, {"run_type": "manual"}):
            asyncio.run(late(**given, context={"dag_run": {**RUN, **other}}))
    (request,) = ear.requests
    assert (request.json["status"], request.json["name"], request.json["now"]) == ("late", "shop", RUN["logical_date"])
    assert (
        request.json["reason"]
        == f"The run {RUN['dag_run_id']} should have been done by 05:00 UTC, and is still running"
    )
    assert request.json["look"] == f"sitemap-etl status {tmp_path / 'shop.yaml'}"
    (said,) = [json.loads(line)["message"] for line in (tmp_path / "told").read_text().splitlines()]
    assert said == request.json["text"]
