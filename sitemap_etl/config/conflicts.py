"""Conflicts between keys of a site: colliding file names, public state, sitemaps on another host, and others."""

from __future__ import annotations

import os.path
import posixpath
import re
from collections.abc import Collection, Iterable, Mapping

from sitemap_etl import limits
from sitemap_etl.config.layers import Layers
from sitemap_etl.errors import nearest
from sitemap_etl.settings import CONTRACT, LastmodFingerprint, Names, Section, Site, scope_problem
from sitemap_etl.settings.schedule import time_of_day
from sitemap_etl.settings.site import STATE_FOLDER


def check(site: Site, layers: Layers, broken: Collection[str]) -> None:
    """Add the conflicts to `layers`. `broken`: top-level keys in which some values were replaced by stand-ins."""
    if not {"site", "publish"} & set(broken):
        _check_scope(site, layers)
    if "publish" not in broken:
        _check_private(site, layers)
    for name, section in site.sections.items():
        if section.news is not None and section.shards.rows > limits.NEWS_ROWS:
            said = f"expected {limits.NEWS_ROWS} or less, which is Google's limit for news, got {section.shards.rows}"
            layers.add(("sections", name, "shards", "rows"), said)
        _check_fingerprint(name, section, layers)
        _check_columns(name, section, layers)
    if not {"airflow", "schedule", "notify"} & set(broken):
        _check_deadline(site, layers)
    _check_names(site.sections, site.publish.names, layers, recent=site.recent is not None)


def _check_fingerprint(name: str, section: Section, layers: Layers) -> None:
    """Check that a fingerprint with `unit` or `format` has `until_changed`, its only column of dates."""
    rule, path = section.lastmod, ("sections", name, "lastmod")
    if not isinstance(rule, LastmodFingerprint) or rule.until_changed is not None:
        return
    if any(reported[: len(path)] == path for reported in layers.reported):  # it may have been that very column
        return
    for key in ("unit", "format"):
        if getattr(rule, key) is not None:
            layers.add(
                (*path, key),
                "is for the dates of `until_changed:`, which is missing; add it, with the column that has them, or "
                f"remove `{key}:`",
            )


def _check_columns(name: str, section: Section, layers: Layers) -> None:
    """Check that `columns` misspells no name. A column that no rule reads can be renamed to make room for another."""
    path = ("sections", name)
    if any(reported[:2] == path for reported in layers.reported):  # it may have been in the rule that reads it
        return
    for column in section.unread_columns:
        meant = nearest(column, set(CONTRACT) - section.columns.keys())
        if meant:
            said = f"no rule of this section reads a column {column}; did you mean {meant}?"
            layers.add((*path, "columns", column), said)


def _check_deadline(site: Site, layers: Layers) -> None:
    """Check that a deadline has a schedule with one time of day, and someone to notify."""
    if site.airflow.done_by is None:
        return
    cron = None if site.schedule is None else site.schedule.cron
    if cron is None or time_of_day(cron) is None:
        said = "needs a schedule that begins at one time of day, such as 0 2 * * *"
        layers.add(("airflow", "done_by"), f"{said}; this one is {cron}" if cron else said)
    elif not site.notify.hears("late"):
        layers.add(("airflow", "done_by"), "no message would be sent: add late to notify.on, and an address to notify")


def _check_scope(site: Site, layers: Layers) -> None:
    """Check that sitemaps on another host are named in the site's robots.txt: by a run, or by the user."""
    publish = site.publish
    if publish.root is None and not publish.cross_submit and scope_problem(site.site, publish.at) == "other_host":
        layers.add(
            ("publish", "at"),
            f"is on a different host than {site.site}; search engines ignore such sitemaps unless robots.txt "
            "of the site names "
            f"them. Set publish.root to the folder or bucket that serves {site.site}/, or, if robots.txt already names "
            "them, publish.cross_submit: true",
        )


def _check_private(site: Site, layers: Layers) -> None:
    """Check that the private state is outside of the public folders, and these are outside of the state."""
    work, state = site.work, f"{site.work}/{site.name}"
    for key, public in (("to", site.publish.to), ("root", site.publish.root)):
        if public is None:
            continue
        if _within(work, public) or _within(state, public):
            if site.says_work:
                layers.add(
                    ("work",),
                    f"{_shown(work)} is inside publish.{key} ({public}), which is public; use another location",
                )
            else:
                outside = posixpath.join(posixpath.dirname(_outermost(public, site.publish.root)), STATE_FOLDER)
                layers.add(
                    (),
                    f"work is missing, and its default, beside the file, is inside publish.{key} ({public}), which is "
                    f"public; set a private folder, such as work: {outside}",
                )
            return
        if _within(public, state):
            layers.add(("publish",), f"{key} ({public}) is inside the state ({state}); use another location")
            return


def _outermost(public: str, root: str | None) -> str:
    """Return `root` if it contains the folder `public`, otherwise `public`."""
    return root if root is not None and _within(public, root) else public


def _within(inner: str, outer: str) -> bool:
    """Return True if one folder contains the other, by name or after following symbolic links."""
    pairs = ((inner, outer), (_resolved(inner), _resolved(outer)))
    return any(one == other or one.startswith(other.rstrip("/") + "/") for one, other in pairs)


def _resolved(place: str) -> str:
    return os.path.realpath(place) if place.startswith("/") else place


def _shown(place: str) -> str:
    """Return the path for a message, with its target if it leads through a symbolic link."""
    real = _resolved(place)
    return place if real == place else f"{place} (by a symbolic link {real})"


def _check_names(sections: Mapping[str, Section], names: Names, layers: Layers, *, recent: bool) -> None:
    """Check that sections, indexes and feeds have different file names."""
    if recent and "recent" in sections:
        layers.add(("sections", "recent"), "recent: uses this name for its own files; rename the section")
    taken = [*sections, *(["recent"] if recent and "recent" not in sections else [])]
    _check_sections(taken, names, layers)
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
                layers.add(("publish", "names", "file"), f"{name} would name both a sitemap of {section} and {other}")
                break
    for name in sorted(feeds.keys() & set(indexes)):
        layers.add(("publish", "names", "index"), f"{name} would name both an index and the feed of {feeds[name]}")


def _check_sections(taken: Iterable[str], names: Names, layers: Layers) -> None:
    """Check that no two sections share a file name, such as section a1 with number 2 and section a with 12."""
    for first in taken:
        pattern = re.compile(_pattern(names.file, first))
        for second in taken:
            if re.fullmatch(re.escape(first) + "[0-9]+", second) and pattern.fullmatch(names.file_name(second, 1)):
                layers.add(
                    ("publish", "names", "file"),
                    f"{names.file_name(second, 1)} would name both a file of {first} and one of {second}; "
                    "separate {section} and {number} by something other than digits",
                )


def _pattern(template: str, section: str) -> str:
    """Return a regular expression for all file names of a section."""
    before, _, rest = template.replace("{section}", section).partition("{number")
    spec, _, after = rest.partition("}")
    width = int(re.sub(r"\D", "", spec) or 1)
    return f"{re.escape(before)}[0-9]{{{width},}}{re.escape(after)}"
