"""Connections in Airflow's formats: a URI or JSON. Includes the removal of secrets from messages.

    postgresql://user:password@host:5432/database?sslmode=require
    {"conn_type": "postgres", "host": …, "login": …, "password": …, "schema": …, "port": …, "extra": {…}}

https://airflow.apache.org/docs/apache-airflow/3.3.2/howto/connection.html. The `uri` of a database is in the format of
its driver: libpq's for PostgreSQL (section 32.1.1 of its manual: several hosts, Unix sockets, any parameter), a path
for SQLite and DuckDB, and the format of the ADBC driver or SQLAlchemy for others.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, Final
from urllib.parse import parse_qsl, quote, unquote, urlencode

from sitemap_etl.errors import ConfigError
from sitemap_etl.frozen import Frozen

Connections = Callable[[str], str]
"""Function from a connection ID to its text. Raise ConfigError if the ID is unknown."""

_EXAMPLE: Final = "postgresql://user:password@host:5432/database"
_ENCODE: Final = (
    "the URI of the connection can't be read: percent-encode what is special in its user name and password "
    "(@ is %40, : is %3A, / is %2F, # is %23, ? is %3F, % is %25), or write the connection as JSON"
)
_LIBPQ: Final = frozenset(
    (  # noqa: SIM905 - words read best as words
        "host hostaddr port dbname user password passfile require_auth channel_binding connect_timeout client_encoding "
        "options application_name fallback_application_name keepalives keepalives_idle keepalives_interval "
        "keepalives_count tcp_user_timeout gssencmode sslmode sslnegotiation sslcert sslkey sslpassword sslcertmode "
        "sslrootcert sslcrl sslcrldir sslsni requirepeer ssl_min_protocol_version ssl_max_protocol_version krbsrvname "
        "gsslib gssdelegation service servicefile target_session_attrs load_balance_hosts min_protocol_version "
        "max_protocol_version sslcompression sslkeylogfile ssl replication scram_client_key scram_server_key "
        "oauth_issuer oauth_client_id oauth_client_secret oauth_scope"
    ).split()
)
"""Parameters of a libpq URI (PostgreSQL 18, sections 32.1.1.2 and 32.1.2). An older libpq rejects unknown ones."""
_AIRFLOWS: Final = frozenset(
    (  # noqa: SIM905 - as above
        "cursor iam redshift redshift-serverless cluster-identifier workgroup-name aws_conn_id sqlalchemy_scheme "
        "sqlalchemy_query enable_log_db_messages azure_conn_id client local_infile charset_collation"
    ).split()
)
"""Extras that Airflow's hooks read themselves. Drivers don't need them."""
_FILES: Final = ("sqlite", "duckdb")
"""Databases that consist of one file."""
_SECRETS: Final = (
    *("password", "sslpassword", "passwd", "token", "secret"),
    *("oauth_client_secret", "scram_client_key", "scram_server_key"),
)


class Connection(Frozen):
    """A parsed connection, without percent-encoding.

    `hosts`: hosts with their ports, several only for PostgreSQL. `schema`: the database, or the path of its file.
    `extra`: a mapping, even if it was written as text.
    """

    scheme: str  # as written: postgres, mysql+pymysql, http
    login: str = ""
    password: str = field(default="", repr=False)
    hosts: tuple[tuple[str, int | None], ...] = ()
    schema: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def dialect(self) -> str:
        """The database's kind: postgresql, sqlite, mysql, or the scheme without its driver."""
        kind = self.scheme.partition("+")[0]
        return {"postgres": "postgresql", "mariadb": "mysql"}.get(kind, kind)

    @property
    def parameters(self) -> dict[str, Any]:
        """Driver parameters besides address and login."""
        return {name: value for name, value in self.extra.items() if name not in _AIRFLOWS and value is not None}

    @property
    def uri(self) -> str:
        """URI for the database's driver. Raise ConfigError if the connection is incomplete."""
        return self.uri_with()

    def uri_with(self, **defaults: str) -> str:
        """Return `uri` with defaults for parameters that it lacks."""
        extra = self.parameters
        scheme = self.scheme
        if not scheme:
            raise ConfigError("the connection has no conn_type, which says what kind of database it is: postgres, say")
        if self.dialect in _FILES:
            return f"{self.dialect}:///{quote(self.schema)}"
        if self.dialect == "postgresql":
            scheme = "postgresql"
            if unknown := sorted(set(extra) - _LIBPQ):
                said = f"the connection has the parameter {unknown[0]!r}, which PostgreSQL's client does not know"
                raise ConfigError(said)
        login = quote(self.login, safe="") + (f":{quote(self.password, safe='')}" if self.password else "")
        places = ",".join(_place(host, port) for host, port in self.hosts)
        query = {**defaults, **{name: _text(value) for name, value in extra.items()}}
        # libpq reads %20 but not + as a space.
        tail = f"?{urlencode(query, quote_via=quote)}" if query else ""
        path = f"/{quote(self.schema, safe='/')}" if self.schema or self.dialect == "postgresql" else ""
        return f"{scheme}://{f'{login}@' if login else ''}{places}{path}{tail}"

    def redact(self, text: str) -> str:
        """Return the text without the secrets of this connection, and without a password in any URI."""
        for secret in sorted(self._secrets(), key=len, reverse=True):
            text = text.replace(secret, "***")
        return re.sub(r"(\w://[^\s/@:]*):[^\s@/]*@", r"\1:***@", text)

    def without_secrets(self, error: BaseException) -> BaseException:
        """Return the error, or a copy with redacted text if a secret is in its chain."""
        chain: list[BaseException] = []
        current: BaseException | None = error
        while current is not None and current not in chain:
            chain.append(current)
            current = current.__cause__ or current.__context__
        shown = " ".join(f"{link} {link.args!r}" for link in chain)
        if any(secret in shown for secret in self._secrets()):
            return RuntimeError(f"{type(error).__name__}: {self.redact(str(error))}")
        return error

    def _secrets(self) -> set[str]:
        """Return the texts that must not be shown, in each form that they have in a URI."""
        extras = (str(value) for name, value in self.extra.items() if name in _SECRETS)
        return {form for value in (self.password, *extras) for form in (value, quote(value, safe="")) if form}


def environment_connections(environ: Mapping[str, str]) -> Connections:
    """Return the connections from Airflow's variables `AIRFLOW_CONN_<ID>`, with the ID in upper case."""

    def text(connection_id: str) -> str:
        variable = f"AIRFLOW_CONN_{connection_id.upper()}"
        value = environ.get(variable, "").strip()
        if not value:
            raise ConfigError(
                f"connection {connection_id!r} is not known: set {variable} to its URI, for example {_EXAMPLE}"
            )
        return value

    return text


def look_up(connection_id: str, connections: Connections) -> Connection:
    """Return the connection of this ID. Raise ConfigError with the ID, but without any part of its text."""
    text = connections(connection_id)
    try:
        return parse(text)
    except ConfigError as error:
        raise ConfigError([f"connection {connection_id!r}: {problem}" for problem in error.problems]) from None


def parse(text: str) -> Connection:
    """Parse a connection from Airflow's URI or JSON. Raise ConfigError without any part of the text."""
    text = text.strip()
    return _from_json(text) if text.startswith("{") else _from_uri(text)


def _port(given: Any) -> int | None:
    """Return a port as a number, or None if it is empty. Raise ConfigError."""
    if given and not str(given).isdecimal():
        raise ConfigError("its port is not a number")  # the text is not shown, because it can be a password
    return int(given) if given else None


def _from_json(text: str) -> Connection:
    try:
        given: dict[str, Any] | None = json.loads(text)
        assert given is not None
        extra = given.get("extra") or {}
        extra = dict(json.loads(extra) if isinstance(extra, str) else extra)
        scheme = str(given.get("conn_type") or "").lower()  # an engine asks for none
        port = _port(given.get("port"))
    except (ValueError, TypeError, AttributeError, RecursionError):
        given = None
    if given is None:  # the text may hold a password, and so may the parser's error
        raise ConfigError("is not a connection: expected JSON with conn_type, host, login, password, schema, extra")
    if scheme == "jdbc":
        raise ConfigError(_jdbc(""))
    found = {name: str(given.get(name) or "") for name in ("login", "password", "schema")}
    host = str(given.get("host") or "")
    if scheme.startswith(_FILES):
        return Connection(scheme.partition("+")[0], schema=host or found["schema"], extra=extra)
    hosts = tuple((name, port) for name in host.split(",")) if host or port else ()
    made = Connection(scheme, hosts=hosts, extra=extra, **found)
    return _with_dsn(made) if made.dialect == "postgresql" else made


def _from_uri(text: str) -> Connection:
    if text.lower().startswith("jdbc:"):
        raise ConfigError(_jdbc(text))
    scheme, colon, rest = text.partition("://")
    if not colon or not re.fullmatch(r"[A-Za-z][A-Za-z0-9+._-]*", scheme):
        raise ConfigError(f"the connection is not a URI: expected, for example, {_EXAMPLE}")
    scheme = scheme.lower()
    if scheme.startswith(_FILES):
        # A relative path has three slashes, an absolute one four.
        folder, slash, below = rest.partition("?")[0].partition("/")
        return Connection(scheme.partition("+")[0], schema=unquote(folder + slash + below if folder else below))
    before, _, query = rest.partition("?")
    protocol, protocols, after = before.rpartition("://")  # as in http://https://host, which Airflow reads too
    authority, _, path = after.partition("/")
    login, at, places = authority.rpartition("@")
    user, _, password = login.partition(":")
    unclear = bool("#" in rest or "@" in path + login or ":" in password or re.search(r"%(?![0-9A-Fa-f]{2})", rest))
    # A ? or a :// of the password: what should be the login stands on the wrong side of it.
    unclear = unclear or ("@" in query and not path) or bool(re.search(r"@[^&]*/", query))
    unclear = unclear or bool(protocols and protocol not in ("http", "https"))
    pairs = parse_qsl(query, keep_blank_values=True)
    hosts = _hosts(places) if places or at else ()
    if unclear or hosts is None or any(not name or "@" in name for name, _ in pairs):
        raise ConfigError(_ENCODE)
    if protocols:
        hosts = tuple((f"{protocol}://{host}", port) for host, port in hosts)
    extra: dict[str, Any] = dict(pairs)
    packed = extra.pop("__extra__", None)
    if packed:
        try:
            extra |= json.loads(packed)
        except (ValueError, TypeError, RecursionError):
            packed = None
        if packed is None:
            raise ConfigError("the connection's extra is not a JSON object")
    return Connection(scheme, unquote(user), unquote(password), hosts, unquote(path), extra)


def _hosts(places: str) -> tuple[tuple[str, int | None], ...] | None:
    """Parse `a:1,[::1]:2` into hosts and ports. Return None if it is invalid."""
    found: list[tuple[str, int | None]] = []
    for place in places.split(","):
        match = re.fullmatch(r"(?:\[([0-9A-Za-z:.%]+)\]|([^:\[\]]*))(?::(\d*))?", place)
        if match is None or int(match[3] or 0) > 65_535:
            return None
        found.append((unquote(match[1] or match[2] or ""), int(match[3]) if match[3] else None))
    return tuple(found)


def _with_dsn(made: Connection) -> Connection:
    """Return the connection completed with its extra `dsn`, a keyword/value string or a URI."""
    extra = dict(made.extra)
    dsn = extra.pop("dsn", None)
    if dsn is None:
        return made
    text = str(dsn).strip()
    if "://" in text.partition("=")[0]:
        below = _from_uri(text)
    else:
        pairs = re.findall(r"\s*([a-z_]+)\s*=\s*(?:'((?:[^'\\]|\\.)*)'|((?:[^\s'\\]|\\.)*))", text)
        if not pairs:
            raise ConfigError("the connection's extra has a dsn that is none: expected host=… port=… dbname=… user=…")
        words = {name: re.sub(r"\\(.)", r"\1", quoted or plain) for name, quoted, plain in pairs}
        ports = words.pop("port", "").split(",")
        named = words.pop("host", "").split(",")
        ports = ports * len(named) if len(ports) == 1 else ports
        if len(ports) != len(named) or not all(re.fullmatch(r"\d{0,5}", port) for port in ports):
            raise ConfigError(
                "the connection's extra has a dsn with one port for some of its hosts, or one that is none"
            )
        hosts = tuple((host, int(port) if port else None) for host, port in zip(named, ports, strict=True))
        below = Connection(
            "postgresql",
            words.pop("user", ""),
            words.pop("password", ""),
            hosts if any(host or port for host, port in hosts) else (),
            words.pop("dbname", ""),
            words,
        )
    return Connection(
        made.scheme,
        made.login or below.login,
        made.password or below.password,
        made.hosts or below.hosts,
        made.schema or below.schema,
        {**below.extra, **extra},
    )


def _jdbc(text: str) -> str:
    kind = re.match(r"jdbc:([a-z]{2,20}):", text.lower())
    example = _EXAMPLE if kind is None else _EXAMPLE.replace("postgresql", kind[1], 1)
    return f"is a JDBC connection, which only Java reads; write it without jdbc:, with the login in it: {example}"


def _place(host: str, port: int | None) -> str:
    # A host in brackets is an IPv6 address; a folder is a Unix socket.
    shown = f"[{quote(host, safe=':')}]" if ":" in host and "/" not in host else quote(host, safe="*")
    return shown + (f":{port}" if port else "")


def _text(value: object) -> str:
    if isinstance(value, dict | list):
        return json.dumps(value)
    return str(value).lower() if isinstance(value, bool) else str(value)
