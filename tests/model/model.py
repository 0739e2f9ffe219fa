"""The nightly job as it is documented, in plain Python, one row after the other.

It is written from the documentation and not from the code, so that the two can disagree. A run has two halves:

- `Model.predict` returns, from the site file, the rows of the sources and the time, what a run must make of them:
  what each section lists, its counts, the results of the gates.
- `Model.settle` compares this with what a crawler reads, describes every difference, and remembers the release.

If the documentation leaves something open, a page has several `Version`s, and any of them is right: of two rows for one
page with the same date, the smallest hash decides, and this model has no hash. The published version is adopted. So is
the division into files, as long as it is one of those documented (`shards`).
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from tests.model.records import Mirror, Night, Page, Row, Section, Set, Source, Version
from tests.model.rules import (
    FEW,
    blank,
    changed,
    changefreq,
    closure,
    fails,
    gives_dates,
    images,
    inventory,
    is_view,
    member,
    percentiles,
    priority,
    rejects,
    source_date,
    span,
)

GATES = {
    "max_drop": 0.1,
    "max_growth": 1.0,
    "max_rejected": 0.05,
    "max_undated": 0.05,
    "max_same_hour": None,
    "min_urls": 1,
    "pages": None,
}
MANY = 1_000
"""Pages that had a lastmod, from which on many new ones within an hour mean something."""
WARNED = 0.5
"""The share of them beyond which a section without a limit is warned of."""


class Model:
    """What the model remembers of the site from run to run."""

    def __init__(self, not_yet: Collection[str] = ()) -> None:
        """`not_yet`: known differences of the product, which are accepted."""
        self.not_yet = frozenset(not_yet)
        self.current: Set | None = None
        self.sets: list[Set] = []  # that were published, oldest first
        self.mirrors: dict[str, Mirror] = {}  # as of the last run that was published or found nothing to do
        self.numbers: dict[str, int] = defaultdict(int)  # section → the highest number it ever had
        self.retired: dict[str, datetime] = {}  # key → when it left the set
        self.away: dict[str, dict[str, tuple[Page, Section]]] = defaultdict(dict)  # section → pages that it listed once
        self.undone: dict[str, dict[str, Page]] = defaultdict(dict)  # section → pages as they were before a rollback
        self.unsure: set[str] = set()  # keys of which the documents don't say when they left it

    # --- before the night ---

    def predict(  # noqa: PLR0912 - a night is told in one go
        self,
        site: dict[str, Any],
        sources: Mapping[str, Source],
        now: datetime,
        *,
        only: Iterable[str] = (),
        full: bool = False,
        force: Iterable[str] = (),
        disallow: Iterable[str] = (),
    ) -> Night:
        """Return what a run at `now` must propose. `disallow`: the patterns of the site's own robots.txt."""
        night = Night(now, site, self.current)
        base = self.current.sections if self.current else {}
        plain = self.current.plain() if self.current else {}
        taken: set[str] = set()
        for name, keys in site["sections"].items():
            if only and name not in only:
                night.stay.add(name)
            elif sources[name].broken and keys.get("on_error") == "keep":
                night.stay.add(name)
                night.held.add(name)
            elif sources[name].broken:
                night.error = f"the source of {name} is broken"
                return night
        for name, keys in site["sections"].items():
            if name in night.stay:
                pages = base[name].pages if name in base else {}
                lost = pages.keys() & taken if name in base and not base[name].view else set()
                if lost:
                    night.lost[name] = lost
                counts = {"extracted": 0, "carried": len(pages), "duplicates": len(lost), "excluded": 0, "rejected": 0}
                night.counts[name] = {**counts, "listed": len(pages) - len(lost), "added": 0, "removed": 0}
                if name in base and not base[name].view:
                    taken.update(pages)
                night.changed[name] = (0, 0)
                if name in self.mirrors:
                    night.mirrors[name] = self.mirrors[name]
                continue
            rows, counts = self._read(night, name, keys, sources[name], full=full)
            if night.error:
                return night
            found = inventory(site, keys, rows, list(disallow))
            ranks: Mapping[int, str] = {}
            rule = keys.get("priority")
            if isinstance(rule, dict) and "percentile_of" in rule:
                every = [row for each in found.rows.values() for row, _ in each]
                ranks = percentiles(every, rule["percentile_of"])
            view = is_view(keys)
            own = base[name].pages if name in base and (view or base[name].view) else {}
            listed: dict[str, list[Version]] = {}
            for loc, rivals in found.rows.items():
                if not view and loc in taken:
                    counts["duplicates"] += len(rivals)
                    continue
                counts["duplicates"] += len(rivals) - 1
                known = (name, own[loc]) if loc in own else None if view else plain.get(loc)
                listed[loc] = self._versions(night, name, keys, rivals, known, ranks, loc)
                if view and known is None and loc in plain:
                    # Whether a view takes the date from the section that lists the page is left open.
                    listed[loc] += self._versions(night, name, keys, rivals, plain[loc], ranks, loc)
            if not view:
                taken.update(listed)
            night.listed[name] = listed
            night.before[name] = own
            counts["excluded"] += found.excluded.total()
            counts["rejected"] += found.rejected.total()
            counts["listed"] = len(listed)
            night.counts[name] = counts
            night.reasons[name] = found.rejected
        self._link(night)
        self._count(night, plain, sources)
        self._judge(night, plain, taken, frozenset(force))
        return night

    def _read(
        self, night: Night, name: str, keys: Mapping[str, Any], source: Source, *, full: bool
    ) -> tuple[list[Row], dict[str, int]]:
        """Return the section's rows, and the counts so far. Incremental rows are merged into the mirror."""
        counts = dict.fromkeys(["extracted", "carried", "listed", "duplicates", "excluded", "rejected", "added"], 0)
        counts["removed"] = 0
        origin = keys["from"]
        if ":since" not in origin.get("query", ""):
            counts["extracted"] = len(source.rows)
            return source.rows, counts
        key, gone = origin["key"], origin.get("deleted")
        select = json.dumps([origin["query"], origin.get("params"), key])
        mirror = self.mirrors.get(name)
        usable = mirror is not None and mirror.select == select
        elapsed = usable and mirror is not None and night.now - mirror.full_at >= span(origin.get("full_every", "7d"))
        complete = full or not usable or elapsed
        since = ""
        if usable and mirror is not None:
            since = f"{mirror.read_at - span(origin.get('overlap', '1h')):%Y-%m-%d %H:%M:%S}"
        late = [row for row in source.rows if row["touched"] >= since]
        read = source.rows if complete else late
        counts["extracted"] = len(read)
        known = dict(mirror.rows) if usable and mirror is not None else {}
        merged: dict[Any, Row] = {} if complete else known
        seen: dict[Any, Row] = {}
        for row in read:
            if blank(row[key]):
                counts["rejected"] += 1
            elif row[key] in seen:
                if seen[row[key]] != row:
                    night.error = f"{name}: key {row[key]} was read twice with different rows"
                    return [], counts
                counts["duplicates"] += 1
            elif gone is not None and row[gone] not in (None, False, 0, ""):
                seen[row[key]] = row
                counts["excluded"] += 1
                merged.pop(row[key], None)
            else:
                seen[row[key]] = merged[row[key]] = row
        counts["carried"] = sum(found not in seen for found in merged)
        if complete and usable:
            again = {row[key] for row in late}
            drift = {
                "missing": sum(found not in known for found in merged if found not in again),
                "stale": sum(
                    found in known and known[found] != row for found, row in merged.items() if found not in again
                ),
                "gone": sum(found not in merged for found in known if found not in again),
            }
            night.drift[name] = drift
        full_at = night.now if complete or mirror is None else mirror.full_at
        night.mirrors[name] = Mirror(merged, night.now, full_at, select)
        return list(merged.values()), counts

    def _versions(
        self,
        night: Night,
        name: str,
        keys: Mapping[str, Any],
        rivals: list[tuple[Row, str]],
        known: tuple[str, Page] | None,
        ranks: Mapping[int, str],
        loc: str,
    ) -> list[Version]:
        """Return how the page of these rows may be listed. The newest date wins, then the published fingerprint."""
        rule = keys.get("lastmod")
        by_content = isinstance(rule, dict) and "fingerprint" in rule
        dates = [source_date(keys, row, night.now) for row, _ in rivals]
        newest = max(dates, key=lambda found: found or "")
        tied = [rival for rival, found in zip(rivals, dates, strict=True) if found == newest]

        def version(rival: tuple[Row, str], lastmod: str | None, content: tuple[Any, ...] | None) -> Version:
            row, path = rival
            return Version(
                lastmod=lastmod,
                images=images(row, night.site),
                priority=priority(keys.get("priority"), row, path, ranks),
                changefreq=changefreq(keys.get("changefreq"), row),
                title=str(row.get("title") or loc),
                print=content,
                cluster=member(keys, name, row),
            )

        if not by_content:
            return list(dict.fromkeys(version(rival, newest, None) for rival in tied))
        assert isinstance(rule, dict)
        definition = tuple(sorted(rule["fingerprint"]))
        contents = [(rival, tuple(rival[0][column] for column in definition)) for rival in tied]
        moment = f"{night.now:%Y-%m-%dT%H:%M:%SZ}"
        base = night.base.sections.get(name) if night.base else None
        found = []
        if known is None:
            dates_of_new = {newest}
            if newest is None and rule.get("first_seen"):
                # Whether a section begins anew that was away for a while, or became a view, is left open.
                again = self._ever(name) if base is None else base.view != is_view(keys)
                first = {True, False} if again else {base is None}
                dates_of_new = {None if began else moment for began in first}
            found = [version(rival, lastmod, content) for rival, content in contents for lastmod in dates_of_new]
        elif known[0] != name or base is None or base.definition != definition:
            old = known[1].lastmod
            found = [version(rival, old if old is not None else newest, content) for rival, content in contents]
            owner = night.base.sections[known[0]] if night.base and known[0] != name else None
            if owner is not None and owner.definition == definition:
                # By the same columns the two could be told apart; whether they are is left open.
                found += [version(rival, moment, each) for rival, each in contents if {each} != known[1].prints]
        else:
            for content in known[1].prints:
                same = [each for each in contents if each[1] == content]
                old = known[1].lastmod if known[1].lastmod is not None else newest
                found += [version(rival, old, each) for rival, each in same]
                found += [version(rival, moment, each) for rival, each in contents if not same]
        if loc in self.undone[name]:
            # The content that a rollback took back is here again; whether with its date of then is left open.
            was = self.undone[name][loc]
            found += [version(rival, was.lastmod, content) for rival, content in contents if content in was.prints]
        for where, away in self.away.items():
            if loc not in away or (known is not None and (where != name or known[0] == name)):
                continue
            # Whether it is a new page or one that was only away, here or in another section, is left open.
            was, then = away[loc]
            alike = then.definition == definition  # else its date is kept, and nothing is compared
            found += [version(rival, was.lastmod, each) for rival, each in contents if not alike or each in was.prints]
            found += [version(rival, moment, each) for rival, each in contents if {each} != was.prints]
        return list(dict.fromkeys(found))

    def _ever(self, name: str) -> bool:
        return any(name in each.sections for each in self.sets)

    def _link(self, night: Night) -> None:
        """Return the hreflang clusters of all listed pages."""
        groups: dict[tuple[str, str], list[tuple[str, str]]] = defaultdict(list)
        listings: dict[tuple[str, str], set[tuple[str, str]]] = defaultdict(set)
        open_: set[tuple[str, str]] = set()
        defaults: dict[str, str | None] = {}
        for name, keys in night.site["sections"].items():
            rule = keys.get("alternates")
            if rule is not None:
                defaults[rule.get("cluster", name)] = rule.get("x_default")
            members: list[tuple[str, Any]] = []
            if name in night.listed:
                for loc, versions in night.listed[name].items():
                    clusters = {version.cluster for version in versions}
                    members += [(loc, cluster) for cluster in clusters]
                    if len(clusters) > 1:
                        open_.update((each[0], each[1]) for each in clusters if each is not None)
            elif night.base and name in night.base.sections:
                left = night.left_of(name)
                members = [(loc, page.cluster) for loc, page in left.items()]
                written = rule.get("cluster", name) if rule is not None else None
                for _, each in members:
                    if each is not None and each[0] != written:  # whether it goes over to its new cluster unread
                        open_ |= {(each[0], each[1]), (written or "", each[1])}
            for loc, cluster in members:
                if cluster is not None:
                    groups[cluster[0], cluster[1]] += [(loc, tag) for tag in cluster[2]]
                    listings[cluster[0], cluster[1]].add((name, loc))
        for group, pairs in groups.items():
            links = closure(pairs, defaults.get(group[0]))
            for name, loc in listings[group]:
                night.links[name, loc] = None if group in open_ else links.get(loc, ())

    def _count(self, night: Night, plain: Mapping[str, tuple[str, Page]], sources: Mapping[str, Source]) -> None:
        """Count added, changed and removed pages. A page that moved to another section is neither added nor removed."""
        everywhere = {loc for name in night.listed if not is_view(night.keys(name)) for loc in night.listed[name]}
        base = night.base.sections if night.base else {}
        for name in night.stay & base.keys():
            everywhere.update({} if base[name].view else base[name].pages)
        for name, listed in night.listed.items():
            view = is_view(night.keys(name))
            if not view:
                moved = {loc: plain[loc][1] for loc in listed if loc in plain}
                night.before[name] = {**night.before[name], **moved}  # as a section listed it, not as a view showed it
            if name in base and base[name].view != view:
                night.turned.add(name)
            before, new = night.before[name], self._new(night, name, plain)
            dated = gives_dates(night.keys(name), sources[name].columns)
            least = most = 0
            for loc in listed.keys() - new:
                links = night.links_of(name, loc)
                found = {changed(before[loc], v.lastmod, v.images, links, dated=dated) for v in listed[loc]}
                least += found == {True}
                most += True in found or (links is None and not dated)
            gone = before.keys() - listed.keys() if view else self._of(base, name) - everywhere
            night.counts[name]["added"] = len(new)
            night.counts[name]["removed"] = len(gone)
            night.changed[name] = (least, most)

    @staticmethod
    def _new(night: Night, name: str, plain: Mapping[str, Any]) -> set[str]:
        """Return the added pages. Pages of a former view are new to the section that it becomes."""
        new = night.listed[name].keys() - night.before[name].keys()
        if name in night.turned and not is_view(night.keys(name)):
            new |= night.listed[name].keys() - plain.keys()
        return new

    @staticmethod
    def _of(base: Mapping[str, Section], name: str) -> set[str]:
        return set(base[name].pages) if name in base and not base[name].view else set()

    # --- after it ---

    def accept(self, found: Set, forced: Iterable[str] = ()) -> None:
        """Note this release. If a drop was forced, the week of slow losses starts again."""
        for gate in forced:
            if gate.endswith("max_drop"):
                found.counted_from[gate.removesuffix("max_drop").removesuffix(".") or None] = found.now
                found.counted_from[None] = found.now
        if self.current is not None:
            for name, section in self.current.sections.items():
                self.away[name].update({loc: (page, section) for loc, page in section.pages.items()})
                if name in found.sections and found.sections[name].view != section.view:
                    found.counted_from[name] = found.now
        self.current = found
        self.sets.append(found)
        self.mirrors = dict(found.mirrors)
        for name, section in found.sections.items():
            if not section.view:
                self.numbers[name] = max(self.numbers[name], *section.files, 0)

    # --- gates ---

    def _judge(
        self, night: Night, plain: Mapping[str, tuple[str, Page]], taken: set[str], force: frozenset[str]
    ) -> None:
        """Return the results of all gates. They apply to every section that is read, and to the site."""
        base = night.base.sections if night.base else {}
        site_limits = {**GATES, **night.site.get("gates", {})}
        passed: dict[str, set[str]] = defaultdict(set)  # gate → the sections whose share was let through or refused
        for name, listed in night.listed.items():
            keys, counts = night.keys(name), night.counts[name]
            views = {"max_drop": 1.0, "min_urls": 0} if is_view(keys) else {}
            limits = {**site_limits, **views, **keys.get("gates", {})}
            before = set(night.before[name]) if is_view(keys) else self._of(base, name)
            if name in night.turned:
                before = set()
            answers = {
                "max_drop": self._drops(night, name, before, set(listed) if is_view(keys) else taken, limits),
                "max_growth": len(before) >= FEW and counts["added"] / len(before) > limits["max_growth"],
                "max_rejected": rejects(counts, limits),
                "max_undated": self._undated(night, name, limits),
                "max_same_hour": self._same_hour(night, name, limits["max_same_hour"]),
                "min_urls": counts["listed"] < limits["min_urls"],
            }
            if limits["max_same_hour"] is None:
                night.batches[name] = self._same_hour(night, name, None if is_view(keys) else WARNED)
            if limits["pages"] and not is_view(keys):
                answers["pages"] = fails(self._new(night, name, plain), limits["pages"])
            for gate, answer in answers.items():
                if f"{name}.{gate}" in force:
                    passed[gate].add(name)
                else:
                    night.gates[f"{name}.{gate}"] = answer
                    if answer is not False:
                        passed[gate].add(name)
        self._judge_lost(night, site_limits, force, passed)
        names = [name for name in night.counts if not is_view(night.keys(name))]
        kinds = ("extracted", "carried", "rejected", "added")
        total = {each: sum(night.counts[name][each] for name in names) for each in kinds}
        everything = set(plain)
        answers = {
            "max_drop": self._drops(night, None, everything, taken, site_limits),
            "max_growth": len(everything) >= FEW and total["added"] / len(everything) > site_limits["max_growth"],
            "max_rejected": rejects(total, site_limits),
            "max_undated": self._undated(night, None, site_limits),
            "max_same_hour": self._same_hour(night, None, site_limits["max_same_hour"]),
            "min_urls": self._all_listed(night, base, taken) < site_limits["min_urls"],
        }
        if site_limits["pages"]:
            read = [name for name in night.listed if not is_view(night.keys(name))]
            new = {loc for name in read for loc in self._new(night, name, plain)}
            answers["pages"] = fails(new, site_limits["pages"])
        for gate, answer in answers.items():
            if gate not in force:
                # What a section lets through, its section's gate answers for, by shares that are not told in full.
                open_ = answer is not False and bool(passed[gate])
                # Whether the pages of a section that became a view are gone is left open.
                open_ |= gate == "max_drop" and any(is_view(night.keys(name)) for name in night.turned)
                night.gates[gate] = None if open_ else answer

    @staticmethod
    def _judge_lost(
        night: Night, site_limits: Mapping[str, Any], force: frozenset[str], passed: dict[str, set[str]]
    ) -> None:
        """Judge sections that were not read and lost pages by what is left, and by what they had within a week."""
        for name in night.lost:
            limits = {**site_limits, **night.keys(name).get("gates", {})}
            answers = {"min_urls": night.counts[name]["listed"] < limits["min_urls"], "max_drop": None}
            for gate, answer in answers.items():
                if f"{name}.{gate}" in force:
                    passed[gate].add(name)
                else:
                    night.gates[f"{name}.{gate}"] = answer

    @staticmethod
    def _all_listed(night: Night, base: Mapping[str, Section], taken: set[str]) -> int:
        """Return how many pages the site lists: outside views, or in views if it has nothing else."""
        views = {
            name: base[name].view if name in night.stay else is_view(night.keys(name))
            for name in night.counts
            if name not in night.stay or name in base
        }
        return sum(night.counts[name]["listed"] for name in views) if all(views.values()) else len(taken)

    def _drops(
        self, night: Night, name: str | None, before: set[str], now: set[str], limits: Mapping[str, Any]
    ) -> bool | None:
        """Compare with the last release and the largest of seven days; None if its count and its URLs disagree."""
        if len(before) >= FEW and len(before - now) / len(before) > limits["max_drop"]:
            return True
        answers = set()
        for each in self.sets if name not in night.turned else ():
            since = night.base.counted_from.get(name) if night.base else None
            old = night.now - each.now > timedelta(days=7) or (since is not None and each.now < since)
            if old and each is not night.base:
                continue
            pages = set(each.plain()) if name is None else self._of(each.sections, name)
            if name is not None and len(pages) < FEW <= len(pages) + len(set(night.listed[name]) & set(each.plain())):
                answers.add(None)  # whether it was large enough counts with what moves into it only tonight
            if len(pages) >= FEW:
                mine = now if name is None else set(night.listed[name])
                # Pages that moved since then count as if they had always been in the section that lists them now.
                moved = (now - mine) & pages
                count = len(pages) - len(moved) + len((set(each.plain()) - pages) & mine)
                # The sizes of sets are compared, and not their pages: a page that came makes up for one that left.
                fewer = (count - len(mine)) / max(1, count) > limits["max_drop"]
                gone = len(pages - now) / len(pages) > limits["max_drop"]
                of_others = len(pages - now) / max(1, len(pages - moved)) > limits["max_drop"]
                answers.add(gone if gone == fewer == of_others else None)
        return True if True in answers else None if None in answers else False

    def _hour(self, night: Night, name: str | None) -> tuple[int, int, int]:
        """Count pages that had a lastmod; and those that certainly, or possibly, get a new one in the densest hour."""
        had, open_ = 0, 0
        minutes: Counter[int] = Counter()
        for section, listed in night.listed.items():
            if name not in (None, section) or is_view(night.keys(section)):
                continue
            rule = night.keys(section).get("lastmod")
            by_content = isinstance(rule, dict) and "fingerprint" in rule
            for loc in listed.keys() & night.before[section].keys():
                was = night.before[section][loc].lastmod
                new = {version.lastmod for version in listed[loc]} - {was}
                had += was is not None
                if was is None or by_content or not new:
                    continue
                if len({version.lastmod for version in listed[loc]}) > 1:
                    open_ += 1
                elif (date := new.pop()) is not None and "T" in date:
                    minutes[int(datetime.fromisoformat(date).timestamp()) // 60] += 1
        most = max((sum(minutes[each + step] for step in range(60)) for each in minutes), default=0)
        return had, most, most + open_

    def _same_hour(self, night: Night, name: str | None, limit: float | None) -> bool | None:
        """Say whether more than this share get a new lastmod within one hour; None if that is left open."""
        had, least, most = self._hour(night, name)
        if limit is None or had < MANY:
            return False
        answers = {count / had > limit for count in (least, most)}
        return answers.pop() if len(answers) == 1 else None

    def _undated(self, night: Night, name: str | None, limits: Mapping[str, Any]) -> bool | None:
        """Return the share of dated pages that lose their lastmod."""
        had, lost, at_most = 0, 0, 0
        for section, listed in night.listed.items():
            keys = night.keys(section)
            if name not in (None, section) or is_view(keys) or keys.get("lastmod") == "none":
                continue
            for loc in listed.keys() & night.before[section].keys():
                if night.before[section][loc].lastmod is not None:
                    had += 1
                    lost += all(version.lastmod is None for version in listed[loc])
                    at_most += any(version.lastmod is None for version in listed[loc])
        if had < FEW:
            return False
        answers = {share / had > limits["max_undated"] for share in (lost, at_most)}
        return answers.pop() if len(answers) == 1 else None
