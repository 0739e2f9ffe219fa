"""Errors of new users, through the real command: each message helps, in terms of the user."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.command import Done, call
from tests.support.postgres import Postgres

SITE = "site: https://shop.example\npublish: ./public\nsections:\n  pages:\n    from: {source}\n"
CSV = "loc,stock\n/a,1\n/b,2\n"
CODE = ("Traceback", "Error:", "NoneType", "sqlalchemy", "psycopg", "pyarrow")
"""What tells of our code instead of the mistake."""


class Desk:
    """The folder of a new user: `write` files, then call the command."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, name: str, data: str | bytes) -> str:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data.encode() if isinstance(data, str) else data)
        return name

    def site(self, source: str = "{csv: pages.csv}", more: str = "", name: str = "shop.yaml") -> str:
        return self.write(name, SITE.format(source=source) + more)


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("INDEXNOW_KEY", raising=False)
    desk = Desk(tmp_path)
    desk.write("pages.csv", CSV)
    return desk


def errors(done: Done) -> str:
    """Return the error message without the progress before it."""
    return "\n".join(line for line in done.err.splitlines() if not re.match(r"^\w+: [\d,]+ of [\d,]+$", line))


def refused(code: int, *arguments: object) -> str:
    """Return the message of a call that ends with this code, after comparing it with that of `--json`."""
    done = call(*arguments)
    said = errors(done)
    assert done.code == code, done.out + done.err
    assert not any(word in said for word in CODE), said
    return said


# --- 1, 2, 17: what an export is ----------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize(
    ("name", "data", "advice"),
    [
        ("p.jsonl", b'{"loc": "/a"}\n', "it looks like JSON: write jsonl: instead of "),
        ("p.json", b'[{"loc": "/a"}]', "it is one JSON array: write an object a line, with  jq -c '.[]' p.json"),
        ("p", b"PK\3\4 zip", "it is a ZIP archive: "),
        ("p.xlsx", b"PK\3\4 xlsx", "save the sheet as CSV"),
        ("p.xml", b"<urlset/>", "XML is not supported: export it as CSV, JSON lines or Parquet"),
        ("p", b"<urlset/>", "XML is not supported: export it as CSV, JSON lines or Parquet"),
    ],
)  # fmt: skip
def test_1_a_file_of_another_format_is_recognized(desk: Desk, kind: str, name: str, data: bytes, advice: str) -> None:
    desk.write(name, data)
    said = refused(2, "run", desk.site(f"{{{kind}: {name}}}"))
    assert f"{name} is not a " in said
    assert advice in said


def test_1_a_csv_named_parquet_is_reported(desk: Desk) -> None:
    desk.write("p.txt", CSV)
    assert "it looks like CSV: write csv: instead of parquet:" in refused(2, "run", desk.site("{parquet: p.txt}"))


def test_2_a_windows_encoding_is_reported_with_the_key_that_reads_it(desk: Desk) -> None:
    desk.write("de.csv", "Artikelnr;Geändert am\r\n1;2\r\n".encode("cp1252"))
    said = refused(2, "run", desk.site("{csv: de.csv}"))
    assert "de.csv line 1 is not UTF-8" in said
    assert "looks like Windows-1252" in said
    assert "Name the encoding: {csv: …, encoding: cp1252}" in said


@pytest.mark.parametrize("text", ['loc,title\n"/a,x\n/b,y\n/c,z\n', 'loc,title\n/a,"x\n/b,y\n/c,z\n'])
def test_17_an_unclosed_quote_is_reported_with_its_line(desk: Desk, text: str) -> None:
    desk.write("pages.csv", text)
    assert "pages.csv line 2: the quote that opens a value here is never closed" in refused(2, "run", desk.site())


# --- 3 to 8: what a site file is ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            "sections:\n  pages:\n    from: {csv: a.csv\n    columns: {loc: url}\n",
            "5: sections.pages.from: the { that opens here is never closed; if it is text, it must be in quotes",
        ),
        (
            "sections:\n  pages:\n    from: {csv: a.csv}\n   columns: {loc: url}\n",
            (
                "6: `columns:` is indented by 3 spaces, but `from:` on line 5 by 4; the keys of a mapping must start "
                "in the same column"
            ),
        ),
        ("sections:\n  pages:\n  from: {csv: a.csv}\n", "5: sections.from: indent `from:` under `pages:`"),
        (
            "sections:\n  - from: {csv: a.csv}\n",
            "3: sections: expected a mapping of names to sections, such as `pages: {from: …}`, got a list",
        ),
        (
            "sections:\n  pages:\n    from: {csv: a.csv}\nsite: https://b.example\n",
            "6: duplicate key `site` (first on line 1)",
        ),
        (
            "sections:\n  pages:\n    from: {database: catalog}\n",
            "5: sections.pages.from: needs `sql:` or `query:`: a file with the SELECT, or the SELECT itself",
        ),
    ],
    ids=["3 brace", "4 indentation", "5 not under its section", "6 a list", "duplicate key", "no SELECT"],
)  # fmt: skip
def test_3_to_6_a_yaml_error_is_one_message_that_says_what_to_write(desk: Desk, text: str, line: str) -> None:
    desk.write("shop.yaml", "site: https://shop.example\npublish: ./public\n" + text)
    for command in ("run", "validate"):
        assert refused(2, command, "shop.yaml") == f"shop.yaml:{line}"


@pytest.mark.parametrize("written", ["shop.example", "“https://shop.example”", "www.shop.example/"])
def test_7_a_misspelled_address_is_shown_with_a_suggestion(desk: Desk, written: str) -> None:
    desk.write("shop.yaml", SITE.format(source="{csv: pages.csv}").replace("https://shop.example", written))
    said = refused(2, "run", "shop.yaml")
    assert said.startswith("shop.yaml:1: site: ")
    assert f'got "{written}"; did you mean https://{written.strip("“”").removeprefix("https://").rstrip("/")}' in said


def test_8_a_percentage_is_reported_with_the_number_to_write(desk: Desk) -> None:
    said = refused(2, "run", desk.site(more="gates: {max_drop: 10%, max_rejected: 5}\n"))
    assert 'gates.max_drop: expected a number, got "10%"; write 0.1' in said
    assert "gates.max_rejected: expected 1 or less, got 5; write 0.05 for 5 %" in said


# --- 9, 15: places ------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["work", "publish"])
def test_9_an_unwritable_folder_is_named_once_and_another_one_suggested(desk: Desk, key: str) -> None:
    site = desk.site()
    if key == "work":
        desk.site(more="work: /proc/nope/x\n")
    else:
        desk.write("shop.yaml", SITE.format(source="{csv: pages.csv}").replace("./public", "/proc/nope/x"))
    said = refused(1, "run", site)
    assert re.match(r"Refused: can't write /proc/nope/x/\S+: the folder /proc/nope can't be created there", said)
    assert said.endswith("Use another folder.")


def test_15_a_missing_file_is_reported_with_a_similar_name_only(desk: Desk) -> None:
    desk.site()
    assert refused(2, "run", "nope.yaml") == "nope.yaml: no such file"
    assert refused(2, "run", "shp.yaml") == "shp.yaml: no such file; did you mean shop.yaml?"


# --- 10 to 12, 24: databases and SQL ------------------------------------------------------------------


def test_10_an_unknown_column_in_where_is_reported_with_the_existing_ones(desk: Desk) -> None:
    assert refused(2, "run", desk.site(more="    where: month > 3\n")) == (
        "section pages: where: 'month > 3' can't be evaluated: there is no column 'month'. The columns are: loc, stock"
    )
    said = refused(2, "run", desk.site(more="    where: stock >\n"))
    assert "where: 'stock >' can't be evaluated: syntax error" in said


def test_11_a_database_error_is_reported_once_with_the_select_as_written(
    desk: Desk, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    with sqlite3.connect(desk.folder / "c.sqlite") as database:
        database.execute("CREATE TABLE product (slug TEXT)")
    monkeypatch.setenv("AIRFLOW_CONN_LITE", f"sqlite:///{desk.folder}/c.sqlite")
    monkeypatch.setenv("AIRFLOW_CONN_PG", postgres.uri)
    monkeypatch.setenv("AIRFLOW_CONN_AWAY", "postgresql://u:geheim@127.0.0.1:1/db")
    said = refused(2, "run", desk.site('{database: lite, query: "SELECT loc FROM produkt"}'))
    assert said == "section pages: lite: no such table: produkt"
    said = refused(2, "run", desk.site('{database: pg, query: "SELECT loc FROM produkt"}'))
    assert said == 'section pages: pg: relation "produkt" does not exist (line 1: SELECT loc FROM produkt)'
    said = refused(3, "run", desk.site('{database: away, query: "SELECT loc FROM produkt"}'))
    assert said.count("the database") == 1
    assert "Connection refused" in said
    assert "geheim" not in said


@pytest.mark.parametrize("password", ["geh@eim#lang", "geh@eim", "100%", "a/b"])
def test_12_an_unencoded_password_is_not_shown(desk: Desk, monkeypatch: pytest.MonkeyPatch, password: str) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_CATALOG", f"postgresql://reader:{password}@127.0.0.1:1/db")
    said = refused(2, "run", desk.site('{database: catalog, query: "SELECT loc FROM product"}'))
    assert "percent-encode what is special in its user name and password (@ is %40" in said
    assert not any(part in said for part in re.split(r"[@#%/]", password) if len(part) > 2)


@pytest.mark.parametrize("uri", ["jdbc:postgresql://db:5432/shop", "nonsense"])
def test_24_a_connection_in_another_format_is_reported_with_the_expected_format(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, uri: str
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_CATALOG", uri)
    said = refused(2, "run", desk.site('{database: catalog, query: "SELECT loc FROM product"}'))
    assert "connection 'catalog'" in said
    assert "postgresql://user:password@host:5432/database" in said


# --- 13, 14, 16: the state ----------------------------------------------------------------------------


@pytest.mark.parametrize("text", ['{"x": 1}', "{", "", "[]", "null"])
def test_13_a_damaged_state_is_reported_as_such_with_its_path(desk: Desk, text: str) -> None:
    site = desk.site()
    assert call("run", site).code == 0
    current = desk.folder / ".sitemap-etl" / "shop" / "state" / "current.json"
    current.write_text(text)
    for command in ("run", "history"):
        said = refused(65, command, site)
        assert said.startswith(f"{current} is damaged: ")
        assert "Restore this object from an earlier version of it or from a backup of the state" in said
        assert said.endswith(f"sitemap-etl state verify {site}")


def test_13_an_unreadable_lease_stops_no_run(desk: Desk) -> None:
    site = desk.site()
    assert call("run", site).code == 0
    (desk.folder / ".sitemap-etl" / "shop" / "state" / "lease.json").write_text('{"x": 1}')
    assert call("run", site).code == 0


def test_14_a_run_that_can_not_be_published_is_reported_with_the_reason(desk: Desk) -> None:
    site = desk.site()
    published = call("run", site, "--json").json["run_id"]
    assert (
        refused(1, "publish", site, published) == f"Refused: Run {published} was published already. Nothing was written"
    )
    unchanged = call("run", site, "--json").json["run_id"]
    said = refused(1, "publish", site, unchanged)
    assert f"Run {unchanged} found that nothing had changed, so that it has nothing to publish" in said
    assert "there is no such run" in refused(2, "publish", site, "20261120T020000Z-7f3a")
    assert "expected the id of a run" in refused(2, "publish", site, "yesterday")


def test_16_files_of_a_renamed_site_file_are_reported_with_its_old_name(desk: Desk) -> None:
    assert call("run", desk.site()).code == 0
    (desk.folder / "shop.yaml").rename(desk.folder / "store.yaml")
    said = refused(1, "run", "store.yaml")
    assert "objects exist and were not created by this state" in said
    assert "if the site file was renamed, write `name: shop` in it, and its state is found again" in said
    with (desk.folder / "store.yaml").open("a") as file:
        file.write("name: shop\n")
    assert call("run", "store.yaml").code == 0


def test_16_files_of_a_lost_state_are_reported_with_the_searched_folder(desk: Desk) -> None:
    assert call("run", desk.site()).code == 0
    shutil.rmtree(desk.folder / ".sitemap-etl")
    (desk.folder / "public" / "robots.txt").unlink()
    said = refused(1, "run", "shop.yaml")
    assert f"if this site was published before: {desk.folder}/.sitemap-etl/shop holds no state of it" in said
    adopt = said.rpartition("sitemap-etl ")[2]
    assert call(*shlex.split(adopt)).code == 0


# --- 18, 19: values and rows --------------------------------------------------------------------------


def test_18_dates_in_another_format_are_reported_with_what_to_write(desk: Desk) -> None:
    desk.write("pages.csv", "loc,geändert\n" + "".join(f"/{n},01.09.2026 00:00\n" for n in range(2000)))
    done = call("run", desk.site(more="    lastmod: geändert\n"))
    assert "2,000 lastmod values dropped: not a date    e.g. https://shop.example/" in done.out
    assert "Write YYYY-MM-DD or YYYY-MM-DDThh:mm:ssZ" in done.out
    assert "such as lastmod: {column: geändert, format: '%d.%m.%Y %H:%M', timezone: Europe/Berlin}" in done.out


def test_19_a_row_without_a_loc_is_reported_by_its_line(desk: Desk) -> None:
    desk.write("pages.csv", 'loc,title\n/a,"two\nlines"\n,x\n' + "".join(f"/{n},y\n" for n in range(40)))
    done = call("run", desk.site())
    assert f"1 rejected: missing loc    e.g. line 4 of {desk.folder}/pages.csv" in done.out
    desk.write("pages.csv", "loc,title\n" + ",x\n" * 40)
    said = refused(1, "run", desk.site())
    assert f"  missing loc: 40    e.g. line 2 of {desk.folder}/pages.csv" in said


# --- 20 to 23, 25: the command ------------------------------------------------------------------------


def test_20_an_invalid_option_refers_to_the_help_of_its_command(desk: Desk) -> None:
    assert refused(2, "run", desk.site(), "--force") == (
        "Option '--force' requires an argument. See sitemap-etl run --help"
    )
    assert "See sitemap-etl state verify --help" in refused(2, "state", "verify")


def test_21_the_sitemap_to_compare_a_dry_run_with_is_verified_first(desk: Desk) -> None:
    done = call("run", desk.site(), "--dry-run", "--against", "nope.xml")
    assert (done.code, done.err) == (2, "nope.xml: no such file or folder\n")
    assert not (desk.folder / ".sitemap-etl").exists()


@pytest.mark.thorough
@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_22_characters_that_a_terminal_cannot_show_are_replaced(desk: Desk, encoding: str) -> None:
    assert call("run", desk.site()).code == 0
    environ = {**os.environ, "PYTHONIOENCODING": encoding}
    for arguments in (["check", "public"], ["history", "shop.yaml"], ["explain", "shop.yaml", "/a"]):
        command = [sys.executable, "-m", "sitemap_etl", *arguments]
        done = subprocess.run(command, cwd=desk.folder, env=environ, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert "Error" not in done.stderr


def test_23_an_unreachable_address_is_reported_without_exception_names() -> None:
    done = call("check", "http://127.0.0.1:1/sitemap.xml")
    assert done.code == 3
    assert "can't be reached (Connection refused)" in done.out
    assert "Errno" not in done.out
    assert "ConnectError" not in done.out


def test_25_an_engine_without_its_key_is_reported_everywhere(desk: Desk) -> None:
    site = desk.site(more='ping: {indexnow: {key: "${INDEXNOW_KEY}"}}\n')
    done = call("run", site)
    assert done.code == 3
    assert done.out.startswith("Published. 1 of 1 engine failed: indexnow  run ")
    assert "INDEXNOW_KEY is not set" in done.out
    assert "INDEXNOW_KEY is not set" in Path(done.out.partition("report: ")[2].split()[0]).read_text()
    found = call("run", site, "--json")
    assert (found.code, found.json["engines"]["indexnow"]["status"]) == (3, "failed")
    assert "INDEXNOW_KEY is not set" in found.json["engines"]["indexnow"]["message"]
    assert "INDEXNOW_KEY is not set" in call("run", site, "-q").err


def test_every_error_is_one_json_object_with_the_same_words(desk: Desk) -> None:
    desk.write("bad.yaml", "site: shop.example\npublish: ./public\nsectoins: {}\n")
    for arguments in (["run", "bad.yaml"], ["run", "nope.yaml"], ["publish", desk.site(), "x"]):
        plain, found = call(*arguments), call(*arguments, "--json")
        assert json.loads(found.out)["exit"] == plain.code == 2
        for line in json.loads(found.out)["error"].splitlines():
            assert line in plain.err
