"""The REST API of an Airflow on this machine, as much of it as the demos ask for."""

from __future__ import annotations

import contextlib
import json
import time
import urllib.request
from typing import Any

from demo.processes import Processes, ended


class Api:
    """Somebody who is logged in to the API at `address`. Raises OSError where it does not answer."""

    def __init__(self, address: str, password: str) -> None:
        self.address = address
        login = {"username": "admin", "password": password}
        self._token = _ask(f"{address}/auth/token", login)["access_token"]

    def get(self, path: str) -> dict[str, Any]:
        """What is at a path below `/api/v2`."""
        return _ask(f"{self.address}/api/v2{path}", token=self._token)

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """What a path answers to a body."""
        return _ask(f"{self.address}/api/v2{path}", body, self._token)


def wait_ready(address: str, password: str, processes: Processes, seconds: float) -> str | None:
    """Wait until a DAG can be triggered; gives the component that did not come up."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if (gone := ended(processes)) is not None:
            return gone
        with contextlib.suppress(OSError, ValueError, KeyError):
            api = Api(address, password)
            health = api.get("/monitor/health")
            parsed = api.get("/dags?limit=1")["total_entries"]
            if parsed and health["scheduler"]["status"] == health["dag_processor"]["status"] == "healthy":
                return None
        time.sleep(0.5)
    return list(processes)[-1]


def _ask(url: str, body: dict[str, Any] | None = None, token: str | None = None) -> dict[str, Any]:
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
    sent = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, sent, headers)  # noqa: S310 - our own server on the loopback
    with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310 - as above
        found: dict[str, Any] = json.load(answer)
        return found
