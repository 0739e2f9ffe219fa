"""`init`: a first site file that validates and runs, for any source."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import sqlite3
import zipfile
from pathlib import Path

import adbc_driver_sqlite
import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from tests.support.beginnings import runs, started
from tests.support.command import call
from tests.support.lake import Delta, Iceberg, rows
from tests.support.mariadb import MariaDB, mariadb  # noqa: F401 - a fixture
from tests.support.postgres import Postgres
from tests.support.s3 import S3Server

GERMAN = [
    (n, f"https://laden.example/größe/{n}", f"{n % 28 + 1:02}.{n % 9 + 1:02}.2026 10:{n % 60:02}", f"Stück {n}, weiß")
    for n in range(60)
]
HEADER = ("Artikelnr", "Adresse", "Geändert am", "Bezeichnung")


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def german(delimiter: str = ";") -> str:
    lines = [HEADER, *GERMAN]
    return "".join(delimiter.join(map(str, line)) + "\r\n" for line in lines)


def quoted(quote: str, middle: str, delimiter: str = ";") -> str:
    """The same with quotes around the last column."""
    text = german(delimiter).replace(", ", middle)
    return text.replace("Stück", f"{quote}Stück").replace("weiß", f"weiß{quote}")


# --- exports ---


def test_init_from_a_csv_writes_a_site_file_that_runs_unchanged(tmp_path: Path) -> None:
    Path("pages.csv").write_text(
        "url,title,updated_at\nhttps://shop.example/a,A,2026-10-01\nhttps://shop.example/b,B,2026-10-02T10:00:00Z\n"
    )
    done = call("init", "--from", "pages.csv")
    assert done.code == 0
    assert "Next: sitemap-etl validate site.yaml --connect" in done.out
    keys = yaml.safe_load(Path("site.yaml").read_text())
    assert keys["site"] == "https://shop.example"
    section = keys["sections"]["pages"]
    assert section == {"from": {"csv": "pages.csv"}, "columns": {"loc": "url"}, "lastmod": "updated_at"}
    assert call("validate", "site.yaml", "--connect").code == 0
    assert call("run", "site.yaml", "--json").json["sections"]["pages"]["listed"] == 2
    assert (tmp_path / "public" / "sitemap.xml").exists()


def test_init_from_parquet_with_standard_column_names_writes_no_rules() -> None:
    table = pa.table({"loc": ["/a", "/b"], "lastmod": pa.array([20_000, 20_001], pa.date32())})
    pq.write_table(table, "pages.parquet")
    assert call("init", "sites/shop.yaml", "--from", "pages.parquet", "--site", "https://Shop.example/").code == 0
    keys = yaml.safe_load(Path("sites/shop.yaml").read_text())
    assert keys["site"] == "https://shop.example"
    assert list(keys["sections"]["pages"]) == ["from"]
    assert call("run", "sites/shop.yaml").code == 0


@pytest.mark.parametrize(
    ("value", "rule"),
    [
        ("2026-10-01 10:00:00", {"column": "modified", "timezone": "UTC"}),
        ("1790000000", {"column": "modified", "unit": "s"}),
        ("1790000000123", {"column": "modified", "unit": "ms"}),
        ("next week", "none"),
    ],
)
def test_ambiguous_dates_get_a_guess_and_a_note(value: str, rule: object) -> None:
    Path("pages.csv").write_text(f"loc,modified\nhttps://shop.example/a,{value}\n")
    done = call("init", "--from", "pages.csv", "--json")
    assert yaml.safe_load(Path("site.yaml").read_text())["sections"]["pages"]["lastmod"] == rule
    assert any("modified" in note for note in done.json["notes"])
    assert call("run", "site.yaml").code == 0


def test_another_delimiter_is_detected() -> None:
    Path("pages.csv").write_text("loc;title\nhttps://shop.example/a;A\n")
    assert call("init", "--from", "pages.csv").code == 0
    assert call("run", "site.yaml", "--json").json["sections"]["pages"]["listed"] == 1


def test_a_missing_column_for_loc_is_asked_for() -> None:
    Path("pages.csv").write_text("name,price\nLamp,3\n")
    done = call("init", "--from", "pages.csv", "--site", "https://shop.example")
    assert "no column looks like the address of a page" in done.out
    assert "The columns are: name, price" in done.out
    assert call("validate", "site.yaml").code == 0


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        (
            "shop_id,ID,name",
            """If addresses contain ID, add to from: query: SELECT *, '/p/' || "ID" AS loc FROM source""",
        ),
        ("name,shop_id", """'/p/' || "shop_id" AS loc FROM source"""),
        ("loc,id", ""),
        ("paid,name", ""),
    ],
)
def test_a_column_of_ids_gets_a_select_that_builds_urls(columns: str, said: str) -> None:
    Path("pages.csv").write_text(f"{columns}\n" + ",".join("7" for _ in columns.split(",")) + "\n")
    done = call("init", "--from", "pages.csv", "--site", "https://shop.example")
    assert "no column looks like the address of a page" in done.out
    assert ("If addresses contain" in done.out) == bool(said)
    assert said in " ".join(done.out.split())


def test_init_without_a_source_writes_a_template_that_validates() -> None:
    done = call("init")
    assert done.code == 0
    assert "site: https://www.example.com is a placeholder for the origin of your pages" in done.out
    assert call("validate", "site.yaml").code == 0


@pytest.mark.parametrize(
    ("name", "data", "written"),
    [
        ("a.csv", german().encode("cp1252"), {"delimiter": ";", "encoding": "cp1252"}),
        ("a.csv", german("\t").encode("utf-16"), {"delimiter": "\t", "encoding": "utf-16"}),
        pytest.param(
            "a.csv",
            german("|").encode("utf-16-le"),
            {"delimiter": "|", "encoding": "utf-16-le"},
            marks=pytest.mark.thorough,
        ),
        ("a.tsv", german("\t").encode("utf-8-sig"), {"delimiter": "\t"}),
        pytest.param("a.csv.gz", gzip.compress(german().encode()), {"delimiter": ";"}, marks=pytest.mark.thorough),
        ("a.csv.bz2", bz2.compress(german().encode("cp1252")), {"delimiter": ";", "encoding": "cp1252"}),
        ("a.csv.zst", pa.compress(german().encode(), "zstd", asbytes=True), {"delimiter": ";"}),
        pytest.param("a.csv.xz", lzma.compress(german().encode()), {"delimiter": ";"}, marks=pytest.mark.thorough),
        ("a.csv", quoted('"', ' \\"rund\\", ').encode(), {"delimiter": ";", "escape": "\\"}),
        pytest.param("a.csv", quoted("'", ", ", ",").encode(), {"quote": "'"}, marks=pytest.mark.thorough),
    ],
)
def test_init_detects_encoding_and_format_of_a_csv(name: str, data: bytes, written: dict[str, str]) -> None:
    Path(name).write_bytes(data)
    site = started(name)
    assert site["site"] == "https://laden.example"
    section = site["sections"]["a"]
    assert section["from"] == {"csv": name, **written}
    assert section["columns"] == {"loc": "Adresse", "title": "Bezeichnung"}
    assert section["lastmod"] == {"column": "Geändert am", "format": "%d.%m.%Y %H:%M", "timezone": "UTC"}
    runs(60)


def test_init_reads_an_archive(tmp_path: Path) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("a.csv", german())
    Path("a.csv.zip").write_bytes(packed.getvalue())
    started("a.csv.zip")
    runs(60)


def test_columns_are_recognized_by_values_rather_than_headers() -> None:
    lines = ["Page path,Last modified,Erstellt,Brand,Preview,Angebot bis,aktiv"]
    lines += [
        f"/p/{n},2026-10-{n % 28 + 1:02}T10:00:00Z,2025-01-{n % 28 + 1:02},https://brand.example/,"
        f"https://cdn.example/{n}.webp?w=9,2099-01-01,{'ja' if n % 3 else 'nein'}"
        for n in range(40)
    ]
    Path("x.csv").write_text("\n".join(lines))
    section = started("x.csv", "--site", "https://shop.example")["sections"]["x"]
    assert section["columns"] == {"loc": "Page path", "images": "Preview"}
    assert section["lastmod"] == "Last modified"
    assert "# where: says which rows to list; it may be about: aktiv" in Path("site.yaml").read_text()
    runs(40)


def test_urls_without_a_scheme_get_one() -> None:
    Path("x.csv").write_text("page,loc\n" + "".join(f"www.shop.example/p/{n},{n}\n" for n in range(9)))
    site = started("x.csv", "--site", "https://www.shop.example")
    query = site["sections"]["x"]["from"]["query"]
    assert query == "SELECT 'https://' || \"page\" AS loc, * EXCLUDE (loc)\nFROM source\n"
    runs(9)


def test_the_site_is_derived_from_urls_without_a_scheme() -> None:
    Path("x.csv").write_text("page\n" + "".join(f"{'www.' if n % 3 else ''}shop.example/p/{n}\n" for n in range(30)))
    site = started("x.csv")
    assert (site["site"], site["urls"]) == (
        "https://www.shop.example",
        {"same_as": ["https://shop.example"], "bare": "reject"},
    )
    runs(30)


def test_words_for_a_missing_value_are_proposed_as_null() -> None:
    rows = [f'https://shop.example/{n},"{n}",{("NULL", "nan", "")[n % 3]}' for n in range(40)]
    Path("x.csv").write_text("\n".join(["url,title,exclude", *rows, ""]))
    site = started("x.csv")
    assert site["sections"]["x"]["from"]["null"] == ["\\N", "NULL", "nan"]
    runs(40)


def test_no_null_is_proposed_without_words_for_a_missing_value() -> None:
    Path("x.csv").write_text(
        "url,title\n" + "".join(f"https://shop.example/{n},{n or 'None of these'}\n" for n in range(9))
    )
    assert started("x.csv")["sections"]["x"]["from"] == {"csv": "x.csv"}
    runs(9)


def test_a_quoted_marker_of_null_is_proposed_too() -> None:
    Path("x.csv").write_text("url,title\n" + "".join(f'https://shop.example/{n},"\\N"\n' for n in range(9)))
    assert started("x.csv")["sections"]["x"]["from"] == {"csv": "x.csv", "null": "\\N"}
    runs(9)


@pytest.mark.parametrize("text", ["sep=;\nurl;title\n", 'SEP=;\r\n"url";title;;\r\n', "url\x1ftitle\x1f\x1f\n"])
def test_title_rows_of_a_spreadsheet_are_recognized(text: str) -> None:
    mark = "\x1f" if "\x1f" in text else ";"
    more = mark * (text.count(mark) - 2 if text.lower().startswith("sep") else text.count(mark) - 1)
    Path("x.csv").write_text(text + "".join(f"https://shop.example/{n}{mark}{n}{more}\n" for n in range(9)))
    section = started("x.csv")["sections"]["x"]
    assert (section["from"]["delimiter"], section["columns"]["loc"]) == (mark, "url")
    runs(9)


@pytest.mark.parametrize("first", ["https://shop.example/0,2026-02-01", "/0,2026-02-01", "shop.example/0"])
@pytest.mark.parametrize("count", [1, 30])
def test_a_csv_without_a_header_row_is_refused_so_that_no_page_is_lost(first: str, count: int) -> None:
    Path("x.csv").write_text("".join(f"{first.replace('/0', f'/{n}')}\n" for n in range(count)))
    done = call("init", "--from", "x.csv")
    assert done.code == 2
    assert "x.csv: the first row has to name the columns, and has the address of a page" in done.err
    assert "write a row of names before it, such as loc" in done.err
    assert "header: [loc, lastmod]" in done.err
    assert not Path("site.yaml").exists()


def test_a_column_name_can_look_like_a_url_if_its_values_do_not() -> None:
    Path("x.csv").write_text("loc,https://shop.example/\n" + "".join(f"/{n},{n}\n" for n in range(9)))
    started("x.csv", "--site", "https://shop.example")
    runs(9)


def test_dates_of_mails_and_feeds_are_read_in_the_zone_that_they_name() -> None:
    lines = [f'https://shop.example/{n},"Tue, {n % 28 + 1:02} Sep 2026 10:00:00 GMT"\n' for n in range(30)]
    Path("x.csv").write_text("url,when\n" + "".join(lines))
    site = started("x.csv")
    section = site["sections"]["x"]
    assert section["lastmod"] == {"column": "when", "format": "%a, %d %b %Y %H:%M:%S GMT", "timezone": "UTC"}
    assert section["columns"] == {"loc": "url"}
    assert not [note for note in site["json"]["notes"] if "guess" in note]
    runs(30)


def test_a_second_spelling_of_the_origin_is_the_same_site() -> None:
    Path("x.csv").write_text("loc\n" + "".join(f"http{'s' if n else ''}://shop.example/{n}\n" for n in range(5)))
    site = started("x.csv")
    assert (site["site"], site["urls"]) == (
        "https://shop.example",
        {"same_as": ["http://shop.example"], "bare": "reject"},
    )
    said = "some pages are at http://shop.example: by urls.same_as they are listed at https://shop.example"
    assert said in site["json"]["notes"]
    runs(5)


@pytest.mark.parametrize(("odd", "rule"), [("/61", {"bare": "reject"}), ("lamp-61", None), ("url", {"bare": "reject"})])
def test_init_judges_sampled_urls_by_the_rules_of_a_run(odd: str, rule: dict[str, str] | None) -> None:
    Path("x.csv").write_text("url\n" + "".join(f"/{n}\n" for n in range(60)) + f"{odd}\n")
    site = started("x.csv", "--site", "https://shop.example")
    assert site.get("urls") == rule
    said = "url: 1 of 61 values are not addresses (header row), such as 'url': a run rejects them"
    assert (said in site["json"]["notes"]) == (odd == "url")
    if odd != "url":
        runs(61)


def test_pages_on_another_host_are_reported() -> None:
    Path("x.csv").write_text("loc\n" + "".join(f"https://{'b' if n == 9 else 'a'}.example/{n}\n" for n in range(10)))
    site = started("x.csv")
    assert site["urls"] == {"bare": "reject"}
    said = "some pages are at https://b.example: those are rejected, unless urls: {same_as: […]} names their origin"
    assert said in site["json"]["notes"]


def test_json_lines_and_folders_are_recognized_by_their_names() -> None:
    Path("e/day=2026-10-01").mkdir(parents=True)
    lines = [json.dumps({"pfad": f"/p/{n}", "stand": 1_790_000_000 - n, "mehr": {"a": [n]}}) for n in range(20)]
    Path("e/day=2026-10-01/p.jsonl").write_text("\n".join(lines))
    Path("e/_SUCCESS").write_text("")
    site = started("e", "--site", "https://shop.example")
    assert site["sections"]["e"] == {
        "from": {"jsonl": "e"},
        "columns": {"loc": "pfad"},
        "lastmod": {"column": "stand", "unit": "s"},
    }
    runs(20)


@pytest.mark.parametrize(("own", "expected"), [({"mod": "2026-09-{:02}"}, "mod"), ({}, "none")])
def test_a_date_in_the_name_of_a_folder_is_recognized_as_that_of_an_export(own: dict[str, str], expected: str) -> None:
    """Spark and Hive write a folder per day: that a page is in the newest does not mean that it changed."""
    for day in (1, 2):
        folder = Path(f"e/dt=2026-11-0{day}")
        folder.mkdir(parents=True)
        rows = {name: [date.format(n + 1) for n in range(9)] for name, date in own.items()}
        pq.write_table(pa.table({"loc": [f"/p/{day}/{n}" for n in range(9)], **rows}), folder / "p.parquet")
    site = started("e", "--site", "https://shop.example")
    assert site["sections"]["e"]["lastmod"] == expected
    runs(18)


def test_a_column_with_a_misleading_name_is_ignored() -> None:
    Path("x.csv").write_text("loc,priority,lastmod\n/a,700,soon\n/b,20,later\n")
    section = started("x.csv", "--site", "https://shop.example")["sections"]["x"]
    assert (section["priority"], section["lastmod"]) == ("none", "none")
    runs(2)


@pytest.mark.parametrize("name", ['quo"te', "${HOME}", "ja\nnein"])
def test_unusual_column_names_are_quoted_in_the_site_file(name: str) -> None:
    table = pa.table({f"{name}1": ["/a", "/b"], name: pa.array([20_000, 20_001], pa.date32())})
    pq.write_table(table, "x.parquet")
    site = started("x.parquet", "--site", "https://shop.example")
    assert list(site["sections"]["x"]) == ["from", "columns", "lastmod"]
    runs(2)


def test_init_writes_a_site_file_for_an_export_without_rows() -> None:
    Path("x.csv").write_text("loc,lastmod\n")
    assert started("x.csv", "--site", "https://shop.example")["sections"]["x"] == {"from": {"csv": "x.csv"}}
    assert call("validate", "site.yaml", "--connect").code == 0


def test_the_path_of_an_export_is_written_relative_to_the_site_file() -> None:
    Path("exports").mkdir()
    Path("exports/p.csv").write_text("loc\n/a\n")
    assert call("init", "sites/shop.yaml", "--from", "exports/p.csv", "--site", "https://shop.example").code == 0
    site = yaml.safe_load(Path("sites/shop.yaml").read_text())
    assert site["sections"]["p"]["from"] == {"csv": "../exports/p.csv"}
    assert call("validate", "sites/shop.yaml", "--connect").code == 0


def test_init_reads_exports_in_a_bucket(s3: S3Server) -> None:
    bucket = s3.bucket()
    s3.client().put_object(Bucket=bucket, Key="out/teil.csv.gz", Body=gzip.compress(german().encode("cp1252")))
    site = started(f"s3://{bucket}/out/")
    assert site["sections"]["out"]["from"] == {"csv": f"s3://{bucket}/out/", "delimiter": ";", "encoding": "cp1252"}
    runs(60)


def test_init_reads_objects_without_a_known_suffix_in_a_bucket(s3: S3Server) -> None:
    bucket = s3.bucket()
    for key in ("pages_0000_part_00", "pages_0001_part_00"):
        s3.client().put_object(Bucket=bucket, Key=f"unload/{key}", Body=b"loc,lastmod\n/%s,2026-10-01\n" % key.encode())
    site = started(f"s3://{bucket}/unload/", "--site", "https://shop.example")
    assert site["sections"]["unload"]["from"] == {"csv": f"s3://{bucket}/unload/*"}
    runs(2)


# --- tables of a lakehouse ---


def test_a_delta_table_is_read_as_a_table_not_as_its_files(tmp_path: Path) -> None:
    table = Delta(str(tmp_path / "lake" / "products"))
    table.append(rows(0, 30))
    table.delete("id < 10")
    site = started("lake/products", "--site", "https://shop.example")
    assert site["sections"]["products"]["from"] == {"delta": "lake/products"}
    runs(20)


@pytest.mark.thorough
def test_init_reads_an_iceberg_table_by_name_and_by_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = Iceberg(tmp_path / "lake")
    table.append(rows(0, 30))
    for name, value in table.environ.items():
        monkeypatch.setenv(name, value)
    site = started("lake.shop.products", "--site", "https://shop.example")
    assert site["sections"]["products"]["from"] == {"iceberg": "lake.shop.products"}
    runs(30)
    Path("site.yaml").unlink()
    folder = table.table().location().removeprefix("file://")
    said = started(folder, "--site", "https://shop.example")["json"]["notes"]
    assert any("a metadata file is the table of one moment" in note for note in said)
    runs(30)


# --- databases ---

PRODUCTS = [(n, f"lampe-{n}", f"2026-10-{n % 28 + 1:02} 10:00:00", "2025-01-01 00:00:00", n % 2) for n in range(1, 41)]


@pytest.fixture(params=["postgresql", "mysql", "sqlite", "duckdb"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, str]:
    """Return the URI of a database with an unusual and an empty table, and its quote character."""
    quote = "`" if request.param in ("mysql", "sqlite") else '"'
    moment = "DATETIME" if request.param == "mysql" else "TIMESTAMP"
    bytes_ = "BYTEA" if request.param == "postgresql" else "BLOB"
    kinds = ("INTEGER PRIMARY KEY", "VARCHAR(80)", moment, moment, "INTEGER", bytes_)
    names = ("Nr", "Slug", "Geändert am", "angelegt", "aktiv", "Bild")
    columns = ", ".join(f"{quote}{name}{quote} {kind}" for name, kind in zip(names, kinds, strict=True))
    table = f"{quote}Produkt Liste{quote}"
    values = ", ".join(
        f"({n}, '{slug}', '{changed}', '{made}', {flag}, 'xyz')" for n, slug, changed, made, flag in PRODUCTS
    )
    texts = [
        f"CREATE TABLE {table} ({columns})",
        f"INSERT INTO {table} VALUES {values}",
        "CREATE TABLE leer (x INTEGER)",
    ]
    if request.param == "postgresql":
        server: Postgres = request.getfixturevalue("postgres")
        server.execute(*texts, "ANALYZE")
        uri = server.uri
    elif request.param == "mysql":
        other: MariaDB = request.getfixturevalue("mariadb")
        other.execute("DROP TABLE IF EXISTS leer", f"DROP TABLE IF EXISTS {table}", *texts, f"ANALYZE TABLE {table}")
        uri = other.uri
    else:
        uri = f"{request.param}:///{tmp_path}/shop.db"
        path = tmp_path / "shop.db"
        with (sqlite3 if request.param == "sqlite" else duckdb).connect(path) as db:
            for text in texts:
                db.execute(text)
            db.commit()
        if request.param == "sqlite":
            db.close()
    return uri, quote


def test_a_database_lists_its_tables_and_one_of_them_becomes_a_section_that_runs(
    database: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    uri, quote = database
    done = call("init", "--from", uri, "--json")
    assert not Path("site.yaml").exists()
    tables = {table["name"]: table["rows"] for table in done.json["tables"]}
    assert tables == {"Produkt Liste": 40, "leer": tables["leer"]}
    assert not tables["leer"]
    assert "Produkt Liste" in call("init", "--from", uri).out
    site = started(uri, "--table", "produkt liste", "--site", "https://shop.example")
    source = site["sections"]["produkt_liste"]["from"]
    variable = f"AIRFLOW_CONN_{source['database'].upper()}"
    assert any(f"export {variable}=" in note for note in site["json"]["notes"])
    assert "Bild" not in site["json"]["columns"] or uri.startswith("sqlite")  # which has it as text
    assert source["key"] == "Nr"
    assert source["split"] == {"column": "Nr", "parts": 2}
    q = quote
    assert source["query"].split() == (
        f"SELECT {q}Nr{q}, {q}Slug{q} AS loc, {q}Geändert am{q} AS lastmod FROM {q}Produkt Liste{q}".split()
    )
    assert site["sections"]["produkt_liste"]["lastmod"] == {"column": "lastmod", "timezone": "UTC"}
    monkeypatch.setenv(variable, uri)
    runs(40)


def test_the_password_of_a_connection_is_shown_nowhere(mariadb: MariaDB) -> None:  # noqa: F811 - the imported fixture
    mariadb.execute("CREATE OR REPLACE TABLE eins (id INT PRIMARY KEY, url TEXT)")
    mariadb.execute("INSERT INTO eins VALUES (1, 'https://shop.example/a')")
    done = call("init", "--from", mariadb.uri, "--table", "eins")
    assert done.code == 0, done.err
    said = done.out + done.err + Path("site.yaml").read_text()
    assert "with the password in place of ***: export AIRFLOW_CONN_SHOP='mysql://reader:***@127.0.0.1" in said
    assert "secret" not in said
    assert "pass%3A" not in said


def test_an_existing_connection_is_written_by_its_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with sqlite3.connect("c.sqlite") as db:
        db.execute("CREATE TABLE page (url TEXT)")
        db.execute("INSERT INTO page VALUES ('https://shop.example/a')")
    monkeypatch.setenv("AIRFLOW_CONN_CATALOG", f"sqlite:///{tmp_path}/c.sqlite")
    for source in ("catalog", "c.sqlite", "sqlite:///c.sqlite"):
        Path("site.yaml").unlink(missing_ok=True)
        site = started(source)
        assert site["sections"]["page"]["from"]["database"] == "catalog"
    runs(1)


def test_a_database_without_a_catalog_is_read_by_the_name_of_a_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with sqlite3.connect("c.sqlite") as db:
        db.execute("CREATE TABLE page (id INTEGER, url TEXT, changed TEXT)")
        db.executemany(
            "INSERT INTO page VALUES (?, ?, ?)",
            [(n, f"https://shop.example/{n}", f"2026-10-{n + 1:02}") for n in range(9)],
        )
    manifest = f'manifest_version = 1\nname = "shopbase"\n[Driver]\nshared = "{adbc_driver_sqlite._driver_path()}"\n'
    Path("shopbase.toml").write_text(manifest)
    monkeypatch.setenv("ADBC_DRIVER_PATH", str(tmp_path))
    connection = {"conn_type": "shopbase", "extra": {"uri": f"file:{tmp_path}/c.sqlite?mode=ro"}}
    monkeypatch.setenv("AIRFLOW_CONN_OTHER", json.dumps(connection))
    assert "The database does not list its tables: name one with --table" in call("init", "--from", "other").err
    section = started("other", "--table", "page")["sections"]["page"]
    assert section["from"]["query"].split() == [
        "SELECT",
        '"url"',
        "AS",
        '"loc",',
        '"changed"',
        "AS",
        '"lastmod"',
        "FROM",
        '"page"',
    ]
    runs(9)


def test_several_tables_become_several_sections(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with sqlite3.connect("c.sqlite") as db:
        for name in ("product", "article"):
            db.execute(f"CREATE TABLE {name} (id INTEGER PRIMARY KEY, url TEXT)")
            db.executemany(f"INSERT INTO {name} VALUES (?, ?)", [(n, f"/{name}/{n}") for n in range(5)])
        db.execute("CREATE VIEW live AS SELECT url FROM product WHERE id > 2")
    monkeypatch.setenv("AIRFLOW_CONN_CATALOG", f"sqlite:///{tmp_path}/c.sqlite")
    tables = ("--table", "product", "--table", "article", "--table", "live")
    site = started("catalog", *tables, "--site", "https://shop.example")
    assert list(site["sections"]) == ["product", "article", "live"]
    assert "split" not in site["sections"]["live"]["from"]
    assert call("validate", "site.yaml", "--connect").code == 0


def test_several_sources_become_several_sections(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with sqlite3.connect("c.sqlite") as db:
        for name in ("product", "log"):
            db.execute(f"CREATE TABLE {name} (id INTEGER PRIMARY KEY, url TEXT)")
            db.executemany(f"INSERT INTO {name} VALUES (?, ?)", [(n, f"/{name}/{n}") for n in range(5)])
    monkeypatch.setenv("AIRFLOW_CONN_CATALOG", f"sqlite:///{tmp_path}/c.sqlite")
    Path("articles.csv").write_text("url,updated\n/a/1,2026-10-01\n/a/2,2026-10-02\n")
    sources = ("--from", "articles.csv", "--table", "product", "--site", "https://shop.example")
    site = started("catalog", *sources)
    assert list(site["sections"]) == ["product", "articles"]
    assert call("validate", "site.yaml", "--connect").code == 0
    assert call("run", "site.yaml").code == 0


def test_a_missing_table_is_reported_with_the_existing_ones(tmp_path: Path) -> None:
    with sqlite3.connect("c.sqlite") as db:
        db.execute("CREATE TABLE product (url TEXT)")
        db.execute("CREATE TABLE stock (n INT)")
    done = call("init", "--from", "c.sqlite", "--table", "prodct")
    assert done.code == 2
    assert "there is no table 'prodct'; did you mean product? There are: product, stock" in done.err


def test_a_table_without_urls_is_reported_with_what_to_write(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with sqlite3.connect("c.sqlite") as db:
        db.execute("CREATE TABLE price (id INTEGER PRIMARY KEY, amount REAL)")
        db.execute("INSERT INTO price VALUES (1, 2.5)")
    monkeypatch.setenv("AIRFLOW_CONN_CATALOG", f"sqlite:///{tmp_path}/c.sqlite")
    notes = started("catalog", "--site", "https://shop.example")["json"]["notes"]
    assert any("write it AS loc in the SELECT. The columns are: id, amount" in note for note in notes)
    assert "none of the 1 rows that were read can be listed" in call("validate", "site.yaml", "--connect").err


# --- mistakes ---


def test_init_never_replaces_a_file() -> None:
    Path("site.yaml").write_text("mine")
    done = call("init")
    assert done.code == 2
    assert done.err.startswith("site.yaml already exists, and init never replaces a file")
    assert Path("site.yaml").read_text() == "mine"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--from", "nope.csv"], "there is no file"),
        (
            ["--from", "nope"],
            "there is no file or folder of this name, and no connection of this ID: set AIRFLOW_CONN_N",
        ),
        (["--from", "none.duckdb"], "there is no file none.duckdb\n"),
        (["--from", "none.db"], "there is no file none.db\n"),
        (["--from", "my-shop"], "there is no file my-shop\n"),
        (["--from", "postgresql://reader:ge@heim@db/shop"], "--from: the URI of the connection can't be read"),
        (["--from", "jdbc:postgresql://db/shop"], "is a JDBC connection"),
        (["--table", "product"], "--table needs --from"),
        (["--from", "https://shop.example/sitemap.xml", "--from", "nope.csv"], "can't have other sources"),
        (["/dev/null/site.yaml"], "/dev/null/site.yaml can't be written: "),
        (["--site", "shop.example"], "--site shop.example: "),
        (["site.txt"], "the name of a site file must end in .yaml"),
    ],
)
def test_an_invalid_call_of_init_writes_nothing(arguments: list[str], said: str) -> None:
    done = call("init", *arguments)
    assert done.code == 2
    assert said in done.err
    assert not list(Path().iterdir())
