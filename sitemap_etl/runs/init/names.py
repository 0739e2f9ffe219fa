"""Names for `publish.names` that keep the addresses of a live sitemap's files."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import field
from pathlib import Path, PurePosixPath
from typing import Final
from urllib.parse import unquote, urlsplit

from pydantic import ValidationError

from sitemap_etl.config import conflicts
from sitemap_etl.config.layers import Layers
from sitemap_etl.frozen import Frozen
from sitemap_etl.runs.init.beginning import section_name
from sitemap_etl.settings import Site
from sitemap_etl.settings.site import Names

_ENDING: Final = re.compile(r"(\.(xml|txt|rss|atom))?(\.gz)?$", re.IGNORECASE)
_NO_SECTION: Final = frozenset({"sitemap", "sitemaps", "site", "map", "index", "xml", "urlset", "part"})
_OTHER_FILE: Final = "{section}-{number:05}.xml.gz"
"""Name of files if the default would also match the index."""


class Chosen(Frozen):
    """Names that fit together. `names`: keys of `publish.names`. `notes`: addresses that change."""

    names: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def choose(index: str, forms: Mapping[str, str], sections: Collection[str], *, is_file: bool) -> Chosen:
    """Return names that keep the addresses of the index and of files with one name pattern.

    `index`: its address. `forms`: name pattern by file address, "" for none. `is_file`: there is no index, and `index`
    is one of the files.
    """
    shown = _base(index)
    kept = _valid("index", shown)
    different = {form for form in forms.values() if _valid("file", form)}
    form = different.pop() if len(different) == 1 else ""
    for names in _candidates(kept, form, several=is_file and len(forms) > 1):
        if not _clash(names, sections):
            break
    notes = []
    same = sum(one == form for one in forms.values())
    if form and form != names.file:
        notes.append(
            f"publish.names: sitemaps get new names, such as {names.file_name(min(sections), 1)}: "
            f"with those they have, {shown} would name both an index and a sitemap"
        )
    elif form and same < len(forms):
        left = next(_base(address) for address, one in forms.items() if one != form)
        notes.append(
            f"publish.names: {same:,} of {len(forms):,} sitemaps have names of the form {form}; the others, such as "
            f"{left}, get new ones"
        )
    if kept and kept != names.index:
        notes.append(
            f"publish.names: the new index is {names.index}: {shown} is a sitemap, and its name stays that of one"
        )
    return Chosen(names.model_dump(exclude_defaults=True), tuple(notes))


def _candidates(index: str, form: str, *, several: bool) -> Iterator[Names]:
    """Yield possible names, best first. The index's address matters more than its files' addresses."""
    standard = Names()
    index = index or standard.index
    if form:
        yield Names(index=index, file=form)
        if several:
            yield Names(file=form)
    yield Names(index=index)
    yield Names(index=index, file=_OTHER_FILE)


def _clash(names: Names, sections: Collection[str]) -> bool:
    """Return True if a site file with these names and sections would be refused for a name of two files."""
    site = Site.model_validate(
        {
            "site": "https://site.invalid",
            "publish": {"to": "./public", "names": names.model_dump()},
            "sections": {section: {"from": {"csv": "none"}} for section in sections},
        }
    )
    found = Layers({}, {}, {"": Path()})
    conflicts.check(site, found, ())
    return any(path[:2] == ("publish", "names") for path in found.reported)


def _valid(key: str, name: str) -> str:
    """Return the name, or "" if it isn't a valid value of the key."""
    try:
        Names.model_validate({key: name})
    except ValidationError:
        return ""
    return name


def _base(address: str) -> str:
    return PurePosixPath(urlsplit(address).path).name


def series_of(address: str) -> tuple[str, str]:
    """Return the section name for a file, and its name pattern as in `names`, or "" if it has none."""
    base = unquote(_base(address))
    ending = _ENDING.search(base)
    stem = base[: ending.start()] if ending else base
    plain = re.sub(r"([-_.]?\d+)+$", "", stem)
    words = [word for word in re.split(r"[-_. ]+", plain) if word and word.lower() not in _NO_SECTION]
    name = section_name("_".join(words))
    numbers = re.findall(r"\d+", stem)
    whole = rf"(?<![^\W\d_]){re.escape(name)}(?![^\W\d_])"
    if len(numbers) != 1 or len(re.findall(whole, base)) != 1 or numbers[0] in name:
        return name, ""
    (number,) = numbers
    width = f":0{len(number)}" if number.startswith("0") and len(number) > 1 else ""
    return name, re.sub(whole, "{section}", base).replace(number, f"{{number{width}}}")
