"""User-Agents, with the names for them in robots.txt and in robots meta tags."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sitemap_etl.frozen import Frozen


class Agent(Frozen):
    """User-Agent with its rules.

    name: for messages.
    header: the User-Agent; "" is the client's own.
    token: the group of robots.txt that applies.
    metas: the names of meta tags, and of the parts of an X-Robots-Tag, that apply. `robots` applies to all agents.
    """

    name: str
    header: str
    token: str
    metas: frozenset[str]


OURSELVES: Final = Agent("sitemap_etl", "", "sitemap_etl", frozenset({"robots", "googlebot"}))
"""The default agent. It also follows the tags for Googlebot, because a page that Google can't index is reported."""

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
"""Crawlers that can be imitated, by the values of `--as`."""
