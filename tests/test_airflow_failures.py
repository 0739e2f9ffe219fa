"""Failed tasks: whether Airflow retries them, and what their log says."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import RetryDecision
from airflow.sdk.definitions.retry_policy import RetryAction
from airflow.sdk.exceptions import AirflowTaskTimeout
from airflow.sdk.execution_time.timeout import TimeoutPosix

from sitemap_etl.airflow.failures import Failed, RetryUnavailable, attempt, explained
from sitemap_etl.errors import ConfigError, Refused, Unavailable
from sitemap_etl.runs import tasks
from sitemap_etl.stages.run import open_work
from sitemap_etl.state.attempts import read_attempts
from sitemap_etl.state.records import Options
from tests.support.sites import TestSite, pages


def failed(stage: Callable[[], Any]) -> Failed:
    with pytest.raises(Failed) as found:
        attempt(stage, timedelta(hours=6))
    return found.value


def raising(error: Exception) -> Callable[[], Any]:
    def stage() -> None:
        raise error

    return stage


def decision(error: BaseException) -> RetryDecision:
    return RetryUnavailable().evaluate(error, 1, 3)


def test_the_result_of_a_stage_is_returned() -> None:
    assert attempt(lambda: 7, None) == 7


def test_an_unavailable_service_is_retried_and_the_reason_recorded() -> None:
    error = failed(raising(Unavailable("the database did not answer")))
    assert decision(error) == RetryDecision(RetryAction.RETRY, reason="the database did not answer")
    assert error.code == 3


@pytest.mark.parametrize(("error", "code"), [(Refused("no"), 1), (ConfigError("no"), 2), (ValueError("no"), 70)])
def test_other_errors_fail_at_once_with_the_exit_code_of_the_command(error: Exception, code: int) -> None:
    ended = failed(raising(error))
    assert decision(ended).action is RetryAction.FAIL
    assert ended.code == code


def test_a_task_that_times_out_names_the_setting_and_is_retried() -> None:
    with TimeoutPosix(0.1):
        error = failed(lambda: time.sleep(30))
    assert decision(error).action is RetryAction.RETRY
    assert "stopped after 6:00:00" in error.reason
    assert "airflow.timeout" in error.reason


def test_a_task_that_times_out_is_reported_but_not_as_a_bug(tmp_path: Path) -> None:
    """The error is in the run record, which messages are made of."""
    site = TestSite(tmp_path).section("pages", pages(5))
    key = tasks.start(site.load(), Options(), site.environment, owner="shop/tonight").key
    slow = replace(
        site.environment,
        advance=lambda *_: time.sleep(30),
        explained=lambda error: explained(error, timedelta(seconds=12)),
    )
    with pytest.raises(AirflowTaskTimeout), TimeoutPosix(0.3):
        tasks.build(key, slow)
    (known,) = read_attempts(open_work(site.load(), site.environment))
    assert (known.status, known.kind) == ("failed", "unavailable")
    assert "stopped after 0:00:12" in str(known.error)


def test_errors_of_airflow_itself_are_left_to_airflow() -> None:
    assert decision(RuntimeError("the API server went away")).action is RetryAction.DEFAULT


def test_the_message_ends_the_log_and_only_a_bug_has_a_traceback(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "sitemap_etl"):
        failed(raising(Refused("the gate said no")))
        assert [(record.message, record.exc_info) for record in caplog.records] == [("the gate said no", None)]
        failed(raising(ZeroDivisionError("division by zero")))
    assert caplog.records[-2].exc_info is not None
    assert caplog.records[-1].message.endswith("This is a defect of sitemap_etl: please report it")
