"""The help page of a command: its usage, arguments and options."""

from __future__ import annotations

import re
from typing import Any, Final

from typer.core import TyperCommand

_NOTES: Final = re.compile(r"\s*\[(?:required|x>=[\d.]+)\]$")
"""Notes that the library adds to a help text although the usage line already says so."""


class Page(TyperCommand):
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


def _arguments(command: TyperCommand) -> list[Any]:
    return [param for param in command.params if param.param_type_name == "argument"]


def _usage(param: Any) -> str:
    return param.metavar if param.required else f"[{param.metavar}]"
