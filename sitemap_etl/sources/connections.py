"""Connection ids to URIs, in Airflow's formats; URIs in one form; secrets kept out of messages.

A connection is a URI. It comes from the variable that Airflow also reads, `AIRFLOW_CONN_<ID>`: a URI,
or a JSON object with `conn_type`, `login`, `password`, `host`, `port`, `schema` and `extra`
(https://airflow.apache.org/docs/apache-airflow/stable/howto/connection.html).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlencode, urlsplit

from sitemap_etl.errors import ConfigError

Connections = Callable[[str], str]
"""Connection id → URI. Raises `ConfigError` where it knows none."""

_LIBPQ: Final = frozenset(
    (  # noqa: SIM905 - words read best as words
        "host hostaddr port dbname user password passfile require_auth channel_binding connect_timeout client_encoding "
        "options application_name fallback_application_name keepalives keepalives_idle keepalives_interval "
        "keepalives_count tcp_user_timeout gssencmode sslmode sslnegotiation sslcert sslkey sslpassword sslcertmode "
        "sslrootcert sslcrl sslcrldir sslsni requirepeer ssl_min_protocol_version ssl_max_protocol_version krbsrvname "
        "gsslib gssdelegation service target_session_attrs load_balance_hosts"
    ).split()
)
"""Parameters of a libpq URI (PostgreSQL 18, section 32.1.2)."""
_AIRFLOWS: Final = frozenset(
    (  # noqa: SIM905 - as above
        "cursor iam redshift redshift-serverless cluster-identifier workgroup-name aws_conn_id sqlalchemy_scheme "
        "sqlalchemy_query enable_log_db_messages azure_conn_id client local_infile charset_collation"
    ).split()
)
"""Extras that Airflow's hooks read themselves; they say nothing to a driver."""
_SECRETS: Final = ("password", "sslpassword", "passwd", "token", "secret")


def environment_connections(environ: Mapping[str, str]) -> Connections:
    """Connections out of `AIRFLOW_CONN_<ID>` variables, the id in upper case."""

    def uri(connection_id: str) -> str:
        variable = f"AIRFLOW_CONN_{connection_id.upper()}"
        value = environ.get(variable, "").strip()
        if not value:
            raise ConfigError(
                f"connection {connection_id!r} is not known: set {variable} to its URI, "
                "for example postgresql://user:password@host:5432/database"
            )
        try:
            return from_json(value) if value.startswith("{") else normal(value)
        except ConfigError as error:
            raise ConfigError([f"{variable}: {problem}" for problem in error.problems]) from error

    return uri


def from_json(text: str) -> str:
    """The URI of a connection in Airflow's JSON form. Raises `ConfigError`, without the text."""
    try:
        given = json.loads(text)
        extra = given.get("extra") or {}
        extra = json.loads(extra) if isinstance(extra, str) else extra
        scheme = str(given["conn_type"])
    except (ValueError, KeyError, AttributeError):
        # The text may hold a password, and so may the parser's error.
        raise ConfigError("is not a connection: expected JSON with conn_type, host, login, password, schema") from None
    user, password = given.get("login") or "", given.get("password") or ""
    host, port, schema = str(given.get("host") or ""), given.get("port"), str(given.get("schema") or "")
    if scheme.startswith("sqlite"):
        return normal(f"sqlite:///{quote(host or schema)}")
    login = quote(str(user), safe="") + (f":{quote(str(password), safe='')}" if password else "")
    bracketed = f"[{host}]" if ":" in host else quote(host, safe="")
    place = (f"{login}@" if login else "") + bracketed + (f":{port}" if port else "")
    query = {"__extra__": json.dumps(extra)} if extra else {}
    return normal(f"{scheme}://{place}/{quote(schema, safe='')}" + (f"?{urlencode(query)}" if query else ""))


def normal(uri: str) -> str:
    """The URI as the drivers want it: `postgresql://…` (libpq), `sqlite:///path`, else SQLAlchemy's.

    `postgres`, `postgresql+psycopg2` and the like are PostgreSQL; `mysql` and `mariadb` go through
    PyMySQL. A relative SQLite path (`sqlite:///a.db`) is relative to the working directory, an
    absolute one has four slashes. Raises `ConfigError`.
    """
    try:
        parts = urlsplit(uri.strip())
        scheme, _ = parts.scheme.partition("+")[0], parts.port  # a port that is no number raises here
    except ValueError:
        raise ConfigError("the URI of the connection can't be read: is every special character encoded?") from None
    if not scheme or "://" not in uri:
        raise ConfigError(
            "the connection is no URI: expected, for example, postgresql://user:password@host:5432/database"
        )
    if scheme in {"postgres", "postgresql"}:
        return _rebuilt("postgresql", parts, _known(_extras(parts)))
    if scheme == "sqlite":
        path = unquote(parts.netloc) + (unquote(parts.path) if parts.netloc else unquote(parts.path)[1:])
        return f"sqlite:///{quote(path)}"
    if scheme in {"mysql", "mariadb"}:
        driver = parts.scheme if parts.scheme.startswith("mysql+") else "mysql+pymysql"
        return _rebuilt(driver, parts, {"charset": "utf8mb4"} | _mysql(_extras(parts)))
    return uri.strip()


def dialect(uri: str) -> str:
    """The database's kind, out of a normal URI: postgresql, sqlite, mysql or another."""
    return urlsplit(uri).scheme.partition("+")[0]


def sqlite_path(uri: str) -> str:
    """The path in a normal SQLite URI."""
    return unquote(uri.removeprefix("sqlite:///"))


def redact(text: str, uri: str) -> str:
    """The text without the secrets of `uri`, and without a password in any URI."""
    for secret in sorted(_secrets(uri), key=len, reverse=True):
        text = text.replace(secret, "***")
    return re.sub(r"(\w://[^\s/@:]*):[^\s@/]*@", r"\1:***@", text)


def without_secrets(error: BaseException, uri: str) -> BaseException:
    """The error itself where nothing in its chain tells a secret, else one that says the same without."""
    chain: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and current not in chain:
        chain.append(current)
        current = current.__cause__ or current.__context__
    told = " ".join(f"{link} {link.args!r}" for link in chain)
    if any(secret in told for secret in _secrets(uri)):
        return RuntimeError(f"{type(error).__name__}: {redact(str(error), uri)}")
    return error


def _secrets(uri: str) -> set[str]:
    found: set[str] = set()
    authority = uri.partition("://")[2]
    login = authority.rpartition("@")[0]
    if ":" in login:
        found |= {login.partition(":")[2], unquote(login.partition(":")[2])}
    for name, value in parse_qsl(uri.partition("?")[2]):
        if name in _SECRETS:
            found |= {value, quote(value, safe="")}
    return found - {""}


def _extras(parts: SplitResult) -> dict[str, Any]:
    given: dict[str, Any] = dict(parse_qsl(parts.query, keep_blank_values=True))
    packed = given.pop("__extra__", None)
    if packed:
        try:
            given |= json.loads(packed)
        except (ValueError, TypeError):
            raise ConfigError("the connection's extra is not a JSON object") from None
    return {name: value for name, value in given.items() if name not in _AIRFLOWS}


def _known(extras: dict[str, Any]) -> dict[str, str]:
    unknown = sorted(set(extras) - _LIBPQ)
    if unknown:
        raise ConfigError(f"the connection has the parameter {unknown[0]!r}, which PostgreSQL's client does not know")
    return {name: _text(value) for name, value in extras.items()}


def _mysql(extras: dict[str, Any]) -> dict[str, str]:
    tls = extras.pop("ssl", None)
    if isinstance(tls, dict):
        extras |= {f"ssl_{name}": value for name, value in tls.items()}
    return {name: _text(value) for name, value in extras.items()}


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _rebuilt(scheme: str, parts: SplitResult, query: Mapping[str, str]) -> str:
    # libpq reads %20 but not + as a space.
    tail = f"?{urlencode(query, quote_via=quote)}" if query else ""
    return f"{scheme}://{parts.netloc}{parts.path}{tail}"
