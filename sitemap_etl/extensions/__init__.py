"""The extensions of a page: raw columns → the checked, nested columns of `frames.PUBLISHED`.

| function | column in | out |
|---|---|---|
| `images` | list of URLs | `frames.IMAGES` |
| `videos` | list of structs with Google's element names | `frames.VIDEOS` |
| `alternates` | map hreflang → URL | `frames.ALTERNATES` |
| `news` | title and publication_date | `frames.NEWS` |
| `mobile` | bool | bool |

Nested columns are native (list, struct, map) or JSON text. A value that breaks a rule takes its
extension element with it, never the page; each is counted in a `Tally` under a reason.
"""

from __future__ import annotations

from sitemap_etl.extensions.alternate import alternates
from sitemap_etl.extensions.article import NOT_NEWS, language, news, still_news
from sitemap_etl.extensions.hreflang import hreflang_lists, hreflang_tag, hreflang_tags
from sitemap_etl.extensions.image import images
from sitemap_etl.extensions.scalars import mobile
from sitemap_etl.extensions.texts import cleaned
from sitemap_etl.extensions.video import videos

__all__ = [
    "NOT_NEWS",
    "alternates",
    "cleaned",
    "hreflang_lists",
    "hreflang_tag",
    "hreflang_tags",
    "images",
    "language",
    "mobile",
    "news",
    "still_news",
    "videos",
]
