"""How a task that failed ends: with its message as the last of its log, and tried again only where that may help."""

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
    """Ends a task whose log says why: of an exit Airflow logs the code alone, of an exception the whole traceback.

    The code is the command's. `reason`: the message; `again`: whether another try may help.
    """

    def __init__(self, reason: str, code: int, *, again: bool = False) -> None:
        super().__init__(code)
        self.reason, self.again = reason, again


class RetryUnavailable(RetryPolicy if HAS_RETRY_POLICIES else object):  # type: ignore[misc] # known only at run time
    """Tries again only what another try may fix. The reason is kept with the task instance."""

    def evaluate(
        self,
        exception: BaseException,
        try_number: int,  # noqa: ARG002 - Airflow counts
        max_tries: int,  # noqa: ARG002 - as above
        context: Mapping[str, Any] | None = None,  # noqa: ARG002 - the error says all
    ) -> RetryDecision:
        if not isinstance(exception, Failed):
            return RetryDecision.default()
        if exception.again:
            return RetryDecision.retry(reason=exception.reason)
        return RetryDecision.fail(reason="trying again can't help")


def explained(error: BaseException, limit: timedelta | None) -> BaseException:
    """What an error means that Airflow ends a task with. `limit`: how long the task may take."""
    if not isinstance(error, AirflowTaskTimeout):
        return error
    return Unavailable(
        f"stopped after {limit}: a task of this site may take no longer (`airflow.timeout` in its site file)"
    )


def attempt(stage: Callable[[], T], limit: timedelta | None) -> T:
    """What a stage gives; where it raises, `Failed`, with the message as the last in the log.

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
