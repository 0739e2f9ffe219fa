"""Connections as Airflow writes them: their targets, and messages without secrets."""

from __future__ import annotations

import json
import traceback
from urllib.parse import unquote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sitemap_etl.connections import Connection, environment_connections, look_up, parse
from sitemap_etl.errors import ConfigError


def of(**values: object) -> Connection:
    """The connection of this JSON."""
    return parse(json.dumps(values))


@pytest.mark.parametrize(
    ("written", "uri"),
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
        ("sqlite:////srv/shop@home/a.db", "sqlite:////srv/shop%40home/a.db"),
        ("mssql+pyodbc://u:p@h/db", "mssql+pyodbc://u:p@h/db"),
        ("duckdb:////srv/a.db", "duckdb:////srv/a.db"),
    ],
)
def test_a_uri_is_converted_to_the_form_of_its_driver(written: str, uri: str) -> None:
    assert parse(written).uri == uri
    assert parse(uri).uri == uri


@pytest.mark.parametrize(
    "uri",
    [
        "postgresql://u:p@a:1,b:2/db?target_session_attrs=read-write",
        "postgresql://a,b,c:5433/db?load_balance_hosts=random",
        "postgresql://u@[::1]:5432,[2001:db8::2]/db",
        "postgresql://u@[fe80::1%25eth0]:5432/db",
        "postgresql://u@%2Frun%2Fpg/db",
        "postgresql://u@%2Frun%2Fa,%2Frun%2Fb:5433/db",
        "postgresql:///db?host=%2Frun%2Fpg&port=5433",
        "postgresql://h/db?options=-c%20search_path%3Dshop%20-c%20statement_timeout%3D300",
        "postgresql://h/db?sslmode=verify-full&sslrootcert=%2Fetc%2Fca.pem",
        "postgresql://h/db?ssl=true&replication=database",
        "postgresql://h/db?min_protocol_version=3.2&max_protocol_version=latest&sslkeylogfile=%2Fk",
        "postgresql://h/db?oauth_issuer=https%3A%2F%2Fi.example&oauth_client_id=c&oauth_client_secret=s&oauth_scope=o",
        "postgresql:///",
    ],
)
def test_every_uri_that_libpq_accepts_is_accepted(uri: str) -> None:
    assert parse(uri).uri == uri


def test_default_connection_parameters_do_not_override_the_uri() -> None:
    assert parse("postgres://h/d").uri_with(connect_timeout="10") == "postgresql://h/d?connect_timeout=10"
    assert parse("postgres://h/d?connect_timeout=3").uri_with(connect_timeout="10") == (
        "postgresql://h/d?connect_timeout=3"
    )


def test_a_connection_is_read_from_the_variable_that_airflow_reads() -> None:
    known = environment_connections({"AIRFLOW_CONN_CATALOG": "postgres://u:p@h/db", "AIRFLOW_CONN_B": "sqlite:///b"})
    assert look_up("catalog", known).uri == "postgresql://u:p@h/db"
    assert look_up("b", known).uri == "sqlite:///b"


@pytest.mark.parametrize("extra", [{"sslmode": "require"}, json.dumps({"sslmode": "require"})])
def test_airflows_json_form_is_read_with_its_extra_as_object_or_text(extra: object) -> None:
    found = of(
        conn_type="postgres",
        login="me@work",
        password="p@ss/w:rd é",
        host="db.example",
        port="5433",
        schema="shop",
        description="the shop's",
        extra=extra,
    )
    assert found.uri == "postgresql://me%40work:p%40ss%2Fw%3Ard%20%C3%A9@db.example:5433/shop?sslmode=require"
    assert parse(found.uri) == Connection(
        "postgresql", "me@work", "p@ss/w:rd é", (("db.example", 5433),), "shop", {"sslmode": "require"}
    )


def test_airflows_json_form_names_sockets_several_hosts_addresses_and_sqlite_files() -> None:
    assert of(conn_type="postgres", host="/run/pg", schema="d").uri == "postgresql://%2Frun%2Fpg/d"
    assert of(conn_type="postgres", host="a,b", port=5433, schema="d").uri == "postgresql://a:5433,b:5433/d"
    assert of(conn_type="postgres", host="::1", schema="d").uri == "postgresql://[::1]/d"
    assert (
        of(conn_type="postgres", host="h", extra={"sslmode": None, "keepalives": 1}).uri
        == "postgresql://h/?keepalives=1"
    )
    assert of(conn_type="sqlite", host="/var/lib/a b.db").schema == "/var/lib/a b.db"
    assert of(conn_type="sqlite", schema="a.db").uri == "sqlite:///a.db"


@pytest.mark.parametrize(
    ("dsn", "uri"),
    [
        ("host=h port=5433 dbname=d user=u", "postgresql://u@h:5433/d"),
        (
            "host = a,b  port = 1,2 target_session_attrs='read-write'",
            "postgresql://a:1,b:2/?target_session_attrs=read-write",
        ),
        ("host=a,b port=5433 dbname='my shop'", "postgresql://a:5433,b:5433/my%20shop"),
        (r"host=/run/pg password='it\'s \\ o' user=u", "postgresql://u:it%27s%20%5C%20o@%2Frun%2Fpg/"),
        ("dbname=d service=shop", "postgresql:///d?service=shop"),
        ("postgresql://u:p@a:1,b:2/d?sslmode=require", "postgresql://u:p@a:1,b:2/d?sslmode=require"),
    ],
)
def test_a_dsn_in_the_extra_is_read_as_libpq_reads_it(dsn: str, uri: str) -> None:
    assert of(conn_type="postgres", extra={"dsn": dsn}).uri == uri


def test_fields_of_a_connection_override_its_dsn() -> None:
    found = of(conn_type="postgres", host="h", login="u", extra={"dsn": "host=x user=y dbname=d", "sslmode": "require"})
    assert found.uri == "postgresql://u@h/d?sslmode=require"


def test_connections_of_engines_have_login_password_and_extra() -> None:
    found = parse("http://user:p%40ss@host.example:80/schema?a=1&b=x")
    assert (found.login, found.password, found.extra) == ("user", "p@ss", {"a": "1", "b": "x"})
    found = parse("http://https://user:p%40ss@host.example:80/")
    assert (found.login, found.password) == ("user", "p@ss")
    assert found.hosts == (("https://host.example", 80),)
    found = parse("google-cloud-platform://?key_path=%2Fetc%2Fkey.json")
    assert found.extra == {"key_path": "/etc/key.json"}


def test_a_missing_connection_names_the_variable_to_set() -> None:
    with pytest.raises(ConfigError, match=r"set AIRFLOW_CONN_CATALOG to its URI"):
        look_up("catalog", environment_connections({}))


@pytest.mark.parametrize("special", "@:/#?%")
@pytest.mark.parametrize("uri", ["postgres://u:hush%shush@h/d", "postgres://u:12%shush@h:5432/d?sslmode=require"])
def test_a_password_that_is_not_percent_encoded_is_reported_and_not_shown(special: str, uri: str) -> None:
    with pytest.raises(ConfigError, match=r"connection 'c': .*percent-encode") as caught:
        look_up("c", lambda _id: uri.replace("%s", special))
    assert "hush" not in "".join(traceback.format_exception(caught.value))
    assert special in str(caught.value)


@given(st.lists(st.sampled_from([*"@:/#?%=&[],;+ 1", "://", "%40"]), max_size=6), st.sampled_from(["", "?sslmode=off"]))
@example(special=["/", "/"], query="")
@example(special=["@", "?", "="], query="")
def test_an_unencoded_password_is_read_correctly_or_refused_without_showing_it(special: list[str], query: str) -> None:
    for at in range(len(special) + 1):
        password = "".join([*special[:at], "hush", *special[at:]])
        try:
            found = look_up("c", lambda _id, password=password: f"postgres://u:{password}@h:5432/d{query}")
            told = found.uri_with()
        except ConfigError as error:
            told = str(error)
            assert "hush" not in told
            assert "percent-encode" in told
        else:
            assert (found.login, found.password, found.hosts) == ("u", unquote(password), (("h", 5432),))


@pytest.mark.parametrize(
    ("written", "example"),
    [
        ("jdbc:postgresql://h:5432/d?user=u&password=hush", "postgresql://user:password@host:5432/database"),
        ("jdbc:mysql://h/d", "mysql://user:password@host"),
        ('{"conn_type": "jdbc", "host": "jdbc:postgresql://h/d", "password": "hush"}', "postgresql://user:password@"),
    ],
)
def test_a_jdbc_connection_is_reported_with_what_to_write(written: str, example: str) -> None:
    with pytest.raises(ConfigError, match="is a JDBC connection, which only Java reads") as caught:
        parse(written)
    assert example in str(caught.value)
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize(
    "written",
    [
        "just-text-hush",
        "host=h password=hush",
        '{"password": "hush"',
        '{"conn_type": "postgres", "extra": "{hush"}',
        '{"conn_type": "postgres", "extra": {"dsn": "hush"}}',
        '{"conn_type": "postgres", "extra": {"dsn": "host=a,b,c port=1,2 password=hush"}}',
        "postgres://u:hush@h:x/d",
        "postgres://u:hush@h:99999/d",
        "postgres://u:hush@[::1/d",
        "http://?__extra__=hush",
        "http://[hush",
    ],
)
def test_an_invalid_connection_is_named_without_its_secret(written: str) -> None:
    with pytest.raises(ConfigError, match="connection 'c': ") as caught:
        look_up("c", lambda _id: written)
    told = "".join(traceback.format_exception(caught.value))
    assert "hush" not in f"{told} {caught.value.__cause__} {caught.value.__context__}"


def test_a_connection_without_a_type_works_for_engines_but_not_for_sources() -> None:
    found = of(login="u", password="hush")
    assert (found.login, found.password) == ("u", "hush")
    with pytest.raises(ConfigError, match="has no conn_type"):
        _ = found.uri


def test_an_unknown_connection_parameter_is_an_error() -> None:
    with pytest.raises(ConfigError, match="'sslmod'"):
        _ = parse("postgres://h/d?sslmod=require").uri


@given(
    st.text(st.characters(min_codepoint=33, max_codepoint=0x2FF), min_size=4, max_size=30).map(lambda text: f"#{text}#")
)
def test_no_message_shows_a_password(password: str) -> None:
    found = of(conn_type="postgres", login="u", password=password, host="h", schema="d", extra={"sslpassword": "a-key"})
    told = found.redact(f"can't connect with {found.uri}: bad password {password} for u, nor a-key: {found!r}")
    assert password not in told
    assert "a-key" not in told
    assert found.uri not in told


def test_an_exception_that_shows_a_secret_is_replaced_and_others_are_kept() -> None:
    found = parse("postgresql://u:hushhush@h/d")
    clean, telling = ValueError("no route"), ValueError(f"bad {found.uri}")
    wrapper = RuntimeError("outer")
    wrapper.__cause__ = telling
    assert found.without_secrets(clean) is clean
    for error in (telling, wrapper):
        assert "hushhush" not in "".join(traceback.format_exception(found.without_secrets(error)))
