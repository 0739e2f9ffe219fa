"""The settings of a site: one model for each mapping of a site file, as it is written and as a run uses it.

Here alone stand a key, its default, its limits and its meaning; `config` reads files into these models, and the JSON
Schema, the tables of the documentation and the messages off them. Short forms, and what follows from other keys, are
filled in while a model is made. Frozen, and made of plain values; no file, clock or environment is read.

site, section, sources, rules, schedule, airflow, engines, notify   the mappings
kinds, address                                     the kinds of their values, each with what is said of another
secret, written                                    values by reference; text as the file has it
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
from sitemap_etl.settings.section import Alternates, Feed, Gates, NewPages, News, Section, Shards
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
