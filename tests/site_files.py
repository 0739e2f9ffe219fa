"""Site files for tests: written into a folder, loaded, or expected to fail."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from sitemap_etl.config import Site, load
from sitemap_etl.errors import ConfigError

MINIMAL = """\
site: https://shop.example
publish: ./public
sections:
  pages:
    from: {csv: exports/pages.csv}
"""

FULL = """\
name: shop
site: https://shop.example
schedule: {cron: "0 2 * * *", timezone: Europe/Berlin}
work: s3://shop-private/sitemaps
publish:
  to: s3://shop-public/sitemaps
  at: https://shop.example/sitemaps/
  root: s3://shop-public
  names: {index: sitemap.xml, file: "sitemap-{section}-{number:05}.xml.gz"}
  cache_control: public, max-age=600
  sse: aws:kms
  checksums: when_required
  conditional_writes: false
  cross_submit: true
urls:
  same_as: [http://shop.example]
  strip: [tracking, sessions]
  exclude: [/internal/, "*/print$"]
  respect_robots: true
recent: 3d
keep: 30
sections:
  products:
    from:
      database: catalog
      sql: ../sql/products.sql
      params: {lang: en, least: 3, live: true, rate: 0.5}
      split: {column: id, parts: 4}
    where: stock > 0
    transform: shop.hooks:only_live
    lastmod: {newest_of: [updated_at, priced_at], timezone: Europe/Berlin}
    priority: {percentile_of: sales}
    changefreq: daily
    alternates: {group: product_id, hreflang: language, x_default: en, cluster: goods}
    feed: {formats: [rss, atom], title: New, items: 50}
    formats: [xml, text]
    shards: {rows: 10000, bytes: 1000000, fill: 0.5}
    gates: {max_drop: 0.5}
  articles:
    from: {parquet: "s3://exports/articles/*.parquet", query: SELECT * FROM source}
    columns: {loc: permalink}
    lastmod: {fingerprint: [title, body_sha1], until_changed: published_at, first_seen: true}
    on_error: keep
  news:
    from: {csv: [exports/news.csv.gz, s3://exports/more.csv], delimiter: ";"}
    news: {publication: The Times, language: en}
  pages:
    from: {csv: exports/pages.csv.gz}
    priority: {depth: true}
    view: true
ping:
  indexnow: {key: "${INDEXNOW_KEY}", daily_limit: 5000}
  search_console: {property: "sc-domain:shop.example", connection: google}
  bing: {key: "${BING_KEY}"}
  websub: {hub: https://hub.example/}
  http_ping: {url: "https://engine.example/ping?token=${TOKEN}&sitemap={sitemap}"}
gates: {max_drop: 0.2, max_growth: 2, max_rejected: 0.1, min_urls: 10}
"""


def written(folder: Path, text: str, name: str = "shop.yaml") -> Path:
    """Return the path of a site file in `folder`/sites, next to the SELECT that FULL names."""
    (folder / "sql").mkdir(exist_ok=True)
    (folder / "sites").mkdir(exist_ok=True)
    (folder / "sql" / "products.sql").write_text("SELECT id, loc FROM products\n", encoding="utf-8")
    path = folder / "sites" / name
    path.write_text(text, encoding="utf-8")
    return path


def loaded(folder: Path, text: str, environ: Mapping[str, str] | None = None) -> Site:
    """Return the site of this text."""
    return load(written(folder, text), environ=environ or {})


def problems(folder: Path, text: str, environ: Mapping[str, str] | None = None) -> list[str]:
    """Return the errors of this text, each without the folder of the file."""
    path = written(folder, text)
    with pytest.raises(ConfigError) as caught:
        load(path, environ=environ or {})
    return [problem.removeprefix(f"{path.parent}/") for problem in caught.value.problems]
