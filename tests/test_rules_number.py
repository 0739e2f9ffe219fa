"""Results of the rules change only with their version, and a new version applies the rules to unchanged rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sitemap_etl.transform import rules
from tests.support.catalog import of_pages
from tests.support.lake import Delta
from tests.support.lake import rows as lake_rows
from tests.support.recorded_rules import ROWS, differing, recorded, results
from tests.support.sites import TestSite, pages

ADVICE = (
    "Raise RULES in sitemap_etl/transform/rules.py if the results are meant to change, so that the next run applies "
    "the rules to unchanged rows too. Then record them: python -m tests.support.recorded_rules"
)


def test_results_of_the_rules_change_only_with_the_version_of_the_rules() -> None:
    before = recorded()
    changed = differing(results(), before["sections"])
    assert not changed, "\n".join([*changed, ADVICE])
    assert before["rules"] == rules.RULES, f"The results of this number are not recorded. {ADVICE}"


def test_every_row_of_the_corpus_has_a_recorded_result() -> None:
    written: dict[str, Any] = json.loads(ROWS.read_text("utf-8"))
    rows = {name: {json.dumps(row, ensure_ascii=False) for row in one["rows"]} for name, one in written.items()}
    assert rows == {name: set(one["rows"]) for name, one in recorded()["sections"].items()}, ADVICE


@pytest.mark.parametrize("kind", ["rows", "notes"])
def test_a_result_that_differs_is_shown(kind: str) -> None:
    before = recorded()["sections"]
    if kind == "rows":
        row = next(iter(before["addresses"]["rows"]))
        before["addresses"]["rows"][row] = {"rejected": "too long"}
    else:
        before["lists"]["notes"]["a note"] = 1
    assert len(differing(recorded()["sections"], before)) == 1


# --- the next run -----------------------------------------------------------------------------------------------------


def raised(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let all later runs have a new version of the rules."""
    monkeypatch.setattr(rules, "RULES", rules.RULES + 1)


def test_another_version_of_the_rules_transforms_unchanged_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = TestSite(tmp_path)
    site.section("pages", pages(100, lastmod="2026-09-01"))

    def unchanged(number: int) -> bool:
        return site.night(number).run.transformed(0).unchanged

    assert [unchanged(number) for number in (1, 2, 3)] == [False, True, True]
    raised(monkeypatch)
    assert [unchanged(number) for number in (4, 5, 6)] == [False, False, True]


def test_another_version_of_the_rules_transforms_rows_of_the_mirror(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = of_pages(tmp_path)

    def untouched(number: int) -> tuple[str, ...]:
        return site.night(number).run.merging().untouched

    assert [untouched(number) for number in (1, 2, 3)] == [(), ("pages",), ("pages",)]
    raised(monkeypatch)
    assert [untouched(number) for number in (4, 5)] == [(), ("pages",)]


def test_another_version_of_the_rules_reads_the_same_table_version_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Delta(str(tmp_path / "lake" / "pages"))
    table.append(lake_rows(0, 60))
    site = TestSite(tmp_path / "site")
    site.keys["sections"]["pages"] = {"from": table.source}

    def extracted(number: int) -> int:
        return site.night(number).summary.sections["pages"].extracted

    assert [extracted(number) for number in (1, 2)] == [60, 0]
    raised(monkeypatch)
    assert [extracted(number) for number in (3, 4)] == [60, 0]
