"""A site file is YAML 1.2 without its traps: it is read as meant, or refused with what to write."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sitemap_etl.config import load
from sitemap_etl.errors import ConfigError
from tests.site_files import MINIMAL, loaded, problems, written
from tests.support.examples import examples

TRAPS = [
    ("exclude: *foo", 'exclude: a value that begins with * must be in quotes: "*…"'),
    ("exclude: [*/print]", 'exclude: a value that begins with * must be in quotes: "*…"'),
    ("schedule: * 2 * * *", 'schedule: a value that begins with * must be in quotes: "*…"'),
    (
        "file: {section}-{number}.xml",
        'file: text that begins with { or [ must be in quotes: "{…}…"',
    ),
    (
        "names: {file: sitemap-{section}.xml}",
        'names: text that contains { } [ ] or , must be in quotes inside {…} and […]: "sitemap-{section}…"',
    ),
    ("exclude: [/a{1}]", "exclude: text that contains { } [ ] or , must be in quotes inside {…} and […]"),
    (
        "from: {csv: a.csv\nwhere: x",
        "from: the { that opens here is never closed; if it is text, it must be in quotes",
    ),
    (
        "csv: [a.csv, b.csv}\nwhere: x",
        "csv: the [ that opens here is never closed; if it is text, it must be in quotes",
    ),
    ("schedule: @daily", 'schedule: a value that begins with @ must be in quotes: "@…"'),
    ("where: %x", 'where: a value that begins with % must be in quotes: "%…"'),
    ("where: `x`", 'where: a value that begins with ` must be in quotes: "`…"'),
    ("where: >= 3", 'where: a value that begins with > or | must be in quotes: ">…"'),
    ("where: }", 'where: a value that begins with } must be in quotes: "}…"'),
    ("name:\tshop", "name: a tab character; YAML allows only spaces"),
    ("\tname: shop", "a tab character; YAML allows only spaces"),
    ("title: shop: new", 'title: text that contains ": " must be in quotes'),
    ('title: "shop', "title: the quotation mark that opens here is never closed"),
    (
        'title: "a" b',
        (
            "title: there is text after the closing quotation mark; "
            "the whole value must be in quotes, with quotation marks inside it doubled"
        ),
    ),
    (r'where: "\d+"', r"where: \ starts an escape sequence in double quotes; use single quotes"),
    ("strip: [a, b", "strip: the [ that opens here is never closed; if it is text, it must be in quotes"),
    ("name: a\njust words\nkeep: 3", "name: expected `key: value`, with a colon and a space after the key"),
    ("name:shop\nkeep: 3", "add a space after the colon of the key"),
    (
        "name: a\n keep: 3",
        (
            "`keep:` is indented by 1 space, but `name:` on line 1 by 0; "
            "the keys of a mapping must start in the same column"
        ),
    ),
    (
        "  name: a\nkeep: 3",
        (
            "`keep:` is indented by 0 spaces, but `name:` on line 1 by 2; "
            "the keys of a mapping must start in the same column"
        ),
    ),
    ("urls:\n  - a\n b", "urls: "),
    ("name: a\n---\nname: b", "name: a second document begins here (---); write one site per file"),
    ("name: a\x07", "the character U+0007 is not allowed in YAML; remove it"),
    ("- a\n- b", "expected a mapping (site: …, publish: …, sections: …), got a list"),
    ("just words", "expected a mapping (site: …, publish: …, sections: …), got a single text"),
    ("", "is empty; a site file needs site, publish and at least one section"),
    ("# nothing yet\n", "is empty; a site file needs site, publish and at least one section"),
    ("a: &x [*x]", "a[1]: an anchor that contains itself"),
]


@pytest.mark.parametrize(("text", "said"), TRAPS, ids=[repr(text) for text, _ in TRAPS])
def test_invalid_yaml_is_reported_with_what_to_write(tmp_path, text, said):
    [problem] = problems(tmp_path, text)
    place, _, rest = problem.partition(": ")
    assert rest.startswith(said)
    assert place.startswith("shop.yaml")


def test_the_reported_line_is_the_line_of_the_error(tmp_path):
    assert problems(tmp_path, MINIMAL + "urls:\n  exclude:\n    - /a\n    - */b\n")[0].startswith(
        "shop.yaml:9: urls.exclude: a value that begins with *"
    )


@pytest.mark.parametrize(
    ("unquoted", "value"),
    [
        ("no", "no"),
        ("yes", "yes"),
        ("on", "on"),
        ("Off", "Off"),
        ("y", "y"),
        ("12:30", "12:30"),
        ("0o10", "0o10"),
        ("0x1F", "0x1F"),
        ("1_000", "1_000"),
        ("007", "007"),
        ("2026-01-02", "2026-01-02"),
        (".inf", ".inf"),
        ("=", "="),
        ("true", True),
        ("12", 12),
        ("-3", -3),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("'12'", "12"),
        ("!!str 12", "12"),
    ],
)
def test_booleans_and_numbers_are_read_as_in_yaml_1_2(tmp_path, unquoted, value):
    text = MINIMAL.replace("{csv: exports/pages.csv}", f"{{database: c, query: q, params: {{x: {unquoted}}}}}")
    found = loaded(tmp_path, text).sections["pages"].source.params["x"]
    assert found == value
    assert type(found) is type(value)


def test_keys_are_always_text(tmp_path):
    text = MINIMAL + "    columns: {no: a, 1: b, true: c, null: d}\n"
    assert loaded(tmp_path, text).sections["pages"].columns == {"no": "a", "1": "b", "true": "c", "null": "d"}


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("NULL", ("NULL",)),
        (
            r"[\N, NULL, null, 'Null', nan, ~, 0, -1, false]",
            ("\\N", "NULL", "null", "Null", "nan", "~", "0", "-1", "false"),
        ),
        ("", None),
    ],
)
def test_words_for_null_need_no_quotes(tmp_path, value, words):
    text = f"""\
site: https://shop.example
publish: ./public
sections:
  pages:
    from:
      csv: a.csv
      null: {value}
      query: SELECT 1 AS loc
      params: {{null: 5}}
      tables:
        other:
          csv: b.csv
          null: {value}
"""
    source = loaded(tmp_path, text).sections["pages"].source
    assert (source.null, source.tables["other"].null) == (words, words)
    assert source.params["null"] == 5


def test_a_repeated_key_is_an_error(tmp_path):
    text = MINIMAL + "keep: 3\nkeep: 4\n"
    assert problems(tmp_path, text) == ["shop.yaml:7: duplicate key `keep` (first on line 6)"]
    text = MINIMAL + "  pages:\n    from: {csv: b.csv}\n"
    assert "duplicate key `sections.pages` (first on line 4)" in problems(tmp_path, text)[0]


def test_tags_and_merge_keys_are_errors(tmp_path):
    assert "work: the tag !env is not allowed in a site file" in problems(tmp_path, MINIMAL + "work: !env X\n")[0]
    assert "!!python/name:os.system" in problems(tmp_path, MINIMAL + "work: !!python/name:os.system x\n")[0]
    text = MINIMAL + "gates: &g {min_urls: 3}\nurls:\n  <<: *g\n"
    assert "merge keys are not part of YAML 1.2" in problems(tmp_path, text)[0]


def test_aliases_work_but_their_expansion_is_bounded(tmp_path):
    text = MINIMAL + "    gates: &gates {min_urls: 3}\ngates: *gates\n"
    assert loaded(tmp_path, text).gates.min_urls == 3
    bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 10)
    )
    assert "more than 100,000 values" in problems(tmp_path, bomb)[0]
    assert "nested too deeply" in problems(tmp_path, "a: " + "[" * 3000 + "]" * 3000)[0]


def test_files_that_can_not_be_read_are_reported(tmp_path):
    path = written(tmp_path, MINIMAL)
    with pytest.raises(ConfigError, match=r"shp\.yaml: no such file; did you mean .*shop\.yaml\?"):
        load(path.with_name("shp.yaml"), environ={})
    with pytest.raises(ConfigError, match="is a folder; pass a site file"):
        load(path.parent, environ={})
    with pytest.raises(ConfigError, match="does not exist either"):
        load(tmp_path / "nowhere" / "shop.yaml", environ={})
    path.write_bytes("name: Caf\xe9\n".encode("latin-1"))
    with pytest.raises(ConfigError, match=r"shop\.yaml:1: is not UTF-8"):
        load(path, environ={})
    path.write_bytes(b"\xef\xbb\xbf" + MINIMAL.replace("\n", "\r\n").encode())
    assert load(path, environ={}).site == "https://shop.example"


def test_json_surrogate_escapes_are_read_as_one_character(tmp_path):
    text = MINIMAL + "    where: \"title = '\\ud83d\\ude00'\"\n"
    assert loaded(tmp_path, text).sections["pages"].where == "title = '\U0001f600'"
    assert "half a character" in problems(tmp_path, MINIMAL + '    where: "\\ud83d"\n')[0]
    text = MINIMAL + '    columns: {"\\ud83d\\ude00": smile}\n'
    assert loaded(tmp_path, text).sections["pages"].columns == {"\U0001f600": "smile"}
    assert "half a character" in problems(tmp_path, MINIMAL + '    columns: {"\\ud83d": x}\n')[0]


@settings(max_examples=examples(100))
@given(st.text(alphabet=st.sampled_from(list("ab: \n-*&!{}[]'\"#%@|>?,\t~0.$\\é\x00")), max_size=40))
def test_any_text_either_loads_or_is_reported(tmp_path, text):
    path = Path(written(tmp_path, ""))
    path.write_text(text, encoding="utf-8", newline="")
    with pytest.raises(ConfigError):
        load(path, environ={})
