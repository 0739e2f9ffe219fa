"""Records which test runs which line, and for how long: a pytest plugin, `-p tests.mutants.recorder`.

Every process of the session writes a file to the folder in `MUTANTS_RECORD`. Lines that a test runs in child processes
are not seen, and failing tests are left out.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Generator
from pathlib import Path

import coverage
import pytest

PACKAGE = Path(__file__).parents[2] / "sitemap_etl"


class Recorder:
    """Coverage of one process, in a context for each test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.seconds: dict[str, float] = {}
        self.failed: set[str] = set()
        self.coverage = coverage.Coverage(data_file=None, config_file=False, source=[str(PACKAGE)])
        self.coverage.start()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        self.coverage.switch_context(item.nodeid)
        began = time.process_time()  # a busy machine makes no test longer
        try:
            return (yield)
        finally:
            self.seconds[item.nodeid] = time.process_time() - began
            self.coverage.switch_context("")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not report.passed:
            self.failed.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        self.coverage.stop()
        if not self.seconds:
            return  # the process that only hands out the tests
        tests = [test for test in self.seconds if test not in self.failed]
        numbers = {test: number for number, test in enumerate(tests)}
        data = self.coverage.get_data()
        lines = {}
        for path in data.measured_files():
            found = lines[Path(path).relative_to(PACKAGE).as_posix()] = {}
            for line, contexts in data.contexts_by_lineno(path).items():
                found[line] = [numbers[test] for test in contexts if test in numbers]
        self.folder.mkdir(parents=True, exist_ok=True)
        record = {"tests": tests, "seconds": [self.seconds[test] for test in tests], "lines": lines}
        (self.folder / f"{os.environ.get('PYTEST_XDIST_WORKER', 'main')}.json").write_text(json.dumps(record))


def pytest_configure(config: pytest.Config) -> None:
    """Record if a folder for it is set, but not in the process that only distributes the tests."""
    folder = os.environ.get("MUTANTS_RECORD")
    if folder and (hasattr(config, "workerinput") or not config.getoption("numprocesses", None)):
        config.pluginmanager.register(Recorder(Path(folder)))
