"""docs/reference/databases.md says how types are converted, as verified with each database's real server.

To update the tables: .venv/bin/python -m tests.support.database_types docs/reference/databases.md
"""

from __future__ import annotations

from pathlib import Path

from tests.support import database_types
from tests.support.mariadb import MariaDB, mariadb  # noqa: F401 - a fixture
from tests.support.postgres import Postgres

DOCUMENT = Path(__file__).parent.parent / "docs" / "reference" / "databases.md"


def written() -> dict[str, str]:
    return {found[2]: found[0] for found in database_types.BLOCK.finditer(DOCUMENT.read_text("utf-8"))}


def test_the_reference_has_a_table_of_types_for_every_database() -> None:
    assert list(written()) == ["postgresql", "mysql", "sqlite", "duckdb"]


def test_postgresql_types_are_converted_as_the_reference_says(postgres: Postgres) -> None:
    assert database_types.postgresql(postgres) in written()["postgresql"]


def test_mariadb_types_are_converted_as_the_reference_says(mariadb: MariaDB) -> None:  # noqa: F811 - the imported fixture
    mariadb.execute(*database_types.MYSQL_TABLE)
    assert database_types.table(mariadb.uri, database_types.MYSQL, "FROM types") in written()["mysql"]


def test_file_types_are_converted_as_the_reference_says(tmp_path: Path) -> None:
    assert database_types.sqlite(tmp_path) in written()["sqlite"]
    assert database_types.duckdb_file(tmp_path) in written()["duckdb"]
