"""The command `rollback`: an older release is published again, or the obstacle is reported."""

from __future__ import annotations

import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from sitemap_etl.runs.rollback import roll_back
from sitemap_etl.storage import Stat
from tests.support.command import RUN_KEYS, Done, at, call
from tests.support.sites import FIRST_NIGHT, TestSite, pages
from tests.support.storages import Wrapped, Wrapping


@pytest.fixture
def site(tmp_path: Path) -> TestSite:
    return TestSite(tmp_path).section("products", pages(100, lastmod="2026-10-01"))


def run(site: TestSite, night: int, *arguments: object) -> Done:
    return call("run", site.path, *at(f"2026-11-{night:02}T02:00:00Z"), *arguments)


def test_rollback_publishes_the_previous_release(site: TestSite) -> None:
    run(site, 1)
    site.export("products", pages(95, lastmod="2026-10-01"))
    run(site, 2)
    done = call("rollback", site.path, "--reason", "bad export", "--now", "2026-11-03T09:00:00Z", "--json")
    assert (done.code, done.json["status"]) == (0, "published")
    assert len(site.public().locs()) == 100
    assert "rollback to 20261101T020000Z-" in call("history", site.path).out
    assert done.json["rolled_back_to"].startswith("20261101T020000Z-")
    again = call("rollback", site.path, "--reason", "no, it was right", "--now", "2026-11-03T10:00:00Z")
    assert again.out.startswith("Rolled back to 20261102T020000Z-")


def test_a_rollback_does_not_replace_objects_that_are_not_managed(site: TestSite) -> None:
    run(site, 1)
    site.export("products", pages(95, lastmod="2026-10-01"))
    assert run(site, 2).code == 0
    file = site.folder / "public" / site.manifest().entries[0].file.key
    file.write_bytes(b"<not-ours/>")
    done = call("rollback", site.path, *at("2026-11-03T09:00:00Z"), "--json")
    assert (done.code, done.json["status"]) == (1, "refused")
    assert str(file) in done.json["error"]
    assert "move them elsewhere, and roll back again" in done.json["error"]
    assert "--adopt" not in done.json["error"]
    assert file.read_bytes() == b"<not-ours/>"
    last = call("status", site.path, "--json").json["sites"][0]["last"]
    assert (last["status"], last["error"]) == ("refused", done.json["error"])
    file.rename(site.folder / "elsewhere")
    assert call("rollback", site.path, *at("2026-11-03T09:00:00Z")).code == 0
    assert len(site.public().locs()) == 100


@pytest.mark.parametrize("again", [False, True])
def test_a_rollback_to_the_published_release_says_so_and_does_nothing(site: TestSite, again: bool) -> None:
    old = run(site, 1, "--json").json["run_id"]
    if again:
        site.export("products", pages(95, lastmod="2026-10-01"))
        run(site, 2)
        assert call("rollback", site.path, *at("2026-11-03T09:00:00Z")).code == 0
    before = call("history", site.path).out
    done = call("rollback", site.path, old, *at("2026-11-04T09:00:00Z"))
    assert (done.code, done.err) == (0, "")
    assert done.out == f"The release of run {old} is published already. Nothing was written\n"
    as_json = call("rollback", site.path, old, *at("2026-11-04T09:00:00Z"), "--json").json
    assert (as_json["status"], as_json["run_id"], as_json["exit"]) == ("unchanged", old, 0)
    assert set(as_json) >= RUN_KEYS
    assert call("history", site.path).out == before


def test_rollback_without_an_earlier_release_ends_with_exit_code_2(site: TestSite) -> None:
    assert call("rollback", site.path).code == 2
    run(site, 1)
    done = call("rollback", site.path)
    assert (done.code, done.err) == (2, "shop: the current release is the only one\n")


def test_a_rollback_to_a_deleted_release_names_the_remaining_ones(site: TestSite) -> None:
    old = run(site, 1, "--json").json["run_id"]
    site.export("products", pages(95, lastmod="2026-10-01"))
    run(site, 2)
    done = call("rollback", site.path, "20200101T000000Z-0000")
    assert (done.code, done.err) == (2, f"20200101T000000Z-0000: there is no such release. Choose from: {old}\n")


@pytest.mark.parametrize("moved", [(), ("--moved",)])
def test_a_rollback_refuses_a_release_of_another_site(site: TestSite, moved: tuple[str, ...]) -> None:
    """Its pages have another origin, which engines don't accept in a sitemap of this one."""
    old = run(site, 1, "--json").json["run_id"]
    site.keys["site"] = "https://www.shop.example"
    if not moved:
        assert run(site, 2, "--moved", "--force", "products.max_drop", "--force", "max_drop").code == 0

    def public() -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in (site.folder / "public").iterdir() if path.is_file()}

    before = public()
    done = call("rollback", site.path, old, *at("2026-11-03T09:00:00Z"), *moved)
    assert done.code == 2
    assert f"run {old} published pages of another site, such as https://shop.example/p/000000" in done.err
    assert "set `site` (and where it is published) back in the site file, and pass --moved" in done.err
    assert public() == before
    site.keys["site"] = "https://shop.example"
    forced = () if moved else ("--force", "products.max_drop")
    assert call("rollback", site.path, old, "--moved", *forced, *at("2026-11-04T09:00:00Z")).code == 0
    assert len(site.public().locs()) == 100


def test_a_dry_run_of_a_rollback_shows_what_it_would_publish(site: TestSite) -> None:
    run(site, 1)
    site.export("products", pages(95, lastmod="2026-10-01"))
    run(site, 2)
    before = (site.public().locs(), site.manifest())
    shown = call("rollback", site.path, "--dry-run", *at("2026-11-03T09:00:00Z"))
    assert (shown.code, shown.err) == (0, "")
    assert "Dry run. Nothing was published" in shown.out
    assert "sitemap-products-00001.xml.gz" in shown.out
    assert "to publish exactly this" not in shown.out
    done = call("rollback", site.path, "--dry-run", *at("2026-11-03T10:00:00Z"), "--json").json
    assert (done["status"], done["sections"]["products"]["added"]) == ("dry_run", 5)
    assert (site.public().locs(), site.manifest()) == before


def test_a_rollback_that_drops_many_pages_is_refused_until_it_is_forced(site: TestSite) -> None:
    run(site, 1)
    site.export("products", pages(200, lastmod="2026-10-01"))
    run(site, 2)
    done = call("rollback", site.path, *at("2026-11-03T09:00:00Z"), "--json")
    assert (done.code, done.json["status"]) == (1, "refused")
    assert "products would drop 100 of 200 URLs" in done.json["error"]
    assert "--force products.max_drop --reason" in done.json["error"]
    assert len(site.public().locs()) == 200
    force = ("--force", "products.max_drop", "--reason", "facets")
    forced = call("rollback", site.path, *at("2026-11-03T09:00:00Z"), *force)
    assert forced.code == 0
    assert len(site.public().locs()) == 100
    assert site.manifest().forced == ("products.max_drop",)
    assert "facets" in call("history", site.path).out


def test_a_rollback_below_the_minimum_number_of_pages_is_refused_until_it_is_forced(site: TestSite) -> None:
    run(site, 1)
    site.export("products", pages(200, lastmod="2026-10-01"))
    run(site, 2)
    site.keys["gates"] = {"max_drop": 1, "min_urls": 150}
    shown = call("rollback", site.path, "--dry-run", *at("2026-11-03T08:00:00Z"))
    assert "min_urls" in shown.out
    done = call("rollback", site.path, *at("2026-11-03T09:00:00Z"), "--json")
    assert (done.code, done.json["status"]) == (1, "refused")
    assert {gate["name"] for gate in done.json["gates"] if gate["status"] == "refused"} == {
        "min_urls",
        "products.min_urls",
    }
    assert len(site.public().locs()) == 200
    force = ("--force", "products.min_urls", "--force", "min_urls", "--reason", "half was test data")
    assert call("rollback", site.path, *at("2026-11-03T10:00:00Z"), *force).code == 0
    assert len(site.public().locs()) == 100
    assert site.manifest().reason == "half was test data"


@pytest.mark.parametrize("time", ["0206-11-20T02:00:00Z", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"])
@pytest.mark.parametrize("command", ["run", "rollback"])
def test_an_implausible_year_is_reported(site: TestSite, command: str, time: str) -> None:
    run(site, 1)
    done = call(command, site.path, *at(time))
    assert (done.code, done.out) == (2, "")
    assert done.err == f"--now {time}: expected a year from 1970 to 9998\n"


class _Seen(Wrapped):
    """A storage that reads the release after each write."""

    def put(self, key: str, data: Any, **options: Any) -> Stat:
        outer: Any = self._outer
        with outer.alone:  # files are written side by side
            stat: Stat = self._inner.put(key, data, **options)
            if key.startswith("sitemap"):
                outer.looks.append(set(outer.site.public().locs()))
        return stat


class Seen(Wrapping):
    storage = _Seen

    def __init__(self, site: TestSite) -> None:
        self.site = site
        self.looks: list[set[str]] = []
        self.alone = threading.RLock()


def test_a_rollback_of_renamed_sections_never_unlists_a_page(
    site: TestSite,
) -> None:
    """The same rows are then in other files with the same snapshots."""
    site.section("pages", pages(50, 500, lastmod="2026-10-01"))
    run(site, 1)
    keys = site.keys["sections"]
    keys["goods"], keys["products"] = keys.pop("products"), keys.pop("pages")
    assert run(site, 2, "--force=products.max_drop", "--force=products.max_growth").code == 0
    everything = set(site.public().locs())
    assert len(everything) == 150
    seen = Seen(site)
    done = roll_back(site.load(), None, seen.around(site.at(FIRST_NIGHT + timedelta(days=2))), reason="x")
    assert done is not None
    assert done.summary.status == "published"
    assert len(seen.looks) >= 2
    assert all(look == everything for look in seen.looks)


@pytest.mark.parametrize("small", [False, True])
def test_a_rollback_gives_the_same_result_for_any_number_of_ranges(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small: bool
) -> None:
    """Two sections with interleaved URLs; pages are changed, added, removed, and move."""
    if small:
        monkeypatch.setattr("sitemap_etl.runs.rollback.WINDOW_ROWS", 10)
        monkeypatch.setattr("sitemap_etl.state.snapshots._BATCH_ROWS", 7)
    site = TestSite(tmp_path, gates={"max_drop": 1, "max_growth": 9})
    loose = {"lastmod": {"fingerprint": ["version"]}, "shards": {"rows": 20}, "gates": {"max_drop": 1, "max_growth": 9}}

    def rows(numbers: range, version: int) -> list[dict[str, Any]]:
        return [{"loc": f"/p/{n:03}", "version": version + (n % 3 == 0)} for n in numbers]

    site.section("even", rows(range(0, 200, 2), 1), **loose).section("odd", rows(range(1, 200, 2), 1), **loose)
    site.night(1)
    site.export("even", rows(range(40, 240, 2), 2))
    site.export("odd", rows(range(1, 150, 2), 1) + rows(range(0, 30, 2), 1))
    site.night(2)
    changed = site.public().by_loc()
    done = roll_back(site.load(), None, site.at(FIRST_NIGHT + timedelta(days=2)), reason="x")
    assert done is not None
    counts = {name: (one.added, one.changed, one.removed) for name, one in done.summary.sections.items()}
    assert counts == {"even": (5, 80, 20), "odd": (25, 0, 0)}
    assert len(site.public().locs()) == 200
    # What the next run reads is as it was before the rollback, and is dated so.
    again = {name: (one.added, one.changed) for name, one in site.night(4).summary.sections.items()}
    assert again == {"even": (20, 80), "odd": (0, 0)}
    assert {loc: page.lastmod for loc, page in site.public().by_loc().items()} == {
        loc: page.lastmod for loc, page in changed.items()
    }
