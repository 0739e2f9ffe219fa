"""Which findings count: selected, ignored, with another severity, or known from a baseline."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sitemap_etl.check import CODES, FileStats, Finding, Policy, Report, severities
from sitemap_etl.check.baseline import apply_baseline, read_baseline, write_baseline
from sitemap_etl.check.policy import INCOMPLETE
from sitemap_etl.check.report import Visited
from sitemap_etl.errors import ConfigError


def reported(**given: object) -> set[str]:
    policy = Policy(**given)  # type: ignore[arg-type]
    return {code for code in CODES if policy.severity_of(code) is not None}


def test_every_code_is_reported_with_its_own_severity_by_default() -> None:
    assert reported() == set(CODES)
    assert all(Policy().severity_of(code.code) == code.severity for code in CODES.values())


def test_a_pattern_is_a_code_or_a_prefix_of_codes() -> None:
    meant = {"bom", *(c for c in CODES if c.startswith("hreflang"))}
    assert reported(select=["hreflang", "bom"]) == meant | set(INCOMPLETE)
    assert reported(ignore=["loc-"]) == {c for c in CODES if not c.startswith("loc-")}


def test_the_longest_pattern_wins_and_ignore_wins_a_tie() -> None:
    meant = {code for code in CODES if code.startswith("loc") and code != "loc-tracking"}
    assert reported(select=["loc"], ignore=["loc-tracking"]) == meant | set(INCOMPLETE)
    assert reported(select=["loc-tracking"], ignore=["loc"]) == {"loc-tracking", *INCOMPLETE}
    assert reported(select=["bom"], ignore=["bom"]) == set(INCOMPLETE)


def test_codes_about_an_incomplete_check_are_ignored_only_by_full_name() -> None:
    assert set(INCOMPLETE) <= reported(select=["bom"])
    assert reported(select=["bom"], ignore=list(INCOMPLETE)) == {"bom"}


def test_a_severity_is_replaced_and_off_is_not_reported() -> None:
    policy = Policy(
        severity=severities(["hreflang=info", "hreflang-invalid=error", "bom=off", "bom=warning", "duplicate=off"])
    )
    assert policy.severity_of("hreflang-no-self") == "info"
    assert policy.severity_of("hreflang-invalid") == "error"
    assert policy.severity_of("bom") == "warning", "the last one counts"
    assert policy.severity_of("duplicate") is None
    assert policy.severity_of("duplicate-across") is None
    assert policy.severity_of("loc-relative") == "error"


def test_ignored_findings_are_removed_and_the_rest_sorted_again() -> None:
    report = Report([Finding("loc-relative", "a"), Finding("bom", "a"), Finding("loc-tracking", "a")])
    Policy(ignore=["loc-relative"], severity={"loc-tracking": "error"}).apply(report)
    assert [(f.code, f.severity) for f in report.findings] == [("loc-tracking", "error"), ("bom", "warning")]
    assert (report.left_out, report.exit_code()) == (1, 1)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            {"select": ["loc-relatif"]},
            "select: no code is called 'loc-relatif' or begins so; did you mean loc-relative?",
        ),
        (
            {"ignore": ["E501"]},
            "ignore: no code is called 'E501' or begins so; expected the code of a finding, such as unreachable",
        ),
        ({"severity": {"Bom": "off"}}, "severity: no code is called 'Bom' or begins so; did you mean bom?"),
    ],
)
def test_a_pattern_that_matches_no_code_is_refused_with_the_nearest(given: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        Policy(**given)  # type: ignore[arg-type]
    assert str(refused.value) == said


@pytest.mark.parametrize("text", ["bom", "bom=", "bom=fatal", "=off", "bom:off"])
def test_an_unknown_severity_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"CODE=LEVEL|no code"):
        Policy(severity=severities([text]))


# --- baselines ---


def judged(tmp_path: Path, before: list[Finding], after: list[Finding], policy: Policy | None = None) -> Report:
    """The report of `after`, compared with a baseline of `before`."""
    path = tmp_path / "baseline.json"
    write_baseline(path, Report(before))
    files = [FileStats(file, "urlset") for file in dict.fromkeys(f.file for f in (*after, *before))]
    report = Report(after, files)
    apply_baseline(read_baseline(path), tmp_path, report, policy or Policy())
    return report


def test_a_known_finding_does_not_fail_if_its_line_and_example_change(tmp_path: Path) -> None:
    report = judged(
        tmp_path,
        [Finding("loc-relative", "a.xml", 4, 6, "/a", 3)],
        [Finding("loc-relative", "a.xml", 900, 1, "/z", 2)],
    )
    assert (report.exit_code("warning"), report.new, len(report.findings)) == (0, [], 1)
    assert [(gone.code, gone.count, gone.checked) for gone in report.gone] == [("loc-relative", 1, True)]


def test_known_findings_ignore_numbers_in_details_but_not_words(tmp_path: Path) -> None:
    before = [
        Finding("too-many-bytes", "a.xml", detail="52,500,123 bytes"),
        Finding("prefix-undeclared", "a.xml", detail="x"),
    ]
    after = [
        Finding("too-many-bytes", "a.xml", detail="60,000,001 bytes"),
        Finding("prefix-undeclared", "a.xml", detail="y"),
    ]
    report = judged(tmp_path, before, after)
    assert [f.code for f in report.new] == ["prefix-undeclared"]


def test_more_occurrences_than_known_are_a_new_finding_with_the_known_count(tmp_path: Path) -> None:
    report = judged(tmp_path, [Finding("loc-relative", "a.xml", count=3)], [Finding("loc-relative", "a.xml", count=5)])
    (new,) = report.new
    assert (new.count, new.known, report.exit_code()) == (5, 3, 1)
    one = judged(tmp_path, [Finding("bom", "a.xml")], [Finding("bom", "a.xml"), Finding("bom", "b.xml")])
    assert [(f.file, f.known) for f in one.new] == [("b.xml", 0)], "another file is another finding"


def test_fixed_findings_are_reported_unless_they_were_not_checked(tmp_path: Path) -> None:
    one, other = str(tmp_path / "a.xml"), str(tmp_path / "sub" / "b.xml")
    before = [Finding("bom", one), Finding("duplicate", one), Finding("loc-relative", other)]
    assert {g.code for g in judged(tmp_path, before, []).gone} == {"bom", "duplicate", "loc-relative"}
    assert {g.code for g in judged(tmp_path, before, [], Policy(ignore=["dup"])).gone} == {"bom", "loc-relative"}
    report = Report([], [FileStats(one, "urlset"), FileStats(other, "unread")])
    apply_baseline(read_baseline(tmp_path / "baseline.json"), tmp_path, report, Policy())
    assert {g.file: g.checked for g in report.gone} == {"a.xml": True, "sub/b.xml": False}


def test_a_baseline_is_the_same_wherever_the_project_is_and_ends_with_a_newline(tmp_path: Path) -> None:
    texts = []
    for place in ("one", "two"):
        folder = tmp_path / place
        (folder / "ci").mkdir(parents=True)
        findings = [Finding("bom", str(folder / "public" / "größe.xml")), Finding("bom", "https://shop.example/a.xml")]
        write_baseline(folder / "ci" / "known.json", Report(findings))
        texts.append((folder / "ci" / "known.json").read_text("utf-8"))
    assert texts[0] == texts[1]
    assert texts[0].endswith("}\n")
    assert [f["file"] for f in json.loads(texts[0])["findings"]] == [
        "../public/größe.xml",
        "https://shop.example/a.xml",
    ]
    assert [path.name for path in (tmp_path / "one" / "ci").iterdir()] == ["known.json"], "nothing is left beside it"


@pytest.mark.parametrize("code", ["unreachable", "partly-read", "not-finished", "defect"])
def test_findings_about_an_incomplete_check_never_enter_the_baseline(code: str, tmp_path: Path) -> None:
    finding = Finding(code, "https://shop.example/a.xml")
    assert judged(tmp_path, [finding], [finding]).new == [finding]


def test_a_check_that_ended_early_reports_no_fixed_findings(tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    write_baseline(path, Report([Finding("duplicate-across", "a.xml")]))
    report = Report([], [FileStats("a.xml", "urlset")], ended="it was stopped")
    apply_baseline(read_baseline(path), tmp_path, report, Policy())
    assert [(gone.code, gone.checked) for gone in report.gone] == [("duplicate-across", False)]


@pytest.mark.parametrize(("visited", "gone"), [(0, ["bom"]), (20, ["bom", "page-status"])])
def test_a_bad_page_counts_as_fixed_only_if_pages_were_visited(visited: int, gone: list[str], tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    write_baseline(path, Report([Finding("page-status", "a.xml"), Finding("bom", "a.xml")]))
    report = Report([], [FileStats("a.xml", "urlset")], pages=Visited(visited, visited))
    apply_baseline(read_baseline(path), tmp_path, report, Policy())
    assert [one.code for one in report.gone] == gone


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "there is no such baseline; create it with --write-baseline"),
        ("{", "the baseline can't be read"),
        ("[]", "this is not a baseline"),
        ('{"format": 1}', "this is not a baseline"),
        ('{"format": 1, "findings": [{"code": "bom"}]}', "this is not a baseline"),
        ("[" * 100_000, "the baseline can't be read"),
        ('{"format": 1, "findings": [{"file": "a", "code": "bom", "detail": "", "count": 1e999}]}', "not a baseline"),
        ('{"format": 1, "findings": [{"file": "a", "code": "bom", "detail": "", "count": -3}]}', "not a baseline"),
        ('{"format": 2, "findings": []}', "has format 2, and this version reads up to 1; update sitemap-etl"),
    ],
)
def test_an_invalid_baseline_is_reported_with_what_to_do(tmp_path: Path, text: str | None, said: str) -> None:
    path = tmp_path / "known.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ConfigError) as refused:
        read_baseline(path)
    assert str(refused.value).startswith(f"{path}: ")
    assert said in str(refused.value)


def test_a_baseline_with_a_retired_code_is_accepted(tmp_path: Path) -> None:
    path = tmp_path / "known.json"
    row = {"file": "a.xml", "code": "once-there", "detail": "", "count": 1}
    path.write_text(json.dumps({"format": 1, "findings": [row]}))
    report = Report()
    apply_baseline(read_baseline(path), tmp_path, report, Policy())
    assert report.gone == []
