"""Where errors become messages and exit codes."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Sequence
from types import FrameType
from typing import Any

import typer

from sitemap_etl.cli.app import app
from sitemap_etl.cli.show import EMPTY_SUMMARY, message
from sitemap_etl.errors import ConfigError, SitemapEtlError

INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and exit with its code. `arguments`: those of the process by default."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    wants_json = "--json" in arguments
    signal.signal(signal.SIGTERM, _interrupt)
    command = typer.main.get_command(app)
    try:
        code = command.main(arguments, prog_name="sitemap-etl", standalone_mode=False)
    except SitemapEtlError as error:
        code = _fail(error, wants_json)
    except typer.Exit as ended:
        code = ended.exit_code
    except typer.TyperException as error:
        code = _fail(ConfigError(f"{error}. See sitemap-etl --help"), wants_json)
    except (KeyboardInterrupt, typer.Abort):
        text = "Interrupted. What is public is valid; the next run goes on from it."
        if wants_json:
            _print_json({**EMPTY_SUMMARY, "status": "failed", "error": text})
        print(f"\n{text}", file=sys.stderr)
        code = INTERRUPTED
    except BrokenPipeError:
        sys.stderr.close()
        code = 0
    sys.exit(code or 0)


def _fail(error: SitemapEtlError, wants_json: bool) -> int:
    if wants_json:
        _print_json({**EMPTY_SUMMARY, "status": "failed", "error": str(error), "kind": error.kind})
    print(message(error), file=sys.stderr)
    return error.exit_code


def _print_json(data: dict[str, Any]) -> None:
    print(json.dumps(data, ensure_ascii=False, default=str))


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
