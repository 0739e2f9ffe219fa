"""Text of a source as a page or a terminal may show it: no character of it does anything there."""

from __future__ import annotations


def visible(text: str) -> str:
    """Return the text in one line, with invisible characters written as code points."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in text)


def visible_lines(text: str) -> str:
    """Return the text with its line breaks, and other invisible characters written as code points."""
    return text if text.isprintable() else "\n".join(map(visible, text.split("\n")))
