"""Fixtures that every test may ask for, and the rule that CI skips nothing."""

from __future__ import annotations

import os
from collections.abc import Generator

import pytest
from hypothesis import HealthCheck, settings

# Of all properties: an example may be a whole run that needs a folder, and the machine may be busy.
settings.register_profile(
    "tests",
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("tests")

pytest_plugins = ["tests.support.fixtures", "tests.support.postgres", "tests.support.seaweedfs"]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A test that lacks what it needs is skipped on a person's machine, and fails in CI."""
    report = yield
    if report.skipped and os.environ.get("CI") == "true" and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped, which CI does not allow: {report.longrepr}"
    return report
