"""Turn the rows of an export into pages with a SELECT.

Exports of known shop systems have a layout. In other exports, rows that share an address become one page, and fields of
nested rows become columns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from sitemap_etl.arrow import is_list, is_text
from sitemap_etl.dialects import DUCKDB
from sitemap_etl.duckdb_session import opened
from sitemap_etl.runs.init.beginning import Beginning
from sitemap_etl.runs.init.columns import Found
from sitemap_etl.runs.init.layouts import Known, known

_ENVELOPES: Final = 10
"""Maximum number of lines that are envelopes of a list of rows."""
_LEAVES: Final = 200
_FILES: Final = frozenset({"csv", "jsonl", "parquet"})
"""Sources that can have a SELECT over them."""


def as_pages(beginning: Beginning, found: Found, folder: str = "") -> Beginning:
    """Return a known export with its SELECT and its pages, and any other one unchanged.

    `found`: the detected columns. `folder`: the path that all addresses are below.
    """
    if not beginning.source.keys() & _FILES or not beginning.rows.num_rows:
        return beginning
    export = known(beginning.rows.column_names, _further(found), folder)
    export = export or (_repeated(beginning.rows, found) if found.address is not None else _nested(beginning.rows))
    pages = None if export is None else _pages(beginning.rows, export.query)
    if export is None or pages is None:
        return beginning
    notes = export.hints
    if export.system:
        article = "a crawl of" if export.system == "Screaming Frog" else "an export of"
        notes = (f"this is {article} {export.system}: a SELECT makes pages of its rows", *notes)
    source = {**beginning.source, "query": export.query}
    return replace(beginning, source=source, rows=pages, notes=(*beginning.notes, *notes), hints=notes)


def _repeated(rows: pa.Table, found: Found) -> Known | None:
    """Return the SELECT for an export with several rows per page, each with an image. Return None for others."""
    address, images = found.address, found.images
    if address is None or images is None or address.form not in ("url", "path"):
        return None
    if not (is_text(rows.schema.field(images).type) and is_text(rows.schema.field(address.column).type)):
        return None
    pairs = rows.select([address.column, images]).drop_null().group_by([address.column, images]).aggregate([])
    if pairs.num_rows == len(pc.unique(pairs.column(address.column))):
        return None
    loc, image = DUCKDB.quoted(address.column), DUCKDB.quoted(images)
    selected = [f"{loc} AS loc"]
    selected += [] if found.title is None else [f"max({DUCKDB.quoted(found.title)}) AS title"]
    selected.append(f"list(DISTINCT {image} ORDER BY {image}) FILTER (WHERE nullif({image}, '') IS NOT NULL) AS images")
    selected += [f"max({name}) AS {name}" for name in (DUCKDB.quoted(one) for one in _further(found))]
    query = "SELECT\n  " + ",\n  ".join(selected) + f"\nFROM source\nGROUP BY {loc}"
    return Known("", query, ("rows with one address are one page, with the images of all of them",))


def _nested(rows: pa.Table) -> Known | None:
    """Return the SELECT for rows within structs or within one list of structs, or None for others."""
    lists = [entry for entry in rows.schema if is_list(entry.type) and pa.types.is_struct(entry.type.value_type)]
    if lists and rows.num_rows <= _ENVELOPES:
        name = DUCKDB.quoted(lists[0].name)
        entries, origin = [lists[0].with_name("item").with_type(lists[0].type.value_type)], lists[0].name
        table = f"(SELECT unnest({name}) AS item FROM source)"  # noqa: S608 - the column is quoted
    else:
        entries, table = list(rows.schema), "source"
        origin = next((entry.name for entry in entries if pa.types.is_struct(entry.type)), "")
    if not origin:
        return None
    leaves = [leaf for entry in entries for leaf in _leaves(entry)][:_LEAVES]
    last = Counter(names[-1] for names, _ in leaves)
    selected = [
        f"{DUCKDB.quoted(*path)} AS {DUCKDB.quoted(names[-1] if last[names[-1]] == 1 else '_'.join(names))}"
        for names, path in leaves
    ]
    query = "SELECT\n  " + ",\n  ".join(selected) + f"\nFROM {table}"
    return Known("", query, (f"the rows are nested in {origin}: a SELECT makes columns of their fields",))


def _leaves(entry: pa.Field) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Yield the fields without fields of their own: the names that tell them apart, and the path."""
    if not pa.types.is_struct(entry.type):
        yield (entry.name,), (entry.name,)
        return
    for field in entry.type:
        for names, path in _leaves(field):
            # A struct of one field is its value with a type, as DynamoDB writes it.
            yield (
                (entry.name,) if entry.type.num_fields == 1 and len(path) == 1 else (entry.name, *names),
                (
                    entry.name,
                    *path,
                ),
            )


def _further(found: Found) -> list[str]:
    """Return the columns that a rule for lastmod needs."""
    if found.dates is not None:
        return [found.dates.column]
    contents = [name for name in found.contents if name != found.title]
    return list(dict.fromkeys((*found.never, *contents))) if found.never else []


def _pages(rows: pa.Table, query: str) -> pa.Table | None:
    """Return the pages of some rows, or None if the SELECT doesn't fit their types."""
    with opened() as database:
        database.register("source", rows)
        try:
            return database.sql(query).to_arrow_table()
        except duckdb.Error:
            return None
