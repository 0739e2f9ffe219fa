"""Fixtures for all tests, the order of a session, and the rule that CI skips nothing."""

from __future__ import annotations

import gc
import json
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.support.examples import examples
from tests.support.session import FAILED, may_be_tried_again

# Of all properties: an example may be a whole run that needs a folder, and the machine may be busy.
settings.register_profile(
    "tests",
    max_examples=examples(100),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("tests")
# Of a property that fails, hypothesis makes a patch, which falls over modules with objects of zope in them: the session
# would end without the name of the test.
sys.modules["hypothesis.extra._patching"] = None  # type: ignore[assignment]  # which is how a module is hidden

pytest_plugins = [
    "tests.support.airflow",
    "tests.support.fixtures",
    "tests.support.postgres",
    "tests.support.seaweedfs",
]

LONG = (
    "test_distributed",
    "test_airflow_ui",
    "test_demo",
    "test_crash",
    "test_dag",
    "test_airflow_pages",
    "test_docs_run",
    "test_faults",
    "test_late_requests",
    "test_flips",
    "test_forget",
    "test_iam",
    "test_mirror_databases",
    "test_soak",
    "test_cli_streams",
    "test_storage_answers",
    "test_session",
    "test_retention",
    "test_incremental",
    "test_storage_faults",
    "test_concurrency",
    "test_tables",
    "test_quiet",
    "test_splits",
    "test_storage_contract",
    "test_wheel",
    "test_mistakes",
    "test_bad_input",
    "test_cli_init",
)
"""The files that take longest, the longest first: begun at the end of a session, one would keep it waiting."""


MEMORY = Path("/dev/shm")
ROOM = 4 << 30
"""Bytes that the folders of a session may take, with much to spare: a passed test's folder is removed."""


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Use one seed for all properties of a session. A failure shows it, to repeat the same examples.

    CI always uses the same seed, so that its failures are due to the change. Local sessions and the soak vary.

    Temporary folders are in memory if there is space, unless TMPDIR is set: the runs of a session call fsync some
    hundred thousand times, and wait for it longer than they compute.
    """
    if "TMPDIR" not in os.environ and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > ROOM:
        os.environ["TMPDIR"] = tempfile.tempdir = str(MEMORY)
    if config.getoption("--hypothesis-seed") is None:
        seed = 0 if os.environ.get("CI") == "true" else random.SystemRandom().randrange(10**9)
        config.option.hypothesis_seed = str(seed)


_FAILED: dict[str, bool] = {}


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note the failed tests, and whether they may be retried."""
    if report.failed:
        _FAILED[report.nodeid] = may_be_tried_again(report)


LEFT_OUT = pytest.StashKey[int]()
"""How many tests were left out because they are thorough."""


def pytest_deselected(items: list[pytest.Item]) -> None:
    """Count the tests that `make test` leaves out."""
    stash = items[0].config.stash
    stash[LEFT_OUT] = stash.get(LEFT_OUT, 0) + sum(item.get_closest_marker("thorough") is not None for item in items)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Send what was left out to the process that shows the end of the session, and the failures to `make test`."""
    output = getattr(session.config, "workeroutput", None)
    if output is None and FAILED in os.environ:
        Path(os.environ[FAILED]).write_text(json.dumps(_FAILED))
    if output is not None:
        output["left out"] = session.config.stash.get(LEFT_OUT, 0)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Collect the notes of a process of the session. Each has seen all tests."""
    node.config.stash[LEFT_OUT] = getattr(node, "workeroutput", {}).get("left out", 0)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print at the end what was left out, and how to run it."""
    if left_out := config.stash.get(LEFT_OUT, 0):
        terminalreporter.write_line(
            f"Left out: {left_out:,} thorough tests (whole programs, servers, matrices). `make test ALL=1` runs them."
        )


def pytest_xdist_auto_num_workers() -> int:
    """Start one process more than there are processors: many tests wait, mostly for time limits."""
    return (os.cpu_count() or 1) + 1


@pytest.hookimpl(tryfirst=True)  # before tests are chosen by their marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark tests on the second S3 server as thorough. If processes share the tests, long files come first.

    No test may take longer than the watchdog waits: it ends the process, as if the test had crashed.
    """
    patience = float(config.getini("faulthandler_timeout"))
    for item in items:
        if isinstance(item, pytest.Function) and "seaweedfs" in _asked_for(item):
            item.add_marker(pytest.mark.thorough)
        limit = item.get_closest_marker("timeout")
        if limit is not None and limit.args[0] >= patience:
            raise pytest.UsageError(f"{item.nodeid} may take {limit.args[0]} s: the watchdog waits {patience:.0f}")
    if not hasattr(config, "workerinput"):
        return
    order = {name: number for number, name in enumerate(LONG)}
    items.sort(key=lambda item: order.get(item.path.stem, len(LONG)))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Exclude what stays until the session ends (modules and thousands of tests) from garbage collection."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def _lacks_airflow(error: BaseException | None) -> bool:
    """Return True if the error is an import of Airflow on a machine without Airflow, which the package doesn't need."""
    return isinstance(error, ModuleNotFoundError) and error.name == "airflow" and os.environ.get("CI") != "true"


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Skip a file that imports Airflow if it isn't installed."""
    report = yield
    call: pytest.CallInfo[object] | None = getattr(report, "call", None)
    if report.failed and call is not None and call.excinfo is not None and _lacks_airflow(call.excinfo.value.__cause__):
        report.outcome = "skipped"
        report.longrepr = (str(collector.path), 1, "Skipped: Airflow is not installed")
    return report


def pytest_unconfigure() -> None:
    """Keep all objects until the process ends, as without tests: DuckDB complains about objects that remain."""
    gc.unfreeze()


def _asked_for(item: pytest.Function) -> list[object]:
    """Return the fixtures of a test, and the values of its parameters."""
    called = getattr(item, "callspec", None)
    return [*item.fixturenames, *(called.params.values() if called is not None else ())]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Skip a test that lacks a requirement on a local machine, and fail it in CI."""
    report = yield
    if report.failed and call.excinfo is not None and _lacks_airflow(call.excinfo.value):
        report.outcome = "skipped"
        report.longrepr = (str(item.path), item.reportinfo()[1], "Skipped: Airflow is not installed")
    if report.skipped and os.environ.get("CI") == "true" and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped, which CI does not allow: {report.longrepr}"
    if report.failed and getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
        seed = item.config.getoption("--hypothesis-seed")
        again = f"pytest {item.nodeid!r} --hypothesis-seed={seed}"
        report.sections.append(("The same examples again", again))
    return report
