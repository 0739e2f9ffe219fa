"""Stored records: unknown fields are preserved, newer formats refused, and damaged bytes detected."""

from __future__ import annotations

import json
import random
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import is_dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from sitemap_etl.errors import DamagedState, Refused, Unavailable
from sitemap_etl.frames import Tally
from sitemap_etl.runs.local import publish_locally
from sitemap_etl.state import layout, records
from sitemap_etl.state.codec import decode, encode, seal, unseal
from sitemap_etl.state.records import FORMAT, RUN_FORMAT, Current, Document, Lease, Manifest, Plan, Transformed
from sitemap_etl.state.snapshots import SnapshotWriter, schema_of
from sitemap_etl.state.store import parse_document
from sitemap_etl.storage import ABSENT, Stat
from sitemap_etl.storage.protocol import precondition_failed
from tests.support.kept import Kept
from tests.support.sites import TestSite, pages
from tests.support.storages import Counting, Wrapped, Wrapping

WHERE = "state/x.json"


@pytest.fixture
def site(after_two_nights: Kept[TestSite]) -> TestSite:
    return after_two_nights.put_back()


@pytest.fixture(scope="module")
def after_two_nights(tmp_path_factory: pytest.TempPathFactory) -> Kept[TestSite]:
    site = TestSite(tmp_path_factory.mktemp("state") / "site")
    site.section("products", pages(120, title="Lamp"), lastmod={"fingerprint": ["title"]}, shards={"rows": 50})
    site.night(1)
    site.export("products", pages(119, title="Lamp"))
    site.night(2)
    return Kept(site)


def stored(site: TestSite, key: str) -> Path:
    return site.folder / "work" / "shop" / key


def current_manifest(site: TestSite) -> Path:
    return stored(site, json.loads(stored(site, layout.CURRENT).read_bytes())["manifest"])


# --- the codec ---------------------------------------------------------------------------------------


def with_unknown(value: Any) -> Any:
    """Return the JSON with an unknown key in every object of a record."""
    if isinstance(value, dict):
        return {key: with_unknown(item) for key, item in value.items()} | {"from_the_future": [1, {"two": 2}]}
    return [with_unknown(item) for item in value] if isinstance(value, list) else value


def test_fields_added_by_a_newer_version_are_kept_and_written_back(site: TestSite) -> None:
    data = json.loads(current_manifest(site).read_bytes())
    del data["checksum"]
    data = {key: with_unknown(item) if key in ("entries", "indexes", "gates") else item for key, item in data.items()}
    data |= {"from_the_future": {"a": 1}}
    manifest = parse_document(seal(data), Manifest, WHERE)
    assert unseal(seal(encode(manifest)), WHERE) == data
    changed = replace(manifest, reason="another", entries=manifest.entries[:1])
    assert encode(changed)["from_the_future"] == {"a": 1}
    assert encode(changed)["entries"][0]["file"]["from_the_future"] == [1, {"two": 2}]


def test_fields_missing_in_an_older_version_have_their_defaults() -> None:
    plan = parse_document(
        seal({"format": RUN_FORMAT, "run_id": "r", "now": "n", "base": None, "site": {}}), Plan, WHERE
    )
    assert plan == Plan("r", "n", None, {})


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"manifest": 7}, "manifest: expected a text, got 7"),
        ({"last_run": {"run_id": "r", "at": "t", "status": ["x"]}}, r'last_run\.status: expected a text, got \["x"\]'),
        ({"last_run": []}, r"last_run: expected an object, got \[\]"),
        ({"last_run": {}}, r"last_run\.run_id: expected a value"),
    ],
)
def test_a_document_with_another_structure_is_reported_as_damaged_with_the_field(
    body: dict[str, Any], said: str
) -> None:
    data = {"format": FORMAT, "name": "shop", "site": "https://shop.example", **body}
    with pytest.raises(DamagedState, match=said) as error:
        parse_document(seal(data), Current, WHERE)
    assert str(error.value).startswith(f"{WHERE} is damaged")
    assert "Restore this object" in str(error.value)


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[]", b"\xff", b"[" * 100_000], ids=["empty", "cut", "list", "binary", "deep"]
)
def test_bytes_that_are_not_a_document_are_reported_as_damaged(data: bytes) -> None:
    with pytest.raises(DamagedState, match=r"is damaged: it is not (a )?JSON"):
        parse_document(data, Current, WHERE)


def test_a_newer_format_is_refused_with_both_versions_named() -> None:
    data = {"format": FORMAT + 1, "name": "shop", "site": "https://shop.example", "whatever": {}}
    with pytest.raises(Refused, match=rf"format {FORMAT + 1}.*reads formats up to {FORMAT}"):
        parse_document(seal(data), Current, WHERE)


def test_tallies_keep_their_reasons_and_examples() -> None:
    tally = Tally({"a": 2, "b": 3}, {"a": ["x"], "b": ["y", "z"]})
    assert decode(Tally, encode(tally), WHERE) == tally


@pytest.mark.thorough
def test_a_misspelled_key_of_any_record_fails_the_type_check(tmp_path: Path) -> None:
    kinds = [kind for kind in vars(records).values() if isinstance(kind, type) and is_dataclass(kind)]
    names = sorted(kind.__name__ for kind in kinds)
    assert len(names) >= 50
    lines = ["from dataclasses import replace", "from sitemap_etl.state import records", ""]
    wrong = []
    for name in names:
        lines += [f"def read_{name}(r: records.{name}) -> object:", "    return r.misspelt", ""]
        lines += [f"def change_{name}(r: records.{name}) -> object:", "    return replace(r, misspelt=1)", ""]
        lines += [f"records.{name}(misspelt=1)"]
        wrong += [len(lines) - 5, len(lines) - 2, len(lines)]
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--ignore-missing-imports"]
    done = subprocess.run(
        [*command, "--cache-dir", str(tmp_path.parent / "mypy"), "-c", "\n".join(lines)],
        check=False,
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[1],
    )
    found = {int(line.split(":")[1]) for line in done.stdout.splitlines() if "misspelt" in line and ": error:" in line}
    assert found >= set(wrong), done.stdout


# --- nothing is believed unread ----------------------------------------------------------------------


def flipped(data: bytes, bit: int) -> bytes:
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def test_one_flipped_bit_of_a_document_is_reported_or_changes_nothing(site: TestSite) -> None:
    data = current_manifest(site).read_bytes()
    whole = parse_document(data, Manifest, WHERE)
    bits = random.Random(7).sample(range(len(data) * 8), 2_000) + list(range(90 * 8))
    for bit in bits:
        try:
            assert parse_document(flipped(data, bit), Manifest, WHERE) == whole, bit
        except DamagedState as error:
            assert WHERE in str(error)  # noqa: PT017 - either of two outcomes is right


def test_one_flipped_bit_of_a_snapshot_is_reported_before_it_is_decoded(site: TestSite) -> None:
    state = site.state()
    entry = site.manifest().entries[0]
    path = stored(site, entry.snapshot)
    data = path.read_bytes()
    for bit in random.Random(7).sample(range(len(data) * 8), 300):
        path.write_bytes(flipped(data, bit))
        with pytest.raises(DamagedState, match="is damaged: its content does not match"):
            state.snapshot(entry.snapshot)
    path.write_bytes(data)
    assert state.snapshot(entry.snapshot).num_rows == entry.rows


@pytest.mark.parametrize("spoil", [lambda d: d[: len(d) // 2], lambda _: b"", lambda d: flipped(d, 4_000)])
def test_a_run_over_a_damaged_state_is_refused_and_names_the_object(
    site: TestSite, spoil: Callable[[bytes], bytes]
) -> None:
    before = site.public().objects()
    for path in (stored(site, site.manifest().entries[-1].snapshot), current_manifest(site)):
        whole = path.read_bytes()
        path.write_bytes(spoil(whole))
        site.export("products", pages(118, title="Lamp!"))
        with pytest.raises(DamagedState) as error:
            site.night(3)
        assert str(path) in str(error.value)
        assert site.public().objects() == before
        path.write_bytes(whole)
    assert site.night(3).summary.status == "published"


def test_an_existing_snapshot_is_verified_before_it_is_reused(site: TestSite) -> None:
    entry = site.manifest().entries[0]
    state = site.state()
    rows = state.snapshot(entry.snapshot)
    path = stored(site, entry.snapshot)
    path.write_bytes(b"something else")
    assert state.put_snapshot(rows.drop_columns([])) == entry.snapshot
    assert state.snapshot(entry.snapshot).equals(rows)


def test_a_snapshot_contains_nothing_of_neighboring_rows(site: TestSite) -> None:
    """Every snapshot has its own buffers: forgotten rows of one must not remain at the end of another."""
    state, entry = site.state(), site.manifest().entries[0]
    rows = state.snapshot(entry.snapshot)
    among = pa.concat_tables([rows, rows.slice(7), rows]).combine_chunks()
    assert state.put_snapshot(among.slice(0, len(rows))) == entry.snapshot
    assert state.put_snapshot(among.slice(2 * len(rows) - 7)) == entry.snapshot
    assert state.snapshot(state.put_snapshot(among.slice(0, 3))).equals(rows.slice(0, 3))


def test_a_snapshot_is_written_and_read_in_parts(site: TestSite, tmp_path: Path) -> None:
    state, columns = site.state(), ["loc", "fingerprint"]
    part = pa.table({"loc": [f"https://www.example.com/{n:06}" for n in range(50_000)], "fingerprint": range(50_000)})
    parts = [part.set_column(0, "loc", pc.binary_join_element_wise(part["loc"], str(n), "/")) for n in range(8)]
    writer, empty = SnapshotWriter(tmp_path / "rows", columns), SnapshotWriter(tmp_path / "none", columns)
    before, most = pa.total_allocated_bytes(), 0
    for rows in parts:
        writer.write(rows.cast(schema_of(columns)))
        empty.write(rows.slice(0, 0))
        most = max(most, pa.total_allocated_bytes())
    key = state.put_written(writer)
    assert key is not None
    assert state.put_written(empty) is None
    read = iter(state.snapshot_batches(key, ["fingerprint", "loc", "since"]))
    for rows in parts:
        found = next(read)
        assert found.select(columns).equals(rows.cast(schema_of(columns)))
        assert found.column("since").null_count == 50_000
        most = max(most, pa.total_allocated_bytes())
    assert next(read, None) is None
    assert most - before < 3 * part.nbytes
    path = stored(site, key)
    path.write_bytes(flipped(path.read_bytes(), 4_000))
    with pytest.raises(DamagedState, match="is damaged: its content does not match"):
        next(state.snapshot_batches(key, columns))
    path.unlink()
    with pytest.raises(DamagedState, match="is missing"):
        next(state.snapshot_batches(key, columns))


def test_a_broken_lease_counts_as_expired(site: TestSite) -> None:
    path = stored(site, layout.LEASE)
    timeless = [seal(encode(Lease("r", "s", until, "h", 1))) for until in ("never", "2099-01-01T00:00:00")]
    for broken in (b"{", b"[]", seal({"format": FORMAT, "run_id": 3}), *timeless):
        path.write_bytes(broken)
        assert site.night(3).summary.status in ("published", "unchanged")


@pytest.mark.parametrize("body", [b"{}", seal({"format": FORMAT + 1})], ids=["damaged", "newer"])
def test_an_unreadable_old_manifest_does_not_fail_a_published_run(site: TestSite, body: bytes) -> None:
    first = min(stored(site, "state").glob("manifest-*.json"))
    first.write_bytes(body)
    site.export("products", pages(110, title="Lamp"))
    done = site.night(3)
    assert done.summary.status == "published"
    assert any("was not cleaned up" in warning and first.name in warning for warning in done.summary.warnings)


class _Stubborn(Wrapped):
    def delete(self, key: str, **options: Any) -> bool:
        if key == layout.LEASE:
            raise Unavailable(f"can't delete {key}: the store did not answer")
        return bool(self._inner.delete(key, **options))


class Stubborn(Wrapping):
    """A store that refuses to delete a lease."""

    storage = _Stubborn


def test_a_lease_that_cannot_be_released_does_not_fail_a_published_run(site: TestSite) -> None:
    environment, site.environment = site.environment, Stubborn().around(site.environment)
    site.export("products", pages(118, title="Lamp"))
    assert site.night(5).summary.status == "published"
    site.environment = environment
    assert site.night(6).summary.status == "unchanged"


class _Refusing(Wrapped):
    def put(self, key: str, data: Any, **options: Any) -> Stat:
        if "/intent-" in key:
            raise precondition_failed(self._inner.url_of(key), key, ABSENT, None)
        return self._inner.put(key, data, **options)


class Refusing(Wrapping):
    """A store that refuses an intent, although there is none."""

    storage = _Refusing


def test_a_store_that_refuses_new_objects_ends_the_run(site: TestSite) -> None:
    environment, site.environment = site.environment, Refusing().around(site.environment)
    before = site.public().objects()
    site.export("products", pages(118, title="Lamp"))
    with pytest.raises(Unavailable, match=r"refuses objects that do not exist yet.*conditional writes are broken"):
        site.night(5)
    assert site.public().objects() == before
    site.environment = environment
    assert site.night(6).summary.status == "published"


# --- releases ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Plan, Transformed])
def test_rows_of_a_run_started_by_another_version_are_not_used(kind: type[Document]) -> None:
    """In the folder of a run, not only documents may differ between versions, but also columns of shuffle files."""
    older = seal({"format": RUN_FORMAT - 1, "run_id": "r", "now": "n", "base": None, "site": {}, "section": "s"})
    with pytest.raises(Refused, match=rf"run format {RUN_FORMAT - 1}.*uses format {RUN_FORMAT}. Start a new run"):
        parse_document(older, kind, WHERE)


def test_versions_with_the_same_format_can_share_one_run(site: TestSite) -> None:
    """Every task result has a key that this version does not know, as those of another version would."""
    site.environment = Newer().around(site.environment)
    site.export("products", pages(100, title="Lamp!"))
    shown = site.night(3, dry_run=True).run.run_id
    done = publish_locally(site.load(), shown, site.environment, force=("products.max_drop",), reason="x", adopt=False)
    assert done.summary.status == "published"
    assert len(site.public().locs()) == 100


class _Newer(Wrapped):
    def get(self, key: str) -> Any:
        found = self._inner.get(key)
        if found is None or not found.data.startswith(b'{"checksum"'):
            return found
        return replace(found, data=seal(unseal(found.data, key) | {"added_later": {"x": 1}}))


class Newer(Wrapping):
    """Documents as a version with the same format and one more key would write them."""

    storage = _Newer


# --- no square ---------------------------------------------------------------------------------------


def calls(folder: Path, splits: int) -> Counter[str]:
    """Return the requests of a first and a second run, for a table that is read in this many splits."""
    site = TestSite(folder)
    database = folder / "catalog.db"
    with sqlite3.connect(database) as connection:
        connection.execute("CREATE TABLE page (id INTEGER, loc TEXT, title TEXT)")
        connection.executemany("INSERT INTO page VALUES (?, ?, 'Lamp')", ((n, f"/p/{n:06}") for n in range(6_000)))
    site.keys["sections"]["products"] = {
        "from": {"database": "catalog", "query": "SELECT * FROM page", "split": {"column": "id", "parts": splits}},
        "lastmod": {"fingerprint": ["title"]},
    }
    site.environment.environ["AIRFLOW_CONN_CATALOG"] = f"sqlite:///{database}"  # type: ignore[index]
    counting = Counting()
    site.environment = counting.around(site.environment)
    for night in (1, 2):
        done = site.night(night)
    assert len(done.run.plan.units) == splits
    assert done.summary.sections["products"].listed == 6_000
    return counting.calls


def test_the_number_of_storage_requests_grows_linearly_with_splits(tmp_path: Path) -> None:
    twenty, forty = calls(tmp_path / "20", 20), calls(tmp_path / "40", 40)
    for kind in twenty:
        assert forty[kind] <= 2 * twenty[kind], (kind, twenty, forty)


def test_every_kind_of_document_has_a_distinct_title() -> None:
    kinds: list[type[Document]] = [*Document.__subclasses__()]
    for kind in kinds:
        kinds += kind.__subclasses__()
    titles = [kind.title for kind in kinds if not kind.__subclasses__()]
    assert len(titles) == len(set(titles)) > 10
