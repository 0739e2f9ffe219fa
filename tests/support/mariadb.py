"""A real MariaDB for tests: the system's own server, on loopback, in a folder of its own."""

from __future__ import annotations

import getpass
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pymysql
import pytest
import trustme

PLACES = ("/usr/sbin", "/usr/local/sbin", "/usr/libexec")


def server_program() -> str | None:
    """Return the path of the server, or None if it is not installed."""
    path = os.pathsep.join((os.environ.get("PATH", ""), *PLACES))
    return shutil.which("mariadbd", path=path) or shutil.which("mysqld", path=path)


@dataclass(frozen=True)
class MariaDB:
    """A running server with the database `shop`. `reader` may read it with `password`.

    It supports TLS with a certificate for 127.0.0.1, signed by the authority in the file `ca`.
    """

    port: int
    ca: Path
    password: str = "pass:w@rd/secret"

    @property
    def uri(self) -> str:
        return f"mysql://reader:pass%3Aw%40rd%2Fsecret@127.0.0.1:{self.port}/shop"

    def execute(self, *statements: str) -> None:
        """Run statements as an administrator."""
        with pymysql.connect(host="127.0.0.1", port=self.port, user="admin", password="admin", database="shop") as db:
            with db.cursor() as cursor:
                for statement in statements:
                    cursor.execute(statement)
            db.commit()


@contextmanager
def mariadb_server(program: str) -> Iterator[MariaDB]:
    """Run a server until the end of the block, and remove its folder afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="mariadb-"))
    user = getpass.getuser()
    install = shutil.which("mariadb-install-db") or shutil.which("mysql_install_db")
    assert install, "mariadb-install-db comes with the server"
    options = [f"--datadir={folder / 'data'}", f"--user={user}"]
    made = subprocess.run(
        [install, "--no-defaults", *options, "--auth-root-authentication-method=normal", "--skip-test-db"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert made.returncode == 0, made.stdout + made.stderr
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    begin = folder / "begin.sql"
    server = MariaDB(port, folder / "ca.pem")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(server.ca))
    issued = authority.issue_cert("127.0.0.1")
    issued.private_key_and_cert_chain_pem.write_to_path(str(folder / "server.pem"))
    # An init file takes one statement a line.
    begin.write_text(
        "CREATE DATABASE shop CHARACTER SET utf8mb4;\n"
        "CREATE USER 'admin'@'%' IDENTIFIED BY 'admin';\n"
        "GRANT ALL ON *.* TO 'admin'@'%';\n"
        f"CREATE USER 'reader'@'%' IDENTIFIED BY '{server.password}';\n"
        "GRANT SELECT, EXECUTE ON shop.* TO 'reader'@'%';\n"
    )
    network = ["--bind-address=127.0.0.1", f"--port={port}", f"--socket={folder / 's'}", "--skip-name-resolve"]
    network += [f"--ssl-cert={folder / 'server.pem'}", f"--ssl-key={folder / 'server.pem'}"]
    small = ["--innodb-buffer-pool-size=64M", "--sql-mode="]
    running = subprocess.Popen(
        [program, "--no-defaults", *options, *network, *small, f"--init-file={begin}"],
        stdout=subprocess.DEVNULL, stderr=(folder / "log").open("w"),
    )  # fmt: skip
    try:
        _wait(server, running, folder / "log")
        yield server
    finally:
        running.terminate()
        running.wait(30)
        shutil.rmtree(folder, ignore_errors=True)


def _wait(server: MariaDB, running: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(300):
        assert running.poll() is None, log.read_text()
        try:
            server.execute("SELECT 1")
        except pymysql.err.OperationalError:
            time.sleep(0.1)
        else:
            return
    raise AssertionError(log.read_text())


@pytest.fixture(scope="session")
def mariadb() -> Iterator[MariaDB]:
    """The server of this session. Skips if none is installed, except in CI, which must have one."""
    program = server_program()
    if program is None:
        assert os.environ.get("CI") != "true", "CI must have MariaDB: install the package mariadb-server"
        pytest.skip("MariaDB is not installed (package mariadb-server)")
    with mariadb_server(program) as server:
        yield server
