"""The canonical spelling of one URL, by RFC 3986 section 6.2.2 and 6.2.3: syntax only, nothing guessed.

    scheme, host   lower case; the host by UTS-46, non-transitional, as browsers do
    port           dropped if it is the scheme's own
    path           dot segments removed; an empty one is "/"
    %xx            upper case; decoded if it is an unreserved character; a stray "%" is "%25"
    the rest       what RFC 3986 doesn't allow is percent-encoded as UTF-8; the fragment is dropped

The result is ASCII, and its own canonical spelling. Reasons are keys of `rules.REASONS`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import Final

import ada_url

from sitemap_etl import limits
from sitemap_etl.urls import parameters
from sitemap_etl.urls.placeholders import is_placeholder
from sitemap_etl.urls.values import Values, of_file, with_slashes

_WIDE_SPACES: Final = "".join(c for c in map(chr, range(0x80, 0x3001)) if c.isspace()) + "\u200b\ufeff"
_TRIM: Final = " \t\n\v\f\r\x1c\x1d\x1e\x1f" + _WIDE_SPACES
"""Taken off both ends: white space of any kind, byte order marks and zero-width spaces."""

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_INVISIBLE: Final = re.compile(
    "[\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u2064\u2066-\u206f\ufeff\ufff9-\ufffb]"
)
"""Never meant in an address. U+200C and U+200D are: Persian, Indic scripts and emoji need them."""
_BROKEN: Final = re.compile(
    "[\ufffd\ufdd0-\ufdef" + "".join(f"{chr(p << 16 | 0xFFFE)}{chr(p << 16 | 0xFFFF)}" for p in range(17)) + "]"
)

_SURROGATE: Final = re.compile("[\ud800-\udfff]")

CARE: Final = f"[\x80-\x9f]|{_INVISIBLE.pattern}|{_BROKEN.pattern}|^[ {_WIDE_SPACES}]|[ {_WIDE_SPACES}]$"
"""Finds, in RE2 too, text that has something to be trimmed or rejected for; controls in ASCII apart."""

_PARTS: Final = re.compile(r"(?:([A-Za-z][A-Za-z0-9+.\-]*):)?(?://([^/?#]*))?([^?#]*)(\?[^#]*)?")
"""RFC 3986 appendix B, with the scheme's grammar: scheme, authority, path, query with its "?"."""
_AUTHORITY: Final = re.compile(r"(\[[^\[\]]*\]|[^:\[\]]*)(?::(.*))?", re.DOTALL)
_PORT: Final = re.compile("0*([0-9]{0,5})")
_LAST_PORT: Final = 65_535
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_PLAIN_HOST: Final = re.compile(r"(?:[a-z0-9-]+\.)*[a-z][a-z0-9-]*")
"""What UTS-46 leaves as it is and no browser takes for an IP address (the last label begins with a letter)."""
_HOST: Final = re.compile(r"(?:[a-z0-9_-]{1,63}\.)*[a-z0-9_-]{1,63}\.?|\[[0-9a-f:.]+\]")
_HOST_LENGTH: Final = 253
"""Characters of a domain name (RFC 1035 allows 255 octets on the wire)."""

_ALLOWED: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~!$&'()*+,;=:@/?%"
_ENCODED: Final = re.compile(r"[^A-Za-z0-9\-._~!$&'()*+,;=:@/?%]+")
"""What path and query may not hold as it is: RFC 3986 pchar, "/" and "?" are left, "%" is looked at next."""
_ODD_ESCAPE: Final = re.compile("%(?:2[DE]|3[0-9]|4[1-9A-F]|5[0-9AF]|6[1-9A-F]|7[0-9AE]|(?![0-9A-F]{2}))")
"""A "%" that is stray, or begins a triple in lower case or of an unreserved character."""
_ESCAPE: Final = re.compile("%(?:[0-9A-Fa-f]{2})?")
_UNRESERVED: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_SPELLING: Final = {"%": "%25"} | {
    "%" + hi + lo: chr(code) if (code := int(hi + lo, 16)) in _UNRESERVED else f"%{code:02X}"
    for hi in "0123456789abcdefABCDEF"
    for lo in "0123456789abcdefABCDEF"
}


_ORIGINS_KEPT: Final = 10_000
"""Origins remembered at a time: a source of foreign hosts doesn't fill the memory."""


class Rejected(ValueError):
    """The URL can't be listed; its only argument is the reason, a key of REASONS."""


def origin(text: str) -> str:
    """Return the canonical origin (scheme, host, port if not the scheme's own) of an http(s) URL, no slash at its end.

    Raise `ValueError` with the reason.
    """
    return Normalizer().parse(text)[0]


def canonical_url(text: str) -> str:
    """Return the canonical form of an absolute URL on any host. Raise `ValueError` with the reason."""
    return Normalizer().normalize(text)


def spell(rest: str) -> str:
    """Return path and query with every character encoded that must be, and no other."""
    if not rest.isascii() or rest.encode().translate(None, _ALLOWED):  # several times as fast as the expression
        rest = _ENCODED.sub(_encode, rest)
    if "%" in rest and _ODD_ESCAPE.search(rest):
        rest = _ESCAPE.sub(_respell, rest)
    return rest


def _encode(run: re.Match[str]) -> str:
    return "%" + run[0].encode().hex("%").upper()


def _respell(triple: re.Match[str]) -> str:
    return _SPELLING[triple[0]]


def remove_dot_segments(path: str) -> str:
    """Remove dot segments from a path that begins with a slash (RFC 3986, section 5.2.4)."""
    kept: list[str] = []
    segments = path.split("/")[1:]
    for segment in segments:
        if segment == "..":
            if kept:
                kept.pop()
        elif segment != ".":
            kept.append(segment)
    if segments[-1] in {".", ".."}:
        kept.append("")
    return "/" + "/".join(kept)


def canonical_host(host: str) -> str:
    """Return the host in lower case, by UTS-46 non-transitional, IP addresses in WHATWG form. Raise `Rejected`."""
    lower = host.lower() if host.isascii() else host
    if _PLAIN_HOST.fullmatch(lower) is None or "xn--" in lower:
        if "\\" in host:  # would end the host for WHATWG
            raise Rejected("invalid host")
        try:
            lower = ada_url.URL(f"https://{host}/").hostname
        except ValueError:
            raise Rejected("invalid host") from None
    if _HOST.fullmatch(lower) is None or len(lower) > _HOST_LENGTH:
        raise Rejected("invalid host")
    for label in lower.split("."):
        if label.startswith("xn--") and ada_url.idna_to_unicode(label) == label:
            raise Rejected("invalid host")  # not Punycode of anything that UTS-46 allows
    return lower


class Normalizer:
    """Spells URLs canonically one by one: for a site, or for URLs on any host (without one only absolute URLs).

    `column` and `bare` as for `values.Values`. `judges`: values that are not addresses are rejected. `foreign` counts
    the origins that were rejected for being neither `site` nor in `same_as`.
    """

    def __init__(
        self,
        site: str | None = None,
        same_as: Iterable[str] = (),
        strip: frozenset[str] = frozenset(),
        *,
        any_host: bool = False,
        column: str | None = None,
        bare: bool = True,
        judges: bool = True,
    ) -> None:
        self.site = site
        self._any_host = any_host or site is None
        self.foreign: Counter[str] = Counter()
        self._ours = frozenset((site, *same_as))
        self.hosts = frozenset(name for o in self._ours if o for name in (o.split("//")[1], *_names(_host_of(o))))
        hosts = {name for o in self._ours if o for name in _names(_host_of(o))}
        self.values = Values(hosts, column, bare=bare) if judges and site is not None else None
        if self.values is None:
            self.hosts = frozenset()
        self._without = parameters.remover(strip) if strip else None
        self._origins: dict[str, str] = {}
        self.bare = 0
        """Values without a leading slash that were joined to the site."""
        self.bare_example = ""

    def note_bare(self, count: int, example: str) -> None:
        """Count values without a leading slash that are joined to the site."""
        self.bare += count
        self.bare_example = self.bare_example or example

    def normalize(self, text: str) -> str:
        """Return the canonical URL. Raise `Rejected`."""
        found, rest = self.parse(text)
        rest = spell(rest)
        if self._without is not None:
            rest = self._without(rest)
        if "/." in rest:
            path, mark, query = rest.partition("?")
            rest = remove_dot_segments(path) + mark + query
        if len(found) + len(rest) > limits.LOC_LENGTH:
            raise Rejected("too long")
        return found + rest

    def parse(self, text: str) -> tuple[str, str]:
        """Return the canonical origin, and path and query as they are written. Raise `Rejected`."""
        text = text.strip(_TRIM)
        if not text.isprintable() or "\ufffd" in text:
            _check_characters(text)
        if "\\" in text:
            if is_placeholder(text):
                raise Rejected("placeholder")
            if self.values is not None and of_file(text, self.hosts):
                raise Rejected("file path")
            text = text if self.site is not None and self.values is None else with_slashes(text)
        end = text.find("/", text.find("://") + 3)
        start = text[:end] if end > 0 else ""
        found = self._origins.get(start)
        if found is None:
            start, found, rest = self._begin(text)
            if len(self._origins) > _ORIGINS_KEPT:
                self._origins.clear()
            if start:
                self._origins[start] = found
        else:
            rest = text[len(start) :].partition("#")[0]
        if not self._any_host and found != self.site:
            if found not in self._ours:
                self.foreign[found] += 1
                raise Rejected("foreign origin")
            found = str(self.site)
        if self.values is not None and (why := self.values.of_path(rest, ours=found in self._ours)):
            raise Rejected(why)
        return found, rest

    def _begin(self, text: str) -> tuple[str, str, str]:
        """Return scheme and authority as written ("" unless both are present), the origin, and path and query."""
        parts = _PARTS.match(text)
        assert parts is not None  # every group may be empty
        scheme, authority, path, query = parts.groups("")
        if parts[2] is None:
            if is_placeholder(text):
                raise Rejected("placeholder")
            if self.values is not None and not text.startswith("/") and (why := self.values.of_bare(text)):
                raise Rejected(why)
            return "", *self._relative(scheme, path, query)
        start = f"{scheme}://{authority}"
        if not scheme:
            if self.site is None:
                raise Rejected("not absolute")
            start, scheme = "", self.site.partition(":")[0]
        return start, _origin(scheme, authority), (path or "/") + query

    def _relative(self, scheme: str, path: str, query: str) -> tuple[str, str]:
        if scheme:
            if scheme.lower() in _DEFAULT_PORTS:
                raise Rejected("missing host")
            raise Rejected("scheme missing" if scheme.lower() in self.hosts else "not http or https")
        if not path and not query:
            raise Rejected("missing loc")
        if self.site is None:
            raise Rejected("not absolute")
        first = path.partition("/")[0]
        if first.lower().removesuffix(".") in self.hosts:
            raise Rejected("scheme missing")
        if ":" in first:
            raise Rejected("not http or https")
        if self.values is not None and not self.values.bare and not path.startswith("/"):
            raise Rejected("no leading slash")
        if path.startswith("/"):
            return self.site, path + query
        self.note_bare(1, path + query)
        return self.site, f"/{path}{query}"


def _host_of(found: str) -> str:
    return found.split("//")[1].rpartition("]")[2].partition(":")[0] or found.split("//")[1]


def _names(host: str) -> tuple[str, ...]:
    """Return a host, and the same with or without `www.`, also in its own script; an IP address has none."""
    other = host.removeprefix("www.") if host.startswith("www.") else f"www.{host}"
    names = (host, other) if _PLAIN_HOST.fullmatch(other) else (host,)
    return (*names, *(ada_url.idna_to_unicode(name) for name in names)) if "xn--" in host else names


def _check_characters(text: str) -> None:
    for pattern, reason in (
        (_CONTROL, "control character"),
        (_BROKEN, "broken character"),
        (_SURROGATE, "broken character"),
        (_INVISIBLE, "invisible character"),
    ):
        if pattern.search(text):
            raise Rejected(reason)


def _origin(scheme: str, authority: str) -> str:
    scheme = scheme.lower()
    if scheme not in _DEFAULT_PORTS:
        raise Rejected("not http or https")
    if "@" in authority:
        raise Rejected("user name or password")
    parts = _AUTHORITY.fullmatch(authority)
    if parts is None:
        raise Rejected("invalid host")
    host, port = parts[1], parts[2] or ""
    if not host:
        raise Rejected("missing host")
    digits = _PORT.fullmatch(port)
    if digits is None or int(digits[1] or 0) > _LAST_PORT:
        raise Rejected("invalid port")
    found = f"{scheme}://{canonical_host(host)}"
    number = int(digits[1] or 0)
    return found if port == "" or number == _DEFAULT_PORTS[scheme] else f"{found}:{number}"
