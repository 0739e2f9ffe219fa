# ruff: noqa: F811 - fixtures are imported and asked for by name
from __future__ import annotations

import gzip
import io
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sitemap_etl import sources
from sitemap_etl.errors import InvalidSource, Refused, Unavailable
from sitemap_etl.settings import CsvExport, JsonlExport, ParquetExport
from tests.support.fixtures import bucket, moto, proxy, s3  # noqa: F401 - fixtures
from tests.support.proxy import RESET_AFTER, TIMEOUT, TRUNCATE, Fault, FaultProxy
from tests.support.s3 import CREDENTIALS, S3Server


def parquet(start: int, rows: int = 10, group: int = 4) -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.table({"id": range(start, start + rows)}), out, row_group_size=group)
    return out.getvalue()


@pytest.fixture
def exports(s3: S3Server, bucket: str) -> str:
    for at, name in enumerate(
        ["a-1.parquet", "a-2.parquet", "deep/a-3.parquet", "deep/_tmp/a-4.parquet", "größe & 100%.parquet"]
    ):
        s3.client().put_object(Bucket=bucket, Key=f"exports/{name}", Body=parquet(at * 10))
    s3.client().put_object(Bucket=bucket, Key="pages.csv.gz", Body=gzip.compress(b"loc,id\n/a,1\n/b,2\n"))
    return f"s3://{bucket}"


def ids(paths: object, **options: object) -> list[int]:
    plan = sources.plan_parquet(paths, **options)
    return sorted(i // 10 for s in plan for b in sources.read(s) for i in b.column("id").to_pylist() if i % 10 == 0)


def test_objects_are_read_by_key_folder_pattern_and_list(exports: str) -> None:
    assert ids(f"{exports}/exports/a-1.parquet") == [0]
    assert ids(f"{exports}/exports/größe & 100%.parquet") == [4]
    assert ids(f"{exports}/exports/") == ids(f"{exports}/exports") == ids(exports) == [0, 1, 2, 4]
    assert ids(f"{exports}/exports/a-*.parquet") == [0, 1]
    assert ids(f"{exports}/**/a-[!2].parquet") == [0, 2, 3]
    assert ids([f"{exports}/exports/a-1.parquet", f"{exports}/exports/deep/"]) == [0, 2]


MARKS = {
    "a Delta": "_delta_log/00000000000000000000.json",
    "an Iceberg": "metadata/00001-5f8e.gz.metadata.json",
    "a Hudi": ".hoodie/hoodie.properties",
}


@pytest.mark.parametrize("kind", MARKS)
@pytest.mark.parametrize(
    "asked",
    [
        "",
        "lake/t*/**/*.parquet",
        *(
            pytest.param(asked, marks=pytest.mark.thorough)
            for asked in ("lake", "lake/t/", "lake/t/day=1/", "lake/t/day=1/*.parquet", "**/b-?.parquet")
        ),
    ],
)
def test_a_folder_that_is_a_table_is_refused_by_its_kind(s3: S3Server, bucket: str, kind: str, asked: str) -> None:
    for key in ("lake/t/day=1/b-1.parquet", "lake/plain/b-2.parquet"):
        s3.client().put_object(Bucket=bucket, Key=key, Body=parquet(0))
    s3.client().put_object(Bucket=bucket, Key=f"lake/t/{MARKS[kind]}", Body=b"")
    with pytest.raises(
        InvalidSource, match=rf"files of {kind} table \(s3://{bucket}/lake/t\).*(Export a snapshot|Read it as a table)"
    ):
        sources.plan_parquet(f"s3://{bucket}/{asked}".removesuffix("/" if not asked else ""))
    assert ids(f"s3://{bucket}/lake/t/day=1/b-1.parquet") == ids(f"s3://{bucket}/lake/plain") == [0]


def test_row_groups_of_an_object_are_splits(exports: str) -> None:
    plan = sources.plan_parquet(f"{exports}/exports/a-1.parquet", split_rows=4)
    assert [split.rows for split in plan] == [4, 4, 2]
    assert [i for split in plan for batch in sources.read(split) for i in batch.column("id").to_pylist()] == list(
        range(10)
    )


def test_a_compressed_csv_and_sql_over_objects_are_streamed(exports: str) -> None:
    (split,) = sources.plan_csv(f"{exports}/pages.csv.gz")
    assert [row for batch in sources.read(split) for row in batch.to_pylist()] == [
        {"loc": "/a", "id": "1"},
        {"loc": "/b", "id": "2"},
    ]
    for form, path, expected in (
        (CsvExport, "pages.csv.gz", 3),
        (ParquetExport, "exports/a-*.parquet", sum(range(20))),
    ):
        (split,) = sources.plan_query(
            {"source": form.model_validate({form.kind: f"{exports}/{path}"})},
            "SELECT sum(id::INT)::BIGINT AS x FROM source",
        )
        assert [batch.column("x").to_pylist() for batch in sources.read(split)] == [[expected]]


def test_missing_objects_and_missing_buckets_are_distinguished(exports: str, s3: S3Server) -> None:
    with pytest.raises(InvalidSource, match=f"there is no file {exports}/exports/b.parquet"):
        sources.plan_parquet(f"{exports}/exports/b.parquet")
    with pytest.raises(InvalidSource, match=rf"no file matches {exports}/exports/b\*\.parquet"):
        sources.plan_parquet(f"{exports}/exports/b*.parquet")
    for path in ("a.parquet", "*.parquet", ""):
        with pytest.raises(Refused, match=r"bucket nowhere-at-all does not exist\. Create it"):
            sources.plan_parquet(f"s3://nowhere-at-all/{path}")


def test_a_truncated_object_is_reported(exports: str, s3: S3Server, bucket: str) -> None:
    s3.client().put_object(Bucket=bucket, Key="cut.parquet", Body=parquet(0)[:-20])
    with pytest.raises(InvalidSource, match=r"cut\.parquet is not a whole Parquet file"):
        sources.plan_parquet(f"s3://{bucket}/cut.parquet")


def test_a_replaced_object_can_be_retried_with_a_new_run(exports: str, s3: S3Server, bucket: str) -> None:
    plan = sources.plan_parquet(f"{exports}/exports/a-1.parquet")
    s3.client().put_object(Bucket=bucket, Key="exports/a-1.parquet", Body=parquet(500))
    with pytest.raises(Unavailable, match=r"a-1\.parquet changed while it was read"):
        list(sources.read(plan[0]))
    s3.client().delete_object(Bucket=bucket, Key="exports/a-1.parquet")
    with pytest.raises(Unavailable, match="is gone"):
        list(sources.read(plan[0]))


@pytest.mark.timeout(60)
def test_an_unreachable_store_can_be_retried(exports: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (split,) = sources.plan_csv(f"{exports}/pages.csv.gz")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    for path in ("exports/a-1.parquet", "exports/*.parquet"):
        with pytest.raises(Unavailable, match=r"http://127\.0\.0\.1:1 can't be reached"):
            sources.plan_parquet(f"{exports}/{path}")
    with pytest.raises(Unavailable, match=r"http://127\.0\.0\.1:1 can't be reached"):
        list(sources.read(split))


@contextmanager
def forbidding(*, shows: bool) -> Iterator[str]:
    """Return the address of a store that answers 403 to every request; `shows`: except lists."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"
            self.send_response(403)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        def do_HEAD(self) -> None:
            if not shows:
                self.do_GET()
                return
            self.send_response(200)
            for name, value in (
                ("Content-Length", "9000"),
                ("ETag", '"1"'),
                ("Last-Modified", self.date_time_string()),
            ):
                self.send_header(name, value)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize("path", ["a.parquet", "*.parquet", "folder/"])
def test_a_403_is_reported_with_the_required_permissions(
    path: str, s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    rights = (
        r"allow s3:GetObject on s3://private/.*s3:ListBucket on private" if path == "a.parquet" else "s3:ListBucket"
    )
    with forbidding(shows=False) as address:
        monkeypatch.setenv("AWS_ENDPOINT_URL", address)
        with pytest.raises(Refused, match=rf"can't (read|list) s3://private/.*{rights}") as caught:
            sources.plan_parquet(f"s3://private/{path}")
    assert CREDENTIALS["AWS_SECRET_ACCESS_KEY"] not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("plan", [sources.plan_csv, sources.plan_parquet])
def test_s3_errors_of_arrow_are_reported_like_those_of_boto(
    plan: Callable[[str], object], s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    with forbidding(shows=True) as address:
        monkeypatch.setenv("AWS_ENDPOINT_URL", address)
        said = (
            r"can't read s3://private/a: the store answered 403 AccessDenied\. .*allow s3:GetObject on s3://private/a"
        )
        with pytest.raises(Refused, match=said):
            plan("s3://private/a")


def test_reading_from_a_hanging_store_has_the_same_timeout_as_publishing(
    exports: str, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    proxy.always(TIMEOUT)
    with pytest.raises(Unavailable, match="did not answer in time"):
        sources.plan_csv(f"{exports}/pages.csv.gz")


def test_missing_credentials_are_reported(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(Refused, match="no AWS credentials were found"):
        sources.plan_parquet("s3://some/a.parquet")


@pytest.mark.thorough
def test_a_small_object_takes_one_request_to_plan_and_one_to_read(s3: S3Server, bucket: str, proxy: FaultProxy) -> None:
    for number in range(20):
        s3.client().put_object(Bucket=bucket, Key=f"p/{number:02}.parquet", Body=parquet(number * 10))
        s3.client().put_object(Bucket=bucket, Key=f"c/{number:02}.csv.gz", Body=gzip.compress(b"loc\n/%d\n" % number))
        s3.client().put_object(Bucket=bucket, Key=f"j/{number:02}.jsonl", Body=b'{"loc": "/%d"}\n' % number)
    for export in (
        ParquetExport(parquet=(f"s3://{bucket}/p/",)),
        CsvExport(csv=(f"s3://{bucket}/c/*.csv.gz",)),
        JsonlExport(jsonl=(f"s3://{bucket}/j/",)),
    ):
        del proxy.seen[:]
        (split,) = sources.plan_export(export)
        listings = [seen for seen in proxy.seen if "list-type" in seen.path]
        assert len(proxy.seen) - len(listings) == 20
        assert len(listings) <= 7  # folders are looked at for the log of a table, above them too
        (selected,) = sources.plan_query({"source": export}, "SELECT * FROM source")
        for planned in (split, selected):
            del proxy.seen[:]
            assert sum(batch.num_rows for batch in sources.read(planned)) in (20, 200)
            assert len(proxy.seen) == 20
            assert {seen.method for seen in proxy.seen} == {"GET"}


@pytest.mark.parametrize("selects", [False, True])
def test_small_objects_are_fetched_ahead(selects: bool, s3: S3Server, bucket: str, proxy: FaultProxy) -> None:
    """None of the first ten requests is answered before all of them have arrived."""
    for number in range(12):
        s3.client().put_object(Bucket=bucket, Key=f"p/{number:02}.parquet", Body=parquet(number * 10))
    export = ParquetExport(parquet=(f"s3://{bucket}/p/",))
    (split,) = (
        sources.plan_query({"source": export}, "SELECT * FROM source") if selects else sources.plan_export(export)
    )
    together = threading.Barrier(10)
    del proxy.seen[:]
    proxy.before = lambda seen: together.wait(20) if seen.number <= 10 else None
    assert sum(batch.num_rows for batch in sources.read(split)) == 120
    assert len({seen.path for seen in proxy.seen[:10]}) == 10  # none was given up and asked for again
    assert not together.broken


def test_an_object_replaced_between_its_row_groups_can_be_retried_with_a_new_run(s3: S3Server, bucket: str) -> None:
    out = io.BytesIO()
    wide = pa.array([f"{n * 7919 % 1_000_003:064}" for n in range(40_000)])
    pq.write_table(pa.table({"wide": wide}), out, row_group_size=10_000, compression="none", use_dictionary=False)
    s3.client().put_object(Bucket=bucket, Key="a.parquet", Body=out.getvalue())
    (split,) = sources.plan_parquet(f"s3://{bucket}/a.parquet")
    reader = sources.read(split, batch_rows=10_000)
    next(reader)
    s3.client().put_object(Bucket=bucket, Key="a.parquet", Body=out.getvalue() + b" ")
    with pytest.raises(Unavailable, match=r"a\.parquet changed while it was read"):
        list(reader)


def test_large_objects_are_read_in_ranges_of_the_planned_version(s3: S3Server, bucket: str, proxy: FaultProxy) -> None:
    rows = 200_000
    text = b"loc,note\n" + b"".join(b"/p/%d,%d\n" % (n, n * 7919 % 1_000_003) for n in range(rows)) * 6
    s3.client().put_object(Bucket=bucket, Key="a.csv", Body=text)
    out = io.BytesIO()
    ids = pa.array(range(rows))
    wide = pa.array([f"{n * 7919 % 1_000_003:064}" for n in range(rows)])
    pq.write_table(pa.table({"id": ids, "wide": wide, "x": ids}), out, row_group_size=100_000, compression="none")
    s3.client().put_object(Bucket=bucket, Key="a.parquet", Body=out.getvalue())
    (split,) = sources.plan_csv(f"s3://{bucket}/a.csv")
    assert sum(batch.num_rows for batch in sources.read(split)) == 6 * rows
    (split,) = sources.plan_parquet(f"s3://{bucket}/a.parquet")
    del proxy.seen[:]
    found = pa.Table.from_batches(sources.read(split, columns=["id", "x"]))
    assert found.column("x").to_pylist() == list(range(rows))
    assert len(proxy.seen) <= 6
    assert all("if-match" in {name.lower() for name in seen.headers} for seen in proxy.seen)


@pytest.mark.parametrize("fault", [TRUNCATE, RESET_AFTER])
def test_an_incomplete_response_is_requested_again(exports: str, proxy: FaultProxy, fault: Fault) -> None:
    (split,) = sources.plan_parquet(f"{exports}/exports/a-1.parquet")
    proxy.at(len(proxy.seen) + 1, fault)
    assert sum(batch.num_rows for batch in sources.read(split)) == 10
    assert proxy.seen[-2].fault == fault


def test_request_payer_is_sent_with_every_request(exports: str, proxy: FaultProxy) -> None:
    paths = (f"{exports}/exports/", f"{exports}/exports/a-1.parquet")
    select = "SELECT sum(id) AS n FROM source"
    for pays in (True, False):
        del proxy.seen[:]
        export = ParquetExport(parquet=paths, requester_pays=pays)
        for plan in (sources.plan_export(export), sources.plan_query({"source": export}, select)):
            for split in plan:
                list(sources.read(sources.Split.from_json(split.to_json())))
        said = {seen.headers.get("x-amz-request-payer") for seen in proxy.seen}
        assert said == ({"requester"} if pays else {None})
