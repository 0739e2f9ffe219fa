"""Where errors become messages and exit codes."""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from types import FrameType
from typing import Any, Final

import typer

from sitemap_etl.cli.app import app
from sitemap_etl.cli.show import EMPTY_SUMMARY, message, named
from sitemap_etl.errors import ConfigError, Refused, SitemapEtlError

INTERRUPTED: Final = 130
_DEFECT: Final = SitemapEtlError.exit_code
_RUNS: Final = ("run", "publish", "rollback")
_STOPPED: Final = "Interrupted. What is public is valid; the next run goes on from it."


def run(arguments: Sequence[str]) -> int:
    """Run the command; gives its exit code."""
    call = _Call(arguments)
    interruption = _Interruption(call)
    signal.signal(signal.SIGINT, interruption)
    signal.signal(signal.SIGTERM, interruption)
    try:
        code = _run(call)
        sys.stdout.flush()
    except BrokenPipeError:
        # Who read our output has had enough. Python's own flush at the end must not fail on it again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    return code


def _run(call: _Call) -> int:
    try:
        return int(
            typer.main.get_command(app).main(list(call.arguments), prog_name="sitemap-etl", standalone_mode=False) or 0
        )
    except SitemapEtlError as error:
        return call.fail(error)
    except typer.Exit as ended:
        return ended.exit_code
    except (KeyboardInterrupt, typer.Abort):
        return call.stop()
    except typer.TyperException as error:
        return call.misuse(error)
    except BrokenPipeError:
        raise
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        return call.end(
            f"{error.strerror or error}{where}. What is public is valid; mend that and run again", "machine", _DEFECT
        )
    except MemoryError:
        return call.end("Out of memory. What is public is valid; run again with --jobs 1", "machine", _DEFECT)
    except Exception as error:  # noqa: BLE001 - whatever a defect raises, --json prints one object
        traceback.print_exc()
        return call.end(
            f"{type(error).__name__}: {error}. This is a defect of sitemap_etl: please report it", "defect", _DEFECT
        )


class _Call:
    """What was asked for, and how its end is told."""

    def __init__(self, arguments: Sequence[str]) -> None:
        self.arguments = arguments
        self.json = "--json" in arguments
        self.command = next((text for text in arguments if not text.startswith("-")), None)
        self.site_file = next((text for text in arguments if text.endswith((".yaml", ".yml"))), None)

    def end(
        self, text: str, kind: str, code: int, *, status: str = "failed", run_id: str | None = None, spoken: str = ""
    ) -> int:
        """Tell of a failure; gives its exit code."""
        if self.json:
            told = {"run_id": run_id, "status": status, "error": text, "kind": kind}
            _print_json(
                {**EMPTY_SUMMARY, **told}
                if self.command in _RUNS
                else {**told}
                if run_id
                else {k: v for k, v in told.items() if k != "run_id"}
            )
        print(spoken or text, file=sys.stderr, flush=True)
        return code

    def fail(self, error: SitemapEtlError) -> int:
        """Tell of an error of ours."""
        site_file, run_id = self.site_file, error.run_id
        text = named(str(error), site_file, run_id)
        status = "refused" if isinstance(error, Refused) else "failed"
        return self.end(
            text,
            error.kind,
            error.exit_code,
            status=status,
            run_id=run_id,
            spoken=named(message(error), site_file, run_id),
        )

    def misuse(self, error: typer.TyperException) -> int:
        """Tell how the call is wrong."""
        context: Any = getattr(error, "ctx", None)
        if type(error).__name__ == "NoArgsIsHelpError":
            print(error, file=sys.stderr)
            return ConfigError.exit_code
        told: Any = getattr(error, "format_message", error.__str__)
        text = str(told()).rstrip(".")
        path = context.command_path if context is not None else "sitemap-etl"
        text += f"{' ' if text.endswith('?') else '. '}See {path} --help"
        return self.end(text, ConfigError.kind, ConfigError.exit_code)

    def stop(self) -> int:
        """Tell that somebody interrupted."""
        return self.end(_STOPPED, "interrupted", INTERRUPTED)


class _Interruption:
    """Ctrl-C and SIGTERM: the first ends what is under way in good order, the second at once."""

    def __init__(self, call: _Call) -> None:
        self.call = call
        self.asked = False

    def __call__(self, _number: int, _frame: FrameType | None) -> None:
        if self.asked:
            # Whatever the line it stops on, what is public is valid, and a dead process holds no lease.
            code = self.call.stop()
            sys.stdout.flush()
            os._exit(code)
        self.asked = True
        if sys.stderr.isatty():
            print("\nStopping after what is under way. Once more: at once.", file=sys.stderr, flush=True)
        raise KeyboardInterrupt


def _print_json(data: dict[str, Any]) -> None:
    print(json.dumps(data, ensure_ascii=False, default=str))
