"""As whom pages are asked for: the User-Agent, and the names that robots.txt and robots meta tags know it by."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sitemap_etl.frozen import Frozen


class Agent(Frozen):
    """`name`: as messages say it. `header`: the User-Agent; "" is the client's own.

    `token`: whose group of a robots.txt holds. `metas`: the names of meta tags, and of the parts of an X-Robots-Tag,
    that speak to it; `robots` speaks to everyone.
    """

    name: str
    header: str
    token: str
    metas: frozenset[str]


OURSELVES: Final = Agent("sitemap_etl", "", "sitemap_etl", frozenset({"robots", "googlebot"}))
"""A page that Google may not index is told of whoever asks for it."""

CRAWLERS: Final[Mapping[str, Agent]] = {
    # https://developers.google.com/search/docs/crawling-indexing/google-common-crawlers
    "googlebot": Agent(
        "Googlebot",
        "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
        "Googlebot",
        frozenset({"robots", "googlebot"}),
    ),
    # https://www.bing.com/webmasters/help/which-crawlers-does-bing-use-8c184ec0
    "bingbot": Agent(
        "Bingbot",
        "Mozilla/5.0 (compatible; bingbot/2.0; +http://www.bing.com/bingbot.htm)",
        "bingbot",
        frozenset({"robots", "bingbot", "msnbot"}),
    ),
}
"""The crawlers that can be imitated, by the names they are asked for by."""
