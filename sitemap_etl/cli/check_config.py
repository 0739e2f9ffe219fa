"""The config file of `check`: found as ruff finds its own, validated, and overridden by the command line.

Each option is a key: its name without the dashes. `follow = false` is the same as `--no-follow`. Keys and options come
from one declaration.
"""

from __future__ import annotations

from datetime import date, datetime
from pathlib import Path
from typing import Any, Final

import click

from sitemap_etl.cli.pages import Page
from sitemap_etl.cli.values import File, Number, OneOf
from sitemap_etl.errors import ConfigError, nearest

NAME: Final = ".sitemap-check.toml"
TABLE: Final = "tool.sitemap-etl.check"
ONLY_TYPED: Final = {
    "config": "it names this file",
    "explain": "it explains a code and checks nothing",
    "isolated": "it keeps this file from being read",
    "json": 'write format = "json"',
    "write-baseline": "it would replace the baseline at every check",
    "help": "",
}
"""Options that a config file can't set, and the reason."""


class Configured(Page):
    """A command whose options default to the values of a config file."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        said, _, given = self.make_parser(ctx).parse_args(args=list(args))
        if not ctx.resilient_parsing and self.get_help_option(ctx) not in given:
            ctx.default_map = _beneath(self, said.get("config"), isolated=bool(said.get("isolated")))
        return super().parse_args(ctx, args)


def _beneath(command: Configured, path: str | None, *, isolated: bool) -> dict[str, Any]:
    """Return the values of the config file by parameter name.

    The file is the one that `--config` names, or the nearest one. Raise ConfigError.
    """
    if path is not None and isolated:
        raise ConfigError("--config and --isolated exclude each other; use one of them")
    if isolated:
        return {}
    found = _nearest(Path.cwd()) if path is None else _named(Path(path))
    return {} if found is None else _values(command, *found)


def keys_of(parameters: list[click.Parameter]) -> dict[str, click.Parameter]:
    """Return every key of a config file with the option or argument that it sets."""
    keys = {_key(parameter): parameter for parameter in parameters}
    return {key: parameter for key, parameter in keys.items() if key not in ONLY_TYPED}


def _key(parameter: click.Parameter) -> str:
    names = [name for name in parameter.opts if name.startswith("--")]
    return names[0].removeprefix("--") if names else str(parameter.name)


def _nearest(folder: Path) -> tuple[Path, dict[str, Any]] | None:
    """Return the path and table of the nearest config file, from this folder upward, or None."""
    for place in (folder, *folder.parents):
        own = place / NAME
        if own.is_file():
            return own, _read(own)
        project = place / "pyproject.toml"
        if project.is_file():
            table = _table(_read(project))
            if table is not None:
                return project, table
    return None


def _named(path: Path) -> tuple[Path, dict[str, Any]]:
    """Return the path and table of the file that `--config` names. A pyproject.toml must have the table."""
    data = _read(path)
    if path.name != "pyproject.toml":
        return path, data
    table = _table(data)
    if table is None:
        raise ConfigError(f"{path}: has no table [{TABLE}]")
    return path, table


def _read(path: Path) -> dict[str, Any]:
    import tomllib  # the other commands start without it

    try:
        return tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from error
    except ValueError as error:  # invalid TOML, or not UTF-8
        raise ConfigError(f"{path}: this is not valid TOML: {error}") from error


def _table(data: dict[str, Any]) -> dict[str, Any] | None:
    for name in TABLE.split("."):
        inner = data.get(name)
        if not isinstance(inner, dict):
            return None
        data = inner
    return data


def _values(command: Configured, file: Path, table: dict[str, Any]) -> dict[str, Any]:
    """Return the value of each parameter as its option takes it. Raise ConfigError with every mistake of the file."""
    known = keys_of(command.params)
    values: dict[str, Any] = {}
    problems = []
    for key, value in table.items():
        parameter = known.get(key)
        if parameter is None:
            problems.append(f"{file}: {key}: {_unknown(key, known)}")
            continue
        try:
            values[parameter.name] = _taken(parameter, value, file.parent)
        except _WrongError as wrong:
            problems.append(f"{file}: {key}: {wrong}, got {_shown(value)}")
    if problems:
        raise ConfigError(problems)
    return values


def _unknown(key: str, known: dict[str, click.Parameter]) -> str:
    if key in ONLY_TYPED:
        return f"belongs to the command line: {ONLY_TYPED[key]}" if ONLY_TYPED[key] else "belongs to the command line"
    positive = key.removeprefix("no-")
    if positive != key and positive in known:
        return f"unknown key; write {positive} = false"
    near = nearest(key, known)
    return f"unknown key; did you mean {near}?" if near else f"unknown key; allowed here: {', '.join(sorted(known))}"


class _WrongError(Exception):
    """A value of the wrong type. The text says which type was expected."""


def _taken(parameter: click.Parameter, value: Any, folder: Path) -> Any:
    """Return a value as the option takes it. Paths are relative to the config file."""
    if parameter.multiple or parameter.nargs == -1:
        if isinstance(value, dict) and parameter.name == "severity":
            return [f"{code}={level}" for code, level in value.items()]
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            raise _WrongError("expected a list of texts")
        return [_target(one, folder) for one in value] if parameter.name == "targets" else value
    expected, fits = _fitting(parameter, value)
    if not fits:
        raise _WrongError(f"expected {expected}")
    kind = parameter.type
    if isinstance(kind, Number) and value < kind.least:
        raise _WrongError(f"expected {kind.least} or more")
    if isinstance(kind, File):
        return str(folder / str(value))
    return value.isoformat() if isinstance(value, date) else str(value) if kind is click.STRING else value


def _fitting(parameter: click.Parameter, value: Any) -> tuple[str, bool]:
    """Return a description of the values that an option accepts, and True if this value is one."""
    kind, simple = parameter.type, not isinstance(value, bool)
    if isinstance(kind, click.types.BoolParamType):
        return "true or false", isinstance(value, bool)
    if isinstance(kind, Number):
        return kind.expected, simple and isinstance(value, int if kind.whole else int | float)
    if isinstance(kind, OneOf):
        return kind.expected, value in [str(one.value) for one in kind.choices]
    return "text", simple and isinstance(value, str | int | date | datetime)


def _target(target: str, folder: Path) -> str:
    return target if "://" in target or target == "-" else str(folder / target)


def _shown(value: Any) -> str:
    """Return a value in TOML syntax, for a message."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "a table"
    return f'"{value}"' if isinstance(value, str) else str(value)
