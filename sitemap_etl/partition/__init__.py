"""Cut the order of locs into windows, groups and shards, and choose the listed row of each loc.

Everything here is pure and works on canonical ASCII locs in bytewise order.
"""

from sitemap_etl.partition.borders import SAMPLES, Window, distinct, groups, routing_borders, samples, windows
from sitemap_etl.partition.cut import cut
from sitemap_etl.partition.route import Routed, route
from sitemap_etl.partition.winners import Winners, dated, ordered, stretch, winners

__all__ = [
    "SAMPLES",
    "Routed",
    "Window",
    "Winners",
    "cut",
    "dated",
    "distinct",
    "groups",
    "ordered",
    "route",
    "routing_borders",
    "samples",
    "stretch",
    "windows",
    "winners",
]
