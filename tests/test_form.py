"""The trigger form of a run: values are read strictly, and errors use the names of the form."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from sitemap_etl.config import Site
from sitemap_etl.errors import ConfigError
from sitemap_etl.runs import form, tasks
from tests.support.sites import TestSite


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return TestSite(tmp_path).section("pages").load()


def asked(site: Site, conf: dict[str, Any] | None) -> Any:
    return tasks.asked(site, {name: field["default"] for name, field in form.fields(site).items()}, conf)


@pytest.mark.parametrize("conf", [None, {}, {"airflow/task_span_detail_level": 2}])
def test_a_run_without_a_trigger_form_has_the_defaults(conf: dict[str, Any] | None, site: Site) -> None:
    options, now = asked(site, conf)
    assert (options, now) == (tasks.Options(), None)


def test_values_of_the_trigger_form_become_options_of_the_run(site: Site) -> None:
    conf = {"dry_run": True, "sections": None, "force": ["max_drop"], "reason": "a sale", "now": "2026-11-20T02:00:00Z"}
    options, now = asked(site, conf)
    assert options == tasks.Options(dry_run=True, force=("max_drop",), reason="a sale")
    assert now == datetime(2026, 11, 20, 2, tzinfo=UTC)


@pytest.mark.parametrize(
    ("conf", "said"),
    [
        ({"dryrun": True}, "conf: dryrun: unknown key; did you mean dry_run?"),
        ({"Dry run": True, "ping": False}, "conf: Dry run: unknown key"),
        ({"section": ["pages"]}, "conf: section: unknown key; did you mean sections?"),
        ({"limit": 5}, "conf: limit: unknown key\n"),
        ({"force": ["max_drop"]}, "Force wants a Reason, which the manifest keeps"),
        ({"force": ["max_drop"], "reason": "  "}, "Force wants a Reason"),
        ({"force": ["max_drop"], "reason": "…"}, "Reason …: this is a placeholder"),
        ({"force": ["nope.max_drop"], "reason": "a sale"}, "Force nope.max_drop: there is no such gate"),
        ({"sections": ["nope"]}, "Sections nope: there is no such section"),
        ({"now": "noon"}, "Now noon: expected a time in ISO 8601"),
    ],
)
def test_an_error_in_the_trigger_form_is_reported_with_the_names_of_the_form(
    conf: dict[str, Any], said: str, site: Site
) -> None:
    with pytest.raises(ConfigError) as error:
        asked(site, conf)
    assert said in str(error.value)
    assert "--" not in str(error.value)


def test_all_unknown_keys_of_the_trigger_form_are_reported_with_the_existing_ones(site: Site) -> None:
    with pytest.raises(ConfigError) as error:
        asked(site, {"dryrun": True, "forced": [], "full": True})
    first, second, known = error.value.problems
    assert ("dryrun" in first, "forced" in second) == (True, True)
    assert "sections, full, dry_run, ping, force, reason, now, moved" in known
