"""Compare the public files after a run with what the model expects."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from tests.model import shards
from tests.model.model import Model
from tests.model.records import Night, Page, Section, Set, Version
from tests.model.rules import changed, gives_dates, is_view, span
from tests.support.sites import Listed

INDEX, ROBOTS, RECENT = "sitemap.xml", "robots.txt", "sitemap-recent-00001.xml.gz"
GRACE = timedelta(days=2)
"""So long a file lies there after it left the index."""


@dataclass
class Seen:
    """The public files as a crawler reads them."""

    objects: dict[str, bytes]
    content: dict[str, bytes]  # unpacked, without what only tells two writes of the same content apart
    index: dict[str, str] = field(default_factory=dict)  # key → lastmod, in order
    entries: dict[str, list[Listed]] = field(default_factory=dict)
    texts: dict[str, list[str]] = field(default_factory=dict)
    feeds: dict[str, list[tuple[str, str]]] = field(default_factory=dict)  # loc, title

    def section(self, name: str) -> dict[int, list[Listed]]:
        """number → entries of the section's files."""
        found = {}
        for key, entries in self.entries.items():
            if match := re.fullmatch(rf"sitemap-{name}-(\d+)\.xml\.gz", key):
                found[int(match[1])] = entries
        return found


def sitemap(name: str, number: int) -> str:
    return f"sitemap-{name}-{number:05}.xml.gz"


def text_beside(key: str) -> str:
    return key.removesuffix(".xml.gz") + ".txt.gz"


class Settling:
    """One comparison. `problems` are the differences, in words; `result` is the release to remember."""

    def __init__(
        self,
        model: Model,
        now: datetime,
        site: Mapping[str, Any],
        seen: Seen,
        before: Seen,
        *,
        clock: datetime,
        doubt: bool,
        died: bool = False,
    ) -> None:
        """`now`: the time of the run; `clock`: that of the store, later if a staged run is published.

        `doubt`: a run died meanwhile, so unchanged files may be written again. `died`: this run died after its
        commit, so expired files may remain.
        """
        self.model, self.now, self.site, self.seen, self.before, self.doubt = model, now, site, seen, before, doubt
        self.clock, self.died = clock, died
        self.base = model.current
        self.problems: list[str] = []
        self.sections: dict[str, Section] = {}
        self.loose: set[str] = set()  # keys of which the documents don't say whether they are there

    def say(self, text: str) -> None:
        self.problems.append(text)

    # --- a night ---

    def night(self, night: Night, columns: Mapping[str, set[str]], run_id: str) -> Set:
        """Compare with what the run should have published."""
        for name in night.listed:
            self.model.undone.pop(name, None)
        for name in night.site["sections"]:
            if name in night.stay:
                self._stays(name, night)
            elif is_view(night.keys(name)):
                self._section(night, name, columns[name], view=True)
            else:
                self._section(night, name, columns[name], view=False)
        for name in {match[1] for key in self.seen.entries if (match := re.match(r"sitemap-(\w+)-", key))}:
            if name not in self.sections and name != "recent":
                self.say(f"section {name} is listed, but it is no section any more, or was never read")
        return self._finish(run_id, night.mirrors)

    def rollback(self, old: Set, run_id: str) -> Set:
        """Compare with an older release."""
        for name, section in old.sections.items():
            self.sections[name] = section
            for number in section.files:
                self._as(sitemap(name, number), old.content)
                if section.text:
                    self._as(text_beside(sitemap(name, number)), old.content)
            self._feeds(name, section, old.content)
        for name in self.site["sections"].keys() - old.sections.keys():
            self.loose.update(f"{name}.{format_}.xml" for format_ in feeds_of(self.site["sections"][name]))
        found = self._finish(run_id, old.mirrors)
        for name, section in self.base.sections.items() if self.base else ():
            if not self.model.undone[name]:  # else nothing was read of it since it was rolled back before
                self.model.undone[name].update(section.pages)
        found.counted_from = dict.fromkeys([None, *found.sections], self.now)
        return found

    def _as(self, key: str, content: Mapping[str, bytes]) -> None:
        if self.seen.content.get(key) != content.get(key):
            self.say(f"{key} is not as it was")

    # --- sections ---

    def _stays(self, name: str, night: Night) -> None:
        section = self.base.sections.get(name) if self.base else None
        if section is None or self.base is None:
            feeds = feeds_of(self.site["sections"][name])
            self.loose.update(f"{name}.{format_}.xml" for format_ in feeds)
            if self.seen.section(name):
                self.say(f"{name} was not read and never published, and is listed")
            return
        if name in night.lost:
            self._stays_in_part(name, section, night.left_of(name))
            return
        self.sections[name] = section
        for number in section.files:
            self._as(sitemap(name, number), self.base.content)
            if section.text:
                self._as(text_beside(sitemap(name, number)), self.base.content)
        self._feeds(name, section, self.base.content)

    def _stays_in_part(self, name: str, section: Section, pages: dict[str, Page]) -> None:
        """Compare a section that was not read and lost pages to earlier ones: the others stay, in their files."""
        assert self.base is not None
        left = {number: [loc for loc in locs if loc in pages] for number, locs in section.files.items()}
        files = {number: locs for number, locs in left.items() if locs}
        self.sections[name] = replace(section, pages=pages, files=files, lows={n: section.lows[n] for n in files})
        asks_text = "text" in self.site["sections"].get(name, {}).get("formats", ())
        for number, locs in files.items():
            key = sitemap(name, number)
            if locs == section.files[number]:
                self._as(key, self.base.content)
            shown = {entry.loc: entry for entry in self.seen.entries.get(key, [])}
            if list(shown) != locs:
                self.say(f"{key} lists {list(shown)}, of a section that was not read; expected {locs}")
                continue
            for loc in locs:
                entry, page = shown[loc], pages[loc]
                if (*core(entry), entry.priority, entry.changefreq) != (*page.core, page.priority, page.changefreq):
                    self.say(f"{key} shows {entry}, of a section that was not read; expected {page}")
            text = text_beside(key)
            if section.text != asks_text:
                self.loose.add(text)
            elif section.text and self.seen.texts.get(text) != locs:
                self.say(f"{text} lists {self.seen.texts.get(text)}, expected {locs}")
        for key in (sitemap(name, number) for number in section.files.keys() - files):
            if key in self.seen.entries:
                self.say(f"{key} is listed, though earlier sections list all of its pages")
        if feeds_of(self.site["sections"].get(name, {})) != section.feeds:
            self._feeds(name, section, self.base.content)
        else:
            for format_, (_, items) in section.feeds.items():
                self._feed(f"{name}.{format_}.xml", pages, items)

    def _feeds(self, name: str, section: Section, content: Mapping[str, bytes]) -> None:
        """Compare the feeds of a section that was not read: unchanged, or left open if the settings have changed."""
        keys = self.site["sections"].get(name, {})
        if feeds_of(keys) != section.feeds:
            self.loose.update(f"{name}.{format_}.xml" for format_ in (*section.feeds, *feeds_of(keys)))
        else:
            for format_ in section.feeds:
                self._as(f"{name}.{format_}.xml", content)
        if ("text" in keys.get("formats", ())) != section.text:
            self.loose.update(text_beside(sitemap(name, number)) for number in section.files)

    def _section(  # noqa: PLR0912 - a section is told in one go
        self, night: Night, name: str, columns: set[str], *, view: bool
    ) -> None:
        keys, expected = night.keys(name), night.listed[name]
        base = self.base.sections.get(name) if self.base else None
        turned = base is not None and base.view != view  # what then becomes of its files is left open
        files = self.seen.section(name)
        actual = {entry.loc: entry for entries in files.values() for entry in entries}
        if len(actual) < sum(map(len, files.values())):
            self.say(f"{name} lists a page twice")
        if missing := sorted(expected.keys() - actual.keys()):
            self.say(f"{name} does not list {missing}")
        if extra := sorted(actual.keys() - expected.keys()):
            self.say(f"{name} lists {extra}, which it should not")
        fitting = {
            loc: self._fitting(name, actual[loc], expected[loc], night) for loc in expected.keys() & actual.keys()
        }
        dated = gives_dates(keys, columns)
        pages: dict[str, Page] = {}
        for number, entries in files.items():
            locs = [entry.loc for entry in entries]
            same = (
                base is not None
                and base.files.get(number) == locs
                and all(base.pages[entry.loc].core == core(entry) for entry in entries)
            )
            if turned and self.base is not None:
                key = sitemap(name, number)
                same = self.base.content.get(key) == self.seen.content[key]
            if same and self.base is not None:
                self._as(sitemap(name, number), self.base.content)
            for entry in entries:
                if not fitting.get(entry.loc):
                    continue
                versions = fitting[entry.loc]
                before = night.before[name].get(entry.loc)
                if not same:
                    versions = [v for v in versions if (v.priority, v.changefreq) == (entry.priority, entry.changefreq)]
                    if not versions:
                        self._tell_hints(name, number, entry, fitting[entry.loc])
                        continue
                pages[entry.loc] = self._page(entry, versions, before, base, dated=dated)
        numbers = {number: [entry.loc for entry in entries] for number, entries in files.items()}
        if not self.problems and not turned:
            limits = keys.get("shards", {})
            if view:
                self._view_files(name, numbers, limits)
            else:
                self._plain_files(name, base, numbers, pages, limits)
        definition = keys.get("lastmod")
        by_content = isinstance(definition, dict) and "fingerprint" in definition
        self.sections[name] = Section(
            view=view,
            pages=pages,
            files=numbers,
            lows={
                n: min(base.lows[n], locs[0]) if base is not None and n in base.lows and not view else locs[0]
                for n, locs in numbers.items()
            },
            definition=tuple(sorted(definition["fingerprint"])) if by_content else None,
            text="text" in keys.get("formats", ()),
            feeds=feeds_of(keys),
            dated=dated,
        )
        for number, locs in numbers.items():
            key = text_beside(sitemap(name, number))
            if self.sections[name].text and self.seen.texts.get(key) != locs:
                self.say(f"{key} lists {self.seen.texts.get(key)}, expected {locs}")
        for format_, (_, items) in self.sections[name].feeds.items():
            self._feed(f"{name}.{format_}.xml", pages, items)

    def _fitting(self, name: str, entry: Listed, versions: list[Version], night: Night) -> list[Version]:
        """Return the versions that match the listed page; report the difference if there is none."""
        links = night.links_of(name, entry.loc)
        if links is not None and links != core(entry)[2]:
            self.say(f"{name} {entry.loc} links to {dict(core(entry)[2])}, expected {dict(links)}")
        found = [v for v in versions if (v.lastmod, v.images) == core(entry)[:2]]
        if not found:
            wanted = " or ".join(dict.fromkeys(f"{v.lastmod} {list(v.images)}" for v in versions))
            before = night.before[name].get(entry.loc)
            was = "it is new" if before is None else f"it was {before.lastmod} {list(before.images)}"
            self.say(f"{name} {entry.loc} is listed with {entry.lastmod} {entry.images}, expected {wanted}; {was}")
        return found

    def _tell_hints(self, name: str, number: int, entry: Listed, versions: list[Version]) -> None:
        wanted = " or ".join(dict.fromkeys(f"{v.priority} {v.changefreq}" for v in versions))
        self.say(
            f"{name} {entry.loc} in file {number}, which was written, has priority and changefreq "
            f"{entry.priority} {entry.changefreq}, expected {wanted}"
        )

    def _page(
        self, entry: Listed, versions: list[Version], before: Page | None, base: Section | None, *, dated: bool
    ) -> Page:
        """Return the page to remember. Whether pages of a section's first release count as recent is left open."""
        lastmod, pictures, links = core(entry)
        since = frozenset({self.now if self.base is not None else None})
        if before is not None and not changed(before, lastmod, pictures, links, dated=dated):
            since = before.since
        if base is None:
            since |= {None}
        return Page(
            lastmod=lastmod,
            images=pictures,
            links=links,
            priority=entry.priority,
            changefreq=entry.changefreq,
            titles=frozenset(version.title for version in versions),
            prints=frozenset(version.print for version in versions),
            since=since,
            cluster=versions[0].cluster,
        )

    def _plain_files(
        self,
        name: str,
        base: Section | None,
        files: Mapping[int, list[str]],
        pages: Mapping[str, Page],
        limits: Mapping[str, Any],
    ) -> None:
        old = base.files if base is not None else {}
        was = base.pages if base is not None else {}
        both = was.keys() & pages.keys()
        touched = (was.keys() ^ pages.keys()) | {loc for loc in both if was[loc].core != pages[loc].core}
        lows = base.lows if base is not None else {}
        highest = self.model.numbers[name]
        sizes = {}
        for number, locs in files.items():
            lines = [line for line in self.seen.content[sitemap(name, number)].splitlines() if b"<loc>" in line]
            sizes.update(zip(locs, map(len, lines), strict=True))
        found = shards.check(old, lows, files, touched, limits, highest, sizes)
        self.problems += [f"{name}: {problem}" for problem in found if not (self.doubt and "first files" in problem)]

    def _view_files(self, name: str, files: Mapping[int, list[str]], limits: Mapping[str, Any]) -> None:
        """Check names 1 to k, written in place."""
        if sorted(files) != list(range(1, len(files) + 1)):
            self.say(f"view {name} has the files {sorted(files)}")
        if any(len(locs) > limits.get("rows", 50_000) for locs in files.values()):
            self.say(f"view {name} has files of {[len(locs) for locs in files.values()]} rows")

    def _feed(self, key: str, pages: Mapping[str, Page], items: int) -> None:
        """Check that a feed has the newest dated pages, newest first."""
        dates = {loc: page.lastmod for loc, page in pages.items() if page.lastmod is not None}
        if not dates and not self.seen.feeds.get(key):
            self.loose.add(key)
            return
        shown = self.seen.feeds.get(key)
        if shown is None:
            self.say(f"{key} is missing")
            return
        locs = [loc for loc, _ in shown]
        if len(set(locs)) != len(locs) or len(locs) != min(items, len(dates)) or not set(locs) <= dates.keys():
            self.say(f"{key} shows {locs}, expected the newest {items} of {dates}")
            return
        shown_dates = [dates[loc] for loc in locs]
        rest = [found for loc, found in dates.items() if loc not in locs]
        if shown_dates != sorted(shown_dates, reverse=True) or (rest and max(rest) > shown_dates[-1]):
            self.say(f"{key} shows {dict(shown)} with the dates {shown_dates}, not shown are {rest}")
        for loc, title in shown:
            if title not in pages[loc].titles:
                self.say(f"{key} calls {loc} {title!r}, expected {sorted(pages[loc].titles)}")

    # --- the site ---

    def _finish(self, run_id: str, mirrors: Mapping[str, Any]) -> Set:
        self._recent()
        keys = {sitemap(name, number) for name, section in self.sections.items() for number in section.files}
        if RECENT in self.seen.index:
            keys.add(RECENT)
            if next(iter(self.seen.index)) != RECENT:
                self.say("the recent file does not stand first in the index")
        if set(self.seen.index) != keys:
            self.say(f"the index has {sorted(set(self.seen.index) ^ keys)} too many or too few")
        lastmods = self._lastmods(keys)
        there = {*keys, ROBOTS, *((INDEX,) if keys else ())}
        for name, section in self.sections.items():
            if section.text:
                there |= {text_beside(sitemap(name, number)) for number in section.files}
            there |= {f"{name}.{format_}.xml" for format_ in section.feeds}
        self._objects(there)
        week = dict(self.base.counted_from) if self.base else {}
        content = {key: self.seen.content[key] for key in self.seen.content if key in there | self.loose}
        return Set(run_id, self.now, self.sections, content, lastmods, dict(mirrors), week)

    def _lastmods(self, keys: set[str]) -> dict[str, set[datetime]]:
        """Check that the index says when the bytes of each file last changed."""
        found: dict[str, set[datetime]] = {}
        for key in keys & self.seen.index.keys():
            same = self.base is not None and self.base.content.get(key) == self.seen.content.get(key)
            wanted = set(self.base.lastmods.get(key, {self.now})) if same and self.base is not None else {self.now}
            if self.doubt:
                wanted.add(self.now)
            shown = datetime.fromisoformat(self.seen.index[key])
            if shown not in wanted:
                said = " or ".join(f"{each:%Y-%m-%dT%H:%M:%SZ}" for each in sorted(wanted))
                self.say(f"the index dates {key} {self.seen.index[key]}, expected {said}")
            found[key] = {shown}
        return found

    def _objects(self, there: set[str]) -> None:
        """Check the objects: the release, files retired less than two days ago, and the bytes of files that stay."""
        retired = self.model.retired
        left = self.base.content.keys() - there - self.loose if self.base is not None else set()
        for key in left:
            retired.setdefault(key, self.clock)
        objects = {key for key in self.seen.objects if not re.fullmatch(r"[0-9a-f]{32}\.txt", key)}
        for key in sorted(there - objects - self.loose):
            self.say(f"{key} is missing")
        for key in sorted(objects - there - self.loose):
            if self.doubt:
                retired.setdefault(key, self.clock)
            if key not in retired:
                self.say(f"{key} lies there and belongs to nothing")
            elif self.clock >= retired[key] + GRACE and not self.died:
                self.say(f"{key} left the set at {retired[key]:%Y-%m-%dT%H:%M:%SZ} and still lies there")
        unsure = self.model.unsure
        came_back = (retired.keys() | unsure) & there  # with the same bytes, a late delete could find them
        unsure.update(self.loose)
        unsure -= there - self.loose
        for key in [key for key in retired if key in there or key not in objects]:
            gone = retired.pop(key)
            if key in self.before.objects.keys() - there - unsure and self.clock < gone + GRACE:
                self.say(f"{key} left the set at {gone:%Y-%m-%dT%H:%M:%SZ} and is deleted already")
        for key in sorted(there & objects & self.before.objects.keys()):
            same = self.before.content[key] == self.seen.content[key]
            if same and not self.doubt and key not in came_back and self.before.objects[key] != self.seen.objects[key]:
                self.say(f"{key} has the same content and other bytes")

    def _recent(self) -> None:
        """Check the file of recent changes: pages that were added or changed within `recent`."""
        shown = {entry.loc: entry for entry in self.seen.entries.get(RECENT, [])}
        window = span(self.site["recent"]) if "recent" in self.site else None
        for name, section in self.sections.items():
            if section.view:
                continue
            pages = dict(section.pages)
            for loc, page in section.pages.items():
                late = {each for each in page.since if window and each is not None and self.now - each <= window}
                found = late if loc in shown else page.since - late
                if not found:
                    since = " or ".join(str(each) for each in page.since)
                    self.say(f"{loc} last changed {since}, but is {'' if loc in shown else 'not '}in the recent file")
                else:
                    pages[loc] = replace(page, since=frozenset(found))
                if loc in shown and core(shown.pop(loc)) != page.core:
                    self.say(f"{loc} is another in the recent file than in {name}")
            self.sections[name] = replace(section, pages=pages)
        if shown:
            self.say(f"{sorted(shown)} is in the recent file and in no section")


def core(entry: Listed) -> tuple[Any, ...]:
    return entry.lastmod, tuple(entry.images), tuple(sorted(entry.alternates.items()))


def feeds_of(keys: Mapping[str, Any]) -> dict[str, tuple[str, int]]:
    """format → title and number of items."""
    feed = keys.get("feed")
    if feed is None:
        return {}
    return {each: (feed.get("title", ""), feed.get("items", 100)) for each in feed.get("formats", ["rss", "atom"])}
