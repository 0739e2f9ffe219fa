"""What `init` writes and prints for names and values that need care: spaces, flags in text, quotes for a shell."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
import yaml

from tests.support.command import call
from tests.test_cli_check import old_sitemap, served


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_column_name_with_a_leading_space_is_used_and_quoted() -> None:
    Path("pages.csv").write_text("loc, lastmod, colour\n/a, 2026-01-01,red\n/b, 2026-01-02,blue\n")
    done = call("init", "--from", "pages.csv", "--site", "https://shop.example")
    assert 'the column " lastmod" is used as the date of the last change' in done.out
    text = Path("site.yaml").read_text()
    assert yaml.safe_load(text)["sections"]["pages"]["lastmod"] == " lastmod"
    assert 'other columns, for rules and hooks: " colour"' in text
    assert call("validate", "site.yaml", "--connect").code == 0
    assert call("run", "site.yaml", "--json").json["sections"]["pages"]["listed"] == 2


@pytest.mark.parametrize(
    ("header", "pages", "listed"),
    [
        ("loc,exclude", ["/a,false", "/b,0", "/c,TRUE", "/d,"], 3),
        ("url,exclude", ["www.shop.example/a,no", "www.shop.example/b,yes", "www.shop.example/c, no "], 2),
    ],
)
def test_false_as_text_excludes_no_row(header: str, pages: list[str], listed: int) -> None:
    Path("pages.csv").write_text("\n".join([header, *pages, ""]))
    done = call("init", "--from", "pages.csv")
    said = "any text in `exclude` excludes a row, also false and 0: the SELECT makes it true or false"
    text = Path("site.yaml").read_text()
    assert said in done.out
    assert f"# {said}" in text
    assert "it may be about" not in text
    assert call("validate", "site.yaml", "--connect").code == 0
    assert call("run", "site.yaml", "--json").json["sections"]["pages"]["listed"] == listed


@pytest.mark.parametrize("values", [("sold out", ""), ("true", ""), ("1", "")])
def test_an_exclude_column_with_reasons_is_used_unchanged(values: tuple[str, str]) -> None:
    Path("pages.csv").write_text("loc,exclude\n" + "".join(f"/{n},{value}\n" for n, value in enumerate(values)))
    call("init", "--from", "pages.csv")
    assert yaml.safe_load(Path("site.yaml").read_text())["sections"]["pages"]["from"] == {"csv": "pages.csv"}
    assert call("run", "site.yaml", "--json").json["sections"]["pages"]["listed"] == 1


def test_printed_commands_can_be_pasted_into_a_shell() -> None:
    Path("live").mkdir()
    Path("live/map.xml").write_text(old_sitemap("https://shop.example/a"))
    with served(Path("live")) as address:
        target = f"{address}/map.xml?a=1&b=2"
        done = call("init", "my sites/shop.yaml", "--from", target, "--site", "https://shop.example")
    commands = [
        shlex.split(line.partition(": ")[2] or line) for line in done.out.splitlines() if "sitemap-etl " in line
    ]
    assert commands == [
        ["sitemap-etl", "run", "my sites/shop.yaml", "--dry-run", "--against", target],
        ["sitemap-etl", "validate", "my sites/shop.yaml", "--connect"],
        ["sitemap-etl", "run", "my sites/shop.yaml", "--dry-run"],
    ]


@pytest.mark.parametrize("source", [[], ["--from", "pages.csv"]])
def test_a_site_file_from_init_refuses_dates_of_one_batch_job(source: list[str]) -> None:
    Path("pages.csv").write_text("loc\n/a\n")
    assert call("init", *source, "--site", "https://shop.example").code == 0
    text = Path("site.yaml").read_text()
    assert yaml.safe_load(text)["gates"] == {"max_same_hour": 0.5}
    Path("site.yaml").write_text(text.replace("  # max_drop: 0.1", "  max_drop: 0.1"))
    assert yaml.safe_load(Path("site.yaml").read_text())["gates"] == {"max_same_hour": 0.5, "max_drop": 0.1}
