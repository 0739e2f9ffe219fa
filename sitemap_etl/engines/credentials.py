"""Redaction of the secrets of engines in every text."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from typing import Final
from urllib.parse import parse_qsl, quote, quote_plus, unquote, urlsplit

MASK: Final = "•••"
SHORTEST: Final = 6
"""Minimum length of a value that is masked. Masking shorter ones would garble messages."""

LONG: Final = 12
"""Minimum length of a path segment that can be a secret rather than a word."""


class Redactor:
    """Function that masks the secrets in a text, in every form that they can have in a request."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._forms: set[str] = set()
        self.learn(*secrets)

    def __repr__(self) -> str:
        return f"Redactor({len(self._forms)} forms)"

    def learn(self, *secrets: str) -> None:
        """Add secrets: as they are, percent-encoded, in JSON, in base64, as messages show them, and line by line."""
        for secret in secrets:
            for text in {secret, *secret.splitlines()}:
                forms = (
                    text,
                    quote(text, safe=""),
                    quote(text),
                    quote_plus(text),
                    json.dumps(text)[1:-1],
                    base64.b64encode(text.encode()).decode().rstrip("="),
                )
                self._forms.update(form for form in forms if len(text.strip()) >= SHORTEST)

    def __call__(self, text: str) -> str:
        for form in sorted(self._forms, key=len, reverse=True):
            text = text.replace(form, MASK)
        return text


def secrets_of_url(url: str) -> set[str]:
    """Return the parts of an address that can be secret: its password and the values of its query."""
    try:
        parts = urlsplit(url)
        written = {pair.partition("=")[2] for pair in parts.query.split("&")}
        values = written | {value for _, value in parse_qsl(parts.query)}
        return {unquote(parts.password or "")} | {value for value in values if "{" not in value}
    except ValueError:
        return set()


def path_of(url: str) -> set[str]:
    """Return the long segments of a path before its first placeholder. With some engines, they are the secret."""
    return {part for part in urlsplit(url).path.partition("{")[0].split("/") if len(part) >= LONG}
