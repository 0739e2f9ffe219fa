"""A second implementation of robots.txt for tests: rule by rule and byte by byte, as Google documents its parser.

It shares no code with the product. Escapes are compared as written, as by Google's parser.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_AGENT = (b"user-agent", b"useragent", b"user agent")
_DISALLOW = (b"disallow", b"dissallow", b"dissalow", b"disalow", b"diasllow", b"disallaw")


def may_fetch(robots_txt: bytes, agent: str, path: str) -> bool:
    """Return whether an agent may fetch a path, which is percent-encoded."""
    own, everyone = _Verdict(), _Verdict()
    in_own = in_everyone = has_own = ruled = False
    for name, value in _fields(robots_txt):
        if name.startswith(_AGENT):
            if ruled:
                in_own = in_everyone = ruled = False
            token = re.split(rb"[^A-Za-z_-]", value)[0].decode()
            in_everyone |= value.split()[:1] == [b"*"]
            in_own |= token.lower() == agent.lower()
            has_own |= in_own
        elif in_own or in_everyone:
            if name.startswith(b"allow"):
                ruled = True
                (own if in_own else everyone).allow(path, _escaped(value))
            elif name.startswith(_DISALLOW):
                ruled = True
                (own if in_own else everyone).disallow(path, _escaped(value))
    return (own if has_own else everyone).allows


@dataclass
class _Verdict:
    """The longest rules that matched so far."""

    longest: dict[bool, int] = field(default_factory=lambda: {True: 0, False: 0})

    @property
    def allows(self) -> bool:
        return self.longest[True] >= self.longest[False]

    def allow(self, path: str, pattern: str) -> None:
        self._take(path, pattern, allows=True)
        folder, slash, page = pattern.rpartition("/")
        if slash and page.startswith("index.htm"):
            self._take(path, f"{folder}/$", allows=True)

    def disallow(self, path: str, pattern: str) -> None:
        self._take(path, pattern, allows=False)

    def _take(self, path: str, pattern: str, *, allows: bool) -> None:
        if _matches(path, pattern):
            self.longest[allows] = max(self.longest[allows], len(pattern))


def _fields(robots_txt: bytes) -> list[tuple[bytes, bytes]]:
    found = []
    for line in robots_txt.removeprefix(b"\xef\xbb\xbf").replace(b"\r", b"\n").split(b"\n"):
        text = line.split(b"#")[0].strip(b" \t\v\f")
        if b":" not in text and len(text.split()) == 2:
            text = b":".join(text.split())
        name, colon, value = text.partition(b":")
        if colon:
            found.append((name.strip().lower(), value.strip(b" \t\v\f")))
    return found


def _escaped(value: bytes) -> str:
    """Return a pattern in ASCII, escapes in upper case."""
    text = "".join(chr(byte) if byte < 0x80 else f"%{byte:02X}" for byte in value)
    return re.sub("%[0-9A-Fa-f]{2}", lambda escape: escape[0].upper(), text)


def _matches(path: str, pattern: str) -> bool:
    """Return whether a pattern matches a path from its beginning, by tracking all possible positions."""
    places = {0}
    for number, char in enumerate(pattern, 1):
        if char == "$" and number == len(pattern):
            return len(path) in places
        if char == "*":
            places = set(range(min(places), len(path) + 1))
        else:
            places = {place + 1 for place in places if path[place : place + 1] == char}
        if not places:
            return False
    return True
