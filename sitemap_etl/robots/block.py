"""Our marked block of `Sitemap:` lines in a robots.txt.

A block has the name of its site, so several sites can share a robots.txt:

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

from sitemap_etl import limits
from sitemap_etl.errors import Refused
from sitemap_etl.robots.lines import LINE, lines_of, sitemaps

_BREAK: Final = re.compile(rb"\r\n|\n|\r")
_MARKED: Final = "# written by run "
_BEGINS: Final = re.compile(r"(?:^|(?<=\r))# sitemap_etl ([^\r\n]+) begin\s*?(?=\r|$)", re.MULTILINE)


def named_in(robots_txt: bytes) -> dict[str, frozenset[str]]:
    """Return the sitemaps in each block of ours, by the name of the site."""
    names = dict.fromkeys(_BEGINS.findall("\n".join(lines_of(robots_txt))))
    return {
        name: frozenset(sitemaps(b"".join(robots_txt[begin:end] for begin, end in _spans(robots_txt, name))))
        for name in names
    }


def with_block(existing: bytes | None, name: str, sitemaps: Sequence[str], *, mark: str | None = None) -> bytes:
    """Return the robots.txt with a block of `name` that lists these sitemaps. Everything else is unchanged.

    `mark`: a comment in the block, so that two writes of the same lines differ.

    An existing block is replaced in place. A new block is added at the end, with the line breaks of the file, and
    without a final one if the file has none. If it would end beyond the 500 KiB that crawlers read, it is added at the
    top. Without sitemaps, the block is removed.

    Raise `Refused` if the file is UTF-16, or if a block at the top would move a rule beyond the first 500 KiB. Raise
    `ValueError` if a name or an address is not one line.
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
    """Return the robots.txt without the block of `name`, byte for byte as before `with_block`."""
    return _cut(existing, 0, _spans(existing, name))


def without_blocks(existing: bytes) -> bytes:
    """Return the robots.txt without any block of ours. All rules for crawlers stay."""
    for name in sorted(named_in(existing)):
        existing = without_block(existing, name)
    return existing


def without_mark(existing: bytes, name: str) -> bytes:
    """Return the robots.txt without the marks in the block of `name`."""
    kept, at = [], 0
    for begin, end in _spans(existing, name):
        lines = LINE.findall(existing[begin:end])
        kept += [existing[at:begin], *(line for line in lines if not line.startswith(_MARKED.encode()))]
        at = end
    return b"".join([*kept, existing[at:]])


def unread_rules(robots_txt: bytes) -> list[str]:
    """Return the lines, except comments, that are not wholly in the 500 KiB that crawlers read."""
    at, unread = 0, []
    for line in LINE.findall(robots_txt):
        at += len(line)
        rule = line.partition(b"#")[0].strip()
        if rule and at - (len(line) - len(line.rstrip())) > limits.ROBOTS_BYTES:
            unread.append(rule.decode("utf-8", "replace"))
    return unread


def _lost(before: bytes, after: bytes) -> int:
    """Return the number of rules that crawlers read before, but not after."""
    if len(after) <= limits.ROBOTS_BYTES:
        return 0
    return max(0, len(unread_rules(after)) - len(unread_rules(before)))


def _placed(
    existing: bytes, rest: bytes, spans: list[tuple[int, int]], block: bytes, line_break: bytes
) -> tuple[bytes, int]:
    """Return the file with the block in its old position or at the end, and the position where the block ends."""
    if spans:
        begin, end = spans[0]
        old = existing[begin:end]
        # Keep the line breaks around the old block.
        before = found[0] if (found := _BREAK.match(old)) else b""
        after = found[0] if (found := re.search(rb"(?:\r\n|\n|\r)\Z", old)) else b""
        tail = _cut(existing, end, spans[1:])
        placed = existing[:begin] + before + block + after + tail
        return placed, begin + len(before) + len(block)
    if not rest or rest == codecs.BOM_UTF8 or rest.endswith((b"\n", b"\r")):
        return rest + block + line_break, len(rest) + len(block)
    return rest + line_break + block, len(rest) + len(line_break) + len(block)


def _cut(existing: bytes, at: int, spans: list[tuple[int, int]]) -> bytes:
    """Return the bytes from `at` on, without these spans."""
    kept = []
    for begin, end in spans:
        kept.append(existing[at:begin])
        at = end
    kept.append(existing[at:])
    return b"".join(kept)


def _spans(existing: bytes, name: str) -> list[tuple[int, int]]:
    """Return the positions of the blocks with this name: first byte, and the byte after the last.

    A block at the end of a file without a final line break includes the break before it, which `with_block` added. A
    block without an end mark ends after the Sitemap lines that follow its beginning.
    """
    first, last = (f"# sitemap_etl {name} {mark}".encode() for mark in ("begin", "end"))
    spans: list[tuple[int, int]] = []
    at = len(codecs.BOM_UTF8) if existing.startswith(codecs.BOM_UTF8) else 0
    begin: int | None = None
    sitemap_end = 0
    following = False
    for line in LINE.findall(existing, at):
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
