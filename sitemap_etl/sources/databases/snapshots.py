"""A shared snapshot for all splits that a process reads from a database."""

from __future__ import annotations

import functools
import threading
from contextlib import ExitStack, closing

from sitemap_etl.connections import Connection
from sitemap_etl.errors import InvalidSource, Refused
from sitemap_etl.sources.databases.database import rows
from sitemap_etl.sources.databases.session import Session, attended


class SharedSnapshot:
    """A snapshot shared by the splits of a PostgreSQL database, taken when its name is first requested.

    Thread-safe. Close it when the last split is read: until then, the server keeps old rows, as for a dump.
    """

    def __init__(self, connection: Connection, session: Session, *, label: str) -> None:
        self._connection = connection
        self._session = session
        self._label = label
        self._open = ExitStack()
        self._name: str | None = None
        self._taking = threading.Lock()

    def name(self) -> str:
        """Return the name for `read`. Raises errors of reading."""
        from sitemap_etl.sources.databases import postgres

        with self._taking:
            if self._name is None:
                exported = functools.partial(postgres.exported, self._connection, label=self._label)
                held = self._open.enter_context(closing(attended(exported, self._session, label=self._label)))
                self._name = next(held)
            return self._name

    def close(self) -> None:
        """Release the snapshot on the server."""
        self._open.close()

    @classmethod
    def possible(cls, connection: Connection, session: Session, *, label: str) -> bool:
        """Return True if the database has such snapshots, and other connections can read them. Raise Unavailable."""
        if connection.dialect != "postgresql":
            return False
        from sitemap_etl.sources.databases import postgres

        shared = cls(connection, session, label=label)
        try:
            for _ in rows(connection, "SELECT 1 AS one", {}, session, label=label, snapshot=shared.name()):
                pass
        except (
            InvalidSource,
            Refused,
            postgres.SnapshotGone,
        ):  # another product with that protocol, or several servers
            return False
        finally:
            shared.close()
        return True
