"""Which date column `init` uses for the last change, and what it proposes if there is none."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sitemap_etl.runs.init.columns import find
from sitemap_etl.runs.init.date_names import meaning_of
from tests.support.beginnings import runs, started
from tests.test_init_columns import table

NOW = datetime(2026, 11, 25, 12, tzinfo=UTC)
CHANGES = {
    "Shopify, Magento, Spree": "updated_at",
    "PrestaShop": "date_upd",
    "BigCommerce": "Date Modified",
    "OpenCart": "date_modified",
    "osCommerce": "products_last_modified",
    "Shopware 5": "changetime",
    "Shopware 6, Strapi": "updatedAt",
    "nopCommerce": "UpdatedOnUtc",
    "commercetools": "lastModifiedAt",
    "SAP Commerce": "modifiedtime",
    "WordPress": "post_modified_gmt",
    "Drupal": "changed",
    "Joomla": "modified",
    "TYPO3": "tstamp",
    "Craft": "dateUpdated",
    "Sanity": "_updatedAt",
    "Directus": "date_updated",
    "Wagtail": "latest_revision_created_at",
    "Umbraco": "updateDate",
    "Kentico": "DocumentModifiedWhen",
    "Silverstripe": "LastEdited",
    "AEM": "jcr:lastModified",
    "Webflow": "Updated On",
    "MediaWiki": "rev_timestamp",
    "EPrints": "lastmod",
    "Dataverse": "modificationtime",
    "a crawl": "Last Modified",
    "German": "Geändert am",
    "German, a compound": "Artikeländerungsdatum",
    "French": "Date de mise à jour",
    "Spanish": "fecha_actualizacion",
    "Portuguese": "data_alteração",
    "Italian": "Data aggiornamento",
    "Dutch": "gewijzigd op",
    "Swedish": "senast ändrad",
    "Danish": "opdateret",
    "Finnish": "päivitetty",
    "Polish": "data modyfikacji",
    "Czech": "změněno",
    "Turkish": "güncelleme tarihi",
    "Russian": "дата изменения",
    "Japanese": "最終更新日",
    "Chinese": "修改时间",
    "Korean": "수정일",
}
NEVER = {
    "Airbyte": "_airbyte_extracted_at",
    "Fivetran": "_fivetran_synced",
    "Stitch": "_sdc_batched_at",
    "dlt": "_dlt_load_time",
    "dbt": "dbt_updated_at",
    "Hudi": "_hoodie_commit_time",
    "a warehouse": "dw_update_date",
    "a load": "loadedAt",
    "an import": "last_import",
    "an export": "Exportdatum",
    "a crawl": "Crawl Timestamp",
    "a scraper": "scraped_at",
    "a login": "last_login_at",
    "an expiry": "expires_at",
    "availability": "available_from",
    "availability, WooCommerce": "availability_date",
    "a birth": "date_of_birth",
    "German": "gültig ab",
    "French": "date_expiration",
    "Spanish": "fecha de nacimiento",
    "Italian": "data_scadenza",
    "Dutch": "beschikbaar vanaf",
    "Swedish": "födelsedatum",
    "Polish": "data urodzenia",
    "Russian": "дата загрузки",
    "Japanese": "有効期限",
    "Chinese": "导入时间",
}


@pytest.mark.parametrize("name", CHANGES.values(), ids=CHANGES)
def test_column_names_for_the_last_change_are_recognized(name: str) -> None:
    assert meaning_of(name) == "change"


@pytest.mark.parametrize("name", NEVER.values(), ids=NEVER)
def test_column_names_for_dates_other_than_changes_are_recognized(name: str) -> None:
    assert meaning_of(name) == "never"


@pytest.mark.parametrize(
    ("name", "meaning"),
    [
        ("created_at", "begin"),
        ("Veröffentlicht am", "begin"),
        ("date_add", "begin"),
        ("sale_start", "span"),
        ("special_price_from_date", "span"),
        ("exchange_rate_date", None),
        ("important_day", None),
        ("payload_day", None),
        ("edition", None),
        ("date", None),
        ("stand", None),
        ("when", None),
    ],
)
def test_other_column_names_are_recognized_as_neither(name: str, meaning: str | None) -> None:
    assert meaning_of(name) == meaning


def dates(day: int) -> Any:
    return lambda n: datetime(2026, day, n % 28 + 1, tzinfo=UTC)


@pytest.mark.parametrize("never", NEVER.values(), ids=NEVER)
def test_a_column_named_for_changes_is_chosen_even_if_other_dates_are_later(never: str) -> None:
    rows = table(url=lambda n: f"/{n}").append_column("date_upd", table(x=dates(2)).column("x"))
    rows = rows.append_column(never, table(x=dates(10)).column("x"))
    found = find(rows, NOW).dates
    assert found is not None
    assert found.column == "date_upd"


@pytest.mark.parametrize("never", NEVER.values(), ids=NEVER)
def test_dates_that_are_never_changes_are_not_used_as_lastmod(never: str) -> None:
    rows = table(url=lambda n: f"/{n}").append_column(never, table(x=dates(10)).column("x"))
    found = find(rows, NOW)
    assert (found.dates, found.never) == (None, (never,))


def test_a_date_column_with_a_neutral_name_is_preferred_to_one_of_load_times() -> None:
    found = find(table(url=lambda n: f"/{n}", stand=dates(2), geladen=dates(10)), NOW).dates
    assert found is not None
    assert found.column == "stand"


def test_a_column_of_changes_with_few_values_is_used() -> None:
    rows = table(url=lambda n: f"/{n}", updated=lambda n: None if n % 4 else dates(2)(n), created=dates(1))
    found = find(rows, NOW).dates
    assert found is not None
    assert found.column == "updated"


@pytest.fixture
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def export(header: str, row: str) -> None:
    lines = [row.format(n=n, d=n % 28 + 1) for n in range(30)]
    Path("x.csv").write_text("\n".join([header, *lines, ""]))


@pytest.mark.usefixtures("_here")
def test_without_dates_of_changes_a_fingerprint_is_proposed_with_its_reason() -> None:
    export(
        "url,name,price,loaded_at,created_at",
        "https://shop.example/{n},Lamp {n},{n}.5,2026-10-{d:02}T10:00:00Z,2025-01-{d:02}",
    )
    site = started("x.csv")
    assert site["sections"]["x"]["lastmod"] == {"fingerprint": ["title", "price"], "until_changed": "created_at"}
    why = "by their names, loaded_at, created_at are not when a page changed"
    assert why in site["json"]["notes"]
    assert f"# {why}" in Path("site.yaml").read_text()
    runs(30)


@pytest.mark.usefixtures("_here")
def test_the_proposed_timezone_of_until_changed_is_reported_as_a_guess() -> None:
    export("url,name,created_at", "https://shop.example/{n},Lamp {n},2025-01-{d:02} 10:00:00")
    site = started("x.csv")
    rule = {"fingerprint": ["title"], "until_changed": "created_at", "timezone": "UTC"}
    assert site["sections"]["x"]["lastmod"] == rule
    assert "lastmod: timezone UTC is a guess" in site["json"]["notes"]
    runs(30)


@pytest.mark.usefixtures("_here")
def test_columns_of_a_proposed_fingerprint_are_in_the_select_of_a_table() -> None:
    with closing(sqlite3.connect("shop.db")) as database:
        database.execute(
            "CREATE TABLE products (id INTEGER PRIMARY KEY, url TEXT, name TEXT, price REAL, synced_at TEXT)"
        )
        rows = [(n, f"https://shop.example/{n}", f"Lamp {n}", n, f"2026-10-{n:02}") for n in range(1, 29)]
        database.executemany("INSERT INTO products VALUES (?, ?, ?, ?, ?)", rows)
        database.commit()
    section = started("shop.db")["sections"]["products"]
    assert section["lastmod"] == {"fingerprint": ["title", "price"]}
    assert "synced_at" not in section["from"]["query"]


@pytest.mark.usefixtures("_here")
@pytest.mark.parametrize(
    ("header", "row", "proposed"),
    [
        (
            "url,_airbyte_extracted_at,published_at",
            "https://shop.example/{n},2026-10-{d:02}T10:00:00Z,2025-01-{d:02}T00:00:00Z",
            "# lastmod: {fingerprint: [COLUMN], until_changed: published_at}",
        ),
        (
            "Address,Title 1,Crawl Timestamp",
            "https://shop.example/{n},Lamp {n},2026-10-{d:02} 10:00:00",
            "# lastmod: {fingerprint: [title]}",
        ),
    ],
)
def test_a_fingerprint_without_suitable_columns_is_only_a_comment(header: str, row: str, proposed: str) -> None:
    export(header, row)
    site = started("x.csv")
    assert site["sections"]["x"]["lastmod"] == "none"
    assert proposed in Path("site.yaml").read_text()
    assert any("fingerprint" in note for note in site["json"]["notes"])
    runs(30)


@pytest.mark.parametrize("missing", ["NaN", "NULL", "None", "n/a", " NaT "])
def test_words_for_missing_values_are_ignored_among_dates(missing: str) -> None:
    dates = ["2026-10-01", missing, "2026-10-03"]
    found = find(pa.table({"loc": ["/a", "/b", "/c"], "updated": dates}), NOW)
    assert found.dates is not None
    assert found.dates.column == "updated"
