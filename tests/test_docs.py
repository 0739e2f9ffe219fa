"""The documentation agrees with the product: commands and options, links, examples."""

from __future__ import annotations

import ast
import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
import yaml

from sitemap_etl import errors
from sitemap_etl.cli.endings import INTERRUPTED
from sitemap_etl.config import load
from sitemap_etl.state import layout
from sitemap_etl.state.codec import encode
from sitemap_etl.state.records import Summary
from tests.support.command import commands
from tests.support.documents import DOCS, FENCE, PAGES, README, ROOT, blocks

COMMAND = (DOCS / "reference" / "command.md").read_text()


COMMANDS = commands()


def section(name: str) -> str:
    """Return what the page on the command says about one command."""
    found = re.search(rf"^## `sitemap-etl {name}\b[^\n]*\n(.*?)(?=^## |\Z)", COMMAND, re.MULTILINE | re.DOTALL)
    assert found, f"there is no section on {name}"
    return found[0]


def options_of(name: str) -> set[str]:
    """Return every option of a command, including negative forms."""
    options = {option for param in COMMANDS[name].params for option in (*param.opts, *param.secondary_opts)}
    return {option for option in options if option.startswith("--")} - {"--help"}


def anchors(page: Path) -> set[str]:
    """Return the anchors that GitHub makes of the headings."""
    text = FENCE.sub("", page.read_text())
    headings = re.findall(r"^#+ +(.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_command_has_a_section_and_every_section_a_command() -> None:
    assert sorted(COMMANDS) == sorted(re.findall(r"^## `sitemap-etl ([a-z ]+[a-z])", COMMAND, re.MULTILINE))


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
    assert section(name).splitlines()[0] == " ".join(["## `sitemap-etl", name, *arguments]) + "`"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_has_a_target(page: Path) -> None:
    text = FENCE.sub("", page.read_text())
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        assert there.exists(), f"{page.name} links to {target}"
        if anchor:
            assert anchor in anchors(there), f"{page.name} links to {target}"


def _navigation(node: Any) -> list[str]:
    """Return the pages in the navigation of the site."""
    if isinstance(node, str):
        return [node]
    return [page for child in (node.values() if isinstance(node, dict) else node) for page in _navigation(child)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_no_page_has_the_marks_of_a_merge(page: Path) -> None:
    assert re.findall(r"^(?:<{7}|={7}|>{7})(?: .*)?$", page.read_text("utf-8"), re.MULTILINE) == []


def test_every_page_is_in_the_navigation_of_the_site() -> None:
    pages = {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")}
    assert set(_navigation(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"])) == pages


def test_the_readme_is_short_and_its_table_has_the_most_important_pages() -> None:
    before, _, table = README.partition("| | |\n|---|---|\n| **Tutorial**")
    assert len(re.sub(r"```.*?```", "", before, flags=re.DOTALL).split()) <= 400
    assert 10 <= len(re.findall(r"\]\(docs/", table.partition("\n\n")[0])) <= 20


@pytest.mark.parametrize("picture", sorted((DOCS / "images").glob("*.svg")), ids=lambda picture: picture.name)
def test_a_picture_has_alternative_text_and_colors_for_a_dark_page(picture: Path) -> None:
    root = ET.parse(picture).getroot()
    texts = {element.tag.rpartition("}")[2]: element.text for element in root}
    assert texts["title"]
    assert texts["desc"]
    assert "prefers-color-scheme: dark" in picture.read_text()
    assert not re.search(r"(href|src)=|url\((?!#)|@import", picture.read_text())
    shown = [page for page in [*PAGES] if f"images/{picture.name})" in page.read_text()]
    assert shown


def test_every_module_that_the_architecture_page_names_exists() -> None:
    """Modules, folders, and functions or classes of modules."""
    text = (DOCS / "explanation" / "architecture.md").read_text()
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
    """Return every example of a site file, or of a part of one."""
    found = []
    for page in PAGES:
        name = page.relative_to(ROOT).as_posix()
        texts = [text for text in blocks(page, "yaml") if "from:" in text and "extends:" not in text]
        found += [(f"{name}-{n}", text) for n, text in enumerate(texts)]
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


def test_every_python_example_compiles() -> None:
    found = [(page, text) for page in PAGES for text in blocks(page, "python")]
    assert found
    for page, text in found:
        compile(text, str(page), "exec")


@pytest.mark.parametrize("page", [*PAGES], ids=lambda page: page.name)
def test_no_command_installs_the_package_from_an_index_that_lacks_it(page: Path) -> None:
    assert not re.search(r"(pip|pipx|uvx?) (install )?(-\S+ )*\"?sitemap[_-]etl", page.read_text())


def test_every_environment_variable_is_in_the_reference() -> None:
    sources = [*(ROOT / "sitemap_etl").rglob("*.py"), *(ROOT / "dags").glob("*.py")]
    named = {name for path in sources for name in re.findall(r"\bSITEMAP_ETL_[A-Z0-9_]+\b", path.read_text())}
    text = (DOCS / "reference" / "environment.md").read_text()
    assert named == {"SITEMAP_ETL_SITES", "SITEMAP_ETL_S3_TIMEOUT"}
    assert set(re.findall(r"`(SITEMAP_ETL_[A-Z0-9_]+)`", text)) == named


def _table(page: str, heading: str) -> list[list[str]]:
    """Return the cells of the first table that begins with this row."""
    text = (DOCS / "reference" / page).read_text()
    rows = text.partition(heading)[2].partition("\n\n")[0].splitlines()
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows if row.startswith("| ")]


def _kinds(of: type[errors.SitemapEtlError] = errors.SitemapEtlError) -> dict[str, int]:
    found = {of.kind: of.exit_code}
    for below in of.__subclasses__():
        if below.__module__ == errors.__name__:
            found |= _kinds(below)
    return found


def test_every_exit_code_and_kind_of_error_is_documented() -> None:
    kinds = {**_kinds(), "machine": errors.Unavailable.exit_code, "interrupted": INTERRUPTED}
    assert {kind.strip("`"): int(code) for kind, code, _ in _table("exit-codes.md", "| `kind` |")} == kinds
    assert {int(code) for code, _ in _table("exit-codes.md", "| exit code |")} == {0, *kinds.values()}


def test_every_key_of_a_run_s_json_is_documented() -> None:
    """The keys of the summary, and those that only the command adds."""
    named = {
        key.partition(".")[0]
        for row in _table("json.md", "| key |")
        for key in re.findall(r"`([a-z_]+(?:\.\{name\})?)`", row[0])
    }
    assert named == {*encode(Summary()), "exit", "against"} - {"format", "checksum"}


def test_every_path_of_the_state_folder_is_documented() -> None:
    text = (DOCS / "reference" / "state.md").read_text()
    assert layout.__doc__ is not None
    places = re.findall(r"^    ([^\s,]+)", layout.__doc__, re.MULTILINE)
    assert len(places) >= 10
    assert [place for place in places if f"`{place}`" not in text] == []


def _texts_of_the_product() -> str:
    """Return every text of the package, with a gap in place of each value."""
    found = []
    for path in (ROOT / "sitemap_etl").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.JoinedStr):
                found.append(
                    "".join(str(getattr(part, "value", "")) for part in node.values if isinstance(part, ast.Constant))
                )
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append(node.value)
    return "\n".join(found)


def test_every_message_of_the_troubleshooting_page_exists() -> None:
    page = (DOCS / "how-to" / "troubleshooting.md").read_text()
    tables = re.findall(r"^\| message \|.*?\n\n", page, re.MULTILINE | re.DOTALL)
    messages = re.findall(r"^\| `([^`]+)` \|", "".join(tables), re.MULTILINE)
    assert len(messages) > 40
    product = _texts_of_the_product()
    parts = {message: [part.strip(" .,:;") for part in message.split("…")] for message in messages}
    missing = {message for message, found in parts.items() if not all(part in product for part in found)}
    assert missing == set()


def test_every_make_target_the_documentation_names_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for page in PAGES:
        assert set(re.findall(r"(?:^    |`)make ([a-z-]+)", page.read_text(), re.MULTILINE)) <= targets


def test_the_documented_policies_are_valid_json() -> None:
    found = [json.loads(text) for page in PAGES for text in blocks(page, "json")]
    assert found


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
def test_discouraged_words_are_in_no_document_and_no_message(words: str) -> None:
    texts = [*PAGES, *(ROOT / "sitemap_etl").rglob("*.py")]
    assert [path.name for path in texts if words in path.read_text("utf-8")] == []
