"""`init --from` a live sitemap: names, sections and counts to continue with."""

from __future__ import annotations

import functools
import gzip
import http.server
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.beginnings import runs, started
from tests.support.command import call


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def live(tmp_path: Path) -> Iterator[str]:
    """A site on loopback, served from the folder `live`."""
    (tmp_path / "live").mkdir()

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_args: object) -> None:
            pass

    handler = functools.partial(Quiet, directory=str(tmp_path / "live"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


NS = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'


def put(name: str, *locs: str, index: bool = False) -> None:
    outer, inner = ("sitemapindex", "sitemap") if index else ("urlset", "url")
    dated = "" if index else "<lastmod>2026-10-01T10:00:00</lastmod>"
    entries = "".join(f"<{inner}><loc>{loc}</loc>{dated}</{inner}>" for loc in locs)
    path = Path("live") / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'<?xml version="1.0"?><{outer} {NS}>{entries}</{outer}>')


@pytest.mark.parametrize("address", ["https://[shop.example/sitemap.xml", "http://[::1", "https://shop.example:x/"])
def test_a_malformed_address_is_an_error_of_the_call(tmp_path: Path, address: str) -> None:
    done = call("init", tmp_path / "shop.yaml", "--from", address)
    assert (done.code, "is not an http or https address" in done.err) == (2, True), done.err


def test_an_empty_value_is_an_error_of_the_call(tmp_path: Path) -> None:
    done = call("init", tmp_path / "shop.yaml", "--from", "")
    assert (done.code, "got an empty value" in done.err) == (2, True), done.err


def test_names_and_sections_are_derived_from_a_live_sitemap(live: str) -> None:
    names = ["maps/product-sitemap1.xml", "maps/product-sitemap2.xml", "maps/page-sitemap1.xml"]
    put("maps/sitemap_index.xml", *(f"{live}/{name}" for name in names), index=True)
    for name in names:
        put(name, *(f"{live}/{name[5:-4]}/{n}" for n in range(10)))
    Path("live/robots.txt").write_text(f"Sitemap: {live}/maps/sitemap_index.xml\n")
    site = started(f"{live}/")
    assert site["site"] == live
    assert site["publish"] == {
        "to": "./public",
        "at": f"{live}/maps/",
        "names": {"index": "sitemap_index.xml", "file": "{section}-sitemap{number}.xml"},
    }
    assert {name: section["from"] for name, section in site["sections"].items()} == {
        "product": {"csv": "exports/product.csv.gz"},
        "page": {"csv": "exports/page.csv.gz"},
    }
    assert "section product: 20 URLs in 2 files" in site["json"]["notes"]
    runs(30)
    done = call("run", "site.yaml", "--dry-run", "--against", f"{live}/maps/sitemap_index.xml", "--json")
    against = done.json["against"]
    assert (against["both"], against["only_here"]["count"], against["only_there"]["count"]) == (30, 0, 0)


def test_only_some_files_of_each_series_of_a_large_live_sitemap_are_read(live: str) -> None:
    names = [f"sitemap-p-{n:04}.xml" for n in range(45)]
    put("sitemap.xml", *(f"{live}/{name}" for name in (*names, "sitemap-blog.xml")), index=True)
    for name in (*names, "sitemap-blog.xml"):
        put(name, *(f"{live}/{name}/{n}" for n in range(3)))
    site = started(f"{live}/sitemap.xml")
    notes = site["json"]["notes"]
    assert "section p: about 135 URLs in 45 files" in notes
    assert any("section p: 20 of 45 files were read" in note for note in notes)
    assert site["publish"] == {"to": "./public", "names": {"file": "sitemap-{section}-{number:04}.xml"}}
    runs(63)


def test_init_reads_a_local_sitemap_with_invalid_dates(tmp_path: Path) -> None:
    (tmp_path / "live").mkdir()
    put("map.xml", "https://shop.example/a", "/b")
    text = Path("live/map.xml").read_text().replace("2026-10-01T10:00:00", "1790000000")
    Path("live/map.xml").write_text(text)
    site = started("live/map.xml")
    assert (site["site"], site["publish"]) == (
        "https://shop.example",
        {"to": "./public", "names": {"index": "map.xml"}},
    )
    assert list(site["sections"]) == ["pages"]
    runs(2)


@pytest.mark.parametrize(
    ("listed", "names", "said"),
    [
        pytest.param(
            {"post-sitemap1.xml": []},
            {"index": "post-sitemap1.xml"},
            "sitemaps get new names, such as sitemap-post-00001.xml.gz: with those they have, post-sitemap1.xml would "
            "name both an index and a sitemap",
            id="one file, its name with a number",
        ),
        pytest.param({"all2.xml": []}, {"index": "all2.xml"}, "such as sitemap-all-00001.xml.gz", id="without a dash"),
        pytest.param({"m1.xml": []}, {"index": "m1.xml"}, "such as sitemap-m-00001.xml.gz", id="one letter"),
        pytest.param(
            {"sitemap-p-00001.xml": []},
            {"index": "sitemap-p-00001.xml"},
            "such as sitemap-p-00001.xml.gz",
            id="like the names of ours",
        ),
        pytest.param(
            {"s-3.xml": ["s-1.xml", "s-2.xml"]},
            {"index": "s-3.xml"},
            "such as sitemap-s-00001.xml.gz",
            id="an index called like its files",
        ),
        pytest.param(
            {"s.xml": ["s-1.xml", "s-2.xml"]},
            {"index": "s.xml"},
            "s.xml would name both an index and a sitemap",
            id="files called like further indexes",
        ),
        pytest.param(
            {"robots.txt": ["p-1.xml", "p-2.xml"]},
            {"file": "{section}-{number}.xml"},
            "the new index is sitemap.xml: p-1.xml is a sitemap, and its name stays that of one",
            id="no index",
        ),
        pytest.param(
            {"index.xml": ["post-sitemap.xml", "post-sitemap2.xml", "page-sitemap.xml"]},
            {"index": "index.xml", "file": "{section}-sitemap{number}.xml"},
            "1 of 3 sitemaps have names of the form {section}-sitemap{number}.xml; the others, such as "
            "post-sitemap.xml, get new ones",
            id="some of the names",
        ),
    ],
)
def test_existing_names_are_kept_only_if_each_belongs_to_one_file(
    live: str, listed: dict[str, list[str]], names: dict[str, str], said: str
) -> None:
    ((target, files),) = listed.items()
    for name in files or [target]:
        put(name, *(f"{live}/{name}/{n}" for n in range(5)))
    if target == "robots.txt":
        Path("live/robots.txt").write_text("".join(f"Sitemap: {live}/{name}\n" for name in files))
    elif files:
        put(target, *(f"{live}/{name}" for name in files), index=True)
    site = started(f"{live}/{target}")
    assert site["publish"] == {"to": "./public", "names": names}
    assert any(note.startswith("publish.names: ") and said in note for note in site["json"]["notes"])
    runs(5 * len(files or [target]))


def test_a_single_sitemap_with_a_default_name_keeps_its_name(live: str) -> None:
    put("x.xml", *(f"{live}/{n}" for n in range(5)))
    Path("live/sitemap-p-00001.xml.gz").write_bytes(gzip.compress(Path("live/x.xml").read_bytes()))
    site = started(f"{live}/sitemap-p-00001.xml.gz")
    names = {"index": "sitemap-p-00001.xml.gz", "file": "{section}-{number:05}.xml.gz"}
    assert site["publish"]["names"] == names
    runs(5)


def test_two_spellings_of_the_origin_in_a_live_sitemap_are_the_same_site(live: str) -> None:
    other = live.replace("http:", "https:")
    put("maps/map.xml", *(f"{other if n > 200 else live}/{n}" for n in range(300)))
    site = started(f"{live}/maps/map.xml")
    assert (site["site"], site["urls"]) == (live, {"same_as": [other], "bare": "reject"})
    assert f"some pages are at {other}: by urls.same_as they are listed at {live}" in site["json"]["notes"]
    runs(300)
    Path("site.yaml").unlink()
    shutil.rmtree("exports")
    site = started(f"{live}/maps/map.xml", "--site", other)
    assert (site["site"], site["urls"], site["publish"]["at"]) == (
        other,
        {"same_as": [live], "bare": "reject"},
        f"{other}/maps/",
    )
    runs(300)


def test_pages_of_the_live_sitemap_missing_in_the_export_are_reported(live: str) -> None:
    put("sitemap.xml", f"{live}/rich-1.xml", f"{live}/rich-2.xml", f"{live}/plain.xml", index=True)
    for name in ("rich-1.xml", "rich-2.xml", "plain.xml"):
        put(name, f"{live}/{name}/a", f"{live}/{name}/b")
    extra = (
        '<image:image><image:loc>https://cdn.example/a.jpg</image:loc></image:image><x:link rel="alternate" '
        f'hreflang="de" href="{live}/de"/><priority>0.5</priority></url>'
    )
    text = Path("live/rich-1.xml").read_text().replace("</url>", extra, 1)
    spaces = (
        'xmlns:x="http://www.w3.org/1999/xhtml" xmlns:image="http://www.google.com/schemas/sitemap-image/1.1" '
        'xmlns:video="http://www.google.com/schemas/sitemap-video/1.1"'
    )
    Path("live/rich-1.xml").write_text(text.replace(NS, f"{NS} {spaces}"))
    notes = started(f"{live}/sitemap.xml")["json"]["notes"]
    said = (
        "section rich: the live sitemap has images, hreflang and priority, which are not taken over: columns of your "
        "own source can bring them"
    )
    assert [note for note in notes if "not taken over" in note] == [said]
    text = Path("site.yaml").read_text()
    assert text.count("(not in this export, but in the live sitemap: images, hreflang and priority)") == 1
    runs(6)


def test_init_from_something_other_than_a_sitemap_writes_nothing(live: str) -> None:
    Path("live/index.html").write_text("<html><body>Welcome</body></html>")
    done = call("init", "--from", live)
    assert done.code == 1
    assert "robots.txt names no sitemap that lists a page, and there is none at /sitemap.xml" in done.err
    assert call("init", "--from", "http://127.0.0.1:1/sitemap.xml").code == 3
    put("sitemap.xml", f"{live}/a")
    Path("exports").mkdir()
    Path("exports/pages.csv.gz").write_text("mine")
    done = call("init", "--from", f"{live}/sitemap.xml")
    assert done.code == 2
    assert "exports/pages.csv.gz already exists, and init never replaces a file" in done.err
    assert not Path("site.yaml").exists()
