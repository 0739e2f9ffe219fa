"""Extensions of a page: convert raw columns to the validated nested columns of `elements`.

| function | column in | out |
|---|---|---|
| `images` | list of URLs | `elements.IMAGES` |
| `videos` | list of structs with Google's element names | `elements.VIDEOS` |
| `alternates` | map hreflang → URL | `elements.ALTERNATES` |
| `news` | title and publication_date | `elements.NEWS` |
| `mobile` | bool | bool |

Nested columns are native (list, struct, map) or JSON text. An invalid value removes its extension element, never the
page. Each removal is counted in a `Tally` under a reason.
"""

from __future__ import annotations

from sitemap_etl.extensions.alternate import alternates
from sitemap_etl.extensions.article import NOT_NEWS, language, news, still_news
from sitemap_etl.extensions.hreflang import hreflang_lists, hreflang_tag, hreflang_tags
from sitemap_etl.extensions.image import images
from sitemap_etl.extensions.scalars import mobile
from sitemap_etl.extensions.texts import cleaned, escaped_twice
from sitemap_etl.extensions.video import videos

__all__ = [
    "NOT_NEWS",
    "alternates",
    "cleaned",
    "escaped_twice",
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
