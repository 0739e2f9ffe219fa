"""What an engine is: settings that validate themselves, and one method that carries a submission there."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from difflib import get_close_matches
from typing import Annotated, Any, ClassVar, Final, Protocol, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PrivateAttr, SecretStr, ValidationError

from sitemap_etl import web
from sitemap_etl.engines.credentials import VARIABLE, Redactor, connection_fields, path_of, secrets_of_url, variables
from sitemap_etl.engines.exchange import Clock, Exchange, Later, Sleep, utc_now
from sitemap_etl.engines.ledger import Book, Ledger
from sitemap_etl.engines.submission import Answer, Submission
from sitemap_etl.errors import ConfigError, Refused, SitemapEtlError, Unavailable

PATIENCE: Final = 300.0
"""Seconds that the waiting of one submission may last together, unless `patience:` says otherwise."""

Secrets = Callable[[str], str]
"""Gives a string of the site file with every `${NAME}` and `${NAME:-default}` replaced."""
Connections = Callable[[str], str]
"""Gives the connection of an id, as a URI or as Airflow's JSON."""


class Engine(Protocol):
    """One who listens. One module, one class, one line in `ENGINES`."""

    name: ClassVar[str]

    def submit(
        self, submission: Submission, ledger: Ledger, client: web.Client, *, clock: Clock = ..., sleep: Sleep = ...
    ) -> Answer:
        """Tell the engine. Raises `Unavailable` where trying again may help, `Refused` where it can't.

        What was taken is in the ledger by then: trying again repeats nothing of it.
        """
        ...

    def pending(self, ledger: Ledger) -> tuple[str, ...]:
        """The runs whose changes this engine still needs."""
        ...


def http_address(text: str) -> str:
    """The address, if it is one. Raises ValueError, which shows nothing of it."""
    try:
        parts = urlsplit(text)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        valid = False
    if not valid or any(ord(character) <= 32 for character in text):
        raise ValueError("expected an absolute http or https URL")
    return text


def secure_address(text: str) -> str:
    """The address, if a secret may be sent there: https, or this machine. Raises ValueError."""
    parts = urlsplit(http_address(text))
    if parts.scheme != "https" and parts.hostname not in ("localhost", "127.0.0.1", "::1"):
        raise ValueError("expected an https URL: a secret is sent there")
    return text


HttpAddress = Annotated[str, AfterValidator(http_address)]
SecureAddress = Annotated[str, AfterValidator(secure_address)]


class HttpEngine(BaseModel):
    """An engine asked over HTTP: its fields are the keys of its mapping in the site file.

    A subclass names `needs` (fields that the site file or the connection must fill) and `secret_paths` (addresses
    whose path may be a secret), and writes `tell`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    name: ClassVar[str] = ""
    needs: ClassVar[tuple[str, ...]] = ()
    secret_paths: ClassVar[tuple[str, ...]] = ()
    pace: ClassVar[float] = 0.0

    connection: str | None = None
    patience: float = Field(PATIENCE, ge=0, le=3_600)
    _redact: Redactor = PrivateAttr(default_factory=Redactor)

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any], secret: Secrets, connections: Connections) -> Self:
        """The engine of `ping.<name>`. `secret` and `connections` are asked here and nowhere else.

        Raises `ConfigError` with every mistake found.
        """
        values = {key: _resolved(value, secret) for key, value in settings.items()}
        redact = Redactor(secret(variable) for variable in variables(settings))
        if isinstance(values.get("connection"), str):
            fields = connection_fields(connections(values["connection"]), values["connection"])
            filled = {key: value for key, value in cls.credentials(fields).items() if value}
            redact.learn(*(value for value in filled.values() if isinstance(value, str)))
            values = filled | values
        missing = [field for field in cls.needs if not values.get(field)]
        engine, problems = cls._validated(values)
        if missing:
            problems = [cls._lacks(missing, values.get("connection")), *problems]
        if problems or engine is None:
            raise ConfigError([f"ping.{cls.name}{problem}" for problem in problems])
        for field, value in engine.__dict__.items():
            for item in value if isinstance(value, tuple) else (value,):
                text = item.get_secret_value() if isinstance(item, SecretStr) else item
                if isinstance(text, str):
                    redact.learn(*secrets_of_url(text), *([text] if isinstance(item, SecretStr) else []))
                    redact.learn(*(path_of(text) if field in cls.secret_paths else ()))
        engine._redact = redact
        return engine

    @classmethod
    def problems(cls, settings: Mapping[str, Any]) -> list[str]:
        """What is wrong with `ping.<name>` as far as it can be told without a secret: one line a mistake."""
        missing = [field for field in cls.needs if not settings.get(field)]
        lacks = [cls._lacks(missing, None)] if missing and not settings.get("connection") else []
        _, found = cls._validated(settings)
        # What a variable holds is not known yet, so what stands in its place is no mistake.
        unknown = [key for key, value in settings.items() if variables(value)]
        told = [problem for problem in found if problem.partition(":")[0].split(".")[1] not in unknown]
        return [f"ping.{cls.name}{problem}" for problem in [*lacks, *told]]

    @classmethod
    def _lacks(cls, missing: list[str], connection: object) -> str:
        wanted = " and ".join(f"{field}:" for field in missing)
        return (
            f": connection {connection!r} does not hold {wanted}"
            if connection
            else f": expected {wanted} or connection:"
        )

    @classmethod
    def _validated(cls, values: Mapping[str, Any]) -> tuple[Self | None, list[str]]:
        try:
            return cls(**values), []
        except ValidationError as error:
            mistakes = error.errors(include_url=False, include_context=False, include_input=False)
        problems = []
        for mistake in mistakes:
            path = "".join(f".{part}" for part in mistake["loc"])
            if mistake["type"] == "extra_forbidden":
                near = get_close_matches(str(mistake["loc"][-1]), cls.model_fields, 1)
                problems.append(f"{path}: no such key" + (f"; did you mean {near[0]}?" if near else ""))
            elif mistake["type"] == "missing":
                problems.append(f"{path}: expected a value")
            else:
                problems.append(f"{path}: {mistake['msg'].removeprefix('Value error, ')}")
        return None, problems

    def __repr__(self) -> str:
        return self._redact(super().__repr__())

    __str__ = __repr__

    @classmethod
    def credentials(cls, connection: Mapping[str, Any]) -> dict[str, Any]:
        """The fields that a connection fills: `{login, password, host, extra}` → fields of this engine."""
        return {"key": connection["password"]}

    def submit(
        self,
        submission: Submission,
        ledger: Ledger,
        client: web.Client,
        *,
        clock: Clock = utc_now,
        sleep: Sleep = time.sleep,
    ) -> Answer:
        book = Book(self.name, ledger)
        # What a connection or the site file held is known; what the other side hands out is learnt on the way.
        redact = self._redact
        exchange = Exchange(self.name, client, redact, clock=clock, sleep=sleep, patience=self.patience, pace=self.pace)
        if not_before := book.data.pop("not_before", None):
            exchange.until(datetime.fromisoformat(not_before))
        try:
            return self.tell(submission, book, exchange)
        except Later as later:
            if later.until is not None:
                book.data["not_before"] = later.until.isoformat()
                book.save()
            raise

    def pending(self, ledger: Ledger) -> tuple[str, ...]:  # noqa: ARG002 most engines need no changes
        return ()

    def tell(self, submission: Submission, book: Book, exchange: Exchange) -> Answer:
        """Carry the submission there, saving the book after every step that was taken."""
        raise NotImplementedError


def _resolved(value: Any, secret: Secrets) -> Any:
    """A setting with the variables in its strings replaced."""
    if isinstance(value, str):
        return secret(value) if VARIABLE.search(value) else value
    if isinstance(value, Mapping):
        return {key: _resolved(item, secret) for key, item in value.items()}
    return [_resolved(item, secret) for item in value] if isinstance(value, (list, tuple)) else value


def one_by_one(
    items: Iterable[str], tell: Callable[[str], None]
) -> tuple[list[str], list[Refused], Unavailable | None]:
    """Tell each item: the taken ones, the refusals, and the fault that ended it before the last one."""
    taken: list[str] = []
    refusals: list[Refused] = []
    for item in items:
        try:
            tell(item)
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
    """The answer over several addresses. Raises `Refused` where all of them were refused."""
    if not taken and len(refusals) == 1:
        raise refusals[0]
    said = "; ".join(str(refused) for refused in refusals)
    if refusals and not taken:
        raise Refused(said) from refusals[0]
    if not taken:
        return Answer(engine, "nothing", 0, nothing, details)
    message = f"told of {len(taken)} {what}{'' if len(taken) == 1 else 's'}: {', '.join(taken[:3])}"
    message += f" and {len(taken) - 3} more" if len(taken) > 3 else ""
    if refusals:
        return Answer(engine, "partial", len(taken), f"{message}; refused: {said}", details)
    return Answer(engine, "accepted", len(taken), message, details)


def ask(
    engine: Engine,
    submission: Submission,
    ledger: Ledger,
    client: web.Client,
    *,
    clock: Clock = utc_now,
    sleep: Sleep = time.sleep,
) -> Answer:
    """The engine's answer, also where it is a refusal or none: one engine's failure is never the others'."""
    try:
        return engine.submit(submission, ledger, client, clock=clock, sleep=sleep)
    except SitemapEtlError as error:
        status = "refused" if isinstance(error, (Refused, ConfigError)) else "unavailable"
        return Answer(engine.name, status, 0, str(error))  # type: ignore[arg-type] # one of the two above
