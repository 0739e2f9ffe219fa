"""A secret by reference: where it is to be found, never what it is.

    key: "${INDEXNOW_KEY}"     → the template itself
    key: 4fc5…                 → the file that wrote it, and the key path in that file

So nothing that holds a site can leak one: not a plan, a manifest, an XCom, a message or a `repr`. The stage that
needs the secret has it read, by `config.revealed`, into a copy of the settings that it gives to nobody.
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
    """A value that only the stage that uses it may see.

    `template` is text whose variables that stage fills in. A secret that is written out in a site file, in whole or
    in part, is known by `file` and `key` (`ping.indexnow.key`) and read again when it is asked for.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    template: str | None = None
    file: str | None = None
    key: str | None = None
    _text: str | None = PrivateAttr(default=None)
    _parts: tuple[str, ...] = PrivateAttr(default=())

    @classmethod
    def within(cls, annotation: Any) -> bool:
        """Whether a key with this annotation holds secrets."""
        return annotation is cls or any(cls.within(part) for part in get_args(annotation))

    @property
    def text(self) -> str:
        """The secret itself, where it was read."""
        assert self._text is not None, "a secret is read before it is used: config.revealed"
        return self._text

    @property
    def parts(self) -> tuple[str, ...]:
        """The values of the variables that were filled in: secrets too, each by itself."""
        return self._parts

    @classmethod
    def read(cls, text: str, parts: tuple[str, ...] = ()) -> Secret:
        """A secret that was read. It refers to nothing and can't be stored."""
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
    """What a secret must look like: checked as far as it is written out, and again when it is read.

    `check` takes the text, and raises what is said of it.
    """

    check: Callable[[str], None]

    def problem(self, text: str) -> str | None:
        """What is said of the text, where it does not have the form."""
        try:
            self.check(text)
        except PydanticCustomError as error:
            return error.message()
        return None

    @classmethod
    def of(cls, annotation: Any) -> Form | None:
        """The form that an annotation demands somewhere in it."""
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
    """A mapping with keys that hold secrets."""

    def secrets(self) -> dict[str, tuple[Secret, ...]]:
        """The secrets that are set, by key; several where the key takes a list."""
        values = {name: getattr(self, name) for name in type(self).model_fields}
        found = {name: value if isinstance(value, tuple) else (value,) for name, value in values.items()}
        return {name: several for name, several in found.items() if several and isinstance(several[0], Secret)}

    def with_secrets(self, read: Mapping[str, Sequence[Secret]]) -> Self:
        """The settings with these secrets, which were read, in place of what they hold under these keys.

        Raises ConfigError with every one that can't be one, by its key; none is shown.
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
    """A parameter of a SELECT: one with variables in it may be a secret, and is read by the stage that binds it."""
    if not isinstance(value, str | int | float) or value in (float("inf"), float("-inf")):
        raise unlike("text, a number, true or false")
    if not isinstance(value, str):
        return value
    return Secret.model_validate(str(value)) if "${" in value else str(value)


Parameter = Annotated[
    bool | int | float | str | Secret,
    PlainValidator(_parameter, json_schema_input_type=str | float | bool),
]
"""What `:name` in a SELECT stands for."""
