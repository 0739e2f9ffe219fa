"""Bad input: one clear message, the right exit code, no traceback, and nothing that was published changes."""

from __future__ import annotations

import json
import resource
import sqlite3
import subprocess
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from sitemap_etl.state.store import State
from tests.support.command import PROGRAM, Done, at, call
from tests.support.postgres import Postgres
from tests.support.proxy import Fault, FaultProxy
from tests.support.s3 import S3Server
from tests.support.sites import Crawler, TestSite, pages


class Shop(TestSite):
    """A published site of one section, `products`."""

    def source(self, **keys: object) -> None:
        self.keys["sections"]["products"] = keys

    def text(self, old: str, new: str) -> None:
        """Write the site file with a piece of its text replaced."""
        text = yaml.safe_dump(self.keys, sort_keys=False)
        assert old in text, text
        self.written = text.replace(old, new)

    written: str | None = None
    published: Crawler
    known: State

    @property
    def path(self) -> Path:
        if self.written is None:
            return super().path
        path = self.folder / "shop.yaml"
        path.write_text(self.written)
        return path


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    monkeypatch.chdir(tmp_path)
    shop = Shop(tmp_path)
    shop.section("products", pages(50, lastmod="2026-10-01"))
    shop.night(1)
    shop.published, shop.known = shop.public(), shop.state()
    database = sqlite3.connect(tmp_path / "shop.sqlite")
    database.execute("CREATE TABLE products (loc text)")
    database.commit()
    database.close()
    monkeypatch.setenv("AIRFLOW_CONN_CATALOG", f"sqlite:///{tmp_path / 'shop.sqlite'}")
    monkeypatch.setenv("AIRFLOW_CONN_AWAY", "postgresql://reader:geheim@127.0.0.1:1/shop")
    monkeypatch.setenv("AIRFLOW_CONN_RAW", "postgresql://reader:geh@im#wort@127.0.0.1:1/shop")
    monkeypatch.setenv("AIRFLOW_CONN_JAVA", "jdbc:postgresql://127.0.0.1:1/shop?user=reader&password=geheim")
    monkeypatch.delenv("TOKEN", raising=False)
    monkeypatch.delenv("NOWHERE", raising=False)
    (tmp_path / "hooks.py").write_text(
        "def boom(frame):\n    raise ValueError('no price')\n"
        "def adds(frame):\n    return frame.loc[list(frame.index) * 2]\n"
        "def forgets(frame):\n    return frame.drop(columns=['loc'])\n"
    )
    return shop


def refused(shop: Shop, code: int, *said: str, arguments: tuple[object, ...] = ()) -> Done:
    """Run the site; check that it ends with `code` and one message with these words, and changes nothing."""
    before, current = shop.published.objects(), shop.known.current()
    done = call("run", shop.path, *at("2026-11-02T02:00:00Z"), *arguments)
    told = [line for line in done.err.splitlines() if not line.startswith(("extract:", "transform:", "render:"))]
    assert done.code == code, done.err
    for words in said:
        assert words in "\n".join(told), done.err
    assert "Traceback" not in done.err
    assert "geheim" not in done.out + done.err
    assert "wort" not in done.out + done.err
    assert len(told) <= 4, told
    assert shop.published.objects() == before
    assert shop.known.current() == current
    assert shop.known.storage.get("state/lease.json") is None
    return done


# --- sources ------------------------------------------------------------------------------------------


def cut(shop: Shop) -> None:
    pq.write_table(pa.table({"loc": [f"/p/{n}" for n in range(10_000)]}), shop.folder / "whole.parquet")
    data = (shop.folder / "whole.parquet").read_bytes()
    (shop.folder / "cut.parquet").write_bytes(data[: len(data) // 2])
    shop.source(**{"from": {"parquet": "./cut.parquet"}})


def middle_gone(shop: Shop) -> None:
    """The footer is intact, the pages are not."""
    pq.write_table(pa.table({"loc": [f"/p/{n * 7919}" for n in range(10_000)]}), shop.folder / "whole.parquet")
    data = bytearray((shop.folder / "whole.parquet").read_bytes())
    data[100:5_000] = b"\xff" * 4_900
    (shop.folder / "hole.parquet").write_bytes(bytes(data))
    shop.source(**{"from": {"parquet": "./hole.parquet"}})


def csv_of(text: str) -> Callable[[Shop], None]:
    def change(shop: Shop) -> None:
        (shop.folder / "products.csv").write_text(text)

    return change


def jsonl_of(text: str) -> Callable[[Shop], None]:
    def change(shop: Shop) -> None:
        (shop.folder / "products.jsonl").write_text(text)
        shop.source(**{"from": {"jsonl": "./products.jsonl"}})

    return change


def cut_gzip(shop: Shop) -> None:
    import gzip

    (shop.folder / "cut.csv.gz").write_bytes(gzip.compress(b"loc\n/a\n" * 5_000)[:-20])
    shop.source(**{"from": {"csv": "./cut.csv.gz"}})


def source(**keys: object) -> Callable[[Shop], None]:
    return lambda shop: shop.source(**{"from": keys})


def database(query: str, name: str = "catalog") -> Callable[[Shop], None]:
    return source(database=name, query=query)


SOURCES = {
    "missing file": (source(csv="./gone.csv"), 2, "section products: there is no file", "gone.csv"),
    "missing files": (source(parquet="./export/*.parquet"), 2, "no file matches", "export/*.parquet"),
    "empty folder": (source(parquet="./export"), 2, "section products: ", "export"),
    "missing table": (database("SELECT loc FROM pages"), 2, "section products: ", "no such table: pages"),
    "missing column": (database("SELECT url AS loc FROM products"), 2, "no such column: url"),
    "SQL syntax": (database("SELEC loc FROM products"), 2, "section products: ", "syntax error"),
    "SQL of an export": (source(csv="./products.csv", query="SELECT lok FROM source"), 2, "lok"),
    "unknown connection": (database("SELECT 1", "other"), 2, "'other' is not known: set AIRFLOW_CONN_OTHER"),
    "unreachable database": (
        database("SELECT loc FROM products", "away"),
        3,
        "Unavailable: ",
        "away",
        "did not answer",
    ),
    "raw password": (database("SELECT loc FROM products", "raw"), 2, "connection 'raw': ", "percent-encode"),
    "JDBC": (database("SELECT loc FROM products", "java"), 2, "connection 'java': is a JDBC connection"),
    "unset parameter": (
        source(database="catalog", query="SELECT :token AS loc", params={"token": "${TOKEN}"}),
        2,
        "params.token: the environment variable TOKEN is not set",
    ),
    "missing loc": (csv_of("url,title\n/a,A\n"), 2, "It has: url, title. Use `AS loc`", "columns: {loc: …}"),
    "loc in capitals": (csv_of("LOC,title\n/a,A\n"), 2, "no column 'loc'", "Did you mean LOC? Use `AS loc`"),
    "broken row": (csv_of("loc,x\n/a,1\n/b,1,2,3\n"), 2, "products.csv line 3: expected 2 fields", "found 4"),
    "a column that is always read, twice": (
        csv_of("loc,lastmod,lastmod\n/a,2026-01-01,2026-01-02\n"),
        2,
        "products.csv: the first row names the column 'lastmod' more than once, and a rule reads it",
    ),
    "a header that is not there": (
        source(csv="./products.csv", header=["loc"]),
        2,
        "expected 1 fields as header: names",
    ),
    "a deep line of JSON": (
        jsonl_of('{"x": ' + "[" * 1_000_000 + "]" * 1_000_000 + "}\n"),
        2,
        "line 1",
        "50 levels deep",
    ),
    "a long line of JSON": (
        jsonl_of('{"x": "' + "x" * 17_000_000 + '"}\n'),
        2,
        "line 1",
        "longer than 16,777,216 bytes",
    ),
    "many keys of JSON": (
        jsonl_of(json.dumps({f"c{n}": n for n in range(8_000)}) + "\n"),
        2,
        "line 1: an object has 8,000 keys: at most 4,096 can be columns",
    ),
    "many columns of CSV": (csv_of(",".join(f"c{n}" for n in range(8_000)) + "\n"), 2, "has 8,000 columns"),
    "no header": (csv_of(""), 2, "products.csv is empty: expected a first row"),
    "another delimiter": (csv_of("loc;x\n/a;1\n"), 2, "is separated by ';': expected ','"),
    "naive times": (csv_of("loc,lastmod\n/a,2026-10-01 03:00\n"), 2, "section products: ", "timezone: Europe/Berlin"),
    "Parquet cut off": (cut, 2, "cut.parquet is not a whole Parquet file, it may be cut off"),
    "Parquet with a hole": (middle_gone, 2, "hole.parquet"),
    "gzip cut off": (cut_gzip, 2, "cut.csv.gz"),
}


@pytest.mark.parametrize("name", SOURCES)
def test_a_broken_source_is_reported(shop: Shop, name: str) -> None:
    change, code, *said = SOURCES[name]
    change(shop)
    refused(shop, code, *said)


def test_a_csv_that_is_not_utf8_is_reported_with_its_line(shop: Shop) -> None:
    (shop.folder / "products.csv").write_bytes("loc\n/a\n/größe\n".encode("latin-1"))
    refused(shop, 2, "products.csv line 3 is not UTF-8")


def test_an_export_without_rows_is_refused_by_a_gate(shop: Shop) -> None:
    csv_of("loc\n")(shop)
    before = shop.public().objects()
    done = call("run", shop.path, *at("2026-11-02T02:00:00Z"))
    assert done.code == 1
    assert "Refused: products would drop 50 of 50 URLs (100 %, max_drop is 10 %)" in done.err
    assert shop.public().objects() == before


def test_a_missing_table_in_postgresql_is_reported(
    shop: Shop, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_PG", postgres.uri)
    shop.source(**{"from": {"database": "pg", "query": "SELECT loc FROM pages"}})
    refused(shop, 2, "section products: ", 'relation "pages" does not exist')


def test_a_wrong_password_is_reported_but_not_shown(
    shop: Shop, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    postgres.execute("DROP ROLE IF EXISTS stranger", "CREATE ROLE stranger LOGIN PASSWORD 'right'")
    postgres.ask_password_of("stranger")
    monkeypatch.setenv("AIRFLOW_CONN_PG", postgres.as_user("stranger:geheim"))
    shop.source(**{"from": {"database": "pg", "query": "SELECT loc FROM pages"}})
    refused(shop, 1, "pg", "password authentication failed")


# --- hooks --------------------------------------------------------------------------------------------

RULES = {
    "a hook raises": ({"transform": "hooks:boom"}, 2, "transform hooks:boom raised ValueError: no price"),
    "a hook adds rows": ({"transform": "hooks:adds"}, 2, "transform hooks:adds returned rows that it did not get"),
    "a hook drops loc": ({"transform": "hooks:forgets"}, 2, "transform hooks:forgets dropped the column 'loc'"),
    "no such module": ({"transform": "hoks:boom"}, 2, "sections.products.transform: 'hoks:boom' can't be imported"),
    "no such function": ({"transform": "hooks:bom"}, 2, "sections.products.transform: 'hooks:bom' can't be imported"),
    "where syntax": ({"where": "loc LIKE"}, 2, "where: 'loc LIKE' can't be evaluated", "syntax error"),
    "where column, twice": (
        {"from": {"csv": "./twice.csv"}, "where": "price > 1"},
        2,
        "twice.csv: the first row names the column 'price' more than once, and a rule reads it",
    ),
    "where column": (
        {"where": "price > 1"},
        2,
        "where: 'price > 1' can't be evaluated",
        "The columns are: loc, lastmod",
    ),
    "lastmod column": ({"lastmod": "changed"}, 2, "section products: ", "changed"),
}


@pytest.mark.parametrize("name", RULES)
def test_a_rule_that_fails_on_the_data_is_reported(shop: Shop, name: str) -> None:
    keys, code, *said = RULES[name]
    (shop.folder / "twice.csv").write_text("loc,price,price\n/a,1,2\n")
    shop.source(**{"from": {"csv": "./products.csv"}, **keys})
    refused(shop, code, *said)


# --- the site file ------------------------------------------------------------------------------------

TRAPS = {
    "a word that is no switch": ("csv: ./products.csv", "csv: no", "no"),
    "a duplicate key": ("name: shop", "name: shop\nname: shop2", "shop.yaml:2: duplicate key `name` (first on line 1)"),
    "an unquoted star": ("csv: ./products.csv", "csv: *.csv", "a value that begins with * must be in quotes"),
    "an unquoted brace": ("publish: ./public", "publish: {bucket}/x", "publish"),
    "a tab": ("    from:", "\tfrom:", "shop.yaml:"),
    "an unknown key": ("sections:", "sectoins:", "sectoins: unknown key; did you mean sections?"),
    "an unknown key deep down": ("csv: ./", "cvs: ./", "sections.products.from: ", "did you mean csv?"),
    "an unset variable": ("./products.csv", "${NOWHERE}/x.csv", "the environment variable NOWHERE is not set"),
    "no mapping": ("name: shop", "- shop", "shop.yaml:"),
    "a site with a path": ("site: https://shop.example", "site: https://shop.example/de", "site: "),
}


@pytest.mark.parametrize("name", TRAPS)
def test_an_error_in_the_site_file_is_reported_with_its_line(shop: Shop, name: str) -> None:
    old, new, *said = TRAPS[name]
    shop.text(old, new)
    done = refused(shop, 2, *said)
    assert "shop.yaml" in done.err or "no.csv" in done.err or "/no" in done.err


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty"),
        (b"\xff\xfe\x00", "is not UTF-8"),
        (b"- a\n- b\n", "got a list"),
        (b"text", "expected a mapping"),
    ],
)
def test_a_file_that_is_not_a_site_file_is_reported(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / "odd.yaml").write_bytes(content)
    done = call("run", tmp_path / "odd.yaml")
    assert done.code == 2
    assert said in done.err
    assert len(done.err.splitlines()) == 1


def test_a_missing_site_file_is_reported_with_the_nearest_name(shop: Shop) -> None:
    assert shop.path.exists()
    done = call("run", "shp.yaml")
    assert (done.code, "did you mean" in done.err, "shop.yaml" in done.err) == (2, True, True)


def test_a_folder_in_place_of_a_site_file_is_refused(tmp_path: Path) -> None:
    assert call("run", tmp_path).code == 2


# --- the call -----------------------------------------------------------------------------------------


def test_an_unknown_section_is_reported_with_the_existing_ones(shop: Shop) -> None:
    refused(
        shop, 2, "--section product: there is no such section. There are: products", arguments=("--section", "product")
    )


def test_an_unknown_gate_is_reported_with_an_existing_one(shop: Shop) -> None:
    arguments = ("--force", "product.max_drop", "--reason", "x")
    refused(shop, 2, "--force product.max_drop: there is no such gate", "products.max_drop", arguments=arguments)


@pytest.mark.parametrize("run_id", ["20260101T000000Z-beef", "yesterday", "../../etc"])
def test_an_unknown_run_is_reported(shop: Shop, run_id: str) -> None:
    for command in ("publish", "rollback"):
        done = call(command, shop.path, run_id)
        assert (done.code, run_id in done.err, "Traceback" in done.err) == (2, True, False)


# --- where it goes ------------------------------------------------------------------------------------


def test_a_file_in_place_of_the_public_folder_is_reported(shop: Shop) -> None:
    (shop.folder / "taken").write_text("mine")
    shop.keys["publish"] = "./taken"
    before = (shop.folder / "public" / "sitemap.xml").read_bytes()
    done = call("run", shop.path, "--moved")
    assert done.code == 1
    assert "taken is a file: expected a folder" in done.err
    assert (shop.folder / "public" / "sitemap.xml").read_bytes() == before


@pytest.mark.parametrize("key", ["work", "publish"])
def test_a_folder_that_takes_no_files_is_reported(shop: Shop, key: str) -> None:
    """Nobody can write to /proc, not even root."""
    shop.keys[key] = "/proc/sitemaps"
    done = call("run", shop.path, "--moved")
    assert done.code == 1
    assert "can't write /proc/sitemaps" in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize("most", [10_000, *(pytest.param(most, marks=pytest.mark.thorough) for most in (300, 100_000))])
def test_a_full_disk_ends_with_exit_code_3(shop: Shop, most: int) -> None:
    """File sizes are limited: the first file over the limit is the lease, one of extract, or a published one."""
    shop.export("products", pages(20_000, title=lambda n: f"{n * 7919:x}" * 5))
    shop.keys["gates"] = {"max_growth": 1_000, "max_undated": 1}
    done = subprocess.run(
        [*PROGRAM, "run", str(shop.path), "--json"],
        cwd=shop.folder,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (most, most)),
    )
    assert done.returncode == 3, done.stdout + done.stderr
    assert json.loads(done.stdout)["status"] == "failed"
    assert "File too large" in done.stderr
    assert "Traceback" not in done.stderr
    assert call("check", shop.folder / "public").code == 0
    again = call("run", shop.path, "--json")
    assert (again.code, again.json["status"]) == (0, "published")


def on_s3(shop: Shop, bucket: str) -> None:
    shop.keys["publish"] = {"to": f"s3://{bucket}/maps", "at": "https://shop.example/"}


@pytest.mark.thorough
def test_an_object_not_managed_can_be_adopted_as_the_message_says(shop: Shop, s3: S3Server, bucket: str) -> None:
    """The run can stage in a scratch folder, with its state in a bucket."""
    on_s3(shop, bucket)
    shop.keys["work"] = f"s3://{bucket}/private"
    s3.client().put_object(Bucket=bucket, Key="maps/sitemap.xml", Body=b"<old/>")
    done = call("run", shop.path, "--json")
    assert (done.code, done.json["status"]) == (1, "refused")
    assert f"s3://{bucket}/maps/sitemap.xml" in done.json["error"]
    assert call("publish", shop.path, done.json["run_id"]).code == 1
    assert call("publish", shop.path, done.json["run_id"], "--adopt").code == 0
    kept = s3.client().get_object(Bucket=bucket, Key=f"private/shop/state/adopted/{done.json['run_id']}/sitemap.xml")
    assert kept["Body"].read() == b"<old/>"
    assert len(shop.public().locs()) == 50


def test_a_missing_bucket_is_reported(shop: Shop, s3: S3Server) -> None:
    on_s3(shop, "no-such-bucket")
    done = call("run", shop.path, "--moved")
    assert done.code == 1
    assert "bucket no-such-bucket does not exist. Create it" in done.err
    assert call("run", shop.path, "--dry-run", "--moved").code == 1


def test_a_missing_bucket_for_the_state_is_reported_before_anything_is_read(shop: Shop, s3: S3Server) -> None:
    shop.keys["work"] = "s3://no-such-bucket/work"
    (shop.folder / "products.csv").unlink()
    done = call("run", shop.path)
    assert (done.code, "bucket no-such-bucket does not exist" in done.err) == (1, True)


def test_a_403_that_may_hide_a_missing_object_is_reported_with_both_causes(
    shop: Shop, proxy: FaultProxy, bucket: str
) -> None:
    """S3 answers 403 for a missing object to those who may not list the bucket."""
    on_s3(shop, bucket)
    denied = Fault("answer", 403, "AccessDenied")
    proxy.plan = lambda seen: None if seen.writes else denied
    done = call("run", shop.path, "--moved")
    assert done.code == 1
    assert "s3:ListBucket" in done.err
    assert "S3 then says 403 instead of 404" in done.err


def test_wrong_credentials_are_reported_as_such(shop: Shop, proxy: FaultProxy, bucket: str) -> None:
    on_s3(shop, bucket)
    proxy.always(Fault("answer", 403, "SignatureDoesNotMatch"))
    done = call("run", shop.path, "--moved")
    assert (done.code, "Correct AWS_SECRET_ACCESS_KEY" in done.err) == (1, True)


def test_a_busy_store_ends_with_exit_code_3(shop: Shop, proxy: FaultProxy, bucket: str, monkeypatch) -> None:
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    on_s3(shop, bucket)
    proxy.always(Fault("answer", 503, "SlowDown"))
    done = call("run", shop.path, "--moved")
    assert (done.code, done.err.count("Try again later")) == (3, 1)
