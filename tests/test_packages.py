"""`make test P=…` finds the tests of every package."""

from __future__ import annotations

import pytest

from tests.support.packages import CALLED, TESTS, files_of, packages, packages_of

FOLDERS = sorted(path.name for path in (TESTS.parent / "sitemap_etl").iterdir() if (path / "__init__.py").exists())


@pytest.mark.parametrize("package", FOLDERS)
def test_every_package_has_tests(package: str) -> None:
    assert files_of(package)


def test_a_test_file_belongs_to_its_namesake_and_to_what_it_imports_most() -> None:
    assert packages_of(TESTS / "test_urls.py") == {"urls"}
    assert packages_of(TESTS / "test_sources_csv.py") >= {"sources"}
    assert packages_of(TESTS / "test_gates.py") == {"publish"}
    assert packages_of(TESTS / "test_dag_files.py") == {"airflow"}
    assert packages_of(TESTS / "test_session.py") == set()


def test_exceptions_to_the_naming_of_test_files_are_in_use() -> None:
    assert set(CALLED.values()) <= packages()
    assert all(list(TESTS.glob(f"test_{word}*.py")) for word in CALLED)
