"""The URL rules of a site, and the reasons for which a URL is rejected."""

from __future__ import annotations

from typing import Final

from sitemap_etl.errors import ConfigError
from sitemap_etl.frozen import Frozen
from sitemap_etl.urls.spelling import canonical_url, origin

REASONS: Final[dict[str, str]] = {
    "missing loc": "The loc is null, empty, blank, or only a fragment.",
    "placeholder": "It is a word for a missing value, such as NULL, \\N, None, NaN or #N/A, and not an address.",
    "not UTF-8": "The bytes are not UTF-8: the export was written or read in a different encoding.",
    "control character": "It contains a raw control character, such as a tab, a line break or NUL.",
    "invisible character": "It contains a raw invisible character: zero width, soft hyphen, direction or line mark.",
    "broken character": "It contains U+FFFD or a code point that is not a character: the text was already damaged.",
    "not http or https": "It has a different scheme, such as ftp: or mailto:, or a colon in the first segment of a "
    "relative path.",
    "scheme missing": "It begins with the host of the site, without https:// before it.",
    "not absolute": "A URL on any host (an image, a video, an alternate) must begin with http:// or https://.",
    "header row": "It is the name of its column: a header stands between the rows.",
    "markup": "It begins with <, [ or {: a link in HTML or Markdown, or a list, and not an address.",
    "quoted": "It is in quotation marks.",
    "formula": "It is a formula of a spreadsheet, such as =HYPERLINK(…).",
    "row count": "It is the count that a query tool writes below its rows, such as (2 rows).",
    "dashes": "It consists of dashes, as between the header and the rows of a query tool.",
    "misspelled scheme": "It begins with http:// or https:// misspelled, before the host of the site.",
    "site repeated": "A scheme and the host of the site follow where its path begins: the site was put before an "
    "address that had it.",
    "several addresses": "A second URL with http:// or https:// follows, behind white space, a comma, a semicolon or a "
    "bar.",
    "file path": "It is the path of a file, on a drive or a share of Windows.",
    "no leading slash": "It is neither a path with a leading slash nor absolute, and urls.bare is reject.",
    "missing host": "There is no host after the scheme.",
    "user name or password": "There is a user name or password before the host.",
    "invalid host": "The host is neither a domain name that UTS-46 allows nor an IP address.",
    "invalid port": "The port is not a number up to 65535.",
    "foreign origin": "The origin (scheme, host, port) is neither that of the site nor in urls.same_as.",
    "too long": "The canonical URL has more than 2,047 characters.",
}
"""Every reason for which a URL is rejected, with what it means."""

NO_ADDRESSES: Final = frozenset(
    {
        "header row",
        "markup",
        "quoted",
        "formula",
        "row count",
        "dashes",
        "scheme missing",
        "misspelled scheme",
        "site repeated",
        "several addresses",
        "file path",
        "no leading slash",
    }
)
"""Reasons for values that are not addresses, although they could be joined to the site."""

STRIP: Final = ("tracking", "sessions")
"""What `urls.strip` may name."""


class UrlRules(Frozen):
    """The rules of a site: its origins, and the parameters to remove from URLs.

    `site` and `same_as` are origins (scheme, host, port); other spellings of an origin are made
    canonical. `bare`: values without a leading slash are paths, too. Raise `ConfigError` naming the key of the
    site file.
    """

    site: str
    same_as: tuple[str, ...] = ()
    strip: frozenset[str] = frozenset()
    bare: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "site", _origin_of_key("site", self.site))
        same = (_origin_of_key("urls.same_as", text) for text in self.same_as)
        object.__setattr__(self, "same_as", tuple(dict.fromkeys(o for o in same if o != self.site)))
        object.__setattr__(self, "strip", frozenset(self.strip))
        if unknown := sorted(self.strip.difference(STRIP)):
            raise ConfigError(f"urls.strip: {', '.join(unknown)} is not known; expected some of {', '.join(STRIP)}")


def _origin_of_key(key: str, text: str) -> str:
    wanted = "expected an origin (scheme, host, port) such as https://shop.example"
    try:
        found, whole = origin(text), canonical_url(text)
    except ValueError as error:
        raise ConfigError(f"{key}: {text} is not an http or https address ({error}); {wanted}") from error
    if whole != found + "/":
        raise ConfigError(f"{key}: {text} is more than an origin; {wanted}")
    return found
