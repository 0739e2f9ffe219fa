"""The kinds of values that the keys of a site file take, each with what it says when it is given another."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from sitemap_etl.config import address
from sitemap_etl.config.reader import scalar

_DURATION = re.compile(r"([0-9]{1,6})\s*([mhdw])")
_UNITS: Final = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


class Expanded(str):
    """Text that holds a value from the environment; `template` is what the file says, and all a message may show."""

    __slots__ = ("template",)
    template: str

    def __new__(cls, value: str, template: str) -> Expanded:
        text = super().__new__(cls, value)
        text.template = template
        return text

    def __deepcopy__(self, _: object) -> Expanded:
        return self


class Keys(BaseModel):
    """What all mappings of a site file are: exactly these keys, with exactly these kinds of values."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class IsSecret:
    """Marks a key whose value is read from the environment by the stage that uses it, and never shown."""


def wrong(said: str, *keys: str) -> PydanticCustomError:
    """The error of a value or a mapping, in words that follow the key path.

    `keys` are those of the mapping whose absence it is about.
    """
    return PydanticCustomError("wrong", "{said}", {"said": said, "keys": keys})


def unlike(expected: str, *, near: str | None = None) -> PydanticCustomError:
    """The error of one value that is not `expected`; what was found is shown beside it, and what may be meant."""
    return PydanticCustomError("unlike", "expected {expected}", {"expected": expected, "near": near})


def matching(pattern: str, expected: str, *, shown: bool = True) -> AfterValidator:
    """A validator for text that is wholly of this form; `expected` completes "expected …"."""
    compiled = re.compile(pattern)

    def check(value: str) -> str:
        if not compiled.fullmatch(value):
            raise unlike(expected) if shown else wrong(f"expected {expected}")
        return value

    return AfterValidator(check)


def one_of(expected: str, *keys: str) -> Discriminator:
    """Chooses between forms: a text, a number, or a mapping known by the first of `keys` that it has."""

    def form(value: Any) -> str | None:
        if isinstance(value, dict):
            found = next((key for key in keys if key in value), keys[0] if len(keys) == 1 else None)
            return f"<{found}>" if found else None
        read = _read(value)
        if isinstance(read, int | float) and not isinstance(read, bool):
            return "<number>"
        return "<text>" if isinstance(value, str) else None

    return Discriminator(
        form,
        custom_error_type="unlike",
        custom_error_message=f"expected {expected}",
    )


def _read(value: Any) -> Any:
    """A number or true/false that came from the environment as text."""
    return scalar(value) if isinstance(value, Expanded) else value


def _text(value: str) -> str:
    if not value.strip():
        raise wrong("expected text, found none")
    if "\0" in value:
        raise wrong("expected text, found a NUL in it")
    return value.strip()


def _origin(value: str) -> str:
    try:
        return address.canonical_origin(value)
    except ValueError as error:
        raise wrong(str(error)) from error


def _pattern(value: str) -> str:
    if not value.startswith(("/", "*")) or any(ord(character) < 32 for character in value):
        raise unlike('a pattern of paths that begins with / or *, such as "/internal/" or "*/print$"')
    return value


def _folder_address(value: str) -> str:
    try:
        return address.canonical_address(value)
    except ValueError as error:
        raise wrong(str(error)) from error


def _scalar(value: Any) -> Any:
    if not isinstance(value, str | int | float) or value in (float("inf"), float("-inf")):
        raise unlike("text, a number, true or false")
    return str(value) if isinstance(value, str) else value


def as_list(value: Any) -> Any:
    """One text as a list of it; anything else as it is."""
    return [value] if isinstance(value, str) else value


def _duration(value: Any) -> timedelta:
    match = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if match is None or int(match[1]) == 0:
        raise unlike("a duration such as 3d (m for minutes, h for hours, d for days, w for weeks)")
    return timedelta(**{_UNITS[match[2]]: int(match[1])})


Text = Annotated[str, AfterValidator(_text)]
Texts = Annotated[list[Text], BeforeValidator(as_list, json_schema_input_type=str | list[str]), Field(min_length=1)]
Scalar = Annotated[
    Any, AfterValidator(_scalar), WithJsonSchema({"type": ["string", "number", "boolean"]}, mode="validation")
]
Integer = Annotated[int, BeforeValidator(_read)]
Number = Annotated[float, BeforeValidator(_read)]
Flag = Annotated[bool, BeforeValidator(_read)]
Duration = Annotated[
    timedelta,
    BeforeValidator(_duration),
    WithJsonSchema({"type": "string", "pattern": r"^[0-9]+\s*[mhdw]$", "examples": ["3d", "12h"]}),
]
Hreflang = Annotated[
    Text,
    matching(
        r"[A-Za-z]{2}([-_][A-Za-z]{4})?([-_][A-Za-z]{2})?",
        "a language as hreflang has it, such as en, de-AT or zh-Hant",
    ),
]
Pattern = Annotated[Text, AfterValidator(_pattern)]
Origin = Annotated[Text, AfterValidator(_origin)]
FolderAddress = Annotated[Text, AfterValidator(_folder_address)]
SecretText = Annotated[Text, IsSecret()]
Connection = Annotated[
    Text,
    matching(
        r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,249}",
        "the id of a connection, such as catalog; its address stands in AIRFLOW_CONN_<ID> or in Airflow, never here",
        shown=False,
    ),
]
