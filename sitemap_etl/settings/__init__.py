"""Settings of a site: one model for each mapping of a site file.

A model is the only place that states a key, its default, its limits and its meaning. `config` reads files into these
models, and derives the JSON Schema, the tables of the documentation and the messages from them. Validators fill in
short forms and values that depend on other keys. Models are frozen and contain plain values. They read no file, clock
or environment.

site, section, sources, rules, schedule, airflow, engines, notify   the mappings
kinds, address                                             types of values, each with the message for a wrong value
secret, written                                            values by reference; text with its place in the file
"""

from __future__ import annotations

from sitemap_etl.settings.address import scope_problem
from sitemap_etl.settings.airflow import Airflow
from sitemap_etl.settings.engines import Bing, Engine, HttpPing, IndexNow, Ping, SearchConsole, WebSub
from sitemap_etl.settings.kinds import Settings
from sitemap_etl.settings.notify import Notifier, Notify
from sitemap_etl.settings.rules import (
    ChangefreqColumn,
    ChangefreqConstant,
    DefaultRule,
    LastmodColumn,
    LastmodFingerprint,
    LastmodNewestOf,
    NoRule,
    PriorityColumn,
    PriorityConstant,
    PriorityDepth,
    PriorityPercentile,
)
from sitemap_etl.settings.schedule import AssetSchedule, Schedule
from sitemap_etl.settings.secret import Form, Secret, Secretive
from sitemap_etl.settings.section import CONTRACT, Alternates, Feed, Gates, NewPages, News, Section, Shards
from sitemap_etl.settings.site import Names, Publish, Site, Urls
from sitemap_etl.settings.sources import (
    CsvExport,
    CsvFormat,
    CsvSource,
    DatabaseSource,
    DeltaSource,
    Expect,
    Exported,
    ExportSource,
    IcebergSource,
    JsonlExport,
    JsonlSource,
    ParquetExport,
    ParquetSource,
    Select,
    Split,
    TableSource,
)
from sitemap_etl.settings.written import Written, scalar

__all__ = [
    "CONTRACT",
    "Airflow",
    "Alternates",
    "AssetSchedule",
    "Bing",
    "ChangefreqColumn",
    "ChangefreqConstant",
    "CsvExport",
    "CsvFormat",
    "CsvSource",
    "DatabaseSource",
    "DefaultRule",
    "DeltaSource",
    "Engine",
    "Expect",
    "ExportSource",
    "Exported",
    "Feed",
    "Form",
    "Gates",
    "HttpPing",
    "IcebergSource",
    "IndexNow",
    "JsonlExport",
    "JsonlSource",
    "LastmodColumn",
    "LastmodFingerprint",
    "LastmodNewestOf",
    "Names",
    "NewPages",
    "News",
    "NoRule",
    "Notifier",
    "Notify",
    "ParquetExport",
    "ParquetSource",
    "Ping",
    "PriorityColumn",
    "PriorityConstant",
    "PriorityDepth",
    "PriorityPercentile",
    "Publish",
    "Schedule",
    "SearchConsole",
    "Secret",
    "Secretive",
    "Section",
    "Select",
    "Settings",
    "Shards",
    "Site",
    "Split",
    "TableSource",
    "Urls",
    "WebSub",
    "Written",
    "scalar",
    "scope_problem",
]
