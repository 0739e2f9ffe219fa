"""A secret is stored as its location; only the stage that uses it reads it."""

from __future__ import annotations

import json
import pickle
import sqlite3
from dataclasses import replace

import pytest
from pydantic_core import PydanticSerializationError

from sitemap_etl.config import from_json, load, parameters, revealed
from sitemap_etl.config.tree import later_paths, secret_paths
from sitemap_etl.errors import ConfigError
from sitemap_etl.settings import DatabaseSource, Engine, Secret, Site
from tests.site_files import FULL, MINIMAL, loaded, problems, written
from tests.support.sites import TestSite

LITERALS = """\
ping:
  indexnow: {key: 0123456789abcdef-literal}
  bing: {key: bing-literal}
  search_console: {property: sc-domain:shop.example, key: "console-literal-${PART}"}
  websub: {hub: https://hub.example/, login: me, password: hub-literal}
  http_ping:
    url:
      - https://one.example/ping?token=url-literal&sitemap={sitemap}
      - https://two.example/ping?token=${PART}-literal&sitemap={sitemap}
"""


def texts(engine: Engine) -> dict[str, list[str]]:
    """Return the secrets of an engine after they were read."""
    return {key: [secret.text for secret in secrets] for key, secrets in engine.secrets().items()}


def test_a_site_file_loads_without_its_secrets(tmp_path):
    site = loaded(tmp_path, FULL)
    assert site.ping.indexnow
    assert site.to_json()["ping"]["indexnow"]["key"] == "${INDEXNOW_KEY}"
    engine = revealed("ping.indexnow", site.ping.indexnow, {"INDEXNOW_KEY": "abcdefgh "})
    assert texts(engine) == {"key": ["abcdefgh"]}
    assert engine.model_copy(update={"key": site.ping.indexnow.key}) == site.ping.indexnow


def test_an_unset_secret_is_reported_by_the_stage_that_needs_it(tmp_path):
    site = loaded(tmp_path, FULL)
    assert site.ping.bing
    with pytest.raises(ConfigError, match=r"ping\.bing\.key: the environment variable BING_KEY is not set"):
        revealed("ping.bing", site.ping.bing, {})
    with pytest.raises(ConfigError, match=r"ping\.bing\.key: the secret is empty"):
        revealed("ping.bing", site.ping.bing, {"BING_KEY": " "})


def test_a_secret_written_into_the_site_file_is_never_stored_or_shown(tmp_path):
    path = written(tmp_path, MINIMAL + LITERALS)
    site = load(path, environ={"PART": "from-the-environment"})
    held = json.dumps(site.to_json()) + repr(site) + str(site) + repr(pickle.dumps(site))
    assert "literal" not in held
    assert "from-the-environment" not in held
    assert site.to_json()["ping"]["bing"]["key"] == {"file": str(path), "key": "ping.bing.key"}


def test_a_literal_secret_is_read_again_by_a_later_stage(tmp_path):
    path = written(tmp_path, MINIMAL + LITERALS)
    ping = from_json(json.loads(json.dumps(load(path, environ={}).to_json()))).ping
    environ = {"PART": "part"}
    assert {name: texts(revealed(f"ping.{name}", engine, environ)) for name, engine in ping.engines().items()} == {
        "indexnow": {"key": ["0123456789abcdef-literal"]},
        "bing": {"key": ["bing-literal"]},
        "search_console": {"key": ["console-literal-part"]},
        "websub": {"password": ["hub-literal"]},
        "http_ping": {
            "url": [
                "https://one.example/ping?token=url-literal&sitemap={sitemap}",
                "https://two.example/ping?token=part-literal&sitemap={sitemap}",
            ]
        },
    }
    path.write_text(MINIMAL)
    with pytest.raises(ConfigError, match=r"ping\.bing\.key: .* no longer contains the secret"):
        revealed("ping.bing", ping.engines()["bing"], environ)


def test_a_literal_secret_in_a_base_is_read_from_the_base(tmp_path):
    base = written(tmp_path, "ping: {bing: {key: in-the-base}}\n", "_base.yaml")
    site = loaded(tmp_path, "extends: _base.yaml\n" + MINIMAL)
    assert site.ping.bing
    assert site.ping.bing.key == Secret(file=str(base), key="ping.bing.key")
    assert texts(revealed("ping.bing", site.ping.bing, {})) == {"key": ["in-the-base"]}


def test_a_single_ping_address_is_read_as_a_list(tmp_path):
    site = loaded(tmp_path, MINIMAL + "ping: {http_ping: {url: 'https://e.example/?k=literal&u={sitemap}'}}\n")
    assert site.ping.http_ping
    assert texts(revealed("ping.http_ping", site.ping.http_ping, {})) == {
        "url": ["https://e.example/?k=literal&u={sitemap}"]
    }


def test_revealed_secrets_have_no_repr_and_cannot_be_stored(tmp_path):
    site = loaded(tmp_path, FULL)
    assert site.ping.bing
    engine = revealed("ping.bing", site.ping.bing, {"BING_KEY": "hunter2"})
    assert "hunter2" not in f"{engine!r} {engine}"
    with pytest.raises(PydanticSerializationError):
        engine.model_dump_json()


SHELLS = [
    # the secret as the site file has it, the environment, the secret
    ("'${KEY}'", {"KEY": "abc${HOME}def", "HOME": "/root"}, "abc${HOME}def"),
    ("'${KEY:-dflt}'", {}, "dflt"),
    ("'${KEY:-dflt}'", {"KEY": ""}, "dflt"),
    ("'abc$${HOME}def'", {"HOME": "/root"}, "abc${HOME}def"),
    ("'${A}${B}'", {"A": "$", "B": "{HOME}", "HOME": "/root"}, "${HOME}"),
    ("'$${KEY:-${KEY}}'", {"KEY": "x"}, "${KEY:-x}"),
    ("p$a$$ss", {}, "p$a$$ss"),
]


@pytest.mark.parametrize(("written_as", "environ", "secret"), SHELLS)
def test_variables_are_substituted_once_and_alike_everywhere(tmp_path, written_as, environ, secret):
    text = MINIMAL + f"ping: {{bing: {{key: {written_as}}}}}\n"
    text = text.replace("{csv: exports/pages.csv}", f"{{database: c, query: q, params: {{x: {written_as}}}}}")
    for site in (loaded(tmp_path, text), from_json(json.loads(json.dumps(loaded(tmp_path, text).to_json())))):
        assert site.ping.bing
        assert texts(revealed("ping.bing", site.ping.bing, environ)) == {"key": [secret]}
        assert parameters(site.sections["pages"].source, environ) == {"x": secret}
    publish = f"publish: {{to: p, cache_control: {written_as}}}"
    assert loaded(tmp_path, MINIMAL.replace("publish: ./public", publish), environ).publish.cache_control == secret


def test_a_variable_in_a_parameter_is_read_by_the_stage_that_binds_it(tmp_path):
    text = MINIMAL.replace(
        "{csv: exports/pages.csv}", "{database: c, query: q, params: {token: 'Bearer ${TOKEN}', lang: en, least: 3}}"
    )
    site = loaded(tmp_path, text, {"TOKEN": "hunter2"})
    assert "hunter2" not in json.dumps(site.to_json()) + repr(site) + repr(pickle.dumps(site))
    source = from_json(json.loads(json.dumps(site.to_json()))).sections["pages"].source
    assert isinstance(source, DatabaseSource)
    assert parameters(source, {"TOKEN": "hunter2"}) == {"token": "Bearer hunter2", "lang": "en", "least": 3}
    with pytest.raises(ConfigError, match=r"params\.token: the environment variable TOKEN is not set"):
        parameters(source, {})


@pytest.mark.parametrize(
    "lines",
    [
        "ping: {bing: {key: [hunter2]}}",
        "ping: {bing: {key: {a: hunter2}}}",
        "ping: {bing: {key: {}}}",
        "ping: {bing: {key: {file: hunter2, key: hunter2}}}",
        "ping: {bing: {key: {file: 1, key: 2}}}",
        "ping: {bing: hunter2}",
        "ping: hunter2",
        "ping: {bing: {key: '${hunter2'}}",
        "ping: {bing: {key: hunter2, connection: c}}",
        "ping: {bing: {kee: hunter2}}",
        "ping: {indexnow: {key: hunter2}}",
        "ping: {http_ping: {url: hunter2}}",
        "ping: {http_ping: {url: [{a: hunter2}]}}",
        "ping: {websub: {hub: 'x://u:hunter2@h/'}}",
        "ping: {bing: {key: *hunter2}}",
        "ping: {bing: {key: 'hunter2\\'}}",
        'ping: {bing: {key: "hunter2\\d"}}',
        "ping: {bing: {key: @hunter2}}",
        "site: https://u:hunter2@shop.example",
    ],
)
def test_no_error_message_shows_a_secret(tmp_path, lines):
    assert "hunter2" not in "\n".join(problems(tmp_path, MINIMAL.removeprefix("site: https://shop.example\n") + lines))


def test_every_key_that_can_hold_a_secret_is_marked():
    assert {".".join(map(str, path)) for path in later_paths(Site) - secret_paths(Site)} == {
        "sections.*.from.params.*",
        "notify.airflow.*.args.*",
    }
    assert {".".join(map(str, path)) for path in secret_paths(Site)} == {
        "ping.indexnow.key",
        "ping.search_console.key",
        "ping.bing.key",
        "ping.websub.password",
        "ping.http_ping.url",
        "ping.http_ping.password",
        "notify.webhook",
        "notify.slack",
        "notify.healthcheck",
    }


def test_a_secret_parameter_is_in_no_file_of_a_run(tmp_path):
    site = TestSite(tmp_path)
    with sqlite3.connect(tmp_path / "shop.db") as database:
        database.execute("CREATE TABLE pages AS SELECT '/a' AS loc, 'hunter2-token' AS token UNION SELECT '/b', 'no'")
    environ = {"AIRFLOW_CONN_C": f"sqlite:///{tmp_path / 'shop.db'}", "TOKEN": "hunter2-token"}
    site.environment = replace(site.environment, environ=environ)
    query = "SELECT loc FROM pages WHERE token = :token"
    site.section("pages", **{"from": {"database": "c", "query": query, "params": {"token": "${TOKEN}"}}})
    site.night(1, dry_run=True)
    site.night(2)
    assert site.public().locs() == ["https://shop.example/a"]
    left = {path: path.read_bytes() for path in (tmp_path / "work").rglob("*") if path.is_file()}
    assert any(b"${TOKEN}" in data for data in left.values())
    assert not [path for path, data in left.items() if b"hunter2-token" in data]
