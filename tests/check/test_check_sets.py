"""Folders and buckets: relations between index, files and robots.txt, and URLs in several files."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest

from sitemap_etl.check import Options, Report, check
from sitemap_etl.check.alternates import Links
from sitemap_etl.check.cross_file import CrossFile, Look, Spill
from sitemap_etl.check.listing import listings
from tests.support.broken_sitemaps import (
    FINE,
    IMAGE,
    MAP,
    NEWS,
    SELF,
    SETS,
    XHTML,
    A,
    B,
    BrokenSet,
    index,
    link,
    news,
    url,
    urls,
    urlset,
)
from tests.support.website import website

MAPS = "https://shop.example/maps/"
NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


def checked(folder: Path, files: dict[str, bytes], *targets: str, **options: object) -> Report:
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    chosen = [str(folder / t) for t in targets] or [str(folder)]
    return check(chosen, options=Options(now=NOW, **options))  # type: ignore[arg-type]


def found(report: Report, folder: Path) -> set[tuple[str, str]]:
    return {(f.code, str(Path(f.file).relative_to(folder))) for f in report.findings}


@pytest.mark.parametrize("broken", SETS, ids=lambda b: b.what)
def test_broken_files_together_have_the_codes_of_their_faults_and_no_others(broken: BrokenSet, tmp_path: Path) -> None:
    assert found(checked(tmp_path, broken.files), tmp_path) == broken.found


def test_two_spellings_of_a_url_are_found_across_files(tmp_path: Path) -> None:
    site = "https://shop.example"
    files = {
        "a.xml": urlset("".join(url(f"{site}/{n}") for n in range(5)) + url(f"{site}/x/") + url(f"{site}/x")),
        "b.xml": urlset(url(f"{site}/other") + "\n" + url(f"{site}/3/") + url(f"{site}/4/") + url(f"{site}/alone/")),
        "c.xml": urlset(url(f"{site}/all/") + url(f"{site}/slashed/") + url(f"{site}/0/")),
    }
    slashes = {Path(f.file).name: f for f in checked(tmp_path, files).findings if f.code == "loc-slash"}
    assert {name: (finding.count, finding.example) for name, finding in slashes.items()} == {
        "a.xml": (1, f"{site}/x"),  # in one file: the one without
        "b.xml": (2, f"{site}/3/"),
        "c.xml": (1, f"{site}/0/"),
    }
    assert slashes["b.xml"].detail.startswith("without the slash in ")
    assert slashes["b.xml"].detail.endswith("a.xml")
    assert slashes["b.xml"].line is not None


def test_spellings_are_not_compared_between_xml_and_text_sitemaps_of_the_same_pages(tmp_path: Path) -> None:
    site = "https://shop.example"
    files = {"a.xml": urlset(url(f"{site}/a")), "a.txt": f"{site}/a/\n".encode()}
    assert "loc-slash" not in {f.code for f in checked(tmp_path, files).findings}


WHOLE = {
    "robots.txt": b"User-agent: *\nDisallow: /cart\nSitemap: https://shop.example/maps/sitemap.xml\n",
    "maps/sitemap.xml": index(
        "https://shop.example/maps/a.xml.gz", "https://shop.example/maps/b.xml", lastmod="2026-11-20T00:00:00Z"
    ),
    "maps/a.xml.gz": gzip.compress(urlset(urls(30, "<lastmod>2026-11-10</lastmod>").replace("11-10", "11-09", 1))),
    "maps/b.xml": urlset(urls(30, "<priority>0.5</priority>", begin=30)),
    "maps/a.txt.gz": gzip.compress("".join(f"https://shop.example/p/{n}\n" for n in range(60)).encode()),
    "0123456789abcdef.txt": b"0123456789abcdef",
    "humans.txt": b"We made this.\n",
    "browserconfig.xml": b"<browserconfig/>",
}


def test_a_complete_valid_set_has_no_findings(tmp_path: Path) -> None:
    """URLs above the sitemap's folder are valid if robots.txt names its index; key files are not sitemaps."""
    report = checked(tmp_path, WHOLE)
    assert report.findings == []
    assert [(s.kind, s.rows) for s in report.files] == [
        ("robots", 1),
        ("index", 2),
        ("text", 60),
        ("urlset", 30),
        ("urlset", 30),
    ]


def test_an_index_given_alone_is_followed_to_files_in_its_folder(tmp_path: Path) -> None:
    report = checked(tmp_path, WHOLE, "maps/sitemap.xml")
    assert len(report.files) == 3
    assert {f.code for f in report.findings} == {"out-of-scope"}  # nothing here says that robots.txt names it


def test_several_targets_are_checked_together(tmp_path: Path) -> None:
    assert checked(tmp_path, WHOLE, "maps", "robots.txt").findings == []


def test_an_index_whose_files_are_not_local_is_reported_as_not_followed(tmp_path: Path) -> None:
    report = checked(tmp_path, {"sitemap.xml": index(A, B)}, "sitemap.xml")
    assert [(f.code, f.severity, f.line) for f in report.findings] == [("not-followed", "info", 3)]


def test_no_listed_file_is_read_with_no_follow(tmp_path: Path) -> None:
    report = checked(tmp_path, {"sitemap.xml": index(A), "a.xml": b"<"}, "sitemap.xml", follow=False)
    assert (report.findings, len(report.files)) == ([], 1)


def test_the_number_of_files_is_bounded(tmp_path: Path) -> None:
    files = {"sitemap.xml": index(A, B)} | {f"{n}.xml": urlset(url(f"https://shop.example/{n}")) for n in "ab"}
    report = checked(tmp_path, files, "sitemap.xml", max_files=2)
    assert [(f.code, f.count) for f in report.findings] == [("files-not-read", 1)]


def test_an_index_cannot_lead_out_of_its_folder(tmp_path: Path) -> None:
    (tmp_path / "secret.xml").write_bytes(FINE)
    paths = ("/../secret.xml", "/..%2Fsecret.xml", "/%2e%2e/secret.xml", "//secret.xml")
    report = checked(tmp_path / "public", {"sitemap.xml": index(*[f"https://shop.example{p}" for p in paths])})
    assert [s.kind for s in report.files] == ["index"]
    assert {f.code for f in report.findings} == {"index-file-missing"} | {
        f.code for f in report.findings if f.code.startswith("loc-")
    }


def test_pages_that_views_repeat_are_not_duplicates(tmp_path: Path) -> None:
    """News, and a file whose URLs are all in others, are not duplicates."""
    files = {
        "sitemap.xml": index(*[f"https://shop.example/{n}.xml" for n in ("products", "articles", "recent", "news")]),
        "products.xml": urlset(urls(40)),
        "articles.xml": urlset(urls(40, begin=40)),
        "recent.xml": urlset(urls(25, "<lastmod>2026-11-21T02:00:00Z</lastmod>", begin=30)),
        "news.xml": urlset(urls(5, news(), begin=70) + url("https://shop.example/n", news()), NEWS),
    }
    report = checked(tmp_path, files)
    assert found(report, tmp_path) == set()
    assert {Path(s.file).name for s in report.files if s.view} == {"recent.xml", "news.xml"}


def test_a_small_site_whose_pages_are_all_recent_has_no_duplicates(tmp_path: Path) -> None:
    files = {
        "sitemap.xml": index(A, "https://shop.example/recent.xml"),
        "a.xml": urlset(urls(3)),
        "recent.xml": urlset(urls(3)),
    }
    assert found(checked(tmp_path, files), tmp_path) == set()


def test_a_duplicate_across_files_shows_its_url_line_and_the_other_file(tmp_path: Path) -> None:
    files = {
        "a.xml": urlset(urls(3)),
        "b.xml": urlset(urls(3, begin=1) + "\n" + url("https://shop.example/?a=1&amp;b")),
    }
    (finding,) = checked(tmp_path, files).findings
    assert (finding.line, finding.count, finding.example) == (3, 2, "https://shop.example/p/1")
    assert finding.detail == f"also in {tmp_path / 'a.xml'}"


def test_a_file_that_repeats_another_is_a_view_only_if_it_shows_why(tmp_path: Path) -> None:
    """Views are recognized by name, by what they add, or by having the latest pages, and not by repeated URLs."""
    picture = "<image:image><image:loc>https://cdn.example/1.jpg</image:loc></image:image>"
    files = {"products.xml": urlset(urls(40)), "products-old.xml": urlset(urls(30))}
    (finding,) = checked(tmp_path / "old", files).findings
    assert (finding.code, Path(finding.file).name, finding.count) == ("duplicate-across", "products-old.xml", 30)
    assert finding.detail == f"also in {tmp_path / 'old' / 'products.xml'}; it lists nothing else"
    files = {"products.xml": urlset(urls(40)), "gallery.xml": urlset(urls(30, picture), IMAGE)}
    assert found(checked(tmp_path / "adds", files), tmp_path / "adds") == set()
    files = {"products.xml": urlset(urls(40, picture), IMAGE), "copy.xml": urlset(urls(30, picture), IMAGE)}
    report = checked(tmp_path / "alike", files)
    assert {code for code, _ in found(report, tmp_path / "alike")} == {"duplicate-across", "lastmod-missing"}
    dated = [
        url(f"https://shop.example/p/{n}", f"<lastmod>2026-{n // 28 + 9:02}-{n % 28 + 1:02}</lastmod>")
        for n in range(70)
    ]
    files = {"products.xml": urlset("".join(dated)), "selection.xml": urlset("".join(dated[60:]))}
    assert found(checked(tmp_path / "latest", files), tmp_path / "latest") == set()
    files = {"products.xml": urlset("".join(dated)), "selection.xml": urlset("".join(dated[20:30]))}
    assert found(checked(tmp_path / "older", files), tmp_path / "older") == {("duplicate-across", "selection.xml")}


def test_files_with_urls_outside_the_folder_are_not_reported_as_missing(tmp_path: Path) -> None:
    """Files of other hosts, and above the folder's address, were not given."""
    robots = f"Sitemap: {A}\nSitemap: https://blog.example/sitemap.xml\n".encode()
    assert found(checked(tmp_path / "one", {"robots.txt": robots, "a.xml": FINE}), tmp_path / "one") == set()
    files = {"index.xml": index("https://shop.example/maps/a.xml", "https://shop.example/maps/b.xml"), "a.xml": FINE}
    report = checked(tmp_path / "two", files, at="https://shop.example/")
    assert ("index-file-missing", "index.xml") in found(report, tmp_path / "two")
    files["index.xml"] = index("https://shop.example/maps/a.xml", "https://shop.example/b.xml")
    report = checked(tmp_path / "three", files, at="https://shop.example/maps/")
    assert {code for code, _ in found(report, tmp_path / "three")} == {"index-out-of-scope", "out-of-scope"}


@pytest.mark.parametrize(
    ("at", "listed", "missing"),
    [
        ("https://shop.example/", "https://shop.example/srv/www/htdocs/s1.xml", True),
        ("https://shop.example/", "https://shop.example/s1.xml", False),
        ("https://shop.example/maps", "https://shop.example/maps/s1.xml", False),
        ("https://shop.example/maps/", "https://shop.example/maps/maps/s1.xml", True),
        ("https://shop.example/", "http://shop.example:80/%731.xml", False),
        (None, "https://shop.example/srv/www/htdocs/s1.xml", False),
    ],
)
def test_a_listed_file_is_found_in_a_folder_whose_public_address_is_given(
    tmp_path: Path, at: str | None, listed: str, missing: bool
) -> None:
    files = {"sitemap.xml": index(listed), "s1.xml": FINE}
    report = checked(tmp_path, files, at=at)
    assert (("index-file-missing", "sitemap.xml") in found(report, tmp_path)) == missing


ITSELF: dict[str, tuple[str, list[str], str | None]] = {
    "alone": ("sitemap.xml", [MAP], None),
    "beside a file": ("sitemap.xml", [A, MAP], None),
    "twice": ("sitemap.xml", [A, MAP, MAP], None),
    "of a folder of the site": ("sitemap.xml", [f"{MAPS}a.xml", f"{MAPS}sitemap.xml"], None),
    "in a folder": ("maps/sitemap.xml", [f"{MAPS}a.xml", f"{MAPS}sitemap.xml"], None),
    "in a folder of the host": ("shop.example/sitemap.xml", [A, MAP], None),
    "at an address": ("sitemap.xml", [f"{MAPS}a.xml", f"{MAPS}sitemap.xml"], MAPS),
    "alone at an address": ("sitemap.xml", [f"{MAPS}sitemap.xml"], MAPS),
    "in another spelling": ("sitemap.xml", [A, "https://shop.example:443/sitemap.xml"], "https://shop.example/"),
}


@pytest.mark.parametrize(("name", "listed", "at"), ITSELF.values(), ids=ITSELF)
def test_an_index_that_lists_itself_is_reported_as_nested_and_not_as_missing(
    tmp_path: Path, name: str, listed: list[str], at: str | None
) -> None:
    page = url(f"{MAPS}a", SELF.replace(A[:-4], f"{MAPS}a") + link("de", f"{MAPS}de"))
    files = {name: index(*listed), f"{Path(name).parent}/a.xml": urlset(page, XHTML)}
    if len(listed) == 1:
        del files[f"{Path(name).parent}/a.xml"]
    for targets in ((), (name,)):
        report = checked(tmp_path, files, *targets, at=at)
        (finding,) = (f for f in report.findings if f.code.startswith("index-") and f.code != "index-duplicate")
        assert (finding.code, Path(finding.file), finding.line) == (
            "index-nested",
            tmp_path / name,
            2 + len(listed[:2]),
        )
        assert (finding.example, finding.detail) == (listed[-1], "it lists itself")
        assert finding.count == listed.count(listed[-1])
        told = {f.code for f in report.findings}
        assert "not-followed" not in told
        assert ("hreflang-unlisted" in told) == (len(listed) > 1), "all was read that there is"


@pytest.mark.parametrize(
    ("listed", "at"),
    [
        ([A, "https://shop.example/blog/sitemap.xml"], None),
        (["https://shop.example/blog/sitemap.xml"], None),
        ([A, "https://shop.example/blog/sitemap.xml"], "https://shop.example/"),
    ],
)
def test_a_missing_index_in_another_folder_with_the_same_name_is_reported(
    tmp_path: Path, listed: list[str], at: str | None
) -> None:
    report = checked(tmp_path, {"sitemap.xml": index(*listed), "a.xml": FINE}, at=at)
    assert {f.code for f in report.findings} - {"file-not-listed"} == {"index-file-missing"}


def test_an_index_on_standard_input_that_lists_itself_is_recognized() -> None:
    options = Options(now=NOW, at=MAP, open_stdin=lambda: BytesIO(index(MAP, A)), robots=False)
    report = check(["-"], options=options)
    assert [(f.code, f.detail) for f in report.findings] == [
        ("index-nested", "it lists itself"),
        ("not-followed", "1 files"),
    ]


def test_pages_of_files_that_were_not_read_are_not_missing(tmp_path: Path) -> None:
    """An alternate may be listed in the missing file; if all files are there, it is reported."""
    page = urlset(url(more=SELF + link("de", "https://shop.example/de")), XHTML)
    files = {"sitemap.xml": index(A, B), "a.xml": page}
    assert found(checked(tmp_path / "one", files), tmp_path / "one") == {("index-file-missing", "sitemap.xml")}
    files["b.xml"] = urlset(url("https://shop.example/b"))
    assert found(checked(tmp_path / "two", files), tmp_path / "two") == {("hreflang-unlisted", "a.xml")}
    cut = index(A)[:-20]
    files = {"sitemap.xml": cut, "a.xml": FINE, "b.xml": files["b.xml"]}
    assert found(checked(tmp_path / "three", files), tmp_path / "three") == {("xml-malformed", "sitemap.xml")}


def test_return_links_of_alternates_are_found_in_other_files(tmp_path: Path) -> None:
    pages = [f"https://shop.example/{tag}/?a=1&amp;b=2" for tag in ("en", "de")]
    both = "".join(link(tag, page) for tag, page in zip(("en", "de"), pages, strict=True))
    files = {f"{n}.xml": urlset(url(page, both), XHTML) for n, page in enumerate(pages)}
    assert found(checked(tmp_path, files), tmp_path) == set()


def test_the_option_at_decides_which_hosts_are_foreign(tmp_path: Path) -> None:
    """The public address of a folder decides which hosts and folders belong to the set."""
    report = checked(tmp_path, {"sitemap.xml": index(A), "a.xml": urlset(url())}, at="https://www.shop.example/")
    assert ("foreign-host", "a.xml") in found(report, tmp_path)


def test_robots_txt_permits_urls_of_another_host_only_if_it_is_from_that_host(tmp_path: Path) -> None:
    robots = f"Sitemap: {MAP}\n".encode()
    files = {"robots.txt": robots, "sitemap.xml": urlset(url("https://pages.example/a"))}
    assert found(checked(tmp_path / "one", files), tmp_path / "one") == set()
    files["sitemap.xml"] = urlset(url("https://pages.example/a") + url())
    assert found(checked(tmp_path / "two", files), tmp_path / "two") == {("foreign-host", "sitemap.xml")}


def test_listings_for_comparison_have_the_same_files_and_rows_as_the_check(tmp_path: Path) -> None:
    """The listing has the same files as the check, without findings."""
    report = checked(tmp_path, WHOLE)
    listed = list(listings(str(tmp_path), Options()))
    assert [(one.name, one.rows.num_rows, one.problem) for one in listed] == [
        (stats.file, stats.rows, "") for stats in report.files if stats.kind not in {"index", "robots"}
    ]
    assert listed[-1].rows.slice(29).to_pylist() == [{"loc": "https://shop.example/p/59", "lastmod": None}]
    dated = next(one for one in listed if one.name.endswith("a.xml.gz"))
    assert dated.rows["lastmod"].to_pylist()[:2] == ["2026-11-09", "2026-11-10"]


def test_a_listing_follows_nested_indexes_and_names_files_it_could_not_read(tmp_path: Path) -> None:
    files = {
        "sitemap.xml": index(A, B, "https://shop.example/gone.xml"),
        "a.xml": index("https://shop.example/c.xml"),
        "b.xml": urlset(url()).replace(b"</urlset>", b""),
        "c.xml": urlset(urls(3)),
    }
    assert "index-nested" in {code for code, _ in found(checked(tmp_path, files, "sitemap.xml"), tmp_path)}
    listed = {Path(one.name).name: one for one in listings(str(tmp_path / "sitemap.xml"), Options())}
    assert {name: one.problem for name, one in listed.items()} == {
        "b.xml": "",  # the elements before the break are whole
        "c.xml": "",
        "gone.xml": "the file does not exist",
    }
    assert listed["c.xml"].rows.num_rows == 3
    (cut,) = listings(str(tmp_path / "c.xml"), Options(max_bytes=len(files["c.xml"]) - 20))
    assert cut.problem.startswith("a part of this file was not checked (it has more than ")
    assert cut.rows.num_rows == 2
    limited = list(listings(str(tmp_path / "sitemap.xml"), Options(max_files=2)))
    assert "there are more files than the limit allows; the rest was not read (the limit is 2)" in [
        one.problem for one in limited
    ]


@pytest.mark.parametrize(("target", "first", "files"), [("folder", 10, 10), ("sitemap.xml", 9, 9), ("web", 2, 11)])
@pytest.mark.parametrize("jobs", [1, 4])
def test_progress_counts_every_file_once(tmp_path: Path, target: str, first: int, files: int, jobs: int) -> None:
    steps: list[tuple[str, int, int]] = []
    with website() as site:
        names = [f"{n}.xml" for n in range(8)]
        made = {
            "robots.txt": f"Sitemap: {site.root}/sitemap.xml\n".encode(),
            "sitemap.xml": index(*(f"{site.root}/{name}" for name in [*names, "missing.xml"])),
        } | dict.fromkeys(names, FINE)
        for name, data in made.items():
            (tmp_path / name).write_bytes(data)
            site.answers[f"/{name}"] = (200, {}, data)
        where = {"folder": str(tmp_path), "web": f"{site.root}/robots.txt"}.get(target, str(tmp_path / target))
        options = Options(now=NOW, jobs=jobs, robots=False)
        check([where], options=options, progress=lambda *step: steps.append(step))
    assert [(stage, done) for stage, done, _ in steps] == [("files", n + 1) for n in range(files)]
    known = [known for _, _, known in steps]
    assert (known[0], known[-1], known) == (first, files, sorted(known))


@dataclass(frozen=True)
class Stat:
    key: str
    size: int


@dataclass
class Bucket:
    """A bucket in memory, for `open_s3`."""

    objects: dict[str, bytes]

    def stat(self, key: str) -> Stat | None:
        return Stat(key, len(self.objects[key])) if key in self.objects else None

    def read(self, key: str, start: int, length: int) -> bytes:
        return self.objects[key][start : start + length]

    def list(self, prefix: str = "") -> Iterator[Stat]:
        return (Stat(key, len(data)) for key, data in sorted(self.objects.items()) if key.startswith(prefix))


def opener(objects: dict[str, bytes]) -> Callable[[str], Bucket]:
    def open_s3(url: str) -> Bucket:
        prefix = url.removeprefix("s3://bucket").strip("/") + "/"
        prefix = "" if prefix == "/" else prefix
        return Bucket({k.removeprefix(prefix): v for k, v in objects.items() if k.startswith(prefix)})

    return open_s3


def test_a_bucket_is_read_like_a_folder() -> None:
    open_s3 = opener({f"site/{key}": data for key, data in WHOLE.items()})
    report = check(["s3://bucket/site"], options=Options(now=NOW, open_s3=open_s3))
    assert report.findings == []
    assert report.files[1].file == "s3://bucket/site/maps/sitemap.xml"
    one = check(["s3://bucket/site/maps/sitemap.xml"], options=Options(now=NOW, open_s3=open_s3))
    assert [s.rows for s in one.files] == [2, 30, 30]


def test_check_can_read_through_the_storage_of_the_package(tmp_path: Path) -> None:
    from sitemap_etl.storage import open_storage

    for key, data in WHOLE.items():
        (tmp_path / key).parent.mkdir(exist_ok=True)
        (tmp_path / key).write_bytes(data)
    options = Options(now=NOW, open_s3=lambda url: open_storage(tmp_path / url.removeprefix("s3://bucket").strip("/")))
    assert check(["s3://bucket/"], options=options).findings == []
    assert len(check(["s3://bucket/maps/sitemap.xml"], options=options).files) == 3


def test_rows_spilled_to_disk_are_in_the_same_buckets_as_in_memory(tmp_path: Path) -> None:
    """Values compared bucket by bucket are the same in memory and on disk."""
    keys = np.random.default_rng(7).integers(0, 2**63, 5000).astype(np.uint64)
    few, many = (Spill(np.dtype("<u8"), tmp_path, name, held=held) for name, held in (("few", 10**6), ("many", 100)))
    for part in np.array_split(keys, 50):
        few.add(part, part)
        many.add(part, part)
    assert len(list(tmp_path.iterdir())) > 0
    for one, other in zip(few.buckets(), many.buckets(), strict=True):
        assert one.tolist() == other.tolist()


def test_sets_too_large_for_memory_are_compared_on_disk(tmp_path: Path) -> None:
    for held in (10, 10**6):
        across = CrossFile(tmp_path / str(held), held=held)
        hashes = np.arange(1000, dtype=np.uint64) * np.uint64(2**50 + 1)
        at = np.arange(1000)
        hosts = np.zeros(1000, np.uint32)
        across.add("a", hashes, at, Links(hashes[:500], hashes[500:], at[:500], hosts[:500]), Look())
        across.add(
            "recent", hashes[:100], at[:100], Links(hashes[500:900], hashes[:400], at[:400], hosts[:400]), Look()
        )
        across.add("c", hashes[50:60] + np.uint64(1), at[:10], None, Look())
        findings = across.findings(lambda _file, at: (at, "x"))
        assert across.views == {1}
        assert [(f.code, f.file, f.count, f.line) for f in findings] == [("hreflang-no-return", "a", 100, 400)]
