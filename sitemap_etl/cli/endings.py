"""Turn errors into messages and exit codes."""

from __future__ import annotations

import math
import os
import traceback
from collections.abc import Mapping, Sequence
from typing import Any, Final

import click

from sitemap_etl.advice import for_file
from sitemap_etl.cli import logs
from sitemap_etl.cli.interruption import Interruption
from sitemap_etl.cli.output import put_error, put_json
from sitemap_etl.cli.streams import lasting, lost_output
from sitemap_etl.cli.words import message
from sitemap_etl.errors import ConfigError, SitemapEtlError, Unavailable, defect
from sitemap_etl.memory import limit_in_words, ran_out
from sitemap_etl.stages.about import afresh

INTERRUPTED: Final = 130
PROGRAM: Final = "sitemap-etl"
COMPLETE: Final = "_SITEMAP_ETL_COMPLETE"
"""Set by the shell while it completes a command line."""
_NO_ROOM: Final = Unavailable.exit_code
_RUNS: Final = ("run", "publish", "rollback")
_VALID: Final = "The published files are valid"
_STOPPED: Final = f"Interrupted. {_VALID}, and the next run continues from there."
_NOT_CHECKED: Final = "Interrupted before there was anything to report. Nothing was changed."
_SOON: Final = 1.5
"""Seconds within which an interrupted check must have printed its report."""


def run(arguments: Sequence[str]) -> int:
    """Run a command and return its exit code."""
    call = _Call(arguments)
    interruption = Interruption(call.stop, within=_SOON if call.command == "check" else math.inf)
    with lasting(), interruption.heard(), afresh():
        return _whole(call, _run(call, interruption))


def fail(arguments: Sequence[str], error: SitemapEtlError) -> int:
    """Report an error that ended a command in another process. Return its exit code."""
    with lasting():
        return _Call(arguments).tell(error)


def _whole(call: _Call, code: int) -> int:
    """Return the exit code of a command whose output may not have got to where it was led."""
    lost = lost_output()
    if lost is None:
        return code
    put_error(f"stdout could not be written: {lost.strerror or lost}")
    # What was published is published. With --json, a program waits for the result; another command only writes.
    return code if code or (call.command in (*_RUNS, "ping") and not call.json) else _NO_ROOM


def _run(call: _Call, interruption: Interruption) -> int:
    from sitemap_etl.cli.app import app

    try:
        # Not its `main`, which reports errors and ends the process itself.
        if COMPLETE in os.environ:  # a shell asks for completions, and nothing is called
            from sitemap_etl.cli.completion import complete

            interruption.over()
            return complete(app, os.environ[COMPLETE])
        with app.make_context(PROGRAM, list(call.arguments)) as context:
            app.invoke(context)
        interruption.over()
    except click.exceptions.Exit as ended:
        interruption.over()
        return ended.exit_code
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - whatever is raised, --json prints one object
        interruption.over()
        return call.tell(error, interrupted=interruption.asked)
    return 0


class _Call:
    """One call of the program, and the ways to report how it ended."""

    def __init__(self, arguments: Sequence[str]) -> None:
        self.arguments = arguments
        self.json = "--json" in arguments or "--format json" in " ".join(arguments).replace("=", " ")
        self.as_lines = logs.is_asked(arguments)
        first = next((text for text in arguments if not text.startswith("-")), None)
        self.command = first
        self.site_file = next((text for text in arguments if text.endswith((".yaml", ".yml"))), None)

    def end(
        self,
        text: str,
        kind: str,
        code: int,
        *,
        spoken: str = "",
        about: Mapping[str, str | int] | None = None,
        **more: str | None,
    ) -> int:
        """Report a failure and return its exit code.

        `spoken`: the text for people, if it differs. `about`: further fields of a log line.
        """
        if self.json:
            found = {"status": "failed", "error": text, "kind": kind, "exit": code, **more}
            put_json({**_empty_summary(), **found} if self.command in _RUNS else found)
        if self.as_lines:
            logs.put_line("error", text, **{"run": more.get("run_id"), **(about or {}), "kind": kind, "exit": code})
        else:
            put_error(spoken or text)
        return code

    def tell(self, error: BaseException, *, interrupted: bool = False) -> int:
        """Report the error that ended the call. Return its exit code."""
        match error:
            case _ if ran_out(error):
                text = f"Out of memory. {_VALID}; run again with --jobs 1{limit_in_words()}"
                code = self.end(text, "machine", _NO_ROOM)
            case SitemapEtlError():
                code = self.fail(error)
            case KeyboardInterrupt() | click.Abort():
                code = self.stop()
            case click.ClickException():
                code = self.misuse(error)
            case OSError():
                where = f" ({error.filename})" if error.filename else ""
                code = self.end(
                    f"{error.strerror or error}{where}. {_VALID}; fix that and run again", "machine", _NO_ROOM
                )
            case _ if interrupted:  # an import that was broken off fails in ways of its own
                code = self.stop()
            case _:
                put_error("".join(traceback.format_exception(error)).rstrip())
                code = self.end(defect(error), SitemapEtlError.kind, SitemapEtlError.exit_code)
        return code

    def fail(self, error: SitemapEtlError) -> int:
        """Report one of our own errors."""
        run_id = error.run_id
        more = {"status": str(error.status)}
        if run_id is not None:
            more["run_id"] = run_id
        text, spoken = (for_file(said, self.site_file) for said in (str(error), message(error)))
        return self.end(text, error.kind, error.exit_code, spoken=spoken, about=error.about, **more)

    def misuse(self, error: click.ClickException) -> int:
        """Report a mistake in the arguments."""
        if isinstance(error, click.exceptions.NoArgsIsHelpError):
            put_error(str(error))
            return ConfigError.exit_code
        context = error.ctx if isinstance(error, click.UsageError) else None
        text = _expected(error) or error.format_message().rstrip(".")
        written = f"{PROGRAM} {self.command or ''}".rstrip()
        path = context.command_path if context is not None else written
        text += f"{' ' if text.endswith(('?', '?)')) else '. '}See {path} --help"
        return self.end(text, ConfigError.kind, ConfigError.exit_code)

    def stop(self) -> int:
        """Report an interruption."""
        return self.end(_NOT_CHECKED if self.command == "check" else _STOPPED, "interrupted", INTERRUPTED)


def _expected(error: click.ClickException) -> str:
    """Return the expected and the given value of an option or argument, or "" for any other mistake."""
    if not isinstance(error, click.BadParameter) or isinstance(error, click.MissingParameter) or error.param is None:
        return ""
    param = error.param
    name = param.metavar if isinstance(param, click.Argument) else param.opts[0]
    return f"{name}: {error.message}"


def _empty_summary() -> dict[str, Any]:
    """Return the keys of a run's summary, or none if a signal interrupted the import of its class."""
    try:
        from sitemap_etl.state.codec import encode
        from sitemap_etl.state.records import Summary
    except Exception:  # noqa: BLE001 - an interrupted import can raise anything
        return {}
    return dict(encode(Summary()))
