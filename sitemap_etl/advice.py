"""Commands in messages, as a person pastes them into a shell."""

from __future__ import annotations

import re
import shlex
from typing import Final

SITE_FILE: Final = "SITE.yaml"
"""Stands for the site's file in commands of messages whose author does not know it."""
_PLACE: Final = re.compile(rf"(?<=sitemap-etl )((?:state )?[a-z]+ ){re.escape(SITE_FILE)}(?=[\s,;.:]|$)")
_PLAIN: Final = re.compile(r"[ -&(-\[\]-~]")


def shell_word(text: str) -> str:
    """Return an argument for a command in a message: one word of a shell, on one line, which `for_file` leaves alone.

    Invisible characters are written as bash and zsh read them.
    """
    if not text.isprintable():
        octets = text.encode("utf-8", "surrogateescape")
        return "$'" + "".join(chr(o) if _PLAIN.match(chr(o)) else f"\\{o:03o}" for o in octets) + "'"
    return shlex.quote(text) if text == SITE_FILE else shlex.quote(text).replace(SITE_FILE, "SITE''.yaml")


def for_file(text: str, site_file: str | None) -> str:
    """Return a message whose commands name the site's file, or the message itself if the file is not known.

    The name is filled in only where a command has it, and never in quoted values.
    """
    return _PLACE.sub(lambda found: f"{found[1]}{shell_word(site_file or SITE_FILE)}", text)
