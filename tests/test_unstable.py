"""Which failed tests CI retries: a few, but none whose purpose is to find rare failures."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.documents import ROOT
from tests.support.session import ONCE, again, failures, files_with_tests_alone

pytest_plugins = ["pytester"]


def test_at_most_three_failed_tests_are_tried_again() -> None:
    assert again({"b": True, "a": True, "c": True}) == ["a", "b", "c"]
    assert again(dict.fromkeys("abcd", True)) == []


def test_only_files_with_tests_are_found() -> None:
    assert files_with_tests_alone([]) == ["tests/test_check_linear.py"]
    assert files_with_tests_alone(["tests/test_urls.py"]) == []


def test_no_test_is_retried_if_a_test_failed_that_must_not_be_retried() -> None:
    assert again({"a": True, "b": False}) == []


@pytest.mark.parametrize("name", ONCE)
def test_every_test_file_that_is_never_retried_exists(name: str) -> None:
    assert list((ROOT / "tests").rglob(f"{name}.py"))


FAILING = """
from hypothesis import given, strategies as st

@given(st.integers())
def test_a_property(number):
    assert False

def test_a_case():
    assert False

def test_what_passes():
    pass
"""


def test_a_session_records_failures_and_that_properties_are_never_retried(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makeconftest("from tests.conftest import pytest_runtest_logreport, pytest_sessionfinish\n")
    pytester.makepyfile(test_some=FAILING)
    (pytester.path / "failed").mkdir()
    monkeypatch.setenv("SITEMAP_ETL_FAILED", str(pytester.path / "failed" / "first.json"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    pytester.runpytest_subprocess("-p", "no:cacheprovider")
    found = failures(pytester.path / "failed")
    assert {test.rpartition("::")[2]: may for test, may in found.items()} == {
        "test_a_property": False,
        "test_a_case": True,
    }


def test_a_session_without_failures_records_none(tmp_path: Path) -> None:
    (tmp_path / "first.json").write_text(json.dumps({}))
    assert failures(tmp_path) == {}
