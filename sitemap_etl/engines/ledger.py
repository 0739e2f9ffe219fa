"""Ledger of an engine: one JSON object in the state, saved after every accepted step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, Protocol

from sitemap_etl.errors import Refused

FORMAT: Final = 1
RUNS_KEPT: Final = 30
"""Number of runs that are recorded, so that a retry sends nothing twice."""
MOST_PENDING: Final = 1_000
"""Maximum number of pending addresses of one kind."""


class Ledger(Protocol):
    """Storage for the data of one engine. `load` returns `{}` if nothing was saved yet."""

    def load(self) -> dict[str, Any]: ...

    def save(self, data: dict[str, Any]) -> None: ...


class Book:
    """The ledger during a submission. `data`: the last saved version, and the changes to save next."""

    def __init__(self, engine: str, ledger: Ledger) -> None:
        self._ledger = ledger
        self.data: dict[str, Any] = {"format": FORMAT} | ledger.load()
        if self.data["format"] != FORMAT:
            raise Refused(
                f"the ledger of {engine} has format {self.data['format']!r}, but this version reads format {FORMAT}. "
                "Use the release that wrote it, or delete it from the state; then some URLs may be sent twice."
            )

    def save(self) -> None:
        self._ledger.save(self.data)

    def knows(self, run_id: str) -> bool:
        """Return True if this run was entered before, by an earlier attempt or by `sitemap-etl ping`."""
        return run_id in self.data.get("runs", [])

    def enter(self, run_id: str) -> None:
        """Record the run, and drop the oldest ones."""
        self.data["runs"] = [*(run for run in self.data.get("runs", []) if run != run_id), run_id][-RUNS_KEPT:]


class Pending:
    """Addresses that an engine has not accepted yet, from all runs, by kind.

    The addresses of a run are entered once. Each stays pending until the engine accepts it.
    """

    def __init__(self, book: Book) -> None:
        self._book = book
        self._pending: dict[str, list[str]] = book.data.setdefault(
            "owed", {}
        )  # its name in the ledgers of the first release

    def enter(self, run_id: str, new: dict[str, Sequence[str]], *, again: bool) -> None:
        """Add `new`, unless the run was entered before (`again` adds it anyway). Drop kinds that are not in `new`."""
        fresh = again or not self._book.knows(run_id)
        for kind in [kind for kind in self._pending if kind not in new]:
            del self._pending[kind]
        for kind, addresses in new.items():
            pending = self._pending.setdefault(kind, [])
            if fresh:
                pending[:] = list(dict.fromkeys([*pending, *addresses]))[-MOST_PENDING:]
        self._book.enter(run_id)
        self._book.save()

    def retain(self, kind: str, known: Iterable[str]) -> None:
        """Drop pending addresses that are not in `known`."""
        known = set(known)
        self._pending[kind] = [address for address in self._pending.get(kind, []) if address in known]

    def of(self, kind: str) -> tuple[str, ...]:
        return tuple(self._pending.get(kind, ()))

    def settle(self, kind: str, *addresses: str) -> None:
        """Remove accepted addresses, and save."""
        self._pending[kind] = [address for address in self._pending[kind] if address not in addresses]
        self._book.save()
