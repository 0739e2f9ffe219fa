"""The origin of a site, chosen from the origins of its pages, and the treatment of the others."""

from __future__ import annotations

from collections import Counter

from sitemap_etl.frozen import Frozen
from sitemap_etl.runs.init.text import flow

_NAMED = 3
"""Other origins that a note names."""


class Origins(Frozen):
    """`site`: the origin of the site. `same`: other spellings of it. `others`: origins of other hosts."""

    site: str
    same: tuple[str, ...] = ()
    others: tuple[str, ...] = ()

    def lines(self, *, bare: bool) -> list[str]:
        """Return the rules of the site file for addresses. `bare`: some have no leading slash."""
        rules = {**({"same_as": list(self.same)} if self.same else {}), **({} if bare else {"bare": "reject"})}
        return [f"urls: {flow(rules)}"] if rules else []

    def notes(self) -> list[str]:
        """Return notes about pages that are not at the site's origin."""
        notes = []
        if self.same:
            notes.append(f"some pages are at {', '.join(self.same)}: by urls.same_as they are listed at {self.site}")
        if self.others:
            named = ", ".join(self.others[:_NAMED])
            notes.append(
                f"some pages are at {named}: those are rejected, unless urls: {{same_as: […]}} names their origin"
            )
        return notes


def settle(found: Counter[str], wanted: str | None, placeholder: str) -> Origins:
    """Choose the site's origin: `wanted`, or the most frequent one, or the placeholder.

    `found`: number of pages by origin.
    """
    names = [name for name, _ in found.most_common()]
    site = wanted or (names[0] if names else placeholder)
    rest = [name for name in names if name != site]
    same = tuple(name for name in rest if host(name) == host(site))
    return Origins(site, same, tuple(name for name in rest if name not in same))


def host(address: str) -> str:
    """Return the host of an origin without `www.`."""
    return address.partition("://")[2].removeprefix("www.")
