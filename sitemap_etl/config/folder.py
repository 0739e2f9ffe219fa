"""The site files of a folder, each read by itself: a broken one hides no other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sitemap_etl.config.load import load
from sitemap_etl.errors import ConfigError
from sitemap_etl.settings import Site


@dataclass
class Folder:
    """What a folder holds: the sites that can be read, by name, and every mistake in the others, one line each.

    `files`: where each site was read from.
    """

    sites: dict[str, Site] = field(default_factory=dict)
    files: dict[str, Path] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def read_folder(folder: Path, *, environ: Mapping[str, str]) -> Folder:
    """The sites of a folder's `.yaml` and `.yml` files, not of folders in it. `_*.yaml` are bases.

    Two files of one name would share one state: neither counts, and that is a problem of both.
    """
    found = Folder()
    if not folder.is_dir():
        found.problems.append(f"{folder}: the folder of site files does not exist")
        return found
    named: dict[str, list[tuple[Path, Site]]] = {}
    for path in sorted(folder.iterdir()):
        if path.suffix not in (".yaml", ".yml") or path.name.startswith(("_", ".")) or not path.is_file():
            continue
        try:
            site = load(path, environ=environ)
        except ConfigError as error:
            found.problems += error.problems
        except Exception as error:  # noqa: BLE001 - whatever is wrong with one file, the others are read
            found.problems.append(f"{path}: can't be read: {type(error).__name__}: {error}")
        else:
            named.setdefault(site.name, []).append((path, site))
    for name, holders in named.items():
        if len(holders) == 1:
            found.files[name], found.sites[name] = holders[0]
        else:
            files = " and ".join(str(path) for path, _ in holders)
            found.problems.append(
                f"{files}: name: all are named {name} and would share one state; give each file a name of its own"
            )
    return found
