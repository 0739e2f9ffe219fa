"""What an engine remembers between runs: one JSON object in the state, written after every step that counts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, Protocol

from sitemap_etl.errors import Refused

FORMAT: Final = 1
RUNS_KEPT: Final = 30
"""Runs that are remembered as told, so that a retry tells nothing twice."""
OWED_KEPT: Final = 1_000
"""Addresses that may be owed at a time, of one kind."""


class Ledger(Protocol):
    """Where an engine's memory lives; the pipeline gives one over its storage. Absent is `{}`."""

    def load(self) -> dict[str, Any]: ...

    def save(self, data: dict[str, Any]) -> None: ...


class Book:
    """A ledger while a submission is under way. `data` is what was last saved, plus what is to be saved next."""

    def __init__(self, engine: str, ledger: Ledger) -> None:
        self._ledger = ledger
        self.data: dict[str, Any] = {"format": FORMAT} | ledger.load()
        if self.data["format"] != FORMAT:
            raise Refused(
                f"{engine}: its ledger has format {self.data['format']!r}, this version reads {FORMAT}. "
                "Run the version that wrote it, or remove it from the state: then URLs may be sent a second time."
            )

    def save(self) -> None:
        self._ledger.save(self.data)

    def knows(self, run_id: str) -> bool:
        """Whether this run was entered before, by another attempt or by hand."""
        return run_id in self.data.get("runs", [])

    def enter(self, run_id: str) -> None:
        """Remember the run; the oldest are forgotten."""
        self.data["runs"] = [*(run for run in self.data.get("runs", []) if run != run_id), run_id][-RUNS_KEPT:]


class Dues:
    """The addresses an engine still has to be told, over all runs, by kind.

    A run's addresses are entered once. Each leaves when it was taken; what was not is owed on the next run.
    """

    def __init__(self, book: Book) -> None:
        self._book = book
        self._owed: dict[str, list[str]] = book.data.setdefault("owed", {})

    def enter(self, run_id: str, new: dict[str, Sequence[str]], *, again: bool) -> None:
        """Owe `new`, unless this run was entered before (and not `again`); kinds that `new` lacks are forgotten."""
        fresh = again or not self._book.knows(run_id)
        for kind in [kind for kind in self._owed if kind not in new]:
            del self._owed[kind]
        for kind, addresses in new.items():
            owed = self._owed.setdefault(kind, [])
            if fresh:
                owed[:] = list(dict.fromkeys([*owed, *addresses]))[-OWED_KEPT:]
        self._book.enter(run_id)
        self._book.save()

    def keep(self, kind: str, known: Iterable[str]) -> None:
        """Forget what is owed of addresses that exist no more."""
        known = set(known)
        self._owed[kind] = [address for address in self._owed.get(kind, []) if address in known]

    def owed(self, kind: str) -> tuple[str, ...]:
        return tuple(self._owed.get(kind, ()))

    def settle(self, kind: str, *addresses: str) -> None:
        """These were taken; remembered at once."""
        self._owed[kind] = [address for address in self._owed[kind] if address not in addresses]
        self._book.save()
