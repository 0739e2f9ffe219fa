"""Loading a site file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from sitemap_etl.config import from_json, load
from sitemap_etl.errors import ConfigError
from sitemap_etl.settings import (
    ChangefreqColumn,
    ChangefreqConstant,
    CsvSource,
    DatabaseSource,
    DefaultRule,
    Gates,
    LastmodColumn,
    LastmodFingerprint,
    LastmodNewestOf,
    Names,
    NoRule,
    ParquetSource,
    PriorityColumn,
    PriorityConstant,
    PriorityDepth,
    PriorityPercentile,
    Schedule,
    Shards,
    Split,
    scope_problem,
)
from sitemap_etl.urls import origin
from tests.site_files import FULL, MINIMAL, loaded, problems, written


def section_of(folder: Path, rules: str):
    """Return the only section of a file after adding these lines to it."""
    text = MINIMAL + "".join(f"    {line}\n" for line in rules.splitlines())
    return loaded(folder, text).sections["pages"]


def test_site_publish_and_one_section_are_sufficient(tmp_path):
    site = loaded(tmp_path, MINIMAL)
    public = str(tmp_path / "sites" / "public")
    assert site.name == "shop"
    assert site.work == str(tmp_path / "sites" / ".sitemap-etl")
    assert not site.says_work
    assert (site.publish.to, site.publish.at, site.publish.root) == (public, "https://shop.example/", public)
    assert site.publish.names == Names()
    assert site.publish.conditional_writes
    assert (site.schedule, site.recent, site.keep) == (None, None, 14)
    assert site.gates == Gates(max_drop=0.1, max_growth=1.0, max_rejected=0.05, min_urls=1)
    assert site.ping.engines() == {}
    pages = site.sections["pages"]
    assert pages.source == CsvSource(csv=(str(tmp_path / "sites/exports/pages.csv"),))
    assert pages.lastmod == DefaultRule()
    assert pages.priority == DefaultRule()
    assert pages.changefreq == DefaultRule()
    assert pages.shards == Shards(rows=50_000, bytes=52_428_800, fill=0.9)
    assert (pages.view, pages.formats, pages.on_error, pages.gates) == (False, ("xml",), "fail", site.gates)


def test_every_key_of_a_site_file_is_read(tmp_path):
    site = loaded(tmp_path, FULL)
    assert site.schedule == Schedule(cron="0 2 * * *", timezone="Europe/Berlin")
    assert (site.work, site.recent, site.keep) == ("s3://shop-private/sitemaps", timedelta(days=3), 30)
    assert (site.publish.sse, site.publish.checksums, site.publish.cross_submit) == ("aws:kms", "when_required", True)
    assert not site.publish.conditional_writes
    assert site.publish.cache_control == "public, max-age=600"
    assert site.urls.same_as == ("http://shop.example",)
    assert site.urls.strip == ("tracking", "sessions")
    assert site.urls.exclude == ("/internal/", "*/print$")
    assert site.urls.respect_robots
    assert list(site.sections) == ["products", "articles", "news", "pages"]
    products = site.sections["products"]
    assert products.source == DatabaseSource(
        database="catalog",
        query="SELECT id, loc FROM products\n",
        sql=str(tmp_path / "sql/products.sql"),
        params={"lang": "en", "least": 3, "live": True, "rate": 0.5},
        split=Split(column="id", parts=4),
    )
    assert products.lastmod == LastmodNewestOf(newest_of=("updated_at", "priced_at"), timezone="Europe/Berlin")
    assert products.priority == PriorityPercentile(percentile_of="sales")
    assert products.changefreq == ChangefreqConstant(word="daily")
    assert (products.where, products.transform) == ("stock > 0", "shop.hooks:only_live")
    assert products.alternates
    assert (products.alternates.cluster, products.alternates.x_default) == ("goods", "en")
    assert products.feed
    assert (products.feed.title, products.feed.items, products.feed.formats) == ("New", 50, ("rss", "atom"))
    assert products.formats == ("xml", "text")
    assert not products.view
    assert products.gates == Gates(max_drop=0.5, max_growth=2, max_rejected=0.1, min_urls=10)
    articles = site.sections["articles"]
    assert isinstance(articles.source, ParquetSource)
    assert articles.source.parquet == ("s3://exports/articles/*.parquet",)
    assert articles.source.query == "SELECT * FROM source"
    assert articles.columns == {"loc": "permalink"}
    assert articles.lastmod == LastmodFingerprint(
        fingerprint=("title", "body_sha1"), until_changed="published_at", first_seen=True
    )
    assert articles.on_error == "keep"
    news = site.sections["news"]
    assert isinstance(news.source, CsvSource)
    assert news.source.csv == (str(tmp_path / "sites/exports/news.csv.gz"), "s3://exports/more.csv")
    assert news.source.delimiter == ";"
    assert list(site.ping.engines()) == ["indexnow", "search_console", "bing", "websub", "http_ping"]


def test_a_stored_site_is_read_back_exactly(tmp_path):
    site = loaded(tmp_path, FULL)
    stored = json.dumps(site.to_json())
    assert from_json(json.loads(stored)) == site
    assert json.dumps(from_json(json.loads(stored)).to_json()) == stored


def test_a_stored_site_is_read_without_its_file(tmp_path):
    path = written(tmp_path, FULL)
    stored = load(path, environ={}).to_json()
    path.unlink()
    (tmp_path / "sql/products.sql").unlink()
    source = from_json(stored).sections["products"].source
    assert isinstance(source, DatabaseSource)
    assert source.query == "SELECT id, loc FROM products\n"


def test_a_stored_site_of_another_version_can_have_more_or_fewer_keys(tmp_path):
    site = loaded(tmp_path, FULL)
    stored = site.to_json()
    stored["colour"] = "red"
    stored["sections"]["products"]["lastmod"]["colour"] = "red"
    stored["ping"]["indexnow"]["colour"] = "red"
    assert from_json(stored) == site
    del (
        stored["gates"]["min_urls"],
        stored["sections"]["pages"]["shards"]["fill"],
        stored["ping"]["indexnow"]["endpoint"],
    )
    found = from_json(stored)
    assert found.gates.min_urls == 1
    assert found.sections["pages"].shards == site.sections["pages"].shards
    assert found.ping == site.ping


def test_an_incompatible_stored_site_is_refused_with_an_explanation():
    with pytest.raises(ConfigError, match="another version"):
        from_json({"name": "shop"})


def test_a_loaded_site_is_immutable(tmp_path):
    site = loaded(tmp_path, MINIMAL)
    with pytest.raises(ValueError, match="frozen"):
        site.keep = 3


@pytest.mark.parametrize(
    ("written_as", "rule"),
    [
        ("lastmod: updated_at", LastmodColumn(column="updated_at")),
        ("lastmod: none", NoRule()),
        ("lastmod: {column: none}", LastmodColumn(column="none")),
        (
            "lastmod: {column: u, timezone: UTC, unit: ms}",
            LastmodColumn(column="u", timezone="UTC", unit="ms"),
        ),
        ("lastmod: {newest_of: [a, b]}", LastmodNewestOf(newest_of=("a", "b"))),
        ("lastmod: {fingerprint: [a]}", LastmodFingerprint(fingerprint=("a",))),
        ("lastmod: null", DefaultRule()),
    ],
)
def test_lastmod_may_be_written_in_each_way(tmp_path, written_as, rule):
    assert section_of(tmp_path, written_as).lastmod == rule


@pytest.mark.parametrize(
    ("written_as", "rule"),
    [
        ("priority: importance", PriorityColumn(column="importance")),
        ("priority: {column: none}", PriorityColumn(column="none")),
        ("priority: {percentile_of: sales}", PriorityPercentile(percentile_of="sales")),
        ("priority: {depth: true}", PriorityDepth(depth=True)),
        ("priority: none", NoRule()),
    ],
)
def test_priority_may_be_written_in_each_way(tmp_path, written_as, rule):
    assert section_of(tmp_path, written_as).priority == rule


@pytest.mark.parametrize(
    ("number", "tenths"), [("0.8", 8), ("1", 10), ("0", 0), (".5", 5), ("0.05", 1), ("0.25", 3), ("0.35", 4)]
)
def test_a_priority_is_rounded_half_up_to_tenths(tmp_path, number, tenths):
    rule = section_of(tmp_path, f"priority: {number}").priority
    assert isinstance(rule, PriorityConstant)
    assert rule.tenths == tenths


@pytest.mark.parametrize(
    ("written_as", "rule"),
    [
        ("changefreq: weekly", ChangefreqConstant(word="weekly")),
        ("changefreq: how_often", ChangefreqColumn(column="how_often")),
        ("changefreq: {column: weekly}", ChangefreqColumn(column="weekly")),
        ("changefreq: none", NoRule()),
    ],
)
def test_changefreq_is_a_constant_if_the_protocol_has_the_word_and_else_a_column(tmp_path, written_as, rule):
    assert section_of(tmp_path, written_as).changefreq == rule


def test_a_news_section_is_a_view_with_its_own_limits(tmp_path):
    news = section_of(tmp_path, "news: {publication: The Times, language: en}")
    assert news.view
    assert (news.shards.rows, news.shards.fill) == (1_000, 1.0)
    assert (news.gates.max_drop, news.gates.min_urls, news.gates.max_growth) == (1.0, 0, 1.0)


def test_limits_of_a_news_section_override_the_limits_for_news(tmp_path):
    rules = "news: {publication: The Times, language: en}\nshards: {rows: 50, fill: 0.5}"
    shards = section_of(tmp_path, rules).shards
    assert (shards.rows, shards.fill) == (50, 0.5)


def test_a_gate_of_a_section_overrides_the_gate_for_views(tmp_path):
    view = section_of(tmp_path, "view: true\ngates: {max_drop: 0.3}")
    assert (view.gates.max_drop, view.gates.min_urls) == (0.3, 0)


def test_a_section_with_feeds_is_not_a_view(tmp_path):
    section = section_of(tmp_path, "feed: {}")
    assert not section.view
    assert section.feed
    assert (section.feed.title, section.feed.items, section.feed.formats) == ("pages", 100, ("rss", "atom"))


@pytest.mark.parametrize("formats", ["[text]", "[xml, text]", "[text, xml, text]"])
def test_xml_is_always_written(tmp_path, formats):
    assert section_of(tmp_path, f"formats: {formats}").formats == ("xml", "text")


def test_a_cluster_is_named_after_its_section_by_default(tmp_path):
    alternates = section_of(tmp_path, "alternates: {group: g, hreflang: l}").alternates
    assert alternates
    assert (alternates.cluster, alternates.x_default) == ("pages", None)


@pytest.mark.parametrize(
    "text",
    [
        "https://shop.example",
        "HTTPS://Shop.Example:443/",
        "http://shop.example:8080",
        "https://bücher.example",
        "https://faß.de/",
        "https://www.例え.jp",
        "https://127.0.0.1:8443",
        "http://[::1]:80/",
        "https://my_shop.example",
    ],
)
def test_the_origin_of_a_site_is_canonical(tmp_path, text):
    site = loaded(tmp_path, MINIMAL.replace("https://shop.example", f'"{text}"'))
    assert site.site == origin(text)
    assert site.publish.at == f"{site.site}/"


def test_same_as_omits_the_origin_of_the_site_itself(tmp_path):
    text = MINIMAL + "urls: {same_as: ['http://Shop.example:80', 'https://shop.example/', http://shop.example]}\n"
    assert loaded(tmp_path, text).urls.same_as == ("http://shop.example",)


def test_the_public_address_ends_with_a_slash(tmp_path):
    text = MINIMAL.replace("publish: ./public", "publish: {to: ./public, at: https://Shop.example/Maps}")
    site = loaded(tmp_path, text)
    assert site.publish.at == "https://shop.example/Maps/"
    assert site.publish.root is None


@pytest.mark.parametrize(
    ("at", "scope"),
    [
        ("https://shop.example/", "covered"),
        ("https://shop.example/sitemaps/", "same_host"),
        ("http://shop.example/", "same_host"),
        ("https://shop.example:8443/", "same_host"),
        ("https://cdn.example/", "other_host"),
        ("https://www.shop.example/", "other_host"),
    ],
)
def test_the_problem_of_a_public_address_with_a_narrower_scope_is_found(at, scope):
    assert scope_problem("https://shop.example", at) == scope


def test_sitemaps_on_another_host_are_an_error_without_root_or_cross_submit(tmp_path):
    cdn = MINIMAL.replace("publish: ./public", "publish: {to: ./public, at: https://cdn.example/%s}")
    [problem] = problems(tmp_path, cdn.replace("%s", ""))
    assert problem.startswith("shop.yaml:2: publish.at: is on a different host than https://shop.example")
    assert "publish.root" in problem
    assert "cross_submit" in problem
    for answer in (", root: ./www", ", cross_submit: true"):
        text = cdn.replace("%s}", "s/" + answer + "}")
        assert loaded(tmp_path, text).publish.at == "https://cdn.example/s/"


def test_paths_are_relative_to_the_file_that_wrote_them(tmp_path):
    base = tmp_path / "common" / "bases"
    base.mkdir(parents=True)
    (base / "_base.yaml").write_text(
        "work: ../state\nsections:\n  products:\n    from: {database: c, sql: products.sql}\n"
    )
    (base / "products.sql").write_text("SELECT 1")
    site = loaded(
        tmp_path,
        "extends: ../common/bases/_base.yaml\nsite: https://shop.example\npublish: out\n"
        "sections:\n  pages:\n    from: {parquet: ['data/*.parquet']}\n",
    )
    assert site.work == str(tmp_path / "common/state")
    assert site.publish.to == str(tmp_path / "sites/out")
    products, pages = site.sections.values()
    assert isinstance(products.source, DatabaseSource)
    assert isinstance(pages.source, ParquetSource)
    assert products.source.sql == str(base / "products.sql")
    assert pages.source.parquet == (str(tmp_path / "sites/data/*.parquet"),)


def test_a_relative_path_on_the_command_line_gives_absolute_paths(tmp_path, monkeypatch):
    written(tmp_path, MINIMAL)
    monkeypatch.chdir(tmp_path)
    assert load(Path("sites/shop.yaml"), environ={}).publish.to == str(tmp_path / "sites/public")


def test_a_site_file_merges_mappings_of_its_base_replaces_values_and_removes_nulls(tmp_path):
    written(
        tmp_path,
        "publish: {cache_control: no-store, sse: AES256, names: {index: index.xml}}\n"
        "urls: {strip: [tracking], exclude: [/a]}\n"
        "gates: {max_drop: 0.01, min_urls: 5}\n"
        "keep: 3\n"
        "recent: 2d\n"
        "sections:\n"
        "  first: {from: {csv: a.csv}, where: x = 1}\n"
        "  gone: {from: {csv: b.csv}}\n"
        "ping: {indexnow: {key: '${KEY}'}}\n",
        "_grand.yaml",
    )
    written(tmp_path, "extends: _grand.yaml\nkeep: 5\n", "_base.yaml")
    site = loaded(
        tmp_path,
        "extends: _base.yaml\n"
        "site: https://shop.example\n"
        "publish: {to: ./public, sse: null}\n"
        "urls: {exclude: [/b]}\n"
        "gates: {min_urls: 7}\n"
        "recent: null\n"
        "sections:\n"
        "  second: {from: {csv: c.csv}}\n"
        "  first: {on_error: keep}\n"
        "  gone: null\n"
        "ping: null\n",
    )
    assert (site.publish.cache_control, site.publish.sse, site.publish.names.index) == ("no-store", None, "index.xml")
    assert (site.urls.strip, site.urls.exclude) == (("tracking",), ("/b",))
    assert (site.gates.max_drop, site.gates.min_urls) == (0.01, 7)
    assert (site.keep, site.recent) == (5, None)
    assert list(site.sections) == ["first", "second"]
    assert (site.sections["first"].where, site.sections["first"].on_error) == ("x = 1", "keep")
    assert site.ping.engines() == {}


def test_replacing_the_kind_of_source_of_a_base_requires_removing_the_old_one(tmp_path):
    written(tmp_path, "sections: {pages: {from: {csv: a.csv, delimiter: ';'}}}\n", "_base.yaml")
    head = "extends: _base.yaml\nsite: https://shop.example\npublish: out\n"
    [problem] = problems(tmp_path, head + "sections: {pages: {from: {parquet: b.parquet, delimiter: null}}}\n")
    assert problem.endswith("sections.pages.from.parquet: csv and parquet exclude each other; use one of them")
    text = head + "sections: {pages: {from: {parquet: b.parquet, csv: null, delimiter: null}}}\n"
    assert isinstance(loaded(tmp_path, text).sections["pages"].source, ParquetSource)


def test_variables_are_read_from_the_environment(tmp_path):
    text = (
        "name: ${NAME}\n"
        "site: https://${HOST:-shop.example}\n"
        "publish: ${OUT:-./public}/maps\n"
        "keep: ${KEEP}\n"
        "gates: {max_drop: '${DROP:-0.3}'}\n"
        "urls: {respect_robots: '${ROBOTS}'}\n"
        "sections:\n"
        "  pages:\n"
        "    from: {csv: a.csv, query: \"SELECT '$${NOT_ME}' AS loc\"}\n"
        "    priority: ${PRIORITY}\n"
    )
    environ = {"NAME": "mine", "HOST": "", "KEEP": "7", "ROBOTS": "true", "PRIORITY": "0.4", "NOT_ME": "x"}
    site = loaded(tmp_path, text, environ)
    assert (site.name, site.site, site.keep) == ("mine", "https://shop.example", 7)
    assert site.publish.to == str(tmp_path / "sites/public/maps")
    assert site.gates.max_drop == 0.3
    assert site.urls.respect_robots
    assert site.sections["pages"].priority == PriorityConstant(number=0.4)
    assert site.sections["pages"].source.query == "SELECT '${NOT_ME}' AS loc"


def test_files_of_a_site_have_distinct_names():
    names = Names(index="maps/index.xml.gz", file="maps/{section}/{number:03}.xml")
    assert [names.index_name(slot) for slot in (1, 2, 500)] == [
        "maps/index.xml.gz",
        "maps/index-2.xml.gz",
        "maps/index-500.xml.gz",
    ]
    assert names.file_name("pages", 12) == "maps/pages/012.xml"
    assert names.text_name("pages", 12) == "maps/pages/012.txt"
    assert Names().text_name("pages", 12) == "sitemap-pages-00012.txt.gz"
    assert Names().feed_name("news", "atom") == "news.atom.xml"


def test_reading_a_site_file_loads_no_data_libraries(tmp_path):
    """Airflow parses the DAG file repeatedly."""
    path = written(tmp_path, FULL)
    program = (
        "import sys, pathlib, sitemap_etl.config as s\n"
        f"s.load(pathlib.Path({str(path)!r}), environ={{}})\n"
        "heavy = {'pandas', 'pyarrow', 'numpy', 'duckdb', 'boto3', 'httpx', 'lxml', 'sqlalchemy', 'airflow'}\n"
        "print(sorted(heavy & {name.partition('.')[0] for name in sys.modules}))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env={**os.environ}
    )
    assert done.stdout.strip() == "[]"
