"""Types of arguments and options."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

_Choice = TypeVar("_Choice", bound=Enum)


def readable(text: str) -> str:
    """Decode command-line text in any locale.

    Bytes that are not UTF-8 are replaced, because records can't store them.
    """
    return os.fsencode(text).decode("utf-8", "replace")


class Number(click.ParamType[Any]):
    """A number within limits. `whole`: an integer."""

    name = "number"

    def __init__(self, least: float = -math.inf, most: float = math.inf, *, whole: bool = False) -> None:
        self.least = least
        self.most = most
        self.expected = "a whole number" if whole else "a number"
        self.whole = whole

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | float:
        try:
            number = int(value) if self.whole else float(value)
        except ValueError:
            number = math.nan
        if not self.least <= number <= self.most:
            self.fail(f"expected {self.expected}{self._limits()}, got {value!r}", param, ctx)
        return number

    def _limits(self) -> str:
        if math.isinf(self.least):
            return ""
        return f", {self.least} or more" if math.isinf(self.most) else f" from {self.least} to {self.most:,g}"


class OneOf(click.Choice[_Choice]):
    """One of the members of an enum."""

    def __init__(self, choices: Iterable[_Choice]) -> None:
        super().__init__(choices)
        self.expected = f"one of {', '.join(str(one.value) for one in self.choices)}"

    def get_invalid_choice_message(self, value: Any, ctx: click.Context | None) -> str:  # noqa: ARG002 - as overridden
        return f"expected {self.expected}, got {value!r}"


class File(click.ParamType[Path]):
    """A path, which a shell completes as one."""

    name = "path"

    def convert(
        self,
        value: Any,
        param: click.Parameter | None,  # noqa: ARG002 - the method it overrides has it
        ctx: click.Context | None,  # noqa: ARG002 - as above
    ) -> Path:
        return Path(value)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return complete_file(ctx, param, incomplete)


def complete_file(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG001
    """Let the shell complete a path."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="file")]
