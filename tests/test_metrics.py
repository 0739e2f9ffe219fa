"""Metrics of runs, read by the parser of Prometheus's own client."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from prometheus_client.parser import text_string_to_metric_families as plain_families

from sitemap_etl.errors import SitemapEtlError
from sitemap_etl.report.metrics import metrics
from sitemap_etl.state.records import Attempt, Gate
from tests.support.command import call
from tests.support.sites import FIRST_NIGHT, TestSite, pages

Values = dict[tuple[str, frozenset[tuple[str, str]]], float]


@pytest.fixture
def site(tmp_path: Path) -> TestSite:
    return TestSite(tmp_path).section("products", pages(100, lastmod="2026-10-01"))


def samples(text: str) -> Values:
    """Every sample by name and labels; both parsers agree on them."""
    found = _samples(text_string_to_metric_families(text))
    assert found == _samples(plain_families(text))
    return found


def _samples(families: Iterator[Any]) -> Values:
    return {(one.name, frozenset(one.labels.items())): one.value for family in families for one in family.samples}


def value(found: Values, name: str, **labels: str) -> float:
    return found[(f"sitemap_etl_{name}", frozenset({"site": "shop", **labels}.items()))]


def kept(site: TestSite) -> Values:
    return samples((site.folder / "work" / "shop" / "reports" / "metrics.prom").read_text())


def test_metrics_have_counts_times_and_outcome_of_a_run(site: TestSite) -> None:
    site.night(1)
    found = kept(site)
    assert value(found, "last_run_ok") == 1
    assert value(found, "last_run_status", status="published") == 1
    assert value(found, "last_run_status", status="failed") == 0
    assert value(found, "last_run_timestamp_seconds") == FIRST_NIGHT.timestamp()
    assert value(found, "last_ok_timestamp_seconds") == FIRST_NIGHT.timestamp()
    assert value(found, "urls") == value(found, "rows", section="products", what="added") == 100
    assert value(found, "files", what="written") == 2
    assert value(found, "stage_seconds", stage="render") > 0
    assert value(found, "run_seconds") > value(found, "stage_seconds", stage="render")


def test_after_a_failure_metrics_still_have_the_last_successful_run(site: TestSite) -> None:
    site.night(1)
    site.export("products", pages(10))
    site.night(2)
    found = kept(site)
    assert value(found, "last_run_ok") == 0
    assert value(found, "last_run_status", status="refused") == 1
    assert value(found, "last_ok_timestamp_seconds") == FIRST_NIGHT.timestamp()
    assert value(found, "gate_value", gate="products.max_drop", status="refused") == 0.9
    assert value(found, "gate_limit", gate="products.max_drop") == 0.1
    (site.folder / "products.csv").unlink()
    with pytest.raises(SitemapEtlError):
        site.night(3)
    found = kept(site)
    assert value(found, "last_run_status", status="failed") == 1
    assert value(found, "last_run_timestamp_seconds") == (FIRST_NIGHT + timedelta(days=2)).timestamp()
    assert value(found, "last_ok_timestamp_seconds") == FIRST_NIGHT.timestamp()


def test_a_dry_run_changes_no_metric(site: TestSite) -> None:
    site.night(1)
    before = kept(site)
    site.export("products", pages(10))
    site.night(2, dry_run=True)
    assert kept(site) == before


def test_metrics_report_failed_engines_and_kept_sections(site: TestSite) -> None:
    site.keys["ping"] = {"http_ping": {"url": "http://127.0.0.1:1/?sitemap={sitemap}", "patience": 0}}
    site.section("blog", pages(30, start=500), on_error="keep")
    assert call("run", site.path).code == 3
    assert value(kept(site), "engine_ok", engine="http_ping") == 0
    (site.folder / "blog.csv").unlink()
    assert call("run", site.path).code == 3
    assert value(kept(site), "section_held", section="blog") == 1


def test_metrics_are_written_to_a_local_file_however_the_run_ends(site: TestSite, tmp_path: Path) -> None:
    file = tmp_path / "shop.prom"
    assert call("run", site.path, "--metrics", file).code == 0
    assert value(samples(file.read_text()), "last_run_ok") == 1
    assert file.stat().st_mode & 0o777 == 0o644
    (site.folder / "products.csv").unlink()
    assert call("run", site.path, "--metrics", file).code == 2
    assert value(samples(file.read_text()), "last_run_ok") == 0
    assert [path.name for path in tmp_path.iterdir() if "prom" in path.name] == ["shop.prom"]


def test_an_unreadable_state_is_a_failed_run_in_local_metrics(site: TestSite, tmp_path: Path) -> None:
    site.night(1)
    path = site.folder / "work" / "shop" / "state" / "runs"
    for file in path.iterdir():
        file.unlink()
    path.rmdir()
    path.write_text("in the way")
    (site.folder / "products.csv").unlink()
    file = tmp_path / "shop.prom"
    assert call("run", site.path, "--metrics", file).code != 0
    assert value(samples(file.read_text()), "last_run_ok") == 0


def test_an_unwritable_metrics_file_is_a_warning(site: TestSite) -> None:
    nowhere = site.path / "shop.prom"
    done = call("run", site.path, "--metrics", nowhere)
    assert done.code == 0
    assert f"warning: --metrics {nowhere} can't be written: " in done.err


def test_names_with_quotes_and_line_breaks_are_escaped_in_labels() -> None:
    gate = Gate('a"b\\c\nd', "warned", 0.5, 0.6, "")
    text = metrics(
        'sh"op', Attempt("r", "2026-11-01T02:00:00Z", "2026-11-01T02:00:00Z", "published", gates=(gate,)), None
    )
    found = samples(text)
    assert ("sitemap_etl_gate_limit", frozenset({"site": 'sh"op', "gate": 'a"b\\c\nd'}.items())) in found
