"""Rows → bytes: sitemaps, indexes, text files and feeds, and their compression.

| module | gives |
|---|---|
| `urlset` | `<url>` entries of whole columns, and the files that are cut out of them |
| `index` | the sitemap index |
| `text` | one URL a line |
| `feeds` | RSS 2.0 with Media RSS, and Atom 1.0 |
| `escape` | text made safe for XML, columns and single strings |
| `compress` | gzip that gives the same bytes for the same input |
"""
