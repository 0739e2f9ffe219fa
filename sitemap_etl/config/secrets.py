"""Read secrets and parameters, which settings contain by reference."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from sitemap_etl.config import reader, variables
from sitemap_etl.errors import ConfigError
from sitemap_etl.settings import Secret, Secretive, Select

_S = TypeVar("_S", bound=Secretive)


def revealed(path: str, settings: _S, environ: Mapping[str, str]) -> _S:
    """Return the settings at a key path (`ping.bing`) with their secrets. Only the stage that uses them gets these.

    Raise ConfigError with every secret that is not set, is no longer in its file, or is invalid.
    """
    read: dict[str, list[Secret]] = {}
    problems: list[str] = []
    for key, secrets in settings.secrets().items():
        for secret in secrets:
            found, problem = _read(secret, environ)
            if problem is None and not found.text.strip():
                problem = "the secret is empty"
            problems += [f"{path}.{key}: {problem}"] if problem is not None else []
            read.setdefault(key, []).append(Secret.read(found.text.strip(), found.parts))
    if problems:
        raise ConfigError(problems)
    try:
        return settings.with_secrets(read)
    except ConfigError as error:
        raise ConfigError([f"{path}.{problem}" for problem in error.problems]) from None


def parameters(source: Select, environ: Mapping[str, str]) -> dict[str, Any]:
    """Return the values of `params:`, with variables filled in. Raise ConfigError with all unset variables."""
    return filled("params", source.params, environ)


def filled(path: str, parameters: Mapping[str, Any], environ: Mapping[str, str]) -> dict[str, Any]:
    """Return the values at a key path, with variables filled in. Raise ConfigError with all unset variables."""
    values = dict(parameters)
    problems: list[str] = []
    for name, value in parameters.items():
        if isinstance(value, Secret):
            found, problem = _read(value, environ)
            values[name] = found.text
            problems += [f"{path}.{name}: {problem}"] if problem is not None else []
    if problems:
        raise ConfigError(problems)
    return values


def _read(secret: Secret, environ: Mapping[str, str]) -> tuple[Secret, str | None]:
    """Return the secret that was read, and the problem if it can't be read."""
    template = secret.template if secret.template is not None else _in_file(secret)
    if template is None:
        return Secret.read(""), f"{secret.file} no longer contains the secret that it had when the run started"
    text, unset = variables.expand(template, environ)
    problem = f"the environment variable {unset[0]} is not set, and this stage needs it" if unset else None
    return Secret.read(text, variables.values(template, environ)), problem


def _in_file(secret: Secret) -> str | None:
    """Return the text at the secret's key path in its file, or None if it is gone."""
    assert secret.file is not None
    assert secret.key is not None
    value: Any = reader.read(Path(secret.file)).data
    for name, number in re.findall(r"([^.\[\]]+)|\[([0-9]+)\]", secret.key):
        if name:
            value = value.get(name) if isinstance(value, dict) else None
        else:
            value = value[int(number) - 1] if isinstance(value, list) and int(number) <= len(value) else None
    return value if isinstance(value, str) else None
