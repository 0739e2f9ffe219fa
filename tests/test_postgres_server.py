"""The PostgreSQL server of tests and demo runs on any machine, and leaves nothing behind."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import psycopg
import pytest

from demo.postgres import Missing, postgres_server
from tests.support.postgres import postgres_or_skip


def test_the_test_server_runs_in_a_private_folder_with_a_long_path_and_spaces(tmp_path: Path) -> None:
    folder = tmp_path / ("Größe 1 " + "x" * 100)
    folder.mkdir(mode=0o700)
    with postgres_server(folder) as address, psycopg.connect(address) as connection:
        assert connection.execute("SELECT lower('Ä'), current_setting('server_encoding')").fetchone() == ("ä", "UTF8")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert not (folder / "data" / "postmaster.pid").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root needs setpriv to start PostgreSQL")
def test_tests_are_skipped_with_a_reason_if_the_test_server_cannot_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Missing, match="setpriv"), postgres_server(tmp_path):
        pass
    with pytest.raises(pytest.skip.Exception, match="setpriv"), postgres_or_skip():
        pass


def test_a_failure_of_initdb_is_reported_with_its_message(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "something").touch()
    with pytest.raises(Missing, match="be set up in"), postgres_server(tmp_path):
        pass
