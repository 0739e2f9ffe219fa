"""Calls of tasks in another interpreter (`airflow.python`), whose environment has all libraries.

Airflow's environment then needs only this package and the libraries that read site files.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

from sitemap_etl import __version__
from sitemap_etl.airflow import world
from sitemap_etl.errors import ConfigError, DamagedState, InvalidSource, Refused, SitemapEtlError, Unavailable

_KINDS: Final = {kind.exit_code: kind for kind in (InvalidSource, ConfigError, Refused, Unavailable, DamagedState)}
_SECONDS: Final = 60
"""Seconds that a process has to end after its result, or after it was terminated."""


def perform(
    python: str, site_file: Path, call: str, arguments: Mapping[str, Any], announce: Callable[..., None] | None = None
) -> Any:
    """Return the result of a call of `runs.calls`. Raises the errors that the call raises."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW__", "_AIRFLOW"))}
    environ.pop("PYTHONPATH", None)  # it is of Airflow's environment
    try:
        process = subprocess.Popen(  # noqa: S603 - the site file names it, as it names hooks
            [python, "-m", "sitemap_etl.runs.remote"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environ,
            encoding="utf-8",
        )
    except OSError as error:
        raise ConfigError(f"airflow.python: {python} can't be started: {error.strerror or error}") from error
    request = {
        "version": __version__,
        "call": call,
        "site_file": os.path.abspath(site_file),  # noqa: PTH100 - resolve() would follow links
        "reads_site": call != "report_late",
        "announces": announce is not None,
        "arguments": arguments,
    }
    try:
        ended = _serve(process, request, announce)
    except BaseException:
        process.terminate()  # it cancels its database statements
        raise
    finally:
        _end(process)
    if ended is None:
        raise Unavailable(f"{python} ended with {process.returncode} before it had a result; its messages are above")
    if "failed" in ended:
        raise _KINDS.get(ended["code"], SitemapEtlError)(ended["failed"])
    return ended["result"]


def _serve(
    process: subprocess.Popen[str], request: Mapping[str, Any], announce: Callable[..., None] | None
) -> Mapping[str, Any] | None:
    """Return the last message of the process, or None if it ended without one."""
    assert process.stdout is not None
    _send(process, request)
    for line in process.stdout:
        message: Mapping[str, Any] = json.loads(line)
        if "result" in message or "failed" in message:
            return message
        _hear(process, message, announce)
    return None


def _hear(process: subprocess.Popen[str], message: Mapping[str, Any], announce: Callable[..., None] | None) -> None:
    """Log a line, name the task, or answer a question."""
    if "log" in message:
        world.log(message["log"])
    elif "detail" in message:
        world.log_detail(message["detail"], **({"file": True} if message["of_file"] else {}))
    elif "label" in message:
        world.show_label(message["label"])
    else:
        _send(process, _answer(message["ask"], message["arguments"], announce))


def _answer(question: str, arguments: Mapping[str, Any], announce: Callable[..., None] | None) -> dict[str, Any]:
    try:
        if question == "connection":
            return {"answer": world.connection_of(arguments["connection_id"])}
        if question == "has_ended":
            return {"answer": world.has_ended(arguments["owner"])}
        assert announce is not None
        alert = SimpleNamespace(to_json=lambda: arguments["alert"])
        return {"answer": announce(arguments["path"], arguments["notifier"], alert)}
    except SitemapEtlError as error:
        return {"error": str(error)}


def _send(process: subprocess.Popen[str], message: Mapping[str, Any]) -> None:
    assert process.stdin is not None
    with suppress(BrokenPipeError):  # it has ended, and its output shows that
        process.stdin.write(json.dumps(message) + "\n")
        process.stdin.flush()


def _end(process: subprocess.Popen[str]) -> None:
    """Wait until the process has ended, or kill it after `_SECONDS`."""
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(BrokenPipeError):
                pipe.close()
    try:
        process.wait(_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
