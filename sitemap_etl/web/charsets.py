"""Character encodings of the web, by their labels in headers and files.

Python supports more encodings than the web. Some of them take hours for a prepared file (`punycode`). So only the
labels of the WHATWG's Encoding Standard are known, and each is decoded as browsers do: latin1 is windows-1252.
"""

from __future__ import annotations

import re
from typing import Final

from webencodings import lookup

_NO_TEXT: Final = frozenset({"replacement", "x-user-defined"})
"""Encodings of the standard that no text is written in."""
_NAME: Final = re.compile(r"[A-Za-z0-9._:-]+")


def codec_of(label: str) -> str | None:
    """Return Python's name of the encoding of a label, or None if the web has no such label."""
    found = lookup(label) if label.isascii() else None
    return None if found is None or found.name in _NO_TEXT else str(found.codec_info.name)


def decoded(data: bytes, label: str, errors: str = "strict") -> str | None:
    """Return the text of these bytes in the encoding of a label, or None if the web has no such label. Raise
    UnicodeDecodeError if the bytes don't fit, unless `errors` says what to do then.
    """
    codec = codec_of(label)
    return None if codec is None else data.decode(codec, errors)


def charset_of(content_type: str) -> str:
    """Return the encoding in a Content-Type, as written there, or ""."""
    for parameter in content_type.split(";")[1:]:
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "charset":
            found = _NAME.match(value.strip().lstrip("\"'"))
            return found[0] if found else ""
    return ""
