"""From a site file to its models, with every mistake told at once."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from sitemap_etl.config import layers, problems, resolve, tree
from sitemap_etl.config.keys import SiteKeys
from sitemap_etl.config.models import Site
from sitemap_etl.config.reader import KeyPath
from sitemap_etl.errors import ConfigError

_STAND_INS: dict[str, Any] = {
    "site": resolve.NO_SITE,
    "publish": "./public",
    "sections": {"none": {"from": {"csv": "none"}}},
}
_SECRETS = tree.secret_paths(SiteKeys)


def load(path: Path, *, environ: Mapping[str, str]) -> Site:
    """The site of a file: bases merged under it, variables filled in, SELECTs read, paths absolute.

    Secrets stay references; a file loads where they are absent. ConfigError with all its mistakes.
    """
    found = layers.read(path, environ, _SECRETS)
    keys, broken = _parse(found)
    site = resolve.site(keys, found, broken)
    if found.problems:
        raise ConfigError(found.told())
    return site


def from_json(data: Any) -> Site:
    """The site that `Site.to_json` gave. ConfigError where it is none of this version's."""
    try:
        return Site.model_validate(data)
    except ValidationError as error:
        wrong = ", ".join(".".join(map(str, item["loc"])) for item in error.errors()[:3])
        raise ConfigError(
            f"the stored site can't be read ({wrong}): it is of another version of sitemap_etl; start a new run"
        ) from error


def _parse(found: layers.Layers) -> tuple[SiteKeys, set[str]]:
    """The keys, and the top keys in which something was wrong.

    What is wrong is noted and taken out, until the rest holds, so that one mistake hides no other.
    """
    data = copy.deepcopy(found.data)
    taken: set[KeyPath] = set()
    while True:
        for key, value in _STAND_INS.items():
            if taken and not data.get(key):
                data[key] = copy.deepcopy(value)
        try:
            return SiteKeys.model_validate(data), {str(path[0]) for path in taken}
        except ValidationError as error:
            before = len(taken)
            now = set()
            errors = error.errors(include_url=False)
            taken |= {path for item in errors if (path := problems.meant(item, SiteKeys))}
            for item in errors:
                path = problems.key_path(item)
                if not _follows(path, item, taken):
                    found.add(path, problems.describe(item, SiteKeys, _SECRETS))
                now.add(_take_out(data, path, missing=item["type"] == "missing"))
            taken |= now
            if len(taken) == before:  # what is left can't be mended by taking out more
                raise ConfigError(found.told()) from error


def _follows(path: KeyPath, error: ErrorDetails, taken: set[KeyPath]) -> bool:
    """Whether the error is only about something that was taken out."""
    if path in taken or error["type"] == "unlike":
        return any(gone[: len(path)] == path for gone in taken)
    return any((*path, key) in taken for key in error.get("ctx", {}).get("keys", ()))


def _take_out(data: dict[str, Any], path: KeyPath, *, missing: bool) -> KeyPath:
    """Takes the value at the path out of the data; of a list, the whole; where a key is missing, its mapping."""
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
