"""Site files are read by libyaml where it agrees with PyYAML's own reader."""

from __future__ import annotations

import string
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from sitemap_etl.config import reader
from sitemap_etl.config.reader import _compose, _Loader
from sitemap_etl.errors import ConfigError
from tests.support.examples import examples

PIECES = [
    *("a", "key", "b: ", "k: v", ":", ": ", ",", ", ", "[", "]", "{", "}", "- ", "\n", "\n  ", "\n    ", "'x'", '"y"'),
    *('"a\\n"', "|", "|\n  ", "> ", "# c", " #c", "#", "12:30", "http://x/y?z=1", "${A}", "null", "~", "-", "--- "),
    *(
        "...",
        "é",
        "日",
        "%",
        "@",
        "`",
        "''",
        '"" ',
        "!",
        "&a ",
        "*a",
        "*.csv",
        "?",
        " ? ",
        "\t",
        "a b",
        "<<: ",
        "'it''s'",
    ),
    *(
        "\\",
        "=",
        "|-\n ",
        "a:b",
        "{a: 1}",
        "\n- a: b\n  c: d",
        "!!str 1",
        "\r\n",
        "\x85",
        "\u2028",
        "|2\n   x",
        "&",
        "\ufeff",
    ),
]
"""Pieces of YAML that readers are known to disagree about, and those that a site file consists of."""


def shape(node: yaml.Node | None) -> Any:
    """Return the values of a node and their lines."""
    if node is None:
        return None
    line = node.start_mark.line
    if isinstance(node, yaml.ScalarNode):
        return node.tag, node.value, node.style or None, line
    if isinstance(node, yaml.SequenceNode):
        return node.tag, [shape(item) for item in node.value], line
    return node.tag, [(shape(key), shape(value)) for key, value in node.value], line


def read_by(compose: Any, text: str) -> Any:
    try:
        return shape(compose(text))
    except yaml.YAMLError as error:
        return str(error)


@settings(max_examples=examples(1500))
@given(st.lists(st.sampled_from(PIECES), max_size=14).map("".join))
def test_both_yaml_readers_find_the_same_values_lines_and_errors(text: str) -> None:
    assert read_by(_compose, text) == read_by(lambda text: yaml.compose(text, Loader=_Loader), text)


@pytest.mark.parametrize("key", ["<<", '"<<"'])
def test_only_an_unquoted_merge_key_is_an_error(key: str, tmp_path: Path) -> None:
    file = tmp_path / "shop.yaml"
    file.write_text(f"{key}: 1\n")
    assert bool(reader.read(file).problems) is (key == "<<")


def test_a_plain_site_file_is_read_by_libyaml() -> None:
    text = 'site: https://shop.example\nsections:\n  pages: {from: {csv: "*.csv"}, where: "a > 1"}\n'
    assert set(text) <= set(string.printable)
    node = _compose(text)
    assert node is not None
    assert node.start_mark.buffer is None  # PyYAML's own reader keeps the text there


@pytest.mark.parametrize(
    "deep",
    ["- " * 50_000, "a: " + "[" * 50_000, "a: " + "{a: " * 50_000, "".join(" " * n + "a:\n" for n in range(3000))],
)
def test_deeply_nested_yaml_is_an_error_and_does_not_crash_the_process(deep: str, tmp_path: Path) -> None:
    file = tmp_path / "shop.yaml"
    file.write_text(deep)
    with pytest.raises(ConfigError, match=r"is nested too deeply|expected a mapping"):
        reader.read(file)
