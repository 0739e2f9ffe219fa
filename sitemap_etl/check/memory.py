"""Memory between checks: for each visited page, hashes of its content and the time of the visit.

    {"format": 1, "pages": {"https://shop.example/p/1": [own, all, at]}}

The time is in seconds since 1970. At most 100,000 pages are kept: the ones visited last.
"""

from __future__ import annotations

import contextlib
import json
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

from sitemap_etl.errors import ConfigError
from sitemap_etl.frozen import Frozen

_FORMAT: Final = 1
_KEPT: Final = 100_000


class Seen(Frozen):
    """A page as it was. `own` and `all`: as in `Visit`; `at`: when it was visited."""

    own: str
    all: str
    at: int


@dataclass
class Memory:
    """The pages that were visited by earlier checks."""

    path: Path
    pages: dict[str, Seen] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> Self:
        """Return the memory in a file, or an empty one if there is no file. Raise `ConfigError` if it is another
        file.
        """
        try:
            text = path.read_text("utf-8")
        except FileNotFoundError:
            if path.parent.is_dir():
                return cls(path)
            raise ConfigError(f"--state {path}: the folder {path.parent} does not exist") from None
        except (OSError, UnicodeError) as error:
            raise ConfigError(f"--state {path}: it can't be read ({error})") from error
        try:
            return cls(path, dict(_pages(json.loads(text))))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise ConfigError(
                f"--state {path}: this file was not written by an earlier check (format {_FORMAT}). Name a file "
                "that does not exist, or delete this one"
            ) from error

    def keep(self, url: str, own: str, whole: str, at: int) -> None:
        """Remember a page as it is now."""
        self.pages.pop(url, None)  # the last one seen is the last to go
        self.pages[url] = Seen(own, whole, at)

    def write(self) -> None:
        """Replace the file in one step. Raise `ConfigError` if it can't be written."""
        pages = {url: [s.own, s.all, s.at] for url, s in list(self.pages.items())[-_KEPT:]}
        new = self.path.with_name(f".{self.path.name}.{secrets.token_hex(4)}")
        try:
            new.write_text(json.dumps({"format": _FORMAT, "pages": pages}, indent=0), "utf-8")
            new.replace(self.path)
        except OSError as error:
            with contextlib.suppress(OSError):
                new.unlink(missing_ok=True)
            raise ConfigError(f"--state {self.path}: it can't be written ({error.strerror or error})") from error


def _pages(data: Any) -> Iterator[tuple[str, Seen]]:
    if data["format"] != _FORMAT:
        raise ValueError("another format")
    for url, (own, whole, at) in data["pages"].items():
        if not (isinstance(own, str) and isinstance(whole, str) and isinstance(at, int)):
            raise TypeError("not as it was written")
        yield url, Seen(own, whole, at)
