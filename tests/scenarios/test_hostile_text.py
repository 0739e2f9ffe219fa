"""Text of a source cannot control a terminal, log or CI service: every subcommand and output with hostile values."""

from __future__ import annotations

import csv
import json
import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sitemap_etl.visible import visible, visible_json, visible_lines
from tests.support.command import call, commands

ESCAPE = "\x1b]0;owned\x07\x1b[31m"
HOSTILE = f"{ESCAPE}\n::error::owned\r\n##[error]owned ##vso[task.owned]\n##teamcity[owned]\n\x9b2J\u202e\U000e0001"
"""A title for the terminal, colours, commands of four CI services, C1 controls, bidirectional text, and a tag."""
FILE = "a\x1b[31m\n::error::owned ##[error]\u202e"
"""A name of a file."""
LOC = "https://shop.example"
ACTS = re.compile(r"[^\S\n ]|[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069\U000e0000-\U000e007f]")
CI = re.compile(r"(?m)^\s*::\w[\w-]*(?: .*?)?::|##\[|##vso\[|^\s*##teamcity\[")
RUNS = {
    "run": ("run", "--no-ping"),
    "run again": ("run", "--no-ping", "--full", "-v"),
    "log as JSON": ("run", "--no-ping", "--log-format", "json"),
    "dry run": ("run", "--no-ping", "--dry-run"),
    "validate": ("validate", "--connect"),
    "history": ("history",),
    "status": ("status",),
    "explain": ("explain", "https://shop.example/excluded"),
    "explain a date": ("explain", "https://shop.example/dated"),
    "explain nothing": ("explain", f"https://shop.example/{HOSTILE}"),
    "ping": ("ping", "--engine", HOSTILE),
    "publish": ("publish", HOSTILE),
    "report": ("report", HOSTILE),
    "rollback": ("rollback", HOSTILE),
    "a reason": ("run", "--force", f"p.{HOSTILE}", "--reason", HOSTILE),
    "an unknown section": ("run", "--section", f"a{HOSTILE}"),
    "a comparison": ("run", "--dry-run", "--against", f"https://shop.example/{HOSTILE}"),
    "a number": ("run", "--jobs", HOSTILE),
    "an option": ("run", f"--x{HOSTILE}"),
    "verify": ("state verify",),
    "forget": ("state forget", "--url", f"https://shop.example/{HOSTILE}"),
}
FORMATS = ("text", "json", "sarif", "junit", "github", "gitlab")


def write_csv(path: Path, *rows: list[str]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)
    return path


def write_site(path: Path, source: str, more: str = "") -> Path:
    path.write_text(
        f"site: {LOC}\nname: shop\npublish: ./public\nwork: ./work\ngates: {{max_rejected: 1}}\n"
        f"urls: {{respect_robots: false}}\nsections:\n  p: {{from: {source}}}\n{more}",
        "utf-8",
    )
    return path


@pytest.fixture
def site(tmp_path: Path) -> Path:
    write_csv(
        tmp_path / "pages.csv",
        ["loc", "exclude", "lastmod", "images", f"title{HOSTILE}"],
        ["/a", "", "2026-01-01", "", "x"],
        [f"/rejected{HOSTILE}", "", "2026-01-01", "", "x"],
        ["/excluded", f"sold out{HOSTILE}", "2026-01-01", "", "x"],
        ["/dated", "", f"never{HOSTILE}", "", "x"],
        ["/pictured", "", "2026-01-01", f"https://shop.example/{HOSTILE}", "x"],
    )
    path = write_site(tmp_path / "shop.yaml", "{csv: pages.csv}")
    assert call("run", path, "--no-ping").code == 0
    return path


def both(*arguments: object) -> Iterator[str]:
    """Call the command with and without --json. Yield its output after checking that nothing in it is active."""
    for extra in ((), ("--json",)):
        done = call(*arguments, *extra)
        for stream, text in (("stdout", done.out), ("stderr", done.err)):
            assert ACTS.findall(text) == [], (stream, text)
            assert CI.findall(text) == [], (stream, text)
            assert "Traceback" not in text
            yield text
        if extra:
            json.loads(done.out)


@pytest.mark.parametrize("name", RUNS)
def test_no_output_has_control_characters_or_forged_lines(site: Path, name: str) -> None:
    command, *options = RUNS[name]
    assert any(both(*command.split(), site, *options))


def test_every_subcommand_is_tested_with_hostile_values() -> None:
    tried = {words[0] for words in RUNS.values()} | {"init", "check", "schema"}
    assert set(commands()) - tried == set()


def test_no_report_page_has_active_characters(site: Path) -> None:
    pages = [path.read_text("utf-8") for path in site.parent.glob("work/shop/reports/*/report.html")]
    assert any("sold out" in page for page in pages)
    assert [ACTS.findall(page) for page in pages] == [[]] * len(pages)


@pytest.mark.parametrize(
    "source",
    ["{csv: missing.csv}", "{csv: names.csv}", "{jsonl: nested.jsonl}", "{jsonl: broken.jsonl}", "{csv: '*.csv'}"],
)
@pytest.mark.parametrize("command", ["run", "validate --connect", "init"])
def test_no_message_about_a_source_has_control_characters(tmp_path: Path, source: str, command: str) -> None:
    write_csv(tmp_path / "names.csv", [f"url{HOSTILE}", f"x{HOSTILE}"], ["a", "b"])
    write_csv(tmp_path / f"{FILE}.csv", ["loc"], ["/a"])
    (tmp_path / "nested.jsonl").write_text(json.dumps({"loc": "/a", "lastmod": {HOSTILE: 1}}) + "\n")
    (tmp_path / "broken.jsonl").write_text(f'{{"loc": "/b{ESCAPE}##[error]\n'.replace("\n", "", 0) + '", }\n', "utf-8")
    path = write_site(tmp_path / "shop.yaml", source)
    if command == "init":
        assert any(
            both("init", tmp_path / f"new{FILE}.yaml", "--from", tmp_path / source.rsplit(maxsplit=1)[-1].strip("'}"))
        )
    else:
        first, *options = command.split()
        assert any(both(first, path, *options))


@pytest.mark.parametrize("command", ["run", "validate", "validate --connect", "status", "explain", "history", "ping"])
def test_no_message_about_a_site_file_has_control_characters(tmp_path: Path, command: str) -> None:
    path = tmp_path / f"{FILE}.yaml"
    path.write_text(
        f"site: {json.dumps(LOC + HOSTILE)}\n{json.dumps(HOSTILE)}: 1\nsections: {{{json.dumps(HOSTILE)}: "
        f"{{from: {{csv: {json.dumps(HOSTILE)}}}}}}}\n",
        "utf-8",
    )
    first, *options = command.split()
    more = [f"{LOC}/a"] if first == "explain" else []
    assert any(both(first, path, *more, *options))
    assert any(both(first, tmp_path / f"no{FILE}.yaml", *more, *options))


def test_no_message_of_a_database_has_control_characters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with sqlite3.connect(tmp_path / "shop.db") as connection:
        connection.execute(f'CREATE TABLE "t{HOSTILE}" (loc TEXT, "m{HOSTILE}" TEXT)')
        connection.execute(f'INSERT INTO "t{HOSTILE}" VALUES (?, ?)', (f"/a{HOSTILE}", HOSTILE))
    address = f"sqlite:///{tmp_path / 'shop.db'}"
    monkeypatch.setenv("AIRFLOW_CONN_SHOP", address)
    for number, sql in enumerate(
        (f'SELECT * FROM "t{HOSTILE}"', f"SELECT owned{HOSTILE}", f'SELECT 1 FROM "x{HOSTILE}"')
    ):
        (tmp_path / f"{number}.sql").write_text(sql, "utf-8", newline="")
        path = write_site(tmp_path / f"{number}.yaml", f"{{connection: shop, query: {number}.sql}}")
        for words in (("run", "--no-ping"), ("validate", "--connect")):
            assert any(both(words[0], path, *words[1:]))
    assert any(both("init", tmp_path / "new.yaml", "--from", address))
    assert any(both("init", tmp_path / "new.yaml", "--from", address, "--table", f"t{HOSTILE}"))
    assert any(both("init", tmp_path / f"new{HOSTILE}", "--from", f"sqlite:///{HOSTILE}"))


def hostile_sitemaps(folder: Path) -> list[Path]:
    """Write sitemaps, an index and other files with hostile values under hostile names. Return their paths."""
    space = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'
    value = HOSTILE.replace(ESCAPE, "")
    locs = "".join(f"<url><loc>{loc}</loc><lastmod>{value}</lastmod></url>" for loc in (f"{LOC}/{value}", "=1+1", "@x"))
    texts = {
        f"{FILE}.xml": f"<urlset {space}>{locs}<url><loc>-1</loc></url><url><loc>+1</loc></url></urlset>",
        "index.xml": f"<sitemapindex {space}><sitemap><loc>{LOC}/{value}.xml</loc></sitemap></sitemapindex>",
        "robots.txt": f"User-agent: *\nSitemap: /{HOSTILE}\n",
        "pages.txt": f"{LOC}/a{HOSTILE}\n",
        "broken.xml": f"<urlset {space}><{HOSTILE}",
        f"{FILE}.rss": f'<rss version="2.0"><channel><item><link>{value}</link></item></channel></rss>',
    }
    for name, text in texts.items():
        (folder / name).write_text(text, "utf-8", newline="")
    return [folder / name for name in [*texts, f"missing{FILE}.xml"]]


@pytest.mark.parametrize("form", FORMATS)
def test_no_report_of_check_has_control_characters(tmp_path: Path, form: str) -> None:
    for path in hostile_sitemaps(tmp_path):
        page = tmp_path / "report.html"
        at = ("--at", f"{LOC}/", "--html", page, "--by-file", "--examples", "all")
        done = call("check", path, "--format", form, "--no-robots", *at)
        assert done.code in (1, 2), done.err
        for text in (done.out, done.err, page.read_text("utf-8") if page.exists() else ""):
            assert ACTS.findall(text) == []
            ours = "\n".join(
                line
                for line in text.splitlines()
                if not line.startswith(("::error title", "::warning title", "::notice title"))
            )
            assert CI.findall(ours if form == "github" else text) == []
            assert "itself failed" not in text
        if form in ("json", "sarif", "gitlab") and done.out:
            json.loads(done.out)


def test_no_cell_of_listed_urls_is_a_formula(tmp_path: Path) -> None:
    first = hostile_sitemaps(tmp_path)[0]
    call("check", first, "--no-robots", "--urls", tmp_path / "urls.csv")
    with (tmp_path / "urls.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert {row["loc"] for row in rows} >= {"'=1+1", "'@x", "'-1", "'+1"}
    assert [cell for row in rows for cell in row.values() if cell[:1] in ("=", "+", "-", "@", "\t", "\r")] == []


@given(
    st.text()
    | st.lists(st.sampled_from(["::error::", "##[", "##vso[", "\n", " ", "a", "\x1b", "\U000e0001", "#", ":"])).map(
        "".join
    )
)
def test_escaped_text_has_no_control_characters_and_json_keeps_its_value(text: str) -> None:
    for shown in (visible(text), visible_lines(text), visible_json({"a": text}), visible_json(text, ascii_only=True)):
        assert ACTS.findall(shown) == []
        assert CI.findall(shown) == []
    assert "\n" not in visible(text)
    assert json.loads(visible_json(text)) == json.loads(visible_json(text, ascii_only=True)) == text
    assert all(not line or line.startswith(" ") for line in visible_lines(text).split("\n")[1:])


def test_line_breaks_in_a_value_cannot_forge_messages() -> None:
    assert visible_lines("no file a\nPublished  run 1") == "no file a\n  Published  run 1"


def test_schema_reports_a_hostile_argument_in_one_line(tmp_path: Path) -> None:
    done: Any = call("schema", HOSTILE)
    assert (done.code, ACTS.findall(done.err), CI.findall(done.err)) == (2, [], [])
