"""What a URL is held against: the rules of a site, and the reasons for which a URL can't be listed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sitemap_etl.errors import ConfigError
from sitemap_etl.urls.spelling import canonical_url, origin

REASONS: Final[dict[str, str]] = {
    "missing loc": "The loc is null, empty, blank or nothing but a fragment.",
    "not UTF-8": "The bytes are not UTF-8: the export was written or read in another encoding.",
    "control character": "A raw control character is inside, such as a tab, a line break or NUL.",
    "invisible character": "A raw invisible character is inside: zero width, soft hyphen, direction or line mark.",
    "broken character": "A U+FFFD or another code point that is no character is inside: the text was damaged before.",
    "not http or https": "It has another scheme, as ftp: or mailto:, or a colon in a relative path's first segment.",
    "scheme missing": "It begins with the site's host but has no https:// before it.",
    "not absolute": "A URL on any host (an image, a video, an alternate) must begin with http:// or https://.",
    "missing host": "There is no host after the scheme.",
    "user name or password": "There is a user name or a password before the host.",
    "invalid host": "The host is no domain name that UTS-46 allows and no IP address.",
    "invalid port": "The port is no number up to 65535.",
    "foreign origin": "Scheme, host or port are neither the site's nor one of urls.same_as.",
    "too long": "The canonical URL has more than 2,047 characters.",
}
"""Every reason for which a URL is rejected, with what it means."""

STRIP: Final = ("tracking", "sessions")
"""What `urls.strip` may name."""


@dataclass(frozen=True)
class UrlRules:
    """The rules of a site: where its URLs live and what is taken out of them.

    `site` and `same_as` are origins (scheme, host, port); other spellings of an origin are made
    canonical. Raises `ConfigError` naming the key of the site file.
    """

    site: str
    same_as: tuple[str, ...] = ()
    strip: frozenset[str] = frozenset()

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
        raise ConfigError(f"{key}: {text} is no http(s) address ({error}); {wanted}") from error
    if whole != found + "/":
        raise ConfigError(f"{key}: {text} has more than an origin; {wanted}")
    return found
