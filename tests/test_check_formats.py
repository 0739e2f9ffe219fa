"""Output formats of check for CI: SARIF, JUnit and annotations of GitHub, even for hostile files."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from xml.etree import ElementTree as ET

import jsonschema
import pytest
from rich.console import Console

from sitemap_etl.check import CODES, FileStats, Finding, Report, render_table
from sitemap_etl.check.formats import github, junit, sarif

HOSTILE = "<b>&\"'\x1b[31m\x07\r\n::error::x\u202e%0A,: ]]>\udcff##[add-mask]"


def report(hostile: str = "") -> Report:
    """Findings of every kind: with and without a line, known, partly known, on this machine and on the web."""
    found = Report(
        [
            Finding("loc-relative", f"public/größe 1.xml{hostile}", 4, 6, f"/b{hostile}", 3, f"detail{hostile}"),
            Finding("unreachable", f"https://shop.example/a.xml{hostile}", example="x"),
            Finding("duplicate", f"public/größe 1.xml{hostile}", 5, 1, "https://shop.example/a", 2, known=2),
            Finding("bom", f"public/größe 1.xml{hostile}", 1, 1, "", 9, known=4),
            Finding("loc-tracking", f"s3://bucket/maps/b.xml{hostile}", 2),
        ],
        [
            FileStats(f"public/größe 1.xml{hostile}", "urlset", 9, 100),
            FileStats(f"https://shop.example/a.xml{hostile}", "unread"),
            FileStats("public/fine.xml", "urlset", 1, 50),
            FileStats(f"s3://bucket/maps/b.xml{hostile}", "urlset", 1, 50),
        ],
        1.5,
    )
    found.sort()
    return found


# --- SARIF ---

RESULT: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["ruleId", "ruleIndex", "level", "message", "locations", "occurrenceCount", "partialFingerprints"],
    "properties": {
        "ruleId": {"enum": list(CODES)},
        "ruleIndex": {"type": "integer", "minimum": 0},
        "level": {"enum": ["none", "note", "warning", "error"]},
        "message": {
            "type": "object",
            "additionalProperties": False,
            "required": ["text"],
            "properties": {"text": {"type": "string", "minLength": 1}},
        },
        "locations": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["physicalLocation"],
                "properties": {
                    "physicalLocation": {
                        "type": "object",
                        "additionalProperties": False,
                        "required": ["artifactLocation"],
                        "properties": {
                            "artifactLocation": {
                                "type": "object",
                                "additionalProperties": False,
                                "required": ["uri"],
                                # RFC 3986: printable ASCII, and each % begins an escape
                                "properties": {
                                    "uri": {"type": "string", "pattern": r"^(?:[!#$&-;=?-\[\]_a-z~]|%[0-9A-Fa-f]{2})+$"}
                                },
                            },
                            "region": {
                                "type": "object",
                                "additionalProperties": False,
                                "required": ["startLine"],
                                "properties": {
                                    "startLine": {"type": "integer", "minimum": 1},
                                    "startColumn": {"type": "integer", "minimum": 1},
                                },
                            },
                        },
                    }
                },
            },
        },
        "occurrenceCount": {"type": "integer", "minimum": 1},
        "partialFingerprints": {"type": "object", "additionalProperties": {"type": "string"}},
        "baselineState": {"enum": ["new", "unchanged", "updated", "absent"]},
    },
}
"""What SARIF 2.1.0 (section 3.27) says of the properties that a result of ours has."""


@pytest.mark.parametrize("hostile", ["", HOSTILE], ids=["tame", "hostile"])
def test_sarif_output_follows_the_standard(hostile: str) -> None:
    log = json.loads(json.dumps(sarif(report(hostile), 1, compared=False)))
    assert log["version"] == "2.1.0"
    assert log["$schema"].endswith("/sarif-schema-2.1.0.json")
    (run,) = log["runs"]
    driver = run["tool"]["driver"]
    assert driver["name"] == "sitemap-etl"
    assert run["invocations"] == [{"executionSuccessful": True, "exitCode": 1}]
    rules = [rule["id"] for rule in driver["rules"]]
    schema = jsonschema.Draft202012Validator(RESULT)
    assert len(set(rules)) == len(rules)
    for rule in driver["rules"]:
        assert rule["help"]["text"] == CODES[rule["id"]].fix
        assert rule["defaultConfiguration"]["level"] in {"error", "warning", "note"}
    for result in run["results"]:
        schema.validate(result)
        assert rules[result["ruleIndex"]] == result["ruleId"]
        assert "\x1b" not in result["message"]["text"]
        assert "\n" not in result["message"]["text"]
        assert "baselineState" not in result
    assert {(r["ruleId"], r["occurrenceCount"], r["level"]) for r in run["results"]} >= {
        ("loc-relative", 3, "error"),
        ("bom", 9, "warning"),
        ("loc-tracking", 1, "note"),
    }


def test_sarif_names_files_by_uris_that_resolve_to_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    files = {
        "public/größe 1#?.xml": "public/gr%C3%B6%C3%9Fe%201%23%3F.xml",
        str(tmp_path / "public" / "a.xml"): "public/a.xml",
        "/elsewhere/a b.xml": "file:///elsewhere/a%20b.xml",
        "https://shop.example/a.xml?x=1&y=ü": "https://shop.example/a.xml?x=1&y=%C3%BC",
        "<stdin>": "%3Cstdin%3E",
    }
    log = sarif(Report([Finding("bom", file) for file in files]), 0, compared=False)
    uris = [r["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for r in log["runs"][0]["results"]]
    assert uris == list(files.values())
    assert unquote(uris[0]) == "public/größe 1#?.xml"


def test_sarif_marks_new_findings_and_keeps_fingerprints_when_lines_move() -> None:
    results = sarif(report(), 1, compared=True)["runs"][0]["results"]
    assert {r["ruleId"]: r["baselineState"] for r in results} == {
        "loc-relative": "new",
        "unreachable": "new",
        "duplicate": "unchanged",
        "bom": "updated",
        "loc-tracking": "new",
    }
    one, moved, other = (
        sarif(Report([finding]), 1, compared=False)["runs"][0]["results"][0]["partialFingerprints"]
        for finding in (
            Finding("loc-relative", "a.xml", 4, 1, "/a", 2),
            Finding("loc-relative", "a.xml", 900, 7, "/b", 5),
            Finding("loc-relative", "b.xml", 4, 1, "/a", 2),
        )
    )
    assert one == moved != other


# --- JUnit ---


@pytest.mark.parametrize("hostile", ["", HOSTILE], ids=["tame", "hostile"])
def test_junit_totals_match_its_cases_and_the_file_is_ascii(hostile: str) -> None:
    text = junit(report(hostile), "error")
    assert text.isascii()
    assert text.startswith("<?xml version='1.0' encoding='UTF-8'?>\n")
    root = ET.fromstring(text)
    assert root.tag == "testsuites"
    assert len(root) == 4
    for element in (root, *root):
        for attribute, tag in (
            ("tests", "testcase"),
            ("failures", "failure"),
            ("errors", "error"),
            ("skipped", "skipped"),
        ):
            told = element.get(attribute)
            assert told == (None if (element, tag) == (root, "skipped") else str(len(list(element.iter(tag)))))
    assert [root.get(name) for name in ("tests", "failures", "errors")] == ["6", "1", "1"]
    for case in root.iter("testcase"):
        assert case.get("name")
        assert case.get("classname")
        assert len(case) <= 1


def test_junit_fails_new_findings_and_skips_known_ones() -> None:
    def kinds(fail_on: Any) -> dict[str, str]:
        cases = ET.fromstring(junit(report(), fail_on)).iter("testcase")
        return {(case.get("name") or "").partition(" (")[0]: case[0].tag if len(case) else "" for case in cases}

    expected = {
        "loc-relative": "failure",
        "unreachable": "error",
        "duplicate": "skipped",
        "bom": "system-out",
        "loc-tracking": "system-out",
        "no problems found": "",
    }
    assert kinds("error") == expected
    assert kinds("warning") == {**expected, "bom": "failure"}


# --- GitHub Actions ---

COMMAND = re.compile(r"::(error|warning|notice) ([a-z]+=[^,:]*(?:,[a-z]+=[^,:]*)*)::(.*)")


def unescaped(text: str) -> str:
    for escape, character in (("%3A", ":"), ("%2C", ","), ("%0A", "\n"), ("%0D", "\r"), ("%25", "%")):
        text = text.replace(escape, character)
    return text


@pytest.mark.parametrize("hostile", ["", HOSTILE], ids=["tame", "hostile"])
def test_an_annotation_is_one_workflow_command_for_any_file_name(hostile: str) -> None:
    *lines, summary = github(report(hostile))
    assert len(lines) == 4
    for line in lines:
        assert line.isprintable(), "no newline ends a command early, and no escape reaches the log"
        assert COMMAND.fullmatch(line), line
    assert not summary.startswith("::")
    assert summary.endswith("known: 1; files: 4, URLs: 11")


def test_an_annotation_has_location_problem_and_fix() -> None:
    lines = list(github(report()))
    found = [COMMAND.fullmatch(line) for line in lines[:-1]]
    kinds = [(m[1], dict(part.split("=") for part in m[2].split(","))) for m in found if m]
    assert kinds[0] == ("error", {"title": "loc-relative", "file": "public/größe 1.xml", "line": "4", "col": "6"})
    assert kinds[1] == ("error", {"title": "unreachable"}), "an address is no file of the repository"
    assert found[1] is not None
    assert found[1][3].startswith("https://shop.example/a.xml: The file could not be read")
    assert [kind for kind, _ in kinds] == ["error", "error", "warning", "notice"]
    percent = next(iter(github(Report([Finding("loc-relative", "100%.xml", 1, 1, "/50%25")]))))
    assert "file=100%25.xml" in percent
    assert unescaped(percent).endswith("Example: /50%25. Include the scheme and the host.")


def test_hostile_text_in_annotations_cannot_control_the_terminal() -> None:
    for by_file in (False, True):
        console = Console(file=io.StringIO(), width=80, color_system=None)
        render_table(report(HOSTILE), console, by_file=by_file, examples=None)
        assert isinstance(console.file, io.StringIO)
        assert all(line.isprintable() for line in console.file.getvalue().splitlines())
