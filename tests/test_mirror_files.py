"""The versions of a mirror and their files: owners, number, and damage."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from sitemap_etl.errors import DamagedState
from sitemap_etl.runs.local import publish_locally
from sitemap_etl.runs.rollback import roll_back
from sitemap_etl.state.mirror import DELTAS, read_mirror
from tests.support.catalog import CHANGED, SELECT, SHOP, Catalog, of_pages
from tests.support.crash import essence
from tests.support.sites import FIRST_NIGHT
from tests.support.storages import Counting


@pytest.fixture
def site(tmp_path: Path) -> Catalog:
    return of_pages(tmp_path)


# --- generations --------------------------------------------------------------------------------------


def test_a_refused_or_dry_run_changes_the_mirror_only_when_it_is_published(site: Catalog) -> None:
    site.night(1)
    before = site.state().current().mirrors
    site.sql("UPDATE pages SET exclude = 'x', touched = '2026-11-01T12:00' WHERE id < 30")
    refused = site.night(2).summary
    assert (refused.status, site.state().current().mirrors) == ("refused", before)
    dry = site.night(3, dry_run=True, force=("pages.max_drop",), reason="right").summary
    assert site.state().current().mirrors == before
    assert dry.run_id is not None
    done = publish_locally(
        site.load(), dry.run_id, site.environment, force=("pages.max_drop",), reason="right", adopt=False
    )
    assert done.summary.status == "published"
    assert site.state().current().mirrors != before
    counts = site.night(4).summary.sections["pages"]
    assert (counts.extracted, counts.carried, counts.listed) == (0, 100, 70)


@pytest.mark.parametrize("first", [True, False])
def test_mirror_files_staged_by_a_dry_run_do_not_prevent_clean_up(site: Catalog, first: bool) -> None:
    if not first:
        site.night(1)
        site.sql("UPDATE pages SET lastmod = '2026-11-01', touched = '2026-11-01T12:00' WHERE id = 5")
    dry = site.night(2, dry_run=True).summary
    site.night(3)
    site.sql("UPDATE pages SET lastmod = '2026-11-03', touched = '2026-11-03T12:00' WHERE id = 6")
    done = site.night(4).summary
    assert (done.status, done.warnings) == ("published", ())
    files = {stat.key for stat in site.state().storage.list(f"state/mirrors/pages/{dry.run_id}/")}
    assert files, "what can be published still is kept"


def test_sections_that_are_not_read_or_kept_retain_their_mirror(site: Catalog) -> None:
    site.table("offers", 5)
    site.read("offers", SELECT.replace("pages", "offers"), on_error="keep")
    site.night(1)
    offers = site.state().current().mirrors["offers"]
    site.night(2, sections=["pages"])
    assert site.state().current().mirrors["offers"] == offers
    site.sql("ALTER TABLE offers RENAME TO away")
    summary = site.night(3).summary
    assert "offers" in summary.kept
    assert site.state().current().mirrors["offers"] == offers
    site.sql("ALTER TABLE away RENAME TO offers")
    site.sql("UPDATE offers SET lastmod = '2026-11-01', touched = '2026-11-01T12:00' WHERE id = 1")
    counts = site.night(4).summary.sections["offers"]
    assert (counts.extracted, counts.carried, counts.changed) == (1, 4, 1)


def test_a_rollback_restores_the_mirror_of_its_release(site: Catalog) -> None:
    site.night(1)
    first = site.manifest()
    site.sql("UPDATE pages SET exclude = 'x', touched = '2026-11-01T12:00' WHERE id = 7")
    site.night(2)
    roll_back(site.load(), None, site.at(FIRST_NIGHT + timedelta(days=1, hours=3)), reason="test")
    assert site.state().current().mirrors["pages"] == first.sections["pages"].mirror
    assert "/pages/007" in site.locs()
    counts = site.night(3).summary.sections["pages"]
    assert (counts.extracted, counts.carried, counts.removed) == (1, 99, 1), "what came since that set is read again"


@pytest.mark.parametrize("lost", ["the generation", "a file of it"])
def test_after_a_rollback_to_a_release_without_its_mirror_the_section_is_read_in_full(site: Catalog, lost: str) -> None:
    site.night(1)
    key = site.manifest().sections["pages"].mirror
    assert key is not None
    files = [file.key for bucket in read_mirror(site.state().storage, key).buckets for file in bucket.files()]
    site.sql("UPDATE pages SET exclude = 'x', touched = '2026-11-01T12:00' WHERE id = 7")
    site.night(2)
    site.state().storage.delete(key if lost == "the generation" else files[0])
    roll_back(site.load(), None, site.at(FIRST_NIGHT + timedelta(days=1, hours=3)), reason="test")
    assert "pages" not in site.state().current().mirrors
    assert site.night(3).summary.sections["pages"].extracted == 100


def test_a_section_without_a_mirror_is_read_in_full(site: Catalog) -> None:
    keys = dict(site.keys["sections"]["pages"])
    site.keys["sections"]["pages"] = {"from": {"database": "catalog", "query": SELECT}}
    site.night(1)
    site.keys["sections"]["pages"] = keys
    assert site.night(2).summary.sections["pages"].extracted == 100
    assert "section pages is read in full: there is no mirror of it yet" in site.lines
    site.keys["sections"]["pages"] = {"from": {"database": "catalog", "query": SELECT}}
    site.night(3)
    assert "pages" not in site.state().current().mirrors, "it would be out of date when :since comes back"


# --- files --------------------------------------------------------------------------------------------


@pytest.mark.thorough
def test_deltas_of_a_mirror_are_merged_and_old_files_deleted(site: Catalog) -> None:
    site.keys["sections"]["pages"]["from"]["full_every"] = "365d"
    seen = set()
    for night in range(1, 3 * DELTAS):
        touched = (FIRST_NIGHT + timedelta(days=night - 1)).strftime("%Y-%m-%dT12:00")
        site.sql("UPDATE pages SET lastmod = ?, touched = ? WHERE id = ?", touched[:10], touched, night)
        site.night(night)
        (bucket,) = site.mirror().buckets
        assert bucket.base is not None
        assert bucket.base.rows == 100
        assert len(bucket.deltas) <= DELTAS
        seen.add(len(bucket.deltas))
    assert len(seen) > 2, "deltas come and are folded"
    assert site.public().by_loc()[f"{SHOP}/pages/020"].lastmod == "2026-11-20"


@pytest.mark.parametrize("which", ["base", "delta", "document"])
@pytest.mark.parametrize("how", ["flipped", pytest.param("gone", marks=pytest.mark.thorough)])
def test_a_damaged_mirror_is_reported_and_replaced_by_a_full_read(site: Catalog, which: str, how: str) -> None:
    site.night(1)
    site.sql("UPDATE pages SET lastmod = '2026-11-01', touched = '2026-11-01T12:00' WHERE id = 7")
    site.night(2)
    before = site.public().objects()
    (bucket,) = site.mirror().buckets
    assert bucket.base is not None
    key = {"base": bucket.base.key, "delta": bucket.deltas[0].key, "document": site.state().current().mirrors["pages"]}
    path = Path(site.state().storage.url_of(key[which]))
    if how == "gone":
        path.unlink()
    else:
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 4
        path.write_bytes(data)
    site.sql("UPDATE pages SET touched = '2026-11-02T12:00' WHERE id = 7")  # else the mirror is left untouched
    with pytest.raises(DamagedState, match=re.escape(path.name) + r"[\s\S]*--full"):
        site.night(3)
    assert site.public().objects() == before
    assert site.night(4, full=True).summary.status == "unchanged"
    assert site.night(5).summary.sections["pages"].extracted == 0


@pytest.mark.thorough
def test_unchanged_runs_have_constant_cost_and_the_state_does_not_grow(tmp_path: Path) -> None:
    site = Catalog(tmp_path)
    site.table("pages", 20_000)
    site.read("pages", source={"full_every": "365d"})
    requests, sizes, everything, plain = [], [], [], site.environment
    for night in range(1, 41):
        touched = (FIRST_NIGHT + timedelta(days=night - 2)).strftime("%Y-%m-%dT12:00")
        changes = "UPDATE pages SET lastmod = ?, touched = ? WHERE id IN (?, ?)"
        site.sql(changes, touched[:10], touched, night, night + 50)
        counting = Counting()
        site.environment = counting.around(plain)
        site.night(night)
        site.environment = plain
        requests.append(counting.calls.total())
        sizes.append(_state_bytes(site))
        everything.append(sum(path.stat().st_size for path in (tmp_path / "work").rglob("*") if path.is_file()))
    assert max(requests[20:]) <= max(requests[10:20]) * 1.2
    assert max(sizes[20:]) <= max(sizes[2:20]) * 1.3
    assert max(everything[20:]) <= max(everything[:20]) * 1.1


def _state_bytes(site: Catalog) -> int:
    """Return the bytes of the mirrors that the state refers to; expiring files don't count."""
    return sum(file.bytes for bucket in site.mirror().buckets for file in bucket.files())


# --- incremental and full are the same ----------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.thorough) for seed in (1, 2))])
def test_incremental_runs_publish_the_same_bytes_as_full_runs(tmp_path: Path, seed: int) -> None:
    random_ = random.Random(seed)
    sites = [Catalog(tmp_path / name) for name in ("incremental", "full")]
    for site, changed in zip(sites, (CHANGED, ""), strict=True):
        for table in ("offers", "pages"):
            site.table(table, 40)
        _sections(site, changed)
    touched = FIRST_NIGHT
    for night in range(1, 9):
        for text, values in _edits(random_, night):
            for site in sites:
                site.sql(text, *values)
        touched += timedelta(days=1)
        one, other = [site.night(night).summary for site in sites]
        assert (one.status, one.error) == (other.status, other.error), night
        public, expected = [site.public().contents() for site in sites]
        assert public.keys() == expected.keys()
        for key in public:
            assert public[key] == expected[key], (night, key)
        for name, counts in other.sections.items():
            mine = one.sections[name]
            assert (mine.listed, mine.added, mine.changed, mine.removed) == (
                (counts.listed, counts.added, counts.changed, counts.removed)
            ), (night, name)
            assert mine.extracted + mine.carried == mine.listed + mine.duplicates + mine.excluded + mine.rejected
        assert _without_mirrors(sites[0]) == _without_mirrors(sites[1]), night


def _without_mirrors(site: Catalog) -> dict[str, Any]:
    data = json.loads(json.dumps(essence(site.manifest())))
    for counts in data["counts"].values():
        for name in ("extracted", "carried", "excluded"):
            counts.pop(name, None)
    data["gates"] = [gate for gate in data["gates"] if not gate["name"].endswith("max_rejected")]
    data.pop("to", None)
    return dict(data)


def _sections(site: Catalog, changed: str) -> None:
    select = "SELECT id, loc, lastmod, exclude, gone, sold, lang, pair FROM "
    for name in ("offers", "pages"):
        site.read(
            name,
            select + name,
            changed=changed,
            source={"deleted": "gone", "key": "id"},
            lastmod={"fingerprint": ["sold", "lang"]} if name == "pages" else {"column": "lastmod"},
            priority={"percentile_of": "sold"},
            alternates={"group": "pair", "hreflang": "lang"},
            feed={"formats": ["rss"], "title": name, "items": 5},
        )
    site.keys["gates"] = {"max_drop": 1, "max_growth": 10, "max_rejected": 1}
    site.keys["recent"] = "48h"


def _edits(random_: random.Random, night: int) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Return the statements of one day; each changes the watermark of its rows."""
    touched = (FIRST_NIGHT + timedelta(days=night - 2)).strftime("%Y-%m-%dT12:00:00")
    for _ in range(random_.randrange(12)):
        table = random_.choice(["offers", "pages"])
        column, value = random_.choice(
            [
                ("loc", f"/{random_.choice(['offers', 'pages'])}/{random_.randrange(45):03}"),
                ("loc", f"/elsewhere/{random_.randrange(30)}"),
                ("lastmod", f"2026-10-{random_.randrange(1, 31):02}"),
                ("lastmod", None),
                ("exclude", random_.choice([None, "sold out"])),
                ("gone", random_.randrange(2)),
                ("sold", random_.choice([None, 1, 2.5, random_.randrange(100)])),
                ("lang", random_.choice(["en", "de", "xx-nonsense"])),
                ("pair", random_.choice([None, "a", "b", "c"])),
                ("touched", touched),
            ]
        )
        row = random_.randrange(50)
        if row >= 40:
            text = f"INSERT INTO {table} (id, loc, sold, lang, touched) SELECT max(id) + 1, ?, 3, 'en', ? FROM {table}"
            yield text, (f"/{table}/new-{night}-{random_.randrange(20)}", touched)
        else:
            yield f"UPDATE {table} SET {column} = ?, touched = ? WHERE id = ?", (value, touched, row)
