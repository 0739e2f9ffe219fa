"""The nightly job as it is documented, in plain Python, one row after the other.

Written from the documents, not from the code, so that the two can disagree. A night has two halves:

- `Model.predict` takes the site file, the rows of the sources and the moment, and tells what a run must make of them:
  what each section lists, its counts, what the gates say.
- `Model.settle` takes what a crawler then reads, tells every difference in plain words, and remembers what it saw.

Where the documents leave something open, a page has several `Version`s and any of them will do: of two rows for one
page with the same date, the smallest hash decides, and this model has no hash. What was published is adopted, and so is
the way a file was cut, as long as it is one of the ways that are documented (`shards`).
"""

from __future__ import annotations

import json
import re
import struct
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from fractions import Fraction
from typing import Any, TypeAlias
from zoneinfo import ZoneInfo

from tests.model.alive import is_bad, is_unknown

Row: TypeAlias = dict[str, Any]
Links: TypeAlias = tuple[tuple[str, str], ...]

WORDS = {"always", "hourly", "daily", "weekly", "monthly", "yearly", "never"}
GATES = {"max_drop": 0.1, "max_growth": 1.0, "max_rejected": 0.05, "max_undated": 0.05, "min_urls": 1, "pages": None}
FEW = 20
"""Below so many URLs a share says nothing."""
WHERE: dict[str, Callable[[Row], bool]] = {
    "live = 'yes'": lambda row: row["live"] == "yes",
    "live <> 'no'": lambda row: row["live"] not in (None, "", "no"),
}
"""What the conditions mean that the nights use. A row for which one is null is excluded."""
HOOKS: dict[str, Callable[[Row], Row | None]] = {
    "tests.model.hooks:without_drafts": lambda row: None if row["live"] == "draft" else row,
    "tests.model.hooks:shouted": lambda row: {**row, "title": (row["title"] or "").upper()},
}
TIMEZONES = {name: ZoneInfo(name) for name in ("Europe/Berlin", "America/New_York")}


# --- what goes in ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Spelled:
    """A loc as a source spells it, and the page that is meant: known by construction, so nothing is normalised here."""

    text: str
    page: str = ""  # canonical path and query
    origin: str = ""  # the other origin that it names; the page is listed only where `same_as` has it
    tracking: str = ""  # the parameters that `strip: [tracking]` takes off
    reason: str = ""  # why it is rejected, whatever the settings

    def path(self, urls: Mapping[str, Any]) -> tuple[str, str]:
        """Canonical path and query, and the reason to reject it (one of the two is empty)."""
        if self.reason:
            return "", self.reason
        if self.origin and self.origin not in urls.get("same_as", ()):
            return "", "foreign origin"
        if self.tracking and "tracking" not in urls.get("strip", ()):
            return f"{self.page}{'&' if '?' in self.page else '?'}{self.tracking}", ""
        return self.page, ""


@dataclass
class Source:
    """What a section's source holds tonight. `splits`: the rows in the parts in which they are read."""

    rows: list[Row]
    columns: set[str]
    broken: bool = False


# --- what comes out -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Version:
    """How a page may be listed. Priority and changefreq are what its file shows if it is written tonight."""

    lastmod: str | None
    images: tuple[str, ...]
    priority: str | None
    changefreq: str | None
    title: str
    print: tuple[Any, ...] | None  # the content of the fingerprint's columns
    cluster: tuple[str, str, tuple[str, ...]] | None  # its name, the group, the hreflang tags of the page


@dataclass(frozen=True)
class Page:
    """A page as it is published, and what the state knows of it; sets hold what can't be told apart from outside."""

    lastmod: str | None
    images: tuple[str, ...]
    links: Links
    priority: str | None
    changefreq: str | None
    titles: frozenset[str]
    prints: frozenset[tuple[Any, ...] | None]
    since: frozenset[datetime | None]  # when it was added or last changed; None: with the first publish
    cluster: tuple[str, str, tuple[str, ...]] | None

    @property
    def core(self) -> tuple[Any, ...]:
        """What rewrites its file when it changes."""
        return self.lastmod, self.images, self.links


@dataclass
class Section:
    """A section as it is published."""

    view: bool
    pages: dict[str, Page]
    files: dict[int, list[str]]  # number → its locs, in order
    lows: dict[int, str]  # number → where its range began when it was cut
    definition: tuple[str, ...] | None  # the columns of its fingerprints
    text: bool
    feeds: dict[str, tuple[str, int]]  # format → title, items
    dated: bool  # whether its rule gives dates at all


@dataclass
class Set:
    """A published set: what a rollback brings back. `lastmods`: key → when the bytes of the file last changed."""

    run_id: str
    now: datetime
    sections: dict[str, Section]
    content: dict[str, bytes]
    lastmods: dict[str, set[datetime]]
    mirrors: dict[str, Mirror]
    counted_from: dict[str | None, datetime] = field(default_factory=dict)  # section → the week of the bleed begins

    def plain(self) -> dict[str, tuple[str, Page]]:
        """loc → section and page, of all that is listed outside views."""
        found = {}
        for name, section in self.sections.items():
            if not section.view:
                found.update({loc: (name, page) for loc, page in section.pages.items()})
        return found


@dataclass(frozen=True)
class Mirror:
    """The rows of an incremental section as they were read, by key."""

    rows: Mapping[Any, Row]
    read_at: datetime
    full_at: datetime
    select: str  # text, params and key: it holds for these alone


@dataclass
class Night:
    """What a run must make of tonight's sources."""

    now: datetime
    site: dict[str, Any]
    base: Set | None
    listed: dict[str, dict[str, list[Version]]] = field(default_factory=dict)  # of the sections that are read
    links: dict[str, Links | None] = field(default_factory=dict)  # None: the documents leave it open
    stay: set[str] = field(default_factory=set)  # sections that stay as published
    held: set[str] = field(default_factory=set)  # those of them whose source is broken
    turned: set[str] = field(default_factory=set)  # that became views, or are none any more: what changed is left open
    error: str = ""
    counts: dict[str, dict[str, int]] = field(default_factory=dict)
    changed: dict[str, tuple[int, int]] = field(default_factory=dict)  # at least, at most
    gates: dict[str, bool | None] = field(default_factory=dict)  # whether it refuses; None: left open
    reasons: dict[str, Counter[str]] = field(default_factory=dict)
    mirrors: dict[str, Mirror] = field(default_factory=dict)
    drift: dict[str, dict[str, int]] = field(default_factory=dict)
    before: dict[str, dict[str, Page]] = field(default_factory=dict)  # section → its pages as they were, wherever

    def keys(self, name: str) -> dict[str, Any]:
        return dict(self.site["sections"][name])

    def links_of(self, name: str, loc: str) -> Links | None:
        """The links of a page in this section; None where they are left open."""
        return self.links.get(loc, ()) if "alternates" in self.keys(name) else ()

    @property
    def refused(self) -> bool | None:
        """Whether a gate refuses; None where the documents leave it open."""
        answers = set(self.gates.values())
        return True if True in answers else None if None in answers else False


# --- rows: columns, where, transform, then the rules -----------------------------------------------


def fails(new: Collection[str], limits: Mapping[str, Any]) -> bool:
    """Whether too many of these new pages are bad. All of them are visited: no site here has more than the sample."""
    judged = [loc for loc in new if not is_unknown(loc)]
    assert len(new) <= limits["sample"]
    return len(judged) >= FEW and sum(map(is_bad, judged)) / len(judged) > limits["max_bad"]


def is_view(keys: Mapping[str, Any]) -> bool:
    return bool(keys.get("view") or "news" in keys)


def matches(pattern: str, path: str) -> bool:
    """Whether a pattern as in robots.txt matches path and query: `*` is any text, a final `$` the end."""
    text = re.escape(pattern).replace(r"\*", ".*")
    return re.match(text[:-2] + r"\Z" if text.endswith(r"\$") else text, path) is not None


def blank(value: object) -> bool:
    return value is None or (isinstance(value, str) and not value.strip())


def written_date(value: str | None, now: datetime, zone: str | None = None) -> str | None:
    """The lastmod that a text stands for, by the table of docs/reference/lastmod.md; None where it is dropped."""
    if blank(value):
        return None
    text = str(value).strip()
    try:
        if re.fullmatch(r"\d{4}-\d\d-\d\d", text):
            day = date.fromisoformat(text)
            future = day > now.date() + timedelta(days=1)
            return None if future or day.year < 1990 else text
        if not re.match(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d", text):
            return None
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        assert zone is not None, f"{text} needs a timezone"
        moment = moment.replace(tzinfo=TIMEZONES[zone])
    moment = moment.astimezone(UTC)
    if moment.year < 1990 or moment.replace(microsecond=0) > now:
        return None
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"


def gives_dates(keys: Mapping[str, Any], columns: set[str]) -> bool:
    """Whether the section has a lastmod at all."""
    rule = keys.get("lastmod")
    return "lastmod" in columns if rule is None else rule != "none"


def source_date(keys: Mapping[str, Any], row: Row, now: datetime) -> str | None:
    """The date that the row itself gives; under a fingerprint, that of `until_changed`."""
    rule = keys.get("lastmod")
    if rule is None:
        return written_date(row.get("lastmod"), now)
    if rule == "none":
        return None
    if isinstance(rule, str):
        return written_date(row[rule], now)
    names = rule.get("newest_of") or [rule.get("column") or rule.get("until_changed")]
    dates = [written_date(row[name], now, rule.get("timezone")) for name in names if name is not None]
    return max((found for found in dates if found is not None), default=None)


def tenths(value: object) -> str | None:
    """A priority, rounded half up by the decimal that is written; None where it is none or dropped."""
    if blank(value):
        return None
    try:
        number = Decimal(str(value).strip())
    except InvalidOperation:
        return None
    if not number.is_finite() or not 0 <= number <= 1:
        return None
    return str(number.quantize(Decimal("0.1"), ROUND_HALF_UP))


def depth(path: str) -> str:
    levels = len(path.partition("?")[0].strip("/").split("/")) if path.partition("?")[0].strip("/") else 0
    return {0: "1.0", 1: "0.8", 2: "0.6", 3: "0.4"}.get(levels, "0.2")


def rank(value: object) -> int | None:
    """The top 16 bits of the number: those that agree in sign, exponent and four bits of fraction are equal."""
    if blank(value):
        return None
    bits = int(struct.unpack(">Q", struct.pack(">d", float(str(value))))[0])
    return (bits ^ (1 << 63) if bits < 1 << 63 else bits ^ ((1 << 64) - 1)) >> 48


def percentiles(rows: Iterable[Row], column: str) -> dict[int, str]:
    """rank → priority: (rows below + half of the equal ones) / all rows with a value."""
    counted = Counter(found for row in rows if (found := rank(row[column])) is not None)
    below, table = 0, {}
    for found in sorted(counted):
        share = (Fraction(below) + Fraction(counted[found], 2)) / counted.total()
        table[found] = str(Decimal(int(share * 10 + Fraction(1, 2))) / 10)
        below += counted[found]
    return {found: "1.0" if text == "1" else "0.0" if text == "0" else text for found, text in table.items()}


def priority(rule: object, row: Row, path: str, ranks: Mapping[int, str]) -> str | None:
    if rule is None:
        return tenths(row.get("priority"))
    if rule == "none":
        return None
    if isinstance(rule, dict):
        if "depth" in rule:
            return depth(path)
        if "percentile_of" in rule:
            found = rank(row[rule["percentile_of"]])
            return None if found is None else ranks[found]
        return tenths(row[rule["column"]])
    return tenths(row[rule]) if isinstance(rule, str) else tenths(rule)


def changefreq(rule: Any, row: Row) -> str | None:
    if rule == "none":
        return None
    if isinstance(rule, str) and rule in WORDS:
        return rule
    column = "changefreq" if rule is None else rule["column"] if isinstance(rule, dict) else rule
    word = str(row.get(column) or "").strip().lower()
    return word if word in WORDS else None


def images(row: Row, site: Mapping[str, Any]) -> tuple[str, ...]:
    """The images of a page, each once. JSON that can't be read and an image that can't be one cost themselves alone."""
    try:
        given = json.loads(row.get("images") or "[]")
    except ValueError:
        return ()
    found = [site["site"] + each if each.startswith("/") else each for each in given if not each.startswith("ftp:")]
    return tuple(dict.fromkeys(found))


def language(text: object) -> str | None:
    """An hreflang tag in its usual case; None where Google takes none."""
    if blank(text):
        return None
    parts = str(text).strip().replace("_", "-").split("-")
    return "-".join([parts[0].lower(), *(part.upper() for part in parts[1:])]) if len(parts[0]) == 2 else None


def member(keys: Mapping[str, Any], name: str, row: Row) -> tuple[str, str, tuple[str, ...]] | None:
    """Where the row stands among the hreflang clusters."""
    rule = keys.get("alternates")
    if rule is None or blank(row[rule["group"]]):
        return None
    tag = language(row[rule["hreflang"]])
    return None if tag is None else (rule.get("cluster", name), str(row[rule["group"]]), (tag,))


def closure(members: Iterable[tuple[str, str]], x_default: str | None) -> dict[str, Links]:
    """loc → the links of its page, of the (loc, tag) of one group. Two pages of one language: the first keeps it."""
    tags: dict[str, str] = {}
    for loc, tag in sorted(set(members)):
        tags.setdefault(tag, loc)
    if x_default is not None and x_default in tags:
        tags.setdefault("x-default", tags[x_default])
    links = tuple(sorted(tags.items()))
    return dict.fromkeys(tags.values(), links) if len(set(tags.values())) > 1 else {}


@dataclass
class Inventory:
    """A section's rows that can be listed: loc → rows for it; and what became of the others."""

    rows: dict[str, list[tuple[Row, str]]]  # with the canonical path
    excluded: Counter[str]
    rejected: Counter[str]


def inventory(site: Mapping[str, Any], keys: Mapping[str, Any], rows: Iterable[Row], disallow: list[str]) -> Inventory:
    """Columns, where, transform; then what asks to be left out; then what can't be listed."""
    urls = site.get("urls", {})
    found = Inventory(defaultdict(list), Counter(), Counter())
    patterns = [*urls.get("exclude", ()), *(disallow if urls.get("respect_robots") else ())]
    for given in rows:
        row: Row | None = dict(given)
        assert row is not None
        renames = keys.get("columns", {})
        row.update({contract: given[source] for contract, source in renames.items()})
        if "where" in keys and not WHERE[keys["where"]](row):
            found.excluded["where"] += 1
            continue
        row = HOOKS[keys["transform"]](row) if "transform" in keys else row
        if row is None:
            found.excluded["transform"] += 1
            continue
        if not blank(row.get("exclude")):
            found.excluded[row["exclude"]] += 1
            continue
        path, reason = row["loc"].path(urls)
        if reason:
            found.rejected[reason] += 1
        elif any(matches(pattern, path) for pattern in patterns):
            found.excluded["pattern"] += 1
        else:
            found.rows[site["site"] + path].append((row, path))
    return found


def changed(before: Page, lastmod: str | None, pictures: tuple[str, ...], links: Links | None, *, dated: bool) -> bool:
    """What counts as a change: in a section with lastmod another one; in a section without, other images or links."""
    if dated:
        return before.lastmod != lastmod
    return before.images != pictures or (links is not None and before.links != links)


# --- the model ------------------------------------------------------------------------------------


class Model:
    """What the site remembers from night to night."""

    def __init__(self, not_yet: Collection[str] = ()) -> None:
        """`not_yet`: what the product is known not to do, and is not held to."""
        self.not_yet = frozenset(not_yet)
        self.current: Set | None = None
        self.sets: list[Set] = []  # that were published, oldest first
        self.mirrors: dict[str, Mirror] = {}  # as of the last run that was published or found nothing to do
        self.numbers: dict[str, int] = defaultdict(int)  # section → the highest number it ever had
        self.retired: dict[str, datetime] = {}  # key → when it left the set
        self.away: dict[str, dict[str, Page]] = defaultdict(dict)  # section → pages that it listed once
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
        """What a run at `now` must propose. `disallow`: the patterns of the site's own robots.txt."""
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
            if name in night.stay and name in base and not base[name].view:
                taken.update(base[name].pages)
        for name, keys in site["sections"].items():
            if name in night.stay:
                pages = base[name].pages if name in base else {}
                counts = {"extracted": 0, "carried": len(pages), "duplicates": 0, "excluded": 0, "rejected": 0}
                night.counts[name] = {**counts, "listed": len(pages), "added": 0, "removed": 0}
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
        """The rows of the section tonight, and the counts so far. Incremental: what changed, merged into the mirror."""
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
        """How the page of these rows may be listed. The newest date wins, then the fingerprint that is published."""
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
        if (known is None or known[0] != name) and loc in self.away[name]:
            # Whether it is a new page or one that was only away is left open.
            was = self.away[name][loc]
            found += [version(rival, was.lastmod, content) for rival, content in contents if content in was.prints]
            found += [version(rival, moment, content) for rival, content in contents if {content} != was.prints]
        return list(dict.fromkeys(found))

    def _ever(self, name: str) -> bool:
        return any(name in each.sections for each in self.sets)

    def _link(self, night: Night) -> None:
        """The hreflang clusters, closed over all that is listed."""
        groups: dict[tuple[str, str], list[tuple[str, str]]] = defaultdict(list)
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
            elif night.base and name in night.base.sections and not night.base.sections[name].view:
                members = [(loc, page.cluster) for loc, page in night.base.sections[name].pages.items()]
                written = rule.get("cluster", name) if rule is not None else None
                for _, each in members:
                    if each is not None and each[0] != written:  # whether it goes over to its new cluster unread
                        open_ |= {(each[0], each[1]), (written or "", each[1])}
            for loc, cluster in members:
                if cluster is not None:
                    groups[cluster[0], cluster[1]] += [(loc, tag) for tag in cluster[2]]
        for group, pairs in groups.items():
            links = closure(pairs, defaults.get(group[0]))
            for loc, _ in pairs:
                night.links[loc] = None if group in open_ else links.get(loc, ())

    def _count(self, night: Night, plain: Mapping[str, tuple[str, Page]], sources: Mapping[str, Source]) -> None:
        """Added, changed, removed. A page that another section lists now is neither added nor removed."""
        everywhere = {loc for name in night.listed if not is_view(night.keys(name)) for loc in night.listed[name]}
        base = night.base.sections if night.base else {}
        for name in night.stay & base.keys():
            everywhere.update({} if base[name].view else base[name].pages)
        for name, listed in night.listed.items():
            view = is_view(night.keys(name))
            if not view:
                moved = {loc: plain[loc][1] for loc in listed if loc in plain}
                night.before[name] = {**moved, **night.before[name]}
            before = night.before[name]
            dated = gives_dates(night.keys(name), sources[name].columns)
            least = most = 0
            for loc in listed.keys() & before.keys():
                links = night.links_of(name, loc)
                found = {changed(before[loc], v.lastmod, v.images, links, dated=dated) for v in listed[loc]}
                least += found == {True}
                most += True in found or (links is None and not dated)
            gone = before.keys() - listed.keys() if view else self._of(base, name) - everywhere
            night.counts[name]["added"] = len(listed.keys() - before.keys())
            night.counts[name]["removed"] = len(gone)
            night.changed[name] = (least, most)
            if name in base and base[name].view != view:
                night.turned.add(name)

    @staticmethod
    def _of(base: Mapping[str, Section], name: str) -> set[str]:
        return set(base[name].pages) if name in base and not base[name].view else set()

    # --- after it ---

    def accept(self, found: Set, forced: Iterable[str] = ()) -> None:
        """This set is in place. Where a drop was forced, the week of the slow bleed is counted anew."""
        for gate in forced:
            if gate.endswith("max_drop"):
                found.counted_from[gate.removesuffix("max_drop").removesuffix(".") or None] = found.now
                found.counted_from[None] = found.now
        if self.current is not None:
            for name, section in self.current.sections.items():
                self.away[name].update(section.pages)
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
        """What each gate says. They hold for every section that is read, and for the site."""
        base = night.base.sections if night.base else {}
        site_limits = {**GATES, **night.site.get("gates", {})}
        passed: dict[str, set[str]] = defaultdict(set)  # gate → the sections whose share was let through or refused
        for name, listed in night.listed.items():
            keys, counts = night.keys(name), night.counts[name]
            views = {"max_drop": 1.0, "min_urls": 0} if is_view(keys) else {}
            limits = {**site_limits, **views, **keys.get("gates", {})}
            before = set(night.before[name]) if is_view(keys) else self._of(base, name)
            turned = bool(night.turned)  # whether the pages of a section that became a view are gone is left open
            answers = {
                "max_drop": self._drops(night, name, before, set(listed) if is_view(keys) else taken, limits),
                "max_growth": len(before) >= FEW and counts["added"] / len(before) > limits["max_growth"],
                "max_rejected": rejects(counts, limits),
                "max_undated": self._undated(night, name, limits),
                "min_urls": counts["listed"] < limits["min_urls"],
            }
            if limits["pages"] and not is_view(keys):
                answers["pages"] = fails(listed.keys() - night.before[name].keys(), limits["pages"])
            for gate, answer in answers.items():
                if f"{name}.{gate}" in force:
                    passed[gate].add(name)
                else:
                    night.gates[f"{name}.{gate}"] = None if turned and gate != "min_urls" else answer
                    if answer is not False or turned:
                        passed[gate].add(name)
        names = [name for name in night.counts if not is_view(night.keys(name))]
        kinds = ("extracted", "carried", "rejected", "added")
        total = {each: sum(night.counts[name][each] for name in names) for each in kinds}
        everything = set(plain)
        answers = {
            "max_drop": self._drops(night, None, everything, taken, site_limits),
            "max_growth": len(everything) >= FEW and total["added"] / len(everything) > site_limits["max_growth"],
            "max_rejected": rejects(total, site_limits),
            "max_undated": self._undated(night, None, site_limits),
            "min_urls": len(taken) < site_limits["min_urls"],
        }
        if site_limits["pages"]:
            read = [name for name in night.listed if not is_view(night.keys(name))]
            new = {loc for name in read for loc in night.listed[name].keys() - night.before[name].keys()}
            answers["pages"] = fails(new, site_limits["pages"])
        for gate, answer in answers.items():
            if gate not in force:
                # What a section lets through, its section's gate answers for, by shares that are not told in full.
                open_ = (night.turned and gate != "min_urls") or (answer is not False and passed[gate])
                night.gates[gate] = None if open_ else answer

    def _drops(
        self, night: Night, name: str | None, before: set[str], now: set[str], limits: Mapping[str, Any]
    ) -> bool | None:
        """Against the last set and the largest of seven days; None where its count and its URLs disagree."""
        if len(before) >= FEW and len(before - now) / len(before) > limits["max_drop"]:
            return True
        answers = set()
        for each in self.sets:
            since = night.base.counted_from.get(name) if night.base else None
            old = night.now - each.now > timedelta(days=7) or (since is not None and each.now < since)
            if old and each is not night.base:
                continue
            pages = set(each.plain()) if name is None else self._of(each.sections, name)
            if len(pages) >= FEW:
                gone = len(pages - now) / len(pages) > limits["max_drop"]
                mine = now if name is None else set(night.listed[name])
                fewer = (len(pages) - len(mine)) / len(pages) > limits["max_drop"]
                moved = name is not None and bool((now - mine) & pages)
                answers.add(gone if gone == fewer or moved else None)
        return True if True in answers else None if None in answers else False

    def _undated(self, night: Night, name: str | None, limits: Mapping[str, Any]) -> bool | None:
        """Pages that had a lastmod and have none now, over those that had."""
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


def rejects(counts: Mapping[str, int], limits: Mapping[str, Any]) -> bool:
    rows = counts["extracted"] + counts["carried"]
    return rows >= FEW and counts["rejected"] / rows > limits["max_rejected"]


def span(text: str) -> timedelta:
    """`7d`, `1h`, `30m` as the site file writes them."""
    return timedelta(**{{"d": "days", "h": "hours", "m": "minutes", "s": "seconds"}[text[-1]]: int(text[:-1])})
