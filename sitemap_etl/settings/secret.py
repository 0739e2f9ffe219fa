"""Secrets by reference. A reference says how to read a secret, and never contains it.

    key: "${INDEXNOW_KEY}"     → the template itself
    key: 4fc5…                 → the site file that contains it, and the key path in that file

So a plan, manifest, XCom, message or `repr` of a site can't leak a secret. The stage that needs the secret calls
`config.revealed`, which reads it into a copy of the settings. Only that stage uses the copy.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Final, Self, get_args

from pydantic import (
    BaseModel,
    ConfigDict,
    GetCoreSchemaHandler,
    PlainValidator,
    PrivateAttr,
    WithJsonSchema,
    model_serializer,
    model_validator,
)
from pydantic_core import CoreSchema, PydanticCustomError, PydanticKnownError, core_schema

from sitemap_etl.errors import ConfigError
from sitemap_etl.frozen import Frozen
from sitemap_etl.settings.kinds import Settings, nonempty, unlike
from sitemap_etl.settings.written import Written

_ONLY_VARIABLES: Final = re.compile(r"(\$\{[A-Za-z_][A-Za-z0-9_]*\})+")


class Secret(BaseModel):
    """Reference to a value that only the stage that uses it can read.

    `template`: text whose variables that stage fills in. If the site file itself contains the secret or a part of it,
    `file` and `key` (`ping.indexnow.key`) say where to read it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    template: str | None = None
    file: str | None = None
    key: str | None = None
    _text: str | None = PrivateAttr(default=None)
    _parts: tuple[str, ...] = PrivateAttr(default=())

    @classmethod
    def within(cls, annotation: Any) -> bool:
        """Return True if a key with this annotation contains secrets."""
        return annotation is cls or any(cls.within(part) for part in get_args(annotation))

    @property
    def text(self) -> str:
        """The secret itself. It must have been read."""
        assert self._text is not None, "a secret is read before it is used: config.revealed"
        return self._text

    @property
    def parts(self) -> tuple[str, ...]:
        """Values of the variables in the secret. Each one is a secret too."""
        return self._parts

    @classmethod
    def read(cls, text: str, parts: tuple[str, ...] = ()) -> Secret:
        """Return a secret that was read. It has no reference and can't be stored."""
        made = cls.model_construct()
        made._text, made._parts = text, parts
        return made

    def __repr__(self) -> str:
        place = f"{self.file}: {self.key}" if self.file is not None else "read"
        return f"Secret({self.template if self.template is not None else place!r})"

    __str__ = __repr__

    @model_validator(mode="before")
    @classmethod
    def _reference(cls, value: Any) -> Any:
        if isinstance(value, Written):
            text = nonempty(value)
            return {"template": text} if _ONLY_VARIABLES.fullmatch(text) else {"file": value.file, "key": value.key}
        if isinstance(value, str):
            return {"template": value}
        was_stored = isinstance(value, dict) and value.keys() == {"file", "key"}
        if was_stored and not any(isinstance(part, Written) for part in value.values()):
            return value
        raise PydanticKnownError("string_type")

    @model_serializer
    def _to_json(self) -> Any:
        assert self._text is None, "a secret that was read is stored nowhere"
        return self.template if self.template is not None else {"file": self.file, "key": self.key}


class Form(Frozen):
    """Form that a secret must have. It is checked when a site file is loaded, and again when the secret is read.

    `check` gets the text and raises the problem.
    """

    check: Callable[[str], None]

    def problem(self, text: str) -> str | None:
        """Return the problem of the text, or None if it has the form."""
        try:
            self.check(text)
        except PydanticCustomError as error:
            return error.message()
        return None

    @classmethod
    def of(cls, annotation: Any) -> Form | None:
        """Return the form in an annotation, at any depth, or None."""
        found = [part for part in getattr(annotation, "__metadata__", ()) if isinstance(part, Form)]
        below = (cls.of(part) for part in get_args(annotation))
        return next(iter(found), None) or next((form for form in below if form is not None), None)

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        def checked(value: Any) -> Any:
            if isinstance(value, Written) and value.strip():
                self.check(value.strip())
            return value

        return core_schema.no_info_before_validator_function(checked, handler(source))


SecretText = Annotated[Secret, WithJsonSchema({"type": "string"}, mode="validation")]


class Secretive(Settings):
    """A mapping with keys that contain secrets."""

    def secrets(self) -> dict[str, tuple[Secret, ...]]:
        """Return the secrets that are set, by key. A key with a list has several."""
        values = {name: getattr(self, name) for name in type(self).model_fields}
        found = {name: value if isinstance(value, tuple) else (value,) for name, value in values.items()}
        return {name: several for name, several in found.items() if several and isinstance(several[0], Secret)}

    def with_secrets(self, read: Mapping[str, Sequence[Secret]]) -> Self:
        """Return the settings with these secrets, which were read, under their keys.

        Raise ConfigError with the key of every secret that is invalid. The message does not show the secret.
        """
        problems: list[str] = []
        for key, secrets in read.items():
            form = Form.of(type(self).model_fields[key].annotation)
            if form is not None:
                found = (form.problem(secret.text) for secret in secrets)
                problems += [f"{key}: {problem}" for problem in found if problem is not None]
        if problems:
            raise ConfigError(problems)
        several = {key for key in read if isinstance(getattr(self, key), tuple)}
        return self.model_copy(
            update={key: tuple(secrets) if key in several else secrets[0] for key, secrets in read.items()}
        )


def _parameter(value: Any) -> Any:
    """Return a parameter of a SELECT. Text with variables can be a secret, so the stage that binds it reads it."""
    if not isinstance(value, str | int | float) or value in (float("inf"), float("-inf")):
        raise unlike("text, a number, true or false")
    if not isinstance(value, str):
        return value
    return Secret.model_validate(str(value)) if "${" in value else str(value)


Parameter = Annotated[
    bool | int | float | str | Secret,
    PlainValidator(_parameter, json_schema_input_type=str | float | bool),
]
"""Value of `:name` in a SELECT."""
