"""The tables of docs/site-file.md, made from the keys.

python -m sitemap_etl.config.reference docs/site-file.md      puts them in, between their markers
"""

from __future__ import annotations

import functools
import re
import sys
from pathlib import Path
from typing import Any, Final

from pydantic_core import PydanticUndefined

from sitemap_etl.config import engine_keys, keys, rule_keys, section_keys, source_keys, tree
from sitemap_etl.config.kinds import Keys
from sitemap_etl.config.schema import VARIABLE, schema

TABLES: Final[dict[str, type[Keys]]] = {
    "site": keys.SiteKeys,
    "schedule": keys.ScheduleKeys,
    "publish": keys.PublishKeys,
    "publish.names": keys.NamesKeys,
    "urls": keys.UrlsKeys,
    "sections": section_keys.SectionKeys,
    "from database": source_keys.DatabaseKeys,
    "split": source_keys.SplitKeys,
    "from csv": source_keys.CsvKeys,
    "from parquet": source_keys.ParquetKeys,
    "lastmod column": rule_keys.LastmodColumn,
    "lastmod newest_of": rule_keys.LastmodNewestOf,
    "lastmod fingerprint": rule_keys.LastmodFingerprint,
    "priority column": rule_keys.PriorityColumn,
    "priority percentile_of": rule_keys.PriorityPercentile,
    "priority depth": rule_keys.PriorityDepth,
    "changefreq column": rule_keys.ChangefreqColumn,
    "alternates": section_keys.AlternatesKeys,
    "news": section_keys.NewsKeys,
    "feed": section_keys.FeedKeys,
    "shards": section_keys.ShardsKeys,
    "gates": section_keys.GatesKeys,
    "ping": engine_keys.PingKeys,
    "ping.indexnow": engine_keys.IndexNowKeys,
    "ping.search_console": engine_keys.SearchConsoleKeys,
    "ping.bing": engine_keys.BingKeys,
    "ping.websub": engine_keys.WebSubKeys,
    "ping.http_ping": engine_keys.HttpPingKeys,
}
"""Every mapping of a site file, by the name of its marker in the text."""

_MARKED = re.compile(r"(<!-- keys: ([^>]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def table(model: type[Keys]) -> str:
    """A Markdown table: one row a key."""
    described = _described()
    name = model.__name__.removesuffix("Keys")
    nodes = described["properties"] if model is keys.SiteKeys else described["$defs"][name]["properties"]
    rows = ["| key | takes | default | |", "|---|---|---|---|"]
    for field_name, field in sorted(model.model_fields.items(), key=lambda item: not item[1].is_required()):
        key = field.alias or field_name
        takes = "secret" if tree.is_secret(field) else _takes(nodes[key])
        cells = (f"`{key}`", takes, _default(field), field.description or "")
        rows.append("| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |")
    return "\n".join(rows) + "\n"


@functools.cache
def _described() -> dict[str, Any]:
    return schema()


def with_tables(text: str) -> str:
    """The text with each table put in between its markers. KeyError for a marker without a mapping."""
    return _MARKED.sub(lambda match: match[1] + table(TABLES[match[2]]) + match[3], text)


def _default(field: Any) -> str:
    if field.is_required():
        return "**needed**"
    value = field.get_default(call_default_factory=True)
    if value is None or value is PydanticUndefined or isinstance(value, Keys) or value in ([], {}):
        return ""
    return f"`{str(value).lower() if isinstance(value, bool) else value}`".replace("'", "")


def _takes(node: dict[str, Any]) -> str:
    """A node of the schema in a few words."""
    kind = str(node.get("type"))
    if "anyOf" in node:
        forms = [form for form in node["anyOf"] if form.get("type") != "null" and form.get("pattern") != VARIABLE]
        said = ", ".join(dict.fromkeys(map(_takes, forms)))
    elif "enum" in node or "const" in node:
        said = " ".join(f"`{str(word).lower()}`" for word in node.get("enum", [node.get("const")]))
    elif kind == "array":
        said = f"list of {_takes(node['items'])}" if "enum" in node["items"] else "list"
    elif kind in ("integer", "number"):
        said = _range(node)
    elif kind == "string":
        said = "duration" if "pattern" in node else "text"
    else:
        said = "`true` `false`" if kind == "boolean" else "mapping"
    return said


def _range(node: dict[str, Any]) -> str:
    low = node.get("minimum", node.get("exclusiveMinimum"))
    high = node.get("maximum")
    name = "whole number" if node["type"] == "integer" else "number"
    if low is not None and high is not None:
        return f"{name}, {low} to {high}"
    return f"{name}, {low} or more" if low is not None else name


if __name__ == "__main__":
    for file in map(Path, sys.argv[1:]):
        file.write_text(with_tables(file.read_text(encoding="utf-8")), encoding="utf-8")
