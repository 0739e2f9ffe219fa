"""Parse the bytes of a file into a document for scanning: encoding, prolog, well-formedness.

Nothing is expanded or fetched. A document that declares entities is not read. Removed parts (a byte order mark, the XML
declaration) are overwritten with spaces, so offsets stay valid. The XML declaration is parsed by itself before that, so
strict parsers read every byte of the file.
"""

from __future__ import annotations

import codecs
import re
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Literal

from sitemap_etl.check.bounds import part_of_text, part_of_xml
from sitemap_etl.check.doctype import find_doctype
from sitemap_etl.check.lines import Lines
from sitemap_etl.check.report import Faults
from sitemap_etl.check.scan import Flat, flat
from sitemap_etl.check.strict import Mistake, Namespaces, judge
from sitemap_etl.web import GZIP, codec_of, decoded, inflated

Kind = Literal["urlset", "index", "rss", "atom", "rdf", "html", "text", "robots", "xml", "binary", "empty"]

_BEFORE_ROOT: Final = re.compile(rb"\s+|<\?.*?\?>|<!--.*?-->", re.DOTALL)
_HTML: Final = re.compile(rb"<!DOCTYPE\s+html", re.IGNORECASE)
_ROOT: Final = re.compile(rb"<(?:([^\s/>:<]+):)?([A-Za-z_][^\s/>:<]*)")
_DECLARATION: Final = re.compile(rb"\s*(<\?xml\s.*?\?>)", re.DOTALL)
_ENCODING: Final = re.compile(rb"encoding\s*=\s*[\"']([A-Za-z0-9._-]+)[\"']")
_FRONT_MATTER: Final = re.compile(rb"---[ \t]*\r?\n")
"""Beginning of a template of Jekyll, Hugo and similar generators."""
_DOCTYPE: Final = b"<!DOCTYPE r"
_SUBSET: Final = 1 << 20
"""Bytes of a document type that is parsed."""
_BLANK: Final = bytes(byte if byte == ord("\n") else ord(" ") for byte in range(256))
"""Table for `bytes.translate`: everything becomes a space, except line breaks."""
_ROBOTS: Final = re.compile(rb"^[ \t]*(?:user-agent|disallow|allow|sitemap)[ \t]*:", re.IGNORECASE | re.MULTILINE)
_KINDS: Final[dict[bytes, Kind]] = {
    b"urlset": "urlset",
    b"sitemapindex": "index",
    b"rss": "rss",
    b"feed": "atom",
    b"RDF": "rdf",
    b"html": "html",
}
_UTF8: Final = frozenset({"utf-8", "us-ascii", "ascii"})
"""Names of UTF-8 and its subset ASCII that all XML parsers know."""
_BOMS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


@dataclass
class Document:
    """A file that could be parsed. `data` is UTF-8; `flat` is there for sitemaps and indexes in XML."""

    kind: Kind
    data: bytes
    flat: Flat | None = None


def kind_of(data: bytes, name: str) -> Kind:
    """Return the apparent kind of a file, by its beginning and its name."""
    text = _plain(data)
    if text.startswith(b"<"):
        return _xml_kind(text)
    if is_robots(name):
        return "robots"
    if not text:
        return "empty"
    text = text[:65536]
    if b"\0" in text:
        return "binary"
    if _FRONT_MATTER.match(text):
        return "xml"
    return "robots" if _ROBOTS.search(text) and not text.startswith(b"http") else "text"


def sniffed(beginning: bytes | None, name: str) -> Kind | None:
    """Return the apparent kind of a file with this beginning, or None if it can't be read or is damaged."""
    if beginning is None or not beginning.startswith(GZIP):
        return None if beginning is None else kind_of(beginning, name)
    unpacked = inflated(beginning, len(beginning))  # a part of a large file is truncated, which is not damage
    return None if unpacked.fault == "damaged" else kind_of(unpacked.data, name)


def is_robots(name: str) -> bool:
    """Return True if a file with this name is the robots.txt of a site."""
    return name.rpartition("/")[2].lower() == "robots.txt"


def _plain(data: bytes) -> bytes:
    """Return the data in UTF-8, without byte order mark and leading whitespace."""
    for mark, codec in _BOMS:
        if data.startswith(mark):
            data = data[len(mark) :] if codec == "utf-8" else data.decode(codec, "replace").encode()
            break
    return data.lstrip()


def _prolog(text: bytes) -> int:
    """Return the end of whitespace, comments and instructions at the beginning, which can have any length."""
    end = 0
    while found := _BEFORE_ROOT.match(text, end):  # repetition in the pattern would keep a place for each of them
        end = found.end()
    return end


def _xml_kind(text: bytes) -> Kind:
    """Return the kind by the root element or an HTML document type."""
    start = _prolog(text)
    if _HTML.match(text, start):
        return "html"
    if doctype := find_doctype(text, start):
        start = doctype.stop
    root = _ROOT.search(text, start)
    if root is None:
        return "xml"
    return _KINDS.get(root[2], "html" if root[2].lower() == b"html" else "xml")


def parsed(
    data: bytes, name: str, faults: Faults, *, whole: bool, max_bytes: int, charset: str = ""
) -> Document | None:
    """Return the document, or None if it can't be parsed. `faults` then has the reason.

    whole: False if `data` is the beginning of a file.
    max_bytes: maximum size of a file, which limits its size in UTF-8 and its parts.
    """
    kind = kind_of(data, name)
    if kind in {"html", "xml"} and is_robots(name):
        kind = "robots"  # what a crawler asks for as robots.txt is one to it, whatever it says
    if kind == "html":
        faults.add("html-page", line=1, example=_head(data))
        return None
    if kind in {"binary", "xml"}:
        template = "this is a template that was not processed" if _FRONT_MATTER.match(_plain(data)) else ""
        faults.add("not-a-sitemap", line=1, example=_head(data), detail=template)
        return None
    if kind == "empty":
        if whole:
            faults.add("sitemap-empty", detail="the file is empty")
        return None
    data = _utf8(data, faults, charset, xml=kind not in {"text", "robots"})
    data, whole = _limited(data, kind, max_bytes, faults, whole=whole)
    faults.lines = Lines(data)
    if kind == "text" and name.partition("?")[0].lower().endswith((".xml", ".xml.gz")):
        faults.add("text-named-xml", line=1, example=_head(data).partition("\n")[0])
    if kind in {"text", "robots"}:
        return Document(kind, data)
    return _xml(kind, data, faults, whole=whole)


def _limited(data: bytes, kind: Kind, max_bytes: int, faults: Faults, *, whole: bool) -> tuple[bytes, bool]:
    """Return the part of a document that can be checked, and True if it is whole. Report the limit it exceeds."""
    part, limit = data, ""
    if len(data) > max_bytes:  # other encodings can have fewer bytes
        part, limit = data[:max_bytes], f"more than {max_bytes:,} bytes in UTF-8"
    if kind == "text":
        part, fewer = part_of_text(part)
    elif kind == "robots":
        fewer = ""  # only a small part is read
    else:
        part, fewer = part_of_xml(part, max_bytes)
    if limit := fewer or limit:
        faults.add("partly-read", detail=f"it has {limit}")
    return part, whole and not limit


def _xml(kind: Kind, data: bytes, faults: Faults, *, whole: bool) -> Document | None:
    start = _prolog(data)
    if data.startswith(b"<!DOCTYPE", start):
        doctype = find_doctype(data, start)
        stop = doctype.stop if doctype else len(data)
        if b"<!ENTITY" in data[start:stop]:
            faults.add("xml-entities", at=data.index(b"<!ENTITY", start), example=_head(data[start:stop]))
            return None
        faults.add("xml-doctype", at=start, example=_head(data[start:stop]))
        if doctype and doctype.subset:
            verdict = judge(data[start:stop] + b"<r/>", as_tree=True) if stop - start <= _SUBSET else None
            if isinstance(verdict, Mistake):
                faults.add("xml-malformed", at=start, example=_head(data[start:stop]), detail=verdict.message)
            # The type stays, without its subset: a second one is an error.
            blank = data[start + len(_DOCTYPE) : stop - 1].translate(_BLANK)
            data = data[:start] + _DOCTYPE + blank + data[stop - 1 :]
        start = stop
    root = _ROOT.search(data, start)
    if root is None:
        faults.add("not-a-sitemap", line=1, example=_head(data))
        return None
    prefix = root[1] + b":" if root[1] else b""
    verdict = judge(data)
    if isinstance(verdict, Mistake):
        assert faults.lines is not None
        at = faults.lines.offset(verdict.line, verdict.column)
        if whole:
            faults.add("xml-malformed", at=at, example=_around(data, at), detail=verdict.message)
        data = _salvaged(data[:at], kind, prefix, root[2])
        verdict = judge(data)
        if isinstance(verdict, Mistake):
            return None
    _report_namespaces(verdict, faults, elements=kind not in {"urlset", "index"})
    if kind not in {"urlset", "index"}:
        return Document(kind, data)
    return Document(kind, data, flat(data, scoped=bool(verdict.elements)))


def _report_namespaces(found: Namespaces, faults: Faults, *, elements: bool) -> None:
    """Add the namespace faults of a document.

    elements: False if the prefixes of elements are reported from the scan of the document.
    """
    for reason, fault in found.declarations.items():
        faults.add("namespace-declaration", at=fault.at, example=fault.written, count=fault.times, detail=reason)
    undeclared = [*found.attributes.items(), *(found.elements.items() if elements else ())]
    for prefix, fault in undeclared:
        faults.add("prefix-undeclared", at=fault.at, example=fault.written, count=fault.times, detail=prefix)


def _salvaged(data: bytes, kind: Kind, prefix: bytes, root: bytes) -> bytes:
    """Return the complete entries of a truncated document."""
    entry = {"urlset": b"url", "index": b"sitemap", "rss": b"item", "atom": b"entry"}.get(kind, b"")
    close = b"</" + prefix + entry + b">"
    last = data.rfind(close)
    if last < 0:
        return b""
    ending = b"</channel></rss>" if kind == "rss" else b"</" + prefix + root + b">"
    return data[: last + len(close)] + ending


def _utf8(data: bytes, faults: Faults, charset: str, *, xml: bool) -> bytes:
    """Return the data in UTF-8; without byte order mark, and without XML declaration if `xml`."""
    said = {"the Content-Type header": charset}
    blanked = 0
    for mark, codec in _BOMS:
        if data.startswith(mark):
            said["the byte order mark"] = codec
            if codec == "utf-8":
                faults.add("bom", line=1)
                blanked = 3 if xml else 0
                data = b" " * blanked + data[3:]
            else:
                faults.add("not-utf8", line=1, detail=f"it is encoded as {codec.upper()}")
                data = data.decode(codec, "replace").encode()
            break
    if xml and (declaration := _DECLARATION.match(data)):
        if declaration.start(1) > blanked:
            faults.add("leading-space", line=1, example=_head(data))
        if encoding := _ENCODING.search(declaration[1]):
            said["the XML declaration"] = name = encoding[1].decode()
            if name.lower() == "utf8":
                faults.add("encoding-name", line=1, example=_head(declaration[1]))
            elif _encoding(name) == "utf-8" and name.lower() not in _UTF8:
                faults.add("not-utf8", line=1, detail=f"it declares {name}")  # which only Python takes for UTF-8
            elif name.lower() != "utf-8" and not data.isascii() and _encoding(name) == "utf-8":
                faults.add("not-utf8", line=1, detail=f"it declares {name}, and has other characters")
        begin, stop = declaration.span(1)
        problem = judge(declaration[1] + b"<r/>")
        if isinstance(problem, Mistake):
            faults.add("xml-declaration", line=1, example=_head(declaration[1]), detail=problem.message)
        data = data[:begin] + declaration[1].translate(_BLANK) + data[stop:]
    data = _decoded(data, said, faults)
    try:
        data.isascii() or data.decode()
    except UnicodeDecodeError as error:
        line, column = Lines(data).place(error.start)
        bad = data[error.start : error.start + 4].hex(" ")
        faults.add("not-utf8", line=line, example=_around(data, error.start), detail=f"bytes {bad} at column {column}")
        data = data.decode(errors="replace").encode()
    return data


def _decoded(data: bytes, said: dict[str, str], faults: Faults) -> bytes:
    """Return the data in UTF-8 if only its declaration names another encoding; those that differ are reported.

    `said`: who names which encoding. The byte order mark is stronger than the header, and this than the declaration
    (RFC 7303, section 3).
    """
    names = {who: _encoding(name) for who, name in said.items() if name}
    if set(names) == {"the Content-Type header"} and not data.isascii() and _is_utf8(data):
        names["the file"] = "utf-8"
    if len(set(names.values())) > 1:
        others = [f"{who} says {said.get(who) or name}" for who, name in names.items()]
        faults.add("charset-conflict", line=1, detail=", ".join(others))
    declared = said.get("the XML declaration", "")
    if names.get("the byte order mark") == "utf-8" != names.get("the XML declaration", "utf-8"):
        faults.add("not-utf8", line=1, detail=f"it declares {declared}")  # a fatal error to XML 1.0, section 4.3.3
    if "the byte order mark" in names or "utf-8" in {names.get("the Content-Type header"), _encoding(declared)}:
        return data
    if declared:
        faults.add("not-utf8", line=1, detail=f"it declares {declared}")
        with suppress(ValueError):  # its bytes are in no encoding then
            text = decoded(data, declared)
            return data if text is None else text.encode()
    return data


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _encoding(name: str) -> str:
    """Return the usual name of an encoding; ASCII is UTF-8, and UTF-16 is one whatever the order of its bytes."""
    usual = codec_of(name or "utf-8")
    if usual is None:
        return name.lower()
    if name.lower() in _UTF8:
        return "utf-8"
    return "utf-16" if usual in ("utf-16-le", "utf-16-be") else usual


def _head(data: bytes) -> str:
    return data.lstrip()[:80].decode(errors="replace")


def _around(data: bytes, at: int) -> str:
    """Return the text of the line before an offset, and a little after it."""
    begin = max(data.rfind(b"\n", 0, at) + 1, at - 80)
    stop = data.find(b"\n", at, at + 40)
    return data[begin : stop if stop >= 0 else at + 40].decode(errors="replace").strip()
