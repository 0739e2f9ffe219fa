"""Optional packages that only some sites need, and the extras that install them."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Final

from sitemap_etl.errors import ConfigError

_PACKAGES: Final = {
    "mysql": ("pymysql",),
    "delta": ("deltalake",),
    "iceberg": ("pyiceberg",),
    "google": ("google.auth", "cryptography"),
    "pandas": ("pandas",),
}
"""What each extra of pyproject.toml brings, by the names under which it is imported."""


def demand(extra: str, what: str) -> None:
    """Raise ConfigError unless the packages of an extra are installed. `what`: the part of the site that needs them.

    Nothing is imported except the packages that contain them.
    """
    missing = [name for name in _PACKAGES[extra] if not installed(name)]
    if missing:
        raise ConfigError(
            f"{what} needs the extra {extra}, which is not installed (no module {' and '.join(missing)}): "
            f"install sitemap_etl[{extra}]"
        )


def installed(module: str) -> bool:
    """Return True if a module can be imported."""
    try:
        return find_spec(module) is not None
    except ImportError:  # its parent package is missing
        return False
