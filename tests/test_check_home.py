"""`check` from a home page: sitemaps are found through robots.txt, then at the usual addresses."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from broken_sitemaps import index, urlset
from test_check_web import NOW

from sitemap_etl.check import Options, Report, check
from sitemap_etl.check.home import is_home
from sitemap_etl.check.sources import given
from sitemap_etl.errors import ConfigError
from tests.support.command import call
from tests.support.live_site import Answer, Website, document, website

XML = {"Content-Type": "application/xml"}
TEXT = {"Content-Type": "text/plain"}


@pytest.fixture
def site() -> Iterator[Website]:
    with website() as made:
        made.answers["/"] = Answer(body=document("home"))
        yield made


def listing(site: Website, path: str) -> None:
    page = f"<url><loc>{site.root}/a</loc><lastmod>2026-11-01</lastmod></url>"
    site.answers[path] = Answer(headers=XML, body=urlset(page))


def checked(target: str, **options: object) -> Report:
    return check([target], options=Options(now=NOW, **options))  # type: ignore[arg-type]


def names(report: Report, site: Website) -> list[str]:
    return [stats.file.removeprefix(site.root) for stats in report.files]


def robots(site: Website, *lines: str) -> None:
    site.answers["/robots.txt"] = Answer(headers=TEXT, body="\n".join(["User-agent: *", "Allow: /", *lines]).encode())


@pytest.mark.parametrize("slash", ["", "/"])
def test_the_sitemaps_that_robots_txt_names_are_checked(site: Website, slash: str) -> None:
    robots(site, f"Sitemap: {site.root}/one.xml", f"sitemap:{site.root}/all.xml")
    listing(site, "/one.xml")
    listing(site, "/two.xml")
    site.answers["/all.xml"] = Answer(headers=XML, body=index(f"{site.root}/two.xml"))
    report = checked(site.root + slash)
    assert set(names(report, site)) == {"/robots.txt", "/one.xml", "/all.xml", "/two.xml"}
    assert report.notes == [f"{site.root}/robots.txt names 2 sitemaps."]


@pytest.mark.parametrize("path", ["/sitemap.xml", "/wp-sitemap.xml"])
def test_without_sitemaps_in_robots_txt_the_usual_addresses_are_tried(site: Website, path: str) -> None:
    robots(site)
    listing(site, path)
    report = checked(site.root)
    assert path in names(report, site)
    assert report.notes == [f"{site.root}/robots.txt names no sitemap; a sitemap was found at {site.root}{path}."]


def test_an_html_page_at_a_usual_address_is_not_a_sitemap(site: Website) -> None:
    site.answers["/sitemap.xml"] = Answer(body=document("our pages"))
    listing(site, "/sitemap_index.xml")
    assert "/sitemap_index.xml" in names(checked(site.root), site)


def test_a_home_page_without_sitemaps_is_a_finding_with_all_addresses_tried(site: Website) -> None:
    report = checked(site.root)
    assert "html-page" in {finding.code for finding in report.findings}
    assert "no sitemap was found at the usual addresses (/sitemap.xml, " in report.notes[0]
    assert report.exit_code() == 1


def test_robots_txt_is_not_requested_if_switched_off(site: Website) -> None:
    robots(site, f"Sitemap: {site.root}/one.xml")
    listing(site, "/one.xml")
    listing(site, "/sitemap.xml")
    report = checked(site.root, robots=False)
    assert names(report, site) == ["/sitemap.xml"]
    assert "/robots.txt" not in site.paths()


def test_every_output_says_how_the_sitemaps_were_found(site: Website, tmp_path: Path) -> None:
    listing(site, "/sitemap.xml")
    way = f"a sitemap was found at {site.root}/sitemap.xml."
    page = tmp_path / "report.html"
    done = call("check", site.root, "--html", str(page))
    assert way in " ".join(done.out.split())
    assert way in call("check", site.root, "--json").json["notes"][0]
    assert way in page.read_text("utf-8")


@pytest.mark.parametrize("url", ["https://shop.example/a", "https://shop.example/?a=1", "https://shop.example/#a"])
def test_other_urls_of_a_site_are_not_home_pages(url: str) -> None:
    assert not is_home(url)


def test_a_bare_host_name_means_the_home_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("shop.example", "www.shop.example/"):
        (target,) = given([name], Options())
        assert target.url == f"https://{name}"
    (tmp_path / "shop.example").mkdir()
    (target,) = given(["shop.example"], Options())
    assert target.url == ""
    for name in ("sitemap.xml", "pages.csv", "public", "shop.example/sitemap.xml", "a.xml.gz"):
        with pytest.raises(ConfigError, match="no such file or folder"):
            given([name], Options())
