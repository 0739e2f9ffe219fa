"""Help pages of the commands: usage, arguments and options."""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import Any, Final

from typer.core import TyperCommand, TyperGroup

_NOTES: Final = re.compile(r"\s*\[(?:required|x>=[\d.]+)\]$")
"""Notes that typer adds to a help text, although the usage line or the text itself has them."""


class _Light:
    """Parameters that skip conversion for plain strings and omitted values.

    For any conversion, typer imports pydantic, which takes longer than `check` needs for a file.
    """

    def get_params(self, ctx: Any) -> list[Any]:
        params: list[Any] = super().get_params(ctx)  # type: ignore[misc]  # of the class it is mixed into
        for param in params:
            if "process_value" not in vars(param):
                param.process_value = partial(_processed, param, param.process_value)
        return params


class Commands(_Light, TyperGroup):
    """A group of commands."""


class Page(_Light, TyperCommand):
    """A command whose help shows the arguments in the usage line: `sitemap-etl run SITE.yaml [OPTIONS]`."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:  # noqa: ARG002 - the method it overrides has it
        return [*(_usage(param) for param in _arguments(self)), "[OPTIONS]"]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        groups: dict[str, list[tuple[Any, Any]]] = {
            "Arguments": [(param.metavar, param.help) for param in _arguments(self)]
        }
        for param in self.get_params(ctx):
            if param.param_type_name == "option" and (record := param.get_help_record(ctx)):
                name, text = record
                title = getattr(param, "rich_help_panel", None) or "Options"
                groups.setdefault(title, []).append((name, _NOTES.sub("", text)))
        groups["Options"] = groups.pop("Options", [])
        for title, records in groups.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


def _processed(param: Any, convert: Callable[[Any, Any], Any], ctx: Any, value: Any) -> Any:
    """Return the value of a parameter, converted by `convert` only if conversion is needed."""
    kind = getattr(param, "type_descriptor", None)  # older releases of typer convert without pydantic
    if kind is None or getattr(kind.parameter_info, "parser", None) is not None:
        return convert(ctx, value)
    meant = kind.annotation
    if value is None and not param.required:
        value = () if param.multiple or param.nargs == -1 else None
    elif meant == list[str] and value:
        value = tuple(value)
    elif not (meant is str and isinstance(value, str)) and not (isinstance(value, Enum) and isinstance(value, meant)):
        return convert(ctx, value)
    return value if param.callback is None else param.callback(ctx, param, value)


def _arguments(command: TyperCommand) -> list[Any]:
    return [param for param in command.params if param.param_type_name == "argument"]


def _usage(param: Any) -> str:
    return param.metavar if param.required else f"[{param.metavar}]"
