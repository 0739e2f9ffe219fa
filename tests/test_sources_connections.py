from __future__ import annotations

import json
import traceback

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sitemap_etl.errors import ConfigError
from sitemap_etl.sources.connections import (
    dialect,
    environment_connections,
    normal,
    redact,
    sqlite_path,
    without_secrets,
)


@pytest.mark.parametrize(
    ("given_uri", "expected"),
    [
        ("postgres://u:p@h:5432/db", "postgresql://u:p@h:5432/db"),
        ("postgresql+psycopg2://u:p@h/db", "postgresql://u:p@h/db"),
        ("postgresql:///db?host=/run/postgresql", "postgresql:///db?host=%2Frun%2Fpostgresql"),
        ("postgres://u:p%40%2F@h/db?sslmode=require&cursor=dict", "postgresql://u:p%40%2F@h/db?sslmode=require"),
        (
            "postgres://h/db?__extra__=%7B%22sslmode%22%3A+%22require%22%2C+%22iam%22%3A+false%7D",
            "postgresql://h/db?sslmode=require",
        ),
        ("sqlite:///demo/catalog.db", "sqlite:///demo/catalog.db"),
        ("sqlite:////var/lib/catalog.db", "sqlite:////var/lib/catalog.db"),
        ("sqlite://%2Fvar%2Flib%2Fa%20b.db", "sqlite:////var/lib/a%20b.db"),
        ("mysql://u:p@h:3306/db", "mysql+pymysql://u:p@h:3306/db?charset=utf8mb4"),
        ("mariadb://u@h/db?local_infile=1", "mysql+pymysql://u@h/db?charset=utf8mb4"),
        ("mssql+pyodbc://u:p@h/db", "mssql+pyodbc://u:p@h/db"),
    ],
)
def test_a_uri_gets_the_form_that_its_driver_wants(given_uri: str, expected: str) -> None:
    assert normal(given_uri) == expected
    assert normal(expected) == expected


def test_a_connection_is_read_from_the_variable_that_airflow_reads() -> None:
    connections = environment_connections(
        {"AIRFLOW_CONN_CATALOG": "postgres://u:p@h/db", "AIRFLOW_CONN_B": "sqlite:///b"}
    )
    assert connections("catalog") == "postgresql://u:p@h/db"
    assert connections("b") == "sqlite:///b"


@pytest.mark.parametrize("extra", [{"sslmode": "require"}, json.dumps({"sslmode": "require"})])
def test_airflows_json_form_is_read_with_its_extra_as_object_or_text(extra: object) -> None:
    value = {
        "conn_type": "postgres",
        "login": "me@work",
        "password": "p@ss/w:rd é",
        "host": "db.example",
        "port": 5433,
        "schema": "shop",
        "extra": extra,
    }
    uri = environment_connections({"AIRFLOW_CONN_C": json.dumps(value)})("c")
    assert uri == "postgresql://me%40work:p%40ss%2Fw%3Ard%20%C3%A9@db.example:5433/shop?sslmode=require"


def test_airflows_json_form_names_sockets_addresses_and_sqlite_files() -> None:
    def uri(**value: object) -> str:
        return environment_connections({"AIRFLOW_CONN_C": json.dumps(value)})("c")

    assert uri(conn_type="postgres", host="/run/pg", schema="d") == "postgresql://%2Frun%2Fpg/d"
    assert uri(conn_type="postgres", host="::1", schema="d") == "postgresql://[::1]/d"
    assert sqlite_path(uri(conn_type="sqlite", host="/var/lib/a b.db")) == "/var/lib/a b.db"
    assert dialect(uri(conn_type="mysql", host="h", schema="d")) == "mysql"


def test_a_missing_connection_names_the_variable_to_set() -> None:
    with pytest.raises(ConfigError, match=r"set AIRFLOW_CONN_CATALOG to its URI"):
        environment_connections({})("catalog")


@pytest.mark.parametrize(
    "value", ["just-text-hush", '{"password": "hush"', '{"login": "x", "password": "hush"}', "postgres://u:hush@h:x/d"]
)
def test_a_connection_that_cant_be_read_is_named_without_its_secret(value: str) -> None:
    with pytest.raises(ConfigError, match="AIRFLOW_CONN_C: ") as caught:
        environment_connections({"AIRFLOW_CONN_C": value})("c")
    assert "hush" not in "".join(traceback.format_exception(caught.value))


def test_a_parameter_that_the_client_does_not_know_is_a_mistake_not_a_silence() -> None:
    with pytest.raises(ConfigError, match="'sslmod'"):
        normal("postgres://h/d?sslmod=require")


@given(
    st.text(st.characters(min_codepoint=33, max_codepoint=0x2FF), min_size=4, max_size=30).map(lambda text: f"#{text}#")
)
def test_no_message_shows_a_password(password: str) -> None:
    value = json.dumps({"conn_type": "postgres", "login": "u", "password": password, "host": "h", "schema": "d"})
    uri = environment_connections({"AIRFLOW_CONN_C": value})("c")
    told = redact(f"can't connect with {uri}: bad password {password} for u", uri)
    assert password not in told
    assert uri not in told


def test_a_cause_that_tells_a_secret_is_replaced_and_another_is_kept() -> None:
    uri = "postgresql://u:hushhush@h/d"
    clean, telling = ValueError("no route"), ValueError(f"bad {uri}")
    wrapper = RuntimeError("outer")
    wrapper.__cause__ = telling
    assert without_secrets(clean, uri) is clean
    for error in (telling, wrapper):
        assert "hushhush" not in "".join(traceback.format_exception(without_secrets(error, uri)))
