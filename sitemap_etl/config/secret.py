"""A secret by reference: where it is to be found, never what it is.

    key: "${INDEXNOW_KEY}"     → the template itself
    key: 4fc5…                 → the file that wrote it, and the key path in that file

So nothing that holds a site can leak one: not a plan, a manifest, an XCom, a message or a `repr`. The
stage that needs the secret asks for it with `reveal`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import model_serializer, model_validator

from sitemap_etl.config import reader, variables
from sitemap_etl.config.value import Value
from sitemap_etl.errors import ConfigError


class Secret(Value):
    """A value that only the stage that uses it may see.

    `template` is text made of nothing but plain `${NAME}`s. A secret that is written out in a site file,
    in whole or in part, is known by `file` and `key` (`ping.indexnow.key`) and read again when asked for.
    """

    template: str | None = None
    file: str | None = None
    key: str | None = None

    def reveal(self, environ: Mapping[str, str]) -> str:
        """The secret. ConfigError where its variable is not set, or its file no longer has it."""
        text, where = self._text()
        value, unset = variables.expand(text, environ)
        if unset:
            raise ConfigError(f"{where}: the environment variable {unset[0]} is not set; this stage needs it")
        if not value.strip():
            raise ConfigError(f"{where}: is empty")
        return value.strip()

    def _text(self) -> tuple[str, str]:
        if self.template is not None:
            return self.template, self.template
        assert self.file is not None
        assert self.key is not None
        where = f"{self.file}: {self.key}"
        value: Any = reader.read(Path(self.file)).data
        for name, number in re.findall(r"([^.\[\]]+)|\[([0-9]+)\]", self.key):
            if name:
                value = value.get(name) if isinstance(value, dict) else None
            elif isinstance(value, list):  # one text may stand for a list of it
                value = value[int(number) - 1] if int(number) <= len(value) else None
        if not isinstance(value, str):
            raise ConfigError(f"{where}: the secret that was written here when the run started is gone")
        return value, where

    def __repr__(self) -> str:
        return f"Secret({self.template or f'{self.file}: {self.key}'!r})"

    __str__ = __repr__

    @model_validator(mode="before")
    @classmethod
    def _from_template(cls, value: Any) -> Any:
        return {"template": value} if isinstance(value, str) else value

    @model_serializer
    def _to_json(self) -> Any:
        return self.template if self.template is not None else {"file": self.file, "key": self.key}
