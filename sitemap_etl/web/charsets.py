"""Character encodings of the web, by their names in headers and files.

Python supports more encodings than the web. Some of them take hours for a prepared file (`punycode`). So only the
encodings of the WHATWG's Encoding Standard are used, by their labels there.
"""

from __future__ import annotations

import codecs
import re
from typing import Final

_CODECS: Final = frozenset(
    {
        *("utf-8", "utf-16", "utf-16-le", "utf-16-be", "ascii", "cp866", "koi8-r", "koi8-u"),
        *("mac-roman", "mac-cyrillic", "cp874", "tis-620"),
        *(f"cp{page}" for page in range(1250, 1259)),
        *(f"iso8859-{part}" for part in range(1, 17) if part != 12),
        *("gbk", "gb2312", "gb18030", "big5", "big5hkscs"),
        *("euc_jp", "iso2022_jp", "shift_jis", "cp932", "euc_kr", "cp949"),
    }
)
"""Python's names of the encodings in https://encoding.spec.whatwg.org/#names-and-labels."""
_NAME: Final = re.compile(r"[A-Za-z0-9._:-]+")


def codec_of(label: str) -> str | None:
    """Return Python's name of the encoding of a label, or None if the web has no such label."""
    try:
        name = codecs.lookup(label).name
    except (LookupError, ValueError):
        return None
    return name if name in _CODECS else None


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
