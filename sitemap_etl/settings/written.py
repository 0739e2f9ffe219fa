"""Text of a site file with its file and key, and the meaning of unquoted words."""

from __future__ import annotations

import posixpath
import re
from typing import Any

_INT = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|(0|[1-9][0-9]*)(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_WORDS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})


class Written(str):
    """Text of a site file. Plain text comes from a stored run and is used unchanged.

    The text itself has its `${…}` filled in, unless the key is one whose variables the stage reads that uses it.
    `template` is what the file says, and all a message may show; `file` the absolute path of the file that wrote it,
    `key` the key path there.
    """

    __slots__ = ("file", "key", "template")
    template: str
    file: str
    key: str

    def __new__(cls, text: str, template: str, file: str, key: str) -> Written:
        made = super().__new__(cls, text)
        made.template, made.file, made.key = template, file, key
        return made

    def __deepcopy__(self, _: object) -> Written:
        return self

    @property
    def filled(self) -> bool:
        """True if the text contains a value from the environment."""
        return self != self.template

    def absolute(self) -> str:
        """Return the text as an absolute path, relative to the folder of its file."""
        return posixpath.normpath(posixpath.join(posixpath.dirname(self.file), self.strip()))


def scalar(text: str) -> Any:
    """Return the value of an unquoted word: a number, true, false, None, or the word itself."""
    if text in _WORDS:
        return _WORDS[text]
    if text in _NULLS:
        return None
    if _INT.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text):
        return float(text)
    return text
