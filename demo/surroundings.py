"""Where the demo lives, and the environment of its Airflow."""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
AIRFLOW = str(Path(sys.executable).with_name("airflow"))
DAG = (sys.executable, "-m", "demo.dag")
"""The command of the process described in `demo.dag`."""


class Home:
    """The folder of the demo: catalogue, bucket, Airflow with its database and logs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.catalogue = folder / "catalogue"
        self.bucket = folder / "bucket"
        self.airflow = folder / "airflow"
        self.passwords = self.airflow / "passwords.json"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Nobody else is at the demo in this block. Ends the process where somebody is."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            lock = (self.folder / "lock").open("w")
        except OSError as error:
            sys.exit(
                f"The demo can't write to {self.folder} ({error.strerror}): name another folder, make demo FOLDER=…"
            )
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                sys.exit(f"The demo in {self.folder} is running already (make demo or make airflow): stop that first.")
            yield

    def environ(self) -> dict[str, str]:
        """The environment of Airflow: this process's own, without what it says of another Airflow."""
        mine = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")}
        return mine | {
            "AIRFLOW_HOME": str(self.airflow),
            "AIRFLOW__CORE__DAGS_FOLDER": str(PROJECT / "dags"),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
            "AIRFLOW__CORE__PARALLELISM": "4",
            "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": "admin:admin",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(self.passwords),
            # A scheduler that finds the database locked for so long ends. By default that is 5 seconds.
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{self.airflow / 'airflow.db'}?timeout=60",
            "AIRFLOW__API__SECRET_KEY": secrets.token_hex(32),
            "AIRFLOW__API_AUTH__JWT_SECRET": secrets.token_hex(64),
            "AIRFLOW__WORKERS__MIN_HEARTBEAT_INTERVAL": "1",
            "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
            "AIRFLOW_CONN_CATALOGUE": f"sqlite:///{self.catalogue / 'catalogue.sqlite'}",
            "DEMO_HOME": str(self.folder),
            "PYTHONUNBUFFERED": "1",
        }

    def password(self) -> str:
        """The password of the user admin: made once."""
        if not self.passwords.is_file():
            self.airflow.mkdir(parents=True, exist_ok=True)
            self.passwords.touch(mode=0o600)
            self.passwords.write_text(json.dumps({"admin": secrets.token_urlsafe(9)}))
        found: str = json.loads(self.passwords.read_text())["admin"]
        return found

    def migrate(self) -> None:
        """Make Airflow's database, or bring it up to date, once for a version. The environment is `environ`."""
        mark, version = self.airflow / "migrated", metadata.version("apache-airflow")
        if (self.airflow / "airflow.db").is_file() and mark.is_file() and mark.read_text() == version:
            return
        from airflow.utils.db import upgradedb

        upgradedb()
        mark.write_text(version)


def host_name() -> str:
    """What Airflow calls this machine, where several are played on one."""
    return os.environ["DEMO_HOST"]


def free_port(preferred: int) -> int:
    """The port, if nobody has it, else any free one of the loopback."""
    for port in (preferred, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            taken: int = probe.getsockname()[1]
            return taken
    raise RuntimeError("no free port on 127.0.0.1")
