"""The documentation says what there is: every command and option, links that lead somewhere, examples that work."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from sitemap_etl.cli.app import app
from sitemap_etl.config import load

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])


def commands(group: Any, prefix: str = "") -> dict[str, Any]:
    """Every command by its name, those of groups behind the group's."""
    found = {}
    for name, command in group.commands.items():
        found |= commands(command, f"{prefix}{name} ") if hasattr(command, "commands") else {f"{prefix}{name}": command}
    return found


COMMANDS = commands(typer.main.get_command(app))
FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^ *```", re.MULTILINE | re.DOTALL)


def section(name: str) -> str:
    """What the README says of a command."""
    found = re.search(rf"^### `sitemap-etl {name}\b[^\n]*\n(.*?)(?=^##)", README, re.MULTILINE | re.DOTALL)
    assert found, f"README has no section on {name}"
    return found[0]


def options_of(name: str) -> set[str]:
    """Every option of a command, also in its negative form."""
    options = {option for param in COMMANDS[name].params for option in (*param.opts, *param.secondary_opts)}
    return {option for option in options if option.startswith("--")} - {"--help"}


def blocks(page: Path, language: str) -> list[str]:
    """The fenced blocks of a language, without their indentation."""
    return [
        "\n".join(line.removeprefix(indent) for line in text.splitlines()) + "\n"
        for indent, kind, text in FENCE.findall(page.read_text())
        if kind == language
    ]


def anchors(page: Path) -> set[str]:
    """What GitHub makes of the headings."""
    text = FENCE.sub("", page.read_text())
    headings = re.findall(r"^#+ +(.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_command_has_a_section_and_every_section_a_command() -> None:
    assert sorted(COMMANDS) == sorted(re.findall(r"^### `sitemap-etl ([a-z ]+[a-z])", README, re.MULTILINE))


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_is_documented_and_every_documented_option_exists(name: str) -> None:
    assert set(re.findall(r"`(--[a-z-]+)", section(name))) == options_of(name)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_heading_names_every_argument(name: str) -> None:
    arguments = [
        param.metavar if param.required else f"[{param.metavar}]"
        for param in COMMANDS[name].params
        if param.param_type_name == "argument"
    ]
    assert section(name).splitlines()[0] == " ".join(["### `sitemap-etl", name, *arguments]) + "`"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    text = FENCE.sub("", page.read_text())
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        assert there.exists(), f"{page.name} links to {target}"
        if anchor:
            assert anchor in anchors(there), f"{page.name} links to {target}"


def test_every_page_is_linked_from_the_readme() -> None:
    linked = set(re.findall(r"\]\(docs/([^)#]+)", README))
    assert linked == {page.name for page in (ROOT / "docs").glob("*.md")}


def test_what_the_architecture_names_is_there() -> None:
    """Modules, folders, and functions or classes of modules."""
    text = (ROOT / "docs" / "architecture.md").read_text()
    package = ROOT / "sitemap_etl"
    named = re.findall(r"`([a-z_0-9/]+(?:\.py|/))`", text)
    assert len(named) > 30
    assert [name for name in named if not (package / name).exists()] == []
    within = re.findall(r"`([\w.]+)` in `([a-z_0-9/]+\.py)`", text)
    assert len(within) >= 7
    for name, module in within:
        last = name.rpartition(".")[2]
        assert re.search(rf"(def|class) {last}\b", (package / module).read_text()), f"{module} has no {name}"


def examples() -> list[tuple[str, str]]:
    found = []
    for page in (ROOT / "README.md", ROOT / "docs" / "operating.md"):
        found += [(f"{page.name}-{n}", text) for n, text in enumerate(blocks(page, "yaml"))]
    return found


@pytest.mark.parametrize(("name", "text"), examples(), ids=[name for name, _ in examples()])
def test_every_example_of_a_site_file_is_valid(name: str, text: str, tmp_path: Path) -> None:
    path = tmp_path / "sites" / "shop.yaml"
    for sql in re.findall(r"sql: ([^\s,}]+)", text):
        file = (path.parent / sql).resolve()
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("SELECT id, loc FROM product")
    path.parent.mkdir(exist_ok=True)
    whole = text if "\nsite:" in f"\n{text}" else f"site: https://shop.example\npublish: ./public\n{text}"
    path.write_text(whole)
    assert load(path, environ={}).sections


def test_every_python_example_can_be_read() -> None:
    for text in blocks(ROOT / "README.md", "python"):
        compile(text, "README.md", "exec")


def test_the_five_minutes_work_as_they_are_written(tmp_path: Path) -> None:
    path = README.partition("<!-- five minutes: begin -->")[2].partition("<!-- five minutes: end -->")[0]
    script = "\n".join(text for _, kind, text in FENCE.findall(path) if kind == "sh")
    assert script.count("sitemap-etl run") == 3
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=tmp_path,
        env={"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "HOME": str(tmp_path), "LANG": "C.UTF-8"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "no problems found" in done.stdout
    shop = tmp_path / "shop"
    assert (shop / "public" / "sitemap.xml").exists()
    assert (shop / "lamps" / "sitemap-products-00001.xml.gz").exists()
    assert "https://shop.example/lamps/gr%C3%B6%C3%9Fe-10" in _inflated(shop / "public" / "sitemap-pages-00001.xml.gz")
    assert "sold out" in done.stdout


def _inflated(path: Path) -> str:
    import gzip

    return gzip.decompress(path.read_bytes()).decode()


def test_every_variable_of_ours_is_in_the_readme() -> None:
    sources = [*(ROOT / "sitemap_etl").rglob("*.py"), *(ROOT / "dags").glob("*.py")]
    named = {name for path in sources for name in re.findall(r"\bSITEMAP_ETL_[A-Z0-9_]+\b", path.read_text())}
    assert named == {"SITEMAP_ETL_SITES", "SITEMAP_ETL_S3_TIMEOUT"}
    assert all(f"`{name}`" in README for name in named)


def test_every_make_target_the_documentation_names_exists() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for page in PAGES:
        assert set(re.findall(r"(?:^    |`)make ([a-z]+)", page.read_text(), re.MULTILINE)) <= targets


GIVEN_UP = [
    "stands twice, first in",
    "lacks the SELECT",
    "found the text",
    "share counts from",
    "Views begin with",
    "the other side's rights",
    "is taken for a yes",
    "all waits together",
]


@pytest.mark.parametrize("words", GIVEN_UP)
def test_words_that_readers_stumbled_over_are_in_no_document_and_no_message(words: str) -> None:
    texts = [*PAGES, *(ROOT / "sitemap_etl").rglob("*.py")]
    assert [path.name for path in texts if words in path.read_text("utf-8")] == []
