from __future__ import annotations

import json
import re
import traceback
import uuid
from datetime import UTC, date, datetime
from decimal import Decimal
from urllib.parse import quote

import pyarrow as pa
import pytest

from sitemap_etl import sources
from sitemap_etl.connections import parse
from sitemap_etl.errors import ConfigError, Denied, InvalidSource, Refused, Unavailable
from tests.support.postgres import Postgres

SECRET = "hush" * 2
NOW = datetime(2026, 1, 2, tzinfo=UTC)
PRODUCTS = """
CREATE TABLE products AS
SELECT i AS id, '/p/' || i AS loc, timestamptz '2026-01-01 00:00+00' + i * interval '1 minute' AS seen,
       timestamp '2026-01-01 00:00' + i * interval '1 minute' AS naive, date '2026-01-01' + i / 1440 AS day,
       (i * 1.25)::numeric(12, 2) AS price
FROM generate_series(1, 5000) i"""


def rows(uri: str, query: str, *, split: tuple[str, int] | None = None, **options: object) -> pa.Table:
    """All rows of all splits."""
    params = options.pop("params", None)
    plan = sources.plan_database(parse(uri), query, params=params, split=split, label="catalog (sql/a.sql)")
    batches = [
        batch
        for one in plan
        for batch in sources.read(
            sources.Split.from_json(one.to_json()), connection=parse(uri), query=query, params=params, **options
        )
    ]
    return pa.Table.from_batches(batches)


def test_a_select_is_read_in_batches_within_the_bounds(postgres: Postgres) -> None:
    postgres.execute(PRODUCTS)
    (split,) = sources.plan_database(parse(postgres.uri), "SELECT id, loc FROM products;  -- all of them")
    read = sources.read(
        split, connection=parse(postgres.uri), query="SELECT id, loc FROM products;  -- all of them", batch_rows=900
    )
    found = list(read)
    assert [batch.num_rows for batch in found] == [900] * 5 + [500]
    assert sorted(i for batch in found for i in batch.column("id").to_pylist()) == list(range(1, 5001))


def test_types_of_postgresql_are_converted_correctly(postgres: Postgres) -> None:
    found = rows(
        postgres.uri,
        """SELECT 1::smallint s, 2::bigint b, 1.5::float8 f, 12.50::numeric(10,2) n, 0.1::numeric u, 'NaN'::numeric nan,
        'NaN'::numeric(5,2) dnan, date '2026-01-02' d, timestamptz '2026-01-02 01:00+01' t, timestamp '2026-01-02' p,
        true o, 'x'::text x, 'y'::char(3) c, '{"a": 1}'::jsonb j, ARRAY['a','b'] l, 'abc'::bytea z, NULL::text e,
        'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid id""",
    )
    types = {entry.name: str(entry.type) for entry in found.schema}
    assert types == {
        "s": "int16", "b": "int64", "f": "double", "n": "decimal128(10, 2)", "u": "double", "nan": "double",
        "dnan": "decimal128(5, 2)", "d": "date32[day]", "t": "timestamp[us, tz=UTC]", "p": "timestamp[us]", "o": "bool",
        "x": "string", "c": "string", "j": "string", "l": "list<item: string>", "z": "binary", "e": "string",
        "id": "string",
    }  # fmt: skip
    (row,) = found.to_pylist()
    assert row["n"] == Decimal("12.50")
    assert row["dnan"] is None
    assert row["t"] == datetime(2026, 1, 2, tzinfo=UTC)
    assert row["id"] == "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"


def test_dates_that_no_sitemap_can_express_are_null(postgres: Postgres) -> None:
    found = rows(
        postgres.uri,
        "SELECT * FROM (VALUES ('infinity'::timestamptz, '-infinity'::date, '0044-03-15 BC'::timestamp), "
        "('2026-01-02 00:00+00', '9999-12-31', '0001-01-01')) v(a, b, c)",
    ).to_pylist()
    assert found[0] == {"a": None, "b": None, "c": None}
    assert found[1] == {"a": NOW, "b": date(9999, 12, 31), "c": datetime(1, 1, 1)}  # noqa: DTZ001 - a naive column


def test_types_unknown_to_the_driver_become_text_or_numbers(postgres: Postgres) -> None:
    postgres.execute(
        "CREATE TYPE pair AS (a int, b text)", "CREATE TYPE cost AS (price money)", "CREATE DOMAIN amount AS money"
    )
    uid = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"
    found = rows(
        postgres.uri,
        f"""SELECT '12.50'::money AS m, '-0.05'::amount AS d, 4000000000::oid AS o, interval '1 mon 2 h' AS i,
        inet '10.0.0.1/8' AS ip, int4range(1, 5) AS r, bit '101' AS b, timetz '10:00+01' AS tz, point '(1,2)' AS p,
        ARRAY['{uid}'::uuid, NULL] AS us, ARRAY['{{"a": 1}}'::jsonb] AS js, ARRAY[1.5::numeric, 9007199254740993] AS ns,
        ARRAY['1'::money] AS ms, ARRAY[4000000000::oid] AS os, ARRAY[inet '::1'] AS ips, row(1, 'x')::pair AS c,
        row('1.25'::money)::cost AS cc, row(1, 'y') AS rec, ARRAY[row(2, 'z')::pair] AS cs, 7 AS "it's ""7"" :now",
        ARRAY[row('2'::money)::cost] AS ccs, interval '1 day' + NULL AS n""",
        params={"now": NOW},
    )
    (row,) = found.to_pylist()
    assert row == {
        "m": Decimal("12.5"), "d": Decimal("-0.05"), "o": 4_000_000_000, "i": "1 mon 02:00:00", "ip": "10.0.0.1/8",
        "r": "[1,5)", "b": "101", "tz": "10:00:00+01", "p": "(1,2)", "us": [uid, None], "js": ['{"a": 1}'],
        "ns": ["1.5", "9007199254740993"], "ms": ["$1.00"], "os": [4_000_000_000], "ips": ["::1/128"],
        "c": {"a": 1, "b": "x"}, "cc": '{"price":"$1.25"}', "rec": '{"f1":1,"f2":"y"}', "cs": [{"a": 2, "b": "z"}],
        "it's \"7\" :now": 7, "ccs": '[{"price":"$2.00"}]', "n": None,
    }  # fmt: skip


@pytest.mark.parametrize("own", ["", "&client_encoding=LATIN1"])
def test_a_database_in_another_encoding_is_read_and_queried_in_utf8(postgres: Postgres, own: str) -> None:
    name = f"latin_{uuid.uuid4().hex[:12]}"
    postgres.execute(f"CREATE DATABASE {name} ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0")
    latin = Postgres(re.sub(r"/test_\w+", f"/{name}", postgres.uri), postgres.data)
    latin.execute("CREATE TABLE pages AS SELECT unnest(ARRAY['/größe', '/other']) AS loc")
    found = rows(latin.uri + own, "SELECT loc, :word AS word FROM pages WHERE loc = :word", params={"word": "/größe"})
    assert found.to_pylist() == [{"loc": "/größe", "word": "/größe"}]
    with pytest.raises(InvalidSource, match="has no equivalent in encoding"):
        rows(latin.uri + own, "SELECT :word AS word", params={"word": "€"})


def test_a_database_without_an_encoding_yields_valid_utf8_and_reports_the_rest(postgres: Postgres) -> None:
    name = f"bare_{uuid.uuid4().hex[:12]}"
    postgres.execute(f"CREATE DATABASE {name} ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0")
    bare = re.sub(r"/test_\w+", f"/{name}", postgres.uri)
    assert rows(bare, "SELECT E'gr\\xc3\\xb6\\xc3\\x9fe' AS loc")["loc"].to_pylist() == ["größe"]
    with pytest.raises(InvalidSource, match='invalid byte sequence for encoding "UTF8"'):
        rows(bare, "SELECT E'gr\\xf6\\xdfe' AS loc")


def test_a_large_number_without_a_scale_is_an_error_and_not_rounded(postgres: Postgres) -> None:
    with pytest.raises(
        InvalidSource, match=r"'id' is numeric without a declared scale and holds 9007199254740993.*bigint"
    ):
        rows(postgres.uri, "SELECT 9007199254740993::numeric AS id")


@pytest.mark.parametrize("column", ["seen", "naive"])
def test_since_is_compared_with_timestamps_of_both_kinds(postgres: Postgres, column: str) -> None:
    postgres.execute(
        PRODUCTS, "ALTER DATABASE " + postgres.uri.split("/")[3].split("?")[0] + " SET timezone = 'Asia/Tokyo'"
    )
    found = rows(postgres.uri, f"SELECT id FROM products WHERE {column} > :since", params={"since": NOW})
    assert found.num_rows == 5000 - 1440


def test_parameters_are_bound_with_their_types_and_never_interpreted_as_sql(postgres: Postgres) -> None:
    postgres.execute(PRODUCTS)
    params = {
        "text": "it's $1 \\' ; -- :now", "Text": "other", "n": 7, "f": 0.5, "dec": Decimal("1.1"), "yes": True,
        "nothing": None, "day": date(2026, 1, 2), "naive": datetime(2026, 1, 2), "now": NOW,  # noqa: DTZ001 - as given
    }  # fmt: skip
    (row,) = rows(
        postgres.uri,
        """SELECT :text AS text, :Text AS other, ':text' AS quoted, :n + 1 AS n, :f * 2 AS f, :dec > 1 AS more,
        :yes AND true AS yes, :nothing IS NULL AS nothing, :day AS day, :naive AS naive, :now AS now, :text AS again
        FROM products WHERE id = :n LIMIT :n""",
        params=params,
    ).to_pylist()
    assert row == {
        "text": params["text"], "other": "other", "quoted": ":text", "n": 8, "f": 1.0, "more": True, "yes": True,
        "nothing": True, "day": date(2026, 1, 2), "naive": params["naive"], "now": NOW, "again": params["text"],
    }  # fmt: skip


@pytest.mark.parametrize("column", ["id", "day", "seen", "naive", "price"])
def test_key_ranges_together_have_every_row_once(postgres: Postgres, column: str) -> None:
    postgres.execute(PRODUCTS, "INSERT INTO products (loc) VALUES ('/without-a-key')")
    if column == "price":
        postgres.execute("UPDATE products SET price = id")
    split = (column, 4)
    plan = sources.plan_database(parse(postgres.uri), "SELECT * FROM products", split=split)
    assert len(plan) == 4
    found = rows(postgres.uri, "SELECT * FROM products", split=split)
    assert sorted(found["loc"].to_pylist()) == sorted(["/without-a-key", *(f"/p/{i}" for i in range(1, 5001))])
    parts = [
        sum(b.num_rows for b in sources.read(s, connection=parse(postgres.uri), query="SELECT * FROM products"))
        for s in plan
    ]
    assert max(parts) < 3 * min(parts)


def test_rows_added_after_planning_are_in_a_split(postgres: Postgres) -> None:
    postgres.execute(PRODUCTS)
    plan = sources.plan_database(parse(postgres.uri), "SELECT id FROM products", split=("id", 3))
    postgres.execute("INSERT INTO products (id) VALUES (-5), (99999)")
    found = [
        i
        for s in plan
        for b in sources.read(s, connection=parse(postgres.uri), query="SELECT id FROM products")
        for i in b[0].to_pylist()
    ]
    assert sorted(found) == [-5, *range(1, 5001), 99999]


@pytest.mark.parametrize("column", ["id", "day", "seen"])
def test_the_bounds_of_a_split_are_bound_to_the_parameters_of_the_select(postgres: Postgres, column: str) -> None:
    postgres.execute(PRODUCTS)
    query = f"SELECT loc, {column} FROM products WHERE {column} >= :split_from AND {column} < :split_to"
    plan = sources.plan_database(parse(postgres.uri), query, split=(column, 3))
    assert len(plan) == 3
    assert sorted(rows(postgres.uri, query, split=(column, 3))["loc"].to_pylist()) == sorted(
        f"/p/{i}" for i in range(1, 5001)
    )


def test_an_empty_table_is_one_split_without_rows(postgres: Postgres) -> None:
    postgres.execute("CREATE TABLE nothing (id int, loc text)")
    plan = sources.plan_database(parse(postgres.uri), "SELECT * FROM nothing", split=("id", 8))
    assert len(plan) == 1
    assert list(sources.read(plan[0], connection=parse(postgres.uri), query="SELECT * FROM nothing")) == []


def test_a_split_column_must_exist_and_have_a_suitable_type(postgres: Postgres) -> None:
    postgres.execute(PRODUCTS)
    with pytest.raises(InvalidSource, match=r"needs the column 'id' in the result of the SELECT"):
        sources.plan_database(parse(postgres.uri), "SELECT loc FROM products", split=("id", 2))
    with pytest.raises(InvalidSource, match=r"'sold' is bool: numbers, dates, timestamps, text or UUIDs are expected"):
        sources.plan_database(parse(postgres.uri), "SELECT id > 7 AS sold FROM products", split=("sold", 2))
    with pytest.raises(ConfigError, match="expected 1 to 256"):
        sources.plan_database(parse(postgres.uri), "SELECT id FROM products", split=("id", 1000))
    with pytest.raises(ConfigError, match="give the column and the parts under split"):
        sources.plan_database(parse(postgres.uri), "SELECT 1 WHERE 1 > :split_from AND 1 < :split_to")


def test_a_probe_returns_columns_and_types_without_reading_rows(postgres: Postgres) -> None:
    postgres.execute(PRODUCTS)
    found = sources.probe_database(
        parse(postgres.uri), "SELECT id, seen, 1 / (id - id) AS broken FROM products WHERE seen > :now", {"now": NOW}
    )
    assert [str(entry.type) for entry in found] == ["int32", "timestamp[us, tz=UTC]", "int32"]


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("SELECT loc\nFROM missing", r'relation "missing" does not exist \(line 2: FROM missing\)'),
        ("SELECT\n  lok FROM products", r'column "lok" does not exist \(line 2: lok FROM products\).*"products.loc"'),
        ("SELEC 1", r'syntax error at or near "SELEC"'),
        ("SELECT 1 / (id - 4000) FROM products", "division by zero"),
        ("SELECT loc::int FROM products", "invalid input syntax for type integer"),
        ("DELETE FROM products RETURNING id", "read-only transaction"),
        ("SELECT id, 1 AS id FROM products", "'id' more than once"),
    ],
)
def test_an_invalid_select_is_reported_with_the_message_of_the_server(
    postgres: Postgres, query: str, told: str
) -> None:
    postgres.execute(PRODUCTS)
    with pytest.raises(InvalidSource, match=rf"(?s)catalog \(sql/a\.sql\).*{told}"):
        rows(postgres.uri, query)


def test_an_unknown_parameter_or_a_second_statement_is_an_error_of_the_site_file(postgres: Postgres) -> None:
    with pytest.raises(ConfigError, match=r":sinc, which has no value .did you mean :since"):
        rows(postgres.uri, "SELECT :sinc", params={"since": NOW})
    with pytest.raises(ConfigError, match="more than one statement"):
        rows(postgres.uri, "SELECT 1; DROP TABLE products")


def test_a_statement_timeout_can_be_retried_even_after_rows_arrived(postgres: Postgres) -> None:
    uri = f"{postgres.uri}&options=-c%20statement_timeout%3D300"
    with pytest.raises(Unavailable, match="cancelled the query: canceling statement due to statement timeout"):
        rows(uri, "SELECT i, CASE WHEN i > 400000 THEN pg_sleep(1)::text END FROM generate_series(1, 500000) i")


def test_an_unreachable_server_can_be_retried(postgres: Postgres) -> None:
    for place in ("127.0.0.1:1/db", "127.0.0.1/db?host=/nowhere"):
        with pytest.raises(Unavailable, match="the database did not answer") as caught:
            rows(f"postgresql://u:{SECRET}@{place}", "SELECT 1")
        assert SECRET not in "".join(traceback.format_exception(caught.value))


def test_a_wrong_password_a_missing_role_and_a_missing_database_are_denied(postgres: Postgres) -> None:
    postgres.execute("CREATE ROLE warden LOGIN PASSWORD 'right'")
    postgres.ask_password_of("warden")
    with pytest.raises(Denied, match='password authentication failed for user "warden"') as caught:
        rows(postgres.as_user(f"warden:{SECRET}"), "SELECT 1")
    assert SECRET not in "".join(traceback.format_exception(caught.value))
    assert rows(postgres.as_user("warden:right"), "SELECT 1 AS a").num_rows == 1
    with pytest.raises(Denied, match='role "nobody_here" does not exist'):
        rows(postgres.as_user("nobody_here:"), "SELECT 1")
    with pytest.raises(Denied, match='database "nowhere" does not exist'):
        rows(
            postgres.uri.replace("/test_", "/nowhere?x=").partition("?x=")[0] + "?" + postgres.uri.partition("?")[2],
            "SELECT 1",
        )
    postgres.execute(PRODUCTS)
    with pytest.raises(Refused, match="permission denied for table products"):
        rows(postgres.as_user("warden:right"), "SELECT * FROM products")


def test_of_several_hosts_the_first_suitable_one_is_read(postgres: Postgres) -> None:
    place, _, folder = postgres.uri.partition("?host=")
    hosts = f"%2Fnowhere,{quote(folder, safe='')}"
    uri = place.replace("@/", f"@{hosts}/") + "?target_session_attrs=read-write"
    assert rows(uri, "SELECT 1 AS n")["n"].to_pylist() == [1]
    by_name = parse(json.dumps({"conn_type": "postgres", "extra": {"dsn": f"host=/nowhere,{folder} user=postgres"}}))
    assert sources.probe_database(by_name, "SELECT 1 AS n").names == ["n"]


def test_a_reader_that_stops_early_leaves_no_session_behind(postgres: Postgres) -> None:
    query = "SELECT repeat('x', 500) AS a FROM generate_series(1, 3000000)"
    (split,) = sources.plan_database(parse(postgres.uri), query)
    reader = sources.read(split, connection=parse(postgres.uri), query=query, batch_rows=1000)
    next(reader)
    reader.close()
    left = (
        "SELECT count(*) AS n FROM pg_stat_activity WHERE application_name LIKE 'sitemap_etl%' "
        "AND pid <> pg_backend_pid() AND state = 'active' AND datname = current_database()"
    )
    assert rows(postgres.uri, left)["n"].to_pylist() == [0]
