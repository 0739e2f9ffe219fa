"""The names of published files: no two files of a site may have one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from sitemap_etl import limits
from sitemap_etl.config.layers import Layers
from sitemap_etl.config.models import Names, Section


def check(sections: Mapping[str, Section], names: Names, layers: Layers, *, recent: bool) -> None:
    """Notes names that two sections, a section and an index, or a feed and either would share."""
    if recent and "recent" in sections:
        layers.add(("sections", "recent"), "recent: names its own files so; give the section another name")
    taken = [*sections, *(["recent"] if recent and "recent" not in sections else [])]
    _sections(taken, names, layers)
    feeds = {
        names.feed_name(section.name, format_): section.name
        for section in sections.values()
        if section.feed
        for format_ in section.feed.formats
    }
    indexes = [names.index_name(slot) for slot in range(1, limits.INDEXES_PER_SITE + 1)]
    for section in taken:
        pattern = re.compile(_pattern(names.file, section))
        for name in [*indexes, *feeds]:
            if pattern.fullmatch(name):
                other = f"the feed of {feeds[name]}" if name in feeds else "an index"
                layers.add(("publish", "names", "file"), f"{name} would be a sitemap of {section} and {other}")
                break
    for name in sorted(feeds.keys() & set(indexes)):
        layers.add(("publish", "names", "index"), f"{name} would be an index and the feed of {feeds[name]}")


def _sections(taken: Iterable[str], names: Names, layers: Layers) -> None:
    """Only digits after another section's name can make one file of two: a1 with number 2, a with 12."""
    for first in taken:
        pattern = re.compile(_pattern(names.file, first))
        for second in taken:
            if re.fullmatch(re.escape(first) + "[0-9]+", second) and pattern.fullmatch(names.file_name(second, 1)):
                layers.add(
                    ("publish", "names", "file"),
                    f"{names.file_name(second, 1)} would be a file of {first} and of {second}; "
                    "put something other than digits between {section} and {number}",
                )


def _pattern(template: str, section: str) -> str:
    """A regular expression of all names of a section's files."""
    before, _, rest = template.replace("{section}", section).partition("{number")
    spec, _, after = rest.partition("}")
    width = int(re.sub(r"\D", "", spec) or 1)
    return f"{re.escape(before)}[0-9]{{{width},}}{re.escape(after)}"
