"""Limits of the protocols, each with its source, and sizes that this package works in."""

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
"""Files per index. Search Console has refused more, although the protocol allows them."""
INDEXES_PER_SITE: Final = 500
"""Index files that Search Console accepts for one site."""
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
"""Bytes of robots.txt that Google reads (RFC 9309 demands at least 500 KiB)."""

PUBLIC_ROBOTS_BYTES: Final = 8 * 1024 * 1024
"""Bytes of a site's own robots.txt that we read, far more than Google reads."""

# --- IndexNow (https://www.indexnow.org/documentation) ---------------------------------------
INDEXNOW_URLS: Final = 10_000
"""URLs in one POST."""
INDEXNOW_COOLDOWN: Final = 600
"""Seconds before the same URL is sent again (text of the 429 answer)."""
INDEXNOW_KEY: Final = (8, 128)
"""Characters of a key, each of a-z A-Z 0-9 and -."""

# --- Search Console API (https://developers.google.com/webmaster-tools/limits) ----------------
SEARCH_CONSOLE_PACE: Final = 0.3
"""Seconds between requests: 200 per minute and user."""

# --- S3 (https://docs.aws.amazon.com/AmazonS3/latest/userguide/, upload-objects and object-keys) ----
PUT_BYTES: Final = 5 * 1024**3
"""Bytes of one PutObject."""
KEY_BYTES: Final = 1_024
"""Bytes of a key in UTF-8."""

# --- Limits of plausible dates --------------------------------------------------------------
LASTMOD_FIRST_YEAR: Final = 1990
"""First year of a plausible lastmod. Earlier ones are placeholders, because no page is older than the web."""

CLOCK_SKEW: Final = 600
"""Seconds that a run's clock can be behind the clock of the last publishing run.

Synchronized machines differ by less than a second, a machine that has just woken up by minutes. S3 refuses requests
that differ by 15 minutes (RequestTimeTooSkewed), so two machines that publish there differ by less.
"""

CLOCK_OFF: Final = 3_600
"""Seconds that a run's clock can differ from the clock of the state's storage.

Synchronized clocks differ by less than an hour, and a wrong time zone shifts a clock by at least an hour.
"""

# --- Sizes we work in ------------------------------------------------------------------------
FETCH_ROWS: Final = 500_000
"""Maximum rows to request from a database at a time."""
BATCH_ROWS: Final = 131_072
BATCH_BYTES: Final = 128 * 1024 * 1024
GATHERED_ROWS: Final = 25_000
GATHERED_BYTES: Final = 16 * 1024 * 1024
"""Rows and bytes of small batches that are processed together."""
STAGED_ROWS: Final = 65_536
STAGED_BYTES: Final = 16 * 1024 * 1024
"""Rows and bytes of a batch of database rows or staged rows. A split can be a whole table, but memory is limited."""
SPLIT_ROWS: Final = 2_000_000
SPLIT_BYTES: Final = 256 * 1024 * 1024
SPLITS_PER_SECTION: Final = 256
RESIDENT_BYTES: Final = 512 * 1024 * 1024
"""Bytes of shuffled rows that a run of the command keeps in memory. Larger sections are written to files."""
WINDOW_ROWS: Final = 450_000
WINDOW_BYTES: Final = 128 * 1024 * 1024
GROUP_ROWS: Final = 4_000_000
GROUPS_PER_SECTION: Final = 256
CSV_LINE_BYTES: Final = 4 * 1024 * 1024
"""Bytes that no line of CSV has which the parser can read: twice its blocks."""
CSV_VALUE_LINES: Final = 1_000
"""Line breaks in one CSV value. A description has far fewer; more mean that a quote was never closed."""
EXPORT_COLUMNS: Final = 4_096
"""Columns of an export.

It is the maximum of a MySQL table (https://dev.mysql.com/doc/refman/8.4/en/column-count-limit.html).
"""
PARQUET_VALUE_BYTES: Final = 128 * 1024 * 1024
"""Maximum average bytes per row of a column in a Parquet row group. No column of a page is that wide."""
JSON_LINE_BYTES: Final = 16 * 1024 * 1024
"""Bytes of a line of JSON.

It is the maximum of a MongoDB document (https://www.mongodb.com/docs/manual/reference/limits/).
"""
JSON_KEYS: Final = 10_000
"""Keys of an object in a line of JSON. Arrow's time grows with their square; these take a fifth of a second."""
JSON_LEVELS: Final = 50
"""Levels of lists and objects in a line of JSON. Arrow's messages support a schema of 64."""
SHARE_FROM: Final = 20
"""URLs from which percentage gates apply."""
PAGES_SAMPLE: Final = 1_000
"""Maximum new pages of a section to visit, because a task result stores their addresses."""
SAME_DATE_FROM: Final = 1_000
"""Pages with the same lastmod that can't be a coincidence. An editor can save fewer pages at once."""
SAME_HOUR_WARNED: Final = 0.5
"""Share of a section's dated pages with new lastmods in one hour, above which a run warns if the site file sets no
limit.

Editors don't change half of a large section within an hour, but a job that loads a table does.
"""
ROWS_READ_FROM: Final = 1_000
"""Rows read from which a share of them is significant compared with rows carried by a mirror."""
BLANK_BYTES: Final = 64 * 1024 * 1024
"""Bytes of blank lines in a row beyond which an export of text is refused."""
