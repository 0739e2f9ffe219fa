"""Do the work of a scheduler's task in a separate process, whose environment doesn't need the scheduler.

    python -m sitemap_etl.runs.remote

Reads a request as a line of JSON, and writes lines of JSON: log lines, questions to the scheduler, the result. The
scheduler's side is sitemap_etl/airflow/remote.py.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Final

from sitemap_etl import __version__
from sitemap_etl.errors import ConfigError, SitemapEtlError, Unavailable, defect
from sitemap_etl.memory import keep_memory

_ON_PARENT_DEATH: Final = 1
"""PR_SET_PDEATHSIG of Linux: a task that Airflow kills takes this process with it."""


class Channel:
    """Lines of JSON to and from the scheduler's side. Thread-safe."""

    def __init__(self, incoming: IO[str], outgoing: IO[str]) -> None:
        self._incoming, self._outgoing = incoming, outgoing
        self._lock: Final = threading.Lock()

    def send(self, message: Mapping[str, Any]) -> None:
        """Write a message."""
        with self._lock:
            self._write(message)

    def ask(self, question: str, **arguments: Any) -> Any:
        """Return the answer to a question. Raises the error that the scheduler's side has instead."""
        with self._lock:
            self._write({"ask": question, "arguments": arguments})
            answer = self.receive()
        if "error" in answer:
            raise ConfigError(answer["error"])
        return answer["answer"]

    def receive(self) -> Any:
        """Return the next message. Raise Unavailable if the scheduler's side has ended."""
        line = self._incoming.readline()
        if not line:
            raise Unavailable("the process of the scheduler's task has ended")
        return json.loads(line)

    def _write(self, message: Mapping[str, Any]) -> None:
        self._outgoing.write(json.dumps(message) + "\n")
        self._outgoing.flush()


def answer(request: Mapping[str, Any], channel: Channel) -> dict[str, Any]:
    """Perform a request and return its result or error."""
    try:
        _demand_version(request["version"])
        return {"result": _perform(request, channel)}
    except SitemapEtlError as error:
        return {"failed": str(error), "code": error.exit_code, "again": isinstance(error, Unavailable)}
    except Exception as error:  # noqa: BLE001 - a defect, told with its traceback
        import traceback

        traceback.print_exc()
        return {"failed": defect(error), "code": SitemapEtlError.exit_code, "again": False}


def _demand_version(wanted: str) -> None:
    if wanted != __version__:
        raise ConfigError(
            f"airflow.python: {sys.executable} has sitemap_etl {__version__}, and Airflow has {wanted}: install the "
            "same version in both"
        )


def _perform(request: Mapping[str, Any], channel: Channel) -> Any:
    keep_memory()
    from sitemap_etl.config import load
    from sitemap_etl.runs import calls
    from sitemap_etl.stages.run import Environment

    def announce(path: str, arguments: Mapping[str, Any], alert: Any) -> None:
        channel.ask("announce", path=path, notifier=dict(arguments), alert=alert.to_json())

    file = request["site_file"]
    environment = Environment(
        connections=lambda connection_id: str(channel.ask("connection", connection_id=connection_id)),
        log=lambda line: channel.send({"log": line}),
        detail=lambda line, **facts: channel.send({"detail": line, "of_file": "file" in facts}),
        label=lambda text: channel.send({"label": text}),
        announce=announce if request["announces"] else None,
        site_file=file,
    )
    site = load(Path(file), environ=os.environ) if request["reads_site"] else None
    scheduler = calls.Scheduler(environment, lambda owner: bool(channel.ask("has_ended", owner=owner)))
    return calls.perform(request["call"], site, request["arguments"], scheduler)


def main() -> None:
    """Serve one request. Other output goes to the error stream, which is the log."""
    with suppress(OSError, AttributeError):  # not Linux
        ctypes.CDLL(None).prctl(_ON_PARENT_DEATH, signal.SIGTERM)
    outgoing = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    channel = Channel(sys.stdin, outgoing)
    channel.send(answer(channel.receive(), channel))


if __name__ == "__main__":
    main()
