"""A person's own code over the rows: `where:` in SQL, `transform:` in Python, held to their contracts."""

from __future__ import annotations

import re
import traceback
from functools import lru_cache
from typing import Any, Final

import numpy as np
import pyarrow as pa

from sitemap_etl.arrow import is_text, mask_of
from sitemap_etl.errors import InvalidSource, columns_in_words
from sitemap_etl.frames import to_frame, to_table
from sitemap_etl.transform.batch import Batch
from sitemap_etl.transform.rules import Rules


def is_repeatable(rules: Rules) -> bool:
    """Return True if a person's own code makes the same of the same rows on every run. A hook can do anything."""
    if rules.hook is not None or rules.settings.where is None:
        return rules.hook is None
    from sitemap_etl.duckdb_session import names_the_time

    return not names_the_time(rules.settings.where)


def where_mask(table: pa.Table, rules: Rules) -> np.ndarray:
    """Return the mask of the rows for which the predicate is true; null is false."""
    import duckdb

    from sitemap_etl.duckdb_session import ambiguous_names, distinct_schema, labelled, opened

    where = rules.settings.where
    sql = f"SELECT coalesce(({where}\n), false) AS keep FROM batch"  # noqa: S608 - the person who writes the site file writes SQL
    with opened() as database:
        database.execute("SET preserve_insertion_order = true")  # the mask is laid over the table
        try:
            comparable = _comparable(table)
            schema = distinct_schema(comparable.schema)
            batches = [labelled(batch, schema) for batch in comparable.to_batches()]
            database.register("batch", pa.Table.from_batches(batches, schema))
            predicate = database.sql(sql)
            why = _beyond_a_row(sql)
            if why is not None:
                raise InvalidSource(
                    f"section {rules.section}: where: {where!r}: {why}, and `where` sees each row by itself. Compare "
                    "rows in the SELECT of the source: an export has one with `query` or `sql`"
                )
            mask = predicate.to_arrow_table()
        except duckdb.Error as error:
            twins = ambiguous_names(error, table.schema)
            if twins is not None:
                raise InvalidSource(
                    f"section {rules.section}: where: {where!r} names a column that is not the only one: {twins}. "
                    "Rename one of them in the source"
                ) from error
            raise InvalidSource(
                f"section {rules.section}: where: {where!r} can't be evaluated: {_words(error)}. "
                f"The columns are: {columns_in_words(table.column_names)}"
            ) from error
    column = mask.column("keep")
    if not pa.types.is_boolean(column.type):
        raise InvalidSource(
            f"section {rules.section}: where: {where!r} must be true or false, but its type is {column.type}"
        )
    return mask_of(column)


@lru_cache
def _beyond_a_row(sql: str) -> str | None:
    """Return the part of a SELECT over a batch that looks beyond one row, computed once for all batches."""
    from sitemap_etl.duckdb_session import beyond_a_row, opened, parsed

    with opened() as database:
        return beyond_a_row(database, parsed(database, sql), "batch")


def _comparable(table: pa.Table) -> pa.Table:
    """Return the table with numbers in place of those that DuckDB has no type for: more than 38 digits, half floats."""
    for at, entry in enumerate(table.schema):
        if pa.types.is_decimal256(entry.type) or pa.types.is_float16(entry.type):
            table = table.set_column(at, entry.name, table.column(at).cast(pa.float64()))
    return table


_NO_COLUMN: Final = re.compile(r'Referenced column "([^"]+)" not found')
_KIND: Final = re.compile(r"^[A-Z]\w+ Error: ")


def _words(error: Exception) -> str:
    """Return DuckDB's message about a predicate, without the generated query around it."""
    first = str(error).splitlines()[0].rstrip("!. ")
    missing = _NO_COLUMN.search(first)
    return f"there is no column {missing[1]!r}" if missing else _KIND.sub("", first)


def _where(error: BaseException, hook: Any) -> str:
    """Return the line of the person's file at which a hook raised; None if that is not known."""
    own = getattr(getattr(hook, "__code__", None), "co_filename", None)
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == own]
    return f" ({own.rpartition('/')[2]} line {lines[-1]})" if own and lines else ""


def run_hook(batch: Batch, rules: Rules) -> None:
    """Apply the person's DataFrame → DataFrame function to the rows of a batch, and check its result.

    It is not called without rows. Without rows in its result, all rows of the batch are excluded, whatever columns the
    result has. Raise `InvalidSource` if the function breaks its contract.
    """
    assert rules.hook is not None
    if not batch.table.num_rows:
        return
    name = rules.settings.transform
    who = f"section {rules.section}: transform {name}"
    frame = to_frame(batch.table)
    numbers = np.arange(1, len(frame) + 1)
    frame.index = frame.index + 1
    frame.index.name = "row"
    try:
        result = rules.hook(frame)
    except (Exception, SystemExit) as error:
        raise InvalidSource(f"{who} raised {type(error).__name__}: {error}{_where(error, rules.hook)}") from error
    import pandas as pd

    if not isinstance(result, pd.DataFrame):
        raise InvalidSource(f"{who} returned {type(result).__name__}, expected a DataFrame")
    if len(result) == 0:
        batch.drop(np.ones(len(numbers), bool), f"transform {name}", batch.excluded)
        return
    if not result.index.is_unique or not result.index.isin(numbers).all():
        raise InvalidSource(
            f"{who} returned rows that it did not get: a hook may change and drop rows, but not add any, and must keep "
            "the index ('row') unchanged (no reset_index, no concat with other frames)"
        )
    if "loc" not in result.columns:
        raise InvalidSource(
            f"{who} dropped the column 'loc', which every row needs. It returned: "
            f"{columns_in_words(list(result.columns))}"
        )
    repeated = result.columns[result.columns.duplicated()].tolist()
    if repeated:
        raise InvalidSource(f"{who} returned the column {str(repeated[0])!r} more than once")
    kept = result.index.to_numpy().astype(np.int64) - 1
    dropped = np.ones(len(numbers), bool)
    dropped[kept] = False
    order = np.argsort(kept, kind="stable")
    try:
        table = to_table(result.iloc[order])
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        raise InvalidSource(f"{who} returned a column with values of several types: {error}") from error
    except OverflowError as error:
        raise InvalidSource(f"{who} returned a column with whole numbers of more than 64 bits: {error}") from error
    at = table.schema.get_field_index("loc")
    if pa.types.is_null(table.column(at).type):
        table = table.set_column(at, "loc", table.column(at).cast(pa.string()))
    if not is_text(table.column(at).type) and table.num_rows:
        raise InvalidSource(f"{who} returned the column 'loc' as {table.column('loc').type}, expected text")
    batch.drop(dropped, f"transform {name}", batch.excluded)
    batch.table = table
