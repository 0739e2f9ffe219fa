"""Groups, commands and options, with their help pages."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final

import click

_OPTIONS: Final = "Options"


class Commands(click.Group):
    """A group that imports a command when it is called.

    `table`: for each command its place, `module:attribute`, and its short help, which fits into a line of 80 columns.
    """

    def __init__(self, name: str, *, table: Mapping[str, tuple[str, str]], **more: Any) -> None:
        super().__init__(name, no_args_is_help=True, **more)
        self._table = table

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - the method it overrides has it
        return list(self._table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in self._table and cmd_name not in self.commands:
            place, short = self._table[cmd_name]
            module, _, attribute = place.partition(":")
            command: click.Command = getattr(import_module(module), attribute)
            command.short_help = short
            self.add_command(command, cmd_name)
        return super().get_command(ctx, cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.NoSuchCommand as error:  # which suggests only commands that have been imported
            raise click.NoSuchCommand(error.command_name, possibilities=self._table, ctx=ctx) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - as above
        with formatter.section("Commands"):
            formatter.write_dl([(name, short) for name, (_, short) in self._table.items()])


class Option(click.Option):
    """An option that help pages show under the heading `panel`."""

    def __init__(self, *names: Any, panel: str = _OPTIONS, **more: Any) -> None:
        super().__init__(*names, **more)
        self.panel = panel


class Page(click.Command):
    """A command whose help shows the arguments in the usage line: `sitemap-etl run SITE.yaml [OPTIONS]`."""

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - the method it overrides has it
        return [*(_usage(param) for param in self.params if isinstance(param, click.Argument)), "[OPTIONS]"]

    def format_arguments(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if records := [param.get_help_record(ctx) for param in self.params if isinstance(param, click.Argument)]:
            with formatter.section("Arguments"):
                formatter.write_dl(records)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        panels: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            if isinstance(param, click.Option) and (record := param.get_help_record(ctx)):
                panels.setdefault(getattr(param, "panel", _OPTIONS), []).append(record)
        panels[_OPTIONS] = panels.pop(_OPTIONS)  # the last one; each command has --help
        for title, records in panels.items():
            with formatter.section(title):
                formatter.write_dl(records)


def _usage(param: click.Argument) -> str:
    return str(param.metavar) if param.required else f"[{param.metavar}]"
