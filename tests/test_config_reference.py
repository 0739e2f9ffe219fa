"""The documents of the site file say what the keys say."""

from __future__ import annotations

import re
from pathlib import Path

import jsonschema
import pytest

from sitemap_etl.config import load, reader, reference, schema
from sitemap_etl.config.kinds import Keys
from sitemap_etl.engines import ENGINES
from sitemap_etl.errors import ConfigError
from tests.site_files import FULL, MINIMAL, written

DOCUMENT = Path(__file__).parent.parent / "docs" / "site-file.md"


def every_mapping(model: type[Keys] = Keys) -> set[type[Keys]]:
    found = {below for child in model.__subclasses__() for below in every_mapping(child)}
    return found | ({model} if not model.__name__.startswith("_") and model is not Keys else set())


def test_the_reference_is_in_step_with_the_keys():
    """If it is not: python -m sitemap_etl.config.reference docs/site-file.md"""
    text = DOCUMENT.read_text(encoding="utf-8")
    assert reference.with_tables(text) == text


def test_the_reference_has_every_mapping():
    text = DOCUMENT.read_text(encoding="utf-8")
    assert set(re.findall(r"<!-- keys: ([^>]+) -->", text)) == set(reference.TABLES)
    assert set(reference.TABLES.values()) == every_mapping()


def test_every_key_says_what_it_is_for():
    for model in every_mapping():
        for name, field in model.model_fields.items():
            assert field.description, f"{model.__name__}.{name}"


def test_the_examples_of_the_document_load(tmp_path):
    blocks = re.findall(r"```yaml\n(site: .*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
    assert blocks
    for block in blocks:
        assert load(written(tmp_path, block), environ={})


@pytest.mark.parametrize("text", [MINIMAL, FULL, "extends: _base.yaml\nkeep: ${KEEP}\nrecent: null\n"])
def test_what_loads_fits_the_schema(tmp_path, text):
    jsonschema.Draft202012Validator.check_schema(schema())
    data = reader.read(written(tmp_path, text)).data
    jsonschema.validate(data, schema(), cls=jsonschema.Draft202012Validator)


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
def test_what_does_not_load_does_not_fit_the_schema(tmp_path, wrong):
    path = written(tmp_path, MINIMAL + wrong)
    with pytest.raises(ConfigError):
        load(path, environ={})
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(reader.read(path).data, schema(), cls=jsonschema.Draft202012Validator)


def test_the_schema_asks_for_what_is_needed_unless_a_base_may_have_it(tmp_path):
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"site": "https://shop.example"}, schema(), cls=jsonschema.Draft202012Validator)


@pytest.mark.parametrize("name", sorted(ENGINES))
def test_an_engine_takes_the_keys_that_the_site_file_takes(name):
    """The two may not import each other, so this holds them together."""
    own = reference.TABLES[f"ping.{name}"].model_fields
    theirs = ENGINES[name].model_fields
    assert set(own) == set(theirs)
    for key, field in own.items():
        default = field.get_default(call_default_factory=True)
        if default is not None and not field.is_required():
            assert default == theirs[key].default, key
