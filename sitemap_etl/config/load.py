"""Load the settings of a site file, with all mistakes reported at once."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from sitemap_etl.config import conflicts, layers, problems, tree
from sitemap_etl.config.reader import KeyPath
from sitemap_etl.errors import ConfigError
from sitemap_etl.settings import Section, Site, Written
from sitemap_etl.settings.site import SITE_NAME

_STAND_INS: Final[dict[str, Any]] = {
    "site": "https://site.invalid",
    "publish": "./public",
    "sections": {"none": {"from": {"csv": "none"}}},
}
"""Replacements for values that are missing or wrong, so that the other mistakes are still found."""
_SECRETS: Final = tree.secret_paths(Site)
_LATER: Final = tree.later_paths(Site)


def load(path: Path, *, environ: Mapping[str, str]) -> Site:
    """Return the site of a file, merged with its bases, with variables filled in, SELECTs read and paths absolute.

    Secrets stay references, so a file loads even if they are not set. Raise ConfigError with all mistakes.
    """
    found = layers.read(path, environ, _LATER)
    _place(found)
    site, broken = _parse(found, _misplaced(found))
    site = _with_selects(site, found).beside(str(next(iter(found.files.values())).parent))
    conflicts.check(site, found, broken)
    if found.problems:
        raise ConfigError(found.messages())
    return site


def from_json(data: Any) -> Site:
    """Return the site from the result of `Site.to_json`, written by this version or a compatible one.

    Unknown keys are ignored, and missing keys have their defaults. Raise ConfigError if a value can't be read.
    """
    try:
        return Site.model_validate(_without_nulls(data), extra="ignore")
    except ValidationError as error:
        wrong = ", ".join(".".join(map(str, item["loc"])) for item in error.errors()[:3])
        raise ConfigError(
            f"the settings stored with the run can't be read ({wrong}); another version of sitemap_etl wrote "
            "them, so start a new run"
        ) from error


def _without_nulls(value: Any) -> Any:
    """Return the value without keys that are null, because null means an absent key, as in a site file."""
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value


def _place(found: layers.Layers) -> None:
    """Set the name of the site from the file name if the file does not set it."""
    file = next(iter(found.files.values()))
    if "name" not in found.data:
        found.data["name"] = file.stem
        if not re.fullmatch(SITE_NAME, file.stem):
            hint = "files that begin with _ are bases" if file.stem.startswith("_") else "it is not a valid name"
            found.add(("name",), f"the site can't be named after the file ({hint}); add name: shop, for example")
            found.data["name"] = "site"


def _with_selects(site: Site, found: layers.Layers) -> Site:
    """Return the site with the text of every SELECT that is in its own file."""
    sections: dict[str, Section] = {}
    for name, section in site.sections.items():
        source = section.source
        if source.sql is not None:
            text = _text_of(source.sql, ("sections", name, "from", "sql"), found)
            source = source.model_copy(update={"query": text})
        sections[name] = section.model_copy(update={"source": source})
    return site.model_copy(update={"sections": sections})


def _text_of(file: str, path: KeyPath, found: layers.Layers) -> str:
    try:
        text = Path(file).read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        found.add(path, f"file {file} does not exist")
    except UnicodeDecodeError:
        found.add(path, f"{file} is not UTF-8")
    except OSError as error:
        found.add(path, f"{file} can't be read: {error.strerror or error}")
    else:
        if not text.strip():
            found.add(path, f"{file} is empty; expected a SELECT")
        return text
    return ""


def _misplaced(found: layers.Layers) -> set[KeyPath]:
    """Remove keys that are beside a section's name instead of below it, with one mistake for each section.

    `pages:` has nothing then, and `from:` looks like another section.
    """
    sections = found.data.get("sections")
    taken: set[KeyPath] = set()
    owner: str | None = None
    beside: dict[str, list[str]] = {}
    for key, value in sections.items() if isinstance(sections, dict) else ():
        if value is None:
            owner = key
        elif owner is not None and key in tree.aliases(Section):
            beside.setdefault(owner, []).append(key)
        else:
            owner = None
    for owner, keys in beside.items():
        shown = " and ".join(f"`{key}:`" for key in keys)
        found.add(("sections", keys[0]), f"indent {shown} under `{owner}:`")
        for key in (owner, *keys):
            del found.data["sections"][key]
            taken.add(("sections", key))
    return taken


def _parse(found: layers.Layers, taken: set[KeyPath]) -> tuple[Site, set[str]]:
    """Return the site, and the top-level keys with mistakes. `taken`: key paths that were removed already.

    Invalid values are reported and removed until the rest is valid, so that a mistake does not hide others.
    """
    data = copy.deepcopy(found.data)
    file = str(next(iter(found.files.values())))
    while True:
        for key, value in _STAND_INS.items():
            if taken and not data.get(key):
                data[key] = Written(value, value, file, key) if isinstance(value, str) else copy.deepcopy(value)
        try:
            return Site.model_validate(data), {str(path[0]) for path in taken}
        except ValidationError as error:
            before = len(taken)
            now = set()
            errors = error.errors(include_url=False)
            taken |= {path for item in errors if (path := problems.meant(item, Site))}
            for item in errors:
                path = _as_written(data, tree.key_path(item["loc"]))
                if not _follows(path, item, taken):
                    found.add(path, problems.describe(item, Site, _SECRETS))
                now.add(_take_out(data, path, missing=item["type"] == "missing"))
            taken |= now
            if len(taken) == before:  # taking out more can't fix the rest
                raise ConfigError(found.messages()) from error


def _as_written(data: dict[str, Any], path: KeyPath) -> KeyPath:
    """Return the path without an index if the site file has a single text instead of a list."""
    below: Any = data
    for part in path[:-1]:
        below = below.get(part) if isinstance(below, dict) else None
    return path[:-1] if path and isinstance(path[-1], int) and isinstance(below, str) else path


def _follows(path: KeyPath, error: ErrorDetails, taken: set[KeyPath]) -> bool:
    """Return True if the error is only a consequence of a value that was removed or reported."""
    if error["type"] == "too_short" and error["input"]:  # its items are reported
        return True
    if path in taken or error["type"] == "unlike":
        return any(gone[: len(path)] == path for gone in taken)
    return any((*path, key) in taken for key in error.get("ctx", {}).get("keys", ()))


def _take_out(data: dict[str, Any], path: KeyPath, *, missing: bool) -> KeyPath:
    """Remove the value at a path, and return the removed path: a whole list, or the mapping with a missing key."""
    if missing and len(path) > 1:
        path = path[:-1]
    below: Any = data
    for depth, part in enumerate(path):
        if isinstance(below, dict) and isinstance(below.get(part), dict) and depth < len(path) - 1:
            below = below[part]
            continue
        if isinstance(below, dict):
            below.pop(part, None)
        return path[: depth + 1]
    return path
