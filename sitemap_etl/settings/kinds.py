"""Types of the values in settings, each with its message for a wrong value."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection
from datetime import timedelta
from typing import Annotated, Any, Final, Self, TypeVar, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    PlainSerializer,
    Strict,
    WithJsonSchema,
)
from pydantic_core import PydanticCustomError

from sitemap_etl.settings import address
from sitemap_etl.settings.written import Written, scalar

_DURATION = re.compile(r"([0-9]{1,6})\s*([smhdw])")
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_SECONDS: Final = {"w": 604_800, "d": 86_400, "h": 3_600, "m": 60, "s": 1}
_LONGEST: Final = timedelta(days=3_653)
"""Ten years. A longer duration is probably a typing error, and could lead to dates that don't exist."""
_T = TypeVar("_T")


class Settings(BaseModel):
    """Base of all mappings of a site file. It accepts only its own keys and types, and is frozen."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False, defer_build=True)

    @classmethod
    def standard(cls) -> Self:
        """Return the settings of an empty mapping, for defaults.

        They are not validated, because the validator of one class alone would be built for that at each start.
        """
        return cls.model_construct()

    def _settle(self, **values: Any) -> None:
        """Fill in the values that follow from other keys, once, while the model is made."""
        self.__dict__.update(values)


def wrong(said: str, *keys: str) -> PydanticCustomError:
    """Return the error of a value or a mapping, in words that follow the key path.

    `keys`: the missing keys of the mapping.
    """
    return PydanticCustomError("wrong", "{said}", {"said": said, "keys": keys})


def unlike(expected: str, *, near: str | None = None) -> PydanticCustomError:
    """Return the error of a value that is not `expected`. The message adds the value, and `near` as a suggestion."""
    return PydanticCustomError("unlike", "expected {expected}", {"expected": expected, "near": near})


def matching(pattern: str, expected: str, *, shown: bool = True) -> AfterValidator:
    """Return a validator for text that matches the whole pattern. `expected` completes "expected …"."""
    compiled = re.compile(pattern)

    def check(value: str) -> str:
        if not compiled.fullmatch(value):
            raise unlike(expected) if shown else wrong(f"expected {expected}")
        return value

    return AfterValidator(check)


SHORT: Final = frozenset({"<number>", "<none>", "<word>", "<text>"})
"""Tags of forms that are not mappings."""


def one_of(expected: str, *keys: str, words: Collection[str] = ()) -> Discriminator:
    """Return a discriminator that chooses between forms by their tags.

    The tag of a mapping is the first of `keys` that it contains, and the tag of a model is the key that it has a field
    for. A number, `none`, one of `words` and other text have their own tags.
    """

    def form(value: Any) -> str | None:
        if isinstance(value, dict):
            found = next((key for key in keys if key in value), keys[0] if len(keys) == 1 else None)
            return f"<{found}>" if found else None
        if isinstance(value, Settings):
            named = (name for name in type(value).model_fields if name in (*keys, "number", "word"))
            return f"<{next(named, 'none')}>"
        read = from_environment(value)
        if isinstance(read, int | float) and not isinstance(read, bool):
            return "<number>"
        if isinstance(value, str):
            return "<none>" if value == "none" else "<word>" if value in words else "<text>"
        return None

    return Discriminator(form, custom_error_type="unlike", custom_error_message=f"expected {expected}")


def short_for(key: str, kind: Any) -> BeforeValidator:
    """Return a validator for a value that is short for `{key: value}`. `kind`: its type, for the JSON Schema."""
    return BeforeValidator(lambda value: {key: value}, json_schema_input_type=kind)


def from_environment(value: Any) -> Any:
    """Return the number, true or false that came from the environment as text. Return other values unchanged."""
    return scalar(value) if isinstance(value, Written) and value.filled else value


def as_list(value: Any) -> Any:
    """Return a list with the text, or any other value unchanged."""
    return [value] if isinstance(value, str) else value


def nonempty(value: str) -> str:
    """Return the text without surrounding spaces. Raise if nothing is left."""
    if not value.strip():
        raise wrong("expected text, got an empty value")
    if "\0" in value:
        raise wrong("expected text without NUL characters")
    return value.strip()


def as_written(value: str) -> str:
    """Return the text with its surrounding spaces. Raise if it has nothing else."""
    nonempty(value)
    return value


def once(values: tuple[_T, ...]) -> tuple[_T, ...]:
    """Return the values in order, without duplicates."""
    return tuple(dict.fromkeys(values))


def _address(canonical: Callable[[str], str]) -> AfterValidator:
    def check(value: str) -> str:
        try:
            return canonical(value)
        except ValueError as error:
            raise unlike(str(error), near=address.meant(value, canonical)) from error

    return AfterValidator(check)


def _pattern(value: str) -> str:
    if not value.startswith(("/", "*")) or any(ord(character) < 32 for character in value):
        raise unlike('a path pattern that begins with / or *, such as "/internal/" or "*/print$"')
    return value


_A_DURATION: Final = "a duration such as 3d (s for seconds, m for minutes, h for hours, d for days, w for weeks)"


def _margin(value: Any) -> timedelta:
    match = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise unlike(_A_DURATION)
    found = timedelta(**{_UNITS[match[2]]: int(match[1])})
    if found > _LONGEST:
        raise unlike(f"a duration of ten years ({_LONGEST.days}d) or less")
    return found


def _duration(value: Any) -> timedelta:
    found = _margin(value)
    if not found:
        raise unlike(_A_DURATION)
    return found


def duration_text(value: timedelta) -> str:
    """Return a duration as text of a site file."""
    seconds = int(value.total_seconds())
    unit, size = next((unit, size) for unit, size in _SECONDS.items() if seconds % size == 0)
    return f"{seconds // size}{unit}"


def _placed(value: Any) -> Any:
    """Return the absolute form of a path in a site file. Return addresses and other text unchanged."""
    if not isinstance(value, Written) or "://" in value:
        return value
    if value.strip().startswith("~"):
        raise wrong("~ is not expanded; write the full path or ${HOME}/…")
    return value.absolute() if value.strip() else value


_S3: Final = re.compile(r"s3[an]?(?::|//)/*(?P<rest>.*)", re.IGNORECASE | re.DOTALL)
_FILE: Final = re.compile(r"file:(?:/*(?=/))?(?P<rest>.*)", re.IGNORECASE | re.DOTALL)
_WINDOWS: Final = re.compile(r"[A-Za-z]:([\\/]|$)|\\\\")
_SCHEME: Final = re.compile(r"(?P<shown>(?P<scheme>[A-Za-z][A-Za-z0-9+.-]+):/+)")
_HINTS: Final = {
    "gs": "; Google Cloud Storage speaks S3: write s3://BUCKET and set AWS_ENDPOINT_URL=https://storage.googleapis.com",
    "https": "; of a bucket write s3://BUCKET/PREFIX",
}


def _address_problem(text: str, expected: str, *, shown: bool) -> str | None:
    """Return the mistake in the address of a store, or None if it is a path or `s3://…`.

    `shown`: it is the file's own text, and no value of a variable.
    """
    if text.startswith("s3://") and not text.startswith("s3:///"):
        return None
    match = _S3.match(text) or _FILE.match(text)
    if match is not None:
        prefix = "s3://" if text[:1] in "sS" else ""
        asked = shown and match["rest"] and "@" not in match["rest"]
        return f"expected {expected}" + (f"; did you mean {prefix}{match['rest']}?" if asked else "")
    if _WINDOWS.match(text):
        return f"expected {expected}, got a path of Windows; write it with slashes, and without a drive"
    match = _SCHEME.match(text)
    return None if match is None else f"expected {expected}, got {match['shown']}…{_HINTS.get(match['scheme'], '')}"


def _placed_as(expected: str) -> BeforeValidator:
    """Return a validator that makes a path absolute, unless it is an address of a store."""

    def place(value: Any) -> Any:
        problem = None
        if isinstance(value, Written):
            problem = _address_problem(value.strip(), expected, shown=not value.filled)
        if problem is not None:
            raise wrong(problem)
        return _placed(value)

    return BeforeValidator(place)


def _folder(value: str) -> str:
    _, colon, rest = value.partition("://")
    if colon and not re.fullmatch(r"[a-z0-9][a-z0-9.-]+(/.*)?", rest, re.DOTALL):
        raise wrong("expected a bucket name after s3://, such as s3://shop-public/sitemaps")
    return value.rstrip("/") if colon else value


def _export(value: str) -> str:
    if re.fullmatch("s3://(/.*)?", value, re.DOTALL):
        raise wrong("expected a bucket name after s3://, such as s3://exports/pages.csv.gz")
    return value


def _values(value: Any) -> list[Any]:
    """Return a value as a list. Raise if an item is not text, a finite number, true or false."""
    found = [from_environment(one) for one in (value if isinstance(value, list | tuple) else [value])]
    if not all(isinstance(one, str | int) or (isinstance(one, float) and math.isfinite(one)) for one in found):
        raise unlike("text, a number, true or false, or a list of these")
    return found


Text = Annotated[str, AfterValidator(nonempty)]
Column = Annotated[str, AfterValidator(as_written)]
"""Name of a column of a source. It can begin or end with a space, as in CSV files with spaces after commas."""
Integer = Annotated[int, BeforeValidator(from_environment)]
Number = Annotated[float, BeforeValidator(from_environment)]
Flag = Annotated[bool, BeforeValidator(from_environment)]
Several = Annotated[tuple[_T, ...], Strict(False)]
"""A list, stored as a tuple."""
OneOrMore = Annotated[
    tuple[_T, ...],
    Strict(False),
    BeforeValidator(as_list, json_schema_input_type=str | list[str]),
    Field(min_length=1),
]
"""A text, or a list of at least one."""
OneOrMoreValues = Annotated[
    tuple[str | int | float | bool, ...],
    Strict(False),
    BeforeValidator(_values),
    Field(min_length=1),
]
"""A text, number, true or false, or a list of at least one."""
Duration = Annotated[
    timedelta,
    BeforeValidator(_duration),
    PlainSerializer(duration_text, when_used="json"),
    WithJsonSchema({"type": "string", "pattern": r"^[0-9]+\s*[smhdw]$", "examples": ["3d", "12h"]}),
]
Margin = Annotated[timedelta, BeforeValidator(_margin), *get_args(Duration)[2:]]
"""A duration that can be zero, such as `0m`."""
Hreflang = Annotated[
    Text,
    matching(
        r"[A-Za-z]{2}([-_][A-Za-z]{4})?([-_][A-Za-z]{2})?",
        "an hreflang value such as en, de-AT or zh-Hant",
    ),
]
Pattern = Annotated[Text, AfterValidator(_pattern)]
Origin = Annotated[Text, _address(address.canonical_origin)]
FolderAddress = Annotated[Text, _address(address.canonical_address)]
Folder = Annotated[Text, AfterValidator(_folder), _placed_as("a folder or s3://bucket/prefix")]
"""An absolute folder, or s3://bucket/prefix without a slash at its end."""
Export = Annotated[Text, AfterValidator(_export), _placed_as("a path or s3://…")]
"""An absolute path or glob, or an s3:// address."""
File = Annotated[Text, BeforeValidator(_placed)]
"""An absolute path."""
ConnectionId = Annotated[
    Text,
    matching(
        r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,249}",
        "a connection ID such as catalog; its address is set in AIRFLOW_CONN_<ID> or in Airflow, never here",
        shown=False,
    ),
]
