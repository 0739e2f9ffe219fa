"""One moment for all the splits that a process reads of a database."""

from __future__ import annotations

import functools
import threading
from contextlib import ExitStack, closing

from sitemap_etl.connections import Connection
from sitemap_etl.errors import InvalidSource, Refused
from sitemap_etl.sources.database import rows
from sitemap_etl.sources.session import Session, attended


class SharedSnapshot:
    """A snapshot that the splits of a PostgreSQL database share, taken when the first asks for its name.

    Safe for use by several threads. Close it when the last split is read: until then the server keeps what the
    snapshot sees, as it does for a dump.
    """

    def __init__(self, connection: Connection, session: Session, *, label: str) -> None:
        self._connection = connection
        self._session = session
        self._label = label
        self._open = ExitStack()
        self._name: str | None = None
        self._taking = threading.Lock()

    def name(self) -> str:
        """What `read` is given. Raises what reading raises."""
        from sitemap_etl.sources import postgres

        with self._taking:
            if self._name is None:
                exported = functools.partial(postgres.exported, self._connection, label=self._label)
                held = self._open.enter_context(closing(attended(exported, self._session, label=self._label)))
                self._name = next(held)
            return self._name

    def close(self) -> None:
        """Let the server forget it."""
        self._open.close()

    @classmethod
    def possible(cls, connection: Connection, session: Session, *, label: str) -> bool:
        """Whether the database has such snapshots, and another connection sees them. Raises `Unavailable`."""
        if connection.dialect != "postgresql":
            return False
        from sitemap_etl.sources import postgres

        shared = cls(connection, session, label=label)
        try:
            for _ in rows(connection, "SELECT 1 AS one", {}, session, label=label, snapshot=shared.name()):
                pass
        except (InvalidSource, Refused, postgres.SnapshotGone):  # another server of that protocol, or several of them
            return False
        finally:
            shared.close()
        return True
