"""The reference of the site file agrees with the keys."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import jsonschema
import pytest

from sitemap_etl.config import load, reader, reference, schema
from sitemap_etl.errors import ConfigError
from sitemap_etl.settings import NoRule, Settings
from sitemap_etl.settings.rules import ChangefreqConstant, PriorityConstant, Rule
from tests.site_files import FULL, MINIMAL, written

DOCS = Path(__file__).parent.parent / "docs" / "reference"
DOCUMENT = DOCS / "site-file.md"
MARKER = re.compile(r"<!-- keys: ([^>]+) -->")
PAGES = sorted(page for page in DOCS.parent.rglob("*.md") if MARKER.search(page.read_text("utf-8")))
NEVER_WRITTEN = {Rule, NoRule, PriorityConstant, ChangefreqConstant}
"""What short forms and absent keys become: no mapping has their names."""


@cache
def validator() -> jsonschema.Draft202012Validator:
    """Return a validator for the schema, which is valid itself."""
    jsonschema.Draft202012Validator.check_schema(schema())
    return jsonschema.Draft202012Validator(schema())


def every_mapping(model: type[Settings] = Settings) -> set[type[Settings]]:
    found = {below for child in model.__subclasses__() for below in every_mapping(child)}
    return found | ({model} if model.__subclasses__() == [] and not issubclass(model, NoRule) else set())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_generated_reference_is_up_to_date(page):
    """If it is not: python -m sitemap_etl.config.reference docs/*/*.md"""
    text = page.read_text(encoding="utf-8")
    assert reference.with_tables(text) == text


def test_the_reference_describes_every_key_once():
    markers = [marker for page in PAGES for marker in MARKER.findall(page.read_text("utf-8"))]
    described = [one for marker in markers for one in reference.described(marker)]
    assert sorted(described) == sorted(
        (name, field.alias or key)
        for name, model in reference.tables().items()
        for key, field in model.model_fields.items()
    )
    assert set(reference.tables().values()) == every_mapping() - NEVER_WRITTEN


def test_every_key_has_a_description():
    for model in reference.tables().values():
        for name, field in model.model_fields.items():
            assert field.description, f"{model.__name__}.{name}"


def test_the_examples_of_the_reference_load(tmp_path):
    blocks = re.findall(r"```yaml\n(site: .*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
    assert blocks
    for block in blocks:
        assert load(written(tmp_path, block), environ={})


@pytest.mark.parametrize("text", [MINIMAL, FULL, "extends: _base.yaml\nkeep: ${KEEP}\nrecent: null\n"])
def test_a_site_file_that_loads_matches_the_schema(tmp_path, text):
    data = reader.read(written(tmp_path, text)).data
    validator().validate(data)


def test_any_value_can_come_from_a_variable(tmp_path):
    """A number, true or false, one of several words, a duration: it loads, and it fits the schema."""
    text = MINIMAL.replace("publish: ./public", "publish: {to: ./public, checksums: '${CHECKSUMS}'}") + (
        "    priority: {depth: '${DEPTH}'}\n    on_error: ${ERROR}\n    formats: ['${FORMAT}']\n"
        "recent: ${RECENT}\nkeep: ${KEEP}\n"
    )
    environ = {"CHECKSUMS": "when_required", "DEPTH": "true", "ERROR": "keep", "FORMAT": "text"}
    path = written(tmp_path, text)
    site = load(path, environ={**environ, "RECENT": "3d", "KEEP": "3"})
    assert (site.keep, site.publish.checksums, site.sections["pages"].on_error) == (3, "when_required", "keep")
    validator().validate(reader.read(path).data)


@pytest.mark.parametrize(
    "wrong",
    [
        "keep: 0\n",
        "keep: no\n",
        "wrok: x\n",
        "recent: 3 days\n",
        "urls: {strip: [traking]}\n",
        "urls: {respect_robots: yes}\n",
        "gates: {max_drop: 2}\n",
        "    priority: 1.5\n",
        "    lastmod: {fingerprnt: [a]}\n",
        "ping: {indexnow: {kee: x}}\n",
    ],
)
def test_a_site_file_that_does_not_load_does_not_match_the_schema(tmp_path, wrong):
    path = written(tmp_path, MINIMAL + wrong)
    with pytest.raises(ConfigError):
        load(path, environ={})
    with pytest.raises(jsonschema.ValidationError):
        validator().validate(reader.read(path).data)


def test_the_schema_requires_keys_unless_there_is_a_base(tmp_path):
    with pytest.raises(jsonschema.ValidationError):
        validator().validate({"site": "https://shop.example"})
