"""`init` on product exports of shops, and on a crawl: every page once, with all its images.

The columns are those of the systems' own templates and exports, mostly without those that are irrelevant here.
"""

from __future__ import annotations

import csv
import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest

from sitemap_etl.runs.init.layouts import known
from tests.support.beginnings import started
from tests.support.command import call

SITE = "https://shop.example"
CDN = "https://cdn.example"


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def export(header: str, *rows: dict[str, Any], delimiter: str = ",") -> str:
    """Write an export; a row has values for some of its columns."""
    names = header.split("|")
    with Path("export.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, names, restval="", delimiter=delimiter)
        writer.writeheader()
        writer.writerows(rows)
    return "export.csv"


def published(*more: str) -> tuple[dict[str, list[str]], dict[str, Any]]:
    """Run what `init` writes, dry and for real; return the pages of `export.csv` with their images, and the section."""
    site = started("export.csv", *(more or ("--site", SITE)))
    checked = call("validate", "site.yaml", "--connect")
    assert checked.code == 0, checked.err
    dry = call("run", "site.yaml", "--dry-run", "--json")
    assert dry.code == 0, dry.out
    counts = dry.json["sections"]["export"]
    assert (counts["rejected"], counts["excluded"], counts["duplicates"]) == (0, 0, 0)
    assert call("run", "site.yaml").code == 0
    text = gzip.decompress(Path("public/sitemap-export-00001.xml.gz").read_bytes()).decode()
    entries = [re.findall(r"<(?:image:)?loc>([^<]*)<", entry) for entry in re.findall(r"<url>(.*?)</url>", text)]
    assert len(entries) == counts["listed"]
    return {loc.removeprefix(SITE): images for loc, *images in entries}, site | {"section": site["sections"]["export"]}


SHOPIFY = (
    "Handle|Title|Body (HTML)|Vendor|Product Category|Type"
    "|Tags|Published|Option1 Name|Option1 Value|Variant SKU|Variant Grams"
    "|Variant Price|Image Src|Image Position|Image Alt Text|Gift Card|SEO Title|Variant Image|Status"
)


def test_a_shopify_export_is_recognized() -> None:
    def lamp(number: int, **more: Any) -> dict[str, Any]:
        first = {"Title": f"Lamp {number}", "Body (HTML)": "<p>a, b</p>", "Published": "true", "Status": "active"}
        image = {"Image Src": f"{CDN}/{number}-1.jpg?v=1", "Image Position": "1"}
        return {"Handle": f"lamp-{number}", "Variant SKU": f"L{number}", **first, **image, **more}

    second = {"Handle": "lamp-1", "Variant SKU": "L1-b"}
    images = [{"Handle": "lamp-1", "Image Src": f"{CDN}/1-{n}.jpg", "Image Position": str(n)} for n in (10, 2)]
    hidden = [lamp(3, Published="false"), lamp(4, Status="draft"), lamp(5, Status="archived")]
    export(SHOPIFY, lamp(1), second, *images, lamp(2), *hidden)
    pages, site = published()
    assert pages == {
        "/products/lamp-1": [f"{CDN}/1-1.jpg?v=1", f"{CDN}/1-2.jpg", f"{CDN}/1-10.jpg"],
        "/products/lamp-2": [f"{CDN}/2-1.jpg?v=1"],
    }
    query = site["section"]["from"]["query"]
    assert "'/products/' || Handle AS loc" in query
    assert "GROUP BY Handle" in query
    assert "this is an export of Shopify: a SELECT makes pages of its rows" in site["json"]["notes"]


def test_a_shopify_export_with_the_columns_of_2025_is_recognized() -> None:
    header = "Title|URL handle|Description|Vendor|Published on online store|Status|SKU|Product image URL|Image position"
    first = {"Title": "Lamp", "URL handle": "lamp", "Published on online store": "TRUE", "Status": "Active"}
    more = {"URL handle": "lamp", "Product image URL": f"{CDN}/2.jpg", "Image position": "2"}
    export(header, {**first, "Product image URL": f"{CDN}/1.jpg", "Image position": "1"}, more)
    assert published()[0] == {"/products/lamp": [f"{CDN}/1.jpg", f"{CDN}/2.jpg"]}


def test_words_for_true_in_other_languages_exclude_no_product() -> None:
    words = ["WAHR", "VRAI", "VERDADERO", "", "FALSCH", "FAUX"]
    rows = [{"Handle": f"lamp-{n}", "Published": word, "Image Src": f"{CDN}/{n}.jpg"} for n, word in enumerate(words)]
    export("Handle|Title|Published|Image Src", *rows)
    assert sorted(published()[0]) == [f"/products/lamp-{n}" for n in range(4)]


def test_urls_of_a_shop_in_a_folder_get_the_folder() -> None:
    export("Handle|Title|Image Src", {"Handle": "lamp", "Title": "Lamp", "Image Src": f"{CDN}/1.jpg"})
    assert published("--site", f"{SITE}/store/")[0] == {"/store/products/lamp": [f"{CDN}/1.jpg"]}


WOOCOMMERCE = (
    "ID|Type|SKU|GTIN, UPC, EAN, or ISBN|Name"
    "|Published|Is featured?|Visibility in catalog|Short description|Description"
    "|Date sale price starts|Tax status|In stock?|Stock|Regular price"
    "|Categories|Tags|Images|Parent|External URL|Position"
)


def woocommerce(*, address: str = "") -> list[dict[str, Any]]:
    def product(number: int, name: str, *images: str, **more: Any) -> dict[str, Any]:
        said = {"Type": "simple", "Published": "1", "Visibility in catalog": "visible", "SKU": f"S{number}"}
        addresses = {"Slug": name.lower().replace(" ", "-"), "Permalink": f"{SITE}/shop/{number}/"}
        chosen = {address: addresses[address]} if address else {}
        listed = ", ".join(f"{SITE}/wp/{image}.jpg" for image in images)
        return {"ID": str(number), "Name": name, "Images": listed, **said, **chosen, **more}

    return [
        product(1, "Red Lamp", "a", "b", Type="variable"),
        product(2, "Red Lamp - Small", "c", Type="variation, virtual", Parent="S1"),
        product(3, "Pennant", "d", **{"Type": "external", "External URL": "https://other.example/p"}),
        product(4, "No Sku", "e", SKU="", Type="variable"),
        product(5, "No Sku - Red", "f", SKU="", Type="variation", Parent="id:4"),
        product(6, "Draft", "g", Published="-1"),
        product(7, "Hidden", "h", **{"Visibility in catalog": "hidden"}),
    ]


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("Permalink", ["/shop/1/", "/shop/3/", "/shop/4/"]),
        ("Slug", ["/product/red-lamp/", "/product/pennant/", "/product/no-sku/"]),
        ("", ["/product/red-lamp/", "/product/pennant/", "/product/no-sku/"]),
    ],
)
def test_a_woocommerce_export_is_recognized(address: str, expected: list[str]) -> None:
    export(f"{WOOCOMMERCE}|{address}" if address else WOOCOMMERCE, *woocommerce(address=address))
    pages, site = published()
    images = [[f"{SITE}/wp/{name}.jpg" for name in names] for names in ("abc", "d", "ef")]
    assert pages == dict(zip(expected, images, strict=True))
    guessed = [note for note in site["json"]["notes"] if "which is a guess" in note]
    assert len(guessed) == (not address)


MAGENTO = (
    "sku|store_view_code|attribute_set_code|product_type|categories|product_websites|name|description|product_online"
    "|visibility|price|special_price_from_date|url_key|base_image|small_image|additional_images|created_at|updated_at"
)


def test_a_magento_export_is_recognized() -> None:
    def product(sku: str, **more: Any) -> dict[str, Any]:
        said = {"product_type": "simple", "product_online": "1", "visibility": "Catalog, Search", "name": sku.title()}
        dates = {"created_at": "3/4/24, 10:30 AM", "updated_at": "5/16/24, 5:07 PM"}
        return {"sku": sku, "url_key": sku, "base_image": "no_selection", **said, **dates, **more}

    bag = {"base_image": "/b/a/bag.jpg", "additional_images": "/b/a/bag-1.jpg,/b/a/bag-2.jpg"}
    export(
        MAGENTO,
        product("bag", **bag),
        product("bag", store_view_code="de", url_key="tasche", product_online="", visibility=""),
        product("watch", base_image=f"{CDN}/watch.jpg"),
        product("off", product_online="2"),
        product("child", visibility="Not Visible Individually"),
    )
    pages, site = published()
    folder = f"{SITE}/media/catalog/product/b/a"
    assert pages == {
        "/bag.html": [f"{folder}/bag.jpg", f"{folder}/bag-1.jpg", f"{folder}/bag-2.jpg"],
        "/watch.html": [f"{CDN}/watch.jpg"],
    }
    assert site["section"]["lastmod"]["column"] == "updated_at"


PRESTASHOP = (
    "Product ID|Active (0/1)|Name *|Categories (x,y,z...)"
    "|Price tax excluded|Tax rules ID|Reference #|Visibility|Summary"
    "|Description|{address}"
    "|Product availability date|Product creation date|Image URLs (x,y,z...)|Image alt texts (x,y,z...)"
)


@pytest.mark.parametrize("address", ["URL rewritten", "Rewritten URL"])
def test_a_prestashop_export_is_recognized(address: str) -> None:
    def product(number: int, end: str, images: str, **more: Any) -> dict[str, Any]:
        said = {"Active (0/1)": "1", "Name *": f"Lampe d'été {number}", "Visibility": "both", address: end}
        dates = {"Product creation date": f"2024-01-{number:02}", "Product availability date": f"2025-01-{number:02}"}
        return {"Product ID": number, "Image URLs (x,y,z...)": images, **said, **dates, **more}

    export(
        PRESTASHOP.format(address=address),
        product(1, "lampe", f"{CDN}/1.jpg,{CDN}/2.jpg"),
        product(2, "", f"{CDN}/3.jpg"),
        product(3, "off", "", **{"Active (0/1)": "0"}),
        product(4, "hidden", "", Visibility="none"),
        delimiter=";",
    )
    pages, site = published()
    assert pages == {"/1-lampe.html": [f"{CDN}/1.jpg", f"{CDN}/2.jpg"], "/2-lampe-dete-2.html": [f"{CDN}/3.jpg"]}
    assert site["section"]["lastmod"]["until_changed"] == "Product creation date"


BIGCOMMERCE = (
    "Item|ID|Name|Type|SKU|Options|Price|Categories|Description|Page Title|Product URL|Is Visible|Sort Order"
    "|Variant Image URL|Internal Image URL (Export)"
    "|Image URL (Import)|Image Description|Image is Thumbnail|Image Sort Order"
)


def test_a_bigcommerce_export_is_recognized() -> None:
    def product(number: int, visible: str = "TRUE") -> dict[str, Any]:
        said = {"Name": f"Lamp {number}", "SKU": f"L{number}", "Is Visible": visible, "Description": "d"}
        return {"Item": "Product", "ID": number, "Product URL": f"/lamp-{number}/", **said}

    def image(name: str, place: int) -> dict[str, Any]:
        return {"Item": "Image", "Internal Image URL (Export)": f"{CDN}/{name}.jpg?c=1", "Image Sort Order": place}

    red = {"Item": "Variant", "SKU": "L1-R", "Variant Image URL": f"{CDN}/red.jpg"}
    rows = [product(1), red, image("b", 1), image("a", 0), product(2), product(3, "FALSE"), image("c", 0)]
    export(BIGCOMMERCE, *rows)
    assert published()[0] == {
        "/lamp-1/": [f"{CDN}/a.jpg?c=1", f"{CDN}/b.jpg?c=1", f"{CDN}/red.jpg"],
        "/lamp-2/": [],
    }


def test_bigcommerce_image_rows_belong_to_the_product_above_them_in_long_exports() -> None:
    rows = []
    for number in range(20_000):
        rows.append({"Item": "Product", "Name": f"L {number}", "Product URL": f"/{number}/", "Is Visible": "TRUE"})
        rows += [{"Item": "Image", "Internal Image URL (Export)": f"{CDN}/{number}/{n}.jpg"} for n in (1, 2)]
    export(BIGCOMMERCE, *rows)
    pages, _ = published()
    assert pages == {f"/{number}/": [f"{CDN}/{number}/{n}.jpg" for n in (1, 2)] for number in range(20_000)}


def test_an_older_bigcommerce_export_is_recognized() -> None:
    header = "Item Type|Product ID|Product Name"
    header += "|Product Code/SKU|Product Visible?|Product Image ID - 1|Product Image File - 1"
    header += (
        "|Product Image Sort - 1|Product Image File - 2|Product Image File - 10|Product URL|Date Added|Date Modified"
    )
    files = {f"Product Image File - {n}": f"a/1/{n}.jpg" for n in (10, 2, 1)}

    def product(name: str, **more: Any) -> dict[str, Any]:
        said = {"Item Type": "Product", "Product Name": name, "Product Visible?": "Y", "Product URL": f"/{name}/"}
        return {**said, "Date Added": "06/10/2025", "Date Modified": "07/13/2025", **more}

    sku = {"Item Type": "  SKU", "Product Name": "[RT]Color=Red"}
    export(header, product("orbit", **files), sku, product("fog"), product("off", **{"Product Visible?": "N"}))
    pages, site = published()
    assert pages == {"/orbit/": [f"{SITE}/product_images/a/1/{n}.jpg" for n in (1, 2, 10)], "/fog/": []}
    assert site["section"]["lastmod"] == {"column": "Date Modified", "format": "%m/%d/%Y"}


def test_a_screaming_frog_export_is_recognized() -> None:
    header = "Address|Content Type|Status Code|Status|Indexability|Indexability Status|Title 1|Meta Description 1"
    header += "|Canonical Link Element 1|Word Count|Hash|Last Modified|Redirect URL|Crawl Timestamp"

    def page(path: str, number: int, **more: Any) -> dict[str, Any]:
        said = {"Content Type": "text/html; charset=UTF-8", "Status Code": "200", "Indexability": "Indexable"}
        crawled = {"Title 1": f"Page {number}", "Crawl Timestamp": f"2026-11-20 10:00:{number:02}"}
        return {"Address": f"{SITE}{path}", **said, **crawled, **more}

    export(
        header,
        page("/", 1),
        page("/a", 2),
        page("/old", 3, **{"Status Code": "301", "Indexability": "Non-Indexable"}),
        page("/a?x=1", 4, **{"Indexability": "Non-Indexable", "Indexability Status": "Canonicalised"}),
        page("/style.css", 5, **{"Content Type": "text/css"}),
        page("/a.jpg", 6, **{"Content Type": "image/jpeg"}),
    )
    pages, site = published("--json")
    assert pages == {"/": [], "/a": []}
    assert (site["site"], site["section"]["lastmod"]) == (SITE, "none")
    assert "Crawl Timestamp is not when a page changed" in Path("site.yaml").read_text()


def test_rows_with_the_same_url_become_one_page_with_all_images() -> None:
    rows = [
        {"url": f"{SITE}/{n // 2}", "name": f"Lamp {n // 2}", "image": f"{CDN}/{n}.jpg", "updated": f"2026-01-0{n + 1}"}
        for n in range(6)
    ]
    export("url|name|image|updated", *rows)
    pages, site = published()
    assert pages == {f"/{n}": [f"{CDN}/{2 * n}.jpg", f"{CDN}/{2 * n + 1}.jpg"] for n in range(3)}
    assert site["section"]["lastmod"] == "updated"


def test_an_export_that_only_resembles_a_shop_is_not_rewritten() -> None:
    assert known(["Handle", "Title", "url"]) is None
    assert known(["Address", "City"]) is None
    assert known(["sku", "name", "url"]) is None


@pytest.mark.parametrize(
    "value",
    [
        {"$date": "2026-01-02T03:04:05Z"},
        {"$date": {"$numberLong": "1767323045000"}},
        {"$date": 1767323045000},
        json.dumps({"$date": "2026-01-02T03:04:05.000Z"}),
    ],
)
def test_dates_of_mongodb_are_read(value: Any) -> None:
    lines = [json.dumps({"_id": {"$oid": f"{n:024x}"}, "url": f"{SITE}/{n}", "updatedAt": value}) for n in range(5)]
    Path("export.jsonl").write_text("\n".join(lines))
    assert started("export.jsonl")["sections"]["export"]["lastmod"] == "updatedAt"
    assert call("run", "site.yaml").code == 0
    text = gzip.decompress(Path("public/sitemap-export-00001.xml.gz").read_bytes()).decode()
    assert text.count("<lastmod>2026-01-02T03:04:05Z</lastmod>") == 5


def test_email_dates_in_several_timezones_are_read() -> None:
    zones = ["GMT", "+0200", "EST", "-0000", "UT"]
    rows = [{"url": f"{SITE}/{n}", "updated": f"Fri, 02 Jan 2026 03:04:05 {zone}"} for n, zone in enumerate(zones)]
    export("url|updated", *rows)
    assert started("export.csv")["sections"]["export"]["lastmod"]["format"] == "%a, %d %b %Y %H:%M:%S %z"
    assert call("run", "site.yaml").code == 0
    text = gzip.decompress(Path("public/sitemap-export-00001.xml.gz").read_bytes()).decode()
    hours = [int(hour) for hour in re.findall(r"<lastmod>2026-01-02T(\d\d):04:05Z", text)]
    assert hours == [3, 1, 8, 3, 3]


@pytest.mark.parametrize("path", ["lamps/{n}", "/lamps/{n}", "./lamps/{n}"])
def test_relative_urls_of_a_site_in_a_folder_get_the_folder(path: str) -> None:
    export("path|name", *({"path": path.format(n=n), "name": f"Lamp {n}"} for n in range(3)))
    assert sorted(published("--site", f"{SITE}/store")[0]) == [f"/store/lamps/{n}" for n in range(3)]


def test_urls_that_already_contain_the_folder_of_the_site_are_unchanged() -> None:
    export("path|name", *({"path": f"/store/{n}", "name": f"Lamp {n}"} for n in range(3)))
    pages, site = published("--site", f"{SITE}/store/")
    assert sorted(pages) == [f"/store/{n}" for n in range(3)]
    assert "query" not in site["section"]["from"]
