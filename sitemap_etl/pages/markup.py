"""Read an HTML page: its robots meta tags, canonical link, title and words.

lxml parses it, so that the result is the same on every Python. As in a browser, an element that can't be in the head
ends it. The parser gets a bounded beginning of the page in small pieces, and none after too many open elements: each
closing tag searches them. This bounds its work on broken markup.
"""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Final

from sitemap_etl.web import decoded

_PIECE: Final = 8_192
"""Bytes in one piece for the parser."""
_UNFINISHED: Final = 65_536
"""Characters of a tag or a comment that is never closed: no page has one, and the parser starts it again each time."""
_WORDS: Final = 20_000
"""Maximum number of words of a page."""
_VALUES: Final = 50
"""Maximum number of meta tags, and of links."""
_UNSEEN: Final = frozenset({"script", "style", "template", "noscript", "svg", "textarea", "iframe", "object"})
_AROUND: Final = frozenset({"nav", "header", "footer", "aside", "form"})
_VOID: Final = frozenset({"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "wbr"})
_WORD: Final = re.compile(r"\w+")
_REFRESH: Final = re.compile(r"\s*[\d.]+\s*[;,]\s*(?:url\s*=\s*)?(\S.*)", re.IGNORECASE | re.DOTALL)
"""Content of a refresh that leads to another address (HTML, section 4.2.5.3)."""
_SHINGLE: Final = 3
"""Number of neighboring words that are compared as one."""


@dataclass
class Markup:
    """Content of a page.

    robots: names and contents of its robots meta tags.
    canonicals: addresses of its canonical links.
    refresh: the address to which it redirects browsers.
    words: its text, without the words in `around`.
    around: the words in its navigation, header, footer, sidebars and forms.
    """

    robots: list[tuple[str, str]] = field(default_factory=list)
    canonicals: list[str] = field(default_factory=list)
    base: str = ""
    refresh: str = ""
    title: str = ""
    words: list[str] = field(default_factory=list)
    around: list[str] = field(default_factory=list)

    def shingles(self, without: frozenset[str]) -> frozenset[tuple[str, ...]]:
        """Return all runs of neighboring words on the page, without the words in `without`."""
        words = [word for word in (*self.words, *self.around) if word not in without]
        return frozenset(zip(*(words[at:] for at in range(_SHINGLE)), strict=False))


def words_of(text: str) -> list[str]:
    """Return the words of a text in lower case."""
    return [found.lower() for found in _WORD.findall(text)]


def read_markup(body: bytes, content_type: str) -> Markup:
    """Return the facts of a page, as far as `body` goes."""
    reader = _Reader()
    text = _text(body, content_type)
    for begin in range(0, len(text), _PIECE):
        try:
            reader.feed(text[begin : begin + _PIECE])
        except AssertionError:  # the parser's message on a marked section without a name
            break
        if len(reader.rawdata) > _UNFINISHED and not reader.cdata_elem:
            break
    found = reader.found
    found.title = " ".join(found.title.split())
    return found


def is_html(body: bytes, content_type: str) -> bool:
    """Return True if an answer is an HTML page, by its type, or by its beginning if it has no type."""
    named = content_type.partition(";")[0].strip().lower()
    if named:
        return named in ("text/html", "application/xhtml+xml")
    return body[:1_000].lstrip(b"\xef\xbb\xbf \t\r\n").lower().startswith((b"<!doctype html", b"<html"))


def _text(body: bytes, content_type: str) -> str:
    for mark, name in (
        (codecs.BOM_UTF8, "utf-8-sig"),
        (codecs.BOM_UTF16_LE, "utf-16"),
        (codecs.BOM_UTF16_BE, "utf-16"),
    ):
        if body.startswith(mark):
            return body.decode(name, "replace")
    _, found, rest = content_type.lower().partition("charset=")
    if not found:
        _, found, rest = body[:1_024].decode("ascii", "replace").lower().partition("charset=")
    name = re.split(r"[\s;>\"'/]", rest.lstrip("\"'"), maxsplit=1)[0] if found else "utf-8"
    text = decoded(body, name, "replace")
    return body.decode("utf-8", "replace") if text is None else text


class _Inside:
    """Outermost open element of some kinds, or "". Within it, only elements of the same kind are counted."""

    def __init__(self) -> None:
        self.tag = ""
        self._depth = 0

    def begin(self, tag: str) -> None:
        if not self.tag or tag == self.tag:
            self.tag = tag
            self._depth += 1

    def end(self, tag: str) -> None:
        if tag == self.tag:
            self._depth -= 1
            self.tag = tag if self._depth else ""


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.found = Markup()
        self._unseen = _Inside()
        self._around = _Inside()
        self._body = False
        self._title = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _UNSEEN:
            self._unseen.begin(tag)
        if self._unseen.tag:
            return
        values = {name: value or "" for name, value in reversed(attrs)}  # of a repeated attribute the first holds
        if tag in _AROUND:
            self._around.begin(tag)
        elif tag == "body":
            self._body = True
        elif tag == "title":
            self._title = not self._body and not self.found.title
        elif tag == "base" and not self.found.base:
            self.found.base = values.get("href", "")
        elif tag == "meta":
            self._meta(values)
        elif tag == "link":
            self._link(values)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in _VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        self._unseen.end(tag)
        self._around.end(tag)
        if tag == "head":
            self._body = True
        elif tag == "title":
            self._title = False

    def handle_data(self, data: str) -> None:
        if self._unseen.tag:
            return
        if self._title:
            self.found.title += data[:1_000]
            return
        words = self.found.around if self._around.tag else self.found.words
        if len(words) < _WORDS:
            words += words_of(data)[: _WORDS - len(words)]

    def _meta(self, values: dict[str, str]) -> None:
        name = values.get("name", "").strip().lower()
        if name and "content" in values and len(self.found.robots) < _VALUES and name.endswith(("robots", "bot")):
            self.found.robots.append((name, values["content"]))
        if values.get("http-equiv", "").strip().lower() == "refresh" and not self.found.refresh:
            sent = _REFRESH.match(values.get("content", ""))
            self.found.refresh = sent[1].strip("\"' ") if sent else ""

    def _link(self, values: dict[str, str]) -> None:
        # In the body it is not a link of the page, but can be a visitor's text.
        wanted = "canonical" in values.get("rel", "").lower().split() and not self._body
        if wanted and values.get("href", "").strip() and len(self.found.canonicals) < _VALUES:
            self.found.canonicals.append(values["href"].strip())
