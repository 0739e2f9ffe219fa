"""Site files: `load` reads one with its bases into the settings of a site, `from_json` what a run stored of it.

reader, layers, variables          YAML with positions; bases merged; `${NAME}`
load, conflicts                    the settings of all that, with all mistakes reported at once; what a run stored
problems, tree, yaml_errors        the mistakes in words
secrets                            what is read by the stage that uses it
folder                             all the site files of a folder
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
