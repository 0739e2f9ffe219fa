"""Bind the parameters of a SELECT. Each task reads them from its environment and compares their digest with the plan's.

For a secret parameter, plan and mirror store 16 bits of a slow hash, salted with site and section. A reader learns at
most 16 bits of the secret, however many guesses they try, and precomputed tables don't help. A changed value is missed
once in 65,536 times.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final

from sitemap_etl.config import Section, Select, Site, parameters, variables
from sitemap_etl.engines.credentials import Redactor
from sitemap_etl.errors import ConfigError, Refused, SitemapEtlError
from sitemap_etl.settings import Secret
from sitemap_etl.stages.run import Environment, Run

_SCRYPT: Final[dict[str, int]] = {"n": 1 << 15, "r": 8, "p": 3, "maxmem": 1 << 26}
"""A quarter of a second and 32 MB per guess: as strong as n = 2^17, r = 8, p = 1 (OWASP Password Storage Cheat Sheet).
"""
_BYTES: Final = 2
BEGINNING: Final = datetime(1900, 1, 1, tzinfo=UTC)
"""Value of `:since` for a full read. Every database accepts it, and 1970-01-01 is a common default in tables."""


def params_of(source: Select, site: Site, environment: Environment, now: datetime, since: datetime) -> dict[str, Any]:
    """Return the values to bind to a SELECT. The site file can't replace `now`, `since` and `site`.

    Raise ConfigError if an environment variable is not set.
    """
    return {**parameters(source, environment.environ), "now": now, "since": since, "site": site.site}


def planned_params(run: Run, section: Section, source: Select, since: datetime) -> dict[str, Any]:
    """Return the values bound to a SELECT by a task of a run. Raise Refused if they are not those of its plan."""
    planned = run.plan.params.get(section.name)
    if planned is not None and planned != params_digest(section.name, source, run.site, run.environment):
        named = ", ".join(f"params.{name} ({value.template})" for name, value in _secrets(source).items())
        raise Refused(
            f"section {section.name}: {named}: the value is not what it was when run {run.run_id} was planned. Nothing "
            "public was touched. Give all machines of the run the same environment, and start a new run"
        )
    return params_of(source, run.site, run.environment, run.now, since)


def has_secrets(source: Select) -> bool:
    """Return True if a parameter of the SELECT comes from an environment variable."""
    return bool(_secrets(source))


def params_digest(section: str, source: Select, site: Site, environment: Environment) -> str:
    """Return a digest of the parameters of a section: text that contains none of them.

    Raise ConfigError if a variable in one is not set.
    """
    values = parameters(source, environment.environ)
    secrets = _secrets(source)
    plain = {name: None if name in secrets else value for name, value in values.items()}
    digest = hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()[:16]
    if not secrets:
        return digest
    hidden = json.dumps({name: values[name] for name in sorted(secrets)})
    return f"{digest}:{_slow(hidden, json.dumps([site.name, site.site, section]))}"


@lru_cache(maxsize=64)
def _slow(text: str, salt: str) -> str:
    return hashlib.scrypt(text.encode(), salt=salt.encode(), dklen=_BYTES, **_SCRYPT).hex()


def _secrets(source: Select) -> dict[str, Secret]:
    return {name: value for name, value in source.params.items() if isinstance(value, Secret)}


@contextmanager
def unspoken(source: Select, environment: Environment) -> Iterator[None]:
    """Mask values of secret parameters in errors that are raised within the block."""
    try:
        yield
    except SitemapEtlError as error:
        secrets = [secret.template or "" for secret in _secrets(source).values()]
        known = [variables.expand(secret, environment.environ)[0] for secret in secrets]
        known += [value for secret in secrets for value in variables.values(secret, environment.environ)]
        masked = Redactor(known)(str(error))
        if masked == str(error):
            raise
        redacted: SitemapEtlError = ConfigError([masked]) if isinstance(error, ConfigError) else type(error)(masked)
        raise redacted from None  # the cause contains the secret too
