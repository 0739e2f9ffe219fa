"""A site file merged with its bases and with its variables filled in. Each value keeps the file that it is from."""

from __future__ import annotations

import os.path
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sitemap_etl.config import reader, tree, variables
from sitemap_etl.config.reader import KeyPath, Mark
from sitemap_etl.errors import ConfigError
from sitemap_etl.settings import Written


@dataclass
class Layers:
    """Merged values, their positions, and the mistakes found so far."""

    data: dict[str, Any]
    marks: dict[KeyPath, Mark]
    files: dict[str, Path]  # how messages name a file → its absolute path; the site file first
    problems: list[tuple[Mark, str]] = field(default_factory=list)
    reported: set[KeyPath] = field(default_factory=set)  # where a mistake was found: one for each value is enough

    def add(self, path: KeyPath, said: str) -> None:
        """Note a mistake at a key path: `file:line: key path: mistake`."""
        if path in self.reported:
            return
        self.reported.add(path)
        mark = self.mark(path) or Mark(next(iter(self.files)), 0)
        shown = reader.shown(path)
        self.problems.append((mark, f"{mark}: {shown}: {said}" if shown else f"{mark}: {said}"))

    def messages(self) -> list[str]:
        """Return all mistakes, one line each, in the order of the files and their lines."""
        order = list(self.files)
        return [said for mark, said in sorted(self.problems, key=lambda one: (order.index(one[0].file), one[0].line))]

    def mark(self, path: KeyPath) -> Mark | None:
        """Return the position of the value, or of the nearest mapping that would contain it."""
        while path:
            if path in self.marks:
                return self.marks[path]
            path = path[:-1]
        return None

    def written_in(self, path: KeyPath) -> Path:
        """Return the absolute path of the file that contains the value."""
        mark = self.mark(path)
        return self.files[mark.file] if mark else next(iter(self.files.values()))


def read(path: Path, environ: Mapping[str, str], later: Collection[KeyPath]) -> Layers:
    """Return the file and all that it extends, as one. Values at `later` (key paths of `tree.later_paths`) keep their
    `${…}`.

    ConfigError if a file of the chain can't be read at all; other mistakes are in `problems`.
    """
    documents: list[tuple[str, reader.Document]] = []
    shown, file = str(path), Path(os.path.abspath(path))  # noqa: PTH100 - resolve() would follow links
    problems: list[tuple[Mark, str]] = []
    while True:
        document = reader.read(file, shown_as=shown)
        documents.append((shown, document))
        problems += document.problems
        base = document.data.pop("extends", None)
        if base is None:
            break
        mark = document.marks[("extends",)]
        where = f"{mark}: extends"
        if not isinstance(base, str) or not base.strip():
            problems.append((mark, f"{where}: expected the path of a base, such as _base.yaml"))
            break
        base, unset = variables.expand(base, environ)
        if unset:
            problems.append((mark, f"{where}: the environment variable {unset[0]} is not set"))
            break
        shown, file = str(Path(shown).parent / base), Path(os.path.abspath(file.parent / base))  # noqa: PTH100 - as above
        seen = [document.path for _, document in documents]
        if file in seen:
            chain = " → ".join(other.name for other in [*seen, file])
            problems.append((mark, f"{where}: the bases extend each other in a circle: {chain}"))
            break
        if not file.is_file():
            raise ConfigError([*(said for _, said in problems), f"{where}: file {file} does not exist"])

    data: dict[str, Any] = {}
    marks: dict[KeyPath, Mark] = {}
    for _, document in reversed(documents):
        _merge(data, marks, document.data, document.marks, ())
    files = {shown: document.path for shown, document in documents}
    layers = Layers(data, marks, files, problems)
    _drop_nulls(data, ())
    layers.data = _expand(data, (), layers, environ, later)
    return layers


def _merge(
    into: dict[str, Any],
    marks: dict[KeyPath, Mark],
    over: dict[str, Any],
    over_marks: dict[KeyPath, Mark],
    path: KeyPath,
) -> None:
    """Merge `over` into `into`. Mappings are merged by key, other values are replaced, and null removes a key."""
    for key, value in over.items():
        here = (*path, key)
        if isinstance(value, dict) and isinstance(into.get(key), dict):
            marks[here] = over_marks[here]
            _merge(into[key], marks, value, over_marks, here)
            continue
        for old in [mark for mark in marks if mark[: len(here)] == here]:
            del marks[old]
        if value is None and into.get(key) is not None:
            del into[key]
            continue
        into[key] = value
        marks.update({mark: place for mark, place in over_marks.items() if mark[: len(here)] == here})


def _drop_nulls(data: dict[str, Any], path: KeyPath) -> None:
    """Remove keys with null. A section with null stays, so that it is reported as a mistake."""
    for key, value in list(data.items()):
        if value is None and path != ("sections",):
            del data[key]
        elif isinstance(value, dict):
            _drop_nulls(value, (*path, key))


def _expand(value: Any, path: KeyPath, layers: Layers, environ: Mapping[str, str], later: Collection[KeyPath]) -> Any:
    if isinstance(value, dict):
        return {key: _expand(item, (*path, key), layers, environ, later) for key, item in value.items()}
    if isinstance(value, list):
        return [_expand(item, (*path, number), layers, environ, later) for number, item in enumerate(value)]
    if not isinstance(value, str):
        return value
    is_secret = tree.lies_at(path, later)
    text = value
    if "${" in value:
        if (found := variables.malformed(value)) is not None:
            shown = "${" if is_secret else found
            layers.add(
                path,
                f"{shown} is not a valid variable; write ${{NAME}} or ${{NAME:-default}}, or $${{ for a literal ${{",
            )
        if not is_secret:
            text, unset = variables.expand(value, environ)
            if unset:
                names = " and ".join(dict.fromkeys(unset))
                said = f"the environment variable {names} is not set; set it, or write ${{{unset[0]}:-default}}"
                layers.add(path, said)
    return Written(text, value, str(layers.written_in(path)), reader.shown(path))
