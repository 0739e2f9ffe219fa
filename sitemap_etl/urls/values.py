"""Values that are no addresses: header rows, markup, formulas, hosts without a scheme, several URLs in one cell.

Every rule looks at one value only, so that splits and order don't matter. Reasons are keys of `rules.REASONS`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

_MARKUP: Final = re.compile(r"(?:!?\[|[<{]).*", re.DOTALL)
_QUOTED: Final = re.compile(
    "\".*|(?:'.*'|`.*`|[\u201c\u201d\u201e].*[\u201c\u201d\u201f]|\u00ab.*\u00bb|\u00bb.*\u00ab"
    "|[\u2018\u2019\u201a].*[\u2018\u2019\u201b]|\u2039.*\u203a|\u203a.*\u2039)",
    re.DOTALL,
)
_FORMULA: Final = re.compile(r'=(?:[A-Za-z][\w.]*\(|").*', re.DOTALL)
_ROW_COUNT: Final = re.compile(r"\([0-9][0-9,.]* rows?(?: affected)?\)", re.IGNORECASE)
_DASHES: Final = re.compile("[-\u2010-\u2015\u2212\u2500\u2501]+(?:[ +|]+[-\u2010-\u2015\u2212\u2500\u2501]+)*[ +|]*")
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
_SEVERAL: Final = r"[^?#]*[\s\x{00a0},;|]https?:/"
"""White space or a separator, then an absolute URL, before the query (RE2; `_in_python` for `re`)."""


def _in_python(pattern: str) -> str:
    return pattern.replace(r"\x{00a0}", "\u00a0")


class Values:
    """The rules of one column of addresses.

    `hosts`: of the site, without ports. `column`: name of the column in its source; None if it is not known. `bare`:
    values without a leading slash are addresses.
    """

    def __init__(self, hosts: Iterable[str], column: str | None = None, *, bare: bool = True) -> None:
        names = "|".join(re.escape(host) for host in sorted(hosts))
        end = rf"(?:{names})(?:[/:?#]|$)"
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
        """Return why a value without a leading slash and without `scheme://` is no address; None if it may be one."""
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
