"""Values that are not addresses: header rows, markup, formulas, hosts without a scheme, several URLs in one cell.

Every rule looks at one value only, so that splits and order don't matter. Reasons are keys of `rules.REASONS`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

_MARKUP: Final = re.compile(r"(?:[-*+>]\s+|[*_]+)?(?:!?\[|[<{\uff1c]|&lt;).*", re.DOTALL | re.IGNORECASE)
_DOUBLE: Final = '"\u201c\u201d\u201e\u201f\u2033\u00ab\u00bb\u300c\u300d\u300e\u300f\u301d\u301e\uff02'
_SINGLE: Final = "'`\u00b4\u2018\u2019\u201a\u201b\u2032\u2039\u203a\uff07"
_QUOTED: Final = re.compile(
    rf"\".*|[{_DOUBLE}].*[{_DOUBLE}]|[{_SINGLE}].*[{_SINGLE}]|(&quot;|&#0?3[49];|&apos;).*\1", re.DOTALL | re.IGNORECASE
)
_FORMULA: Final = re.compile(r"=(?:[\s+@\-]*[^\W\d][\w.]*\s?\(|\").*", re.DOTALL)
_ROWS: Final = (
    "rows?|zeilen?|lignes?|filas?|rig(?:a|he)|linhas?|rijen|rader?|wiersz[ey]?|sat\u0131r|\u0159\u00e1d(?:ka|ky|ek)"
    "|\u0441\u0442\u0440\u043e\u043a[\u0430\u0438]?|\u0440\u044f\u0434(?:\u043e\u043a|\u043a\u0438|\u043a\u0456\u0432)"
    "|\u884c(?:\u8bb0\u5f55)?|\uac1c \ud589"
)
"""The word of psql and sqlcmd for rows, as they are translated."""
_ROW_COUNT: Final = re.compile(rf"\( ?[0-9][0-9,.]* ?(?:{_ROWS})(?: \w+)? ?\)", re.IGNORECASE)
_DASH: Final = "[-\u2010-\u2015\u2212\u2500-\u257f]+"
_DASHES: Final = re.compile(rf"[ +|]*{_DASH}(?:[ +|]+{_DASH})*[ +|]*")
_BARE: Final = (
    ("markup", _MARKUP),
    ("quoted", _QUOTED),
    ("formula", _FORMULA),
    ("row count", _ROW_COUNT),
    ("dashes", _DASHES),
)
_DRIVE: Final = re.compile(r"[A-Za-z]:\\")
_SPELLING: Final = r"[htps]{3,7}[ ]?"
"""Letters of a scheme, in any order and number."""
_SEVERAL: Final = r"[^?#]*[\s\x{00a0}\x{1680}\x{2000}-\x{200a}\x{202f}\x{205f}\x{3000},;|]https?:/"
"""White space or a separator, then an absolute URL, before the query (RE2; `_in_python` for `re`)."""


def _in_python(pattern: str) -> str:
    return re.sub(r"\\x\{([0-9a-f]+)\}", r"\\u\1", pattern)


class Values:
    """The rules of one column of addresses.

    `hosts`: of the site, without ports, in ASCII and in their own script. `column`: name of the column in its
    source; None if it is not known. `bare`: values without a leading slash are addresses.
    """

    def __init__(self, hosts: Iterable[str], column: str | None = None, *, bare: bool = True) -> None:
        names = "|".join(re.escape(host) for host in sorted(hosts))
        end = rf"(?:{names})\.?(?:[/:?#]|$)"
        self.column = column
        self.bare = bare
        self._repeated = re.compile(rf"/+[a-z][a-z0-9+.\-]*://{end}", re.IGNORECASE)
        self._misspelled = re.compile(rf"/+{_SPELLING}(?::/*|[;.,]?//+){end}", re.IGNORECASE)
        self._scheme = re.compile(rf"https?/{end}", re.IGNORECASE)
        self._several = re.compile(_in_python(_SEVERAL), re.IGNORECASE)
        self.suspicious: Final = (
            rf"(?i)^(?:(?:https?://[^/?#]*)?/+(?:{_SPELLING}(?::/*|[;.,]?//+)|[a-z][a-z0-9+.\-]*://)"
            rf"|{_SPELLING}[;.,]?//+){end}|^{_SEVERAL}"
        )
        """Finds, in RE2, every value for which `of_path` may give a reason."""

    def of_bare(self, text: str) -> str | None:
        """Return why a value without a leading slash and without `scheme://` is not an address, or None."""
        if text == self.column:
            return "header row"
        found = next((reason for reason, pattern in _BARE if pattern.fullmatch(text)), None)
        return "misspelled scheme" if found is None and self._scheme.match(text) else found

    def of_path(self, path: str, *, ours: bool) -> str | None:
        """Return why a path with its query is that of no address; None if it may be one.

        `path`: from its first slash on, as it is written. `ours`: it is on the site.
        """
        if "//" not in path and ":" not in path:
            return None
        if self._several.match(path):
            return "several addresses"
        if ours and self._repeated.match(path):
            return "site repeated"
        return "misspelled scheme" if ours and self._misspelled.match(path) else None


def of_file(text: str, hosts: Iterable[str]) -> bool:
    """Return whether a text with backslashes names a file: on a drive, or on a share that is not a host of the site."""
    share = text.startswith("\\\\") and re.split(r"[\\/:?#]", text[2:], maxsplit=1)[0].lower() not in hosts
    return share or _DRIVE.match(text) is not None


def with_slashes(text: str) -> str:
    """Return the text with slashes in place of the backslashes before its query, as browsers read them."""
    end = next((at for at, c in enumerate(text) if c in "?#"), len(text))
    return text[:end].replace("\\", "/") + text[end:]
