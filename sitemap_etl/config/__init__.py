"""Site files. `load` reads one with its bases into settings, `from_json` reads the settings that a run stored.

reader, layers, variables          YAML with positions; merged bases; `${NAME}`
load, conflicts                    settings from files and from stored runs, with all mistakes reported at once
problems, tree, yaml_errors        messages for mistakes
secrets                            values that are read by the stage that uses them
folder                             all site files of a folder
schema, reference                  the JSON Schema; the tables of the documentation
"""

from __future__ import annotations

from sitemap_etl.config.folder import Folder, find_site, read_folder
from sitemap_etl.config.load import from_json, load
from sitemap_etl.config.schema import schema
from sitemap_etl.config.secrets import filled, parameters, revealed
from sitemap_etl.settings import DatabaseSource, Engine, ExportSource, Notify, Section, Select, Site, TableSource

__all__ = [
    "DatabaseSource",
    "Engine",
    "ExportSource",
    "Folder",
    "Notify",
    "Section",
    "Select",
    "Site",
    "TableSource",
    "filled",
    "find_site",
    "from_json",
    "load",
    "parameters",
    "read_folder",
    "revealed",
    "schema",
]
