"""Site files of a folder. Each is read on its own, so a broken file does not hide the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from sitemap_etl.config.load import load
from sitemap_etl.errors import ConfigError
from sitemap_etl.settings import Site


@dataclass
class Folder:
    """Sites of a folder that can be read, by name, and every mistake in the others, one line each.

    `files`: where each site was read from.
    """

    sites: dict[str, Site] = field(default_factory=dict)
    files: dict[str, Path] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def read_folder(folder: Path, *, environ: Mapping[str, str], before_each: Callable[[], None] = lambda: None) -> Folder:
    """Return the sites of the `.yaml` and `.yml` files of a folder, without its subfolders. `_*.yaml` are bases.

    Two sites with the same name would share one state, so both are left out and reported. `before_each` is called
    before each file. Its errors are not caught.
    """
    found = Folder()
    if not folder.is_dir():
        found.problems.append(f"{folder}: the folder of site files does not exist")
        return found
    named: dict[str, list[tuple[Path, Site]]] = {}
    for path in _site_files(folder):
        before_each()
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


def find_site(folder: Path, name: str, *, environ: Mapping[str, str]) -> tuple[Site, Path] | None:
    """Return the site with this name and its file, or None. Read the most likely files first.

    Raise ConfigError if the site was not found and some files can't be read.
    """
    files = _site_files(folder)
    problems: list[str] = []
    for path in chain((path for path in files if path.stem == name), _by_likelihood(files, name)):
        try:
            site = load(path, environ=environ)
        except ConfigError as error:
            problems += error.problems
            continue
        if site.name == name:
            return site, path
    if problems:
        raise ConfigError(problems)
    return None


def _by_likelihood(files: Sequence[Path], name: str) -> Iterator[Path]:
    """Yield the files with other names than the site, starting with files that contain the site's name."""
    others = [path for path in files if path.stem != name]
    yield from sorted(others, key=lambda path: name.encode() not in path.read_bytes())


def _site_files(folder: Path) -> list[Path]:
    """Return the site files at the top of a folder, in the order of their names."""
    if not folder.is_dir():
        return []
    return [
        path
        for path in sorted(folder.iterdir())
        if path.suffix in (".yaml", ".yml") and not path.name.startswith(("_", ".")) and path.is_file()
    ]
