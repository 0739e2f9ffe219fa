"""A secret is known by where it is to be found; only the stage that uses it sees it."""

from __future__ import annotations

import json
import pickle

import pytest

from sitemap_etl.config import Secret, from_json, load
from sitemap_etl.config.keys import SiteKeys
from sitemap_etl.config.tree import secret_paths
from sitemap_etl.errors import ConfigError
from tests.site_files import FULL, MINIMAL, loaded, problems, written

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


def test_a_file_loads_where_its_secrets_are_absent_and_holds_templates(tmp_path):
    site = loaded(tmp_path, FULL)
    assert site.ping.indexnow
    assert site.to_json()["ping"]["indexnow"]["key"] == "${INDEXNOW_KEY}"
    assert site.ping.indexnow.settings({"INDEXNOW_KEY": "abc "}) == {
        "key": "abc",
        "endpoint": "https://api.indexnow.org/indexnow",
        "daily_limit": 5000,
        "max_share": 0.2,
    }


def test_an_unset_secret_is_told_by_the_stage_that_uses_it(tmp_path):
    site = loaded(tmp_path, FULL)
    assert site.ping.bing
    with pytest.raises(ConfigError, match="BING_KEY is not set"):
        site.ping.bing.settings({})
    with pytest.raises(ConfigError, match="is empty"):
        site.ping.bing.settings({"BING_KEY": " "})


def test_a_secret_that_is_written_out_is_in_nothing_that_is_stored_or_shown(tmp_path):
    path = written(tmp_path, MINIMAL + LITERALS)
    site = load(path, environ={"PART": "from-the-environment"})
    held = json.dumps(site.to_json()) + repr(site) + str(site) + repr(pickle.dumps(site))
    assert "literal" not in held
    assert "from-the-environment" not in held
    assert site.to_json()["ping"]["bing"]["key"] == {"file": str(path), "key": "ping.bing.key"}


def test_a_secret_that_is_written_out_is_read_again_by_a_later_stage(tmp_path):
    path = written(tmp_path, MINIMAL + LITERALS)
    ping = from_json(json.loads(json.dumps(load(path, environ={}).to_json()))).ping
    environ = {"PART": "part"}
    found = {name: engine.settings(environ) for name, engine in ping.engines().items()}
    assert found["indexnow"]["key"] == "0123456789abcdef-literal"
    assert found["bing"]["key"] == "bing-literal"
    assert found["search_console"]["key"] == "console-literal-part"
    assert found["websub"]["password"] == "hub-literal"
    assert found["websub"]["hub"] == ["https://hub.example/"]
    assert found["http_ping"]["url"] == [
        "https://one.example/ping?token=url-literal&sitemap={sitemap}",
        "https://two.example/ping?token=part-literal&sitemap={sitemap}",
    ]
    path.write_text(MINIMAL)
    with pytest.raises(ConfigError, match=r"ping\.bing\.key: the secret that was written here .* is gone"):
        ping.engines()["bing"].settings(environ)


def test_a_secret_in_a_base_is_read_from_the_base(tmp_path):
    base = written(tmp_path, "ping: {bing: {key: in-the-base}}\n", "_base.yaml")
    site = loaded(tmp_path, "extends: _base.yaml\n" + MINIMAL)
    assert site.ping.bing
    assert site.ping.bing.key == Secret(file=str(base), key="ping.bing.key")
    assert site.ping.bing.settings({})["key"] == "in-the-base"


def test_one_address_stands_for_a_list_of_it(tmp_path):
    site = loaded(tmp_path, MINIMAL + "ping: {http_ping: {url: 'https://e.example/?k=literal&u={sitemap}'}}\n")
    assert site.ping.http_ping
    assert site.ping.http_ping.settings({})["url"] == ["https://e.example/?k=literal&u={sitemap}"]


@pytest.mark.parametrize(
    "lines",
    [
        "ping: {bing: {key: [hunter2]}}",
        "ping: {bing: {key: {a: hunter2}}}",
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
def test_no_mistake_shows_a_secret(tmp_path, lines):
    assert "hunter2" not in "\n".join(problems(tmp_path, MINIMAL.removeprefix("site: https://shop.example\n") + lines))


def test_every_key_of_a_secret_is_known():
    assert {".".join(map(str, path)) for path in secret_paths(SiteKeys)} == {
        "ping.indexnow.key",
        "ping.search_console.key",
        "ping.bing.key",
        "ping.websub.password",
        "ping.http_ping.url",
        "ping.http_ping.password",
    }
