"""Render rows as sitemaps, indexes, text files and feeds, and compress them.

| module | content |
|---|---|
| `urlset` | `<url>` entries of whole columns, and the files that are cut from them |
| `index` | the sitemap index |
| `text` | one URL a line |
| `feeds` | RSS 2.0 with Media RSS, and Atom 1.0 |
| `escape` | escaping for XML, for columns and single strings |
| `compress` | reproducible gzip |
"""
