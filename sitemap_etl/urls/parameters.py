"""Parameters that `urls.strip` removes from a URL: they name a click or a visit, never a page.

A name is matched whole and without case; the rest of the query stays as it is and where it is.
`sid`, `ref`, `source`, `cid` and `uid` mean something on real sites and are in no list.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

TRACKING: Final = frozenset(
    {
        *("gclid", "gclsrc", "dclid", "gbraid", "wbraid", "gad_source", "gad_campaignid", "srsltid"),  # Google
        *("_ga", "_gl", "fbclid", "igshid", "igsh", "msclkid", "twclid", "ttclid", "li_fat_id", "epik", "rdt_cid"),
        *("yclid", "ysclid", "_openstat", "ref_src"),  # Yandex, Openstat, X
        *("mc_cid", "mc_eid", "_hsenc", "_hsmi", "__hssc", "__hstc", "__hsfp", "hsctatracking"),  # Mailchimp, HubSpot
        *("mkt_tok", "oly_anon_id", "oly_enc_id", "vero_conv", "vero_id", "ml_subscriber", "ml_subscriber_hash"),
        *("s_cid", "wickedid"),
        *("pk_campaign", "pk_cid", "pk_content", "pk_group", "pk_keyword", "pk_kwd", "pk_medium", "pk_placement"),
        *("pk_source", "piwik_campaign", "piwik_keyword", "piwik_kwd"),
        *("mtm_campaign", "mtm_cid", "mtm_content", "mtm_group", "mtm_keyword", "mtm_kwd", "mtm_medium"),
        *("mtm_placement", "mtm_source", "matomo_campaign", "matomo_cid", "matomo_content", "matomo_group"),
        *("matomo_keyword", "matomo_kwd", "matomo_medium", "matomo_placement", "matomo_source"),
        *("itm_campaign", "itm_content", "itm_medium", "itm_source", "itm_term"),
    }
)
"""Parameters that advertising, mail and analytics add to links. Named in the vendors' documentation and in
the lists of AdGuard, ClearURLs and Firefox."""
TRACKING_FAMILIES: Final = ("utm_",)
"""Beginnings of names: `utm_*` is one system with many names of people's own."""

SESSIONS: Final = frozenset(
    {"phpsessid", "jsessionid", "asp.net_sessionid", "cfid", "cftoken", "sessionid", "session_id", "oscsid", "zenid"}
)
"""Parameters that carry a visitor's session."""
SESSION_FAMILIES: Final = ("aspsessionid",)

_PATH_PARAMETER: Final = re.compile(";jsessionid=[^/?;]*", re.IGNORECASE)
"""Servlets put the session behind a ";" of the last segment."""
_PATH_SEGMENT: Final = re.compile(
    r"/\((?:[AFX]\([A-Za-z0-9_-]*\))*S\([a-z0-5]{24}\)(?:[AFX]\([A-Za-z0-9_-]*\))*\)(?=/|$)"
)
"""ASP.NET puts it into a segment of its own: `/(S(lit3py55t21z5v55vlm25s55))/page.aspx`."""


def remover(strip: frozenset[str]) -> Callable[[str], str]:
    """Return the function that takes them out of "path?query", both percent-encoded canonically."""
    exact, families = names(strip)
    sessions = "sessions" in strip

    def without(rest: str) -> str:
        path, mark, query = rest.partition("?")
        if sessions and (";" in path or "/(" in path):
            path = _PATH_SEGMENT.sub("", _PATH_PARAMETER.sub("", path)) or "/"
        if not mark:
            return path
        pairs = query.split("&")
        kept = []
        for pair in pairs:
            name = pair.partition("=")[0].lower()
            if name not in exact and not name.startswith(families):
                kept.append(pair)
        if len(kept) == len(pairs):
            return path + mark + query
        query = "&".join(kept)
        return f"{path}?{query}" if query else path

    return without


def names(strip: frozenset[str]) -> tuple[frozenset[str], tuple[str, ...]]:
    """Return the exact names and the beginnings of names, in lower case, that these lists take out."""
    exact: frozenset[str] = frozenset()
    families: tuple[str, ...] = ()
    if "tracking" in strip:
        exact, families = exact | TRACKING, families + TRACKING_FAMILIES
    if "sessions" in strip:
        exact, families = exact | SESSIONS, families + SESSION_FAMILIES
    return exact, families
