"""Sitemaps of other generators have no faults; a fault planted in them is found, and nothing else."""

from __future__ import annotations

import re
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest
from lxml import etree
from planted_faults import FOLLOWS, SETS, Case, cases, originals

from sitemap_etl.check import Options, Report, check
from tests.support.rendered import schema_folder

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
ROOT = re.compile(rb"<(urlset|sitemapindex)\s")


def checked(folder: Path, files: dict[str, bytes], target: str = "", **options: object) -> Report:
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return check([str(folder / target)], options=Options(now=NOW, follow=not target, jobs=1, **options))  # type: ignore[arg-type]


def judged(folder: Path, case: Case) -> tuple[bool, int, list[str]]:
    """Return whether the fault was found, the number of findings, and those that are not its consequences."""
    report = checked(folder, case.files, case.target, **case.plant.options)
    codes = [finding.code for finding in report.findings]
    family = {case.plant.code, *case.plant.also, *FOLLOWS.get(case.plant.code, ())}
    return case.plant.code in codes, len(codes), [code for code in codes if code not in family]


@pytest.mark.parametrize("name", SETS)
def test_an_intact_example_has_no_findings(name: str, tmp_path: Path) -> None:
    assert checked(tmp_path, originals(name)).findings == []


@pytest.mark.thorough
def test_every_planted_fault_is_found_and_nothing_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One test for all, so that recall and precision cover everything; missed and wrong findings are named."""
    found = findings = 0
    lost: list[str] = []
    untrue: list[str] = []
    for number, case in enumerate(cases()):
        folder = tmp_path / str(number)
        folder.mkdir()
        hit, count, beside = judged(folder, case)
        found += hit
        findings += count
        lost += [] if hit else [f"{case.name}: {case.plant.code}"]
        untrue += [f"{case.name}: {code}" for code in beside]
    with capsys.disabled():
        print(
            f"\n{len(cases())} planted faults: recall {found / len(cases()):.1%} ({found}), "
            f"precision {1 - len(untrue) / findings:.1%} ({findings - len(untrue)} of {findings} findings)"
        )
    assert (lost, untrue) == ([], [])


def test_the_corpus_is_large_and_plants_no_fault_twice() -> None:
    assert len(cases()) >= 400
    assert [name for name, count in Counter(case.name for case in cases()).items() if count > 1] == []


SHAPE = {"element-unknown", "element-order", "element-repeated", "loc-missing", "text-stray", "attribute-unknown"}
BEYOND = ("another element of XHTML", "two articles of a page")
"""The schemas let in any element of XHTML, and any number of articles; Google does not."""


def test_the_xml_schemas_accept_the_originals_and_refuse_faults_of_structure() -> None:
    """The schemas accept the originals, and refuse faults of structure."""
    folder = schema_folder()
    schemas = {
        root: etree.XMLSchema(etree.parse(folder / f"{name}.xsd"))
        for root, name in ((b"urlset", "all"), (b"sitemapindex", "all-index"))
    }
    for name in SETS:
        for file, data in originals(name).items():
            if root := ROOT.search(data):
                assert not is_refused(data, schemas[root[1]]), f"{name}/{file}"
    planted = [case for case in cases() if case.plant.code in SHAPE and case.plant.what not in BEYOND]
    roots = [ROOT.search(case.files[case.target]) for case in planted]
    assert [
        case.name
        for case, root in zip(planted, roots, strict=True)
        if root is None or not is_refused(case.files[case.target], schemas[root[1]])
    ] == []


def is_refused(data: bytes, schema: etree.XMLSchema) -> bool:
    try:
        return not schema.validate(etree.fromstring(data, etree.XMLParser(resolve_entities=False)))
    except etree.XMLSyntaxError:
        return True
