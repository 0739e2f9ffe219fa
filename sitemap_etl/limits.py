"""The numbers of the protocols, each with its source, and the sizes this package works in."""

from __future__ import annotations

from typing import Final

# --- sitemaps.org 0.9 (https://www.sitemaps.org/protocol.html) -------------------------------
SITEMAP_ROWS: Final = 50_000
"""URLs in one sitemap file, and files in one index."""
SITEMAP_BYTES: Final = 52_428_800
"""Bytes of one uncompressed sitemap or index, wrapper included."""
LOC_LENGTH: Final = 2_047
"""Characters of a loc: "must be less than 2,048 characters"."""
CHANGEFREQS: Final = ("always", "hourly", "daily", "weekly", "monthly", "yearly", "never")

NS_SITEMAP: Final = "http://www.sitemaps.org/schemas/sitemap/0.9"
NS_IMAGE: Final = "http://www.google.com/schemas/sitemap-image/1.1"
NS_VIDEO: Final = "http://www.google.com/schemas/sitemap-video/1.1"
NS_NEWS: Final = "http://www.google.com/schemas/sitemap-news/0.9"
NS_MOBILE: Final = "http://www.google.com/schemas/sitemap-mobile/1.0"
NS_GEO: Final = "http://www.google.com/geo/schemas/sitemap/1.0"
NS_XHTML: Final = "http://www.w3.org/1999/xhtml"

# --- Google Search Central (pages of 2025-12 to 2026-07) -------------------------------------
INDEX_FILES: Final = 1_000
"""Files we put in one index: Search Console has refused more, whatever the protocol allows."""
INDEXES_PER_SITE: Final = 500
"""Index files that Search Console takes for one site."""
IMAGES_PER_PAGE: Final = 1_000
NEWS_ROWS: Final = 1_000
NEWS_HOURS: Final = 48
VIDEO_TITLE: Final = 100
VIDEO_DESCRIPTION: Final = 2_048
VIDEO_TAGS: Final = 32
VIDEO_DURATION: Final = 28_800
"""Seconds."""
VIDEO_UPLOADER: Final = 255
ROBOTS_BYTES: Final = 500 * 1024
"""Google reads this much of a robots.txt (RFC 9309 asks for at least 500 KiB)."""

PUBLIC_ROBOTS_BYTES: Final = 8 * 1024 * 1024
"""A site's own robots.txt is read up to here, far beyond what Google reads of it."""

# --- IndexNow (https://www.indexnow.org/documentation) ---------------------------------------
INDEXNOW_URLS: Final = 10_000
"""URLs in one POST."""
INDEXNOW_COOLDOWN: Final = 600
"""Seconds before the same URL is sent again (text of the 429 answer)."""
INDEXNOW_KEY: Final = (8, 128)
"""Characters of a key, each of a-z A-Z 0-9 and -."""

# --- Search Console API (https://developers.google.com/webmaster-tools/limits) ----------------
SEARCH_CONSOLE_PACE: Final = 0.3
"""Seconds from request to request: 200 a minute and user."""

# --- S3 (https://docs.aws.amazon.com/AmazonS3/latest/userguide/, upload-objects and object-keys) ----
PUT_BYTES: Final = 5 * 1024**3
"""Bytes of one PutObject."""
KEY_BYTES: Final = 1_024
"""Bytes of a key in UTF-8."""

# --- What is believed of a date --------------------------------------------------------------
LASTMOD_FIRST_YEAR: Final = 1990
"""No page is older than the web; an earlier lastmod is a placeholder."""

CLOCK_SKEW: Final = 600
"""Seconds by which a run's clock may be behind that of the run that published last: machines that are kept in time
differ by less than one, one that has just woken up by minutes. S3 refuses requests that are off by 15 minutes
(RequestTimeTooSkewed), so that two machines which both publish there are hardly further apart."""

CLOCK_OFF: Final = 3_600
"""Seconds by which a run's clock may differ from that of the store of its state. An hour is more than any clock that is
kept in time is off, and what a wrong zone makes of it at the least."""

# --- Sizes we work in ------------------------------------------------------------------------
FETCH_ROWS: Final = 500_000
"""Rows that a database may be asked for at a time, at most."""
BATCH_ROWS: Final = 131_072
BATCH_BYTES: Final = 128 * 1024 * 1024
GATHERED_ROWS: Final = 25_000
GATHERED_BYTES: Final = 16 * 1024 * 1024
"""Rows and bytes of small batches that go through the rules together."""
STAGED_ROWS: Final = 65_536
STAGED_BYTES: Final = 16 * 1024 * 1024
"""A batch of a database's rows, and of staged rows: a split may hold all rows of a table, and few of them at a time."""
SPLIT_ROWS: Final = 2_000_000
SPLIT_BYTES: Final = 256 * 1024 * 1024
SPLITS_PER_SECTION: Final = 256
RESIDENT_BYTES: Final = 512 * 1024 * 1024
"""Rows on their way to render that a run of the command keeps in memory; those of larger sections are written to
files."""
WINDOW_ROWS: Final = 450_000
WINDOW_BYTES: Final = 128 * 1024 * 1024
GROUP_ROWS: Final = 4_000_000
GROUPS_PER_SECTION: Final = 256
CSV_VALUE_LINES: Final = 1_000
"""Line breaks in one value of a CSV. What fits a description is far below; above it a quote was never closed."""
EXPORT_COLUMNS: Final = 4_096
"""Columns of an export. A table of MySQL has as many at most
(https://dev.mysql.com/doc/refman/8.4/en/column-count-limit.html)."""
PARQUET_VALUE_BYTES: Final = 128 * 1024 * 1024
"""Bytes of a column that a row of a Parquet row group has on average, at most: no column of a page is as wide."""
JSON_LINE_BYTES: Final = 16 * 1024 * 1024
"""A line of JSON. A document of MongoDB is as long at most (https://www.mongodb.com/docs/manual/reference/limits/)."""
JSON_KEYS: Final = 10_000
"""Keys of an object within a line of JSON. Arrow's time grows with their square: these take a fifth of a second."""
JSON_LEVELS: Final = 50
"""Levels of lists and objects in a line of JSON. Arrow's messages hold a schema of 64."""
SHARE_FROM: Final = 20
"""URLs from which on a share of them means something to a gate."""
PAGES_SAMPLE: Final = 1_000
"""New pages of a section that are visited at most: a receipt holds so many addresses."""
SAME_DATE_FROM: Final = 1_000
"""Pages that get one and the same lastmod from which on that is no chance: of fewer, an editor may have saved them."""
SAME_HOUR_WARNED: Final = 0.5
"""Share of a section's dated pages that get a new lastmod within one hour, beyond which a run warns if its site file
sets no limit. Editors don't change half of a large section within an hour; a job that loads a table does."""
ROWS_READ_FROM: Final = 1_000
"""Rows read from which on a share of them means something beside the rows that a mirror carries."""
BLANK_BYTES: Final = 64 * 1024 * 1024
"""Bytes of blank lines in a row beyond which an export of text is refused."""
