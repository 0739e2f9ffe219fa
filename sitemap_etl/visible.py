"""Text of a source as a page or a terminal may show it: no character of it does anything there."""

from __future__ import annotations


def visible(text: str) -> str:
    """The text with invisible characters written as code points."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in text)
