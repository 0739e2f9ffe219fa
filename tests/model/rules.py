"""The result of one row, and of a section's rows, before pages are compared: columns, where, transform, the rules."""

from __future__ import annotations

import json
import re
import struct
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from fractions import Fraction
from typing import Any
from zoneinfo import ZoneInfo

from tests.model.alive import is_bad, is_unknown
from tests.model.records import Links, Page, Row

WORDS = {"always", "hourly", "daily", "weekly", "monthly", "yearly", "never"}
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


def fails(new: Collection[str], limits: Mapping[str, Any]) -> bool:
    """Return whether too many of these new pages are bad. All are visited: no site here has more than the sample."""
    judged = [loc for loc in new if not is_unknown(loc)]
    assert len(new) <= limits["sample"]
    return len(judged) >= FEW and sum(map(is_bad, judged)) / len(judged) > limits["max_bad"]


def is_view(keys: Mapping[str, Any]) -> bool:
    return bool(keys.get("view") or "news" in keys)


def matches(pattern: str, path: str) -> bool:
    """Return whether a robots.txt pattern matches path and query: `*` is any text, a final `$` the end."""
    text = re.escape(pattern).replace(r"\*", ".*")
    return re.match(text[:-2] + r"\Z" if text.endswith(r"\$") else text, path) is not None


def blank(value: object) -> bool:
    return value is None or (isinstance(value, str) and not value.strip())


def written_date(value: str | None, now: datetime, zone: str | None = None) -> str | None:
    """Return the lastmod of a text by the table of docs/reference/lastmod.md, or None if it is dropped."""
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
    """Return whether the section has lastmod at all."""
    rule = keys.get("lastmod")
    return "lastmod" in columns if rule is None else rule != "none"


def source_date(keys: Mapping[str, Any], row: Row, now: datetime) -> str | None:
    """Return the date of the row itself; for a fingerprint, that of `until_changed`."""
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
    """Return a priority, rounded half up by its written decimal, or None if it has none or is dropped."""
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
    """Return the top 16 bits of the number: equal if sign, exponent and four bits of the fraction are."""
    if blank(value):
        return None
    bits = int(struct.unpack(">Q", struct.pack(">d", float(str(value))))[0])
    return (bits ^ (1 << 63) if bits < 1 << 63 else bits ^ ((1 << 64) - 1)) >> 48


def percentiles(rows: Iterable[Row], column: str) -> dict[int, str]:
    """Return rank → priority: (rows below + half of the equal ones) / all rows with a value."""
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
    """Return the images of a page, each once. Invalid JSON or an invalid image drops nothing else."""
    try:
        given = json.loads(row.get("images") or "[]")
    except ValueError:
        return ()
    found = [site["site"] + each if each.startswith("/") else each for each in given if not each.startswith("ftp:")]
    return tuple(dict.fromkeys(found))


def language(text: object) -> str | None:
    """Return an hreflang tag in its usual case, or None if Google does not accept it."""
    if blank(text):
        return None
    parts = str(text).strip().replace("_", "-").split("-")
    return "-".join([parts[0].lower(), *(part.upper() for part in parts[1:])]) if len(parts[0]) == 2 else None


def member(keys: Mapping[str, Any], name: str, row: Row) -> tuple[str, str, tuple[str, ...]] | None:
    """Return the row's group and tags for hreflang clusters."""
    rule = keys.get("alternates")
    if rule is None or blank(row[rule["group"]]):
        return None
    tag = language(row[rule["hreflang"]])
    return None if tag is None else (rule.get("cluster", name), str(row[rule["group"]]), (tag,))


def closure(members: Iterable[tuple[str, str]], x_default: str | None) -> dict[str, Links]:
    """Return loc → links of the page, from (loc, tag) of one group. Of two pages for a language the first counts."""
    tags: dict[str, str] = {}
    for loc, tag in sorted(set(members)):
        tags.setdefault(tag, loc)
    if x_default is not None and x_default in tags:
        tags.setdefault("x-default", tags[x_default])
    links = tuple(sorted(tags.items()))
    return dict.fromkeys(tags.values(), links) if len(set(tags.values())) > 1 else {}


@dataclass
class Inventory:
    """Return loc → rows that can be listed, and the outcomes of the others."""

    rows: dict[str, list[tuple[Row, str]]]  # with the canonical path
    excluded: Counter[str]
    rejected: Counter[str]


def inventory(site: Mapping[str, Any], keys: Mapping[str, Any], rows: Iterable[Row], disallow: list[str]) -> Inventory:
    """Apply columns, where and transform; then exclusions; then rejections."""
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
    """Return what counts as a change: another lastmod if the section has any, else other images or links."""
    if dated:
        return before.lastmod != lastmod
    return before.images != pictures or (links is not None and before.links != links)


def rejects(counts: Mapping[str, int], limits: Mapping[str, Any]) -> bool:
    rows = counts["extracted"] + counts["carried"]
    return rows >= FEW and counts["rejected"] / rows > limits["max_rejected"]


def span(text: str) -> timedelta:
    """Return the duration of `7d`, `1h`, `30m` in a site file."""
    return timedelta(**{{"d": "days", "h": "hours", "m": "minutes", "s": "seconds"}[text[-1]]: int(text[:-1])})
