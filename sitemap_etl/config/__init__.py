"""The site file → frozen models: `load` reads one with its bases, `from_json` what a run stored of it.

keys, section_keys, engine_keys    the keys as one writes them: what each takes, its default, its meaning
reader, layers, variables          YAML with positions; bases merged; ${NAME}
resolve, section                   keys → models: defaults, paths, SELECTs, the rules that span keys
models, secret                     the site as a run uses it
folder                             all the site files of a folder
problems, tree, yaml_errors        every mistake in words
"""

from __future__ import annotations

from sitemap_etl.config.address import scope_problem
from sitemap_etl.config.engine_models import Bing, Engine, HttpPing, IndexNow, Ping, SearchConsole, WebSub
from sitemap_etl.config.folder import Folder, read_folder
from sitemap_etl.config.load import from_json, load
from sitemap_etl.config.models import (
    Alternates,
    ChangefreqRule,
    CsvSource,
    DatabaseSource,
    Feed,
    Gates,
    LastmodRule,
    Names,
    News,
    ParquetSource,
    PriorityRule,
    Publish,
    Schedule,
    Section,
    Shards,
    Site,
    Split,
    Urls,
)
from sitemap_etl.config.schema import schema
from sitemap_etl.config.secret import Secret

__all__ = [
    "Alternates",
    "Bing",
    "ChangefreqRule",
    "CsvSource",
    "DatabaseSource",
    "Engine",
    "Feed",
    "Folder",
    "Gates",
    "HttpPing",
    "IndexNow",
    "LastmodRule",
    "Names",
    "News",
    "ParquetSource",
    "Ping",
    "PriorityRule",
    "Publish",
    "Schedule",
    "SearchConsole",
    "Secret",
    "Section",
    "Shards",
    "Site",
    "Split",
    "Urls",
    "WebSub",
    "from_json",
    "load",
    "read_folder",
    "schema",
    "scope_problem",
]
