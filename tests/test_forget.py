"""`state forget` removes rows from everything that the state and the reports hold, and nothing else."""

from __future__ import annotations

import gzip
import io
import json
import shutil
import sqlite3
import zlib
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sitemap_etl.engines.backlog import Waiting, left_of, mark_of, ordered, without
from sitemap_etl.errors import ConfigError, DamagedState, Refused
from sitemap_etl.explain.explain import explain
from sitemap_etl.frames import CHANGES
from sitemap_etl.runs.forget import REASON, Forgotten, forget_rows
from sitemap_etl.runs.history import published_sets
from sitemap_etl.runs.local import ping_locally
from sitemap_etl.runs.rollback import roll_back
from sitemap_etl.runs.status import past_runs
from sitemap_etl.runs.verify import verify_state
from sitemap_etl.state import layout
from sitemap_etl.state.lease import take_lease
from sitemap_etl.state.store import put_document
from tests.support.command import call
from tests.support.examples import ALL
from tests.support.sites import FIRST_NIGHT, TestSite, pages
from tests.support.storages import Died

KEY = "key-marker-77"
MARKERS = ("key-marker-77", "loc-marker-77", "moved-marker-77", "title-marker-77", "reason-marker-77")
SELECT = "SELECT id, loc, lastmod, title, exclude, lang, pair, gone FROM pages WHERE touched >= :since"


class Shop(TestSite):
    """A catalogue in SQLite with text keys; one row has markers in all its columns."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, gates={"max_drop": 1, "max_growth": 9, "max_rejected": 1, "max_same_date": 1})
        self.keys["ping"] = {"indexnow": {"key": "0123456789abcdef", "endpoint": "http://127.0.0.1:9/", "patience": 0}}
        environ = {"AIRFLOW_CONN_CATALOG": f"sqlite:///{folder / 'catalog.db'}"}
        self.environment = replace(self.environment, environ=environ)
        self.sql("CREATE TABLE pages (id, loc, lastmod, title, exclude, lang, pair, gone INTEGER, touched)")
        for n in range(60):
            key, loc, title = (KEY, "/c/loc-marker-77", MARKERS[3]) if n == 21 else (f"k{n:03}", f"/c/k{n:03}", "x")
            values = (key, loc, "2026-10-01", title, None, ("en", "de")[n % 2], f"p{n // 2}", 0, "2026-10-01")
            self.sql("INSERT INTO pages VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", *values)
        source = {"database": "catalog", "query": SELECT, "key": "id", "deleted": "gone"}
        rule = {"group": "pair", "hreflang": "lang"}
        self.keys["sections"]["catalog"] = {"from": source, "shards": {"rows": 20}, "alternates": rule}
        self.section("prints", PRINTS, lastmod={"fingerprint": ["body"]}, formats=["xml", "text"])

    def sql(self, text: str, *values: Any) -> None:
        with closing(sqlite3.connect(self.folder / "catalog.db")) as database, database:
            database.execute(text, values)

    def touch(self, night: int, **columns: Any) -> None:
        """Change the row on the day before a run."""
        names = ", ".join(f"{name} = ?" for name in columns)
        touched = f"{FIRST_NIGHT + timedelta(days=night - 2, hours=9):%Y-%m-%d %H:%M:%S}"
        self.sql(f"UPDATE pages SET {names}, touched = ? WHERE id = ?", *columns.values(), touched, KEY)

    def ping(self, night: int, **options: Any) -> None:
        ping_locally(self.night(night, **options), self.store.around(self.environment))

    def forget(self, *keys: str, **more: Any) -> Forgotten:
        self.store.time += timedelta(minutes=1)
        return forget_rows(self.load(), self.store.around(self.environment), keys=keys, **more)


PRINTS = pages(30, 900, body="x")


class Kept:
    """A copy of a site, to be restored at the same path, which its state contains."""

    def __init__(self, shop: Shop, folder: Path) -> None:
        self.shop, self.kept = shop, folder / "kept"
        shutil.copytree(shop.folder, self.kept)
        self.time, self.written = shop.store.time, dict(shop.store.written)

    def restore(self) -> None:
        shutil.rmtree(self.shop.folder)
        shutil.copytree(self.kept, self.shop.folder)
        self.shop.store.time, self.shop.store.written = self.time, dict(self.written)


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> Kept:
    """Return a site in which the row was listed, moved, excluded, staged by a dry run, and deleted."""
    shop = Shop(tmp_path_factory.mktemp("forget") / "shop")
    shop.ping(1)
    shop.touch(2, loc="/c/moved-marker-77")
    shop.ping(2)
    shop.touch(3, exclude="reason-marker-77")
    shop.export("prints", PRINTS[1:])
    shop.ping(3)
    shop.touch(4, exclude=None)
    shop.night(4, dry_run=True)
    shop.ping(5)
    shop.touch(6, gone=1)
    shop.ping(6)
    shop.export("prints", PRINTS[2:])
    shop.ping(9)
    return Kept(shop, shop.folder.parent)


@pytest.fixture
def shop(lived: Kept) -> Shop:
    """That site, restored for each test."""
    shutil.rmtree(lived.shop.folder)
    lived.shop = Shop(lived.shop.folder)
    lived.restore()
    return lived.shop


# --- what there is ------------------------------------------------------------------------------------


def content(path: Path) -> str:
    """Return the whole content of a file, decoded."""
    data = path.read_bytes()
    if path.suffix == ".parquet":
        return repr(pq.read_table(io.BytesIO(data)).to_pydict())
    if path.suffix in (".arrow", ".spool", ".index", ".seen"):
        with pa.ipc.open_stream(data) as reader:
            return repr([batch.to_pydict() for batch in reader])
    with suppress(OSError, EOFError, zlib.error):
        data = gzip.decompress(data)
    return data.decode("utf-8", "replace")


def holding(shop: Shop, markers: Sequence[str] = MARKERS) -> dict[str, list[str]]:
    """Return marker → the objects that contain it."""
    work = shop.folder / "work" / "shop"
    found: dict[str, list[str]] = {marker: [] for marker in markers}
    for path in sorted(work.rglob("*")):
        if path.is_file():
            text = content(path)
            for marker in markers:
                if marker in text:
                    found[marker].append(str(path.relative_to(work)))
    return found


def nothing(markers: Sequence[str] = MARKERS) -> dict[str, list[str]]:
    return {marker: [] for marker in markers}


def test_a_forgotten_row_is_in_no_file_of_state_or_reports(shop: Shop) -> None:
    before = holding(shop)
    paths = {path for found in before.values() for path in found}
    kinds = {path.split("/")[1] if path.startswith("state") else path.split("/")[0] for path in paths}
    assert kinds >= {"snapshots", "mirrors", "changes", "reports", "runs"}
    assert all(before.values())
    public = shop.public().objects()
    found = shop.forget(KEY)
    assert holding(shop) == nothing()
    assert shop.public().objects() == public
    assert found.rewritten.keys() >= {"snapshots", "manifests", "mirrors", "changes", "reports", "tables of reports"}
    assert found.removed["staged runs"] >= 1
    assert found.urls == 2
    assert any("indexnow was not notified yet" in text for text in found.left)
    assert verify_state(shop.load(), shop.environment).sound


@pytest.mark.thorough
def test_later_runs_are_unaffected_by_forgetting(shop: Shop, tmp_path: Path) -> None:
    kept = Kept(shop, tmp_path)

    def nights() -> list[dict[str, bytes]]:
        found = []
        for night in (12, 13, 14):
            shop.sql(
                "UPDATE pages SET lastmod = ?, touched = ? WHERE id = 'k030'",
                f"2026-10-{night}",
                f"2026-11-{night - 1}",
            )
            shop.export("prints", PRINTS[4 if night == 13 else 2 :])
            done = shop.night(night, full=night == 14)
            found.append(shop.public().contents())
            assert done.summary.status in ("published", "unchanged")
            assert done.summary.sections["catalog"].listed == 59
        return found

    expected = nights()
    kept.restore()
    shop.forget(KEY)
    assert nights() == expected
    assert holding(shop, ["title-marker-77"]) == nothing(["title-marker-77"])


def test_a_run_after_forgetting_is_unchanged(shop: Shop) -> None:
    shop.forget(KEY)
    assert shop.night(10).summary.status == "unchanged"


def test_history_shows_the_forgetting_and_older_releases_are_restored_without_the_row(shop: Shop) -> None:
    listed = {one.run_id: one.listed for one in published_sets(shop.load(), shop.environment)}
    oldest = min(listed)
    shop.forget(KEY)
    newest, *older = published_sets(shop.load(), shop.environment)
    assert (newest.reason, newest.current) == (REASON, True)
    assert {one.run_id for one in older} == set(listed)
    assert {one.run_id: listed[one.run_id] - one.listed for one in older}[oldest] == 1
    environment = shop.store.around(shop.environment)
    roll_back(shop.load(), oldest, environment, reason="x", now=shop.store.time + timedelta(hours=1))
    locs = shop.public().locs()
    assert len(locs) == len(set(locs)) == listed[oldest] - 1
    assert not [loc for loc in locs if "marker" in loc]
    links = {href for entry in shop.public().entries() for href in entry.alternates.values()}
    assert links
    assert not [href for href in links if "marker" in href]
    assert shop.night(11).summary.status == "published"


def test_forgetting_an_unknown_key_changes_no_release(shop: Shop) -> None:
    shop.touch(9, title="staged")
    shown = shop.night(9, dry_run=True).run.run_id
    before = shop.state().current()
    found = shop.forget("there-is-none")
    assert (found.run_id, found.rewritten) == (None, {})
    assert found.removed["staged runs"]
    assert "nothing in the state has this row" in found.left[0]
    assert found.left[1:] == ("what runs staged, and what nothing names, can't be searched: it was removed",)
    assert shop.state().current() == before
    assert not list(shop.state().storage.list(layout.run_folder(shown)))
    assert len(shop.forget("there-is-none").left) == 1


def test_forgetting_keeps_the_order_of_run_records(shop: Shop) -> None:
    runs = past_runs(shop.load(), shop.environment)
    before = [one.run_id for one in runs]
    work = shop.state().storage
    for one in reversed(runs):  # the first of them names the row
        error = "no date: https://shop.example/c/loc-marker-77" if one is runs[-1] else one.error
        put_document(work, layout.attempt(one.run_id), replace(one, error=error))
    assert len(before) > 3
    assert shop.forget(KEY).rewritten["records of runs"] == 1
    assert [one.run_id for one in past_runs(shop.load(), shop.environment)] == before


def test_a_row_that_only_the_state_still_has_is_forgotten_by_its_url(shop: Shop) -> None:
    assert holding(shop, ["p/000900"])["p/000900"]
    shop.forget(urls=["/p/000900"])
    assert holding(shop, ["p/000900"]) == nothing(["p/000900"])
    assert holding(shop)["title-marker-77"]
    (answer,) = explain(shop.load(), ["/p/000901"], shop.environment)
    assert answer.last_listed is not None


def test_inputs_of_sections_do_not_name_a_forgotten_row_after_a_rollback(shop: Shop) -> None:
    """`current.json` has the ends of splits, even of releases that are no longer current."""
    before = published_sets(shop.load(), shop.environment)[0].run_id
    shop.export("prints", [{"loc": "/a/marker-99", "body": "x"}, *PRINTS[2:]])
    shop.night(10)
    roll_back(shop.load(), before, shop.environment, reason="x", now=FIRST_NIGHT + timedelta(days=10))
    assert "state/current.json" in holding(shop, ["marker-99"])["marker-99"]
    shop.forget(urls=["/a/marker-99"])
    assert holding(shop, ["marker-99"]) == nothing(["marker-99"])


@pytest.mark.thorough
def test_forgetting_can_be_repeated_after_a_kill_at_any_write(shop: Shop, tmp_path: Path) -> None:
    kept = Kept(shop, tmp_path)
    writes = 0
    step = 5 if ALL else 15  # neighbours are mostly of one kind
    while True:
        kept.restore()
        shop.store.die(writes)
        try:
            shop.forget(KEY)
        except Died:
            shop.store.revive()
        else:
            break
        (shop.folder / "work" / "shop" / "state" / "lease.json").unlink(missing_ok=True)
        assert verify_state(shop.load(), shop.environment).sound, writes
        if writes % 4 == 0:
            assert shop.night(10).summary.status in ("published", "unchanged"), writes
            published_sets(shop.load(), shop.environment)
        shop.forget(KEY)
        assert holding(shop) == nothing(), writes
        writes += step
    shop.store.revive()
    assert writes > 30


def test_forgetting_twice_says_that_nothing_was_found(shop: Shop) -> None:
    shop.forget(KEY)
    again = shop.forget(KEY)
    assert (again.rows, again.run_id, again.rewritten) == (0, None, {})
    assert "forgotten before" in again.left[0]


# --- what is refused ----------------------------------------------------------------------------------


def refused(shop: Shop, match: str, *keys: str, **more: Any) -> None:
    """Check that it is refused, and nothing but the lease was written."""
    work = shop.folder / "work"
    before = {path: path.read_bytes() for path in work.rglob("*") if path.is_file()}
    with pytest.raises(Refused, match=match):
        shop.forget(*keys, **more)
    assert {path: path.read_bytes() for path in work.rglob("*") if path.is_file()} == before


def test_forgetting_a_row_that_the_source_still_has_is_refused(shop: Shop) -> None:
    refused(shop, r"section catalog: the row with key k003 is still in the source", "k003")


def test_forgetting_a_listed_url_is_refused(shop: Shop) -> None:
    refused(shop, r"/p/000905 is listed by section prints", urls=["https://shop.example/p/000905"])


def test_forgetting_an_unlisted_row_of_the_last_run_is_refused(shop: Shop) -> None:
    shop.export("prints", [{**row, "exclude": "sold" if row["loc"] == "/p/000910" else ""} for row in PRINTS])
    shop.night(10)
    refused(shop, r"section prints: the last run read this row, and did not list it \(sold\)", urls=["/p/000910"])


def test_forgetting_a_page_that_others_link_to_is_refused(shop: Shop) -> None:
    links = [json.dumps({"en": "/n/1", "de": "/n/gone"}), None]
    shop.section("news", [{"loc": f"/n/{n + 1}", "alternates": link} for n, link in enumerate(links)])
    shop.night(10)
    refused(shop, r"/n/1 is published with a link", urls=["/n/gone"])


def test_forgetting_is_refused_during_a_run_or_an_interrupted_publish(shop: Shop) -> None:
    work = shop.store.around(shop.environment).open_storage(str(shop.folder / "work" / "shop"))
    take_lease(work, "other", pid=0, owner="somebody")
    refused(shop, "Another run is in progress", KEY)
    work.delete(layout.LEASE)
    shop.export("prints", PRINTS[5:])
    shop.store.die(3, since="intent")
    with pytest.raises(Died):
        shop.night(10)
    shop.store.revive()
    work.delete(layout.LEASE)
    refused(shop, "A publish was interrupted", KEY)


def test_forgetting_reports_a_damaged_object_before_anything_is_changed(shop: Shop) -> None:
    for kind in ("snapshots/*.arrow", "mirrors/*/*/*.parquet", "manifest-*.json"):
        path = min((shop.folder / "work" / "shop" / "state").glob(kind))
        whole = path.read_bytes()
        path.write_bytes(whole[:-9])
        with pytest.raises(DamagedState, match=path.name):
            shop.forget(KEY)
        path.write_bytes(whole)
    shop.forget(KEY)
    assert holding(shop) == nothing()


def test_forgetting_a_key_of_two_sections_requires_a_section(shop: Shop) -> None:
    other = shop.keys["sections"]["catalog"] | {"view": True}
    shop.keys["sections"]["other"] = {key: value for key, value in other.items() if key != "alternates"}
    shop.sql("UPDATE pages SET gone = 0, touched = '2026-11-09' WHERE id = ?", KEY)
    shop.night(10)
    shop.sql("DELETE FROM pages WHERE id = ?", KEY)
    shop.night(11, full=True)
    with pytest.raises(ConfigError, match=r"sections catalog, other have it\. Name one with --section"):
        shop.forget(KEY)
    shop.forget(KEY, section="other")
    with pytest.raises(ConfigError, match="there is no such section"):
        shop.forget(KEY, section="nowhere")
    with pytest.raises(ConfigError, match="name rows with --key"):
        shop.forget()


def test_forgetting_by_key_requires_a_section_with_keys(shop: Shop, tmp_path: Path) -> None:
    """Otherwise a misspelled key would look like success, and the row would stay."""
    shop.section("plain", pages(3))
    shop.night(10)
    with pytest.raises(ConfigError, match=r"--section plain: it has no key, only catalog\. Name its"):
        shop.forget(KEY, section="plain")
    other = TestSite(tmp_path / "other").section("plain", pages(3))
    other.night(1)
    with pytest.raises(ConfigError, match=r"--key: no section of this site has a key\. Name the rows"):
        forget_rows(other.load(), other.environment, keys=["3"])


def test_the_command_forget_says_what_it_did_and_what_it_cannot_reach(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in shop.environment.environ.items():
        monkeypatch.setenv(name, value)
    done = call("state", "forget", shop.path, "--key", KEY)
    assert done.code == 0
    assert "rewritten: " in done.out
    assert "backups" in done.out
    again = call("state", "forget", shop.path, "--key", KEY, "--json")
    assert again.json["status"] == "done"
    assert call("state", "forget", shop.path).code == 2
    assert call("state", "forget", shop.path, "--key", "k003", "--json").json["exit"] == 1


# --- what engines wait for ----------------------------------------------------------------------------


@st.composite
def backlogs(draw: st.DrawFn) -> tuple[pa.Table, Waiting, list[int]]:
    count = draw(st.integers(1, 12))
    kinds = draw(st.lists(st.sampled_from(["removed", "added", "changed"]), min_size=count, max_size=count))
    rows = [{"loc": f"https://a/{n}", "kind": kind, "lastmod": None, "section": "s"} for n, kind in enumerate(kinds)]
    changes = ordered(pa.Table.from_pylist(rows, CHANGES))
    position = draw(st.integers(0, count))
    held = draw(st.lists(st.integers(0, max(0, position - 1)), unique=True, max_size=position))
    waiting = Waiting("r", position, np.array(sorted(held), np.uint32), count, mark_of(changes))
    return changes, waiting, draw(st.lists(st.integers(0, count - 1), unique=True))


@given(backlogs())
def test_pending_submissions_are_kept_without_the_forgotten_rows(drawn: tuple[pa.Table, Waiting, list[int]]) -> None:
    changes, waiting, lost = drawn
    gone = np.isin(np.arange(changes.num_rows), lost)
    fewer = changes.filter(pa.array(~gone))
    moved = without(waiting, changes, gone)
    assert moved.mark == mark_of(fewer)
    expected = [
        loc for loc in _left(waiting, changes) if loc not in set(changes.filter(pa.array(gone))["loc"].to_pylist())
    ]
    assert list(_left(moved, fewer)) == expected


def _left(waiting: Waiting, changes: pa.Table) -> Iterator[str]:
    yield from left_of([waiting], [changes], "https://a/")["loc"].to_pylist()
