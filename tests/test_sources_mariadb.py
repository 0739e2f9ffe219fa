from __future__ import annotations

import json
import re
import struct
import traceback
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
import pytest
import trustme

from sitemap_etl import sources
from sitemap_etl.connections import parse
from sitemap_etl.errors import ConfigError, InvalidSource, Refused, Unavailable
from sitemap_etl.frames import Tally
from sitemap_etl.runs.validate import problems_of
from sitemap_etl.sources.databases import mysql
from sitemap_etl.sources.databases.session import Session, Statement
from sitemap_etl.stages.run import Environment
from tests.support.mariadb import MariaDB, mariadb  # noqa: F401 - a fixture
from tests.support.sites import FIRST_NIGHT, TestSite

NOW = datetime(2026, 1, 2, tzinfo=UTC)


@pytest.fixture
def shop(mariadb: MariaDB) -> MariaDB:  # noqa: F811 - the imported fixture
    mariadb.execute(
        "DROP TABLE IF EXISTS products",
        "CREATE TABLE products (id INT PRIMARY KEY AUTO_INCREMENT, loc TEXT, price DECIMAL(12,2), "
        "seen TIMESTAMP, naive DATETIME)",
        "INSERT INTO products SELECT seq, CONCAT('/p/', seq, '-größe'), seq * 1.25, "
        "'2026-01-01 00:00' + INTERVAL seq MINUTE, '2026-01-01 00:00' + INTERVAL seq MINUTE FROM seq_1_to_5000",
    )
    return mariadb


def rows(
    uri: str, query: str, *, split: tuple[str, int] | None = None, params: dict | None = None, **options
) -> pa.Table:
    plan = sources.plan_database(parse(uri), query, params=params, split=split, label="catalog (sql/a.sql)")
    return pa.Table.from_batches(
        [b for s in plan for b in sources.read(s, connection=parse(uri), query=query, params=params, **options)]
    )


def test_types_of_mariadb_are_converted_correctly(shop: MariaDB) -> None:
    found = rows(
        shop.uri,
        """SELECT 1 AS i, true AS b, 1.5e0 AS f, CAST(12.5 AS DECIMAL(10,2)) AS n, DATE '2026-01-02' AS d,
        TIMESTAMP '2026-01-02 03:04:05' AS t, 'größe 😀' AS x, NULL AS e, TIME '10:00:00' AS h,
        CAST('ab' AS BINARY) AS z, JSON_OBJECT('a', 1) AS j
        UNION ALL SELECT 2, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL""",
    )
    (row,) = found.slice(0, 1).to_pylist()
    assert row == {
        "i": 1, "b": 1, "f": 1.5, "n": Decimal("12.5"), "d": date(2026, 1, 2), "t": datetime(2026, 1, 2, 3, 4, 5),  # noqa: DTZ001
        "x": "größe 😀", "e": None, "h": timedelta(hours=10), "z": b"ab", "j": '{"a": 1}',
    }  # fmt: skip
    assert [str(kind) for kind in found.schema.types] == [
        "int64", "int64", "double", "decimal128(38, 2)", "date32[day]", "timestamp[us]", "string", "string",
        "duration[us]", "binary", "string",
    ]  # fmt: skip


def test_types_do_not_depend_on_nulls_in_the_first_rows(shop: MariaDB) -> None:
    found = rows(
        shop.uri,
        "SELECT IF(id > 4000, price, NULL) AS price, IF(id > 4000, naive, NULL) AS t FROM products ORDER BY id",
    )
    assert [str(kind) for kind in found.schema.types] == ["decimal128(38, 2)", "timestamp[us]"]
    assert found["price"].null_count == 4000


def test_a_zero_date_is_null(shop: MariaDB) -> None:
    shop.execute(
        "DROP TABLE IF EXISTS old",
        "CREATE TABLE old (d DATE, t DATETIME)",
        "INSERT INTO old VALUES ('0000-00-00', '0000-00-00'), "
        "('2026-01-00', '2026-00-00 10:00'), ('2026-01-02', '2026-01-02')",
    )
    found = rows(shop.uri, "SELECT * FROM old")
    assert found.schema.types == [pa.date32(), pa.timestamp("us")]
    assert found["d"].to_pylist() == found["t"].cast(pa.date32()).to_pylist() == [None, None, date(2026, 1, 2)]


@pytest.mark.parametrize("column", ["seen", "naive"])
def test_since_is_compared_in_utc(shop: MariaDB, column: str) -> None:
    shop.execute("SET GLOBAL time_zone = '+09:00'")
    try:
        found = rows(shop.uri, f"SELECT {column} AS t FROM products WHERE naive > :since", params={"since": NOW})
    finally:
        shop.execute("SET GLOBAL time_zone = '+00:00'")
    assert found.num_rows == 5000 - 1440
    assert found.schema.field("t").type == (pa.timestamp("us", "UTC") if column == "seen" else pa.timestamp("us"))


def test_parameters_are_bound_and_never_interpreted_as_sql(shop: MariaDB) -> None:
    params = {"a": "it's \\' % :b", "n": 3, "day": date(2026, 1, 2)}
    query = "SELECT :a AS a, ':a %s \\' :a' AS q, :n + 1 AS n, :day AS day, TIME '10:30:00' AS `x:y` # :no"
    (row,) = rows(shop.uri, query, params=params).to_pylist()
    assert row["a"] == params["a"]
    assert row["q"] == ":a %s ' :a"
    assert row["n"] == 4
    assert row["x:y"] == timedelta(hours=10, minutes=30)


@pytest.mark.parametrize("column", ["id", "seen", "naive"])
def test_key_ranges_together_have_every_row_once(shop: MariaDB, column: str) -> None:
    plan = sources.plan_database(parse(shop.uri), "SELECT * FROM products;", split=(column, 4))
    assert len(plan) == 4
    found = rows(shop.uri, "SELECT * FROM products;", split=(column, 4), batch_rows=700)
    assert sorted(found["id"].to_pylist()) == list(range(1, 5001))
    query = f"SELECT id, {column} AS k FROM products WHERE {column} >= :split_from AND {column} < :split_to"
    assert sorted(rows(shop.uri, query, split=("k", 4))["id"].to_pylist()) == list(range(1, 5001))


def test_a_probe_returns_columns_and_types(shop: MariaDB) -> None:
    found = sources.probe_database(
        parse(shop.uri), "SELECT id, loc, seen FROM products WHERE seen < :now", {"now": NOW}
    )
    assert [str(kind) for kind in found.types] == ["int64", "string", "timestamp[us, tz=UTC]"]


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("SELECT * FROM missing", "Table 'shop.missing' doesn't exist"),
        ("SELECT lok FROM products", "Unknown column 'lok'"),
        ("SELECT * FRO products", "error in your SQL syntax"),
    ],
)
def test_an_invalid_select_is_reported_with_the_message_of_the_server(shop: MariaDB, query: str, told: str) -> None:
    with pytest.raises(InvalidSource, match=rf"catalog \(sql/a\.sql\): .*{told}"):
        rows(shop.uri, query)


def test_a_statement_that_writes_is_refused(shop: MariaDB) -> None:
    with pytest.raises((InvalidSource, Refused)):
        rows(shop.uri.replace("reader:pass%3Aw%40rd%2Fsecret", "admin:admin"), "DELETE FROM products")
    assert rows(shop.uri, "SELECT count(*) AS n FROM products")["n"].to_pylist() == [5000]


def test_refused_access_and_unreachable_servers_are_distinguished(shop: MariaDB) -> None:
    with pytest.raises(Refused, match="Access denied for user 'reader'") as caught:
        rows(shop.uri.replace("w%40rd", "hush%40rd"), "SELECT 1")
    assert "hush@rd" not in "".join(traceback.format_exception(caught.value))
    with pytest.raises(Refused, match=r"SELECT command denied|Access denied"):
        rows(shop.uri, "SELECT * FROM mysql.global_priv")
    with pytest.raises(Unavailable, match="Can't connect"):
        rows(shop.uri.replace(f":{shop.port}/", ":1/"), "SELECT 1")


def test_a_statement_timeout_can_be_retried(shop: MariaDB) -> None:
    shop.execute("SET GLOBAL max_statement_time = 0.3")
    try:
        with pytest.raises(Unavailable, match="max_statement_time"):
            rows(shop.uri, "SELECT count(*) AS n FROM products a, products b, products c")
    finally:
        shop.execute("SET GLOBAL max_statement_time = 0")


def test_a_reader_that_stops_early_does_not_fetch_the_rest(shop: MariaDB) -> None:
    query = "SELECT a.id, REPEAT('x', 500) AS x FROM products a, products b"
    (split,) = sources.plan_database(parse(shop.uri), query)
    reader = sources.read(split, connection=parse(shop.uri), query=query, batch_rows=1000)
    next(reader)
    reader.close()
    assert rows(shop.uri, "SELECT count(*) AS n FROM products")["n"].to_pylist() == [5000]


def test_unusual_values_are_read_unchanged(shop: MariaDB) -> None:
    widest = "-" + "9" * 35 + "." + "9" * 30
    shop.execute(
        "DROP TABLE IF EXISTS awkward",
        "CREATE TABLE awkward (huge BIGINT UNSIGNED, small TINYINT UNSIGNED, wide DECIMAL(65,30), "
        "padded INT(6) ZEROFILL, span TIME(3), flags BIT(10), all_bits BIT(64), size ENUM('klein','groß'), "
        "tags SET('a','b'), raw VARBINARY(9), old VARCHAR(9) CHARACTER SET latin1, made YEAR, real_number FLOAT, "
        "place POINT, id UUID, exact DATETIME(6))",
        f"INSERT INTO awkward VALUES (18446744073709551615, 255, '{widest}', 42, '-838:59:58.250', b'1000000011', "
        "0xFFFFFFFFFFFFFFFF, 'groß', 'a,b', x'00ff', 'größe', 2026, 0.1, POINT(1, 2), "
        "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '2026-01-02 03:04:05.000007')",
        "INSERT INTO awkward VALUES (0, 0, 0.5, 7, '00:00:01', b'0', 0, '', '', '', '', 1970, -2.5e30, NULL, NULL, "
        "NULL)",
        "INSERT INTO awkward (huge) VALUES (NULL)",
    )
    full, empty, nothing = rows(shop.uri, "SELECT * FROM awkward").to_pylist()
    place = full.pop("place")
    assert full == {
        "huge": 2**64 - 1, "small": 255, "wide": Decimal(widest), "padded": 42,
        "span": -timedelta(hours=838, minutes=59, seconds=58, milliseconds=250), "flags": 0b1000000011,
        "all_bits": 2**64 - 1, "size": "groß", "tags": "a,b", "raw": b"\x00\xff", "old": "größe", "made": 2026,
        "real_number": 0.1, "id": "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "exact": datetime(2026, 1, 2, 3, 4, 5, 7),  # noqa: DTZ001
    }  # fmt: skip
    assert place[-16:] == struct.pack("<dd", 1, 2)
    assert empty == {
        "huge": 0, "small": 0, "wide": Decimal("0.5"), "padded": 7, "span": timedelta(seconds=1), "flags": 0,
        "all_bits": 0, "size": "", "tags": "", "raw": b"", "old": "", "made": 1970, "real_number": -2.5e30,
        "place": None, "id": None, "exact": None,
    }  # fmt: skip
    assert set(nothing.values()) == {None}


def test_a_nonexistent_date_is_null(shop: MariaDB) -> None:
    found = rows(
        shop.uri.replace("/shop", "/shop?init_command=SET%20SESSION%20sql_mode%3D'ALLOW_INVALID_DATES'"),
        "SELECT CAST('2026-02-31' AS DATE) AS d, CAST('2024-02-29 23:59:59.5' AS DATETIME(1)) AS t",
    )
    assert found.to_pylist() == [{"d": None, "t": datetime(2024, 2, 29, 23, 59, 59, 500_000)}]  # noqa: DTZ001


def test_rows_of_any_length_and_large_results_are_read_completely(shop: MariaDB) -> None:
    query = "SELECT seq, REPEAT('ä', seq * 37 % 200000) AS x FROM seq_0_to_300"
    found = rows(shop.uri, query)
    assert found["seq"].to_pylist() == list(range(301))
    assert found["x"].to_pylist() == ["ä" * (n * 37 % 200_000) for n in range(301)]
    long = rows(shop.uri, "SELECT seq, REPEAT('x', 9000000 - seq) AS x FROM seq_1_to_2 ORDER BY seq")
    assert [len(text) for text in long["x"].to_pylist()] == [8_999_999, 8_999_998]


def test_a_row_that_the_protocol_would_truncate_is_refused(shop: MariaDB) -> None:
    shop.execute("SET GLOBAL max_allowed_packet = 64 * 1024 * 1024")
    with pytest.raises(InvalidSource, match="a row is longer than 16 MB; leave its large columns out"):
        rows(shop.uri, "SELECT REPEAT('x', 17000000) AS x")


def test_an_error_among_the_rows_is_reported(shop: MariaDB) -> None:
    query = "SELECT id, IF(id < 4000, 1, (SELECT id FROM products p WHERE p.id >= products.id)) AS one FROM products"
    with pytest.raises(InvalidSource, match="Subquery returns more than 1 row"):
        rows(shop.uri, query)


def test_a_statement_without_rows_is_reported(shop: MariaDB) -> None:
    with pytest.raises(InvalidSource, match="yields no rows; a SELECT is expected"):
        list(mysql.rows(parse(shop.uri), "DO 1", {}, Statement(Session()), label="catalog"))


def test_text_is_read_correctly_with_any_connection_charset(shop: MariaDB) -> None:
    found = rows(
        shop.uri + "?charset=latin1", "SELECT loc, :word AS word FROM products LIMIT 1", params={"word": "größe"}
    )
    assert found.to_pylist() == [{"loc": "/p/1-größe", "word": "größe"}]


@pytest.mark.parametrize("query", ["nosuch=1", "connect_timeout=soon"])
def test_an_unknown_driver_option_is_an_error_of_the_connection(shop: MariaDB, query: str) -> None:
    with pytest.raises(ConfigError, match=r"an option that PyMySQL does not take: .*(nosuch|soon)"):
        rows(f"{shop.uri}?{query}", "SELECT 1")


def test_rows_are_read_over_tls_and_the_certificate_is_verified_if_a_ca_is_given(shop: MariaDB, tmp_path: Path) -> None:
    query = "SELECT a.id, REPEAT('x', 900) AS x FROM products a, (SELECT 1 UNION ALL SELECT 2) two"
    airflows = json.dumps({"ssl": {"ca": str(shop.ca)}})
    for asked in (f"ssl_ca={quote(str(shop.ca))}", f"__extra__={quote(airflows)}", "ssl_check_hostname=false"):
        found = rows(f"{shop.uri}?{asked}", query)
        assert sorted(found["id"].to_pylist()) == sorted([*range(1, 5001)] * 2)
        shown = rows(f"{shop.uri}?{asked}", "SELECT variable_value AS cipher FROM information_schema.session_status "
                     "WHERE variable_name = 'Ssl_cipher'")  # fmt: skip
        assert shown["cipher"][0].as_py()
    trustme.CA().cert_pem.write_to_path(str(tmp_path / "other.pem"))
    with pytest.raises(Refused, match="certificate verify failed"):
        rows(f"{shop.uri}?ssl_ca={quote(str(tmp_path / 'other.pem'))}", query)


# --- what the server says of the rows ------------------------------------------------------------------


def noticed(uri: str, query: str, **options: object) -> tuple[pa.Table, Tally]:
    """Return the rows of a SELECT, and the server's warnings."""
    notices = Tally()
    found = rows(uri, query, session=Session(notice=notices.add), **options)
    return found, notices


@pytest.mark.parametrize("aggregate", ["GROUP_CONCAT(loc ORDER BY id)", "JSON_ARRAYAGG(loc)"])
def test_long_concatenated_lists_are_not_truncated(shop: MariaDB, aggregate: str) -> None:
    found, notices = noticed(shop.uri, f"SELECT {aggregate} AS locs FROM products")
    assert found["locs"][0].as_py().count("/p/") == 5000
    assert not notices.counts


def test_a_value_truncated_by_the_server_ends_the_run(shop: MariaDB) -> None:
    shop.execute(
        "CREATE OR REPLACE FUNCTION images() RETURNS LONGTEXT READS SQL DATA BEGIN "
        "SET SESSION group_concat_max_len = 20; RETURN (SELECT GROUP_CONCAT(p.loc) FROM products p); END",
    )
    for query in (
        "SELECT loc, images() AS images FROM products LIMIT 3",
        # Behind more other warnings than the server keeps by default.
        "SELECT CAST(loc AS INT) AS n, NULL AS images FROM products WHERE id < 1000 UNION ALL SELECT 1, images()",
    ):
        with pytest.raises(InvalidSource, match=r"catalog .*cut \d values .*GROUP_CONCAT\(\) \(warning 1260\)"):
            rows(shop.uri, query)
    with pytest.raises(InvalidSource, match=r"warning 1301"):
        rows(shop.uri, "SELECT REPEAT(loc, 10000000) AS loc FROM products WHERE id = 5")


def test_values_altered_by_casts_are_counted_with_an_example(shop: MariaDB) -> None:
    shop.execute("DROP TABLE IF EXISTS words", "CREATE TABLE words (w TEXT)", "INSERT INTO words VALUES ('1a'), ('2b')")
    found, notices = noticed(shop.uri, "SELECT CAST(w AS INT) AS n, STR_TO_DATE(w, '%Y-%m-%d') AS d FROM words")
    assert found["n"].to_pylist() == [1, 2]
    assert notices.counts == {
        "the database altered values (warning 1292)": 2,
        "the database altered values (warning 1411)": 2,
    }
    assert "'1a'" in notices.examples["the database altered values (warning 1292)"][0]


def test_a_run_warns_of_values_altered_by_casts(shop: MariaDB, tmp_path: Path) -> None:
    site = TestSite(tmp_path, urls={"respect_robots": False})
    site.environment = Environment(environ={"AIRFLOW_CONN_CATALOG": shop.uri})
    query = "SELECT loc, CAST(loc AS INT) AS n FROM products WHERE id < 10"
    site.keys["sections"]["pages"] = {
        "from": {"database": "catalog", "query": query, "split": {"column": "n", "parts": 2}}
    }
    (warning,) = site.night(1).summary.warnings
    assert re.search(r"pages: the database altered values \(warning 1292\): \d+, e\.g\. Truncated incorrect", warning)
    said: list[str] = []
    environment = replace(site.at(FIRST_NIGHT), log=said.append)
    assert not problems_of(site.load(), connect=True, environment=environment)
    assert any("altered values (warning 1292)" in line for line in said)
