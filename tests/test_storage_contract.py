"""Rules for every storage, in a folder as in a bucket."""

from __future__ import annotations

import io
import os
import threading
from datetime import timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sitemap_etl.errors import ConfigError, Refused
from sitemap_etl.state.checked import open_checked, put_checked
from sitemap_etl.storage import ABSENT, PreconditionFailed, Storage, open_storage
from tests.support.examples import examples
from tests.support.fixtures import reachable
from tests.support.s3 import S3Server

pytest_plugins = ["tests.support.fixtures"]


@pytest.fixture(params=["folder", "folder without locks", "moto", "moto without conditions", "seaweedfs"])
def storage(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Storage:
    return _opened(request, tmp_path, monkeypatch)


@pytest.fixture(params=["folder", "moto", "seaweedfs"])
def conditional_storage(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Storage:
    """Without conditions two simultaneous writers may both succeed."""
    return _opened(request, tmp_path, monkeypatch)


def _opened(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Storage:
    conditional = "without" not in request.param
    if "folder" in request.param:
        return open_storage(tmp_path / "store", conditional_writes=conditional)
    server: S3Server = request.getfixturevalue(request.param.split()[0])
    bucket = reachable(server, monkeypatch).bucket()
    return open_storage(f"s3://{bucket}/some/prefix", conditional_writes=conditional)


def keys(storage: Storage, prefix: str = "") -> list[str]:
    return sorted(stat.key for stat in storage.list(prefix))


def test_an_object_is_read_as_written(storage: Storage) -> None:
    put = storage.put("a/b.xml", b"<urlset/>", content_type="application/xml", cache_control="max-age=600")
    stored = storage.get("a/b.xml")
    assert stored is not None
    assert stored.data == b"<urlset/>"
    assert (stored.stat.key, stored.stat.size, stored.stat.etag) == ("a/b.xml", 9, put.etag)
    assert storage.stat("a/b.xml") == stored.stat
    assert put.modified.utcoffset() == timedelta(0)


def test_an_object_can_be_read_as_a_file(storage: Storage) -> None:
    file = open_checked(storage, put_checked(storage, "k", b"0123456789"))
    assert file.read(4) == b"0123"
    assert (file.seek(-3, io.SEEK_END), file.read()) == (7, b"789")
    assert (file.seek(-8, io.SEEK_CUR), file.read(2)) == (2, b"23")
    assert (file.seek(-20, io.SEEK_CUR), file.tell(), file.read(2)) == (0, 0, b"01")
    assert (file.seek(20), file.read(2)) == (20, b"")


def test_a_missing_object_is_not_found(storage: Storage) -> None:
    assert storage.get("a") is None
    assert storage.stat("a/b") is None
    assert storage.delete("a/b/c") is False
    assert storage.delete("a/b/c", expect="0" * 64) is False
    assert keys(storage) == []


def test_a_prefix_of_keys_is_not_a_key(storage: Storage) -> None:
    storage.put("a/b", b"1")
    assert storage.get("a") is None
    assert storage.stat("a") is None
    assert storage.delete("a") is False


def test_a_put_accepts_any_bytes(storage: Storage) -> None:
    whole = memoryview(b"xabcdefx")[1:7]
    for data in (b"abcdef", bytearray(b"abcdef"), whole, [b"abc", memoryview(b"def")], [b"abcdef"], (b"", whole)):
        storage.put("k", data)
        assert storage.get("k").data == b"abcdef"
    storage.put("k", [])
    assert storage.get("k").data == b""


def test_a_put_accepts_buffers_of_arrow_and_numpy(storage: Storage) -> None:
    storage.put("k", [pa.py_buffer(b"abc"), np.array([1, 2], np.uint16)])
    assert storage.get("k").data == b"abc\x01\x00\x02\x00"


def test_a_put_accepts_a_local_file(storage: Storage, tmp_path: Path) -> None:
    source = tmp_path / "source"
    data = os.urandom(3_000_000)
    source.write_bytes(data)
    put = storage.put("k", source)
    assert put.size == len(data)
    assert storage.get("k").data == data
    assert storage.put("k", source, expect=ABSENT).etag == put.etag


def test_a_put_of_a_missing_local_file_is_refused_by_its_name(storage: Storage, tmp_path: Path) -> None:
    with pytest.raises(Refused, match=r"can't read .*nowhere"):
        storage.put("k", tmp_path / "nowhere")
    assert keys(storage) == []


def test_an_empty_object_is_an_object(storage: Storage) -> None:
    storage.put("empty", b"", expect=ABSENT)
    assert storage.get("empty").data == b""
    assert storage.stat("empty").size == 0
    assert storage.read("empty", 0, 0) == b""


def test_a_range_is_read_exactly(storage: Storage) -> None:
    storage.put("k", bytes(range(256)))
    assert storage.read("k", 10, 5) == bytes(range(10, 15))
    assert storage.read("k", 251, 5) == bytes(range(251, 256))
    assert storage.read("k", 7, 0) == b""


def test_a_range_beyond_the_end_is_refused(storage: Storage) -> None:
    storage.put("k", bytes(range(256)))
    for start, length in ((250, 7), (256, 1), (9_999, 1), (0, 257)):
        with pytest.raises(Refused, match=r"/k holds (256|fewer) bytes: expected"):
            storage.read("k", start, length)


def test_an_empty_range_is_refused(storage: Storage) -> None:
    with pytest.raises(Refused, match="/k does not exist"):
        storage.read("k", 0, 1)


def test_a_put_that_expects_absence_fails_if_the_object_exists(storage: Storage) -> None:
    storage.put("k", b"first", expect=ABSENT)
    with pytest.raises(PreconditionFailed, match=r"expected nothing there, found 5 bytes") as raised:
        storage.put("k", b"second", expect=ABSENT)
    assert raised.value.key == "k"
    assert raised.value.found == storage.stat("k")
    assert storage.get("k").data == b"first"


def test_a_put_that_expects_an_etag_fails_if_the_etag_differs(storage: Storage) -> None:
    first = storage.put("k", b"first")
    second = storage.put("k", b"second", expect=first.etag)
    assert second.etag != first.etag
    with pytest.raises(PreconditionFailed, match=f"expected etag {first.etag}, found 6 bytes"):
        storage.put("k", b"third", expect=first.etag)
    assert storage.get("k").data == b"second"


def test_a_put_that_expects_an_etag_fails_if_the_object_is_missing(storage: Storage) -> None:
    with pytest.raises(PreconditionFailed, match="expected etag 00ff, found nothing") as raised:
        storage.put("k", b"x", expect="00ff")
    assert raised.value.found is None
    assert storage.get("k") is None


def test_a_conditional_put_succeeds_if_its_bytes_are_already_there(storage: Storage) -> None:
    first = storage.put("k", b"old")
    put = storage.put("k", b"new", expect=first.etag)
    assert storage.put("k", b"new", expect=first.etag).etag == put.etag
    assert storage.put("k", b"new", expect=ABSENT).etag == put.etag


def test_a_delete_that_expects_an_etag_fails_if_the_etag_differs(storage: Storage) -> None:
    put = storage.put("k", b"x")
    with pytest.raises(PreconditionFailed, match="expected etag 00ff"):
        storage.delete("k", expect="00ff")
    assert storage.get("k") is not None
    assert storage.delete("k", expect=put.etag) is True
    assert storage.get("k") is None
    assert storage.delete("k", expect=put.etag) is False


def test_an_unconditional_put_replaces_the_object(storage: Storage) -> None:
    storage.put("k", b"1")
    storage.put("k", b"22")
    assert storage.get("k").data == b"22"


def test_a_list_has_every_key_once_with_the_size_of_its_object(storage: Storage) -> None:
    names = ["a", "a-b", "a/b", "a/c/d", "a0", "B", "z.xml", "é", "a/b-", "ab/c"]
    for name in names:
        if name != "a":  # a folder can't have both a and a/b
            storage.put(name, name.encode())
    expected = sorted(name for name in names if name != "a")
    assert keys(storage) == expected
    assert {stat.key: stat.size for stat in storage.list()} == {name: len(name.encode()) for name in expected}


def test_a_list_accepts_any_text_as_prefix(storage: Storage) -> None:
    names = ["runs.json", "runs/1/a", "runs/1/b", "runs/10/a", "x"]
    for name in names:
        storage.put(name, b"1")
    for prefix in ("", "r", "runs", "runs/", "runs/1", "runs/1/", "runs/1/b", "y", "y/z", "x", "x/"):
        assert keys(storage, prefix) == [name for name in names if name.startswith(prefix)]


def test_objects_can_be_deleted_during_a_list(storage: Storage) -> None:
    for number in range(5):
        storage.put(f"d/{number}", b"1")
    for stat in storage.list("d/"):
        storage.delete(stat.key)
    assert keys(storage) == []


def test_a_sub_storage_is_limited_to_a_prefix(storage: Storage) -> None:
    below = storage.sub("x/y")
    below.put("k", b"1")
    storage.put("other", b"2")
    assert keys(below) == ["k"]
    assert keys(storage) == ["other", "x/y/k"]
    assert below.url == f"{storage.url}/x/y"
    assert below.url_of("k") == storage.url_of("x/y/k")
    assert keys(storage.sub("x").sub("y")) == ["k"]
    assert keys(storage.sub("")) == keys(storage)
    assert below.conditional == storage.conditional


def test_the_time_of_the_store_is_comparable_with_modification_times(storage: Storage) -> None:
    before = storage.now()
    put = storage.put("k", b"1")
    assert before - timedelta(seconds=1) <= put.modified
    assert storage.now() >= storage.stat("k").modified.replace(microsecond=0)


@pytest.mark.parametrize("key", ["", "/a", "a//b", "../a", "a/../b", "a/..", "./a", "a/", "a\nb", "a\0b", "k" * 1_025])
def test_a_key_that_could_lead_elsewhere_is_refused(key: str, tmp_path: Path) -> None:
    for storage in (open_storage(tmp_path), open_storage("s3://bucket/prefix")):
        for call in (storage.get, storage.stat, storage.delete, lambda key, to=storage: to.put(key, b"")):
            with pytest.raises(ConfigError, match=r"not a valid key|can.t be empty"):
                call(key)


@pytest.mark.parametrize("prefix", ["a/../b", "..", "a//b", "a/./b"])
def test_a_prefix_that_could_lead_elsewhere_is_refused(prefix: str, tmp_path: Path) -> None:
    for storage in (open_storage(tmp_path), open_storage("s3://bucket/prefix")):
        for call in (lambda prefix, of=storage: list(of.list(prefix)), storage.sub):
            with pytest.raises(ConfigError, match=r"not a valid key|can.t be empty"):
                call(prefix)


def test_a_key_with_any_characters_is_listed_unchanged(storage: Storage) -> None:
    for key in (
        "a b",
        "a+b",
        "a%20b",
        "100%",
        "日本語.xml",
        "é/ü",
        "a&b=c?d#e",
        "~'\"<>",
        "a-00001.xml.gz",
        ".x",
    ):
        storage.put(key, key.encode())
        assert keys(storage) == [key]
        assert storage.get(key).data == key.encode()
        assert storage.read(key, 0, 1) == key.encode()[:1]
        assert storage.delete(key) is True
        assert keys(storage) == []


@pytest.mark.parametrize("storage", ["folder", "moto"], indirect=True)  # SeaweedFS reads it as a slash
def test_a_backslash_in_a_key_is_an_ordinary_character(storage: Storage) -> None:
    storage.put("a\\b", b"1")
    assert keys(storage) == ["a\\b"]
    assert storage.get("a\\b").data == b"1"
    assert storage.get("a/b") is None


@pytest.mark.parametrize("expect", [ABSENT, "etag"])
def test_of_many_writers_with_the_same_condition_one_succeeds(conditional_storage: Storage, expect: object) -> None:
    storage = conditional_storage
    if expect == "etag":
        expect = storage.put("k", b"start").etag
    won: list[int] = []
    lost: list[int] = []
    start = threading.Barrier(8)

    def write(number: int) -> None:
        start.wait()
        try:
            storage.put("k", f"writer {number}".encode(), expect=expect)
            won.append(number)
        except PreconditionFailed:
            lost.append(number)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(won), len(lost)) == (1, 7)
    assert storage.get("k").data == f"writer {won[0]}".encode()


def test_threads_can_share_a_storage(storage: Storage) -> None:
    failed: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for turn in range(5):
                key = f"t/{number}/{turn}"
                storage.put(key, key.encode(), expect=ABSENT)
                assert storage.get(key).data == key.encode()
                assert storage.delete(key)
        except BaseException as error:  # noqa: BLE001 (shown by the assertion below)
            failed.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert keys(storage) == []


SEGMENT = st.text("ab.-_0é", min_size=1, max_size=3).filter(lambda text: text not in (".", ".."))
OPERATION = st.tuples(
    st.sampled_from(["put", "put absent", "put known", "put stale", "delete", "delete known", "delete stale"]),
    st.sampled_from(["k", "a/k", "a/b", "c"]) | st.builds("{}/{}".format, st.just("d"), SEGMENT),
    st.binary(max_size=4),
)


@settings(max_examples=examples(12))
@given(operations=st.lists(OPERATION, max_size=12))
def test_a_storage_behaves_as_a_mapping_with_conditions(storage: Storage, operations: list) -> None:
    """Any sequence of puts and deletes has the same result as with a dict."""
    for stat in list(storage.list()):
        storage.delete(stat.key)
    model: dict[str, bytes] = {}
    for operation, key, data in operations:
        etag = storage.stat(key).etag if key in model else None
        condition = {"absent": ABSENT, "known": etag or "0f", "stale": "0f"}.get(operation.rpartition(" ")[2])
        holds = condition is None or (key not in model if condition is ABSENT else condition == etag)
        if operation.startswith("put"):
            if holds or model.get(key) == data:
                storage.put(key, data, expect=condition)
                model[key] = data
            else:
                with pytest.raises(PreconditionFailed):
                    storage.put(key, data, expect=condition)
        elif key in model and not holds:
            with pytest.raises(PreconditionFailed):
                storage.delete(key, expect=condition)
        else:
            assert storage.delete(key, expect=condition) is (model.pop(key, None) is not None)
    assert {stat.key: storage.get(stat.key).data for stat in storage.list()} == model
