"""SELECTs that treat each row separately, so that they work on a part of a table's rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import pyarrow as pa

from sitemap_etl.duckdb_session import beyond_a_row, distinct_schema, parsed, restored_schema
from sitemap_etl.errors import InvalidSource
from sitemap_etl.settings.sources import SOURCE
from sitemap_etl.sources.batches import plain_schema
from sitemap_etl.sources.files.query import Rows, attempt, bound_select, in_memory, selected
from sitemap_etl.sources.parameters import Value, bind


class RowSelect:
    """A SELECT that treats each row separately, so that its result over some rows is a part of its result over all
    rows.

    `columns`: columns of the table that it uses. `schema`: columns of its result. Raise InvalidSource for other
    SELECTs.
    """

    def __init__(self, sql: str, source: pa.Schema, label: str, params: Mapping[str, Value] | None = None) -> None:
        """Prepare the SELECT. `source`: columns of the table. `params`: parameters of the SELECT."""
        self._sql = sql
        self._label = label
        self._params = params or {}
        with in_memory(label, None) as database:
            database.register("source", distinct_schema(source).empty_table())
            relation = attempt(lambda: bound_select(database, sql, self._params, label), label, schemas=[source])
            found = attempt(lambda: relation.limit(0).to_arrow_table(), label).schema
            text, _ = bind(sql, self._params, "duckdb", lambda name: f"${name}", label=label)
            parts = parsed(database, text)
            why = beyond_a_row(database, parts, SOURCE)
        if why is not None:
            raise InvalidSource(
                f"{label}: {why}: a SELECT over a table sees each row by itself, also where only changed rows are "
                "read. Leave it out, or make a table of its result where the table is written"
            )
        self.schema = plain_schema(restored_schema(found), label=label)
        named = {str(name).casefold() for part in parts for name in part.get("column_names") or ()}
        every = any(part.get("class") == "STAR" for part in parts)
        self.columns = [name for name in source.names if every or name.casefold() in named] or source.names[:1]

    def apply(self, source: pa.Schema, rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the result for these rows, which have `columns`. Raise InvalidSource, and errors of reading them."""
        table = Rows(source, lambda: iter(rows))
        yield from selected(self._sql, {"source": table}, self._params, self._label)
