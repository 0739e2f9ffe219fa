"""Any text is written to a site file so that it is read back unchanged."""

from __future__ import annotations

from typing import Any

import yaml
from hypothesis import given
from hypothesis import strategies as st

from sitemap_etl.config.variables import expand
from sitemap_etl.runs.init.text import block, flow, line, scalar

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30) | st.sampled_from(
    [
        "${HOME}",
        "$${x}",
        "no",
        "none",
        "null",
        "1e3",
        "~",
        "- a",
        "a: b",
        "#",
        "a #b",
        "{a}",
        "'",
        '"',
        "\\",
        "\n",
        "\x85",
        "x ",
    ]
)


def read(text: str) -> Any:
    """Return the value of `key` in a site file with this text."""
    return yaml.safe_load(f"key: {text}\nnext: 1\n")["key"]


@given(TEXTS)
def test_a_text_written_as_yaml_is_read_back(text: str) -> None:
    found = read(scalar(text))
    assert expand(found, {}) == (text, [])


@given(st.dictionaries(TEXTS, TEXTS, max_size=3))
def test_a_mapping_written_as_yaml_is_read_back(mapping: dict[str, str]) -> None:
    assert {expand(k, {})[0]: expand(v, {})[0] for k, v in read(flow(mapping)).items()} == mapping


@given(st.lists(TEXTS, min_size=1, max_size=4))
def test_a_select_written_as_yaml_is_read_back(lines: list[str]) -> None:
    text = "\n".join(["SELECT", *lines, "FROM t"])
    found = expand(read(block(text, 4)), {})[0]
    assert found.removesuffix("\n") == text


@given(TEXTS)
def test_text_in_a_comment_cannot_leave_the_comment(text: str) -> None:
    assert read(line("value", f"comment {text}")) == "value"
