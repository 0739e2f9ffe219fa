"""Failures of tasks: the message is the last line of the log, and only errors that can pass are retried."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, Final, TypeVar

from sitemap_etl.airflow.compat import (
    HAS_RETRY_POLICIES,
    AirflowFailException,
    AirflowTaskTimeout,
    RetryDecision,
    RetryPolicy,
)
from sitemap_etl.errors import SitemapEtlError, Unavailable, defect

_LOG: Final = logging.getLogger("sitemap_etl")
T = TypeVar("T")


class Failed(SystemExit):
    """Exit of a failed task whose message is in the log. For an exit, Airflow logs the code but no traceback.

    The code is the exit code of the command. `reason`: the message. `again`: True if another try can help.
    """

    def __init__(self, reason: str, code: int, *, again: bool = False) -> None:
        super().__init__(code)
        self.reason, self.again = reason, again


class RetryUnavailable(RetryPolicy if HAS_RETRY_POLICIES else object):  # type: ignore[misc] # known only at run time
    """Policy that retries only errors that can pass. Airflow stores the reason with the task instance."""

    def evaluate(
        self,
        exception: BaseException,
        try_number: int,  # noqa: ARG002 - Airflow counts the tries
        max_tries: int,  # noqa: ARG002 - as above
        context: Mapping[str, Any] | None = None,  # noqa: ARG002 - the exception is enough
    ) -> RetryDecision:
        """Return the decision on a failed try."""
        if not isinstance(exception, Failed):
            return RetryDecision.default()
        if exception.again:
            return RetryDecision.retry(reason=exception.reason)
        return RetryDecision.fail(reason="trying again can't help")


def explained(error: BaseException, limit: timedelta | None) -> BaseException:
    """Return the error that explains a timeout of Airflow, or any other error itself. `limit`: the timeout."""
    if not isinstance(error, AirflowTaskTimeout):
        return error
    return Unavailable(
        f"stopped after {limit}: a task of this site may take no longer (`airflow.timeout` in its site file)"
    )


def attempt(stage: Callable[[], T], limit: timedelta | None) -> T:
    """Return the result of a stage. If it raises, log its message last, and raise `Failed`.

    `limit`: how long the task may take.
    """
    try:
        return stage()
    except SitemapEtlError as error:
        failed = Failed(str(error), error.exit_code, again=isinstance(error, Unavailable))
    except AirflowTaskTimeout as error:
        failed = Failed(str(explained(error, limit)), Unavailable.exit_code, again=True)
    except Exception as error:  # noqa: BLE001 - a defect of ours: another try of it would end the same
        _LOG.exception("The traceback, for a report")
        failed = Failed(defect(error), SitemapEtlError.exit_code)
    _LOG.error(failed.reason)
    if failed.again or HAS_RETRY_POLICIES:
        raise failed
    raise AirflowFailException(failed.reason)  # without a policy, Airflow retries after anything else
