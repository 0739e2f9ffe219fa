"""robots.txt: which URLs it disallows, and our own marked block of `Sitemap:` lines in it.

Protego decides about a URL. It is asked only about those that some `Disallow` could match, which is
found out for whole columns; where no rule applies, that is nearly free.

A block belongs to one site file and bears its name, so several site files can share a robots.txt:

    # sitemap_etl shop begin
    Sitemap: https://shop.example/sitemap.xml
    # sitemap_etl shop end

Everything outside the block is kept byte for byte.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Sequence
from typing import Final
from urllib.parse import quote, unquote

import numpy as np
import pyarrow as pa
from protego import Protego

from sitemap_etl import limits
from sitemap_etl.errors import Refused
from sitemap_etl.urls.patterns import Expression, matched

_PROBE: Final = "https://host.invalid"
_UNRESERVED: Final = re.compile(r"[A-Za-z0-9\-._~]")
_DAMAGED: Final = "\ufffd"
_BREAK: Final = re.compile(rb"\r\n|\n|\r")
_LINE_END: Final = re.compile(r"\r\n|\n|\r")
_NO_BREAKS: Final = str.maketrans(
    {"\v": " ", "\f": " ", **{char: quote(char) for char in "\x1c\x1d\x1e\x85\u2028\u2029"}}
)
"""What ends a line to Python, and so to Protego, but not in a robots.txt; "\v" and "\f" are blanks."""
_LONE: Final = re.compile("%(?![0-9A-Fa-f]{2})")
"""A percent sign that escapes nothing."""
_MARKED: Final = "# written by run "
_BEGINS: Final = re.compile(r"(?:^|(?<=\r))# sitemap_etl ([^\r\n]+) begin\s*?(?=\r|$)", re.MULTILINE)
_LINE: Final = re.compile(rb"[^\r\n]*(?:\r\n|\n|\r|\Z)")


class RobotsRules:
    """What a robots.txt says to one crawler, ready to be asked about columns of URLs.

    `agent`: a product token such as "Googlebot"; "*" are the rules for everyone. Text that is not UTF-8
    is read with replacement characters. A file longer than 500 KiB is read to its end.
    """

    def __init__(self, robots_txt: bytes, agent: str = "*") -> None:
        text = _rules(robots_txt)
        self.agent = agent
        self._protego = Protego.parse(text)
        self._candidates = tuple(
            expression for value in _disallow_values(text, agent) for expression in _superset(value)
        )

    def disallowed(self, locs: pa.Array | pa.ChunkedArray, *, most: int | None = None) -> pa.BooleanArray:
        """For each canonical URL whether it may not be fetched. A null is not disallowed.

        Same answer for every row as `CrawlRules` gives, which is Protego's. `most` bounds rows times rules, where a
        file of thousands of rules may be anybody's; rows beyond are not disallowed.
        """
        mask = np.asarray(matched(locs, self._candidates))
        if not mask.any():
            return pa.array(mask)
        at = np.flatnonzero(mask)
        if most is not None:
            at = at[: max(1, most // len(self._candidates))]
            mask = np.zeros(len(mask), bool)
        urls = locs.take(pa.array(at)).to_pylist()
        mask = mask.copy()
        mask[at] = [not self._protego.can_fetch(url, self.agent) for url in urls]
        return pa.array(mask)


class CrawlRules:
    """What a robots.txt says to whoever asks for single URLs. Text that is not UTF-8 is read as in `RobotsRules`."""

    def __init__(self, robots_txt: bytes) -> None:
        self._protego = Protego.parse(_rules(robots_txt))

    def allows(self, url: str, agent: str) -> bool:
        """Whether this agent (a product token such as "Googlebot") may fetch a URL."""
        return bool(self._protego.can_fetch(url, agent))

    def delay(self, agent: str) -> float:
        """The seconds that it wants between two requests of this agent; 0 where it says nothing."""
        return float(self._protego.crawl_delay(agent) or 0.0)


def disallowed(locs: pa.Array | pa.ChunkedArray, robots_txt: bytes, agent: str = "*") -> pa.BooleanArray:
    """For each canonical URL whether this robots.txt disallows it to the agent. A null is not disallowed."""
    return RobotsRules(robots_txt, agent).disallowed(locs)


def lines_of(robots_txt: bytes) -> list[str]:
    """The lines of a robots.txt, without their ends: CR, LF or both, and nothing else (RFC 9309, 2.2)."""
    return _LINE_END.split(robots_txt.decode("utf-8-sig", "replace"))


def _text(robots_txt: bytes) -> str:
    """The text whose lines are the same to everyone."""
    return "\n".join(line.translate(_NO_BREAKS) for line in lines_of(robots_txt))


def _rules(robots_txt: bytes) -> str:
    """The text that rules are read from. A "%" that escapes nothing is meant as itself, as "%25" in a URL is.

    Protego would take "/%" as the beginning of every path that begins with an escape.
    """
    return _LONE.sub("%25", _text(robots_txt))


def _disallow_values(text: str, agent: str) -> list[str]:
    """The values of all `Disallow` lines that hold for the agent, and perhaps some that Protego doesn't see as such.

    Which groups hold for it, and which misspelt fields count, is asked of Protego itself: in each group,
    the first line of a field is given a path of its own, and can that path be fetched? Lines of one
    field in one group fare alike, so the rest of them are left out.
    """
    lines: list[str] = []
    probes: dict[tuple[int, str], list[str]] = {}
    group = 0
    for whole in text.splitlines():
        line = whole.partition("#")[0].strip()
        if line.lower().startswith("user"):
            group += 1
            lines.append(line)
            continue
        field, value = _parted(line)
        if not value:
            lines.append(line)  # "Disallow:" allows all, but it does end a list of agents
            continue
        key = (group, field.lower())
        if key not in probes:
            lines.append(f"{field}: {_probe(len(probes))}")
            probes[key] = []
        probes[key].append(value)
    asked = Protego.parse("\n".join(lines))
    return [
        value
        for number, values in enumerate(probes.values())
        if not asked.can_fetch(_PROBE + _probe(number), agent)
        for value in values
    ]


def _parted(line: str) -> tuple[str, str]:
    """Field and value; the colon may be missing, and then the first word is the field."""
    field, colon, value = line.partition(":")
    words = line.split()
    if colon and len(field.split()) == 1:
        return field.strip(), value.strip()
    return (words[0], " ".join(words[1:])) if words else ("", "")


def _probe(number: int) -> str:
    return f"/probe-{number}/"


def _superset(value: str) -> list[Expression]:
    """Expressions that match every canonical URL which Protego may match by this value, and few more.

    Protego compares decoded spellings: "," and "%2C" are alike to it, "/" and "%2F" are not.
    """
    if value.startswith(("https://", "http://")):
        value = f"/{value}"
    anchored = value.endswith("$")
    ends = [value[:-1], value] if anchored else [value]  # a "$" is also taken literally
    return [_one(end, anchored=anchored and end is ends[0]) for end in ends]


def _one(value: str, *, anchored: bool) -> Expression:
    value = re.sub("%(2[Ff]|25)", lambda kept: f"%25{kept[1].upper()}", value)
    prefix, parts, plain = "", [], True
    for char in unquote(value, errors="replace"):
        if char in {"*", _DAMAGED}:
            literal, regex = "", ".*"
        elif char == "/" or _UNRESERVED.match(char):
            literal, regex = char, re.escape(char)
        elif char == "%":
            literal, regex = "", "%(?:25)?"
        elif char.isascii():
            literal, regex = "", f"(?:{re.escape(char)}|%{ord(char):02X})"
        else:
            literal = regex = "%" + char.encode("utf-8", "replace").hex("%").upper()
        if plain and literal:
            prefix += literal
        else:
            plain = False
            parts.append(regex)
    return Expression(prefix, "".join(parts) + ("$" if anchored else ""))


def sitemaps(robots_txt: bytes) -> list[str]:
    """The addresses of the `Sitemap:` lines, in their order, whoever wrote them."""
    return list(Protego.parse(_text(robots_txt)).sitemaps)


def named_in(robots_txt: bytes) -> dict[str, frozenset[str]]:
    """The site files that have a block of ours, and the sitemaps that each names."""
    names = dict.fromkeys(_BEGINS.findall(_text(robots_txt)))
    return {
        name: frozenset(sitemaps(b"".join(robots_txt[begin:end] for begin, end in _spans(robots_txt, name))))
        for name in names
    }


def with_block(existing: bytes | None, name: str, sitemaps: Sequence[str], *, mark: str | None = None) -> bytes:
    """The robots.txt with the block of `name` naming these sitemaps, and everything else as it was.

    `mark`: a comment in the block, which tells two writes of the same lines apart.

    A block that is there is replaced in its place; a new one goes to the end, in the line breaks of the
    file, and is left without a final one where the file is. Where it would end beyond 500 KiB, which
    readers don't read, it goes to the top. No sitemaps: as `without_block`.

    Raises `Refused` where the file is UTF-16, or where the block at the top would push a rule that is
    read now beyond 500 KiB; `ValueError` for a name or an address that is not one line.
    """
    for value in (name, *sitemaps, *([] if mark is None else [mark])):
        if not value or value != value.strip() or not value.isprintable():
            raise ValueError(f"{value!r} can't stand in a robots.txt: expected one line of text")
    existing = existing or b""
    if existing.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise Refused("robots.txt is UTF-16, which crawlers don't read. Save it as UTF-8; nothing was changed.")
    spans = _spans(existing, name)
    rest = without_block(existing, name)
    if not sitemaps:
        return rest
    line_break = found[0] if (found := _BREAK.search(existing)) else b"\n"
    lines = [f"# sitemap_etl {name} begin", *(f"Sitemap: {loc}" for loc in sitemaps)]
    lines += [*([] if mark is None else [f"{_MARKED}{mark}"]), f"# sitemap_etl {name} end"]
    block = line_break.join(line.encode() for line in lines)
    placed, end = _placed(existing, rest, spans, block, line_break)
    lost = _lost(existing, placed)
    if end > limits.ROBOTS_BYTES or lost:
        bom = codecs.BOM_UTF8 if rest.startswith(codecs.BOM_UTF8) else b""
        placed, end = bom + block + line_break + rest[len(bom) :], len(bom + block)
        lost = _lost(existing, placed)
    if end > limits.ROBOTS_BYTES or lost:
        raise Refused(
            f"robots.txt is {len(rest):,} bytes, and crawlers read {limits.ROBOTS_BYTES:,}. The sitemap lines of "
            f"{name} would not be read at its end, and at its top they would push {lost:,} rules out of what is read. "
            "Shorten robots.txt, or add the lines yourself; nothing was changed."
        )
    return placed


def without_block(existing: bytes, name: str) -> bytes:
    """The robots.txt without the block of `name`: byte for byte what it was before `with_block`."""
    return _cut(existing, 0, _spans(existing, name))


def without_blocks(existing: bytes) -> bytes:
    """The robots.txt without any block of ours: what it says of which pages may be fetched is all there."""
    for name in sorted(named_in(existing)):
        existing = without_block(existing, name)
    return existing


def without_mark(existing: bytes, name: str) -> bytes:
    """The robots.txt without the marks in the block of `name`."""
    kept, at = [], 0
    for begin, end in _spans(existing, name):
        lines = _LINE.findall(existing[begin:end])
        kept += [existing[at:begin], *(line for line in lines if not line.startswith(_MARKED.encode()))]
        at = end
    return b"".join([*kept, existing[at:]])


def unread_rules(robots_txt: bytes) -> list[str]:
    """The lines, comments apart, that don't lie wholly in the 500 KiB which crawlers read."""
    at, unread = 0, []
    for line in _LINE.findall(robots_txt):
        at += len(line)
        rule = line.partition(b"#")[0].strip()
        if rule and at - (len(line) - len(line.rstrip())) > limits.ROBOTS_BYTES:
            unread.append(rule.decode("utf-8", "replace"))
    return unread


def _lost(before: bytes, after: bytes) -> int:
    """How many more rules are not read any more."""
    if len(after) <= limits.ROBOTS_BYTES:
        return 0
    return max(0, len(unread_rules(after)) - len(unread_rules(before)))


def _placed(
    existing: bytes, rest: bytes, spans: list[tuple[int, int]], block: bytes, line_break: bytes
) -> tuple[bytes, int]:
    """The file with the block where it was or at the end, and where the block ends."""
    if spans:
        begin, end = spans[0]
        old = existing[begin:end]
        # The breaks around the old block stay those that they were.
        before = found[0] if (found := _BREAK.match(old)) else b""
        after = found[0] if (found := re.search(rb"(?:\r\n|\n|\r)\Z", old)) else b""
        tail = _cut(existing, end, spans[1:])
        placed = existing[:begin] + before + block + after + tail
        return placed, begin + len(before) + len(block)
    if not rest or rest == codecs.BOM_UTF8 or rest.endswith((b"\n", b"\r")):
        return rest + block + line_break, len(rest) + len(block)
    return rest + line_break + block, len(rest) + len(line_break) + len(block)


def _cut(existing: bytes, at: int, spans: list[tuple[int, int]]) -> bytes:
    """What follows `at`, without these spans."""
    kept = []
    for begin, end in spans:
        kept.append(existing[at:begin])
        at = end
    kept.append(existing[at:])
    return b"".join(kept)


def _spans(existing: bytes, name: str) -> list[tuple[int, int]]:
    """Where blocks of this name lie, from their first byte to the one after their last.

    A block at the very end without a line break has taken the break before it along, as `with_block`
    put it there. One whose end mark is gone ends after the Sitemap lines that follow its beginning.
    """
    first, last = (f"# sitemap_etl {name} {mark}".encode() for mark in ("begin", "end"))
    spans: list[tuple[int, int]] = []
    at = len(codecs.BOM_UTF8) if existing.startswith(codecs.BOM_UTF8) else 0
    begin: int | None = None
    sitemap_end = 0
    following = False
    for line in _LINE.findall(existing, at):
        text = line.strip()
        if text == first:
            if begin is not None:
                spans.append((begin, sitemap_end))
            begin, sitemap_end, following = at, at + len(line), True
        elif text == last and begin is not None:
            spans.append((begin, at + len(line)))
            begin = None
        elif begin is not None and following and text.lower().startswith(b"sitemap:"):
            sitemap_end = at + len(line)
        else:
            following = False
        at += len(line)
    if begin is not None:
        spans.append((begin, sitemap_end))
    if spans and spans[-1][1] == len(existing) and not existing.endswith((b"\n", b"\r")):
        begin, end = spans[-1]
        before = re.search(rb"(?:\r\n|\n|\r)\Z", existing[:begin])
        spans[-1] = (begin - len(before[0]) if before else begin, end)
    return spans
