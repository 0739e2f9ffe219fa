"""Base of all engines, with their settings and the method that sends a submission."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, ClassVar, Final, Generic, TypeVar

from sitemap_etl import web
from sitemap_etl.connections import Connection
from sitemap_etl.engines.credentials import Redactor, path_of, secrets_of_url
from sitemap_etl.engines.exchange import Clock, Exchange, Later, Sleep, utc_now
from sitemap_etl.engines.ledger import Book, Ledger
from sitemap_etl.engines.submission import Answer, Submission
from sitemap_etl.errors import ConfigError, Refused, Unavailable
from sitemap_etl.extras import demand
from sitemap_etl.settings import Engine, Secret

S = TypeVar("S", bound=Engine)

_LONGEST: Final = timedelta(days=30)
"""Maximum time that an engine can ask to wait. A longer one comes from a clock that was fast."""


class HttpEngine(Generic[S]):
    """Engine that is notified over HTTP: one module, named after its key under `ping:`, with one class.

    A subclass sets its name, its settings and `secret_paths` (keys of addresses whose path can be a secret), and
    implements `notify`.
    """

    name: ClassVar[str] = ""
    secret_paths: ClassVar[tuple[str, ...]] = ()
    pace: ClassVar[float] = 0.0
    """Minimum seconds between two requests."""
    extra: ClassVar[str] = ""
    """Extra of this package that the engine needs."""
    reads_back: ClassVar[bool] = False
    """True if the engine reports its findings about the release, so that runs without changes ask it too."""

    def __init__(self, settings: S, connection: Connection | None = None) -> None:
        """Initialize with settings that contain their secrets, and with the connection that they name.

        Raise ConfigError if a secret in the connection is missing or invalid, or if packages are missing.
        """
        self.demand_extra()
        given = {} if connection is None else dict(self.credentials(connection))
        try:
            self.settings: S = settings.filled(given)
        except ConfigError as error:
            raise ConfigError([f"ping.{self.name}.{problem}" for problem in error.problems]) from None
        lacks = [key for key in settings.needs if getattr(self.settings, key) is None]
        if lacks:
            raise ConfigError(
                f"ping.{self.name}: connection {settings.connection!r} has no `{'` and no `'.join(lacks)}`"
            )
        self._redact = Redactor(text for text in given.values() if text)
        for key in type(self.settings).model_fields:
            self._learn(key, getattr(self.settings, key))

    def _learn(self, key: str, value: Any) -> None:
        """Register the secret parts of a setting for redaction."""
        for item in value if isinstance(value, tuple) else (value,):
            text = item.text if isinstance(item, Secret) else item
            if isinstance(text, str):
                self._redact.learn(*secrets_of_url(text), *((text, *item.parts) if isinstance(item, Secret) else ()))
                self._redact.learn(*(path_of(text) if key in self.secret_paths else ()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._redact(repr(self.settings))})"

    @classmethod
    def credentials(cls, connection: Connection) -> Mapping[str, str]:
        """Return the values that a connection contains, by their keys in the settings."""
        return {"key": connection.password}

    @classmethod
    def demand_extra(cls) -> None:
        """Raise ConfigError if this engine needs packages that are not installed."""
        if cls.extra:
            demand(cls.extra, f"ping.{cls.name}")

    def key_file(self) -> tuple[str, bytes] | None:
        """Return name and content of the file at the root of the site that proves its ownership, or None."""
        return None

    def submit(
        self,
        submission: Submission,
        ledger: Ledger,
        client: web.Client,
        *,
        clock: Clock = utc_now,
        sleep: Sleep = time.sleep,
    ) -> Answer:
        """Notify the engine. Raise `Unavailable` if a retry can help, `Refused` if it can't.

        The ledger records accepted URLs, so a retry does not repeat it.
        """
        book = Book(self.name, ledger)
        # Secrets of the site file or connection are known by now; those the engine issues are added on the way.
        redact = self._redact
        patience = self.settings.patience
        exchange = Exchange(client, redact, clock=clock, sleep=sleep, patience=patience, pace=self.pace)
        if not_before := book.data.pop("not_before", None):
            until = datetime.fromisoformat(not_before)
            if until - clock() < _LONGEST:  # else a clock was fast when it was noted
                exchange.until(until)
        try:
            return self.notify(submission, book, exchange)
        except Later as later:
            if later.until is not None:
                book.data["not_before"] = later.until.isoformat()
                book.save()
            raise

    @classmethod
    def pending(cls, ledger: Ledger) -> tuple[str, ...]:  # noqa: ARG003 most engines need no changes
        """Return the runs whose changes this engine still needs."""
        return ()

    def notify(self, submission: Submission, book: Book, exchange: Exchange) -> Answer:
        """Send the submission, saving the ledger after every accepted step."""
        raise NotImplementedError


def one_by_one(
    items: Iterable[str], notify: Callable[[str], None]
) -> tuple[list[str], list[Refused], Unavailable | None]:
    """Send each item. Return the accepted ones, the refusals, and the error that stopped it early, or None."""
    taken: list[str] = []
    refusals: list[Refused] = []
    for item in items:
        try:
            notify(item)
        except Refused as refused:
            refusals.append(refused)
        except Unavailable as unavailable:
            return taken, refusals, unavailable
        else:
            taken.append(item)
    return taken, refusals, None


def answer(
    engine: str, taken: Sequence[str], refusals: Sequence[Refused], *, what: str, nothing: str, details: dict[str, Any]
) -> Answer:
    """Return the answer for several addresses. Raise `Refused` if all were refused."""
    if not taken and len(refusals) == 1:
        raise refusals[0]
    said = "; ".join(str(refused) for refused in refusals)
    if refusals and not taken:
        raise Refused(said) from refusals[0]
    if not taken:
        return Answer(engine, "nothing", 0, nothing, details)
    message = f"notified of {len(taken)} {what}{'' if len(taken) == 1 else 's'}: {', '.join(taken[:3])}"
    message += f" and {len(taken) - 3} more" if len(taken) > 3 else ""
    if refusals:
        return Answer(engine, "partial", len(taken), f"{message}; refused: {said}", details)
    return Answer(engine, "accepted", len(taken), message, details)
