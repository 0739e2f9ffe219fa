"""Judge XML as strict readers do: libxml2 and Expat both parse the document, and each can reject it.

Neither parser expands entities or fetches anything. Namespace faults are separate, because the document is still
well-formed, and its entries can be checked.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple
from xml.parsers import expat

from lxml import etree

_SEPARATOR: Final = "\x0c"
"""Separator of namespace and name: XML can't contain this character."""
_NS_XML: Final = "http://www.w3.org/XML/1998/namespace"
_NS_XMLNS: Final = "http://www.w3.org/2000/xmlns/"
_OF_NAMESPACES: Final = frozenset(
    expat.errors.codes[message]
    for message in (
        expat.errors.XML_ERROR_UNBOUND_PREFIX,
        expat.errors.XML_ERROR_UNDECLARING_PREFIX,
        expat.errors.XML_ERROR_RESERVED_PREFIX_XML,
        expat.errors.XML_ERROR_RESERVED_PREFIX_XMLNS,
        expat.errors.XML_ERROR_RESERVED_NAMESPACE_URI,
        expat.errors.XML_ERROR_DUPLICATE_ATTRIBUTE,  # of two prefixes with one namespace
    )
)
"""Error codes of Expat for documents that can be well-formed without namespaces."""
_KEYS: Final = 64
"""Maximum distinct faults of a kind."""


class Mistake(NamedTuple):
    """First error of a parser. `line` and `column` count from 1, `column` in bytes."""

    message: str
    line: int
    column: int


class NamespaceFault(NamedTuple):
    """Namespace fault: byte offset and text of its first occurrence, and the number of occurrences."""

    at: int
    written: str
    times: int


@dataclass
class Namespaces:
    """Namespace faults of a document, by the undeclared prefix or the broken rule."""

    elements: dict[str, NamespaceFault] = field(default_factory=dict)
    attributes: dict[str, NamespaceFault] = field(default_factory=dict)
    declarations: dict[str, NamespaceFault] = field(default_factory=dict)


class _Nothing:
    """Parser target that ignores everything, so that no tree is built."""

    def close(self) -> None:
        """Return nothing at the end of the document."""


def judge(data: bytes, *, as_tree: bool = False) -> Mistake | Namespaces:
    """Return the first syntax error of a document in UTF-8, or the namespace faults if it is well-formed.

    Only a document that Expat rejects because of namespaces is read tag by tag. `as_tree`: libxml2 builds the document,
    and finds repeated declarations in a document type.
    """
    target = {} if as_tree else {"target": _Nothing()}
    parser = etree.XMLParser(
        **target,  # type: ignore[arg-type]  # lxml accepts a target without the optional methods
        encoding="utf-8",  # the declaration can name the encoding before decoding
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        huge_tree=False,
    )
    try:
        etree.fromstring(data, parser)
    except etree.XMLSyntaxError as error:
        # libxml2 rejects a namespace that is not a URI, which other readers accept.
        if "is not a valid URI" not in (error.msg or ""):
            line, column = error.position
            return Mistake((error.msg or "not well-formed").partition(", line ")[0], line or 1, column or 1)
    rejected = _rejected(data)
    if rejected is None:
        return Namespaces()
    if rejected.code in _OF_NAMESPACES:
        # Expat stops at the first fault, and a fault that other readers reject can follow.
        rejected = _rejected(data, with_namespaces=False)
        if rejected is None:
            return _namespaces(data)
    return Mistake(expat.ErrorString(rejected.code), rejected.lineno, rejected.offset + 1)


def _rejected(data: bytes, *, with_namespaces: bool = True) -> expat.ExpatError | None:
    """Return the first error of Expat, or None if it accepts the document."""
    try:
        expat.ParserCreate("utf-8", _SEPARATOR if with_namespaces else None).Parse(data, True)
    except expat.ExpatError as error:
        return error
    return None


def _namespaces(data: bytes) -> Namespaces:
    """Return the namespace faults of a document, read tag by tag."""
    walk = _Walk()
    parser = expat.ParserCreate("utf-8")
    parser.ordered_attributes = True

    def start(name: str, attributes: list[str]) -> None:
        walk.start(name, attributes, parser.CurrentByteIndex)

    parser.StartElementHandler = start
    parser.EndElementHandler = walk.end
    parser.Parse(data, True)
    return walk.found


class _Walk:
    """Prefixes in scope while a document is read, and the faults so far.

    Time and memory grow with the document, however its declarations are nested.
    """

    def __init__(self) -> None:
        self.found = Namespaces()
        self._bound: dict[str, list[str]] = {"xml": [_NS_XML]}
        self._declared: list[list[str]] = []

    def start(self, name: str, attributes: list[str], at: int) -> None:
        """Process the start tag at byte offset `at`. `attributes` has names and values in turn."""
        declared = []
        for written, uri in zip(attributes[::2], attributes[1::2], strict=True):
            first, _, prefix = written.partition(":")
            if first == "xmlns":
                self._bound.setdefault(prefix, []).append(uri)
                declared.append(prefix)
                if reason := _reason(prefix, uri):
                    _count(self.found.declarations, reason, at, f'{written}="{uri}"')
        self._declared.append(declared)
        self._use(self.found.elements, name, at)
        seen: dict[tuple[str, str], str] = {}
        for written in attributes[::2]:
            prefix, colon, local = written.partition(":")
            if colon and prefix != "xmlns":
                self._use(self.found.attributes, written, at)
                uris = self._bound.get(prefix)
                first = seen.setdefault((uris[-1] if uris else prefix, local), written)
                if first != written:
                    reason = "two attributes of an element have the same name"
                    _count(self.found.declarations, reason, at, f"{first} {written}")

    def end(self, name: str) -> None:
        """Leave the scope of an element."""
        del name
        for prefix in self._declared.pop():
            uris = self._bound[prefix]
            uris.pop()
            if not uris:
                del self._bound[prefix]

    def _use(self, into: dict[str, NamespaceFault], written: str, at: int) -> None:
        prefix, colon, _ = written.partition(":")
        if colon and prefix not in self._bound:
            _count(into, prefix, at, written)


def _count(into: dict[str, NamespaceFault], key: str, at: int, written: str) -> None:
    """Add one fault. Keys beyond `_KEYS` are counted together."""
    if key not in into and len(into) >= _KEYS:
        key = "others"
    first = into.get(key)
    into[key] = NamespaceFault(at, written, 1) if first is None else first._replace(times=first.times + 1)


def _reason(prefix: str, uri: str) -> str:
    """Return the rule of Namespaces in XML 1.0 that a declaration breaks, or "". The default prefix is ""."""
    if prefix == "xmlns":
        return "the prefix xmlns is reserved"
    if (prefix == "xml") != (uri == _NS_XML):
        return "the prefix xml and its namespace belong together"
    if uri == _NS_XMLNS:
        return "the namespace of xmlns is reserved"
    return "a prefix needs a namespace" if prefix and not uri else ""
