"""robots.txt: the URLs that it disallows, and our marked block of `Sitemap:` lines in it.

Lines, groups and rules are read as Google's parser does (https://github.com/google/robotstxt).
"""

from sitemap_etl.robots.block import named_in, unread_rules, with_block, without_block, without_blocks, without_mark
from sitemap_etl.robots.groups import EVERYONE
from sitemap_etl.robots.lines import find_unreadable, lines_of, read_part, sitemaps
from sitemap_etl.robots.rules import CrawlRules, RobotsRules, disallowed

__all__ = [
    "EVERYONE",
    "CrawlRules",
    "RobotsRules",
    "disallowed",
    "find_unreadable",
    "lines_of",
    "named_in",
    "read_part",
    "sitemaps",
    "unread_rules",
    "with_block",
    "without_block",
    "without_blocks",
    "without_mark",
]
