"""Rules for folders: renames, locks, files of killed processes, errors of the operating system."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import signal
import stat as modes
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

from sitemap_etl.errors import ConfigError, Denied, Refused, Unavailable
from sitemap_etl.storage import ABSENT, Access, PreconditionFailed, open_storage
from sitemap_etl.storage.folder import STALE_SECONDS, prune, translated, turn

TEMPORARY = ".k.0123456789abcdef.tmp"


def child(source: str, *arguments: str, **options: object) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", source, *arguments], text=True, stdout=subprocess.PIPE, **options)


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def test_the_etag_is_the_sha256_of_the_content(tmp_path: Path) -> None:
    put = open_storage(tmp_path).put("k", b"abc")
    assert put.etag == hashlib.sha256(b"abc").hexdigest()


def test_a_list_does_not_read_files_to_compute_etags(tmp_path: Path) -> None:
    storage = open_storage(tmp_path)
    storage.put("k", b"abc")
    assert [stat.etag for stat in storage.list()] == [None]


def test_only_the_file_itself_is_left_in_a_public_folder(tmp_path: Path) -> None:
    storage = open_storage(tmp_path / "public")
    first = storage.put("k", b"1", expect=ABSENT)
    storage.put("k", b"2", expect=first.etag)
    storage.put("k", b"3")
    for expect in (ABSENT, first.etag):
        with pytest.raises(PreconditionFailed):
            storage.put("k", b"4", expect=expect)
    storage.now()
    assert files(tmp_path) == ["k"]


def test_reading_creates_no_folder(tmp_path: Path) -> None:
    storage = open_storage(tmp_path / "public")
    assert storage.get("k") is None
    assert list(storage.list()) == []
    assert storage.delete("k") is False
    storage.now()
    assert list(tmp_path.iterdir()) == []


def test_a_delete_removes_emptied_folders_but_not_the_storage(tmp_path: Path) -> None:
    storage = open_storage(tmp_path / "store")
    storage.put("a/b/c/k", b"1")
    storage.put("a/k", b"1")
    storage.delete("a/b/c/k")
    assert not (tmp_path / "store/a/b").exists()
    storage.sub("a").delete("k")
    assert list((tmp_path / "store").iterdir()) == []


def test_written_files_are_readable_by_a_web_server(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        open_storage(tmp_path, access="public").put("k", b"1")
    finally:
        os.umask(before)
    assert modes.S_IMODE((tmp_path / "k").stat().st_mode) == 0o644


def test_a_replaced_file_keeps_its_mode(tmp_path: Path) -> None:
    (tmp_path / "robots.txt").write_bytes(b"")
    (tmp_path / "robots.txt").chmod(0o664)
    open_storage(tmp_path).put("robots.txt", b"1")
    assert modes.S_IMODE((tmp_path / "robots.txt").stat().st_mode) == 0o664


def test_temporary_files_are_not_objects(tmp_path: Path) -> None:
    (tmp_path / TEMPORARY).write_bytes(b"half")
    storage = open_storage(tmp_path)
    assert list(storage.list()) == []
    with pytest.raises(ConfigError, match="reserved for temporary files"):
        storage.get(TEMPORARY)


@pytest.mark.parametrize("meet", ["list", "put"])
def test_old_temporary_files_are_deleted_and_recent_ones_kept(tmp_path: Path, meet: str) -> None:
    stale, fresh = tmp_path / TEMPORARY, tmp_path / TEMPORARY.replace("0", "1")
    for path in (stale, fresh, tmp_path / ".htaccess"):
        path.write_bytes(b"half")
        os.utime(path, (0, time.time() - STALE_SECONDS - 60))
    os.utime(fresh)
    storage = open_storage(tmp_path)
    if meet == "list":
        list(storage.list())
    else:
        storage.put("k", b"1")
    assert not stale.exists()
    assert fresh.exists()
    assert (tmp_path / ".htaccess").exists()


def test_a_reader_sees_only_complete_files(tmp_path: Path) -> None:
    """One process replaces a file repeatedly; each read finds one of the two complete contents."""
    source = """
import sys
from sitemap_etl.storage import open_storage
storage = open_storage(sys.argv[1], durable=False)
print("ready", flush=True)
while True:
    storage.put("k", b"a" * 1_000_000)
    storage.put("k", b"b" * 2_000_000)
"""
    storage = open_storage(tmp_path)
    storage.put("k", b"a" * 1_000_000)
    writer = child(source, str(tmp_path))
    try:
        writer.stdout.readline()
        for _ in range(100):
            stored = storage.get("k")
            assert stored.data in (b"a" * 1_000_000, b"b" * 2_000_000)
            assert hashlib.sha256(stored.data).hexdigest() == stored.stat.etag
    finally:
        writer.kill()
        writer.communicate()


def test_a_writer_killed_at_any_moment_leaves_the_old_or_the_new_file(tmp_path: Path) -> None:
    source = """
import sys
from sitemap_etl.storage import open_storage
storage = open_storage(sys.argv[1])
old = storage.stat("k")
print("ready", flush=True)
while True:
    for content in (b"a" * 300_000, b"b" * 300_000):
        old = storage.put("k", content, expect=old.etag)
"""
    storage = open_storage(tmp_path)
    storage.put("k", b"a" * 300_000)
    for pause in (0.0, 0.003, 0.011, 0.02):
        writer = child(source, str(tmp_path))
        writer.stdout.readline()
        time.sleep(pause)
        writer.send_signal(signal.SIGKILL)
        writer.communicate()
        assert storage.get("k").data in (b"a" * 300_000, b"b" * 300_000)
        assert [stat.key for stat in storage.list()] == ["k"]
        # Its turn ended with it: the next writer does not wait.
        storage.put("k", b"a" * 300_000, expect=storage.stat("k").etag)


def test_conditions_apply_between_processes(tmp_path: Path) -> None:
    """Processes that count by compare-and-swap lose no count."""
    source = """
import sys
from sitemap_etl.storage import PreconditionFailed, open_storage
storage = open_storage(sys.argv[1], durable=False)
done = 0
while done < 30:
    stored = storage.get("count")
    try:
        storage.put("count", f"{int(stored.data.split()[0]) + 1} {sys.argv[2]}".encode(), expect=stored.stat.etag)
        done += 1
    except PreconditionFailed:
        pass
"""
    open_storage(tmp_path).put("count", b"0 nobody")
    counters = [child(source, str(tmp_path), str(number)) for number in range(3)]
    for counter in counters:
        counter.communicate()
    assert [counter.returncode for counter in counters] == [0, 0, 0]
    assert open_storage(tmp_path).get("count").data.split()[0] == b"90"


def test_a_write_waits_for_the_lock(tmp_path: Path) -> None:
    storage = open_storage(tmp_path)
    put = storage.put("k", b"1")
    folder = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)
    done = threading.Event()
    writer = threading.Thread(target=lambda: (storage.put("k", b"2", expect=put.etag), done.set()))
    writer.start()
    assert not done.wait(0.2)
    assert storage.get("k").data == b"1"
    os.close(folder)
    writer.join()
    assert storage.get("k").data == b"2"


def test_a_stopped_writer_does_not_block_others_forever(tmp_path: Path) -> None:
    with turn(tmp_path), pytest.raises(Unavailable, match="locked by another process"), turn(tmp_path, seconds=0.05):
        raise AssertionError("had the turn of another")


def test_puts_and_deletes_in_one_folder_survive_its_removal(tmp_path: Path) -> None:
    storage = open_storage(tmp_path, durable=False)
    failed: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for _ in range(60):
                storage.put(f"a/b/{number}", b"1", expect=ABSENT)
                assert storage.delete(f"a/b/{number}")
        except BaseException as error:  # noqa: BLE001 (shown by the assertion below)
            failed.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []


@pytest.mark.parametrize("access", ["owner", "public"])
def test_a_put_survives_that_its_new_folder_is_removed_at_once(tmp_path: Path, access: Access) -> None:
    storage = open_storage(tmp_path, durable=False, access=access)
    done = threading.Event()

    def remove() -> None:
        while not done.is_set():
            prune(tmp_path / "t", tmp_path)

    remover = threading.Thread(target=remove)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # the remover runs between any two calls of the put
    try:
        remover.start()
        for _ in range(300):
            storage.put("t/k", b"", expect=ABSENT)
            assert storage.delete("t/k")
    finally:
        done.set()
        remover.join()
        sys.setswitchinterval(interval)


def test_a_file_name_of_maximal_length_can_be_written(tmp_path: Path) -> None:
    storage = open_storage(tmp_path)
    storage.put("n" * 255, b"1")
    assert storage.get("n" * 255).data == b"1"
    with pytest.raises(Refused, match="too long for the file system"):
        storage.put("n" * 256, b"1")


def test_a_file_in_place_of_a_folder_is_named(tmp_path: Path) -> None:
    storage = open_storage(tmp_path)
    storage.put("a", b"1")
    assert storage.get("a/b") is None
    with pytest.raises(Refused, match=r"can't write .*/a/b: one of its parent folders is a file"):
        storage.put("a/b", b"1")


def test_a_folder_in_place_of_a_file_is_named(tmp_path: Path) -> None:
    storage = open_storage(tmp_path)
    storage.put("a/b", b"1")
    for expect in (None, ABSENT):
        with pytest.raises(Refused, match=r"/a is a folder: expected a file"):
            storage.put("a", b"1", expect=expect)
    assert files(tmp_path) == ["b"]


def test_a_file_in_place_of_the_storage_is_named(tmp_path: Path) -> None:
    (tmp_path / "store").write_bytes(b"")
    storage = open_storage(tmp_path / "store")
    calls = (lambda: storage.get("k"), lambda: storage.stat("k"), lambda: list(storage.list()))
    for call in calls:
        with pytest.raises(Refused, match="store is a file: expected a folder"):
            call()


def test_a_dangling_symbolic_link_is_named(tmp_path: Path) -> None:
    (tmp_path / "store").symlink_to(tmp_path / "gone")
    with pytest.raises(Refused, match="a broken link"):
        open_storage(tmp_path / "store").put("k", b"1")


def test_a_symbolic_link_to_a_folder_is_a_storage(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    open_storage(tmp_path / "link").put("k", b"1")
    assert [stat.key for stat in open_storage(tmp_path / "real").list()] == ["k"]


@pytest.mark.parametrize(
    ("call", "verb"), [("put('k', b'2')", "write"), ("get('k')", "read"), ("delete('k')", "delete")]
)
def test_a_missing_permission_is_named(call: str, verb: str) -> None:
    """In a process without root privileges, because root may do everything."""
    source = f"""
import os, sys
from sitemap_etl.errors import Denied, Refused
from sitemap_etl.storage import open_storage
storage = open_storage(sys.argv[1])
if os.geteuid() == 0:
    os.setuid(65_534)
try:
    storage.{call}
except Refused as error:
    print(error)
"""
    # Not tmp_path: only its owner may look into the folders above it.
    with tempfile.TemporaryDirectory() as made:
        Path(made).chmod(0o755)
        store = Path(made, "store")
        open_storage(store).put("k", b"1")
        (store / "k").chmod(0o000)
        store.chmod(0o555)
        said, _ = child(source, str(store)).communicate()
        store.chmod(0o755)
        assert f"can't {verb} {store}/k: permission denied for " in said
        assert "Give user" in said
        assert files(store) == ["k"]


def test_a_full_disk_can_be_retried_and_leaves_the_old_file(tmp_path: Path) -> None:
    """A limit on the size of files simulates a full disk: the write itself fails half way."""
    source = """
import resource, signal, sys
from sitemap_etl.errors import Unavailable
from sitemap_etl.storage import open_storage
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    open_storage(sys.argv[1]).put("k", b"2" * 1_000_000)
except Unavailable as error:
    print(error)
"""
    storage = open_storage(tmp_path)
    storage.put("k", b"1")
    said, _ = child(source, str(tmp_path)).communicate()
    assert f"can't write {tmp_path}/k: File too large" in said
    assert storage.get("k").data == b"1"
    assert files(tmp_path) == ["k"]


@pytest.mark.parametrize(
    ("number", "kind", "text"),
    [
        (errno.ENOSPC, Unavailable, "no space left"),
        (errno.EDQUOT, Unavailable, "no space left"),
        (errno.EIO, Unavailable, "Try again"),
        (errno.ESTALE, Unavailable, "Try again"),
        (errno.EROFS, Denied, "read-only"),
        (errno.EACCES, Denied, "permission denied"),
    ],
)
def test_errors_of_the_operating_system_are_distinguished(number: int, kind: type, text: str) -> None:
    error = translated(OSError(number, os.strerror(number), "/srv/x"), "write", "/srv/x")
    assert type(error) is kind
    assert "can't write /srv/x: " in str(error)
    assert text in str(error)


def test_a_file_url_is_a_folder(tmp_path: Path) -> None:
    open_storage(f"file://{tmp_path}").put("k", b"1")
    assert open_storage(str(tmp_path)).url == str(tmp_path)
    assert open_storage(tmp_path).get("k").data == b"1"


def test_a_relative_folder_is_resolved_when_it_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    storage = open_storage("public")
    monkeypatch.chdir("/")
    storage.put("k", b"1")
    assert (tmp_path / "public/k").exists()


def test_reading_many_files_leaves_no_file_open(tmp_path: Path) -> None:
    source = """
import os, resource, sys
from sitemap_etl.storage import ABSENT, open_storage
storage = open_storage(sys.argv[1])
storage.put("k", b"1")
opened = len(os.listdir("/proc/self/fd"))
resource.setrlimit(resource.RLIMIT_NOFILE, (opened + 20, opened + 20))
for _ in range(100):
    storage.get("k")
    storage.stat("k")
    storage.read("k", 0, 1)
    storage.put("k", b"1", expect=ABSENT)
print("done")
"""
    said, _ = child(source, str(tmp_path)).communicate()
    assert said == "done\n"
