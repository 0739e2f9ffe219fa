"""A section of a site file, proposed from the columns of its first rows."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow.compute as pc
import pyarrow.types as pt

from sitemap_etl.arrow import is_text
from sitemap_etl.frozen import Frozen
from sitemap_etl.runs.init.beginning import Beginning
from sitemap_etl.runs.init.columns import Address, Found
from sitemap_etl.runs.init.lastmod_rule import lastmod_lines
from sitemap_etl.runs.init.text import block, flow, line, listed, one_line, scalar, shown, written
from sitemap_etl.sources.databases.catalog import LIMITED
from sitemap_etl.sources.parameters import quoted

_KEYED: Final = frozenset({"database", "delta", "iceberg"})
"""Sources that can have a key."""
_TRUE: Final = frozenset({"1", "t", "true", "y", "yes"})
_FALSE: Final = frozenset({"0", "f", "false", "n", "no"})
"""Words that DuckDB reads as booleans, in any case."""
_SCHEME: Final = "https://"
_SLASH: Final = "'/'"
_SPLIT_ROWS: Final = 500_000
"""Target rows per proposed split."""
_PARTS: Final = (2, 64)
_UNKNOWN_PARTS: Final = 8


class Proposal(Frozen):
    """The lines of a section of a site file, and notes on its guesses."""

    lines: tuple[str, ...]
    notes: tuple[str, ...]


def propose(name: str, beginning: Beginning, found: Found, folder: str = "") -> Proposal:
    """Propose the section of this name. `found`: its detected columns. `folder`: the path that the site is below."""
    section = _Section(beginning, found, folder)
    lines = tuple(section.lines(name))
    return Proposal(lines, tuple(section.notes))


class _Section:
    """Builder of a section, which collects `notes`."""

    def __init__(self, beginning: Beginning, found: Found, folder: str) -> None:
        self.beginning = beginning
        self.found = found
        self.prefix = _prefix(beginning.rows, found.address, folder)
        self.notes: list[str] = list(beginning.notes)
        self.is_database = "database" in beginning.source
        self.has_flag = not self.is_database and _is_flag(beginning.rows, "exclude")
        self._names: dict[str, str] = {}  # column of the source → its name in the SELECT

    def lines(self, name: str) -> Iterator[str]:
        """Yield the lines of the section."""
        yield f"  {name}:"
        if self.is_database:
            yield from self._database()
        elif "query" not in self.beginning.source and (self.has_flag or self.prefix):
            yield from self._from_query({**self.beginning.source, "query": self._select_from_export()})
            if self.has_flag:
                said = "any text in `exclude` excludes a row, also false and 0: the SELECT makes it true or false"
                self.notes.append(said)
                yield one_line(f"    # {said}")
        elif "query" in self.beginning.source:
            yield from (one_line(f"    # {hint}") for hint in self.beginning.hints)
            yield from self._from_query(self.beginning.source)
        else:
            said = "null: words for a missing value" if "null" in self.beginning.source else ""
            yield line(f"    from: {flow(self.beginning.source)}", said)
        yield from self._columns()
        yield from lastmod_lines(self.beginning, self.found, self._renamed, self.notes)
        yield from self._comments()

    @staticmethod
    def _from_query(source: Mapping[str, Any]) -> Iterator[str]:
        """Yield `from:` with a SELECT."""
        yield "    from:"
        for key, value in source.items():
            yield f"      {scalar(key)}: {block(value, 8) if key == 'query' else written(value)}"

    def _database(self) -> Iterator[str]:
        selected = self._select_from_table()
        yield "    from:"
        yield f"      database: {scalar(self.beginning.source['database'])}"
        unique = self.beginning.indexes.unique
        if unique:
            yield line(f"      key: {scalar(self._called(unique[0]))}", "the column that identifies a row")
        split = self._split_column()
        if split is not None:
            parts = _UNKNOWN_PARTS
            if self.beginning.about is not None:
                parts = min(max(math.ceil(self.beginning.about / _SPLIT_ROWS), _PARTS[0]), _PARTS[1])
            mapping = flow({"column": self._called(split), "parts": parts})
            yield line(f"      split: {mapping}", "ranges that are read in parallel")
        yield f"      query: {block(selected, 8)}"

    def _split_column(self) -> str | None:
        """Return an indexed column whose value is stable: the primary key, an integer, or a time. None if there is
        none.
        """
        indexes = self.beginning.indexes
        schema = self.beginning.rows.schema
        changing = None if self.found.dates is None else self.found.dates.column
        kinds = {name: schema.field(name).type for name in indexes.indexed if name in schema.names}
        for name in indexes.unique:
            kind = kinds.get(name)
            if kind is not None and (pt.is_integer(kind) or pt.is_temporal(kind) or is_text(kind)):
                return name
        for fits in (pt.is_integer, pt.is_timestamp):
            for name, kind in kinds.items():
                if fits(kind) and name != changing:
                    return name
        return None

    def _select_from_export(self) -> str:
        """Return the SELECT of an export's columns, with complete addresses and booleans in `exclude`."""
        address, selected = self.found.address, ["*"]
        if address is not None and self.prefix:
            self._names[address.column] = "loc"
            selected.insert(0, f"{self._joined(address.column)} AS loc")
            selected[-1] += " EXCLUDE (loc)" if "loc" in self.beginning.rows.column_names else ""
        if self.has_flag:
            selected[-1] += " REPLACE (CAST(nullif(trim(exclude), '') AS BOOLEAN) AS exclude)"
        return f"SELECT {', '.join(selected)}\nFROM source"

    def _select_from_table(self) -> str:
        """Return the SELECT of the table columns that the section needs, under the names that rules use."""
        found, dialect = self.found, self.beginning.dialect
        wanted = [
            ("loc", None if found.address is None else found.address.column),
            ("lastmod", None if found.dates is None else found.dates.column),
            ("images", found.images),
            ("title", found.title),
        ]
        named = {column: name for name, column in wanted if column is not None}
        fingerprint = (*found.contents, None if found.begun is None else found.begun.column) if found.never else ()
        others = [
            column
            for column in (*self.beginning.indexes.unique[:1], self._split_column(), *fingerprint)
            if column is not None
        ]
        taken = {"loc", *named.values()}
        self._names = {
            column: f"{column}_key" if column in taken else column for column in others if column not in named
        }
        self._names |= named
        expressions = {name: quoted(column, dialect) for column, name in self._names.items()}
        if found.address is None:
            expressions["loc"] = "NULL"
        elif self.prefix:
            expressions["loc"] = self._joined(found.address.column)
        as_named = (name if dialect in LIMITED else quoted(name, dialect) for name in expressions)
        selected = ",\n  ".join(
            text if text == quoted(name, dialect) else f"{text} AS {alias}"
            for (name, text), alias in zip(expressions.items(), as_named, strict=True)
        )
        return f"SELECT\n  {selected}\nFROM {self.beginning.relation}"

    def _joined(self, column: str) -> str:
        name = quoted(column, self.beginning.dialect)
        text = "'" + self.prefix.replace("'", "''") + "'"
        path = name if self.prefix == _SCHEME else f"ltrim({name}, '/')"
        if self.beginning.dialect == "mysql":
            return f"concat({text}, {name if self.prefix == _SCHEME else f'trim(LEADING {_SLASH} FROM {name})'})"
        return f"{text} || {path}"

    def _called(self, column: str) -> str:
        """Return the name of a source column in rules."""
        return self._names.get(column, column)

    def _columns(self) -> Iterator[str]:
        """Yield `columns:`, and add notes about the address."""
        found, there = self.found, self.beginning.rows.column_names
        address = found.address
        if address is None:
            self.notes.append(
                f"no column looks like the address of a page: {self._where_to_name_it()}. "
                f"The columns are: {listed(there)}{self._from_id(there)}"
            )
        else:
            self._note_address(address)
        if self.is_database:
            return
        named = {} if address is None or self.prefix else {"loc": address.column}
        named |= {"images": found.images} if found.images else {}
        named |= {"title": found.title} if found.title else {}
        renamed = {name: column for name, column in named.items() if name != column}
        if address is None:
            yield line("    columns: {loc: NAME}", "write the column that holds the address of a page")
        elif renamed:
            yield line(
                f"    columns: {flow(renamed)}",
                "loc: the address of a page; a path is joined to site" if "loc" in renamed else "",
            )

    def _where_to_name_it(self) -> str:
        return "write it AS loc in the SELECT" if self.is_database else "set it in columns: {loc: …}"

    def _from_id(self, columns: Sequence[str]) -> str:
        """Return a sentence on building addresses from a column of IDs, or an empty text if none looks like one."""
        ids = [column for column in columns if re.fullmatch("id|.*_id", column, re.IGNORECASE)]
        ids.sort(key=lambda column: column.casefold() != "id")
        if not ids or "loc" in columns:
            return ""
        name = quoted(ids[0], self.beginning.dialect)
        path = f"concat('/p/', {name})" if self.beginning.dialect == "mysql" else f"'/p/' || {name}"
        how = "write {} AS loc" if self.is_database else "add to from: query: SELECT *, {} AS loc FROM source"
        return f". If addresses contain {shown(ids[0])}, {how.format(path)}"

    def _note_address(self, address: Address) -> None:
        if address.column != "loc":
            self.notes.append(f"the column {shown(address.column)} is used as the address of a page")
        if address.form in ("path", "slug") and self.prefix:
            self.notes.append(f"{self.prefix} is put before {shown(address.column)}: the site is in this folder")
        elif address.form == "slug":
            self.notes.append(
                f"its values are joined to the site as they are: if {shown(address.column)} is only the end of the "
                "address, add what comes before it, with a SELECT such as: '/p/' || slug AS loc"
            )
        if address.form == "bare":
            self.notes.append(f"https:// is put before {shown(address.column)}, which has none")

    def _renamed(self, column: str) -> str:
        """Return the name of a column in rules, after the SELECT of a table or `columns`."""
        if self.is_database:
            return self._called(column)
        return {self.found.title: "title", self.found.images: "images"}.get(column, column)

    def _comments(self) -> Iterator[str]:
        found, rows = self.found, self.beginning.rows
        if not self.is_database and "priority" in rows.column_names and not _is_priority(rows.column("priority")):
            yield line("    priority: none", "the column priority has other values than 0 to 1")
        flags = [name for name in found.flags if self.is_database or name != "exclude"]  # that one is a rule itself
        if flags:
            where = "a WHERE in the SELECT" if self.is_database else "where:"
            yield one_line(f"    # {where} says which rows to list; it may be about: {listed(flags)}")
        if found.keys and not self.beginning.indexes.unique and self.beginning.source.keys() & _KEYED:
            yield one_line(
                f"    # from.key: a column that identifies a row lets a run read only what changed; it may be: "
                f"{listed(found.keys)}"
            )
        changed = found.dates
        if self.is_database and self.beginning.indexes.unique and changed is not None:
            name = quoted(changed.column, self.beginning.dialect)
            yield one_line(
                f"    # to read only what changed, add to the SELECT: WHERE ({name} >= :since OR {name} IS NULL)"
            )
        rest = [name for name in rows.column_names if name not in self._used()]
        if rest:
            what = "further columns of the table" if self.is_database else "other columns, for rules and hooks"
            yield one_line(f"    # {what}: {listed(rest)}")

    def _used(self) -> set[str | None]:
        found = self.found
        return {
            None if found.address is None else found.address.column,
            None if found.dates is None else found.dates.column,
            found.images,
            found.title,
            *found.flags,
            *self._names,
            *(("loc", "images", "title") if "query" in self.beginning.source else ()),
            *(found.contents if found.never else ()),
            None if found.begun is None else found.begun.column,
            None if self.is_database else "exclude",
        }


def _prefix(rows: Any, address: Address | None, folder: str) -> str:
    """Return the missing start of addresses: a scheme, or the path of the site. "" if they are complete."""
    if address is None or address.form == "bare":
        return "" if address is None else _SCHEME
    if not folder or address.form == "url":
        return ""
    texts = [str(text) for text in rows.column(address.column).drop_null().to_pylist()]
    inside = sum(f"{text}/".startswith(f"{folder}/") for text in texts)
    return "" if 2 * inside > len(texts) else f"{folder}/"


def _is_flag(rows: Any, name: str) -> bool:
    """Return True if a column has truth values as text, with false ones among them."""
    if name not in rows.column_names or not is_text(rows.schema.field(name).type):
        return False
    words = {text.strip().lower() for text in rows.column(name).drop_null().to_pylist()} - {""}
    return bool(words & _FALSE) and words <= _TRUE | _FALSE


def _is_priority(column: Any) -> bool:
    """Return True if the values are valid priorities."""
    try:
        numbers = pc.cast(column.drop_null(), "float64")
    except (ValueError, NotImplementedError):  # base classes of Arrow's errors
        return False
    return bool(pc.all(pc.and_(pc.greater_equal(numbers, 0), pc.less_equal(numbers, 1))).as_py() is not False)
