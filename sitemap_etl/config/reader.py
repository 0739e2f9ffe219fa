"""One YAML file → plain values, and where each of them stands.

Only what a configuration needs, in YAML 1.2's sense: text, numbers, true, false, null, lists, mappings.
`no`, `on`, `12:30`, `0o10`, `1_000`, `007` and `2026-01-02` are text. A key is always text, and may stand
once. Every mistake that can be found in one go is found, each with its line.
"""

from __future__ import annotations

import difflib
import re
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

from sitemap_etl.config import yaml_errors
from sitemap_etl.errors import ConfigError
from sitemap_etl.settings import scalar

KeyPath = tuple[str | int, ...]

_NODES: Final = 100_000
"""Maximum number of values in one file. A site file has hundreds, but aliases of aliases could lead to billions."""

_PREFIX = "tag:yaml.org,2002:"
_READ_DIFFERENTLY: Final = re.compile("[\t!\\\\&?\x85\u2028\u2029\ufeff]|[|>]#")
"""Tabs, tags, escapes, anchors, complex keys, rare line breaks, and comments right after the indicator of a block."""
_DEEP: Final = re.compile("^[ -]{200}", re.MULTILINE)
_BRACKETS: Final = 500
"""Maximum number of brackets in a text that libyaml reads."""
_SURROGATE = re.compile("[\ud800-\udfff]")


class Mark(NamedTuple):
    """Position in a file, as messages show it."""

    file: str
    line: int  # from 1; 0: the whole file

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file


@dataclass
class Document:
    """A record that is stored as one object."""

    path: Path
    data: dict[str, Any]
    marks: dict[KeyPath, Mark] = field(default_factory=dict)
    problems: list[tuple[Mark, str]] = field(default_factory=list)


def read(path: Path, *, shown_as: str | None = None) -> Document:
    """Return the file's values. `shown_as` is how messages name it.

    Raise ConfigError if the file can't be read, is not YAML, or is not a mapping. Mistakes that leave the rest
    readable are in `Document.problems`.
    """
    file = shown_as or str(path)
    try:
        raw = path.read_bytes()
    except FileNotFoundError as error:
        raise ConfigError(f"{file}: no such file{_nearest_file(path, file)}") from error
    except IsADirectoryError as error:
        raise ConfigError(f"{file}: is a folder; pass a site file") from error
    except OSError as error:
        raise ConfigError(f"{file}: can't be read: {error.strerror or error}") from error
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise ConfigError(f"{file}:{line}: is not UTF-8; save the file as UTF-8") from error
    try:
        node = _compose(text)
    except yaml.YAMLError as error:
        raise ConfigError(yaml_errors.message(file, text, error)) from error
    except RecursionError as error:
        raise ConfigError(f"{file}: is nested too deeply") from error
    if node is None or (isinstance(node, yaml.ScalarNode) and node.value == "" and not node.style):
        raise ConfigError(f"{file}: is empty; a site file needs site, publish and at least one section")
    if not isinstance(node, yaml.MappingNode):
        raise ConfigError(f"{file}:{node.start_mark.line + 1}: {yaml_errors.not_a_mapping(node)}")
    document = Document(path, {})
    try:
        _Builder(file, document).fill(node)
    except RecursionError as error:
        raise ConfigError(f"{file}: is nested too deeply") from error
    return document


class _Loader(yaml.SafeLoader):
    """SafeLoader that reads all plain scalars as text. `scalar` converts them."""

    yaml_implicit_resolvers: dict[Any, Any] = {}  # noqa: RUF012 - PyYAML's name and type for it


if hasattr(yaml, "CSafeLoader"):  # PyYAML was built with libyaml

    class _FastLoader(yaml.CSafeLoader):
        """The same loader in C, which is ten times as fast."""

        yaml_implicit_resolvers: dict[Any, Any] = {}  # noqa: RUF012 - as above

else:
    _FastLoader = _Loader  # type: ignore[misc, assignment] # stands in for it


def _compose(text: str) -> yaml.Node | None:
    """Return the root of a YAML text.

    libyaml reads some texts differently, and describes mistakes in other words. So its result is used only if it is a
    mapping, and if the text has none of the known differences. Texts with thousands of levels are not given to libyaml,
    because it would crash the process.
    """
    brackets = text.count("[") + text.count("{")
    unfit = _READ_DIFFERENTLY.search(text) or _DEEP.search(text) or yaml.reader.Reader.NON_PRINTABLE.search(text)
    if brackets <= _BRACKETS and unfit is None:
        with suppress(yaml.YAMLError):
            node = yaml.compose(text, Loader=_FastLoader)
            if isinstance(node, yaml.MappingNode):
                return node
    return yaml.compose(text, Loader=_Loader)


class _Builder:
    """Converter from YAML's nodes to plain values, with their positions and mistakes."""

    def __init__(self, file: str, document: Document) -> None:
        self.file = file
        self.document = document
        self.count = 0
        self.open: list[yaml.Node] = []

    def fill(self, node: yaml.MappingNode) -> None:
        self.document.data.update(self._mapping(node, ()))

    def _value(self, node: yaml.Node, path: KeyPath) -> Any:
        self.count += 1
        if self.count > _NODES:
            raise ConfigError(f"{self.file}: has more than {_NODES:,} values, counting every use of an alias")
        if any(node is parent for parent in self.open):
            raise ConfigError(f"{self.file}:{node.start_mark.line + 1}: {shown(path)}: an anchor that contains itself")
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, path)
        self.open.append(node)
        try:
            if isinstance(node, yaml.MappingNode):
                return self._mapping(node, path)
            self._tag(node, path, "seq")
            assert isinstance(node, yaml.SequenceNode)
            return [self._item(item, (*path, number)) for number, item in enumerate(node.value)]
        finally:
            self.open.pop()

    def _item(self, node: yaml.Node, path: KeyPath) -> Any:
        self.document.marks[path] = self._mark(node)
        return self._value(node, path)

    def _mapping(self, node: yaml.MappingNode, path: KeyPath) -> dict[str, Any]:
        self._tag(node, path, "map")
        data: dict[str, Any] = {}
        for key_node, value_node in node.value:
            mark = self._mark(key_node)
            if not isinstance(key_node, yaml.ScalarNode):
                self._problem(mark, path, "a key can't be a list or a mapping; put text in quotes")
                continue
            if not self._is_whole(key_node, path):
                continue
            key = key_node.value
            here = (*path, key)
            if key == "<<" and not key_node.style:
                self._problem(
                    mark,
                    here,
                    "merge keys are not part of YAML 1.2; put shared settings into a base file and use extends",
                )
                continue
            if key in data:
                first = self.document.marks[here]
                said = f"{mark}: duplicate key `{shown(here)}` (first on line {first.line})"
                self.document.problems.append((mark, said))
                continue
            self.document.marks[here] = mark
            data[key] = self._value(value_node, here)
        return data

    def _is_whole(self, node: yaml.ScalarNode, path: KeyPath) -> bool:
        """Join the two escapes that JSON writes for a character beyond U+FFFF. Return False if one half is missing."""
        if _SURROGATE.search(node.value):
            try:
                node.value = node.value.encode("utf-16", "surrogatepass").decode("utf-16")
            except UnicodeDecodeError:
                self._problem(self._mark(node), path, r"half a character (a lone \ud800 to \udfff)")
                return False
        return True

    def _scalar(self, node: yaml.ScalarNode, path: KeyPath) -> Any:
        tag = node.tag.removeprefix(_PREFIX)
        if not self._is_whole(node, path):
            return None
        if tag == "str":
            as_text = node.style or _explicit(node) or (node.value and _is_word(path))
            return node.value if as_text else scalar(node.value)
        if tag in ("int", "float", "bool", "null"):
            return scalar(node.value)
        self._problem(
            self._mark(node),
            path,
            f"the tag {_tag_text(node.tag)} is not allowed in a site file; put text that begins with ! in quotes",
        )
        return node.value

    def _tag(self, node: yaml.Node, path: KeyPath, plain: str) -> None:
        if node.tag != _PREFIX + plain:
            self._problem(
                self._mark(node),
                path,
                f"the tag {_tag_text(node.tag)} is not allowed in a site file; put text that begins with ! in quotes",
            )

    def _mark(self, node: yaml.Node) -> Mark:
        return Mark(self.file, node.start_mark.line + 1)

    def _problem(self, mark: Mark, path: KeyPath, text: str) -> None:
        self.document.problems.append((mark, f"{mark}: {shown(path)}: {text}" if path else f"{mark}: {text}"))


def _is_word(path: KeyPath) -> bool:
    """Return True if a value is a word of an export's `null:`. There, an unquoted `NULL` is a word too."""
    keys = tuple(part for part in path if isinstance(part, str))
    return keys[-1:] == ("null",) and (keys[-2:-1] == ("from",) or keys[-3:-2] == ("tables",))


def _explicit(node: yaml.ScalarNode) -> bool:
    """Return True if a plain scalar has the tag `!!str`. Its mark then begins at the tag."""
    buffer = node.start_mark.buffer
    return buffer is not None and buffer[node.start_mark.pointer : node.start_mark.pointer + 1] == "!"


def _tag_text(tag: str) -> str:
    return "!!" + tag.removeprefix(_PREFIX) if tag.startswith(_PREFIX) else tag


def shown(path: KeyPath) -> str:
    """Return a key path for messages, such as `sections.products.from.params` or `urls.exclude[2]`."""
    text = ""
    for part in path:
        text += f"[{part + 1}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


def _nearest_file(path: Path, file: str) -> str:
    """Return a suggestion with the most similar file of the folder, as the end of a sentence, or ""."""
    try:
        names = {entry.stem: entry.name for entry in path.parent.iterdir() if entry.suffix in (".yaml", ".yml")}
    except OSError:
        return f" (the folder {path.parent} does not exist either)"
    near = names.get(path.stem) or next(iter(difflib.get_close_matches(path.stem, names, n=1)), None)
    return f"; did you mean {Path(file).parent / names.get(near, near)}?" if near else ""
