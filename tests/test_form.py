"""The form of a run that is triggered: what is filled in is read strictly, and told in the words of the form."""

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
def test_a_run_that_nobody_filled_a_form_for_has_the_defaults(conf: dict[str, Any] | None, site: Site) -> None:
    options, now = asked(site, conf)
    assert (options, now) == (tasks.Options(), None)


def test_what_is_filled_in_are_the_options_of_the_run(site: Site) -> None:
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
def test_a_mistake_in_it_is_reported_in_its_words(conf: dict[str, Any], said: str, site: Site) -> None:
    with pytest.raises(ConfigError) as error:
        asked(site, conf)
    assert said in str(error.value)
    assert "--" not in str(error.value)


def test_all_unknown_keys_are_reported_at_once_with_those_that_there_are(site: Site) -> None:
    with pytest.raises(ConfigError) as error:
        asked(site, {"dryrun": True, "forced": [], "full": True})
    first, second, known = error.value.problems
    assert ("dryrun" in first, "forced" in second) == (True, True)
    assert "sections, full, dry_run, ping, force, reason, now, moved" in known
