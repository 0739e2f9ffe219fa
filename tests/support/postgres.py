"""A real PostgreSQL for tests: one server per session on a Unix socket, with a database for each test."""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from demo.postgres import Missing, postgres_server


@dataclass(frozen=True)
class Postgres:
    """A running server; `uri` is the URI of one of its databases."""

    uri: str
    data: Path

    def execute(self, *statements: str) -> None:
        """Run statements, and commit each."""
        with psycopg.connect(self.uri, autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement)

    def database(self) -> Postgres:
        """Return a new, empty database of the same server."""
        name = f"test_{uuid.uuid4().hex[:12]}"
        self.execute(f"CREATE DATABASE {name}")
        return Postgres(self.uri.replace("/postgres?", f"/{name}?"), self.data)

    def as_user(self, login: str) -> str:
        """Return the URI for another login (`user` or `user:password`)."""
        return self.uri.replace("postgres:@", f"{login}@", 1)

    def ask_password_of(self, role: str) -> None:
        """Require a password for the role from now on. The others stay trusted."""
        rules = self.data / "pg_hba.conf"
        rules.write_text(f"local all {role} scram-sha-256\n" + rules.read_text())
        self.execute("SELECT pg_reload_conf()")


@contextmanager
def running_postgres() -> Iterator[Postgres]:
    """Run a server in a temporary folder. Raises Missing."""
    with tempfile.TemporaryDirectory(prefix="pg-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        with postgres_server(folder) as address:
            yield Postgres(address, folder / "data")


@contextmanager
def postgres_or_skip() -> Iterator[Postgres]:
    """Run a server as `running_postgres` does. Skips the test if the machine can't."""
    with ExitStack() as stack:
        try:
            server = stack.enter_context(running_postgres())
        except Missing as missing:
            pytest.skip(str(missing))
        yield server


@pytest.fixture(scope="session")
def postgres_session() -> Iterator[Postgres]:
    """The server of this session."""
    with postgres_or_skip() as server:
        yield server


@pytest.fixture
def postgres(postgres_session: Postgres) -> Postgres:
    """An empty database."""
    return postgres_session.database()
